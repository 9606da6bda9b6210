"""`luminal.compile`: composites as Python callables over NumPy (or DLPack) arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .compiler import Compilation, Settings, compilations
from .ir.errors import SourceError, UsageError
from .ir.graph import Port
from .leading import fold_leading, unfolded

if TYPE_CHECKING:
    import numpy

    from .runtimes import Library


def compile(
    source: str | Path,
    runtime: str = "clang",
    *,
    dtype: dict[str, str] | None = None,
    sizes: dict[str, int] | None = None,
    without: tuple[str, ...] = (),
    assume: tuple[str, ...] = (),
    config: dict[str, Any] | None = None,
    target: str | None = None,
    O: int = 2,  # noqa: E741 - the option's own name
    strict: bool = False,
    fast: bool = False,
    unchecked: bool = False,
    include: tuple[str, ...] = (),
    entry: str | None = None,
    prefix: str = "lm_",
    timeout: float | None = None,
    device: str | None = None,
    portable: bool = False,
    at: dict[str, Any] | None = None,
    budget: float = 20.0,
    **parameters: Any,
) -> Function:
    """Compile a composite: a path, text (TOML or S-expression) or the name of a library composite.

    Every option of `luminal compile` is a keyword; others are the composite's own parameters.  With O=3, `at` holds the sizes to tune for, and `budget` the seconds of a search
    (0: what is recorded, or nothing).  Raises SourceError (with diagnostics), UsageError, ToolError.
    """
    for name, value, example in (
        ("dtype", dtype, "{'T': 'f16'}"),
        ("sizes", sizes, "{'M': 64}"),
        ("config", config, "{'OMP': False}"),
        ("at", at, "{'M': 64}"),
    ):
        if value is not None and not isinstance(value, Mapping):
            raise UsageError(f"{name}={value!r}: expected a dictionary, as {example}")
    if O not in range(4):
        raise UsageError(f"O={O}: a level is 0, 1, 2 or 3")
    settings = Settings(
        runtime=runtime, target=target, config=dict(config or {}), O=O, strict=strict, fast=fast, unchecked=unchecked, sizes=dict(sizes or {}), dtype=dict(dtype or {}),
        parameters=parameters, without=tuple(without), assume=tuple(assume), include=tuple(include), entry=entry, prefix=prefix, portable=portable, timeout=timeout, device=device,
        at=dict(at or {}), budget=budget,
    )  # fmt: skip
    found = compilations(str(source), settings, keeps=True)
    if len(found) != 1:
        raise UsageError("luminal.compile takes one composite: name it with entry=")
    if O > 2 and (why := found[0].tune().warning):
        warnings.warn(why, stacklevel=2)
    return Function(found[0])


class Function:
    """A compiled composite.  Call it with its input ports, by position or by name; `C=out` gives an output's array; sizes that no array has are keywords.

    An optional port that is left out or None is absent, and a type variable that nothing bound is what the arrays of its ports are: kernels of their own are compiled for it when
    it is first so called.
    Returns the outputs (one array, or a tuple); an in-place port is mutated and returned.  Raises TypeError / ValueError that name the port.
    """

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.__name__ = compilation.name
        self._library: Library | None = None
        self._plans: dict[tuple[Any, ...], Any] = {}
        self._fast: Any = None  # the same plans in C, where they are of arrays alone
        self._run: Callable[[tuple[Any, ...], dict[str, Any] | None], Any] | None = None
        self._variants: dict[tuple[Any, ...], Function] = {}
        graph = compilation.program
        self._ports = graph.ports
        self._optional = tuple(p.name for p in graph.ports if p.name in compilation.optional)
        self._sizes = tuple(s.name for s in graph.sizes)
        self._numbers = {*self._sizes, *(p.name for p in graph.ports if p.role == "scalar")}
        self._inputs = tuple(p for p in graph.ports if p.role != "out")
        self._outputs = tuple(p for p in graph.ports if p.role in ("out", "inout"))
        self._leading = compilation.leading

    @property
    def source(self) -> str:
        """The emitted source."""
        return self.compilation.rendered.source

    @property
    def header(self) -> str:
        return self.compilation.rendered.header

    def save(self, path: str | Path) -> list[Path]:
        """Write source, header and library, as `-o FOLDER/` does; a path with a suffix gets that product alone."""
        from .products import write_products

        return write_products(self.compilation, Path(path))

    @property
    def library(self) -> Library:
        """The loaded library, built when first asked for."""
        if self._library is None:
            from .runtimes.registry import load

            c = self.compilation
            self._library = load(c.runtime, c.library_path(), c.program, c.target, c.settings.prefix)
        return self._library

    def __call__(self, *args: Any, **named: Any) -> Any:
        # a repeat call with the same kinds of arrays finds its plan and repeats no check
        if self._run is not None and (done := self._run(args, named or None)) is not NotImplemented:
            return done
        passed_on = (*args, *named.values()) if named else args
        key = (_kinds(passed_on), *[(n, named[n]) if n in self._sizes else n for n in named]) if named else _kinds(args)
        plan = self._plans.get(key)
        if plan is not None:
            return plan(passed_on)
        variant, passed, named = self._variant(args, named)
        if variant is not self:
            found = variant(*passed, **named)
            if not named and len(passed) == len(args):
                self._adopt(variant, args)
            return found
        names = (*(p.name for p, _ in zip(self._inputs, args, strict=False)), *named)
        given = self._bind(args, named)
        arrays, sizes, common = self._arrange(given, named)
        code = self.library.call(arrays, sizes)
        if code:
            raise ValueError(f"{self.__name__}: {error_name(code)}")
        if (
            self.library.function is not None
            and all(name in self._numbers or _same_memory(arrays[name], a) for name, a in zip(names, passed_on, strict=True))
            and (common is None or not any(p.order or p.strided for p in self._ports if p.role == "out" and p.name not in names))
        ):
            self._remember(key, names, sizes, common)
            self._remember_in_c(passed_on, names, tuple(named), sizes, common)
        found = unfolded({p.name: arrays[p.name] for p in self._outputs}, given, self._leading, common)
        results = tuple(found[p.name] for p in self._outputs)
        return results[0] if len(results) == 1 else results

    def bound(self, *args: Any, **named: Any) -> Callable[[], int]:
        """The call with its arrays fixed (outputs included, allocated where not given), for many runs over the same memory; gives the C function's error code."""
        variant, passed, named = self._variant(args, named)
        if variant is not self:
            return variant.bound(*passed, **named)
        arrays, sizes, _ = self._arrange(self._bind(args, named), named)
        return self.library.bind(arrays, sizes)

    def _variant(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
        """The function for the optional ports that this call leaves out and for the dtypes of its arrays, and the call's arguments without the ports that are left out."""
        passed = {p.name: a for p, a in zip(self._inputs, args, strict=False)} | named
        absent = tuple(name for name in self._optional if passed.get(name) is None)
        bound = self._bound_dtypes({name: a for name, a in passed.items() if name not in absent})
        if (absent, bound) not in self._variants and bound:
            try:
                self._variants[absent, bound] = self._with(absent, bound)
            except SourceError:
                bound = ()  # it computes with no such dtype, which the port that has it says
        if not absent and not bound:
            return self, args, named
        if (absent, bound) not in self._variants:
            self._variants[absent, bound] = self._with(absent, bound)
        kept = tuple([a for p, a in zip(self._inputs, args, strict=False) if p.name not in absent])
        return self._variants[absent, bound], kept + args[len(self._inputs) :], {k: v for k, v in named.items() if k not in absent}

    def _with(self, absent: tuple[str, ...], bound: tuple[tuple[str, str], ...]) -> Function:
        settings = self.compilation.settings
        return Function(self.compilation.variant((*settings.without, *absent), settings.dtype | dict(bound)))

    def _bound_dtypes(self, passed: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        """The type variables that nothing bound so far, where the arrays of all ports that have one agree on another dtype than it stands for; none where every array is as its port says."""
        from .ir.dtypes import from_numpy_dtype

        dtypes = {}
        for port in self._ports:
            if port.name in passed and port.role != "scalar":
                try:
                    dtypes[port] = from_numpy_dtype(_as_array(port, passed[port.name]).dtype)
                except TypeError:
                    return ()  # said where arrays are bound to their ports
        composite = self.compilation.composite if any(d is not None and d is not p.dtype for p, d in dtypes.items()) else None
        if composite is None:
            return ()
        types = {p.name: p.type.name for p in composite.ports if p.type is not None and p.type.dtype is None}
        found: dict[str, set[str]] = {}
        for port, dtype in dtypes.items():
            variable = types.get(port.name)
            if variable is not None and variable not in self.compilation.settings.dtype:
                found.setdefault(variable, set()).add("" if dtype in (None, port.dtype) else dtype.name)
        return tuple((variable, names.pop()) for variable, names in found.items() if len(names) == 1 and "" not in names)

    def _adopt(self, variant: Function, args: tuple[Any, ...]) -> None:
        """Calls like this one go to the variant's plan at once."""
        plan = variant._plans.get(_kinds(args))
        if plan is not None and len(self._plans) < 64:
            self._plans[_kinds(args)] = plan

    def _arrange(self, given: dict[str, Any], named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int], tuple[int, ...] | None]:
        """The arrays of a call as the library takes them, the sizes, and the leading axes that were made one."""
        buffers, common = fold_leading(given, self._ports, self._leading)
        more = {name: given[name].ndim - buffers[name].ndim for name in self._leading if name in given}
        sizes = self._solve(buffers, {k: v for k, v in named.items() if k in self._sizes}, more)
        return {p.name: self._fit(p, buffers.get(p.name), sizes) for p in self._ports}, sizes, common

    def _remember(self, key: tuple[Any, ...], names: tuple[str, ...], sizes: dict[str, int], common: tuple[int, ...] | None) -> None:
        """Keep what a call with arrays of these dtypes, shapes and strides, passed under these names, needs: pointers to take, outputs to allocate (with the leading
        axes in `common`), sizes to append."""
        from .ir.layout import allocator

        missing = [p for p in self._ports if p.role == "out" and p.name not in names]
        places = {name: k for k, name in enumerate((*names, *(p.name for p in missing)))}
        picks = [(pick, places[name]) for name, pick in self.library.picks]
        fresh = [allocator(p, sizes, common if p.name in self._leading else None) for p in missing]
        written = [(places[p.name], p.name) for p in self._outputs if p.name in names]
        results = [places[p.name] for p in self._outputs]
        single = results[0] if len(results) == 1 else None
        function, tail = self.library.function, [*(sizes[s] for s in self._sizes), *self.library.extra]

        def plan(given: tuple[Any, ...]) -> Any:
            for k, name in written:
                if not given[k].flags.writeable:
                    raise ValueError(f"port {name}: it is written, and the array is read-only")
            pool = (*given, *[make() for make in fresh]) if fresh else given
            code = function(*[pick(pool[k]) for pick, k in picks], *tail)
            if code:
                raise ValueError(f"{self.__name__}: {error_name(code)}")
            return pool[single] if single is not None else tuple([pool[k] for k in results])

        if len(self._plans) < 64:
            self._plans[key] = plan

    def _remember_in_c(
        self, given: tuple[Any, ...], names: tuple[str, ...], keywords: tuple[str, ...], sizes: dict[str, int], common: tuple[int, ...] | None
    ) -> None:
        """The same plan where no Python code is needed to follow it: arrays alone, and sizes that they tell."""
        address = getattr(self.library, "address", None)
        if address is None or any(p.role == "scalar" for p in self._ports) or any(name in self._sizes for name in names):
            return
        from .calls import plans
        from .ir.layout import allocator

        if self._fast is None and (fast := plans()) is not None:
            self._fast, self._run = fast, fast.run
        if self._fast is None:
            return
        missing = [p for p in self._ports if p.role == "out" and p.name not in names]
        places = {name: k for k, name in enumerate((*names, *(p.name for p in missing)))}
        written = {p.name for p in self._outputs}
        makers = [allocator(p, sizes, common if p.name in self._leading else None) for p in missing]
        self._fast.add(
            address, given, keywords, tuple(name in written for name in names), tuple(makers), tuple(places[name] for name, _ in self.library.picks),
            tuple(sizes[s] for s in self._sizes), tuple(places[p.name] for p in self._outputs), partial(_fail, self.__name__),
        )  # fmt: skip

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        from .ir.numbers import number_for

        if len(args) > len(self._inputs):
            raise TypeError(
                f"{self.__name__} takes {len(self._inputs)} arguments ({', '.join(p.name for p in self._inputs)}), {len(args)} were given"
            )
        buffers: dict[str, Any] = {p.name: a for p, a in zip(self._inputs, args, strict=False)}
        ports = {p.name: p for p in self._ports}
        for name, value in named.items():
            if name in buffers:
                raise TypeError(f"{self.__name__}: port {name} is given twice")
            if name in ports:
                buffers[name] = value
            elif name not in self._sizes:
                raise TypeError(f"{self.__name__} has no port or size {name!r}; ports: {', '.join(ports)}; sizes: {', '.join(self._sizes)}")
        missing = [p.name for p in self._inputs if p.name not in buffers]
        if missing:
            raise TypeError(f"{self.__name__}: missing {', '.join(missing)}")
        return {name: number_for(p)(value) if (p := ports[name]).role == "scalar" else self._array(p, value) for name, value in buffers.items()}

    def _array(self, port: Port, value: Any) -> numpy.ndarray:
        from .ir.dtypes import numpy_dtype

        value = _as_array(port, value)
        if value.dtype != numpy_dtype(port.dtype):
            raise TypeError(f"port {port.name}: expected dtype {port.dtype}, found {value.dtype}")
        rank = len(port.shape)
        if port.name in self._leading:
            if value.ndim < rank - 1:
                raise ValueError(f"port {port.name}: expected rank {rank - 1} or more, found {value.ndim}")
        elif value.ndim != rank:
            raise ValueError(f"port {port.name}: expected rank {rank}, found {value.ndim}")
        return value

    def _solve(self, buffers: dict[str, Any], given: dict[str, int], more: dict[str, int]) -> dict[str, int]:
        """The sizes from the shapes of the arrays (and keywords), each checked against all the ports it occurs in, and leading strides from those of the arrays
        that lie as their ports may."""
        from .ir.layout import dense, lies, strides_of
        from .ir.sizes import SizeConflict, solve

        known = {s: int(v) for s, v in given.items()}
        shapes = {p.name: (p.shape, buffers[p.name].shape) for p in self._ports if p.role != "scalar" and p.name in buffers}
        try:
            solved = solve(shapes, known, self._sizes, more)
        except SizeConflict as conflict:
            raise ValueError(f"{self.__name__}: {conflict}") from None
        strides = strides_of(self._ports)
        missing = [s for s in self._sizes if s not in solved and s not in strides]
        if missing:
            raise TypeError(f"{self.__name__}: no array tells the size {', '.join(missing)}: pass it as a keyword")
        for port in self._ports if strides else ():
            if port.strided and port.name in buffers:
                array = buffers[port.name]
                own = {name: array.strides[port.memory_order[place]] // array.itemsize for place, name in enumerate(port.strided)}
                if lies(port, array, {**solved, **own}):
                    solved |= own
        return dense(self._ports, solved) if strides else solved

    def _fit(self, port: Port, value: Any, sizes: dict[str, int]) -> Any:
        """The array as the port wants it in memory: as it is, or (an input only) copied into the port's layout; a missing output is allocated."""
        from .ir.layout import allocate, at, layout

        if port.role == "scalar":
            return value
        shape, strides, _ = layout(port, sizes)
        if value is None:
            try:
                return allocate(port, sizes)
            except (ValueError, OverflowError, MemoryError) as e:  # an extent below zero, or more than there is memory for
                raise ValueError(f"port {port.name}: an array of shape {list(shape)} cannot be made ({e})") from None
        if value.shape != shape:
            raise ValueError(f"port {port.name}: expected shape {list(shape)}, found {list(value.shape)}")
        if at(value, shape, strides) and (port.role == "in" or value.flags.writeable):
            return value
        if port.role != "in" and not value.flags.writeable:
            raise ValueError(f"port {port.name}: it is written, and the array is read-only")
        if port.role != "in":
            raise ValueError(f"port {port.name}: it is written, and its memory layout must be the port's own (strides {list(strides)} elements)")
        placed = allocate(port, sizes)
        placed[...] = value
        return placed


def _as_array(port: Port, value: Any) -> numpy.ndarray:
    """What is passed at a port as an array over the same memory; TypeError where it is none."""
    import numpy

    if isinstance(value, numpy.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"port {port.name}: expected an array, found {type(value).__name__}")
    from .exchange import taken

    try:
        return taken(value)
    except BufferError as error:
        raise TypeError(f"port {port.name}: this {type(value).__name__} cannot be taken without a copy: {error}") from None


def _same_memory(used: Any, given: Any) -> bool:
    """Whether what a call takes lies where the argument lies: it itself, or all of it in another shape."""
    if used is given:
        return True
    return isinstance(given, type(used)) and hasattr(given, "strides") and used.size == given.size > 0 and used.ctypes.data == given.ctypes.data


_KIND = attrgetter("dtype", "shape", "strides")


def _kinds(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What of the arguments decides how a call goes: dtype, shape and strides of arrays, the type of anything else."""
    try:
        return tuple(map(_KIND, args))
    except AttributeError:
        return tuple([_KIND(a) if hasattr(a, "strides") else type(a) for a in args])


def _fail(name: str, code: int) -> None:
    raise ValueError(f"{name}: {error_name(code)}")


def error_name(code: int) -> str:
    from .ir.program import ERRORS

    return ERRORS.get(code, f"error code {code}")


__all__ = ["Function", "SourceError", "compile", "error_name"]
