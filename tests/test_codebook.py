"""A codebook: a coded table without rows, in memory, in a file, and in commands."""

import numpy as np
import pytest
from click.testing import CliRunner
from kdc_bytes import Parts
from sample_tables import KINDS, codebook_of, coded_table, words

import kdcode
from kdcode import CodedTable, load, save
from kdcode.cli import main
from kdcode.errors import NoRowsError, StorageError
from kdcode.symbols import RowNumbers


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cb.kdc"


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_codebook_is_saved_and_loaded_and_encodes_as_its_table_does(kind, dtype, path):
    table = coded_table(kind, dtype, rows=9, symbols=words(9), provenance={"learner": "none"})
    assert save(table.codebook(), path) == path.stat().st_size
    found = load(path, check="full")
    assert len(found) == 0
    assert list(found) == list(found.items()) == list(found.chunks()) == []
    assert isinstance(found.symbols, RowNumbers)
    assert found.spec == table.spec
    assert found.provenance == table.provenance
    assert "codes" not in Parts.of(path).tensors
    vectors = np.random.default_rng(3).normal(size=(4, table.embedding_dim))
    np.testing.assert_array_equal(found.encode(vectors), table.encode(vectors))
    again = path.with_name("again.kdc")
    save(found, again)
    assert again.read_bytes() == path.read_bytes()
    assert found.sizes == table.spec.sizes(0)


def test_rows_can_be_added_to_a_codebook():
    codebook = codebook_of(rows=3)
    found = codebook.with_rows({"a": 0.5, "b": np.arange(7.0)})
    assert list(found) == ["a", "b"]
    np.testing.assert_array_equal(found.codes[1], codebook.encode(np.arange(7.0)))


def test_what_has_no_answer_without_rows_is_empty():
    codebook = codebook_of()
    assert "a" not in codebook
    assert codebook.codes.shape == (0, 4)
    assert codebook.norms.shape == (0,)
    assert codebook.shared_codes == 0
    assert np.asarray(codebook).shape == (0, 7)
    assert codebook.codebook().codec is codebook.codec
    assert "a codebook without rows" in repr(codebook)


def expanded(codebook, tmp_path):
    kdcode.write(codebook, tmp_path / "t.txt")


def exported(codebook, tmp_path):
    pytest.importorskip("onnx")
    kdcode.export_onnx(codebook, tmp_path / "t.onnx")


def indexed(codebook, tmp_path):
    pytest.importorskip("faiss")
    from kdcode.integrations.faiss_index import export_faiss

    export_faiss(codebook, tmp_path / "t.faiss", metric="l2")


def layered(codebook, tmp_path):
    pytest.importorskip("torch")
    from kdcode.nn import CodedEmbedding

    CodedEmbedding(codebook, form="unpacked")


ASKED = {
    "symbol": lambda codebook, _: codebook["a"],
    "get": lambda codebook, _: codebook.get("a"),
    "row": lambda codebook, _: codebook[0],
    "slice": lambda codebook, _: codebook[:2],
    "row of": lambda codebook, _: codebook.row_of("a"),
    "decode": lambda codebook, _: codebook.decode([0]),
    "code": lambda codebook, _: codebook.code_of("a"),
    "groups": lambda codebook, _: codebook.code_groups(),
    "prefix": lambda codebook, _: codebook.symbols_with_code([1]),
    "select": lambda codebook, _: codebook.select([0]),
    "neighbors of a symbol": lambda codebook, _: codebook.neighbors("a"),
    "neighbors": lambda codebook, _: codebook.neighbors(np.ones(7)),
    "most similar": lambda codebook, _: codebook.most_similar([np.ones(7)]),
    "similarities": lambda codebook, _: codebook.similarities(np.ones(7)),
    "table": lambda codebook, _: codebook.to_table(),
    "evaluate": lambda codebook, _: kdcode.evaluate(np.ones((3, 7)), codebook),
    "faiss": lambda codebook, _: codebook.to_faiss(),
    "gensim": lambda codebook, _: codebook.to_keyed_vectors(),
    "write": expanded,
    "onnx": exported,
    "faiss file": indexed,
    "layer": layered,
}


@pytest.mark.parametrize("name", ASKED)
def test_what_only_rows_can_tell_is_refused(name, tmp_path):
    with pytest.raises(NoRowsError, match="this file is a codebook without rows; code rows with"):
        ASKED[name](codebook_of(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_verify_names_the_file(path):
    save(codebook_of(), path)
    with pytest.raises(NoRowsError) as caught:
        kdcode.verify(path)
    assert str(caught.value).startswith(f"{path}: this file is a codebook")


@pytest.mark.parametrize(
    "line",
    [["get", "a"], ["neighbors", "a"], ["neighbors", "--vector", "1 " * 7], ["codes"], ["verify"], ["expand", "o.txt"]],
)
def test_commands_refuse_a_codebook(line, path):
    save(codebook_of(), path)
    done = CliRunner().invoke(main, [line[0], str(path), *line[1:]])
    assert done.exit_code == 1
    assert "this file is a codebook without rows" in done.output


def test_info_says_that_it_is_a_codebook(path):
    save(coded_table(provenance={"relative_error": 0.25, "shared_codes": 2}).codebook(), path)
    told = CliRunner().invoke(main, ["info", str(path)]).output
    assert "none: this is a codebook" in told
    assert "0.2500" in told
    assert "smaller" not in told
    assert "shared codes" not in told


def test_a_table_of_no_codes_is_still_refused():
    codec = codebook_of().codec
    with pytest.raises(kdcode.errors.OptionError, match="at least one row"):
        CodedTable.from_codes(None, np.empty((0, 4), dtype=np.int64), codec)


def refused(path, message):
    with pytest.raises(StorageError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_codes_of_no_rows_are_refused(path):
    save(coded_table(), path)
    parts = Parts.of(path)
    parts.metadata["num_embeddings"] = 0
    refused(parts.write(path), "codes: there is none in a file of 0 rows")


def test_rows_without_codes_are_refused(path):
    save(codebook_of(), path)
    parts = Parts.of(path)
    parts.metadata["num_embeddings"] = 3
    refused(parts.write(path), "codes: missing")


@pytest.mark.parametrize("kept", ["blocks", "starts", "strings", "order"])
def test_symbols_of_no_rows_are_refused(path, kept):
    save(coded_table(symbols=words(5)), path)
    parts = Parts.of(path)
    parts.metadata["num_embeddings"] = 0
    for name in list(parts.tensors):
        if name == "codes" or (name.startswith("symbols.") and not name.endswith(kept)):
            del parts.tensors[name]
    refused(parts.write(path), f"symbols.{kept}: there is none in a file of 0 rows")


def test_other_tensors_are_refused(path):
    save(codebook_of(), path)
    parts = Parts.of(path)
    parts.tensors["more"] = ["U8", [2], b"ab"]
    refused(parts.write(path), "more: this tensor does not belong")


@pytest.mark.parametrize("count", [-1, 0.0, False, None, "0"])
def test_a_count_that_is_none_is_refused(path, count):
    save(codebook_of(), path)
    parts = Parts.of(path)
    parts.metadata["num_embeddings"] = count
    refused(parts.write(path), "num_embeddings: expected an integer of at least 0")
