"""Writing files: whole or not at all, and only inside the folder."""

import os

import pytest
from luminal.artifacts.write import inside, write_file, write_files
from luminal.ir.errors import UsageError


def test_replaces_in_one_step_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "deep" / "gemm.c"
    write_file(path, "old")
    write_file(path, "neü\n")
    assert path.read_bytes() == "neü\n".encode()
    assert os.listdir(path.parent) == ["gemm.c"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~(current := os.umask(0)) and os.umask(current) == 0


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "gemm.c"
    write_file(path, "old")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_file(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["gemm.c"]


@pytest.mark.parametrize("name", ["../x.c", "/etc/x", "a/b.c", "", ".", "..", "a\0b", "-o", "a b"])
def test_names_that_escape(tmp_path, name):
    with pytest.raises(UsageError, match="no file name"):
        inside(tmp_path, name)
    with pytest.raises(UsageError):
        write_files(tmp_path, {"good.c": "x", name: "y"})
    assert os.listdir(tmp_path) == []
