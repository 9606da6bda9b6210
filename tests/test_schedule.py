"""The automatic schedule of every kernel in tests/kernels keeps the meaning, at sizes around the blocks, without a race; and what it finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from luminal.ir.dtypes import f32
from luminal.ir.errors import SourceError
from luminal.ir.expr import call, const, load, size, var
from luminal.ir.graph import Size
from luminal.ir.interpret.kernel import run
from luminal.ir.kernel import Alloc, If, Loop, Module, Store, statements, substitute_block
from luminal.ir.record import replace
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.ir.walks import substitute
from luminal.passes.schedule import Facts, cost, replay, schedule, unique
from luminal.passes.schedule.script import apply
from luminal.passes.schedule.steps import chains
from luminal.passes.schedule.tree import StepError, loads_in
from scheduling import CPU, GPU, KERNELS, arrays, module, same, whole


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_cpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options()))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_where_every_result_is_streamed(name: str) -> None:
    """With a last cache of nothing loops begin at lines; the interpreter says where these are."""
    before = module(name)
    same(before, schedule(before, replace(CPU, vector_bytes=32, l3=2), Options()))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_strictly(name: str) -> None:
    before = module(name)
    same(before, schedule(before, CPU, Options(strict=True)))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_on_a_gpu(name: str) -> None:
    before = module(name)
    same(before, schedule(before, GPU, Options(level=0)))


@pytest.mark.parametrize("name", KERNELS)
def test_the_recorded_script_replays(name: str) -> None:
    before = module(name)
    for target in (CPU, GPU):
        for old, new in zip(before.kernels, schedule(before, target, Options()).kernels, strict=True):
            again = replay(unique(old), Facts.of(before), new.schedule)
            assert replace(new, notes=()) == replace(again, notes=())


@pytest.mark.parametrize("name", ["gemm", "softmax", "transpose"])
def test_what_is_scheduled_stays(name: str) -> None:
    once = schedule(module(name), CPU, Options())
    assert schedule(once, CPU, Options()) == once
    by_hand = once.with_kernels(tuple(replace(k, schedule=()) for k in once.kernels))
    assert schedule(by_hand, CPU, Options()) == by_hand or name == "transpose"


def test_variants_that_are_put_together_take_no_more_steps() -> None:
    before = module("gemm")
    (kernel,) = schedule(before, CPU, Options()).kernels
    assert "variant" in kernel.schedule
    with pytest.raises(StepError, match="put together already"):
        apply(kernel, Facts.of(before), "serial i")


def test_low_levels_leave_a_cpu_kernel_alone() -> None:
    before = module("gemm")
    assert schedule(before, CPU, Options(level=1)) == before


@pytest.mark.parametrize("name", ["gemm", "matmul_bias", "gemm_scaled", "gemm_transposed", "gemm_column_major", "gram", "gemm_i32", "gemm_f16", "gemm_f64",
                                  "max_plus", "batched", "linear", "two_reductions", "prologue", "convolution", "distances"])  # fmt: skip
def test_reuse_is_found_whatever_the_operation(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert kernel.schedule[-1].startswith("region"), kernel.notes
    assert len([line for line in kernel.schedule if line.startswith("variant")]) in (0, 2, 3, 4, 5, 6)


def test_how_deep_panels_are_and_whether_they_are_asked_for_follows_from_the_caches() -> None:
    """Where the second cache holds deeper panels partial sums come and go less often; where the last cache is far away the next panel is on its way; uneven cores take what is left over on both machines."""
    near, far = (schedule(module("gemm"), t, Options()).kernels[0].schedule for t in (AVX512, replace(AVX512, l1=48 << 10, l2=2 << 20, l3=105 << 20)))
    near, far = (steps[[k for k, line in enumerate(steps) if line == "variant"][-1] :] for steps in (near, far))
    assert "split p 512" in near and not any(line.startswith(("prefetch_panel", "prefetch_tile")) for line in near)
    assert "split p 1024" in far and {"prefetch_panel B.packed p.1 i.0.1 j.0", "prefetch_tile C p.1"} <= set(far)
    assert near[-1] == far[-1] == "region queue=i.0.0"


def test_panels_of_rows_that_lie_side_by_side_are_copied_by_the_first_lanes_of_a_vector() -> None:
    """A transposed row operand, tiles of 6 rows where a vector has 8 lanes: whole panels and one that is cut off, and more than one panel side by side."""
    text = KERNELS["gemm"].read_text(encoding="utf-8").replace("A: f32[M, K]", "A: f32[K, M]").replace("A[i, p]", "A[p, i]")
    before = read(text)
    assert isinstance(before, Module)
    after = schedule(before, Target("clang", "mid", "mid", vector_bytes=32, vector_registers=16, l1=512, l2=2048, cores=2, threads=True), Options())
    steps = after.kernels[0].schedule
    at = steps.index("split i.1.b.s 8 tail=pad")
    assert steps[at - 2 : at + 2] == ("reorder p.1.b i.0.1.s i.1.b.s", "interior i.1.b.s", "split i.1.b.s 8 tail=pad", "vectorize i.1.b.s.1")
    sizes = {"M": 131, "K": 9, "N": 67}
    expected, found = arrays(before, sizes, np.random.default_rng(0)), arrays(before, sizes, np.random.default_rng(0))
    assert run(before, expected, sizes, exact=True) == run(after, found, sizes, exact=True, check=True, seed=1) == 0
    np.testing.assert_allclose(found["C"], expected["C"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "width", "registers", "squares"),
    [("f64", 64, 32, ["8", "8"]), ("f64", 32, 16, ["4"]), ("f32", 16, 32, ["4"])],
    ids=("8+6", "4+2", "12+2"),
)
def test_panels_of_rows_that_are_not_whole_squares_are_turned_over_as_well(dtype: str, width: int, registers: int, squares: list[str]) -> None:
    """What whole squares leave over is one of which the first lanes are stored; two rows are copied element by element."""
    before = read(KERNELS["gemm"].read_text(encoding="utf-8").replace("f32", dtype))
    assert isinstance(before, Module)
    target = Target("clang", "mid", "mid", vector_bytes=width, vector_registers=registers, l1=512, l2=2048, cores=2, threads=True)
    after = schedule(before, target, Options())
    steps = after.kernels[0].schedule
    packing = steps[steps.index(next(x for x in steps if x.startswith("stage A") and "at=i.0.0" in x)) :]
    assert [x.split()[-1] for x in packing if x.startswith("vectorize i.1.b.s")] == [f"i.1.b.s.{k}" for k in ("1", "t.0_i.1.b.s.t.1")][: len(squares)]
    assert [x.split()[2] for x in packing if x.startswith("split i.1.b.s")] == squares
    for m, k in ((131, 21), (139, 64), (128, 5)):
        sizes = {"M": m, "K": k, "N": 67}
        expected, found = arrays(before, sizes, np.random.default_rng(0)), arrays(before, sizes, np.random.default_rng(0))
        assert run(before, expected, sizes, exact=True) == run(after, found, sizes, exact=True, check=True, seed=1) == 0
        np.testing.assert_allclose(found["C"], expected["C"], rtol=1e-9, atol=1e-9)


def test_what_is_multiplied_twice_is_packed_once() -> None:
    """Panels of what a `let` reads, turned over where they lie along the reduction; the difference is taken in the register tile."""
    (kernel,) = schedule(module("distances"), AVX512, Options()).kernels
    columns, strips, *others = (line for line in kernel.schedule if line.startswith("variant"))
    assert (
        columns.startswith("variant N <= 16 & ")
        and "96 <= M & " in strips
        and others == ["variant M <= 8", "variant M <= 32", "variant M <= 128", "variant"]
    )
    assert [line.split()[1] for line in kernel.schedule[: kernel.schedule.index(others[0])] if line.startswith("stage")] == ["Y", "Y"], (
        "rows stay where they are"
    )
    middle, last = kernel.schedule.index("variant M <= 128"), kernel.schedule.index("variant")
    for part, turned in ((kernel.schedule[middle:last], 1), (kernel.schedule[last:], 2)):  # panels of half a vector are not turned over
        assert [line.split()[1] for line in part if line.startswith("stage")] == ["Y", "X"]
        assert [line.split()[-2:] for line in part if line.startswith("interior p")] == [["fixed=1", "clamps=1"]] * turned


def test_long_chains_are_taken_apart() -> None:
    """An exponential of what is computed by a long function: two loops over a strip; what a condition may leave out stays where it is."""
    (kernel,) = schedule(module("chain"), CPU, Options()).kernels
    assert [line for line in kernel.schedule if line.split()[0] in ("hold", "fission")] == ["hold i_j.1 exp 0", "fission i_j.1"]
    (kernel,) = schedule(module("pointwise"), CPU, Options()).kernels
    assert not any(line.startswith("hold") for line in kernel.schedule)


@pytest.mark.pure
def test_long_chains_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a value is made of is not walked again for each value above it."""
    asked: list[str] = []
    monkeypatch.setattr(chains, "operation", lambda op: asked.append(op) or 30.0)
    value = load("X", f32, var("i"))
    for _ in range(300):
        value = call("sin", value)
    loop = Loop("i", const(0), size("N"), (Store("Y", (var("i"),), value),))
    assert chains.candidates(loop) == [("sin", k) for k in reversed(range(299))]
    assert len(asked) <= 3 * 300


