"""Input that nobody writes by mistake: each is refused or compiled in reasonable time, without a traceback, and leaves no file.

`python tests/hostile.py` prints how long each takes, slowest last.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from luminal.cli.main import run

WORD = "x" * 1_000_000


class Case(NamedTuple):
    file: str
    text: str | bytes
    words: tuple[str, ...] = ()  # of the command line, beside `compile FILE --emit source`
    more: dict[str, str] = {}


class Outcome(NamedTuple):
    status: int
    said: str
    seconds: float
    left: list[str]


def body(code: str, ports: str = "A{f32}[N]", out: str = "Y") -> str:
    return f"(composite f (({ports}) -> ({out}))\n  {code})\n"


def toml(inputs: str = '["A{f32}[N]"]', outputs: str = '["Y{}"]', name: str = '"f"', code: str = '"(return A)"', rest: str = "") -> str:
    return f"[composite]\nname = {name}\ninputs = {inputs}\noutputs = {outputs}\n{rest}\n[implementation]\ncode = {code}\n"


def _nested(opening: str, closing: str, count: int, inner: str = "A") -> str:
    return opening * count + inner + closing * count


def cases() -> dict[str, Case]:
    lisp = {
        "200 000 parentheses": "(" * 200_000,
        "200 000 closed parentheses": "(" * 200_000 + ")" * 200_000,
        "200 000 parentheses in a body": body("(" * 200_000),
        "mixed brackets": body("([{" * 60_000),
        "250 deep": body(f"(return {_nested('(exp ', ')', 240)})"),
        "operators 300 deep": body(f"(return {_nested('(exp ', ')', 300)})"),
        "loops 200 deep": body(_nested("(dotimes (i 2) ", ")", 200, "(incf (aref Y 0) 1)"), out="Y{f32}[N](where N > 0)"),
        "a megabyte of spaces": body(" " * 1_000_000 + "(return A)"),
        "a megabyte name": body(f"(return {WORD})"),
        "a megabyte port": body("(return A)", ports=f"{WORD}{{f32}}[N]"),
        "a megabyte operator": body(f"(return ({WORD} A))"),
        "a megabyte keyword": body(f"(return (sum A :{WORD} 1))"),
        "a megabyte string": body(f'(return (einsum "{WORD}" A))'),
        "a megabyte size": body("(return A)", ports=f"A{{f32}}[{WORD}]"),
        "a megabyte number": body(f"(return (* A {'9' * 1_000_000}))"),
        "a megabyte float": body(f"(return (* A 0.{'9' * 1_000_000}))"),
        "a number of 1e999999999": body("(return (* A 1e999999999))"),
        "a comment without end": body("(return A) #| " + "x" * 500_000),
        "nested comments": "#|" * 100_000,
        "a string without end": body('(return "' + "\\" * 100_001),
        "40 001 words": body("(return " + "A " * 40_001 + ")"),
        "extents of 1e18": body("(return A)", ports="A{f32}[1000000000000000000]"),
        "a product of 2^64": body("(return A)", ports="A{f32}[4294967296 4294967296]"),
        "a size expression that overflows": body("(return A)", ports=f"A{{f32}}[(* {'9223372036854775807 ' * 8})]"),
        "size expressions of all sizes": body("(return (reshape A -1 (* N N N N N N N N)))", ports="A{f32}[(* N N N N N N N N N N N N)]"),
        "powers of a polynomial": body("(return (sum A))", ports="A{f32}[(* (+ M N) (+ M K) (+ N K) (+ M N) (+ M K) (+ N K) (+ M N) (+ M K))]", out="Y{f32}[]"),
        "a size above all memory": body("(return (expand A 1000000000 1000000000 N))"),
        "full of 2^60": body("(return (full (1152921504606846976) 1.0))"),
        "iota of 2^63": body("(return (iota 9223372036854775807))"),
        "tile by 2^40": body("(return (tile A 1099511627776))"),
        "tile of tiles": body("(return " + _nested("(tile ", " 1000000)", 30) + ")"),
        "pad by 2^62": body("(return (pad A (4611686018427387904 4611686018427387904)))"),
        "unfold by 2^62": body("(return (unfold A :size 4611686018427387904 :step 1))"),
        "split into 20 000": body(f"(return (split A {'1 ' * 20_000}))"),
        "reshape to 20 000 axes": body(f"(return (reshape A {'1 ' * 20_000}))"),
        "reshape to 60 axes": body(f"(return (reshape A {'1 ' * 59}N))"),
        "a port of 20 000 axes": body("(return A)", ports=f"A{{f32}}[{'N ' * 20_000}]"),
        "transpose 10 000 axes": body(f"(return (transpose A {' '.join(map(str, range(10_000)))}))"),
        "an axis of 10^30": body(f"(return (sum A :axis {'9' * 30}))"),
        "a loop of 2^62": body("(dotimes (i 4611686018427387904) (setf (aref Y 0) 1))", out="Y{f32}[3]"),
        "an array of 2^50": body("(dotimes (i N) (make-array v f32 (1125899906842624)) (setf (aref Y i) (aref v i)))", out="Y{f32}[N]"),
        "einsum of 60 letters": body(
            '(return (einsum "' + ",".join("".join(chr(97 + k % 26) if k < 26 else chr(65 + k % 26) for k in range(s, s + 2)) for s in range(0, 50, 2))
            + f'->" {" ".join(["A"] * 25)}))', ports="A{f32}[N N]"
        ),
        "einsum of one letter 60 times": body(f'(return (einsum "{"i" * 60}->i" A))'),
        "einsum of 3 000 operands": body(f'(return (einsum "{",".join("i" * 3000)}->i" {"A " * 3000}))'),
        "concat of 5 000": body(f"(return (concat {'A ' * 5_000}))"),
        "a sum of 20 000": body(f"(return (+ {'A ' * 20_000}))"),
        "a comparison of 5 000": body(f"(return (< {'A ' * 5_000}))"),
        "10 000 ports": body("(return P0)", ports=" ".join(f"P{k}{{f32}}[N]" for k in range(10_000))),
        "10 000 outputs": body(f"(return {'A ' * 10_000})", out=" ".join(f"Y{k}{{f32}}[N]" for k in range(10_000))),
        "10 000 sizes": body("(return (sum A))", ports=" ".join(f"P{k}{{f32}}[N{k}]" for k in range(9_000)) + " A{f32}[N0]", out="Y{f32}[]"),
        "5 000 constraints": body("(return A)", ports=f"A{{f32}}[N](where {', '.join(f'N /= {k}' for k in range(5_000))})"),
        "a chain of 2 000 constraints": body(
            "(return A)", ports=f"A{{f32}}[{' '.join(f'M{k}' for k in range(200))}](where {', '.join(f'M{k} < M{k + 1}' for k in range(199))})"
        ),
        "a softmax in a loop 400 times": body(f"(dotimes (i N) {'(incf (aref Y i) (softmax (aref A i)))' * 400})", "A{f32}[N N]", "Y{f32}[N N]"),
        "matrix products 100 deep in a loop": body(f"(dotimes (i N) (setf (aref Y i) {_nested('(matmul A ', ')', 100, '(aref A i)')}))", "A{f32}[N N]", "Y{f32}[N N]"),
        "branches 100 deep in a loop": body(f"(dotimes (i N) (setf (aref Y i) {_nested('(if (> i 2) (aref A i) ', ')', 100, '(aref A i)')}))", "A{f32}[N N]", "Y{f32}[N N]"),
        "5 000 statements": body("\n".join(f"(setf z{k} (+ {'A' if k == 0 else f'z{k - 1}'} 1))" for k in range(5_000)) + "\n(return z4999)"),
        "5 000 independent statements": body("\n".join(f"(setf z{k} (exp (+ A {k})))" for k in range(5_000)) + "\n(return z4999)"),
        "300 loops": body("\n".join(f"(dotimes (i N) (incf (aref Y i) (* {k} (aref A i))))" for k in range(300)), out="Y{f32}[N]"),
        "3 000 stores in a loop": body("(dotimes (i N) " + " ".join("(incf (aref Y i) (aref A i))" for _ in range(3_000)) + ")", out="Y{f32}[N]"),
        "doubled 60 times": body("(setf z A)\n" + "(setf z (+ z z))\n" * 60 + "(return z)"),
        "sines doubled 60 times": body("(setf z A)\n" + "(setf z (+ (sin z) (cos z)))\n" * 60 + "(return z)"),
        "concat doubled 40 times": body("(setf z A)\n" + "(setf z (concat z z))\n" * 40 + "(return z)"),
        "sums doubled 40 times": body("(setf z A)\n" + "(setf z (+ z (sum z :axis 0 :keepdims t)))\n" * 40 + "(return z)"),
        "scalars doubled 60 times": body("(dotimes (i N) (set z (aref A i)) " + "(set z (+ z z)) " * 60 + "(setf (aref Y i) z))", out="Y{f32}[N]"),
        "sizes doubled 60 times": body("(setf n (iota 1))\n(return (reshape A " + _nested("(* 2 ", ")", 60, "N") + "))"),
        "64 composites in a chain": "\n".join(
            f"(composite c{k} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return {'(+ 1 A)' if k == 99 else f'(c{k + 1} A)'}))" for k in reversed(range(100))
        ),
        "calls doubled 30 times": "\n".join(
            f"(composite c{k} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return {'(+ 1 A)' if k == 0 else f'(+ (c{k - 1} A) (c{k - 1} (* 2 A)))'}))" for k in range(31)
        ),
        "3 000 composites": "\n".join(f"(composite c{k} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return A))" for k in range(2_500)),
        "a name with a slash": "(composite ../../evil ((A{f32}[N]) -> (Y{f32}[N])) (return A))",
        "a name that ends a comment": "(composite evil*/ ((A{f32}[N]) -> (Y{f32}[N])) (return A))",
        "a documentation that ends a comment": '(composite f ((A{f32}[N]) -> (Y{f32}[N])) "*/ #error \\" /*" (return (* 2 A)))',
        "null": "",
        "one NUL": "\0",
        "BOM and CRLF": "\ufeff(composite f ((A{f32}[N]) -> (Y{f32}[N]))\r\n  (return (* 2 A)))\r\n",
        "only a BOM": "\ufeff",
        "control characters": body("(return (\x1b[31m\x07\x08 A))"),
        "right-to-left marks": body("(return \u202eA\u202d)"),
        "lone carriage returns": "(composite f ((A{f32}[N]) -> (Y{f32}[N]))\r(return (* 2 A)))\r",
    }  # fmt: skip
    tomls = {
        "nested arrays": "x = " + "[" * 200_000,
        "closed nested arrays": "x = " + "[" * 100_000 + "]" * 100_000,
        "nested inline tables": "x = " + "{a = " * 100_000,
        "nested tables": "\n".join(f"[{'.'.join(['a'] * k)}]" for k in range(1, 800)),
        "a key of 100 000 parts": ".".join(["a"] * 100_000) + " = 1",
        "100 000 keys": toml(rest="\n".join(f"k{k} = 1" for k in range(60_000))),
        "a megabyte key": f"{'k' * 900_000} = 1",
        "a string of a megabyte": toml(rest=f'documentation = "{"x" * 900_000}"'),
        "escapes": toml(code='"' + "\\u0041" * 100_000 + '"'),
        "10 000 ports in strings": toml(inputs="[" + ", ".join(f'"P{k}{{f32}}[N]"' for k in range(10_000)) + "]"),
        "quotes without end": toml(code='"""' + '""' * 100_000),
        "a table that is an array": "composite = 3",
        "an empty array of composites": "composite = []",
        "5 000 composites": "\n".join(
            f'[[composite]]\nname = "c{k}"\ninputs = ["A{{f32}}[N]"]\noutputs = ["Y{{}}"]\nimplementation.code = "(return A)"' for k in range(5_000)
        ),
        "sizes for a test": toml(rest="\n[test]\nsizes = [" + "{ N = 3 }," * 20_000 + "]"),
        "a name with a path": toml(name='"../../../etc/passwd"'),
        "a name with an end of comment": toml(name='"a*/ int x;"'),
    }  # fmt: skip
    raw = {
        "random bytes": (".lisp", bytes((k * 7919 + 13) % 256 for k in range(200_000))),
        "invalid UTF-8": (".toml", b'[composite]\nname = "\xff\xfe"\n'),
        "an overlong encoding": (".lisp", b"(composite f \xc0\xaf)"),
        "half a character": (".lisp", "(composite é".encode()[:-1]),
        "UTF-16": (".lisp", "(composite f ((A{f32}[N]) -> (Y{f32}[N])) (return A))".encode("utf-16")),
        "NUL bytes": (".toml", b"\0" * 100_000),
        "an ELF file": (".lisp", Path(sys.executable).resolve().read_bytes()[:2_000_000]),
        "two megabytes": (".toml", b"# x\n" * 500_001),
        "a graph of bytes": (".graph", b"\x80" * 1000),
        "a deep graph": (".kernel", b"kernels f v1\n" + b"".join(b" " * (2 * k) + b"for i in 0 .. N:\n" for k in range(2_000))),
        "a long graph line": (".graph", b"graph f v1\nsize " + b"N" * 900_000),
    }  # fmt: skip
    found = {name: Case("f.lisp", text) for name, text in lisp.items()}
    found |= {name: Case("f.toml", text) for name, text in tomls.items()}
    found |= {name: Case(f"f{suffix}", data) for name, (suffix, data) in raw.items()}
    chain = {f"c{k}.lisp": f"(composite c{k} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return (c{k + 1} A)))" for k in range(200)}
    # the products for sizes that are known: for any size each is several programs, and they are not what is deep
    found["matrix products 100 deep in a loop"] = found["matrix products 100 deep in a loop"]._replace(words=("-D", "N=8"))
    found["200 files in a chain"] = Case("f.lisp", body("(return (c0 A))"), ("-I", "."), chain)
    found["files in a circle"] = Case("f.lisp", body("(return (g A))"), ("-I", "."), {"g.lisp": "(composite g ((A{f32}[N]) -> Y) (return (f A)))"})
    found["a folder as input"] = Case("f.lisp", body("(return A)"), ("--entry", "all", "."))
    return found


