"""What tests of lowering share: kernels as text, and the function that each becomes."""

from __future__ import annotations

from textwrap import dedent, indent

from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.ir.text import read, show
from luminal.passes.lower import lower

CPU = Target("clang", "test", "a test machine", vector_bytes=32, threads=True)
SERIAL = Target("clang", "test", "no vectors, no threads")
GPU = Target("cuda", "test", "a test GPU", gpu=True, threads=True)
PORTS = "size M\nsize N\nin x: f32[M, N]\nin b: f32[N]\nin mask: bool[N]\nin at: i64[N]\nscalar alpha: f32[]\nout y: f32[M, N]\nout r: f32[M]\n"


def module(body: str, ports: str = PORTS, buffers: str = "x, b, mask, at, y, r") -> Module:
    text = f"kernels k v1\n{ports}\nkernel k_0({buffers}):\n{indent(dedent(body).strip(), '  ')}\n"
    result = read(text)
    assert isinstance(result, Module)
    return result


def lowered(body: str, target: Target = CPU, **more: str) -> str:
    """The body of the one function."""
    program = lower(module(body, **more), target, Options())
    text = show(program)
    assert read(text) == program
    lines = text[text.index("\nfunction ") + 1 : text.index("\nentry:")].rstrip().split("\n")[1:]
    return dedent("\n".join(lines))


def expect(body: str, wanted: str, target: Target = CPU, **more: str) -> None:
    assert lowered(body, target, **more) == dedent(wanted).strip()