@pytest.mark.parametrize(("rounds", "held"), [(1, [("cos", 0), ("log", 0)]), (20, [])])
def test_what_long_results_share_is_not_computed_in_each_of_their_loops(rounds: int, held: list[tuple[str, int]]) -> None:
    """Two of the numbers that a generator draws at once, of so many rounds."""
    drawn = load("X", f32, var("i"))
    for _ in range(rounds):
        drawn = drawn * drawn + const(1.0, f32)
    value = call("exp", call("log", drawn) * call("cos", drawn))
    loop = Loop("i", const(0), size("N"), (Store("Y", (var("i"),), value),))
    assert chains.candidates(loop) == held


@pytest.mark.parametrize(("name", "order"), [("convolution", "o.0.0 g h.0"), ("convolution_padded", "j.0 j.1.0.0 i k.0 l.0")])
def test_threads_have_panels_of_their_own(name: str, order: str) -> None:
    """What the windows meet is shared out first: groups, blocks of panels; then images, and blocks of rows."""
    (kernel,) = schedule(module(name), AVX512, Options()).kernels
    assert any(line.startswith(f"reorder {order} ") for line in kernel.schedule)


def test_what_is_read_in_place_needs_no_panels() -> None:
    """A contraction in eight variants; where an operand's vectors are not consecutive, panels are packed whatever the sizes, and what is dear is computed while packing."""
    variants = {name: [line for line in schedule(module(name), AVX512, Options()).kernels[0].schedule if line.startswith("variant")]
                for name in ("gemm", "gemm_scaled", "gemm_transposed", "gemm_column_major", "dear_prologue")}  # fmt: skip
    eight = [
        "variant N <= 16 & 64 <= K & N * 8 <= M",
        "variant 32 <= K & 7340032 <= K * M * N & (96 <= M & (K <= 512 & K * M * N <= 134217728 | M <= 768 & N <= M * 2) | 512 <= K & 48 <= M & N <= M * 4 & M * N <= 131072)",
        "variant K <= 16 & 17 <= N & 8388609 <= K * M * N",
        "variant M <= 16 & (M <= 5 | 196609 <= K * N)",
        "variant (240 <= N | N <= 16 | 16 <= (N + 47) % 48) & (K * N <= 196608 | 16 <= M & M <= 128 & K * N <= 1048576)",
        "variant K * N <= 196608 | 16 <= M & M <= 128 & K * N <= 1048576",
        "variant M <= 128",
        "variant",
    ]
    assert variants == {
        "gemm": eight,
        "gemm_scaled": [
            eight[0],
            "variant 96 <= M & 32 <= K & 7340032 <= K * M * N & (K <= 512 & K * M * N <= 134217728 | K <= 512 & M <= 768 & N <= M * 2)",
            *eight[2:],
        ],
        "gemm_transposed": [
            "variant 32 <= K & 7340032 <= K * M * N & (96 <= M & K <= 512 & K * M * N <= 67108864 | 512 <= K & 48 <= M & N <= M * 4 & M * N <= 131072)",
            "variant M <= 128",
            "variant",
        ],
        "gemm_column_major": [
            "variant M <= 16 & 64 <= K & M * 8 <= N",
            "variant 32 <= K & 7340032 <= K * M * N & (96 <= N & (K <= 512 & K * M * N <= 134217728 | N <= 768 & M <= N * 2) | 512 <= K & 48 <= N & M <= N * 4 & M * N <= 131072)",
            "variant K <= 16 & 17 <= M & 8388609 <= K * M * N",
            "variant N <= 16 & (N <= 5 | 196609 <= K * M)",
            "variant (240 <= M | M <= 16 | 16 <= (M + 47) % 48) & (K * M <= 196608 | 16 <= N & N <= 128 & K * M <= 1048576)",
            "variant K * M <= 196608 | 16 <= N & N <= 128 & K * M <= 1048576",
            "variant N <= 128",
            "variant",
        ],
        "dear_prologue": ["variant M <= 128", "variant"],
    }


