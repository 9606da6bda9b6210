"""A test run survives whatever a kernel does, and says what it did; the kernels here come from runtimes that are folders of a few lines."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import luminal
import numpy
import pytest
from compilers import needs_cc
from processes import PATIENCE, alive, started, waited

ROOT = Path(__file__).parent.parent
ADD = "(composite add ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))"
BINDINGS = [{"M": 1, "N": 3}, {"M": 3, "N": 5}, {"M": 7, "N": 9}]  # small odd ones, as `--test` without a value chooses them
pytestmark = needs_cc

TOML = 'name = "{name}"\ninherits = "clang"\n'
# what stands at the start of the emitted function's body, in C
BODIES = {
    "aborts": "if (M == 3) abort();",
    "reads_null": "if (M == 3) *(volatile float *)(M - 3) = 1;",
    "leaves": "if (M == 3) exit(0);",
    "hangs": "while (M == 3) sleep(1);",
    "fails": "if (M == 3) return 4;",
}


def source_template(statement: str) -> str:
    return f'#include <stdio.h>\n#include <unistd.h>\n{{% set body = ["  {statement}"] + body %}}{{% include "clang/source.c.j2" %}}'


def runtime(folder: Path, toml: str = "", **files: str) -> Path:
    """A runtime by folder that inherits from clang; `files` by name, with _ for the dot."""
    folder.mkdir(parents=True)
    (folder / "runtime.toml").write_text(TOML.format(name=folder.name) + toml)
    for name, text in files.items():
        (folder / {"source": "source.c.j2", "statements": "statements.j2", "driver": "driver.py"}[name]).write_text(text)
    return folder


def compile_add(place: Path, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    (place / "add.lisp").write_text(ADD)
    command = [sys.executable, "-m", "luminal.cli", "compile", "add.lisp", "--config", "DEBUG=1,OMP=0", *words]
    done = subprocess.run(command, text=True, capture_output=True, cwd=place, timeout=timeout)
    assert "Traceback" not in done.stderr + done.stdout
    return done


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    report = json.loads(done.stdout)
    assert [row["sizes"] for row in report["results"]] == BINDINGS, "every binding is tried, whatever became of the one before"
    assert report["ok"] is (done.returncode == 0)
    return report["results"]


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [("aborts", "crash", "SIGABRT"), ("reads_null", "crash", "SIGSEGV"), ("leaves", "crash", "exit status 0"), ("fails", "code", "returned 4")],
)
def test_a_kernel_that_dies_or_fails_is_a_row_of_the_report(what: str, status: str, said: str, tmp_path: Path) -> None:
    runtime(tmp_path / what, source=source_template(BODIES[what]))
    done = compile_add(tmp_path, "--runtime", f"./{what}", "--test", "--json")
    assert done.returncode == 3, done.stderr
    first, second, third = rows(done)
    assert first["ok"] and first["status"] == "pass" and third["ok"] and not second["ok"]
    assert second["status"] == status and said in str(second["detail"])


def test_a_kernel_that_hangs_is_ended_and_the_run_goes_on(tmp_path: Path) -> None:
    runtime(tmp_path / "hangs", source=source_template(BODIES["hangs"]))
    done = compile_add(tmp_path, "--runtime", "./hangs", "--test", "--json", "--timeout", "6")
    assert done.returncode == 124, done.stderr
    assert [row["status"] for row in rows(done)] == ["pass", "timeout", "pass"]


def test_a_time_limit_does_not_hide_a_mismatch(tmp_path: Path) -> None:
    runtime(tmp_path / "both", '[spell]\nadd = { float = "{0} - {1}", index = "{0} + {1}" }\n', source=source_template(BODIES["hangs"]))
    done = compile_add(tmp_path, "--runtime", "./both", "--test", "--json", "--timeout", "6")
    assert done.returncode == 3
    assert [row["status"] for row in rows(done)] == ["mismatch", "timeout", "mismatch"]


def test_a_wrong_result_is_a_mismatch(tmp_path: Path) -> None:
    runtime(tmp_path / "wrong", '[spell]\nadd = { float = "{0} - {1}", index = "{0} + {1}" }\n')
    done = compile_add(tmp_path, "--runtime", "./wrong", "--test")
    assert done.returncode == 3 and done.stdout.count("MISMATCH") == 3 and done.stderr == ""
    report = rows(compile_add(tmp_path, "--runtime", "./wrong", "--test", "--json"))
    assert {row["status"] for row in report} == {"mismatch"}
    assert all(output["max_bound_ratio"] > 1 for row in report for output in row["outputs"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "sizes", "said"),
    [
        ("(setf v (gather B I :axis 0)) (return (- v v))", "N=7,K=0,M=2", None),  # nobody needs what is gathered
        (
            "(return (gather B I :axis 0))",
            "N=7,K=0,M=0",
            "in a value that no output needs",
        ),  # nor these: there are none; the kernel looks all the same
        ("(return (gather B I :axis 0))", "N=7,K=0,M=2", "expected error code 3, the kernel gave 3"),
    ],
)
def test_an_index_need_be_checked_only_where_its_element_is_needed(code: str, sizes: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "pick.lisp").write_text(f"(composite pick ((I{{i64}}[N] B{{i32}}[K M]) -> (Y{{i32}}[N M])) {code})")
    command = [sys.executable, "-m", "luminal.cli", "compile", "pick.lisp", "--config", "DEBUG=1,OMP=0", "--json", "--test", sizes]
    done = subprocess.run(command, text=True, capture_output=True, cwd=tmp_path, timeout=120)
    (row,) = json.loads(done.stdout)["results"]
    assert row["status"] == "pass", row
    assert said in row["detail"] if said else row["outputs"]


def test_a_talkative_kernel_disturbs_nothing(tmp_path: Path) -> None:
    # each call a quarter of what a pipe holds, and there are more than twenty
    said = 'for (int k = 0; k < 2000; k++) { puts("[hello}"); fprintf(stderr, "hello\\n"); } fflush(stdout);'
    runtime(tmp_path / "talks", source=source_template(said.replace("\\", "\\\\").replace('"', '\\"')))
    done = compile_add(tmp_path, "--runtime", "./talks", "--test", "--json")
    assert done.returncode == 0, done.stdout[-500:]
    assert all(row["ok"] for row in rows(done)) and "hello" not in done.stdout + done.stderr


def test_a_library_that_cannot_be_loaded_is_status_4(tmp_path: Path) -> None:
    runtime(tmp_path / "unlinked", source=source_template("extern int nobody_has_this(void); if (nobody_has_this()) return 1;"))
    done = compile_add(tmp_path, "--runtime", "./unlinked", "--test")
    assert done.returncode == 4 and "nobody_has_this" in done.stderr


def test_a_test_run_ends_with_its_parent(tmp_path: Path) -> None:
    """Killed or interrupted while a kernel hangs: no process is left behind."""
    note = tmp_path / "process"
    runtime(tmp_path / "hangs", source=source_template(
        f'FILE *f = fopen(\\"{note}\\", \\"w\\"); fprintf(f, \\"%d\\", (int)getpid()); fclose(f); for (;;) sleep(1);'
    ))  # fmt: skip
    (tmp_path / "add.lisp").write_text(ADD)
    command = [sys.executable, "-m", "luminal.cli", "compile", "add.lisp", "--runtime", "./hangs", "--test", "--config", "DEBUG=1,OMP=0"]
    for end, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        note.unlink(missing_ok=True)
        with started(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            worker = int(waited(lambda: note.exists() and note.read_text()))
            process.send_signal(end)
            said = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == status and "Traceback" not in said
        if sys.platform == "linux" or end != signal.SIGKILL:
            waited(lambda worker=worker: not alive(worker))


def test_a_runtime_of_one_file_does_all_that_its_parent_does(tmp_path: Path) -> None:
    runtime(tmp_path / "mine", 'indent = 4\n[config.LEVEL]\ntype = "int"\ndefault = 3\nhelp = "how much"\n')
    mine = ["--runtime", "./mine"]
    tested = compile_add(tmp_path, *mine, "--test", "--json", "--config", "LEVEL=7")
    assert tested.returncode == 0 and json.loads(tested.stdout)["runtime"] == "mine"
    assert all(row["runtime"] == "mine" for row in rows(tested))
    emitted = compile_add(tmp_path, *mine, "--emit", "source")
    assert "\n    add_0(A, B, C, M, N);" in emitted.stdout, "indented by 4"
    assert "LEVEL" in compile_add(tmp_path, *mine, "--help-config").stdout
    made = compile_add(tmp_path, *mine, "-o", "out")
    assert made.returncode == 0 and sorted(p.name for p in (tmp_path / "out").iterdir()) == ["add.c", "add.h", "libadd.so"]
    wrong = compile_add(tmp_path, *mine, "--config", "LEVLE=7")
    assert wrong.returncode == 2 and "LEVEL" in wrong.stderr

    function = luminal.compile(ADD, runtime=str(tmp_path / "mine"), config={"OMP": 0})
    a = numpy.arange(6, dtype="f4").reshape(2, 3)
    numpy.testing.assert_array_equal(function(a, a), a + a)


def test_a_folder_may_bring_one_macro_or_a_driver(tmp_path: Path) -> None:
    """One macro of `statements.j2` stands beside the inherited ones; a driver is a subclass that imports relatively."""
    store = "{% macro StoreTo(call) %}\n{{ call }}; /* mine */\n{% endmacro %}\n"
    driver = (
        "from ..clang.driver import Driver as Base\n\n\nclass Driver(Base):\n"
        "    def render(self, program, target, prefix):\n        from dataclasses import replace\n\n"
        "        made = super().render(program, target, prefix)\n        return replace(made, source='/* by my driver */\\n' + made.source)\n"
    )
    runtime(tmp_path / "parent", statements=store, driver=driver)
    child = tmp_path / "child"
    child.mkdir()
    (child / "runtime.toml").write_text('name = "child"\ninherits = "../parent"\n')
    for folder in ("parent", "child"):
        emitted = compile_add(tmp_path, "--runtime", f"./{folder}", "--emit", "source").stdout
        assert emitted.startswith("/* by my driver */") and "; /* mine */" in emitted
        assert compile_add(tmp_path, "--runtime", f"./{folder}", "--test", "M=7, N=9").returncode == 0
