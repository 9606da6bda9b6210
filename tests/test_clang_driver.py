"""Programs built and run: control flow, threads, error codes, sanitizers, compilers."""

import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from luminal.ir.dtypes import f16, f32, i32, i64
from luminal.ir.errors import TimeLimit, ToolError, UsageError
from luminal.ir.expr import ZERO, call, cast, const, load, make, size, var, where
from luminal.ir.graph import Port, Size
from luminal.ir.program import Array, Assign, Barrier, Call, Define, Fail, For, Function, If, Param, Program, Region, Scratch, StoreTo, While
from luminal.runtimes import Rendered, find
from luminal.runtimes.clang.compiler import Compiler
from processes import alive, waited

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

N = size("N")
i, j = var("i"), var("j")
PARAMS = (Param("X", i32, True, True), Param("Y", i32, True), Param("N", i64))
PORTS = (Port("X", i32, (N,), "in"), Port("Y", i32, (N,), "out"))
x = lambda at: load("X", i32, at)  # noqa: E731


def program(name, body, entry=None, **changes):
    fields = {
        "sizes": (Size("N"),),
        "ports": PORTS,
        "functions": (Function("kernel", PARAMS, body),),
        "entry": entry or (Call("kernel", ("X", "Y", N)),),
    }
    return Program(name, **(fields | changes))


def build(tmp_path, p, kind="shared", **config):
    runtime = find("clang")
    target = runtime.target(None, {"CC": "gcc"} | config, False)
    path = tmp_path / f"{p.name}.{kind}"
    rendered = runtime.render(p, target, "lm_")
    runtime.build(rendered, target, kind, path, 240, [])
    return runtime.load(path, p, target, "lm_") if kind == "shared" else rendered


def run(tmp_path, p, count, **config):
    xs = (np.arange(count) * 7 - 30).astype("i4")
    ys = np.zeros(count, "i4")
    return build(tmp_path, p, **config).call({"X": xs, "Y": ys}, {"N": count}), xs, ys


def test_control_flow(tmp_path):
    """The number of steps of the Collatz walk, by while, if and var; written backwards."""
    n, steps = var("n", i32), var("steps", i32)
    odd = call("bit_and", n, const(1, i32)).eq(const(1, i32))
    body = (
        For("i", N - 1, const(-1), (
            Define("n", i32, call("max", call("abs", x(i)), const(1, i32)), True),
            Define("steps", i32, const(0, i32), True),
            While(call("less_than", const(1, i32), n), (
                If(odd, (Assign("n", call("add", call("mul", n, const(3, i32)), const(1, i32))),), (Assign("n", call("shift_right", n, const(1, i32))),)),
                Assign("steps", call("add", steps, const(1, i32))),
            )),
            StoreTo("Y", i, steps),
        ), const(-1)),
    )  # fmt: skip

    def collatz(v):
        v, count = max(abs(int(v)), 1), 0
        while v > 1:
            v, count = (3 * v + 1 if v & 1 else v >> 1), count + 1
        return count

    code, xs, ys = run(tmp_path, program("collatz", body), 50)
    assert code == 0 and list(ys) == [collatz(v) for v in xs]


def team_program():
    """Y = reversed(X), through shared memory, with a barrier between the two halves and a private copy in each thread."""
    body = (
        Scratch("S", i32, N),
        Region((
            Scratch("P", i32, N + 1),
            For("i", ZERO, N, (StoreTo("P", i, x(i)),)),
            For("i", ZERO, N, (StoreTo("S", N - 1 - i, load("P", i32, i)),), pragma="workshare"),
            Barrier(),
            For("i", ZERO, N, (Array("one", i32, 1), StoreTo("one", ZERO, load("S", i32, i)), Scratch("Q", i32, const(4)), StoreTo("Q", const(3), load("one", i32, ZERO)),
                               StoreTo("Y", i, load("Q", i32, const(3)))), pragma="workshare"),
        ), N.lt(3)),
    )  # fmt: skip
    return program("team", body)


@pytest.mark.parametrize("omp", [True, False])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_teams(tmp_path, omp, count):
    code, xs, ys = run(tmp_path, team_program(), count, OMP=omp)
    assert code == 0 and np.array_equal(ys, xs[::-1])


