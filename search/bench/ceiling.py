"""What the machine can do at best: copying and reading as many bytes, and fused multiply-adds.

Three small loops in C with the vector width and the threads of the kernels, built by the same compiler.  Of several forms (plain and streaming stores, one thread, which
wins in cache, and all) the best is found once for each footprint.  That one then takes its turn in the blocks of a row as a peer does, on arrays of its own that NumPy gave
as it gave the row's: the bandwidth of a shared machine moves by two within minutes, so what another moment could do bounds nothing.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.record import record
from ...runtimes import Rendered
from ..cache import cached
from .blocks import Contender, Method, compare, minima
from .pace import Pace

if TYPE_CHECKING:
    from ...ir.target import Target
    from ...runtimes import Runtime

METHOD = Method(blocks=4, runs=5, seconds=0.03, pause=0.01)  # when a form is chosen: in turns too, the best block counts
PAGE, MOST = 4096, 1 << 28  # bytes that a copy or a read goes through: whole pages

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

void pace(float *to, int64_t rounds) { /* as many cycles for either */
  fma_f32(to, rounds, 0);
  for (int64_t r = 0; r < rounds; r++) __asm__ volatile(".rept 64\n nop\n .endr");
}
"""


@record
class Limit:
    """One ceiling of a row: `contender` does `amount` of it (bytes moved, or operations) in an execution."""

    kind: str  # copy | read | fma
    contender: Contender
    amount: float


@dataclass
class Ceilings:
    """The ceilings of one runtime and target; which form is the best is found when first asked for and kept."""

    library: Any
    width: int
    threads: int
    accumulators: int
    pace: Pace = field(init=False)
    forms: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)  # (kind, footprint) -> streaming stores, all threads

    def __post_init__(self) -> None:
        import numpy

        memory = numpy.ones(64, "f4")
        self.pace = Pace(lambda: self.library.pace(memory.ctypes.data, 40_000), self.threads)

    def copy(self, bytes_: int) -> Limit:
        """The best copy that touches this many bytes, read and written together."""
        return self._memory("copy", bytes_ // 2, 2, [(s, t) for s in (0, 1) for t in self._teams(bytes_ // 2)])

    def read(self, bytes_: int) -> Limit:
        """The best sum over this many bytes."""
        return self._memory("read", bytes_, 1, [(0, t) for t in self._teams(bytes_)])

    def flops(self, dtype: str) -> Limit:
        """Fused multiply-adds in f32 or f64, of all threads together; a multiply-add is two operations."""
        import numpy

        name, rounds = ("f64" if dtype == "f64" else "f32"), 100_000
        lanes = self.width // (8 if name == "f64" else 4)
        # ones of its own dtype: the sums go to a thousand, and not through denormal numbers, for which some machines take a hundred times as long
        function, memory = getattr(self.library, f"fma_{name}"), numpy.ones(64, "f4" if name == "f32" else "f8")

        def call() -> None:
            function(memory.ctypes.data, rounds, int(self.threads > 1))

        return Limit("fma", Contender(call), 2 * self.accumulators * lanes * rounds * self.threads)

    def _teams(self, size: int) -> tuple[int, ...]:
        """In one thread, and in all where that could be worth a fork."""
        return (0, 1) if self.threads > 1 and size >= 1 << 16 else (0,)

    def _memory(self, kind: str, bytes_: int, times: int, forms: list[tuple[int, int]]) -> Limit:
        import numpy

        size = min(max(bytes_ // PAGE * PAGE, PAGE), MOST)
        count = repeats(size)
        memory = [numpy.ones(size + PAGE, numpy.uint8) for _ in range(times)]  # touched
        source, *to = (-(-m.ctypes.data // PAGE) * PAGE for m in memory)  # on pages of their own

        def contender(form: tuple[int, int]) -> Contender:
            streaming, team = form

            def call() -> None:
                assert memory
                if to:
                    self.library.copy(to[0], source, size, count, streaming, team)
                else:
                    self.library.scan(source, source, size, count, team)

            return Contender(call, count)

        key = (kind, footprint(size))
        if key not in self.forms:
            found = minima(compare({str(k): contender(form) for k, form in enumerate(forms)}, METHOD, self.pace))
            self.forms[key] = forms[min(range(len(forms)), key=lambda k: min(found[str(k)]))]
        return Limit(kind, contender(self.forms[key]), times * size)


def repeats(bytes_: int) -> int:
    """How often a small footprint is gone through in one call, so that the call costs nothing."""
    return max(1, (1 << 23) // bytes_)


def footprint(bytes_: int) -> int:
    """The power of two at least as large: the form found once serves all rows of about this size."""
    return 1 << (bytes_ - 1).bit_length()


def ceilings(runtime: Runtime, target: Target, threads: int, timeout: float | None) -> Ceilings:
    """The ceilings of this target: one object in a process, so that what was found serves all composites.  ToolError where nothing can build the loops."""
    key = (runtime.identity(target), target.describe, threads)
    if key not in _kept:
        _kept[key] = _built(runtime, target, threads, timeout)
    return _kept[key]


_kept: dict[tuple[str, str, int], Ceilings] = {}


def _built(runtime: Runtime, target: Target, threads: int, timeout: float | None) -> Ceilings:
    width = target.vector_bytes or 16
    accumulators = 24 if target.vector_registers >= 32 else 12
    source = _SOURCE.replace("@WIDTH@", str(width)).replace("@ACCUMULATORS@", str(accumulators))
    library = compiled(runtime, target, source, timeout)
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    for name, types in (
        ("copy", (pointer, pointer, number, number, flag, flag)), ("scan", (pointer, pointer, number, number, flag)),
        ("fma_f32", (pointer, number, flag)), ("fma_f64", (pointer, number, flag)), ("pace", (pointer, number)),
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
