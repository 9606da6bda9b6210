"""Kernels that differ in names alone are scheduled once: the others take the same steps, by their own names.

    kernel k_0(X, Wq, temp):  …                      schedule "stage Wq j.0 p.1 j.1.b at=p.0"
    kernel k_1(Y, Wk, temp1): …                →     schedule "stage Wk j.0 p.1 j.1.b at=p.0"

What a step names after a buffer, such as `Wq.packed`, is named after the other one.
"""

from __future__ import annotations

import re

from ...ir.kernel import Kernel, Module
from ...ir.record import replace
from ...ir.renaming import defined
from ..programs.alike import alike
from .tree import BOUND, rename

_QUOTED = re.compile("`[^`]*`")


def again(kernel: Kernel, plain: Kernel, scheduled: Kernel, module: Module, gpu: bool) -> Kernel | None:
    """`kernel` as `plain` was scheduled, where they are alike, and call all that they introduce the same; None where not."""
    found = alike(plain, kernel, module, gpu)
    if found is None or scheduled.notes[: len(plain.notes)] != plain.notes:
        return None
    names = {a: b for a, b in found.items() if a != b}
    if not names.keys().isdisjoint(defined(plain.body)):
        return None

    words = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(found, key=len, reverse=True)))})(?!\w)")

    def called(text: str) -> str:
        return words.sub(lambda m: found[m[0]], text)

    introduced = {n: new for n in defined(scheduled.body) if (new := called(n)) != n}
    return replace(
        kernel,
        body=rename(scheduled.body, {**introduced, **names}, BOUND | {"size", "to_line"}),
        schedule=tuple(map(called, scheduled.schedule)),
        notes=(*kernel.notes, *(_QUOTED.sub(lambda m: called(m[0]), note) for note in scheduled.notes[len(plain.notes) :])),
    )
