"""Codewords on the command line where torch is not installed: learned, encoded in parts, assembled and appended to."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import kdcode

BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from kdcode.cli import main
main(sys.argv[1:])
"""
CODES = ("--codebook-size", "16", "--code-length", "6", "--effort", "fast", "--threads", "1", "--quiet")


def run(*words):
    found = subprocess.run(
        [sys.executable, "-c", BLOCKED, *map(str, words)], capture_output=True, text=True, check=False, timeout=120
    )
    return found.returncode, found.stdout, found.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    random = np.random.default_rng(0)
    for number in range(3):
        rows = random.standard_normal((500, 24), dtype=np.float32) * np.geomspace(3, 0.3, 24, dtype=np.float32)
        np.save(folder / f"{number}.npy", rows)
    return folder


@pytest.mark.parametrize("shape", [("linear",), ("product", "--rotation"), ("grouped",)])
def test_a_table_is_compressed(shape, folder, tmp_path):
    code, _, errors = run("compress", folder / "0.npy", tmp_path / "a.kdc", "--composition", *shape, *CODES)
    assert code == 0, errors
    coded = kdcode.load(tmp_path / "a.kdc")
    assert coded.spec.composition == shape[0]
    assert coded.provenance["relative_error"] < 0.3


def test_a_codebook_is_learned_and_rows_are_encoded_assembled_and_appended(folder, tmp_path):
    book, codes, table = tmp_path / "book.kdc", tmp_path / "codes", tmp_path / "table.kdc"
    for words in (
        ("learn-codebook", folder / "0.npy", book, "--composition", "grouped", *CODES),
        ("encode", folder / "0.npy", folder / "1.npy", codes, "--codebook", book, "--quiet"),
        ("assemble", codes, table, "--codebook", book),
        ("append", table, folder / "2.npy"),
    ):
        code, _, errors = run(*words)
        assert code == 0, errors
    rows = np.concatenate([np.load(folder / f"{number}.npy") for number in range(3)])
    coded = kdcode.load(table)
    assert len(coded) == 1500
    assert np.square(coded.decode(np.arange(1500)) - rows).sum() < 0.4 * np.square(rows).sum()
    code, out, errors = run("info", table, "--json")
    assert code == 0, errors
    assert json.loads(out)


@pytest.mark.parametrize("words", [("--composition", "lstm"), ("--learner", "straight-through")])
def test_what_needs_torch_says_so_before_any_work(words, folder, tmp_path):
    code, _, errors = run("compress", folder / "0.npy", tmp_path / "a.kdc", *words, *CODES[:4])
    assert code == 1
    assert "pip install 'torch>=" in errors
    assert "reading" not in errors
