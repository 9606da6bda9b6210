"""What tests of lowering and of programs share: kernels and functions as text, and the function that each becomes."""

from __future__ import annotations

from textwrap import dedent, indent

from luminal.ir.kernel import Module
from luminal.ir.program import Program
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
    assert read(show(program)) == program
    return body_of(program)


def expect(body: str, wanted: str, target: Target = CPU, **more: str) -> None:
    assert lowered(body, target, **more) == dedent(wanted).strip()


HEAD = (
    "program k v1\nsize M\nsize N multiple 4\nin x: f32[M, N]\nout y: f32[M, N]\nrequire 4 <= M\n\n"
    "function k_0(const f32* x, const f32* b, const i64* at, f32* y, f32* z, f32 alpha, i64 M, i64 N):\n"
)


def program_of(body: str, head: str = HEAD, entry: str = "fail 0") -> Program:
    """A program of one function."""
    result = read(f"{head}{indent(dedent(body).strip(), '  ')}\n\nentry:\n  {entry}\n")
    assert isinstance(result, Program)
    return result


def body_of(program: Program) -> str:
    """What the one function does."""
    text = show(program)
    return dedent("\n".join(text[text.index("\nfunction ") + 1 : text.index("\nentry:")].rstrip().split("\n")[1:]))
