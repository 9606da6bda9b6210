"""Writing files: whole or not at all, and only inside the folder."""

import os

import pytest
from luminal.artifacts.write import inside, write_bytes, write_text
from luminal.ir.errors import UsageError


def test_replaces_in_one_step_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "gemm.c"
    write_bytes(path, b"old")
    write_text(path, "neü\n")
    assert path.read_bytes() == "neü\n".encode()
    assert os.listdir(path.parent) == ["gemm.c"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~(current := os.umask(0)) and os.umask(current) == 0


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "gemm.c"
    write_text(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="no space"):
        write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["gemm.c"]


@pytest.mark.parametrize("name", ["../x.c", "/etc/x", "a/b.c", "", ".", "..", "a\0b", "-o", "a b"])
def test_names_that_escape(tmp_path, name):
    with pytest.raises(UsageError, match="no file name"):
        inside(tmp_path, name)
    assert inside(tmp_path, "lm_gemm-2.c") == tmp_path / "lm_gemm-2.c"
