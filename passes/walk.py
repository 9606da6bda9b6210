"""Walks over graphs of any depth: generators that yield further walks, driven on a stack of our own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Walk = Generator["Walk", Any, Any]


def run(walk: Walk) -> Any:
    """Drive a walk whose steps yield further walks, on a stack of our own."""
    stack, result = [walk], None
    while stack:
        try:
            step = stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
        else:
            stack.append(step)
            result = None
    return result
