"""NVRTC through ctypes: CUDA C++ text to PTX or cubin, with no GPU and no toolkit present."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library

from ...ir.errors import ToolError

OPTIONS = ("--std=c++17", "--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")


class Missing(ToolError):
    """NVRTC is not installed."""

    missing = True


def library() -> ctypes.CDLL:
    """The NVRTC library: from its wheel (found by cuda-pathfinder), else from the system's toolkit."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        name = find_library("nvrtc")
        if name is None:
            raise Missing("neither nvcc nor NVRTC is here; install one with: pip install 'luminal-cc[nvrtc]'") from None
        return ctypes.CDLL(name)
    try:
        found = load_nvidia_dynamic_lib("nvrtc")
    except DynamicLibNotFoundError:
        raise Missing("neither nvcc nor NVRTC is here; install one with: pip install 'luminal-cc[nvrtc]'") from None
    assert found.abs_path is not None
    return ctypes.CDLL(found.abs_path)


def version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"nvrtc {major.value}.{minor.value}"


def compile_text(source: str, arch: str, product: str, log: list[str]) -> bytes:
    """`arch` is sm_XX for product "cubin", compute_XX for "ptx".  ToolError with NVRTC's own log where it refuses."""
    nvrtc = library()
    options = [f"--gpu-architecture={arch}", *OPTIONS]
    log.append("nvrtc " + " ".join(options))
    program = ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"luminal.cu", 0, None, None))
    try:
        words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), words)
        if status:
            raise ToolError(f"nvrtc failed:\n{_text(nvrtc, program, 'ProgramLog').decode(errors='replace').rstrip(chr(0))}")
        return _text(nvrtc, program, "CUBIN" if product == "cubin" else "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data))
    return data.raw


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise ToolError(f"nvrtc: {nvrtc.nvrtcGetErrorString(status).decode()}")