@pytest.mark.parametrize("name", ["row_sum", "column_sum", "matvec", "vecmat", "softmax", "softmax_columns", "pointwise", "broadcast", "total_sum"])
def test_memory_bound_kernels_get_vectors(name: str) -> None:
    (kernel,) = schedule(module(name), CPU, Options()).kernels
    assert any(line.startswith("vectorize") for line in kernel.schedule), kernel.notes


@pytest.mark.parametrize(("name", "rows"), {"softmax": 4, "row_sum": 0, "matvec": 0, "softmax_columns": 0, "kept": 4}.items())
def test_short_rows_that_wait_for_their_reductions_are_worked_off_together(name: str, rows: int) -> None:
    """Each of four rows has sums of its own, in loops that they share; what is stored is stored row by row.  A row that is one sum, and a column, wait for nothing."""
    (kernel,) = schedule(module(name), AVX512, Options()).kernels
    assert [line for line in kernel.schedule if line.split()[0] == "jam"] == (["jam i.1"] if rows else [])
    if rows:
        short = next(s for s in statements(kernel.body) if isinstance(s, If)).body
        sums = [s.buffer for s in statements(short[:1]) if isinstance(s, Alloc) and ".lanes" in s.buffer.name]
        assert sums and all(b.shape[0] is const(rows) for b in sums)
        unrolled = [s for s in statements(short[:1]) if isinstance(s, Loop) and s.kind == "unroll"]
        assert unrolled and not any(isinstance(t, Store) and t.buffer == "Y" for s in unrolled for t in statements((s,)))


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_of_rows_that_are_worked_off_together(name: str) -> None:
    before = module(name)
    same(before, schedule(before, replace(AVX512, vector_bytes=32), Options()))


