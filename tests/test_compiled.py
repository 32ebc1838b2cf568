"""When compiled code is loaded, and that everything works without it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sample_tables import KINDS, coded_table, words

from kdcode import compiled

HAS_NUMBA = pytest.mark.skipif(compiled.kernels(0) is None, reason="numba is not installed")


def printed(script: str, **environment: str) -> str:
    """What a process of its own prints."""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return ran.stdout.strip()


SMALL_TABLE = """
import sys
import numpy as np
from kdcode.codec import CodecSpec, make_codec
from kdcode.coded import CodedTable
codec = make_codec(CodecSpec.named("linear", 3, 4, 2), {"codebook": np.ones((2, 4, 3))})
coded = CodedTable.from_codes(["a", "b"], np.array([[0, 1], [2, 3]]), codec)
"""


@HAS_NUMBA
def test_a_few_lookups_load_nothing_and_many_do():
    script = SMALL_TABLE + (
        "seen = []\n"
        "for _ in range(60): coded['a']\n"
        "seen.append('numba' in sys.modules)\n"
        "for _ in range(10): coded['a']\n"
        "print(*seen, 'numba' in sys.modules, coded['b'].tolist())"
    )
    assert printed(script, KDCODE_COMPILED="auto") == "False True [2.0, 2.0, 2.0]"


@HAS_NUMBA
def test_many_rows_at_once_load_it_at_once():
    script = SMALL_TABLE + "coded.decode(np.zeros(1000, dtype=int)); print('numba' in sys.modules)"
    assert printed(script, KDCODE_COMPILED="auto") == "True"


@pytest.mark.parametrize(("setting", "expected"), [("0", "False"), ("1", "True")])
@HAS_NUMBA
def test_the_environment_decides(setting, expected):
    script = SMALL_TABLE + "coded.decode(np.zeros(1000, dtype=int)); coded['a']; print('numba' in sys.modules)"
    assert printed(script, KDCODE_COMPILED=setting) == expected


@HAS_NUMBA
def test_the_first_call_says_nothing():
    script = SMALL_TABLE + "coded.decode([0, 1]); coded.neighbors('a')"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "KDCODE_COMPILED": "1"},
    )
    assert ran.stdout + ran.stderr == ""


def test_without_numba_everything_works():
    script = (
        "import sys; sys.modules['numba'] = None\n"
        + SMALL_TABLE
        + "from kdcode import compiled\n"
        + "print(coded.decode(np.zeros(100, dtype=int)).sum(), compiled.kernels(10**6))"
    )
    assert printed(script, KDCODE_COMPILED="1") == "600.0 None"


@HAS_NUMBA
def test_without_a_folder_to_write_to_kernels_are_compiled_all_the_same(monkeypatch):
    from kdcode.kernels import packed

    real = packed.njit

    def refusing(*given, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*given, **options)

    monkeypatch.setattr(packed, "njit", refusing)
    assert packed.kernel(lambda number: number + 1)(2) == 3


@HAS_NUMBA
def test_processors_that_do_not_know_float16_convert_it_bit_by_bit(tmp_path):
    script = """
import numpy as np
from kdcode import compiled
from kdcode.codec import CodecSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.kernels import vectors
vectors._KNOWS_HALF = False  # before anything is compiled
random = np.random.default_rng(0)
spec = CodecSpec.named("linear", 27, 4, 3, codebook_dtype="float16")
codec = make_codec(spec, {"codebook": random.normal(size=(3, 4, 27))})
coded = CodedTable.from_codes(None, random.integers(0, 4, size=(20, 3)), codec)
quick = coded.decode(np.arange(20))
with compiled.using("0"):
    print(np.abs(quick - coded.decode(np.arange(20))).max() < 1e-5, np.abs(quick).max() > 1)
"""
    assert printed(script, KDCODE_COMPILED="1", NUMBA_CACHE_DIR=str(tmp_path)) == "True True"


@HAS_NUMBA
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_both_give_the_same_numbers(kind, dtype):
    coded = coded_table(kind, dtype, rows=300, length=6, size=20, dim=40, symbols=words(300))
    rows = np.random.default_rng(0).integers(0, 300, size=500)
    with compiled.using("0"):
        plain, few = coded.decode(rows), coded.decode(rows[:3])
    with compiled.using("1"):
        quick = coded.decode(rows)
        np.testing.assert_allclose(coded.decode(rows[:3]), few, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(quick, plain, rtol=2e-5, atol=2e-6)
    assert quick.dtype == plain.dtype == np.float32
