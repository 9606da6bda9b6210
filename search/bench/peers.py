"""Peers: other implementations of a composite, found by its name (`forms`) or made from its graph (`translate`), as calls over arrays of their own.

A peer is a family (`numpy`, `torch`, `inductor`, `flex`, torch's flex_attention through its compiler, and `tinygrad`, whose kernels are searched for); a family that is not installed, or that has no call for something, is a line of the report and no error.
"""

from __future__ import annotations

import builtins
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy

from ...ir.dtypes import numpy_dtype
from ...ir.graph import Graph
from . import blas
from .blocks import Contender
from .dialect import NUMPY, REFUSALS, TORCH, Dialect
from .forms import FORMS
from .translate import LARGEST, Translation, Untranslatable, translate

FAMILIES = ("numpy", "torch", "inductor", "flex", "tinygrad")
NEEDS = {"numpy": "numpy", "torch": "torch", "inductor": "torch", "flex": "torch", "tinygrad": "tinygrad"}
FORMS_ALONE = ("flex", "tinygrad")  # nothing is made for them from a graph


@dataclass
class Work:
    """What all implementations of a row do: the graph, the sizes, the values of ports and parameters by name."""

    name: str  # of the composite
    graph: Graph  # with loops raised
    sizes: Mapping[str, int]
    inputs: Mapping[str, Any]  # ports that are read: arrays, and Python numbers
    parameters: Mapping[str, Any]
    threads: int
    forms: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass
class Peer:
    """One implementation.  `results` gives what the last call has left, as NumPy arrays by port."""

    name: str
    form: str  # the text of what is called
    call: Callable[[], Any]
    arrays: dict[str, Any]  # its own, by port
    results: Callable[[Any], dict[str, Any]]
    originals: Mapping[str, Any] = field(default_factory=dict)  # of ports that are updated in place

    def reset(self) -> None:
        for name, value in self.originals.items():
            self.arrays[name][...] = value

    @property
    def contender(self) -> Contender:
        return Contender(self.call, reset=self.reset if self.originals else None)


@dataclass
class Found:
    peers: list[Peer]
    notes: list[str]  # what is missing, in a line each


def installed(family: str) -> bool:
    return find_spec(NEEDS[family]) is not None


def candidates(family: str, work: Work) -> Found:
    """The implementations of one family; those that cannot be made are notes."""
    if not installed(family):
        return Found([], [f"{family}: not installed (pip install {NEEDS[family]})"])
    texts = (*work.forms.get(family, ()), *FORMS.get(family, {}).get(work.name, ()))
    if family in FORMS_ALONE and not texts:
        return Found([], [])
    library = {"numpy": _Numpy, "flex": _Flex, "tinygrad": _Tinygrad}.get(family, _Torch)(work.threads)
    unknown = [p.dtype.name for p in work.graph.ports if p.dtype.name not in library.dialect.dtypes]
    if unknown:
        return Found([], [f"{family}: no arrays of {unknown[0]}"])
    notes: list[str] = []
    if family == "numpy" and (direct := _blas(library, work)) is not None:
        return Found([direct], notes)
    refused: list[str] = []
    peers = [p for p in (_named(library, text, work, refused) for text in texts) if p is not None]
    if family in FORMS_ALONE:
        return Found(peers, [] if peers else [f"{library.name}: {why}" for why in refused[:1]])
    try:
        peers.append(
            _compiled(library, work) if family == "inductor" else _translated(library, work, "numpy" if family == "numpy" else "torch (eager)")
        )
    except Untranslatable as why:
        if not peers:
            notes.append(f"{family}: {why}")
    return Found(peers, notes)


# ---- the libraries