def sticky_program(pragma):
    """Y = X, with code 3 where an element is negative."""
    guarded = If(call("less_than", x(i), const(0, i32)), (Fail(3),), (StoreTo("Y", i, x(i)),))
    body = (Scratch("S", i32, N + 1), For("i", ZERO, N, (guarded,), pragma=pragma))
    return program(f"sticky{pragma}", body)


@pytest.mark.parametrize("pragma", ["", "parallel"])
def test_failing(tmp_path, pragma):
    code, xs, ys = run(tmp_path, sticky_program(pragma), 100)
    assert code == 3
    if pragma:
        # the sticky flag: what is right is still done
        assert np.array_equal(ys, np.maximum(xs, 0))


def test_a_callee_that_fails_in_a_region(tmp_path):
    leaf = Function("leaf", PARAMS, (If(call("less_than", x(ZERO), const(0, i32)), (Fail(3),)), StoreTo("Y", ZERO, x(ZERO))))
    body = (Region((For("i", ZERO, N, (Call("leaf", ("X", "Y", N)),), pragma="workshare"),)),)
    p = program("nested", body, functions=(leaf, Function("kernel", PARAMS, body)))
    library = build(tmp_path, p)
    ys = np.zeros(4, "i4")
    assert library.call({"X": np.array([5, 1, 1, 1], "i4"), "Y": ys}, {"N": 4}) == 0 and ys[0] == 5
    assert library.call({"X": np.array([-5, 1, 1, 1], "i4"), "Y": ys}, {"N": 4}) == 3


def workspace_program():
    call_ = lambda a, b: Call("copy", (a, b, N))  # noqa: E731
    copy = Function("copy", PARAMS, (For("i", ZERO, N, (StoreTo("Y", i, x(i)),)),))
    return program(
        "chain",
        (),
        (If(N.lt(0), (Fail(2),)), Scratch("T", i32, N), Scratch("U", i32, N * N), call_("X", "T"), call_("T", "U"), call_("U", "Y")),
        functions=(copy,),
    )


@pytest.mark.parametrize("family", ["clang", "zig"])
def test_no_flag_behind_it_turns_joining_on_again(family):
    """Of -O and -fno-slp-vectorize clang heeds the last."""
    runtime = find("clang")
    flags = runtime.flags(Compiler(("cc",), family, ""), runtime.target("x86-64-v3", {"OMP": False}, True))
    (level,) = (f for f in flags if f.startswith("-O"))
    assert flags.index(level) < flags.index("-fno-slp-vectorize")


@pytest.mark.parametrize(("family", "given"), [("clang", True), ("zig", False), ("gcc", False)])
def test_only_clang_is_told_to_forget_while_loops_unroll_and_to_carry_no_addresses(family, given):
    """gcc has no such flags, and zig is not asked; every program that is built here with clang has them."""
    runtime = find("clang")
    flags = runtime.flags(Compiler(("cc",), family, ""), runtime.target("x86-64-v3", {"OMP": False}, True))
    assert all((" ".join(flags).count(f"-mllvm -{flag}") == 1) == given for flag in ("forget-scev-loop-unroll", "enable-pre=0"))


@pytest.mark.parametrize(
    ("family", "target", "vector", "tuned"),
    [("gcc", "native", 64, True), ("gcc", "native", 32, False), ("gcc", "x86-64-v4", 64, False), ("clang", "native", 64, False)],
)
def test_gcc_does_not_load_again_for_each_row(family, target, vector, tuned):
    """By the costs of a machine that it knows: those that it takes for an unknown one make loads free."""
    runtime = find("clang")
    found = runtime.flags(Compiler(("cc",), family, ""), runtime.target(target, {"OMP": False, "VECTOR": vector}, True))
    assert ("-mtune=skylake-avx512" in found) == tuned


def copies_program():
    """Two pieces of memory of the call's own, of one size: what is given back together is what the C library returns to the system."""
    step = lambda to, value: For("i", ZERO, N, (StoreTo(to, i, value),))  # noqa: E731
    body = (Scratch("T", i32, N), Scratch("U", i32, N), step("T", x(i)), step("U", load("T", i32, i)), step("Y", load("U", i32, i)))
    return program("copies", body)


