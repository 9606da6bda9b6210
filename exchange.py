"""Arrays of other libraries, by DLPack: a NumPy array over the same memory, nothing copied.

NumPy takes every dtype that it has itself.  bf16 and the 8-bit floats it refuses, though ml_dtypes gives it arrays of them: such a tensor is taken as unsigned integers of as many bits, and seen as
what it is.  So what is written in the description that was exported for us alone is another name of the dtype (https://dmlc.github.io/dlpack, `DLDataType`); the producer's own tensor is not touched.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

UNSIGNED = 1  # kDLUInt
SMALL = {(4, 16): "bf16", (10, 8): "f8e4m3", (12, 8): "f8e5m2"}  # (code, bits) of DLPack: the dtype that NumPy has from ml_dtypes


class _Kind(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor, as far as the dtype."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("kind", _Kind)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, as far as the dtype."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class _Exported:
    """A capsule that was made before."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def taken(value: Any) -> numpy.ndarray:
    """The NumPy array over the memory of whatever has `__dlpack__`.  BufferError: it cannot be had without a copy (another device, a dtype that NumPy has not, what the producer refuses)."""
    import numpy

    from .ir.dtypes import DTYPES, numpy_dtype

    try:
        try:
            return numpy.from_dlpack(value)
        except (RuntimeError, BufferError):
            capsule = _capsule(value)
            kind = _kind(capsule)
            name = SMALL.get((kind.code, kind.bits))
            if name is None or kind.lanes != 1:
                raise
            kind.code = UNSIGNED
            return numpy.from_dlpack(_Exported(capsule, value.__dlpack_device__())).view(numpy_dtype(DTYPES[name]))
    except (RuntimeError, BufferError, ValueError, TypeError) as error:
        raise BufferError(str(error)) from error


def _capsule(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before there were versions
        return value.__dlpack__()


def _kind(capsule: Any) -> _Kind:
    """The dtype in what a capsule holds, to be read and written; it lies in the capsule's memory."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    named = ctypes.pythonapi.PyCapsule_IsValid
    named.restype, named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    if named(capsule, b"dltensor_versioned"):
        return _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).tensor.kind
    return _Tensor.from_address(pointer(capsule, b"dltensor")).kind


__all__ = ["taken"]
