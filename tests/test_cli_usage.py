"""Wrong command lines: status 2, one line that says what is wrong and what there is, and nothing written.  In this process, through the whole of `main.run`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from luminal.cli.main import run

ADD = "(composite add ((A{T}[M N] B{T}[M N] s{f32}[] &key (axis -1)) -> (C{T}[M N] D{T}[M N])) (return (+ A B) A))"
COMPILE = ("compile", "add.lisp", "--runtime", "reference")

WRONG = [
    (("foo",), "there is no command foo; there are compile"),
    (("complie", "x"), "nearest: compile"),
    (("@nowhere",), "@nowhere: no such file or directory"),
    (("compile",), "no input"),
    (("compile", "nowhere.toml"), "cannot read nowhere.toml: No such file"),
    (("compile", "add.txt"), "the suffix says what a file holds"),
    (("compile", "."), ".: a folder"),
    (("compile", "softmaxx"), "nearest: softmax"),
    (("compile", "*"), "no such file, and no library composite"),
    ((*COMPILE, "--entry", "sub"), "no composite named sub; it holds add"),
    ((*COMPILE, "--emit", "sauce"), "--emit sauce: no such level; there are ast"),
    ((*COMPILE, "--emit", ""), "--emit '': no such level; there are ast"),
    ((*COMPILE, "--emit", "graph", "-MD"), "-MD: nothing is written"),
    (("compile", ""), "an input without a name"),
    (("compile", "-", "-"), "standard input can be read only once"),
    (("check", "/dev/null"), "the suffix says what a file holds"),
    (("show", "add.lisp", "--sizes", "M=3, N=-1"), "--sizes: N=-1: expected 0 <= N"),
    (("test-runtime", "--timeout", "0"), "0.0 is not in the range x>0"),
    ((*COMPILE, "--emit", "object"), "give it a place with -o"),
    ((*COMPILE, "--emit", "source", "-o", "add.h"), "--emit source and -o add.h contradict"),
    ((*COMPILE, "--emit", "source", "-o", "-"), "-o -: text goes to standard output where there is no -o"),
    ((*COMPILE, "--emit", "source", "--json"), "--json prints one object and nothing else"),
    ((*COMPILE, "--emit", "source", "--stop-after", "fuse"), "--stop-after fuse and --emit contradict"),
    ((*COMPILE, "--test", "M=3, N=3", "--stop-after", "fuse"), "--stop-after fuse and --test contradict"),
    ((*COMPILE, "--stop-after", "nothing"), "no such pass; there are raise_loops"),
    ((*COMPILE, "--print-after", "nothing"), "no such pass; there are elaborate"),
    ((*COMPILE, "-o", "x.exe"), "the suffix says what is wanted"),
    ((*COMPILE, "-D", "Q=3"), "add has no size Q; it has M, N, axis"),
    ((*COMPILE, "-D", "M"), "-D: expected KEY=VALUE, found 'M'"),
    ((*COMPILE, "-D", "M=1.5"), "M=1.5: a size is an integer"),
    ((*COMPILE, "-D", "M=-1"), "the extent -1 is negative"),
    ((*COMPILE, "-D", "axis=0.5"), "the parameter `axis` is of type axis"),
    ((*COMPILE, "--dtype", "S=f16"), "add has no type variable S; it has T"),
    ((*COMPILE, "--dtype", "T=f17"), "there is no dtype of this name"),
    ((*COMPILE, "--assume", "K % 2 = 0"), "add has no size K"),
    ((*COMPILE, "--test", "M=3"), "add also needs N"),
    ((*COMPILE, "--test", "M=3, N=3, X=4"), "no size or scalar X"),
    ((*COMPILE, "--test", "M=3, N=3, M=4"), "M is bound twice"),
    ((*COMPILE, "--test", "M=3D, N=3"), "M=3D: expected a number"),
    ((*COMPILE, "--test", "M=3.5, N=3"), "a size is an integer"),
    ((*COMPILE, "--test", "M=-3, N=3"), "expected 0 <= M"),
    ((*COMPILE, "--test", "M=99999999999, N=99999999999"), "no machine has memory for more"),
    ((*COMPILE, "--test", "M=9999999999999999999, N=1"), "expected 0 <= M <= "),
    ((*COMPILE, "--test", "M=3, N=3", "--input", "A"), "--input A: expected PORT=FILE.npy"),
    ((*COMPILE, "--test", "M=3, N=3", "--input", "A=nowhere.npy"), "--input A=nowhere.npy: no such file"),
    ((*COMPILE, "--test", "M=3, N=3", "--input", "A=add.lisp"), "--input A=add.lisp: not a .npy file of numbers"),
    ((*COMPILE, "--test", "M=3, N=3", "--output", "Z=z.npy"), "add has no port Z; ports: A, B, s, C, D"),
    ((*COMPILE, "--test", "M=3, N=3", "--device", "cuda:0"), "--device cuda:0: the runtime reference runs on the host"),
    ((*COMPILE, "--input", "A=a.npy", "--emit", "graph"), "--input is for a test run"),
    ((*COMPILE, "--test", "M=3, N=3", "--output", "A=a.npy"), "--output: A is no output of add; outputs: C, D"),
    ((*COMPILE, "--test", "M=3, N=3", "--output", "C=c.bin"), "--output C=c.bin: what is kept is a .npy file"),
    ((*COMPILE, "--emit", "source,graph", "-o", "x.c"), "-o x.c: one file for source and graph; name a folder"),
    ((*COMPILE, "--output", "C=c.npy"), "--output is for a test run"),
    ((*COMPILE, "--device", "host"), "--device is for a test run"),
    ((*COMPILE, "--seed", "-1", "--test"), "-1 is not in the range x>=0"),
    ((*COMPILE, "--timeout", "0", "--test"), "0.0 is not in the range x>0"),
    ((*COMPILE, "--mem-limit", "0", "--test"), "0 is not in the range x>=1"),
    ((*COMPILE, "-I", "nowhere"), "-I nowhere: no such folder"),
    ((*COMPILE, "--prefix", "a-b"), "--prefix a-b: expected the start of a C name"),
    ((*COMPILE, "--config", "CHEKC=1"), "did you mean `CHECK`?"),
    ((*COMPILE, "--config", "CHECK=maybe"), "--config CHECK: expected 0 or 1"),
    ((*COMPILE, "--config", "VECTOR=7"), "--config VECTOR: expected 0 or a power of two"),
    ((*COMPILE, "--target", "sm_80"), "unknown target `sm_80`; the runtime reference knows interpreter"),
    ((*COMPILE, "-MD", "--emit", "graph"), "-MD: nothing is written"),
    (("compile", "add.lisp", "--runtime", "clnag"), "did you mean `clang`?"),
    (("compile", "add.lisp", "--runtime", "./add.lisp"), "no folder `./add.lisp` to take a runtime from"),
    (("compile", "add.lisp", "--target", "x86-64-v9"), "unknown target `x86-64-v9`; did you mean `x86-64-v"),
    (("compile", "add.lisp", "--target", "x86-64-v2", "--config", "MARCH=x86-64-v3"), "contradict each other"),
    (("compile", "add.lisp", "--emitt", "source"), "--emit"),
    (("check",), "Missing argument"),
    (("check", "nowhere.lisp"), "cannot read nowhere.lisp"),
    (("explain", "E0230"), "there is no diagnostic E0230; nearest: E0"),
    (("ops", "softmaxx"), "softmax"),
    (("new", "runtime", "a-b"), "a name is a letter"),
    (("new", "module", "x"), "'module' is not one of"),
    (("show", "add.lisp", "--sizes", "Q=3"), "Q"),
    (("show", "add.lisp", "--format", "svg"), "'svg' is not"),
    (("cache", "empty"), "empty"),
    (("completion", "tcsh"), "'tcsh' is not one of"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "add.lisp").write_text(ADD)
    (tmp_path / "add.txt").write_text(ADD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    return tmp_path


@pytest.mark.parametrize(("words", "said"), WRONG, ids=lambda w: " ".join(w)[:50] if isinstance(w, tuple) else "")
def test_it_is_status_2(words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == 2
    found = capsys.readouterr()
    spoken = found.out if "--json" in words else found.err
    assert said in spoken and "Traceback" not in spoken
    assert sorted(p.name for p in folder.iterdir()) == ["add.lisp", "add.txt"]


def test_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMPILE, "--test", "Q=3", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False and "no size or scalar Q" in report["error"] and report["kind"] == "UsageError"


ANSWERED = {
    "check add.lisp": 0, "check wrong.lisp": 1, "check nowhere.lisp": 2, "check": 2, "compile nowhere.lisp": 2, "compile wrong.lisp": 1, "compile add.lisp --bogus": 2,
    "compile add.lisp --emit source": 2, "compile add.lisp -c CC=nosuchcc -o x.so": 4, "compile": 2, "show add.lisp": 0, "show wrong.lisp": 1, "show nowhere.lisp": 2,
    "bench wrong.lisp": 1, "bench nowhere.lisp": 2, "bench add.lisp --blocks x": 2, "tune wrong.lisp": 1, "tune nowhere.lisp": 2, "ops": 0, "ops softmax": 0, "ops where": 0,
    "ops nosuch": 2, "ops wrong.lisp": 1, "explain": 0, "explain E0203": 0, "explain E9": 2, "tuning list": 0, "tuning clear": 0, "tuning nosuch": 2, "cache info": 0,
    "cache nosuch": 2, "doctor": None, "test-runtime --runtime nosuch": 2, "test-runtime --ops nosuch": 2, "nosuch": 2, "@words": 2,
    "test-runtime --runtime reference --ops less_than --dtype i32 --quick": 0,
}  # fmt: skip


@pytest.mark.parametrize(("words", "status"), ANSWERED.items(), ids=list(ANSWERED))
def test_every_answer_as_json_is_one_object(words: str, status: int | None, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wrong.lisp").write_text("(composite f ((A{f32}[N]) -> (Y{f32}[N])) (return (sinn A)))")
    (folder / "words").write_text("compile --bogus --json")
    done = run([*words.split(), *([] if words == "@words" else ["--json"])])
    found = capsys.readouterr()
    answer = json.loads(found.out)
    assert answer["ok"] is (done == 0) and isinstance(answer["results"], list) and isinstance(answer["diagnostics"], list) and not found.err
    assert done == (4 if answer.get("findings") and done else 0 if status is None else status)
    if done == 1:
        assert [d["code"] for d in answer["diagnostics"]] == ["E0203"]
    elif done and "findings" not in answer:
        assert answer.get("error") or answer["errors"]


def test_what_was_done_before_a_mistake_is_answered_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "add.lisp", "nowhere.lisp", "-r", "reference", "--test", "M=2, N=3", "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"] and answer["results"][0]["ok"] and "nowhere.lisp" in answer["error"]


def test_an_interrupt_is_answered_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("luminal.cli.check.open_input", interrupted)
    assert run(["check", "add.lisp", "--json"]) == 130
    assert json.loads(capsys.readouterr().out) == {"ok": False, "error": "interrupted", "kind": "Interrupted", "results": [], "diagnostics": []}


def test_colour_where_it_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "wrong.lisp").write_text("(composite f ((A{f32}[N]) -> (Y{f32}[N])) (return (sinn A)))")
    for words, coloured in (([], False), (["--color", "always"], True), (["--color", "never"], False)):
        for command in (["check"], ["compile", "--emit", "graph"]):
            assert run([*command, "wrong.lisp", *words]) == 1
            assert ("\x1b[31merror[E0203]" in capsys.readouterr().err) is coloured
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for value, coloured in (("1", False), ("", True)):
        monkeypatch.setenv("NO_COLOR", value)
        assert run(["check", "wrong.lisp"]) == 1
        assert ("\x1b[31m" in capsys.readouterr().err) is coloured