def test_scalars_by_value(tmp_path):
    kernel = Function(
        "k", (Param("a", f16), Param("b", f32), Param("Y", f32, True)), (StoreTo("Y", ZERO, call("mul", cast(f32, var("a", f16)), var("b", f32))),)
    )
    ports = (Port("a", f16, (), "scalar"), Port("Y", f32, (const(1),), "out"), Port("b", f32, (), "scalar"))
    p = Program("scalars", (), ports, (kernel,), (Call("k", (var("a", f16), var("b", f32), "Y")),))
    y = np.zeros(1, "f4")
    assert build(tmp_path, p).call({"a": 1.5, "b": -2, "Y": y}, {}) == 0 and y[0] == -3


def vectors_program():
    """A masked, a gathered and a folded read: guarded loads touch nothing outside."""
    V, at = i32.vector(8), i64.vector(8)
    lanes = call("add", make("broadcast", at, (i,)), make("ramp", at))
    inside = call("less_than", lanes, make("broadcast", at, (N,)))
    zero = make("broadcast", V, (const(0, i32),))
    body = (
        For("i", ZERO, N, (
            Define("v", V, where(inside, make("vload", V, (i,), "X"), zero)),
            Define("w", V, where(inside, make("gather", V, (call("mod", lanes, make("broadcast", at, (call("max", N, const(1)),))),), "X"), zero)),
            Define("s", i32, make("fold", i32, (call("max", var("v", V), var("w", V)),), "add")),
            StoreTo("Y", i, call("add", var("s", i32), make("extract", i32, (var("v", V),), 0))),
        ), const(8)),
    )  # fmt: skip
    return program("vectors", body)


def test_guarded_vector_loads(tmp_path):
    code, xs, ys = run(tmp_path, vectors_program(), 21)
    padded = np.concatenate([xs, np.zeros(3, "i4")])
    assert code == 0 and all(ys[k] == padded[k : k + 8].sum() + xs[k] for k in range(0, 21, 8))


MAIN = """
#include "{name}.h"
#include <stdlib.h>
int main(void) {{
  for (int64_t n = 0; n < 40; n++) {{
    int32_t *x = malloc(n * 4), *y = malloc(n * 4);
    for (int64_t k = 0; k < n; k++) x[k] = (int32_t)(k * 7 - 30);
    int32_t code = lm_{name}(x, y, n);
    free(x), free(y);
    if (code != 0 && code != 3) return code;
  }}
  return 0;
}}
"""