class _Library(ABC):
    dialect: Dialect
    module: Any
    name: str  # of a peer that is an expression of `forms`

    @abstractmethod
    def to_library(self, array: Any) -> Any: ...

    @abstractmethod
    def from_library(self, array: Any) -> Any: ...

    def names(self) -> dict[str, Any]:
        """What the expressions of `forms` may speak of beside ports, sizes and parameters."""
        return {self.dialect.name: self.module}

    def arrays(self, work: Work) -> dict[str, Any]:
        """Memory of its own for every port; scalars as arrays of rank 0."""
        from ...ir.layout import allocate

        found: dict[str, Any] = {}
        for port in work.graph.ports:
            if port.role == "scalar":
                value: Any = numpy.array(work.inputs[port.name], numpy_dtype(port.dtype))
            else:
                value = allocate(port, work.sizes)
                if port.role != "out":
                    value[...] = work.inputs[port.name]
            found[port.name] = self.to_library(value)
        return found


class _Numpy(_Library):
    dialect = NUMPY
    module = numpy
    name = "numpy"

    def __init__(self, threads: int) -> None:
        blas.use_threads(threads)

    def to_library(self, array: Any) -> Any:
        return array

    def from_library(self, array: Any) -> Any:
        return numpy.asarray(array)


class _Torch(_Library):
    dialect = TORCH
    name = "torch"

    def __init__(self, threads: int) -> None:
        self.module = import_module("torch")  # seconds, and only where it was asked for
        self.module.set_num_threads(threads)
        self.module.set_grad_enabled(False)

    def names(self) -> dict[str, Any]:
        return {"torch": self.module, "functional": self.module.nn.functional, "scratch": scratch, "pair": pair}

    def to_library(self, array: Any) -> Any:
        if array.dtype.name == "bfloat16":
            return self.module.from_numpy(array.view(numpy.int16)).view(self.module.bfloat16)
        return self.module.from_numpy(array)

    def from_library(self, array: Any) -> Any:
        if array.dtype is self.module.bfloat16:
            return array.float().numpy()
        return array.numpy()


def scratch(like: Any, *shape: int) -> Any:
    """Memory for what stands between two calls of a form, of the dtype of `like`; ValueError where it is so much that nobody would write it so."""
    size = prod(shape) * like.element_size()
    if size > LARGEST:
        raise ValueError(f"a tensor between its operators has {size / 1e6:.0f} MB")
    return like.new_empty(shape)


def pair(given: Sequence[int]) -> tuple[int, int]:
    """One number for both axes of an image, or one for each: torch's older functions want two."""
    both = (*given, *given)
    return both[0], both[1]


class _Flex(_Torch):
    """flex_attention is a template of torch's compiler: a C++ compiler builds it, in seconds, for each score function."""

    name = "flex_attention"

    def names(self) -> dict[str, Any]:
        flex = import_module("torch.nn.attention.flex_attention")
        return {
            **super().names(),
            "flex_attention": self.module.compile(flex.flex_attention, dynamic=False),
            "create_block_mask": flex.create_block_mask,
        }


