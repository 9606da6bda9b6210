"""Memory of a call: a caller's own, what the library keeps for the next call and gives back, and calls at once."""

import ctypes
import resource
import shutil
import subprocess
import threading

import numpy as np
import pytest
from luminal.runtimes import find
from test_clang_driver import build, copies_program, vectors_program, workspace_program

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def test_workspace(tmp_path):
    library = build(tmp_path, workspace_program())
    handle = library._handle
    handle.lm_chain_workspace.restype = ctypes.c_int64
    handle.lm_chain_workspace.argtypes = [ctypes.c_int64]
    assert handle.lm_chain_workspace(100) >= 400 + 40000
    assert handle.lm_chain_workspace(1 << 40) == -1
    handle.lm_chain_ws.argtypes = [*library.function.argtypes, ctypes.c_void_p]
    xs, ys = np.arange(100, dtype="i4"), np.zeros(100, "i4")
    for offset in (0, 1, 63):
        size_ = handle.lm_chain_workspace(100)
        memory = np.full(size_ + 128, 7, np.uint8)
        start = 64 - memory.ctypes.data % 64 + offset
        ys[:] = 0
        assert handle.lm_chain_ws(xs.ctypes.data, ys.ctypes.data, 100, memory.ctypes.data + start) == 0
        assert np.array_equal(xs, ys) and (memory[:start] == 7).all() and (memory[start + size_ :] == 7).all()
    assert library.call({"X": xs, "Y": ys}, {"N": -1}) == 2
    assert library.call({"X": xs, "Y": ys}, {"N": 1 << 40}) == 2
    text = handle.lm_strerror
    text.restype = ctypes.c_char_p
    assert text(4) == b"buffers overlap" and text(99) == b"unknown error"


def test_once_a_call_is_no_copy_at_every_place():
    """What runs once a call stays a function: the compiler has less to read and to lay out."""
    runtime = find("clang")
    source = runtime.render(workspace_program(), runtime.target("x86-64-v3", {}, True), "lm_").source
    for name in ("allocate_u8", "release_u8", "reserve_u8", "product_of_i64"):
        (head,) = (line for line in source.splitlines() if "static" in line and f"{name}(" in line)
        assert head.startswith("__attribute__((noinline)) static"), head


def test_what_calls_have_kept_can_be_given_back(tmp_path):
    library = build(tmp_path, workspace_program(), OMP=False)
    held = memory_of(tmp_path)
    xs, ys = np.arange(4000, dtype="i4"), np.zeros(4000, "i4")
    before = held()
    for _ in range(2):
        assert library.call({"X": xs, "Y": ys}, {"N": 4000}) == 0 and np.array_equal(xs, ys)
        assert held() - before >= 64_000_000, "the largest call's"
        library._handle.lm_chain_release()
        assert held() - before < 1_000_000
        ys[:] = 0
    assert "void lm_chain_release(void);" in build(tmp_path, workspace_program(), "object").header
    assert "release" not in build(tmp_path, vectors_program(), "object").header, "only where something is kept"


def memory_of(folder):
    """A function that counts the bytes which malloc has handed out."""
    (folder / "held.c").write_text(
        "#include <malloc.h>\nsize_t held(void) { const struct mallinfo2 m = mallinfo2(); return m.uordblks + m.hblkhd; }\n"
    )
    if subprocess.run(["gcc", "-shared", "-fPIC", "held.c", "-o", "held.so"], cwd=folder, capture_output=True).returncode:
        pytest.skip("not glibc 2.33 or later")
    held = ctypes.CDLL(str(folder / "held.so")).held
    held.restype = ctypes.c_size_t
    return held


THREADS = """
#include "chain.h"
#include <pthread.h>
#include <stdlib.h>
static void *calls(void *seed) {
  static __thread int32_t x[99], y[99];
  for (int64_t round = 0; round < 300; round++) {
    const int64_t n = (round * 7 + *(int *)seed) % 99;
    for (int64_t k = 0; k < n; k++) x[k] = (int32_t)(k * round), y[k] = -1;
    if (lm_chain(x, y, n) != 0) abort();
    for (int64_t k = 0; k < n; k++) if (y[k] != x[k]) abort();
  }
  return NULL;
}
static void *releases(void *seed) {
  for (int round = 0; round < 300; round++) lm_chain_release();
  return seed;
}
int main(void) {
  int seeds[3] = {0, 40, 80};
  pthread_t threads[3];
  for (int k = 0; k < 3; k++) pthread_create(&threads[k], NULL, k < 2 ? calls : releases, &seeds[k]);
  for (int k = 0; k < 3; k++) pthread_join(threads[k], NULL);
  return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_it_is_given_back_while_others_call(tmp_path, sanitizer):
    """Two threads call, a third gives back: no race, no piece in two hands, none lost."""
    rendered = build(tmp_path, workspace_program(), "object", OMP=False)
    for name, text in (
        ("chain.c", rendered.source),
        ("chain.h", rendered.header),
        ("main.c", THREADS),
        ("empty.c", "int main(void) { return 0; }\n"),
    ):
        (tmp_path / name).write_text(text)
    command = ["gcc", f"-fsanitize={sanitizer}", "-O1", "-g", "-pthread"]
    tried = subprocess.run([*command, "empty.c", "-o", "empty"], cwd=tmp_path, capture_output=True)
    if tried.returncode or subprocess.run([tmp_path / "empty"], capture_output=True).returncode:
        pytest.skip(f"gcc's {sanitizer} sanitizer does not work here")
    subprocess.run([*command, "main.c", "chain.c", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_memory_is_kept_between_calls(tmp_path):
    """No call but the first takes pages from the system (each is zeroed first); smaller and larger calls come in between."""
    library = build(tmp_path, copies_program())
    calls = []
    for count in (1 << 18, 1, (1 << 18) + 5000, 0, 70000):
        xs, ys = np.arange(count, dtype="i4"), np.zeros(count, "i4")
        calls.append((library.bind({"X": xs, "Y": ys}, {"N": count}), xs, ys))
    for call_, xs, ys in calls:
        assert call_() == 0 and np.array_equal(xs, ys)
    faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt  # noqa: E731
    before = faults()
    for call_, _, _ in calls * 5:
        call_()
    assert faults() - before < 200  # one call of the largest touches 517


def test_calls_at_once_have_memory_of_their_own(tmp_path):
    library = build(tmp_path, copies_program())
    wrong = []

    def work(seed):
        for k in range(60):
            xs = np.arange((seed * 7919 + k * 104729) % 40000, dtype="i4") + seed
            ys = np.zeros_like(xs)
            if library.call({"X": xs, "Y": ys}, {"N": len(xs)}) != 0 or not np.array_equal(xs, ys):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]  # more than there are places for a size
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
