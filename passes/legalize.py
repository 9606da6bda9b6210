"""legalize: kernels → kernels in what the target can compute.

    acc: f16[] register                         acc: f32[] register
    acc[] add= A[i, p] * B[p, j]        →       acc[] add= cast.f32(A[i, p]) * cast.f32(B[p, j])
    C[i, j] = acc[]                             C[i, j] = cast.f16(acc[])

A float type that the target stores but does not compute with (f16, bf16, f8e4m3, f8e5m2) is computed in f32: loads and by-value scalars are cast on the way in, stores on the way out, register buffers
and lets become f32.  An explicit cast to the small type still rounds.  Then every derived operator that the target does not spell is decomposed (`ir/decompose.py`).

Raises Unsupported for a buffer or a value of a type that the target does not have.
"""

from __future__ import annotations

from ..ir.decompose import expand
from ..ir.dtypes import DType, f32, numpy_dtype
from ..ir.errors import Unsupported
from ..ir.expr import Expr, call, cast, const, load, make, var
from ..ir.kernel import Alloc, Block, If, Kernel, Let, Loop, Module, Region, Stmt, Store, While, map_expressions, port_buffer, statements, with_blocks
from ..ir.primops import COMBINERS
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder


def legalize(module: Module, target: Target, options: Options) -> Module:
    """See the head of this file."""
    check_types(module, target)
    return module.with_kernels(tuple(one(k, module, target) for k in module.kernels))


def one(kernel: Kernel, module: Module, target: Target) -> Kernel:
    small = small_types(kernel, module, target)
    body = _Promotion(module, target).block(kernel.body) if small else kernel.body
    # the decompositions need no names, so each expression is its own
    return replace(kernel, body=map_expressions(body, lambda e: expand(e, target.native)))


def small_types(kernel: Kernel, module: Module, target: Target) -> bool:
    """Whether the kernel holds any value of a type that is only stored."""
    held = [module.buffer(name).dtype for name in kernel.buffers] + [s.buffer.dtype for s in statements(kernel.body) if isinstance(s, Alloc)]
    held += [d for p in module.ports if p.role == "scalar" for _, d in p.values]
    found = [n.dtype for s in statements(kernel.body) for e in s.expressions() for n in postorder(e)]
    return any(d.is_float and d.name not in target.arithmetic for d in (*held, *found))


def check_types(module: Module, target: Target) -> None:
    for what, d in [*((f"port {p.name}", p.dtype) for p in module.ports), *((f"temporary {t.name}", t.dtype) for t in module.temps)]:
        if d.name not in target.dtypes:
            raise Unsupported(
                d.name, f"{module.name}: {what} is {d}, which the runtime {target.runtime} does not have (it has {', '.join(sorted(target.dtypes))})"
            )


class _Promotion:
    """One kernel's statements with small floats computed in f32."""

    def __init__(self, module: Module, target: Target) -> None:
        self.target = target
        self.scalars = {name for p in module.ports if p.role == "scalar" for name, _ in p.values}
        self.registers: set[str] = set()
        self.stored: dict[str, DType] = {p.name: port_buffer(p).dtype for p in module.ports} | {t.name: t.dtype for t in module.temps}

    def is_small(self, d: DType) -> bool:
        return d.is_float and d.name not in self.target.arithmetic

    def block(self, block: Block) -> Block:
        return tuple(self.statement(s) for s in block)

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case Alloc():
                b = s.buffer
                if b.space == "register" and self.is_small(b.dtype):
                    self.registers.add(b.name)
                    b = replace(b, dtype=f32)
                self.stored[b.name] = b.dtype
                return Alloc(b)
            case Let():
                return Let(s.name, self.value(s.value))
            case Store():
                return self.store(s)
            case Loop() | Region():
                return with_blocks(s, self.block)
            case If():
                return If(self.value(s.condition), self.block(s.body), self.block(s.orelse))
            case While():
                return replace(s, condition=self.value(s.condition), body=self.block(s.body))
            case _:
                return s

    def store(self, s: Store) -> Store:
        index = tuple(self.value(e) for e in s.index)
        value, d = self.value(s.value), self.stored[s.buffer]
        if not self.is_small(d):
            return replace(s, index=index, value=value)
        if s.combiner:  # accumulated in f32, rounded where it is put back
            value = call(COMBINERS[s.combiner].op, cast(f32, load(s.buffer, d, *index)), value)
        rounded = value.op == "cast" and value.args[0].dtype is d  # by an explicit cast
        return replace(s, index=index, value=value.args[0] if rounded else cast(d, value), combiner="")

    def value(self, root: Expr) -> Expr:
        done: dict[Expr, Expr] = {}
        for n in postorder(root):
            done[n] = self.node(n, tuple(done[a] for a in n.args))
        return done[root]

    def node(self, n: Expr, args: tuple[Expr, ...]) -> Expr:
        if n.op in ("cast", "bitcast"):
            source = n.args[0].dtype
            if n.op == "bitcast":  # the bits are the small type's own
                bits = make("bitcast", n.dtype, (cast(source, args[0]),))
                return cast(f32, bits) if self.is_small(n.dtype) else bits
            if self.is_small(n.dtype):
                return args[0] if source is n.dtype else cast(f32, cast(n.dtype, args[0]))
            return cast(n.dtype, args[0])
        if n.op == "ins":  # an instruction takes and gives what it says
            found = make(n.op, n.dtype, tuple(a if a.dtype is of.dtype else cast(of.dtype, a) for a, of in zip(args, n.args, strict=True)), n.attr)
            return cast(f32, found) if self.is_small(n.dtype) else found
        if not self.is_small(n.dtype):
            return make(n.op, n.dtype, args, n.attr)
        if n.op == "const":
            from numpy import errstate

            with errstate(over="ignore"):  # 70000 in f16 is infinite
                return const(float(numpy_dtype(n.dtype).type(n.attr)), f32)
        if n.op == "load":
            return load(n.attr, f32, *args) if n.attr in self.registers else cast(f32, load(n.attr, n.dtype, *args))
        if n.op == "var":
            return cast(f32, n) if n.attr in self.scalars else var(n.attr, f32)
        return make(n.op, f32, args, n.attr)
