"""split_complex: kernels → kernels in which a complex number is its two components.

    acc: c64[] register                         acc.re: f32[] register, acc.im: f32[] register
    acc[] add= A[i, p] * B[p, j]        →       acc.re[] add= A[i, p, 0] * B[p, j, 0] - A[i, p, 1] * B[p, j, 1]
                                                acc.im[] add= A[i, p, 0] * B[p, j, 1] + A[i, p, 1] * B[p, j, 0]
    C[i, j] = acc[]                             C[i, j, 0] = acc.re[]
                                                C[i, j, 1] = acc.im[]

Ports keep their memory, real parts beside imaginary ones: they are read as f32 with a last axis of 2.  Temporaries and local buffers become two, whose elements lie
side by side as those of any f32 buffer do.  A complex scalar port is two scalars (`Port.values`).  What an operator is in components says
`ir/complex_forms.py`.  Where the new value of an element is made of its old one, the imaginary part is named before the real part is stored; a running
product is such a store, and the loop that it runs along is serial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.dtypes import DType, c64
from ..ir.expr import ONE, ZERO, Expr, const, load, make, var
from ..ir.graph import PARTS
from ..ir.kernel import Alloc, Block, Buffer, Check, If, Kernel, Let, Loop, Module, Region, Stmt, Store, While, statements, with_parts
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import postorder, rebuild

if TYPE_CHECKING:
    from ..ir.complex_forms import Pair


def split_complex(module: Module, target: Target, options: Options) -> Module:
    """See the head of this file.  Kernels that are in components, as read back from text, stay as they are."""
    if not _has_complex(module):
        return module
    ports = tuple(replace(p, pairs=p.dtype.is_complex) for p in module.ports)
    temps = tuple(part for t in module.temps for part in _parts(t))
    paired = frozenset(p.name for p in ports if p.pairs and p.role != "scalar")
    split_module = replace(module, ports=ports, temps=temps)
    return split_module.with_kernels(tuple(_kernel(k, module, paired) for k in module.kernels))


def _has_complex(module: Module) -> bool:
    held = [p.dtype for p in module.ports if not p.pairs] + [t.dtype for t in module.temps]
    inside = (s for k in module.kernels for s in statements(k.body))
    return any(d is c64 for d in held) or any(n.dtype is c64 for s in inside for n in postorder(*s.expressions()))


def _parts(b: Buffer) -> tuple[Buffer, ...]:
    """The buffer, or one for each component."""
    return tuple(replace(b, name=f"{b.name}.{part}", dtype=b.dtype.part) for part in PARTS) if b.dtype.is_complex else (b,)


def _kernel(kernel: Kernel, module: Module, paired: frozenset[str]) -> Kernel:
    temps = {t.name: t for t in module.temps}
    buffers = tuple(b.name for name in kernel.buffers for b in (_parts(temps[name]) if name in temps else (module.buffer(name),)))
    dtypes = {p.name: p.dtype for p in module.ports} | {t.name: t.dtype for t in module.temps}
    return replace(kernel, buffers=buffers, body=_Splitter(dtypes, paired).block(kernel.body))


class _Splitter:
    """The statements of one kernel.  `paired` are the buffers whose components are the last axis."""

    def __init__(self, dtypes: dict[str, DType], paired: frozenset[str]) -> None:
        self.dtypes = dict(dtypes)
        self.paired = paired
        self.done: dict[Expr, Expr | Pair] = {}
        self.literals: dict[str, Pair] = {}  # names of what is known: their components stand where they are used
        self.names = 0

    def block(self, block: Block) -> Block:
        return tuple(new for s in block for new in self.statement(s))

    def statement(self, s: Stmt) -> Block:
        match s:
            case Alloc():
                self.dtypes[s.buffer.name] = s.buffer.dtype
                return tuple(Alloc(b) for b in _parts(s.buffer))
            case Let():
                return self.let(s.name, self.value(s.value))
            case Store():
                return self.store(s)
            case Loop():
                body = self.block(s.body)
                start, stop, step = (self.single(e) for e in (s.start, s.stop, s.step))
                return (replace(s, start=start, stop=stop, step=step, body=body, kind="serial" if self.multiplies(s) else s.kind),)
            case If() | While() | Region() | Check():
                return (with_parts(s, self.single, self.block),)
            case _:
                return (s,)

    def multiplies(self, loop: Loop) -> bool:
        """A running product is along this loop."""
        inner = statements(loop.body)
        return loop.kind == "reduce" and any(isinstance(s, Store) and s.combiner == "mul" and self.dtypes[s.buffer] is c64 for s in inner)

    def let(self, name: str, value: Expr | Pair) -> Block:
        if isinstance(value, Expr):
            return (Let(name, value),)
        if all(x.is_const for x in value):
            self.literals[name] = value
            return ()
        return tuple(Let(f"{name}.{part}", x) for part, x in zip(PARTS, value, strict=True))

    def store(self, s: Store) -> Block:
        from ..ir.complex_forms import multiply

        index = tuple(self.single(e) for e in s.index)
        value = self.value(s.value)
        if self.dtypes[s.buffer] is not c64:
            assert isinstance(value, Expr)
            return (replace(s, index=index, value=value),)
        assert not isinstance(value, Expr)
        combiner = s.combiner
        if combiner == "mul":
            value, combiner = multiply(self.element(s.buffer, index), value), ""
        (re_name, re_index), (im_name, im_index) = self.places(s.buffer, index)
        re, im = value
        before: Block = ()
        if any(n.op == "load" and n.attr in (re_name, im_name) for n in postorder(im)):
            self.names += 1
            name = f"{s.buffer}.new{self.names}"
            before, im = (Let(name, im),), var(name, im.dtype)
        return (
            *before,
            replace(s, buffer=re_name, index=re_index, value=re, combiner=combiner),
            replace(s, buffer=im_name, index=im_index, value=im, combiner=combiner),
        )

    # ---- places

    def places(self, buffer: str, index: tuple[Expr, ...]) -> list[tuple[str, tuple[Expr, ...]]]:
        """Where the two components of an element are."""
        if buffer in self.paired:
            return [(buffer, (*index, ZERO)), (buffer, (*index, ONE))]
        return [(f"{buffer}.{part}", index) for part in PARTS]

    def element(self, buffer: str, index: tuple[Expr, ...]) -> Pair:
        re, im = (load(name, c64.part, *at) for name, at in self.places(buffer, index))
        return re, im

    # ---- expressions

    def single(self, root: Expr) -> Expr:
        value = self.value(root)
        assert isinstance(value, Expr)
        return value

    def value(self, root: Expr) -> Expr | Pair:
        for n in postorder(root):
            if n not in self.done:
                self.done[n] = self.node(n, tuple(self.done[a] for a in n.args))
        return self.done[root]

    def node(self, n: Expr, args: tuple[Expr | Pair, ...]) -> Expr | Pair:
        from ..ir.complex_forms import split

        if not n.dtype.is_complex and not any(a.dtype.is_complex for a in n.args):
            return rebuild(n, args)  # type: ignore[arg-type]
        match n.op:
            case "const":
                return const(n.attr, c64.part), const(0.0, c64.part)
            case "var":
                re, im = (make("var", c64.part, (), f"{n.attr}.{part}") for part in PARTS)
                return self.literals.get(n.attr, (re, im))
            case "load":
                return self.element(n.attr, args)  # type: ignore[arg-type]
            case _:
                return split(n, args)
