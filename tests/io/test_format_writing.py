"""What is written comes back as it was, and what cannot be written leaves no trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sample_tables import coded_table

import kdcode
from kdcode.errors import FileError, FormatError
from kdcode.io import FORMATS
from kdcode.table import VectorTable

NAMES = {
    "glove": "a.txt",
    "word2vec-text": "w.txt",
    "word2vec-binary": "a.bin",
    "fasttext": "a.vec",
    "csv": "a.csv",
    "tsv": "a.tsv",
    "npy": "a.npy",
    "safetensors": "a.safetensors",
    "parquet": "a.parquet",
}
SPACED = ("glove", "csv", "tsv", "npy", "safetensors", "parquet")
QUOTING = ("csv", "tsv", "parquet")
"""Those that hold symbols with line breaks."""

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n ")
WORDS = st.text(CHARACTERS, min_size=1, max_size=6)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw, words):
    symbols = draw(st.lists(words, min_size=1, max_size=6, unique=True))
    dim = draw(st.integers(1, 4))
    return VectorTable(symbols, draw(arrays.arrays(np.float32, (len(symbols), dim), elements=FLOATS)))


def ends_in_number(symbol):
    try:
        float(symbol.rpartition(" ")[2])
    except ValueError:
        return False
    return " " in symbol


def check_round_trip(table, folder, name):
    path = folder / NAMES[name]
    kdcode.write(table, path, format=name)
    again = kdcode.read(path)
    assert list(again.symbols) == list(table.symbols)
    assert np.asarray(again.matrix).tobytes() == table.matrix.tobytes()  # −0.0 and subnormals included


def test_every_format_that_writes_is_tried_here():
    assert set(NAMES) == {name for name, known in FORMATS.items() if known.write}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(table=tables(WORDS.filter(lambda word: not word.endswith("\r"))))
def test_symbols_of_any_characters_come_back(tmp_path, name, table):
    check_round_trip(table, tmp_path, name)


@pytest.mark.parametrize("name", SPACED)
@settings(max_examples=60)
@given(table=tables(st.text(st.sampled_from("a.1- é"), min_size=1, max_size=5)))
def test_symbols_with_spaces_come_back_or_are_refused(tmp_path, name, table):
    if name == "glove" and any(map(ends_in_number, table.symbols)):
        with pytest.raises(FormatError, match="ends in a space and a number"):
            kdcode.write(table, tmp_path / "a.txt")
    else:
        check_round_trip(table, tmp_path, name)


@pytest.mark.parametrize("name", QUOTING)
@settings(max_examples=60)
@given(table=tables(st.text(st.sampled_from('a1.,;|\t"\r\n '), min_size=1, max_size=5)))
def test_delimiters_quotes_and_line_breaks_come_back(tmp_path, name, table):
    check_round_trip(table, tmp_path, name)


@pytest.mark.parametrize("name", NAMES)
def test_float32_extremes_come_back_exactly(tmp_path, name):
    info = np.finfo(np.float32)
    values = [info.max, info.min, info.tiny, info.smallest_subnormal, -0.0, 0.1, 1 / 3, 16777216, 1e16, 1e-7]
    check_round_trip(VectorTable(["x"], np.array([values], dtype=np.float32)), tmp_path, name)


@pytest.mark.parametrize("name", ["glove", "word2vec-text", "csv"])
def test_random_bit_patterns_come_back_exactly(tmp_path, name):
    values = np.random.default_rng(0).integers(0, 1 << 32, 30_000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)][:29_000].reshape(-1, 10)
    check_round_trip(VectorTable([f"w{row}" for row in range(len(values))], values), tmp_path, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_coded_table_is_written_as_its_decoded_rows(tmp_path, name):
    symbols = [f"w{row}" for row in range(30)]
    coded = coded_table("scaled-rotated", rows=30, symbols=symbols)
    kdcode.write(coded, tmp_path / NAMES[name], format=name)
    again = kdcode.read(tmp_path / NAMES[name])
    assert list(again.symbols) == symbols
    assert np.array_equal(again.matrix, coded.decode(np.arange(30)))


@pytest.mark.parametrize("name", NAMES)
def test_unnamed_rows_are_written_by_number(tmp_path, name):
    check_round_trip(VectorTable(None, np.arange(12, dtype=np.float32).reshape(6, 2)), tmp_path, name)


class Failing:
    """Rows that fail after their first chunk."""

    embedding_dim = 2

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 4

    def chunks(self, rows=2):
        yield ["a", "b"], np.ones((2, 2), dtype=np.float32)
        raise self.error


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_files_and_nothing_else(tmp_path, name, error):
    path = tmp_path / NAMES[name]
    kdcode.write(VectorTable(["x", "y"], np.zeros((2, 2))), path, format=name)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else FileError) as caught:
        kdcode.write(Failing(error), path, format=name)
    if caught.type is FileError:
        assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


class WrongRows(Failing):
    """Rows with a number that no table should hold."""

    def chunks(self, rows=2):
        yield ["a", "b"], np.ones((2, 2), dtype=np.float32)
        yield ["c", "d"], np.array([[1, 2], [3, np.inf]], dtype=np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_not_finite_are_refused_by_row(tmp_path, name):
    with pytest.raises(FormatError, match="row 3: 'd' has a number that is not finite"):
        kdcode.write(WrongRows(None), tmp_path / NAMES[name], format=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_folder_is_named(tmp_path, name):
    path = tmp_path / "none" / NAMES[name]
    with pytest.raises(FileError) as caught:
        kdcode.write(VectorTable(["x"], np.ones((1, 2))), path, format=name)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == f"{path}: cannot be written: there is no folder {path.parent}"
