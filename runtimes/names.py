"""The one rule by which a user's names become C names (also valid in C++ and CUDA C++).

every character outside [A-Za-z0-9_] becomes `_`; a leading digit or underscore gets the prefix `v`;
a word that C, C++, libc or our own helpers use gets the suffix `_`; a name that is taken in its scope gets `_2`, `_3`, …
"""

from __future__ import annotations

import re
from functools import lru_cache

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed
sizeof static struct switch typedef union unsigned void volatile while asm typeof alignas alignof bool constexpr false nullptr static_assert
thread_local true typeof_unqual and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept consteval
constinit const_cast decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq operator or or_eq private
protected public reinterpret_cast requires static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq
"""
# Macros and functions that a C program may see through the headers we (or the user of our header) include.
_LIBRARY = """
main I complex imaginary assert errno EOF NULL NAN INFINITY HUGE_VAL stdin stdout stderr linux unix i386 signbit isnan isinf isfinite isnormal
fpclassify isgreater isless offsetof memcpy memset memmove memcmp memchr strlen strcpy strcat strcmp strchr malloc calloc realloc free
aligned_alloc abort exit atexit abs labs llabs div ldiv lldiv rand srand qsort bsearch getenv system printf fprintf sprintf snprintf scanf sscanf
puts putchar getchar fopen fclose fread fwrite remove rename time clock difftime signal raise setjmp longjmp index rindex read write open close
select poll pipe dup fork wait kill sleep gamma lgamma tgamma j0 j1 jn y0 y1 yn drem min max sin cos tan asin acos atan atan2 sinh cosh tanh
asinh acosh atanh exp exp2 expm1 log log2 log10 log1p logb ilogb ldexp frexp modf scalbn scalbln sqrt cbrt hypot pow fabs fmod remainder remquo
fma fmax fmin fdim floor ceil trunc round lround llround rint lrint llrint nearbyint copysign nan nextafter nexttoward erf erfc
threadIdx blockIdx blockDim gridDim warpSize dim3 half nv_bfloat16 __half
workspace status
"""
RESERVED = frozenset((_KEYWORDS + _LIBRARY).split())

# f32 f32x16 f32x16_u (our vector types), exp2_f32x16 and cast_f16_f32 (our helpers), u8 … uint64_t, the f/l forms of libm and what POSIX keeps.
_ELEMENT = r"(?:f64|f32|f16|bf16|f8e4m3|f8e5m2|[iu](?:8|16|32|64)|bool|c64)(?:x\d+)?(?:_u)?"
_PATTERN = re.compile(rf"{_ELEMENT}|\w+_{_ELEMENT}|\w+_t|u?int(?:ptr|max)?|M_[A-Z0-9_]+|omp_\w+|[A-Z]+_(?:MAX|MIN|C)")


def is_reserved(name: str) -> bool:
    """Whether a C name may not stand for something of the user's."""
    stem = name[:-1] if name[-1:] in ("f", "l") else name
    return name in RESERVED or stem in RESERVED or _PATTERN.fullmatch(name) is not None


@lru_cache(maxsize=4096)  # every scope asks for the same few hundred
def c_name(name: str) -> str:
    """The C name of one user's name, not looking at others: `i.0` → `i_0`, `double` → `double_`, `3d` → `v3d`."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if text[0].isdigit() or text[0] == "_":
        text = "v" + text
    return text + "_" if is_reserved(text) else text


class Names:
    """C names of one scope.  The same (space, name) always gives the same C name; two of them never share one."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)
        self._found: dict[tuple[str, str], str] = {}

    def get(self, space: str, name: str) -> str:
        """`space` keeps sizes, buffers, variables and functions apart, as the user's language does."""
        key = (space, name)
        if key not in self._found:
            base = text = c_name(name)
            count = 1
            while text in self._taken:
                count += 1
                text = f"{base.rstrip('_')}_{count}"
                if is_reserved(text):
                    text += "_"
            self._taken.add(text)
            self._found[key] = text
        return self._found[key]

    @property
    def taken(self) -> frozenset[str]:
        return frozenset(self._taken)