def attempt(case: Case) -> Outcome:
    """`luminal compile FILE --emit source` in a folder of its own."""
    said, shown = io.StringIO(), io.StringIO()
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {case.file: case.text, **case.more}.items():
            (Path(folder) / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        os.chdir(folder)
        try:
            began = time.process_time()
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
                status = run(["compile", case.file, "--emit", "source", *case.words])
            seconds = time.process_time() - began
        finally:
            os.chdir(here)
        left = sorted({p.name for p in Path(folder).rglob("*")} - {case.file, *case.more})
    return Outcome(status, said.getvalue(), seconds, left)


def main() -> None:
    found = {name: attempt(case) for name, case in cases().items() if len(sys.argv) < 2 or name in sys.argv[1:]}
    for name, outcome in sorted(found.items(), key=lambda pair: pair[1].seconds):
        what = outcome.said.splitlines()[0][:110] if outcome.said else "compiled"
        print(f"{outcome.seconds:7.2f} s  status {outcome.status:3}  {name}: {what}{'  LEFT ' + str(outcome.left) if outcome.left else ''}")
    refused = {name: o for name, o in found.items() if o.status}
    if refused:
        slowest = max(refused, key=lambda name: refused[name].seconds)
        print(f"slowest refusal: {refused[slowest].seconds:.2f} s ({slowest}), of {len(refused)}")


if __name__ == "__main__":
    main()
