"""Composites in the ancestor's style compile as they are, and the second opinion of a test is run and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli

FILES = {
    "axpb": '''[composite]
documentation = """
Writes ax+b.
"""
name = "Axpb"
inputs = ["OUT{Float}[i]<0>()", "A{Float}[]<>()", "B{FLOAT}[]<>()"]
outputs = ["OUT"]

[implementation]
code = """
(dotimes (NTH I)
    (setf (aref out nth) (+ (* a Nth) b)))
"""

[test]

requirements = [""]
code = """
(lambda (out a b i)
    (dotimes (nth i)
        (setf (aref out nth) (+ b (* nth a)))))
"""''',
    "product": '''[composite]
name = "Product-Of"
inputs = ["A{float}[M K]<0 1>()", "B{Float}[K, N]<0 1>(where N = 3)", "C{float}[M N]<0 1>()"]
outputs = ["C"]
[implementation]
code = """
(dotimes (i m)
  (dotimes (j n)
    (dotimes (p k)
      (incf (aref C i j) (* (aref A i p) (aref B p j))))))
"""
[test]
requirements = [""]
code = """
(lambda (A B C k m n)
  (dotimes (p k)
    (dotimes (i m)
      (dotimes (j n)
        (incf (aref c i j) (* (aref a i p) (aref b p j)))))))
"""''',
    "windows": '''[composite]
name = "Windows"
inputs = ["X{Float}[N C H]<0 1 2>()", "Col{Float}[N C K_H H_Out]<0 1 2 3>()", "STRIDE{Int}[]<>()", "PAD{Int}[]<>()"]
outputs = ["Col"]
[implementation]
code = """
(dotimes (Batch_N n)
  (dotimes (h_start K_H)
    (set h_end (+ h_start (- pad) (* stride H_out)))
    (set h_out_col 0)
    (loop (h_im (- h_start pad) h_end stride)
      (dotimes (cth C)
        (setf (aref col batch_n cth h_start h_out_col) (if (and (<= 0 h_im) (< h_im H)) (aref X batch_n cth h_im) 0.0)))
      (incf h_out_col 1))))
"""
[test]
sizes = [{N = 2, C = 3, H = 11, K_H = 3, H_Out = 5, STRIDE = 2, PAD = 1}]
code = """
(lambda (X Col stride pad n c h k_h h_out)
  (dotimes (b n) (dotimes (ch c) (dotimes (k k_h) (dotimes (o h_out)
    (let ((at (- (+ k (* stride o)) pad)))
      (setf (aref Col b ch k o) (if (and (<= 0 at) (< at h)) (aref X b ch at) 0.0))))))))
"""''',
}


def rows(folder: Path, text: str) -> tuple[bool, list[dict[str, object]]]:
    """Whether the report is good, and its rows."""
    (folder / "composite.toml").write_text(text)
    done = CliRunner().invoke(cli, ["compile", str(folder / "composite.toml"), "--runtime", "reference", "--test=", "--json"], catch_exceptions=False)
    report = json.loads(done.stdout)
    return report["ok"], report["results"]


@pytest.mark.parametrize("name", FILES)
def test_they_compile_and_agree(name: str, tmp_path: Path) -> None:
    good, found = rows(tmp_path, FILES[name])
    assert good and found and all(row["ok"] and row["second_opinion"] == "agrees" for row in found), found


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("axpb", "(+ b (* nth a))", "(+ b (* 2 nth a))", "the composite gives"),
        ("product", "(dotimes (p k)\n    (dotimes (i m)", "(dotimes (p (- k 1))\n    (dotimes (i m)", "the composite gives"),
        ("windows", "(aref X b ch at) 0.0", "(aref X b ch (+ at 2)) 0.0", "error code 3"),
    ],
)
def test_an_opinion_that_differs_is_a_mismatch(name: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    head, _, opinion = FILES[name].partition("(lambda")
    assert old in opinion
    good, found = rows(tmp_path, f"{head}(lambda{opinion.replace(old, new)}")
    assert not good and any(not row["ok"] and said in str(row["second_opinion"]) for row in found), found
