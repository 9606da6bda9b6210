"""What the machine can do at best, measured here and now: copying and reading memory of a given size, and fused multiply-adds.

Three small loops in C with the vector width and the threads of the kernels, built by the same compiler.  The best of several forms counts: with plain and with streaming
stores, in one thread (which wins in cache) and in all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtimes import Rendered
from ..cache import cached
from .blocks import Contender, Method, block

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime

METHOD = Method(runs=5, seconds=0.05, pause=0.01)
ROUNDS = 3  # blocks of each form; the best counts, since this is a ceiling
_FLOATS = {"f32": "float", "f64": "double"}

# `T` and `V` are the element and the vector; 24 accumulators keep two FMA units of latency 4 busy, and fit into 32 registers.
_SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#define PARALLEL _Pragma("omp parallel if (threads)")
#define SHARE _Pragma("omp for schedule(static)")
typedef float V __attribute__((vector_size(@WIDTH@), aligned(4), may_alias));
enum { LANES = sizeof(V) / sizeof(float), PIECE = 4096 / sizeof(V) };

static void stream(V *to, V x) {
#if defined(__AVX512F__) && @WIDTH@ == 64
  _mm512_stream_ps((float *)to, (__m512)x);
#elif defined(__AVX__) && @WIDTH@ == 32
  _mm256_stream_ps((float *)to, (__m256)x);
#elif defined(__SSE2__) && @WIDTH@ == 16
  _mm_stream_ps((float *)to, (__m128)x);
#else
  *to = x;
#endif
}

static void copy_once(float *to, const float *from, int64_t pieces, int32_t streaming, int32_t threads) {
  PARALLEL {
    SHARE
    for (int64_t k = 0; k < pieces; k++) {
      V *t = (V *)to + k * PIECE;
      const V *f = (const V *)from + k * PIECE;
      if (streaming) {
        for (int64_t i = 0; i < PIECE; i++) stream(t + i, f[i]);
      } else {
        for (int64_t i = 0; i < PIECE; i++) t[i] = f[i];
      }
    }
#if defined(__SSE2__)
    _mm_sfence();
#endif
  }
}

static void scan_once(float *to, const float *from, int64_t pieces, int32_t threads) {
  PARALLEL {
    V a = {0}, b = {0}, c = {0}, d = {0};
    SHARE
    for (int64_t k = 0; k < pieces; k++) {
      const V *f = (const V *)from + k * PIECE;
      for (int64_t i = 0; i < PIECE; i += 4) a += f[i], b += f[i + 1], c += f[i + 2], d += f[i + 3];
    }
    a += b + c + d;
    if (a[0] == 12345.678f) to[0] = a[1];
  }
}

void copy(float *to, const float *from, int64_t bytes, int64_t repeats, int32_t streaming, int32_t threads) {
  for (int64_t r = 0; r < repeats; r++) copy_once(to, from, bytes / 4096, streaming, threads);
}

void scan(float *to, const float *from, int64_t bytes, int64_t repeats, int32_t threads) {
  for (int64_t r = 0; r < repeats; r++) scan_once(to, from, bytes / 4096, threads);
}

#define FMA(NAME, T)                                                                       \
  typedef T NAME##_v __attribute__((vector_size(@WIDTH@)));                                \
  void NAME(T *to, int64_t rounds, int32_t threads) {                                      \
    PARALLEL {                                                                             \
      NAME##_v acc[@ACCUMULATORS@], x = {0}, y = {0};                                      \
      for (int i = 0; i < (int)(sizeof(x) / sizeof(T)); i++) x[i] = (T)0.999, y[i] = to[i]; \
      for (int i = 0; i < @ACCUMULATORS@; i++) acc[i] = y + (T)i;                          \
      for (int64_t r = 0; r < rounds; r++) {                                               \
        _Pragma("GCC unroll 32")                                                           \
        for (int i = 0; i < @ACCUMULATORS@; i++) acc[i] = acc[i] * x + y;                  \
      }                                                                                    \
      for (int i = 1; i < @ACCUMULATORS@; i++) acc[0] += acc[i];                           \
      if (acc[0][0] == (T)12345.678) to[0] = acc[0][1];                                    \
    }                                                                                      \
  }
FMA(fma_f32, float)
FMA(fma_f64, double)
"""