@pytest.mark.parametrize(
    "p",
    [team_program(), sticky_program(""), sticky_program("parallel"), workspace_program(), copies_program(), vectors_program()],
    ids=lambda p: p.name,
)
def test_sanitizers_find_nothing(tmp_path, p):
    """Address, leak and undefined-behaviour sanitizers over buffers that end exactly where they end."""
    rendered = build(tmp_path, p, "object", SANITIZE="all")
    (tmp_path / f"{p.name}.h").write_text(rendered.header)
    (tmp_path / "main.c").write_text(MAIN.format(name=p.name))
    flags = ["-fsanitize=address,undefined", "-fopenmp", "-g"]
    subprocess.run(["gcc", *flags, "main.c", f"{p.name}.object", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_bytes_do_not_depend_on_the_folder(tmp_path):
    found = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        build(tmp_path / place, team_program(), "static")
        found.append((tmp_path / place / "team.static").read_bytes())
    assert found[0] == found[1] and found[0].startswith(b"!<arch>")


def test_what_the_compiler_says_is_shown(tmp_path):
    runtime = find("clang")
    target = runtime.target("x86-64-v3", {"CC": "gcc"}, False)
    log = []
    with pytest.raises(ToolError) as caught:
        runtime.build(Rendered("int f( {", "", ".c"), target, "shared", tmp_path / "x.so", 60, log)
    assert "kernel.c:1" in str(caught.value) and "gcc" in str(caught.value) and "-march=x86-64-v3" in log[0]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="cubin"):
        runtime.build(Rendered("", "", ".c"), target, "cubin", tmp_path / "x", 60, log)


def test_a_missing_compiler(tmp_path, monkeypatch):
    runtime = find("clang")
    target = runtime.target("x86-64-v3", {"CC": "no-such-cc -m64"}, False)
    with pytest.raises(ToolError, match="no-such-cc") as caught:
        runtime.build(Rendered("", "", ".c"), target, "shared", tmp_path / "x.so", 60, [])
    assert caught.value.missing


def test_a_compiler_that_hangs_is_ended_with_its_children(tmp_path):
    script = tmp_path / "slow-gcc"
    script.write_text(
        '#!/bin/sh\ncase "$1" in --version) echo gcc slow; exit;; -print*) echo none; exit;; esac\n'
        f"sleep 300 &\necho $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child\nwait\n"
    )
    script.chmod(0o755)
    runtime = find("clang")
    target = runtime.target("x86-64-v3", {"CC": str(script)}, False)
    with pytest.raises(TimeLimit, match="longer than 2 s"):
        runtime.build(Rendered("", "", ".c"), target, "shared", tmp_path / "x.so", 2, [])
    child = int((tmp_path / "child").read_text())
    waited(lambda: not alive(child))


def test_calls_from_many_threads(tmp_path):
    library = build(tmp_path, team_program())
    wrong = []

    def work(seed):
        xs, ys = np.random.default_rng(seed).integers(0, 99, 5000).astype("i4"), np.zeros(5000, "i4")
        wrong.extend(k for k in range(20) if library.call({"X": xs, "Y": ys}, {"N": 5000}) or not np.array_equal(ys, xs[::-1]))

    team = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not wrong


def test_times_and_bound_calls(tmp_path):
    library = build(tmp_path, team_program())
    data = {"X": np.arange(8, dtype="i4"), "Y": np.zeros(8, "i4")}
    bound = library.bind(data, {"N": 8})
    assert bound() == 0 and list(data["Y"]) == [7, 6, 5, 4, 3, 2, 1, 0]
    times = library.time(data, {"N": 8}, 5)
    assert len(times) == 5 and all(0 < t < 1 for t in times)


OTHERS = [c for c in ("clang", *(f"clang-{v}" for v in range(22, 13, -1))) if shutil.which(c)][:1]
OTHERS += [f"{sys.executable} -m ziglang cc"] if find_spec("ziglang") else []

CHILD = """
import sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[1])
import test_clang_driver as t
for p in (t.team_program(), t.vectors_program(), t.sticky_program("parallel")):
    code, xs, ys = t.run(Path(sys.argv[2]), p, 100, CC=sys.argv[3])
    assert code == (3 if p.name.startswith("sticky") else 0), (p.name, code)
    if p.name == "team":
        assert (ys == xs[::-1]).all()
"""


@pytest.mark.parametrize("cc", OTHERS)
def test_other_compilers(tmp_path, cc):
    """In a child process: two OpenMP runtimes in one are more than LLVM's allows."""
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path), cc]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("clang-14") is None and shutil.which("clang") is None, reason="no clang")
def test_several_objects_are_those_of_one_by_one(tmp_path: Path) -> None:
    clang = find("clang")
    target = clang.target("x86-64-v3", {"CC": next(c for c in ("clang", "clang-14") if shutil.which(c))}, True)
    texts = ["int f(int x) { return x + 1; }\n", "int g(void) { return x; }\n", "#include <math.h>\nfloat h(float x) { return sqrtf(x); }\n"]

    def made(chosen: list[str]) -> tuple[list[Any], list[str]]:
        log: list[str] = []
        return clang.objects([Rendered(t, "", ".c") for t in chosen], target, [tmp_path / f"{k}.o" for k in range(len(chosen))], None, log), log

    wrong, log = made(texts[::2])
    assert wrong == [None, None] and len(log) == 1 and "-cc1" in log[0]
    for k, text in enumerate(texts[::2]):
        clang.build(Rendered(text, "", ".c"), target, "object", tmp_path / "alone.o", None, [])
        assert (tmp_path / f"{k}.o").read_bytes() == (tmp_path / "alone.o").read_bytes()
    for file in tmp_path.iterdir():
        file.unlink()
    wrong, _ = made(texts)  # a mistake in one is that one's
    assert [type(w) for w in wrong] == [type(None), ToolError, type(None)] and "undeclared identifier" in str(wrong[1])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.o", "2.o"]
