"""Mutation testing of the integer reasoning: small changes of the code, each of which some test must notice.

    python tests/mutate.py [--each 20] [--seed 0] [--only ir/simplify.py] [--verbose]

A mutant is one change of a syntax tree: a comparison turned round, a constant off by one, a condition dropped or negated, operands swapped, a sum for a difference.  The
changed module is written over the real one in a copy of the tree, and the quick tests that concern it are run until one fails, in a fork with a limit of time and of memory.
Those that nothing notices are printed, at the end a table of all modules.  Not part of the test run.

`mutate_equivalent.txt` lists the mutants that no test can notice and why: a paragraph each, first the module and the function (- for none), then the statement as it became
(* for all of the function), then the reason (`=` the same for every input; `~` the same answers, found at another price).  They count for neither side, and the table says how many there were.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy  # noqa: F401 - once, before the forks
import pytest

ROOT = Path(__file__).parent.parent
# module -> the tests that are to notice, the quickest first
_REASONING = (
    "test_intervals.py",
    "test_polynomial.py",
    "test_witness.py",
    "test_speed_witness.py",
    "test_simplify_index.py",
    "test_simplify_forms.py",
    "test_bounds.py",
    "test_knowledge.py",
    "test_build_simplify.py",
)
_MOVEMENT = ("test_views.py", "test_views_positions.py", "test_build_graph.py", "test_dsl_meaning.py")
SUBJECTS = {
    "ir/simplify.py": _REASONING, "ir/conditions.py": _REASONING, "ir/knowledge.py": _REASONING, "ir/ranges.py": _REASONING, "ir/bounds.py": _REASONING, "ir/polynomial.py": _REASONING,
    "ir/witness.py": _REASONING, "ir/intervals.py": _REASONING, "ir/movement.py": _MOVEMENT, "ir/reshape.py": _MOVEMENT, "ir/indexing.py": _MOVEMENT,
}  # fmt: skip
SLOW = ("tests/test_build_simplify.py::test_depth_is_not_pythons",)
UNUSED = ("cacheprovider", "xdist", "hypothesispytest")  # plugins that only cost time here
PATIENCE = 4  # a mutant may take so many times the processor time of the tests by themselves; one that is slower is noticed
MEMORY = 2 << 30  # bytes of address space for one run
EQUIVALENT = Path(__file__).parent / "mutate_equivalent.txt"

_FLIPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
            ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
_SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become, each with a word for it."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _FLIPPED:
            other = copy.deepcopy(node)
            other.ops = [_FLIPPED[type(op)]()]
            yield "comparison", other
        case ast.BinOp(op=op) if type(op) in _SWAPPED and not isinstance(node.left, (ast.Constant, ast.JoinedStr)):
            other = copy.deepcopy(node)
            other.op = _SWAPPED[type(op)]()
            yield "operator", other
            if isinstance(op, (ast.Sub, ast.FloorDiv, ast.Mod)):
                other = copy.deepcopy(node)
                other.left, other.right = other.right, other.left
                yield "operands", other
        case ast.BoolOp(values=[first, *rest]):
            yield "dropped", copy.deepcopy(first)
            yield "dropped", copy.deepcopy(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
            other = copy.deepcopy(node)
            other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", other
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield "constant", ast.Constant(value + 1)
            if value:
                yield "constant", ast.Constant(value - 1)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield "not", copy.deepcopy(inner)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield "sign", copy.deepcopy(inner)
        case ast.If() | ast.While() | ast.IfExp():
            if not isinstance(node.test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
                other = copy.deepcopy(node)
                other.test = ast.UnaryOp(ast.Not(), other.test)
                yield "condition", other
        case ast.Call(args=[_, _, *_]) if not node.keywords and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            other = copy.deepcopy(node)
            other.func = ast.Name("max" if node.func.id == "min" else "min", ast.Load())
            yield "min/max", other


def sites(tree: ast.Module) -> list[tuple[int, str, int]]:
    """(number of the node in `ast.walk`, what, which of its changes); docstrings, annotations, messages and error codes are left alone."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        inner: list[ast.AST] = []
        if isinstance(node, (ast.FunctionDef, ast.arg)):
            inner = [a for a in (getattr(node, "returns", None), getattr(node, "annotation", None)) if a is not None]
        elif isinstance(node, ast.AnnAssign):
            inner = [node.annotation]
        elif isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
            inner = [node]
        skipped |= {id(n) for i in inner for n in ast.walk(i)}
    found = []
    for k, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            found += [(k, what, n) for n, (what, _) in enumerate(changes(node))]
    return found


def places(tree: ast.Module) -> dict[int, tuple[str, ast.stmt]]:
    """For each node by its id: the names of the functions around it, and the innermost statement that it stands in."""
    found: dict[int, tuple[str, ast.stmt]] = {}

    def visit(node: ast.AST, path: tuple[str, ...], statement: ast.stmt | None) -> None:
        if isinstance(node, ast.stmt):
            statement = node
        if statement is not None:
            found[id(node)] = (".".join(path), statement)
        inner = (*path, node.name) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else path
        for child in ast.iter_child_nodes(node):
            visit(child, inner, statement)

    visit(tree, (), None)
    return found