@dataclass
class Ceilings:
    """The ceilings of one runtime and target; each is measured when first asked for and kept."""

    library: Any
    width: int
    threads: int
    accumulators: int
    found: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def copy(self, bytes_: int) -> float:
        """Bytes a second, read and written together, of the best copy that touches about this many."""
        size = footprint(bytes_ // 2)
        n = repeats(size)
        return self._best(("copy", size), 2 * size * n, lambda to, source: [
            lambda s=s, t=t: self.library.copy(to, source, size, n, s, t) for s in (0, 1) for t in self._teams(size)
        ], size)  # fmt: skip

    def read(self, bytes_: int) -> float:
        """Bytes a second of the best sum over about this many."""
        size = footprint(bytes_)
        n = repeats(size)
        return self._best(("read", size), size * n, lambda to, source: [
            lambda t=t: self.library.scan(to, source, size, n, t) for t in self._teams(size)
        ], size)  # fmt: skip

    def flops(self, dtype: str) -> float:
        """Operations a second of fused multiply-adds in f32 or f64, of all threads together; a multiply-add is two."""
        name, rounds = ("f64" if dtype == "f64" else "f32"), 100_000
        lanes = self.width // (8 if name == "f64" else 4)
        work = 2 * self.accumulators * lanes * rounds * self.threads
        function = getattr(self.library, f"fma_{name}")
        return self._best(("fma", name), work, lambda to, source: [lambda: function(to, rounds, int(self.threads > 1))], 4096)

    def _teams(self, size: int) -> tuple[int, ...]:
        """In one thread, and in all where that could be worth a fork."""
        return (0, 1) if self.threads > 1 and size >= 1 << 16 else (0,)

    def _best(self, key: tuple[Any, ...], work: int, forms: Callable[[int, int], list[Callable[[], object]]], size: int) -> float:
        import numpy

        if key not in self.found:
            # touched, and on pages of their own
            memory = [numpy.ones(size + 4096, numpy.uint8) for _ in range(2)]
            to, source = (-(-m.ctypes.data // 4096) * 4096 for m in memory)
            self.found[key] = work / min(block(Contender(form), METHOD) for form in forms(to, source) for _ in range(ROUNDS))
        return self.found[key]


def repeats(bytes_: int) -> int:
    """How often a small footprint is gone through in one call, so that the call costs nothing."""
    return max(1, (1 << 23) // bytes_)


def footprint(bytes_: int) -> int:
    """The power of two at least as large, from a page to 256 MB: what is measured once serves all rows of about this size."""
    return min(max(1 << (bytes_ - 1).bit_length() if bytes_ > 1 else 1, 4096), 1 << 28)


def ceilings(runtime: Runtime, target: Target, threads: int, timeout: float | None) -> Ceilings:
    """Build the loops for this target.  ToolError where nothing can build them."""
    width = target.vector_bytes or 16
    accumulators = 24 if target.vector_registers >= 32 else 12
    source = _SOURCE.replace("@WIDTH@", str(width)).replace("@ACCUMULATORS@", str(accumulators))
    library = compiled(runtime, target, source, timeout)
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    for name, types in (
        ("copy", (pointer, pointer, number, number, flag, flag)), ("scan", (pointer, pointer, number, number, flag)),
        ("fma_f32", (pointer, number, flag)), ("fma_f64", (pointer, number, flag)),
    ):  # fmt: skip
        function = getattr(library, name)
        function.argtypes, function.restype = types, None
    return Ceilings(library, width, threads, accumulators)


def compiled(runtime: Runtime, target: Target, source: str, timeout: float | None) -> ctypes.CDLL:
    """A source of ours as a loaded library, by the driver of a runtime; kept in the compile cache as kernels are."""
    rendered = Rendered(source, "", ".c")

    def build(path: Path) -> None:
        runtime.build(rendered, target, "shared", path, timeout, [])

    return ctypes.CDLL(str(cached((source, target.describe, runtime.identity(target)), ".so", build)))
