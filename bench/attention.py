"""`python -m luminal.bench.attention`: what the times of attention do not show, its memory and its error, beside PyTorch where that is installed.

memory    how much a call of 8 heads of S queries and S keys adds to the resident memory of a process of its own at its peak, ports and result included; the plain form holds 8 · S² scores
error     against float64, over the norm of the exact result: the root of the mean square, and the greatest
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy

HEADS, WIDTH = 8, 64
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
FORMS = ("luminal", "torch sdpa", "torch plain")
MOST = 5 << 30  # bytes of scores from which on the plain form is not asked for


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench.attention", description="memory and error of attention")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="S, separated by commas")
    parser.add_argument("--one", nargs=2, metavar=("FORM", "S"), help=argparse.SUPPRESS)  # the process of its own
    given = parser.parse_args()
    if given.one:
        print(peak(given.one[0], int(given.one[1])))
        return
    forms = FORMS if find_spec("torch") else FORMS[:1]
    print(f"peak of memory, MB: {HEADS} heads, d = {WIDTH}, f32\n{'S':>8}" + "".join(f"{f:>14}" for f in forms) + f"{'ports':>14}")
    for length in map(int, given.lengths.split(",")):
        print(f"{length:>8}" + "".join(f"{_in_child(f, length):>14}" for f in forms) + f"{4 * HEADS * length * WIDTH * 4 / 1e6:>14.1f}", flush=True)
    print(f"\nerror against float64, over the norm: {HEADS} heads, S = 512, d = {WIDTH}\n{'inputs':<24}" + "".join(f"{f:>26}" for f in forms))
    for dtype in ("f32", "f16", "bf16"):
        for scale in (1, 10):
            print(f"{f'{dtype}, normal · {scale}':<24}" + "".join(f"{_shown(e):>26}" for e in errors(dtype, scale, forms)), flush=True)


# ---- memory


def peak(form: str, length: int) -> int:
    """Bytes that one call adds to this process at its peak, with what it reads and writes."""
    call = _call(form, "f32")
    call(*_inputs(1, 16, "f32"))  # threads, and what else a library makes once
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    call(*_inputs(HEADS, length, "f32"))
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith(field))
    return int(line.split()[1]) * 1024


def _in_child(form: str, length: int) -> str:
    if form == "torch plain" and 4 * HEADS * length**2 > MOST:
        return f"({4 * HEADS * length**2 / 1e6:.0f})"
    command = [sys.executable, "-m", "luminal.bench.attention", "--one", form, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{int(done.stdout) / 1e6:.1f}" if done.returncode == 0 else "failed"


# ---- error


def errors(dtype: str, scale: float, forms: tuple[str, ...]) -> list[tuple[float, float]]:
    """(root of the mean square, greatest) of each form."""
    q, k, v = _inputs(HEADS, 512, dtype)
    q = (q * numpy.array(scale, q.dtype)).astype(q.dtype)
    wide = [x.astype(numpy.float64) for x in (q, k, v)]
    s = wide[0] @ wide[1].transpose(0, 2, 1) / WIDTH**0.5
    p = numpy.exp(s - s.max(-1, keepdims=True))
    exact = p / p.sum(-1, keepdims=True) @ wide[2]
    norm = float(numpy.sqrt((exact**2).mean()))
    found = []
    for form in forms:
        gap = numpy.asarray(_call(form, dtype)(q, k, v)).astype(numpy.float64) - exact
        found.append((float(numpy.sqrt((gap**2).mean())) / norm, float(abs(gap).max()) / norm))
    return found


def _shown(error: tuple[float, float]) -> str:
    return f"{error[0]:.2e} ({error[1]:.1e})"


# ---- both


def _inputs(heads: int, length: int, dtype: str) -> list[Any]:
    import ml_dtypes

    to = {"f32": numpy.float32, "f16": numpy.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    rng = numpy.random.default_rng(7)
    return [rng.standard_normal((heads, length, WIDTH), numpy.float32).astype(to, copy=False) for _ in range(3)]


def _call(form: str, dtype: str) -> Callable[..., Any]:
    if form == "luminal":
        import luminal

        return luminal.compile("attention", runtime="clang", dtype={"T": dtype})
    import torch

    torch.set_grad_enabled(False)

    def to_torch(x: Any) -> Any:
        return torch.from_numpy(x.view(numpy.int16)).view(torch.bfloat16) if dtype == "bf16" else torch.from_numpy(x)

    def sdpa(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    def plain(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v

    chosen = sdpa if form == "torch sdpa" else plain
    return lambda *ports: chosen(*map(to_torch, ports)).float().numpy()


if __name__ == "__main__":
    main()