def mutated(source: str, site: tuple[int, str, int]) -> tuple[str, str, str, str]:
    """(the module with one change, the function, the statement as it became, the change in words)"""
    tree = ast.parse(source)
    number, what, which = site
    target = list(ast.walk(tree))[number]
    function, statement = places(tree)[id(target)]
    replacement = [r for _, r in changes(target)][which]
    words = f"line {getattr(target, 'lineno', 0)}, {what}: {first_line(target)}  →  {first_line(replacement)}"

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return ast.copy_location(replacement, node) if node is target else super().visit(node)

    changed = ast.fix_missing_locations(Replace().visit(tree))
    return ast.unparse(changed), function or "-", first_line(replacement if statement is target else statement), words


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]


def equivalents() -> dict[tuple[str, str, str], str]:
    """(module, function, statement as it became) -> why nothing can notice it."""
    found: dict[tuple[str, str, str], str] = {}
    if EQUIVALENT.exists():
        for paragraph in EQUIVALENT.read_text().strip().split("\n\n"):
            place, statement, *why = paragraph.split("\n")
            module, function = place.split()
            found[module, function, statement.strip()] = " ".join(w.strip() for w in why)
    return found


class Runner:
    """A copy of the tree in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "luminal"
        shutil.copytree(ROOT, self.place, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build"))
        self.originals = {m: (self.place / m).read_text() for m in SUBJECTS}
        self.limits: dict[tuple[str, ...], int] = {}
        self.writes = 0

    def write(self, module: str, text: str) -> None:
        """With a time that no other version has: Python would take the bytecode of an equally long one of the same second for this one's."""
        file = self.place / module
        file.write_text(text)
        self.writes += 1
        os.utime(file, (self.writes, self.writes))

    def measure(self, tests: tuple[str, ...]) -> None:
        for _ in range(2):  # the first writes the bytecode
            failed, seconds = self.run(tests, 600)
            if failed:
                sys.exit(f"{', '.join(tests)} do not pass as it is")
            self.limits[tests] = 2 + int(PATIENCE * seconds)

    def notices(self, module: str, text: str) -> bool:
        """A test of the module fails on this version, or they take too long."""
        self.write(module, text)
        found, _ = self.run(SUBJECTS[module], self.limits[SUBJECTS[module]])
        self.write(module, self.originals[module])
        return found

    def run(self, tests: tuple[str, ...], limit: int) -> tuple[bool, float]:
        """(a test failed or the limit was reached, processor time in seconds).  In a fork, so that pytest and NumPy are imported once."""
        child = os.fork()
        if child == 0:
            os.chdir(self.place)
            sys.path.insert(0, str(self.place.parent))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            files = [f"tests/{t}" for t in tests]
            os._exit(int(pytest.main(["-q", "-x", *(f"-pno:{p}" for p in UNUSED), *(f"--deselect={s}" for s in SLOW), *files])))
        _, status, usage = os.wait4(child, 0)
        return status != 0, usage.ru_utime + usage.ru_stime


def table(modules: list[str], tried: Counter[str], killed: Counter[str], known: Counter[str]) -> str:
    rows = [(m, tried[m], killed[m], known[m]) for m in modules]
    rows.append(("all", tried.total(), killed.total(), known.total()))
    lines = [f"{'module':<20} {'mutants':>8} {'noticed':>8} {'equivalent':>11} {'share':>7} {'of all':>7}"]
    for name, n, k, same in rows:
        lines.append(f"{name:<20} {n:>8} {k:>8} {same:>11} {100 * k / max(n - same, 1):>5.0f} % {100 * k / max(n, 1):>5.0f} %")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--each", type=int, default=20, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one module", choices=list(SUBJECTS), metavar="MODULE")
    parser.add_argument("--verbose", action="store_true", help="the noticed ones too")
    options = parser.parse_args()
    modules = [options.only] if options.only else list(SUBJECTS)
    same = equivalents()
    tried, killed, known = Counter[str](), Counter[str](), Counter[str]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for tests in dict.fromkeys(SUBJECTS[m] for m in modules):
            runner.measure(tests)
        for module in modules:
            source = runner.originals[module]
            every = sites(ast.parse(source))
            for site in sorted(random.Random(f"{options.seed} {module}").sample(every, min(options.each, len(every)))):
                text, function, statement, words = mutated(source, site)
                tried[module] += 1
                if runner.notices(module, text):
                    killed[module] += 1
                    verdict = "noticed"
                elif (module, function, statement) in same or (module, function, "*") in same:
                    known[module] += 1
                    verdict = "equivalent"
                else:
                    verdict = "SURVIVES"
                if options.verbose or verdict == "SURVIVES":
                    print(f"{verdict} {words}\n    {module} {function}\n    {statement}", flush=True)
    print(table(modules, tried, killed, known))
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s; share: of those that are not equivalent")


if __name__ == "__main__":
    main()
