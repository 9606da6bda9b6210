"""How two array libraries spell what a graph does: NumPy and PyTorch.  A `{name}` that is missing from a table is something that the library has no call for."""

from __future__ import annotations

from typing import Any

from ...ir.record import record

_SAME = "add abs sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log1p sqrt floor ceil trunc sign equal not_equal less_equal isnan isinf"


@record
class Dialect:
    name: str  # what the module is called in the emitted function
    calls: dict[str, str]  # elementwise operator -> function that takes out=
    reduce: dict[str, str]  # combiner -> expression over {x}, {axes} (a tuple) and {out}
    scan: dict[str, str]  # the same with one {axis}
    scatter: dict[str, str]  # combiner -> statement over {to}, {at} (a tuple of index arrays) and {x}
    permute: str  # over {x} and {axes}
    windows: str  # over {x}, {start}, {shape} and {strides} in elements
    copy: str  # statement: {to} becomes {x}, cast to its dtype
    where: str  # statement over {to} {c} {a} {b}
    cast: str  # expression over {x} and {dtype}
    dtypes: dict[str, str]
    composed: dict[str, str]  # operator -> statements over {0} {1} … and {to}, where it takes more than one call


NUMPY = Dialect(
    "numpy",
    {op: f"numpy.{op}" for op in _SAME.split()} | {
        "sub": "numpy.subtract", "mul": "numpy.multiply", "div": "numpy.divide", "neg": "numpy.negative", "abs": "numpy.absolute", "recip": "numpy.reciprocal",
        "max": "numpy.maximum", "min": "numpy.minimum", "pow": "numpy.power", "round": "numpy.rint", "mod": "numpy.mod", "floordiv": "numpy.floor_divide",
        "less_than": "numpy.less", "less_equal": "numpy.less_equal", "asin": "numpy.arcsin", "acos": "numpy.arccos", "atan": "numpy.arctan", "asinh": "numpy.arcsinh",
        "acosh": "numpy.arccosh", "atanh": "numpy.arctanh", "bit_and": "numpy.bitwise_and", "bit_or": "numpy.bitwise_or", "bit_xor": "numpy.bitwise_xor",
        "bit_not": "numpy.invert", "shift_left": "numpy.left_shift", "shift_right": "numpy.right_shift",
    },
    {
        "add": "numpy.add.reduce({x}, axis={axes}, dtype={out}.dtype, out={out})", "mul": "numpy.multiply.reduce({x}, axis={axes}, dtype={out}.dtype, out={out})",
        "max": "numpy.maximum.reduce({x}, axis={axes}, out={out})", "min": "numpy.minimum.reduce({x}, axis={axes}, out={out})",
        "and": "numpy.logical_and.reduce({x}, axis={axes}, out={out})", "or": "numpy.logical_or.reduce({x}, axis={axes}, out={out})",
    },
    {
        "add": "numpy.cumsum({x}, axis={axis}, dtype={out}.dtype, out={out})", "mul": "numpy.cumprod({x}, axis={axis}, dtype={out}.dtype, out={out})",
        "max": "numpy.maximum.accumulate({x}, axis={axis}, out={out})", "min": "numpy.minimum.accumulate({x}, axis={axis}, out={out})",
    },
    {
        "set": "{to}[{at}] = {x}", "add": "numpy.add.at({to}, ({at},), {x})", "mul": "numpy.multiply.at({to}, ({at},), {x})",
        "max": "numpy.maximum.at({to}, ({at},), {x})", "min": "numpy.minimum.at({to}, ({at},), {x})",
    },
    "{x}.transpose({axes})",
    "numpy.lib.stride_tricks.as_strided({x}.reshape(-1)[{start}:], {shape}, [s * {x}.itemsize for s in {strides}])",
    "numpy.copyto({to}, {x}, casting='unsafe')",
    "numpy.copyto({to}, {b}); numpy.copyto({to}, {a}, where={c})",
    "{x}.astype('{dtype}')",
    {"f64": "float64", "f32": "float32", "f16": "float16", "bool": "bool", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
     "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "c64": "complex64"},
    {"rsqrt": "numpy.sqrt({0}, out={to}); numpy.reciprocal({to}, out={to})"},
)  # fmt: skip

TORCH = Dialect(
    "torch",
    {op: f"torch.{op}" for op in (*_SAME.split(), "sub", "mul", "div", "neg", "rsqrt", "erf", "asin", "acos", "atan", "asinh", "acosh", "atanh", "pow", "round")} | {
        "recip": "torch.reciprocal", "max": "torch.maximum", "min": "torch.minimum", "mod": "torch.remainder", "floordiv": "torch.floor_divide", "equal": "torch.eq",
        "not_equal": "torch.ne", "less_than": "torch.lt", "less_equal": "torch.le", "bit_and": "torch.bitwise_and", "bit_or": "torch.bitwise_or",
        "bit_xor": "torch.bitwise_xor", "bit_not": "torch.bitwise_not", "shift_left": "torch.bitwise_left_shift", "shift_right": "torch.bitwise_right_shift",
    },
    {
        "add": "torch.sum({x}, {axes}, dtype={out}.dtype, out={out})", "max": "torch.amax({x}, {axes}, out={out})", "min": "torch.amin({x}, {axes}, out={out})",
        "and": "torch.all({x}, {axes}, out={out})", "or": "torch.any({x}, {axes}, out={out})",
    },
    {"add": "torch.cumsum({x}, {axis}, dtype={out}.dtype, out={out})", "mul": "torch.cumprod({x}, {axis}, dtype={out}.dtype, out={out})"},
    {"set": "{to}[{at}] = {x}", "add": "{to}.index_put_(({at},), {x}, accumulate=True)"},
    "{x}.permute({axes})",
    "{x}.as_strided({shape}, {strides}, {start})",
    "{to}.copy_({x})",
    "torch.where({c}, {a}, {b}, out={to})",
    "{x}.to(torch.{dtype})",
    {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "bool": "bool", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8",
     "c64": "complex64"},
    {"isnan": "torch.ne({0}, {0}, out={to})", "isinf": "torch.eq(torch.abs({0}), float('inf'), out={to})"},
)  # fmt: skip

# Errors that a library may give for what it was not made for; each means that there is no such peer.
REFUSALS: tuple[type[Exception], ...] = (
    TypeError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
)


def constant(dialect: Dialect, module: Any, value: Any, dtype: str) -> Any:
    """A literal as an array of rank 0."""
    if dialect is NUMPY:
        return module.array(value, dialect.dtypes[dtype])
    return module.tensor(value, dtype=getattr(module, dialect.dtypes[dtype]))