class _Tinygrad(_Library):
    """tinygrad's kernels of its CPU device, the best that its beam search of width 4 finds: it compiles and times some hundred for each, which takes minutes.

    It needs a `clang` on the path, or in CC.  Results are its own buffers, the same in each call.
    """

    dialect = NUMPY
    name = "tinygrad"

    def __init__(self, threads: int) -> None:
        self.module = import_module("tinygrad")
        self.settings = {"BEAM": 4, "NUM_CPU_THREADS": threads}

    def names(self) -> dict[str, Any]:
        return {"searched": self.searched}

    def searched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` captured, searched for in the first calls, and waited for."""
        jit = self.module.TinyJit(lambda *tensors: function(*tensors).realize())
        helpers = import_module("tinygrad.helpers")

        def call(*tensors: Any) -> Any:
            with helpers.Context(**self.settings):
                result = jit(*tensors)
                self.module.Device["CPU"].synchronize()
            return result

        return call

    def to_library(self, array: Any) -> Any:
        return self.module.Tensor(array, device="CPU").realize()

    def from_library(self, array: Any) -> Any:
        return array.numpy()


# ---- kinds of peers


def _named(library: _Library, text: str, work: Work, refused: list[str]) -> Peer | None:
    """An expression of `forms`; None where it speaks of a name that is not there, leaves out a port that is read, or does not run (then `refused` gets why)."""
    try:
        arrays = library.arrays(work)
    except REFUSALS as why:
        refused.append(_line(why))
        return None
    scalars = {p.name: work.inputs[p.name] for p in work.graph.ports if p.role == "scalar"}
    names = {**library.names(), **work.sizes, **work.parameters, **arrays, **scalars}
    spoken = _loaded(text)
    if any(name not in names and not hasattr(builtins, name) for name in spoken) or any(
        p.name not in spoken for p in work.graph.ports if p.role != "out"
    ):
        return None
    *before, expression = text.split("; ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join(before), names)  # of our own table
            call: Callable[[], Any] = eval(f"lambda: {expression}", names)
            call()
    except REFUSALS as why:
        refused.append(_line(why))
        return None
    outputs = [p.name for p in work.graph.ports if p.role in ("out", "inout")]

    def results(returned: Any) -> dict[str, Any]:
        each = returned if isinstance(returned, tuple) else (returned,)
        return {name: library.from_library(x) for name, x in zip(outputs, each, strict=False)}

    peer = Peer(library.name, text, call, arrays, results, _originals(work, library))
    peer.reset()
    return peer


def _blas(library: _Library, work: Work) -> Peer | None:
    """Where the composite is the matrix product of BLAS, NumPy's own is called without NumPy."""
    arrays = library.arrays(work)
    scalars = {p.name: work.inputs[p.name] for p in work.graph.ports if p.role == "scalar"}
    found = blas.call(work.graph, arrays, scalars)
    return None if found is None else _over_arrays(library, work, "openblas", found[1], found[0], arrays)


def _loaded(text: str) -> list[str]:
    """The names that a form takes from elsewhere."""
    import ast

    nodes = list(ast.walk(ast.parse(text)))
    found = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in found if isinstance(n.ctx, ast.Store)} | {n.arg for n in nodes if isinstance(n, ast.arg)}
    return [n.id for n in found if n.id not in own]


def _translated(library: _Library, work: Work, name: str) -> Peer:
    translation, arrays, parameters = _translation(library, work)
    function = translation.function(library.dialect, library.module)
    values = tuple(arrays[p] for p in parameters)
    return _over_arrays(library, work, name, translation.text, lambda: function(*values), arrays)


def _compiled(library: _Library, work: Work) -> Peer:
    """The translation through torch.compile: Inductor's own kernels, written into the same preallocated outputs."""
    translation, arrays, parameters = _translation(library, work)
    function = library.module.compile(translation.function(library.dialect, library.module), dynamic=False)
    values = tuple(arrays[p] for p in parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*values)
        except Exception as why:  # of a compiler that is not ours
            raise Untranslatable(f"torch.compile: {_line(why)}") from None
    peer = _over_arrays(library, work, "inductor", translation.text, lambda: function(*values), arrays)
    peer.reset()
    return peer


def _translation(library: _Library, work: Work) -> tuple[Translation, dict[str, Any], list[str]]:
    parameters = {p.name: f"p{k}_{p.name}" if p.name.isidentifier() else f"p{k}_" for k, p in enumerate(work.graph.ports)}
    found = translate(work.graph, work.sizes, parameters, library.dialect, library.module, library.to_library)
    return found, library.arrays(work), list(parameters)


def _over_arrays(library: _Library, work: Work, name: str, text: str, call: Callable[[], Any], arrays: dict[str, Any]) -> Peer:
    outputs = [p.name for p in work.graph.ports if p.role in ("out", "inout")]

    def results(_: Any) -> dict[str, Any]:
        return {name: library.from_library(arrays[name]) for name in outputs}

    return Peer(name, text, call, arrays, results, _originals(work, library))


def _originals(work: Work, library: _Library) -> dict[str, Any]:
    return {p.name: library.to_library(numpy.array(work.inputs[p.name])) for p in work.graph.ports if p.role == "inout"}


def _line(error: BaseException) -> str:
    """The first line of what a library says."""
    said = str(error).strip().splitlines()
    return said[0][:160] if said else type(error).__name__
