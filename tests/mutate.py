"""Mutation testing of the integer reasoning: small changes of the code, each of which some test must notice.

    python tests/mutate.py [--count 150] [--seed 0] [--only ir/simplify.py] [--verbose]

A mutant is one change of a syntax tree: a comparison turned round, a constant off by one, a condition dropped or negated, operands swapped, a sum for a difference.  The
changed module is written over the real one in a copy of the tree, and the quick tests that concern it are run until one fails.  The share that is noticed
is printed, then the mutants that are not.  Not part of the test run.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy  # noqa: F401 - once, before the forks
import pytest

ROOT = Path(__file__).parent.parent
# module -> the tests that are to notice, the quickest first
SUBJECTS = {
    "ir/simplify.py": ("test_simplify_index.py", "test_build_graph.py", "test_build_simplify.py"),
    "ir/conditions.py": ("test_simplify_index.py", "test_build_graph.py", "test_build_simplify.py"),
    "ir/knowledge.py": ("test_speed_witness.py", "test_simplify_index.py", "test_build_graph.py", "test_build_simplify.py"),
    "ir/bounds.py": ("test_simplify_index.py", "test_build_graph.py", "test_build_simplify.py"),
    "ir/polynomial.py": ("test_simplify_index.py", "test_build_graph.py", "test_build_simplify.py"),
    "ir/witness.py": ("test_speed_witness.py", "test_simplify_index.py", "test_build_simplify.py"),
    "ir/intervals.py": ("test_simplify_index.py", "test_build_simplify.py"),
    "ir/movement.py": ("test_build_graph.py", "test_dsl_meaning.py"),
    "ir/reshape.py": ("test_build_graph.py", "test_dsl_meaning.py"),
    "ir/indexing.py": ("test_build_graph.py", "test_dsl_meaning.py"),
}
SLOW = ("tests/test_build_simplify.py::test_depth_is_not_pythons",)
LIMIT = 120  # seconds of one run of the tests; a mutant that makes them slower is noticed

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


def mutated(source: str, site: tuple[int, str, int]) -> tuple[str, str]:
    """The module with one change, and the change in words."""
    tree = ast.parse(source)
    number, what, which = site
    target = list(ast.walk(tree))[number]
    replacement = [r for _, r in changes(target)][which]
    line = getattr(target, "lineno", 0)
    before = ast.unparse(target).split("\n")[0]
    after = ast.unparse(replacement).split("\n")[0]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return ast.copy_location(replacement, node) if node is target else super().visit(node)

    changed = ast.fix_missing_locations(Replace().visit(tree))
    return ast.unparse(changed), f"line {line}, {what}: {before[:90]}  →  {after[:90]}"


def noticed(place: Path, tests: tuple[str, ...]) -> bool:
    """Some test fails, or they take too long.  In a fork, so that pytest and NumPy are imported once."""
    child = os.fork()
    if child == 0:
        os.chdir(place / "luminal")
        sys.path.insert(0, str(place))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        signal.alarm(LIMIT)
        files = [f"tests/{t}" for t in tests]
        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *(f"--deselect={s}" for s in SLOW), *files])))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one module")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    modules = [options.only] if options.only else list(SUBJECTS)
    every = [(m, site) for m in modules for site in sites(ast.parse((ROOT / m).read_text()))]
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    chosen.sort(key=lambda pair: (modules.index(pair[0]), pair[1]))
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(ROOT, place / "luminal", ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build"))
        began = time.monotonic()
        for tests in dict.fromkeys(SUBJECTS[m] for m in modules):
            if noticed(place, tests):
                sys.exit(f"{', '.join(tests)} do not pass as it is")
        for k, (module, site) in enumerate(chosen):
            file = place / "luminal" / module
            original = (ROOT / module).read_text()
            text, words = mutated(original, site)
            file.write_text(text)
            by = noticed(place, SUBJECTS[module])
            file.write_text(original)
            if not by:
                survivors.append(f"{module} {words}")
            if options.verbose or not by:
                print(f"{k + 1:4}/{len(chosen)} {'noticed' if by else 'SURVIVES'} {module} {words}", flush=True)
    killed = len(chosen) - len(survivors)
    print(
        f"{killed} of {len(chosen)} mutants noticed ({100 * killed / len(chosen):.0f} %), of {len(every)}; seed {options.seed}, {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