AVX512 = Target("clang", "avx512", "avx512", vector_bytes=64, vector_registers=32, l1=48 << 10, l2=1 << 20, cores=2, threads=True)


@pytest.mark.parametrize("name", ["gemm", "gemm_scaled", "matmul_bias", "softmax", "column_sum", "transpose"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.scheduled.kernel", show(schedule(module(name), AVX512, Options())))


@pytest.mark.parametrize("name", ["gemm", "softmax"])
def test_golden_gpu(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.grid.kernel", show(schedule(module(name), GPU, Options())))


def test_a_users_script_replaces_the_automatic_schedule() -> None:
    before = module("gemm")
    (kernel,) = schedule(before, CPU, Options(schedules={"clang": "# tiles\n\ntile i j 4 8  # small ones\n"})).kernels
    assert kernel.schedule == ("tile i j 4 8",)
    with pytest.raises(SourceError, match="line 2, `split z 4`: no axis `z`"):
        schedule(before, CPU, Options(schedules={"clang": "tile i j 4 8\nsplit z 4"}))
    with pytest.raises(SourceError, match="`other`"):
        schedule(before, CPU, Options(schedules={"clang": "kernel other\nsplit i 4"}))


WIDE = replace(CPU, vector_registers=20)  # tiles of two rows of four


def test_short_rows_of_filters_with_the_channels_last_have_nothing_to_turn_over() -> None:
    text = show(module("convolution_padded")).replace("K: f32[O, G, 3, 2]", "K: f32[G, 3, 2, O]").replace("K[j, p, q, r]", "K[p, q, r, j]")
    before = read(text)
    assert isinstance(before, Module)
    after = schedule(before, WIDE, Options())
    assert not any(line.startswith("prefetch") for line in after.kernels[0].schedule)
    same(before, after)


def test_short_rows_are_read_in_turn() -> None:
    before = module("convolution_padded")
    after = schedule(before, WIDE, Options())
    script = after.kernels[0].schedule
    assert any(line.startswith("window X") and "space=shared" in line for line in script), script
    assert any(line.startswith("stage K") and "at=p.0 space=private" in line for line in script), script
    assert any(line.startswith("accumulate p.0") and "space=private" in line for line in script), script
    assert "split p 16" in script, script  # whole squares are turned over, however many taps
    same(before, after)


def test_many_columns_of_short_rows_are_one_row_and_a_wide_panel() -> None:
    before = module("convolution_padded")
    (kernel,) = schedule(before, WIDE, Options()).kernels
    _, second, *_ = (k for k, line in enumerate(kernel.schedule) if line.startswith("variant"))
    wide = kernel.schedule[:second]
    assert wide[0] == "variant 32 <= O // 2 & W <= 2" and {"split j.1 16 tail=pad", "split l.1 4 tail=pad", "split p 16"} <= {*wide}, wide


def test_rows_that_memory_chooses_are_asked_for() -> None:
    kernel = schedule(module("table"), CPU, Options()).kernels[0]
    assert "prefetch W j.0 i bytes=8192" in kernel.schedule
    assert "let i.ahead: i64 = I[min(i + max(1, min(16, 512 // max(1, D // 4))), N - 1)] * D - I[i] * D" in show(
        replace(module("table"), kernels=(kernel,))
    )


def test_the_last_loop_over_a_row_asks_for_the_next_one() -> None:
    """In order, for the first cache is small; not the one before it under a condition, which need not run."""
    before = read("""
kernels centred v1
size M
size N
in X: f32[M, N]
out Y: f32[M, N]

kernel centred_0(X, Y):
  for i in 0 .. M parallel:
    alloc m: f32[] register
    m[] = 0.0:f32
    if N <= 100000:
      alloc s: f32[] register
      s[] = 0.0:f32
      for p in 0 .. N reduce:
        s[] add= X[i, p]
      for q in 0 .. N reduce:
        m[] add= X[i, q] * s[]
    for j in 0 .. N parallel:
      Y[i, j] = X[i, j] - m[]
""")
    assert isinstance(before, Module)
    after = schedule(before, CPU, Options())
    most = CPU.l2 // cost.NEXT_ROW
    assert [line for line in after.kernels[0].schedule if line.startswith("prefetch")] == [f"prefetch X j.0 i places=1 most={most} over=4096 cache=2"]
    same(before, after)


@pytest.mark.parametrize(("shared", "hints"), [(False, ["most=16384", "most=262144 over=16384 cache=2"]), (True, ["most=262144 cache=2"])])
def test_short_rows_come_into_the_first_cache(shared: bool, hints: list[str]) -> None:
    """Unless what all rows share lies there."""
    before = read(f"""
kernels scaled v1
size M
size N
in X: f32[M, N]
in W: f32[N]
out Y: f32[M, N]

kernel scaled_0(X, W, Y):
  for i in 0 .. M parallel:
    alloc s: f32[] register
    s[] = {"0.0:f32" if shared else "W[0]"}
    for p in 0 .. N reduce:
      s[] add= X[i, p]
    for j in 0 .. N parallel:
      Y[i, j] = X[i, j] * {"W[j]" if shared else "s[]"} - s[]
""")
    assert isinstance(before, Module)
    after = schedule(before, replace(CPU, vector_bytes=64, l1=48 << 10, l2=1 << 20), Options())
    assert [line.split("places=4 ")[1] for line in after.kernels[0].schedule if line.startswith("prefetch X j.0 i")] == hints
    same(before, after)


def test_nothing_is_multiplied_by_a_zero_between_elements() -> None:
    before = module("upsampled")
    after = schedule(before, replace(CPU, vector_registers=20), Options())
    script = after.kernels[0].schedule
    assert script.count("sieve q") == script.count("sieve r") == len([line for line in script if line.startswith("variant")]) >= 2, script
    same(before, after)
    strict = schedule(before, CPU, Options(strict=True)).kernels[0].schedule
    assert strict and not any(line.startswith(("deal", "sieve")) for line in strict)


# ---- sizes fixed at compile time, and what is known of free ones


def fixed(m: Module, sizes: dict[str, int]) -> Module:
    """The module with sizes replaced by constants, as -D does."""
    mapping = {size(n): const(v) for n, v in sizes.items()}
    ports = tuple(
        replace(p, shape=tuple(substitute(e, mapping) for e in p.shape), index_limit=p.index_limit and substitute(p.index_limit, mapping))
        for p in m.ports
    )
    kernels = tuple(replace(k, body=substitute_block(k.body, mapping)) for k in m.kernels)
    return replace(m, sizes=(), ports=ports, kernels=kernels)


@pytest.mark.parametrize("name", KERNELS)
def test_same_meaning_with_fixed_sizes(name: str) -> None:
    rng = np.random.default_rng(7)
    for target in (CPU, GPU):
        for choice in ([1], [2, 8], [3, 16, 20], [0, 4]):
            sizes = whole(module(name), {s.name: int(rng.choice(choice)) for s in module(name).sizes})
            if target is GPU and len(sizes) > 4:  # a batch is one of blocks, and each thread is interpreted
                sizes["G"] = min(sizes["G"], 2)
            print(name, sizes)
            before = fixed(module(name), sizes)
            same(before, schedule(before, target, Options()))


def test_a_kernel_no_longer_lists_what_it_no_longer_reads() -> None:
    before = module("gemm_i32")
    gone = [n for s in statements(before.kernels[0].body) for e in s.expressions() for n in loads_in(e) if n.attr == "A"]
    block = substitute_block(before.kernels[0].body, dict.fromkeys(gone, const(0, gone[0].dtype)))
    (kernel,) = before.with_kernels((replace(before.kernels[0], body=block),)).kernels
    assert kernel.buffers == tuple(b for b in before.kernels[0].buffers if b != "A")


def test_no_tail_where_the_sizes_are_known_multiples() -> None:
    before = module("pointwise")
    known = replace(before, sizes=(Size("M", 1), Size("N", 1, multiple=4)))
    (kernel,) = schedule(known, CPU, Options()).kernels
    assert not any(s.axis.endswith(".t") for s in statements(kernel.body) if isinstance(s, Loop))


def test_the_next_row_is_asked_for_by_the_last_loop_that_reads_this_one() -> None:
    before = read(show(module("softmax_short")).replace("max 64", "max 4096"))
    assert isinstance(before, Module)
    after = schedule(before, replace(CPU, vector_bytes=64, l2=1 << 20), Options())
    hints = [line for line in after.kernels[0].schedule if line.startswith("prefetch X q.0 ")]
    assert hints == [f"prefetch X q.0 i places=1 most={(1 << 20) // cost.NEXT_ROW} cache=2"]
    same(before, after)
