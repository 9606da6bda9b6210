"""`python -m luminal.bench.device`: kernels of the cuda runtime on a GPU, beside PyTorch and beside what the device can do.

Every row is checked first: luminal's result against PyTorch's in float64.  A time is the median of calls between two events on the device, over memory that was
made before; the ratio is the faster of PyTorch's forms over ours (above 1 ours is faster), and the last column the part of the ceiling that ours reaches: of the
best copy for what is bound by memory, of cuBLAS's own product for what is bound by arithmetic: in f32 (TF32 off), or in bf16 for operands of 16 bits.

    python -m luminal.bench.device                          all rows
    python -m luminal.bench.device --only softmax --runs 50
    python -m luminal.bench.device --out bench/results      also kept, as DATE-DEVICE.txt
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy

from .. import __version__
from ..compiler import Settings, compilations
from ..ir.dtypes import numpy_dtype
from ..ir.layout import layout
from ..runtimes.registry import load
from ..search.draw import draw
from ..search.operations import work_of
from ..search.trial import in_memory

WARM_UP = 3


@dataclass(frozen=True)
class Work:
    """One row: a composite, or the name of one of the library, and what PyTorch's users call instead; the first form is the one that is compared with."""

    name: str
    code: str
    sizes: dict[str, int]
    forms: tuple[str, ...]
    dtype: str = "f32"


def _square(n: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, n)


def works() -> list[Work]:
    """Sizes are beyond the caches of the devices that there are, but for those called small."""
    plus = "(composite plus ((X{T}[M N] Y{T}[M N]) -> (Z{T}[M N])) (return (+ X Y)))"
    chain = "(composite chain ((X{T}[M N]) -> (Y{T}[M N])) (return (* 0.5 (exp (sin (+ (* 2 X) 1))))))"
    turned = "(composite turned ((X{T}[M N]) -> (Y{T}[N M])) (return (transpose X)))"
    rows = "(composite rows ((X{T}[M N]) -> (Y{T}[M])) (return (sum X :axis 1)))"
    columns = "(composite columns ((X{T}[M N]) -> (Y{T}[N])) (return (sum X :axis 0)))"
    biased = "(composite biased ((A{T}[M K] B{T}[K N] v{T}[N]) -> (C{T}[M N])) (return (gelu (+ (matmul A B) v))))"
    of_rows = ("torch.softmax(X, -1)", "compiled(lambda X: torch.softmax(X, -1))(X)")
    norm = ("functional.layer_norm(X, (N,), W, B)", "compiled(lambda X, W, B: functional.layer_norm(X, (X.shape[-1],), W, B))(X, W, B)")
    attention = str(Path(__file__).parent.parent / "samples" / "attention.toml")
    scaled = ("functional.scaled_dot_product_attention(Q, K, V)",)
    causal = "functional.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=True)[0]"
    capped = tuple(
        f"{c}(lambda Q, K, V: torch.softmax(50 * torch.tanh(Q @ K.mT * Q.shape[-1] ** -0.5 / 50), -1) @ V)(Q, K, V)" for c in ("", "compiled")
    )
    heads = {"B": 4, "H": 16, "N": 2048, "M": 2048, "D": 64, "E": 64}
    return [
        Work("x + y", plus, _square(8192, "M", "N"), ("torch.add(X, Y)",)),
        Work("exp(sin(2x + 1)) / 2", chain, _square(8192, "M", "N"), ("torch.exp(torch.sin(2 * X + 1)) / 2", "compiled(lambda X: torch.exp(torch.sin(2 * X + 1)) / 2)(X)")),
        Work("transposition", turned, _square(8192, "M", "N"), ("X.mT.contiguous()",)),
        Work("sums of rows", rows, _square(8192, "M", "N"), ("X.sum(1)",)),
        Work("sums of columns", columns, _square(8192, "M", "N"), ("X.sum(0)",)),
        Work("softmax", "softmax", {"batch": 8192, "N": 8192}, of_rows),
        Work("softmax, short rows", "softmax", {"batch": 262144, "N": 256}, of_rows),
        Work("layer norm", "layer_norm", {"batch": 8192, "N": 8192}, norm),
        Work("gemm, small", "matmul", {"batch": 1, **_square(256, "M", "N", "K")}, ("A @ B",)),
        Work("gemm", "matmul", {"batch": 1, **_square(1024, "M", "N", "K")}, ("A @ B",)),
        Work("gemm", "matmul", {"batch": 1, **_square(4096, "M", "N", "K")}, ("A @ B",)),
        *(Work("gemm", "matmul", {"batch": 1, **_square(n, "M", "N", "K")}, ("A @ B",), d) for d in ("bf16", "f16") for n in (1024, 4096)),
        *(Work("gemm", "matmul", {"batch": 1, "M": 8192, **_square(1024, "N", "K")}, ("A @ B",), d) for d in ("bf16", "f16")),
        Work("gemm, bias, gelu", biased, _square(2048, "M", "N", "K"), ("functional.gelu(torch.addmm(v, A, B))",)),
        Work("attention", attention, heads, scaled),
        Work("attention", attention, heads, scaled, "bf16"),
        Work("attention, causal", "causal_attention", {"batch": 64, **_square(2048, "N", "M"), **_square(64, "D", "E")}, (causal,), "bf16"),
        Work("attention, wide heads", attention, heads | {"H": 8, "D": 128, "E": 128}, scaled, "bf16"),
        Work("attention, one query", "attention", {"batch": 128, "N": 1, "M": 8192, **_square(128, "D", "E")}, scaled, "bf16"),
        Work("attention, soft cap", "softcap_attention", {"batch": 64, **_square(2048, "N", "M"), **_square(64, "D", "E")}, capped, "bf16"),
    ]  # fmt: skip


