"""For every code of `codes.CODES` the shortest text that it is said of, as `luminal explain CODE` shows it.

A text that starts with `(` is an S-expression, one that starts with `graph` an intermediate file, any other TOML.
"""

from __future__ import annotations

from ..ir.errors import Diagnostic, SourceError


def _body(code: str) -> str:
    """A composite of two matrices with this body."""
    return f"(composite f ((A{{f32}}[M N] B{{f32}}[M N]) -> (Y{{f32}}[M N]))\n  {code})\n"


def _toml(inputs: str = '["A{f32}[N]"]', outputs: str = '["A"]', name: str = '"f"', code: str = '"(return A)"', rest: str = "") -> str:
    return f"[composite]\nname = {name}\ninputs = {inputs}\noutputs = {outputs}\n{rest}\n[implementation]\ncode = {code}\n"


_GRAPH = "graph f v1\nsize N\nin A: f32[N]\nout Y: f32[N]\n\n%0 = input f32[N] A\n{}\noutput Y = %1\n"

EXAMPLES: dict[str, str] = {
    "E0101": _body("(return (+ A B)")[:-2] + "\n",
    "E0102": _body("(return (+ A B]))"),
    "E0103": _body('(return (einsum "ij,ij->ij A B))'),
    "E0104": _body("(return (* A 3D))"),
    "E0105": _body("(return (+ A, B))"),
    "E0106": _body(f"(setf {'x' * 256} A)\n  (return A)"),
    "E0107": _body("(return \0 A)"),
    "E0108": '[composite]\nname = "f\n',
    "E0109": _toml(rest='documentaton = "a copy"\n'),
    "E0110": '[composite]\nname = "f"\ninputs = ["A{f32}[N]"]\noutputs = ["A"]\n',
    "E0111": _toml(inputs='"A{f32}[N]"'),
    "E0112": "(composite f ((3{f32}[N]) -> (Y{f32}[N]))\n  (return Y))\n",
    "E0113": "(composite f ((A{f32}) -> (Y{f32}[N]))\n  (return A))\n",
    "E0114": "(composite f ((A{flaot}[N]) -> (Y{f32}[N]))\n  (return A))\n",
    "E0115": "(composite f ((A{f32}[N (sqrt N)]) -> (Y{f32}[N]))\n  (return A))\n",
    "E0116": "(composite f ((A{f32}[M N]<0 2>) -> (Y{f32}[M N]))\n  (return A))\n",
    "E0117": "(composite f ((A{f32}[M N](where M = 2 N)) -> (Y{f32}[M N]))\n  (return A))\n",
    "E0118": "(composite f ((A{f32}[N]) -> ())\n  (return A))\n",
    "E0119": _toml(code='"; nothing but a comment"'),
    "E0120": _toml(rest='parameters.axis = { type = "axs" }\n'),
    "E0121": _toml(name='"my kernel"'),
    "E0122": "(composite f ((A{f32}[N]) (Y{f32}[N]))\n  (return A))\n",
    "E0201": _body("(return (+ A C))"),
    "E0202": _body("(let ((big-sum A) (big_sum B))\n    (return (+ BIG_SUM A)))"),
    "E0203": _body("(return (matmull A B))"),
    "E0204": "(composite f ((my-port{f32}[N] My_Port{f32}[N]) -> (Y{f32}[N]))\n  (return my-port))\n",
    "E0205": "(composite even ((X{f32}[N]) -> (Y{f32}[N]))\n  (return (odd X)))\n\n(composite odd ((X{f32}[N]) -> (Y{f32}[N]))\n  (return (even X)))\n",
    "E0206": "(composite f ((A{f32}[M N](where M = (* 2 N), N = (+ M 1))) -> (Y{f32}[M N]))\n  (return A))\n",
    "E0208": "(composite f ((A{f32}[N](where K < 10)) -> (Y{f32}[N]))\n  (return A))\n",
    "E0301": "(composite f ((A{f32}[N] B{f16}[N]) -> (Y{f32}[N]))\n  (return (+ A B)))\n",
    "E0302": "(composite f ((A{i32}[N]) -> (Y{i32}[N]))\n  (return (* A 0.5)))\n",
    "E0303": "(composite f ((A{i32}[N] B{i32}[N]) -> (Y{i32}[N]))\n  (return (/ A B)))\n",
    "E0304": "(composite f ((X{u8}[N]) -> (Y{u8}[N]))\n  (return (+ X 300)))\n",
    "E0306": "(composite f ((A{f32}[1000000000000000000]) -> (Y{f32}[]))\n  (return (sum A)))\n",
    "E0307": "(composite halves ((X{T}[N](where N % 2 = 0)) -> (Y{T}[N]))\n  (return X))\n\n"
    "(composite f ((A{f32}[3]) -> (Y{f32}[3]))\n  (return (halves A)))\n",
    "E0310": "(composite f ((A{f32}[M N] B{f32}[N M]) -> (Y{f32}[M N]))\n  (return (+ A B)))\n",
    "E0311": "(composite f ((A{f32}[M K] B{f32}[N K]) -> Y)\n  (return (matmul A B)))\n",
    "E0312": _body("(return (sum A :axis 2))"),
    "E0313": _body("(return (sum A :axis 0))"),
    "E0314": _body("(return (transpose A 0 0))"),
    "E0315": _body("(return (reshape A M (+ N 1)))"),
    "E0316": _body('(return (einsum "ij,jk" A))'),
    "E0317": _body("(return (slice A (0 10 0) _))"),
    "E0318": "(composite f ((A{f32}[N] I{f32}[M]) -> (Y{f32}[M]))\n  (return (gather A I)))\n",
    "E0319": _body("(dotimes (i M)\n    (setf (aref Y i 0) (aref A i (- -1 i))))"),
    "E0320": _body("(return (sum A :axis M))"),
    "E0501": _body("(return (where A))"),
    "E0502": _body("(return (sum A :axs 1))"),
    "E0503": _body("(return (sum A :keepdims 1))"),
    "E0504": '[[composite]]\nname = "repeat"\ninputs = ["A{T}[N]"]\noutputs = ["Y{T}[C N]"]\nparameters.count = { type = "int" }\n'
    'implementation.code = "(return (expand A count N))"\n\n[[composite]]\nname = "f"\ninputs = ["A{f32}[N]"]\noutputs = ["Y{}"]\n'
    'implementation.code = "(return (repeat A))"\n',
    "E0505": _body("(dotimes (i M)\n    (setf (aref Y i 0) (aref A i 0 0)))"),
    "E0601": _body("(dotimes (i)\n    (setf (aref Y i 0) 1))"),
    "E0602": _body("(return A)\n  (setf z B)"),
    "E0603": _body("(return A B)"),
    "E0604": _body("(return (+ Y A))"),
    "E0605": _body("(dotimes (i M)\n    (* 2 (aref A i 0)))\n  (return A)"),
    "E0606": _body("(setf z (+ A B))"),
    "E0607": _body("(dotimes (i M)\n    (if (> (aref A i) 0)\n      (setf (aref Y i 0) 1)))"),
    "E0608": "(composite f ((A{f32}[N]) -> Y)\n  (dotimes (i N)\n    (setf (aref Y i) (aref A i))))\n",
    "E0609": _body("(dotimes (i M)\n    (return A))"),
    "E0610": _body("(loop (i 0 M 0)\n    (setf (aref Y i 0) 1))"),
    "E0901": _GRAPH.format("%1 = exp f32[N %0"),
    "E0902": _GRAPH.format("%1 = exp f32[N] %7"),
    "E0903": _GRAPH.replace("\n\n", "\nrequire N < 0.5:f32\n\n").format("%1 = exp f32[N] %0"),
    "E0904": _GRAPH.format("%1 = exp f64[N] %0"),
    "W0701": "(composite f ((A{f32}[N] B{f32}[N]) -> (B))\n  (dotimes (i N)\n    (setf (aref A i) 1)\n    (incf (aref B i) (aref A i))))\n",
    "W0702": "(composite f ((A{f32}[N] B{f32}[N]) -> (B Y{f32}[N]))\n  (setf Y (+ A B)))\n",
}


def file_of(text: str) -> str:
    """The name under which an example is shown."""
    return "example.lisp" if text.startswith("(") else "example.graph" if text.startswith("graph") else "example.toml"


def said_of(text: str) -> list[Diagnostic]:
    """What the compiler says of an example: its errors, or else its warnings."""
    file = file_of(text)
    warnings: list[Diagnostic] = []
    try:
        if file == "example.graph":
            from ..ir.text import read_valid

            read_valid(text, file)
        else:
            from .elaboration import elaborate
            from .reader import read
            from .scope import Scope

            composites = read(text, file)
            elaborate(composites[-1], Scope(composites), warnings=warnings)
    except SourceError as error:
        return error.diagnostics
    return warnings


__all__ = ["EXAMPLES", "file_of", "said_of"]
