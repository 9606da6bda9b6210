"""The table of diagnostics: code → title and explanation.  `luminal explain CODE` prints them; tests hold that every code that is raised stands here.  The example that it
shows with them is in `examples.py`.

E01xx  reading: text, TOML, ports          E05xx  operands and keywords of a call
E02xx  names and sizes                     E06xx  statements
E03xx  dtypes, shapes, extents             E09xx  intermediate files
W07xx  warnings
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    title: str
    explanation: str  # what it means, and how it is mended


def _code(title: str, explanation: str) -> Code:
    return Code(title, explanation.strip())


CODES: dict[str, Code] = {
    "E0101": _code("a parenthesis is never closed", "The place is the opening one that has no partner.  (return (+ A B) wants one `)` more."),
    "E0102": _code(
        "a closing bracket without its opening one", "`)` closes `(`, `]` closes `[`, `}` closes `{`; one stands here that fits nothing that is open."
    ),
    "E0103": _code(
        "a string or a block comment is not finished",
        'A string ends with `"` (write \\" for one inside it), a comment that starts with #| ends with |#.',
    ),
    "E0104": _code(
        "not a number",
        "A word that starts with a digit must be a whole number: an integer of at most 64 bits (3, -1; #xFF or 0xFF in hexadecimal, with o or b octal or binary), or a float (0.5, 1e-5).  `3D` is neither.",
    ),
    "E0105": _code(
        "a word or sign that has no place here",
        "Commas stand in port lists only, operands are separated by spaces; a keyword has a name after its colon, as in :axis.",
    ),
    "E0106": _code(
        "too large",
        "Limits that keep a compiler from being stopped by its input: files of 1 MiB, 40 000 words and 1000 composites; nesting of 256; names of 255 characters; 64\n"
        "composites that call one another, and 20 000 forms (both with inlined composites); 1024 ports and operands, 64 axes, 100 constraints; 500 statements in a nest.",
    ),
    "E0107": _code("not text", "Composites are UTF-8 text.  The file holds bytes that are not, or a NUL character."),
    "E0108": _code("not TOML", "The TOML reader stopped here.  Strings of several lines are written in triple quotes."),
    "E0109": _code(
        "an unknown key",
        "Keys are checked strictly, since a misspelt one would be without effect and without a word.  The message names the nearest one that exists.",
    ),
    "E0110": _code("something that every composite has is missing", "A composite has a name, inputs, outputs and an implementation with its code."),
    "E0111": _code("a TOML value of the wrong kind", 'For instance a string where a list stands: inputs = ["A{f32}[N]"], not inputs = "A{f32}[N]".'),
    "E0112": _code(
        "this is not a port", "A port is NAME{TYPE}[SIZES]<ORDER>(WHERE), without spaces between its parts; in TOML each string holds one."
    ),
    "E0113": _code(
        "an input needs type and sizes", "A{f32}[M N]; a scalar has the empty list, A{f32}[].  Only an output may leave them to the body."
    ),
    "E0114": _code(
        "an unknown type",
        "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool c64 and their usual aliases in any case, or a type variable: one capital letter, or Dense.",
    ),
    "E0115": _code(
        "this cannot be a size",
        "A size is an integer from 0, a name, an expression such as (* 2 M) of + - * floordiv mod max min, or `~` as the first one.",
    ),
    "E0116": _code("not a memory order", "<0 1> lists every axis once, from the outermost to the innermost; ports with `~` are row-major."),
    "E0117": _code(
        "not a constraint", "(where M = 1), (where K = (* 2 M), N < 4096, M % 8 = 0): comparisons of size expressions, separated by commas."
    ),
    "E0118": _code(
        "an output that is nothing",
        "An output is the bare name of an input, which then is updated in place, or a port of its own: C{f32}[M N], or C{} where the body gives type and sizes.",
    ),
    "E0119": _code("code is missing", "An implementation has at least one form; the code of a test is one (lambda (ports and sizes) form…)."),
    "E0120": _code(
        "a parameter or a test is declared wrongly",
        "Parameters are of type axis, axes, int, ints, float, bool, dtype or string, and their default is of that type.",
    ),
    "E0121": _code("this cannot be the name of a composite", "A letter, then letters, digits, _ and -.  In emitted code - becomes _."),
    "E0122": _code("this is not a composite", "(composite NAME ((port…  &key (parameter default)…) -> (port…) where constraints) form…)"),
    "E0201": _code(
        "an unknown name", "Nothing visible has this name: no local, port, size, parameter or literal, neither exactly nor with case, - and _ folded."
    ),
    "E0202": _code("an ambiguous name", "No name is spelt exactly so, and several are when case, - and _ are folded.  Use the exact spelling."),
    "E0203": _code(
        "an unknown operator or composite", "`luminal ops` lists the library; -I DIR adds a folder in which called composites are looked up."
    ),
    "E0204": _code("a name is used twice", "Ports (and composites of one file) must differ in more than case, - and _."),
    "E0205": _code(
        "a composite calls itself", "Composites are inlined, so a chain of calls must end.  The note shows the circle; a repetition is a loop."
    ),
    "E0206": _code("sizes are defined in a circle", "(where M = (* 2 N), N = M) says nothing: some size must come from a tensor."),
    "E0208": _code("an unknown size", "The size stands in no input, and no equation defines it."),
    "E0301": _code(
        "dtypes differ",
        "Nothing is converted silently: (cast f32 x).  Only plain numbers (literals, sizes, loop variables) take the dtype of what stands beside them.",
    ),
    "E0302": _code("a float literal beside integers", "(* A 0.5) with an integer A: is (* (cast f32 A) 0.5) meant, or an integer?"),
    "E0303": _code(
        "an operator that does not take this dtype",
        "`/` of integers is either (floordiv a b) or a division of floats, (/ (cast f32 a) (cast f32 b)); a condition is bool.",
    ),
    "E0304": _code(
        "a number that the dtype does not hold",
        "A plain integer takes the dtype of what stands beside it: (+ X 300) with an X of u8 says nothing.  (cast u8 300) is 44: a conversion that is asked for wraps.",
    ),
    "E0306": _code("an extent that no memory holds", "Literal extents are from 0 to 2^48, and so is their product."),
    "E0307": _code("a precondition that cannot hold", "The `where` of a composite, or of one that it calls, is refuted by the sizes at hand."),
    "E0310": _code(
        "shapes do not broadcast", "Axes are aligned at the last one, and each is equal or a literal 1.  A symbolic size is never taken for 1."
    ),
    "E0311": _code(
        "sizes that are not provably equal",
        "Two sizes are equal only where that follows from the ports and the `where`.  Give both the same name, or state it: (where K = (* 2 M)).",
    ),
    "E0312": _code("there is no such axis", "Axes count from 0, or from the end with -1; each may be given once."),
    "E0313": _code("a wrong number of axes", "The tensor has more or fewer axes than are expected here."),
    "E0314": _code("not a permutation", "(transpose x 2 0 1) names every axis once."),
    "E0315": _code("a reshape that changes the number of elements", "The products of the extents must be provably equal; one extent may be -1."),
    "E0316": _code("an einsum that does not fit", '(einsum "ij,jk->ik" A B): one group of letters for each operand, one letter for each axis.'),
    "E0317": _code(
        "extents that do not fit the operation", "A step of 0, negative padding, a window larger than its axis, a piece of negative extent."
    ),
    "E0318": _code("an index that is no integer", "Indices are of an integer dtype: (cast i64 x)."),
    "E0319": _code(
        "an index that is always outside",
        "Indices count from 0; negative ones are errors.  What may be inside is checked at run time, what never is, here.",
    ),
    "E0320": _code(
        "not known at compile time", "Axes, and the sizes of shapes, are made of literals, sizes and parameters, not of what tensors hold."
    ),
    "E0501": _code("a wrong number of operands", "The message shows the operator's or the composite's signature.  Operands come before keywords."),
    "E0502": _code("a keyword that is unknown, twice there or without a value", "Keywords follow the operands: (sum x :axis 1 :keepdims t)."),
    "E0503": _code("an operand of the wrong kind", "For instance a number where t or nil stands, or a list where one tensor does."),
    "E0504": _code(
        "a parameter has no value", "A parameter without a default must be given: (composite … :name value), -D name=value, or a keyword in Python."
    ),
    "E0505": _code(
        "a wrong number of indices", "(aref T i j) has one index for each axis of T; with fewer it is what they leave of T, which is no number."
    ),
    "E0601": _code(
        "a malformed statement",
        "(dotimes (v count) form…), (loop (v from to [by]) form…), (while c :max n form…), (let ((v e)…) form…), (setf place e), (incf place [e])",
    ),
    "E0602": _code("never reached", "Nothing behind `return` is run."),
    "E0603": _code("a wrong number of values", "As many names as values in (setf (values a b) …), as many values as outputs in (return …)."),
    "E0604": _code(
        "a port without a value", "An optional port that is not given here (ask with (given B)), or an output that is read before it is assigned."
    ),
    "E0605": _code("a statement without effect", "A value that nothing uses, or a loop that stores nothing."),
    "E0606": _code("an output is never given a value", "Either (return …), or (setf Y …), or stores into its elements."),
    "E0607": _code(
        "a tensor where a loop needs a number",
        "An index, a bound, a condition and a variable that holds a number take a number: an element (aref T i j), or a reduction such as (sum (aref T i)).  Nor can a "
        "number be assigned to a whole tensor inside a loop, or a tensor be updated in place by a call there.",
    ),
    "E0608": _code(
        "an output's shape is not known yet",
        "Elements can be stored into an output only when its sizes stand in an input or a `where`, or after (setf Y (zeros (M N))).",
    ),
    "E0609": _code("return inside a loop", "A composite gives its outputs once, behind its loops."),
    "E0610": _code("a loop that cannot be", "A loop variable is never assigned, and a step is never 0."),
    "E0901": _code(
        "an intermediate file cannot be read",
        "A .graph, .kernel or .program file does not follow the grammar at the head of ir/graph.py, ir/kernel.py, ir/program.py.",
    ),
    "E0902": _code("an unknown name in an intermediate file", "Something is used that no line before it declares."),
    "E0903": _code("an intermediate file contradicts itself", "Shapes, dtypes or counts do not agree."),
    "E0904": _code(
        "an intermediate file breaks a rule of its level", "The file can be read, but what it says is not valid; the message names the rule."
    ),
    "W0701": _code(
        "a store into an input that is no output",
        "Tensors are values: what is stored is seen in this composite only.  List the input among the outputs to update it in place.",
    ),
    "W0702": _code("an output in place that is never changed", "The port is listed among the outputs, and nothing is stored into it."),
}