class Device:
    """PyTorch's side: arrays there, and times by events."""

    def __init__(self, runs: int) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.torch, self.runs = torch, runs
        self.name: str = torch.cuda.get_device_name(0)

    def time(self, call: Callable[[], Any]) -> float:
        """Seconds on the device, the median of the runs."""
        event = self.torch.cuda.Event
        found: list[float] = []
        for k in range(WARM_UP + self.runs):
            start, end = event(enable_timing=True), event(enable_timing=True)
            start.record()
            call()
            end.record()
            end.synchronize()
            if k >= WARM_UP:
                found.append(start.elapsed_time(end) / 1e3)
        return median(found)

    def array(self, array: Any, dtype: str) -> Any:
        there = self.torch.from_numpy(
            numpy.ascontiguousarray(array.astype("f4" if array.dtype.kind == "V" or dtype in ("bf16", "f16") else array.dtype))
        )
        return there.cuda().to(getattr(self.torch, {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}[dtype]))

    def form(self, text: str, arrays: dict[str, Any], sizes: dict[str, int]) -> Callable[[], Any]:
        made: dict[str, Any] = {}

        def compiled(function: Callable[..., Any]) -> Callable[..., Any]:  # once a form, not once a call
            if text not in made:
                made[text] = self.torch.compile(function)
            return made[text]

        return eval("lambda: " + text, {"torch": self.torch, "functional": self.torch.nn.functional, "compiled": compiled, **arrays, **sizes})

    def ceilings(self) -> tuple[float, dict[str, float]]:
        """Bytes a second of the best copy, read and written; floating-point operations a second of cuBLAS in f32 and in bf16."""
        torch = self.torch
        source = torch.randn(1 << 28, device="cuda")
        target = torch.empty_like(source)
        copy = 2 * source.nbytes / self.time(lambda: target.copy_(source))
        peaks: dict[str, float] = {}
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            a, b = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))
            c = torch.empty_like(a)
            peaks[name] = 2 * 8192**3 / self.time(lambda a=a, b=b, c=c: torch.mm(a, b, out=c))
        return copy, peaks


