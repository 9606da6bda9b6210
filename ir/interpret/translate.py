"""Statements and expressions to Python source, once per kernel: what the kernel and the program interpreter share.

Every operator becomes one assignment to a fresh name, so sharing in the DAG is sharing in the text.  `where` is lazy where a branch loads: the loads of
the branch that is not taken are not performed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType, i64
from ..errors import CompilerBug
from ..expr import SOMEWHERE, Expr
from ..instructions import INSTRUCTIONS, LANE_BY_LANE, QUOTIENT
from ..primops import OPS
from ..walks import always, is_lazy, postorder
from .scalars import SUPPORT, literal, spelling

LOADS = ("load", "vload", "gather")


class Translator:
    """Collects lines; `globals` holds the constants and functions that they name."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.lines: list[str] = []
        self.depth = 0
        self.globals: dict[str, Any] = dict(SUPPORT)
        self.names: dict[str, str] = {}  # variables of the IR -> Python names
        self.sizes: dict[str, str] = {}
        self.counter = 0
        self.constants: dict[Expr, str] = {}
        self.functions: dict[Any, str] = {}
        self.loads: dict[Expr, bool] = {}
        self.values: dict[Expr, bool] = {}

    # ---- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str = "t") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def name(self, ir_name: str) -> str:
        if ir_name not in self.names:
            self.names[ir_name] = self.fresh("v")
        return self.names[ir_name]

    def constant(self, value: Any) -> str:
        name = self.fresh("c")
        self.globals[name] = value
        return name

    def compiled(self, function: str, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.globals)
        return self.globals[function]

    # ---- expressions

    def load(self, node: Expr, index: list[str]) -> str:
        """The text of a load; each level has its own."""
        raise NotImplementedError

    def flags(self, root: Expr) -> None:
        """Which nodes contain a load, and which are values rather than index arithmetic."""
        for n in postorder(root):
            if n not in self.loads:
                self.loads[n] = n.op in LOADS or any(self.loads[a] for a in n.args)
                self.values[n] = n.op in LOADS or n.op in ("cast", "bitcast") or any(self.values[a] for a in n.args)

    def expression(self, root: Expr, known: dict[Expr, str] | None = None) -> str:
        """Emit the lines that compute `root`; the name (or literal) that holds it."""
        self.flags(root)
        known = {} if known is None else known
        self.compute(root, known)
        return known[root]

    def compute(self, root: Expr, known: dict[Expr, str]) -> None:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in known:
                continue
            if self.is_lazy(node):
                self.lazy_where(node, known)
            elif ready or not node.args:
                known[node] = self.emit(node, [known[a] for a in node.args])
            else:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args))

    def is_lazy(self, node: Expr) -> bool:
        """A choice whose sides can be seen to be skipped; one without loads is a plain expression."""
        return is_lazy(node) and (self.loads[node.args[1]] or self.loads[node.args[2]])

    def lazy_where(self, root: Expr, known: dict[Expr, str]) -> None:
        """One pass of a `while True` that the branches leave: chains in one direction stay on one level of indentation."""
        target = self.fresh()
        self.line("while True:")
        self.depth += 1
        inside = dict(known)
        node = root
        while True:
            condition, then, other = node.args
            self.compute(condition, inside)
            needed = set(always(other))
            for n in always(then):
                if n in needed and self.loads[n]:
                    self.compute(n, inside)
            flip = self.is_lazy(then) and not self.is_lazy(other)
            short, rest = (other, then) if flip else (then, other)
            self.line(f"if {'not ' if flip else ''}{inside[condition]}:")
            self.depth += 1
            branch = dict(inside)
            self.compute(short, branch)
            self.line(f"{target} = {branch[short]}")
            self.line("break")
            self.depth -= 1
            if not self.is_lazy(rest) or rest in inside:
                break
            node = rest
        self.compute(rest, inside)
        self.line(f"{target} = {inside[rest]}")
        self.line("break")
        self.depth -= 1
        known[root] = target

    def emit(self, node: Expr, args: list[str]) -> str:
        if node.op == "const":
            if node.dtype is i64:
                return f"({node.attr})" if node.attr < 0 else str(node.attr)
            if node not in self.constants:
                self.constants[node] = self.constant(literal(node.attr, node.dtype, self.exact))
            return self.constants[node]
        if node.op in ("size", "var"):
            # a size and a variable of one name are different things
            found = (self.sizes if node.op == "size" else self.names).get(node.attr)
            if found is None:
                raise CompilerBug("interpret", f"{node.op} {node.attr} is not defined here")
            return found
        if node.op in LOADS:
            text = self.load(node, args)
        elif node.op in OPS:
            source = node.args[0].dtype if node.op != "where" else node.dtype
            text = self.settled(node.op, source, node.dtype, self.operator(node, args))
        else:
            text = self.form(node, args)
        result = self.fresh()
        self.line(f"{result} = {text}")
        return result

    def settled(self, op: str, source: DType, to: DType, text: str) -> str:
        """What becomes of an operator's result before it is used; `source` is the dtype of its first operand."""
        return text

    def form(self, node: Expr, args: list[str]) -> str:
        """The text of what is no operator of the table."""
        if node.op == "ins" and node.attr in INSTRUCTIONS:
            return f"{self.constant(INSTRUCTIONS[node.attr].meaning)}({', '.join(args)})"
        if node.op == "ins" and node.attr in LANE_BY_LANE:
            return f"{self.constant(LANE_BY_LANE[node.attr].meaning)}({', '.join(args)})"
        if node.op == "ins" and node.attr == QUOTIENT.name:
            return f"{self.constant(QUOTIENT.meaning)}({', '.join(args)})"
        if node.op == "to_line":
            return str(SOMEWHERE)
        raise CompilerBug("interpret", f"no meaning for {node.op}")

    def operator(self, node: Expr, args: list[str]) -> str:
        if node.op == "recip" and node.dtype.is_float:
            return f"({self.one(node)} / {args[0]})"
        how = spelling(node, self.values[node])
        if isinstance(how, str):
            return how.format(*args)
        key = (node.op, node.args[0].dtype, node.dtype)
        if key not in self.functions:
            self.functions[key] = self.constant(how(self.exact))
        return f"{self.functions[key]}({', '.join(args)})"

    def one(self, node: Expr) -> str:
        key = ("one", node.dtype)
        if key not in self.functions:
            self.functions[key] = self.constant(literal(1, node.dtype, self.exact))
        return self.functions[key]
