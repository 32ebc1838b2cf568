"""Transform codes are planned and learned where torch is not installed."""

import subprocess
import sys

import numpy as np
import pytest

import kdcode

_BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from kdcode.cli import main
main(sys.argv[1:])
"""


def without_torch(*words):
    run = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *map(str, words)], capture_output=True, text=True, check=False, timeout=120
    )
    return run.returncode, run.stdout, run.stderr


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.npy"
    random = np.random.default_rng(0)
    np.save(path, (random.normal(size=(1500, 24)) * np.geomspace(3, 0.3, 24)).astype(np.float32))
    return path


def test_a_table_is_compressed_and_a_codebook_learned(table, tmp_path):
    target, book = tmp_path / "a.kdc", tmp_path / "book.kdc"
    code, _, errors = without_torch("compress", table, target, "--size", "8x", "--effort", "fast", "--threads", "1")
    assert code == 0, errors
    assert kdcode.load(target).spec.composition == "transform"
    code, _, errors = without_torch("learn-codebook", table, book, "--size", "8x", "--effort", "fast", "--quiet")
    assert code == 0, errors


def test_a_plan_says_what_it_leaves_out(table):
    code, out, errors = without_torch("plan", table, "--size", "8x", "--effort", "fast", "--quiet")
    assert code == 0, errors
    assert "transform" in out


def test_what_needs_torch_says_so_before_any_work(table, tmp_path):
    code, _, errors = without_torch("compress", table, tmp_path / "a.kdc", "-K", "16", "-D", "4")
    assert code == 1
    assert "torch is required for learning codes" in errors
    assert "reading" not in errors
