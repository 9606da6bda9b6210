"""The invariants of every level, as small named rules: `verify(x)` raises CompilerBug with the name of the first rule that does not hold.

`RULES[level]` is the table (graph | kernels | program); a rule is a generator of what breaks it.  The rules are syntactic and quick (no proofs): what they accept may
still read outside a buffer, which the interpreters find; what they refuse is always wrong.
"""

from __future__ import annotations

from typing import Any

from ..errors import CompilerBug
from .rule import Rule

__all__ = ["Rule", "rules", "verify"]


def verify(x: Any) -> None:
    """Check a Graph, a kernel Module or a Program against all rules of its level.  CompilerBug: `where` is LEVEL/RULE, the message the first finding."""
    level, table, subject = _subject(x)
    for rule in table:
        for finding in rule.findings(subject):
            raise CompilerBug(f"{level}/{rule.name}", f"{finding} ({rule.meaning})")


def rules(level: str) -> tuple[Rule, ...]:
    """The rules of a level: graph | kernels | program."""
    if level == "graph":
        from .graph import RULES as found
    elif level == "kernels":
        from .kernel import RULES as found
    else:
        from .program import RULES as found
    return found


def _subject(x: Any) -> tuple[str, tuple[Rule, ...], Any]:
    from ..graph import Graph
    from ..kernel import Module

    if isinstance(x, Graph):
        return "graph", rules("graph"), x
    if isinstance(x, Module):
        from .kernel import Subject

        return "kernels", rules("kernels"), Subject(x)
    from .program import Subject as ProgramSubject

    return "program", rules("program"), ProgramSubject(x)