def row(work: Work, device: Device, copy: float, peaks: dict[str, float]) -> str:
    """Check one row, time it, and say both.  ValueError where the results differ."""
    settings = Settings(runtime="cuda", portable=False, dtype={"T": work.dtype} if work.dtype != "f32" else {})
    (compilation,) = compilations(work.code, settings)
    program, sizes = compilation.program, work.sizes
    library = load(compilation.runtime, compilation.library_path(), program, compilation.target, settings.prefix)
    graph = compilation.elaborate()
    inputs = {p.name: draw(p, sizes, 0) for p in graph.ports if p.role not in ("out", "scalar")}
    scalars = {p.name: draw(p, sizes, 0) for p in graph.ports if p.role == "scalar"}
    buffers = {p.name: in_memory(p, sizes, inputs.get(p.name)) for p in program.ports if p.role != "scalar"} | scalars
    if code := library.call(buffers, sizes):
        raise ValueError(f"{work.name}: error code {code}")
    out = next(p for p in graph.ports if p.role == "out")
    ours = buffers[out.name].view(numpy_dtype(out.dtype))[: layout(out, sizes)[2]].astype("f8")
    arrays = {n: device.array(a, work.dtype) for n, a in inputs.items()}
    exact = device.form(work.forms[0], {n: a.double() for n, a in arrays.items()}, sizes)().cpu().numpy().reshape(-1)
    theirs = device.form(work.forms[0], arrays, sizes)().double().cpu().numpy().reshape(-1)
    error, theirs_error = (float(numpy.linalg.norm(x - exact) / numpy.linalg.norm(exact)) for x in (ours, theirs))
    if not error <= max(4 * theirs_error, 1e-5):
        raise ValueError(f"{work.name}: the error is {error:.2g} of the norm, PyTorch's {theirs_error:.2g}")
    mine = median(library.time(buffers, sizes, device.runs))
    peers = [device.time(device.form(text, arrays, sizes)) for text in work.forms]
    flops, moved = work_of(compilation.run(stop_after="simplify"), sizes)
    kind = "bf16" if work.dtype in ("bf16", "f16") else "f32"
    by_memory, by_arithmetic = moved / copy, flops / peaks[kind]
    bound = f"{by_memory / mine:5.0%} of copy" if by_memory > by_arithmetic else f"{by_arithmetic / mine:5.0%} of cuBLAS {kind}"
    return (
        f"{work.name:<24}{work.dtype:<6}{' '.join(f'{n}={v}' for n, v in sizes.items()):<44}{mine * 1e3:10.3f} ms"
        f"{' /'.join(f'{p * 1e3:9.3f}' for p in peers):>22}{min(peers) / mine:8.2f}  {bound:<22} error {error:.1e} ({theirs_error:.1e})  {len(program.functions)} kernels"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench.device", description="kernels of the cuda runtime on a GPU")
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose name and type hold it: gemm, bf16")
    parser.add_argument("--runs", type=int, default=20, help="timed calls of each")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the table there")
    given = parser.parse_args()
    device = Device(given.runs)
    copy, peaks = device.ceilings()
    head = f"{device.name}; luminal {__version__}, PyTorch {device.torch.__version__}; copy {copy / 1e12:.2f} TB/s, " + ", ".join(
        f"cuBLAS {name} {peak / 1e12:.1f} TFLOP/s" for name, peak in peaks.items()
    )
    lines = [head, f"python -m luminal.bench.device {shlex.join(sys.argv[1:])}".rstrip(), f"{'':<74}{'luminal':>13}{'PyTorch, ms':>22}{'ratio':>8}"]
    print("\n".join(lines), flush=True)
    failed = False
    for work in works():
        if given.only not in f"{work.name} {work.dtype}":
            continue
        try:
            lines.append(row(work, device, copy, peaks))
        except Exception as error:  # a row that fails does not keep the others from being seen
            failed = True
            lines.append(f"{work.name:<24}{work.dtype:<6}{type(error).__name__}: {error}")
        print(lines[-1], flush=True)
    if given.out:
        where = given.out / f"{datetime.date.today()}-{device.name.lower().replace(' ', '-')}.txt"
        where.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
