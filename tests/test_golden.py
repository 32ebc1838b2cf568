"""Files of format 1 that every later kdcode must load, and write again to the same bytes."""

import importlib.util
import json
from pathlib import Path

import kdc_reader
import numpy as np
import pytest
from kdc_bytes import Parts

from kdcode import load, save, storage, verify
from kdcode.codec import CodewordSpec
from kdcode.codec.quantized import DTYPE_BYTES
from kdcode.codec.spec import COMPOSITIONS

FOLDER = Path(__file__).parent / "golden"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
WRITTEN_BY = "0.1.0"


def made_now():
    spec = importlib.util.spec_from_file_location("make_golden", FOLDER / "make_golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tables()


def test_every_kind_is_there():
    assert {path.stem for path in FOLDER.glob("*.kdc")} == set(EXPECTED) == set(made_now())
    assert all(path.stat().st_size < 4000 for path in FOLDER.glob("*.kdc"))
    specs = [load(path).spec for path in FOLDER.glob("*.kdc")]
    assert {spec.composition for spec in specs} == set(COMPOSITIONS)
    assert 0 in {len(load(path)) for path in FOLDER.glob("*.kdc")}  # a codebook
    words = [spec for spec in specs if isinstance(spec, CodewordSpec)]
    others = [spec for spec in specs if not isinstance(spec, CodewordSpec)]
    assert {spec.codebook_dtype for spec in words if spec.is_rotated} == set(DTYPE_BYTES)
    assert {spec.codebook_dtype for spec in words if spec.scale_bits} >= {"float32", "int8"}
    assert {spec.signs for spec in others} == {True, False}
    assert {(spec.centroids > 0, spec.rows_per_block > 1) for spec in others} == {
        *[(False, False), (False, True), (True, False), (True, True)]
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_they_are_of_format_1(name):
    assert Parts.of(FOLDER / f"{name}.kdc").metadata["format"] == 1


@pytest.mark.parametrize("name", EXPECTED)
def test_it_loads_and_gives_the_same(name):
    coded, expected = load(FOLDER / f"{name}.kdc"), EXPECTED[name]
    if len(coded):
        verify(FOLDER / f"{name}.kdc")
    assert list(coded.symbols) == expected["symbols"]
    assert coded.codes.tolist() == expected["codes"]
    assert coded.provenance == expected["provenance"]
    vectors = np.array(expected["vectors"]).reshape(len(coded), coded.embedding_dim)  # of a codebook there are none
    np.testing.assert_allclose(coded.decode(np.arange(len(coded))), vectors, rtol=1e-6, atol=2e-6)
    for row, symbol in enumerate(expected["symbols"]):
        np.testing.assert_allclose(coded[symbol], expected["vectors"][row], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_reader_written_from_the_page_gives_the_same(name):
    expected = EXPECTED[name]
    symbols, codes, vectors = kdc_reader.read(FOLDER / f"{name}.kdc")
    assert symbols == expected["symbols"]
    assert codes == expected["codes"]
    np.testing.assert_allclose(vectors, expected["vectors"], rtol=1e-5, atol=1e-5)
    assert len(vectors) == len(load(FOLDER / f"{name}.kdc"))


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_saved_to_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "__version__", WRITTEN_BY)
    save(load(FOLDER / f"{name}.kdc"), tmp_path / "again.kdc")
    assert (tmp_path / "again.kdc").read_bytes() == (FOLDER / f"{name}.kdc").read_bytes()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_same_table_made_anew_gives_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "__version__", WRITTEN_BY)
    save(made_now()[name], tmp_path / "anew.kdc")
    assert (tmp_path / "anew.kdc").read_bytes() == (FOLDER / f"{name}.kdc").read_bytes()
