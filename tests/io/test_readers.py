"""Files read in parts give the rows that reading them whole gives, and refuse what cannot be rows of one table."""

import gzip
import pickle

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

import kdcode
from kdcode.errors import FileError, FormatError, MissingExtraError, OptionError, RowError
from kdcode.io import (
    IN_PARTS,
    JoinedReader,
    ReadOptions,
    can_be_parts,
    lines,
    matrices,
    open_parts,
    open_reader,
    sample_rows,
)
from kdcode.table import VectorTable

ROWS, DIM = 57, 5
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
NAMES = [f"ü{row}" for row in range(ROWS)]


def npy(folder, vectors=VECTORS, names=NAMES, name="a.npy"):
    np.save(folder / name, vectors)
    if names is not None:
        (folder / name).with_suffix(".symbols.txt").write_text("".join(f"{each}\n" for each in names), "utf-8")
    return folder / name


def safetensors(folder, vectors=VECTORS, names=NAMES, name="a.safetensors"):
    save_file({"w": torch.from_numpy(vectors.copy())}, folder / name)
    if names is not None:
        (folder / name).with_suffix(".symbols.txt").write_text("".join(f"{each}\n" for each in names), "utf-8")
    return folder / name


def parquet(folder, vectors=VECTORS, names=NAMES, name="a.parquet"):
    columns = {} if names is None else {"s": names}
    columns["v"] = pa.array(vectors.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table(columns), folder / name, row_group_size=10)
    return folder / name


def parquet_columns(folder, vectors=VECTORS, names=NAMES, name="a.parquet"):
    columns = {} if names is None else {"s": names}
    columns |= {f"x{place}": vectors[:, place] for place in range(vectors.shape[1])}
    pq.write_table(pa.table(columns), folder / name, row_group_size=10)
    return folder / name


WRITERS = {"npy": npy, "safetensors": safetensors, "parquet": parquet, "parquet columns": parquet_columns}
every_format = pytest.mark.parametrize("kind", WRITERS)


def rows_of(source, *arguments):
    """Symbols and vectors of some rows, put together."""
    chunks = list(source.chunks(*arguments))
    names = [name for symbols, _ in chunks for name in symbols or ()]
    return names, np.concatenate([vectors for _, vectors in chunks])


def test_every_format_that_is_read_in_parts_is_tried_here():
    assert {kind.partition(" ")[0] for kind in WRITERS} == set(IN_PARTS)


@every_format
@pytest.mark.parametrize("names", [NAMES, None], ids=["named", "unnamed"])
def test_parts_give_what_reading_the_whole_file_gives(tmp_path, kind, names):
    path = WRITERS[kind](tmp_path, names=names)
    source, table = open_reader(path), kdcode.read(path)
    assert (len(source), source.embedding_dim, source.has_symbols) == (ROWS, DIM, names is not None)
    for start, stop, rows in [(0, ROWS, 8), (0, None, 100), (9, 11, 1), (30, 31, 8), (13, 47, 7), (0, ROWS, 3)]:
        found, vectors = rows_of(source, start, stop, rows)
        np.testing.assert_array_equal(vectors, table.matrix[start:stop])
        assert found == ([] if names is None else list(table.symbols[start:stop]))
        assert max(len(chunk) for _, chunk in source.chunks(start, stop, rows)) <= rows
    assert list(source.chunks(5, 5)) == []
    assert vectors.dtype == np.float32


@every_format
def test_a_source_can_be_sent_to_another_process(tmp_path, kind):
    source = pickle.loads(pickle.dumps(open_reader(WRITERS[kind](tmp_path))))  # noqa: S301 - our own
    assert rows_of(source)[0] == NAMES


@every_format
def test_rows_that_are_not_there_are_refused(tmp_path, kind):
    source = open_reader(WRITERS[kind](tmp_path))
    with pytest.raises(RowError, match="there are no rows from 3 to 58, it has 57"):
        list(source.chunks(3, ROWS + 1))


@every_format
def test_a_number_that_is_not_finite_is_refused_by_its_row(tmp_path, kind):
    vectors = VECTORS.copy()
    vectors[41, 2] = np.nan
    path = WRITERS[kind](tmp_path, vectors)
    with pytest.raises(FormatError, match=rf"{path}: row 41: has a value that is not a finite float32"):
        rows_of(open_reader(path), 20, ROWS, 16)


@every_format
def test_a_limit_takes_the_first_rows(tmp_path, kind):
    source = open_reader(WRITERS[kind](tmp_path), ReadOptions(limit=12))
    assert rows_of(source)[0] == NAMES[:12]


@every_format
def test_files_of_one_folder_are_parts_of_one_table(tmp_path, kind):
    ending = ".parquet" if kind.startswith("parquet") else f".{kind}"
    for number, start in ((10, 20), (2, 40), (1, 0)):  # written in no order
        WRITERS[kind](tmp_path, VECTORS[start : start + 20], None, f"part-{number:03}{ending}")
    (tmp_path / "_SUCCESS").write_text("")
    order = np.concatenate([VECTORS[:20], VECTORS[40:], VECTORS[20:40]])
    for name in (tmp_path, f"{tmp_path}/part-*{ending}", f"file://{tmp_path}", f"file://{tmp_path}/*{ending}"):
        source = open_reader(name)
        assert isinstance(source, JoinedReader)
        np.testing.assert_array_equal(rows_of(source)[1], order)
        np.testing.assert_array_equal(rows_of(source, 15, 45, 7)[1], order[15:45])
    assert [len(part) for part in open_parts([f"{tmp_path}/part-*{ending}"])] == [20, 17, 20]


@every_format
def test_urls_are_opened_by_fsspec(tmp_path, kind):
    path = WRITERS[kind](tmp_path, names=None)
    files = fsspec.filesystem("memory")
    files.pipe(f"/{kind.replace(' ', '-')}/{path.name}", path.read_bytes())
    source = open_reader(f"memory://{kind.replace(' ', '-')}/{path.name}")
    np.testing.assert_array_equal(rows_of(source)[1], VECTORS)
    assert source.fingerprint() == source.fingerprint()
    with pytest.raises(FileNotFoundError):
        open_reader(f"memory://{kind.replace(' ', '-')}/none.npy")


def test_a_url_without_fsspec_names_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match="pip install 'fsspec"):
        open_reader("s3://bucket/a.npy")


def test_a_protocol_that_is_not_known_is_refused():
    with pytest.raises(FileError, match="nosuch"):
        open_reader("nosuch://bucket/a.npy")


@pytest.mark.parametrize("dtype", ["<f2", "<f8", ">f4", "<i4", "u1"])
def test_numbers_of_other_types_become_float32(tmp_path, dtype):
    np.save(tmp_path / "a.npy", (VECTORS * 10).astype(dtype))
    expected = (VECTORS * 10).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(rows_of(open_reader(tmp_path / "a.npy"))[1], expected)


def test_bfloat16(tmp_path):
    tensor = torch.from_numpy(VECTORS.copy()).bfloat16()
    save_file({"w": tensor}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(rows_of(open_reader(tmp_path / "a.safetensors"))[1], tensor.float().numpy())


def test_a_matrix_by_columns_is_refused_with_what_to_do(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(VECTORS))
    with pytest.raises(FormatError, match=r"column by column.*ascontiguousarray"):
        open_reader(tmp_path / "a.npy")


def test_other_formats_are_refused_with_those_that_work(tmp_path):
    (tmp_path / "a.txt").write_text("a 1 2\nb 3 4\n")
    with pytest.raises(FormatError, match="npy, safetensors, parquet files can"):
        open_reader(tmp_path / "a.txt")
    assert can_be_parts("a.npy")
    assert can_be_parts("x/*.PARQUET")
    assert not can_be_parts("a.txt")


@every_format
def test_a_file_without_an_ending_is_known_by_its_first_bytes(tmp_path, kind):
    path = WRITERS[kind](tmp_path, names=None)
    path.rename(tmp_path / "plain")
    assert len(open_reader(tmp_path / "plain")) == ROWS


def test_parts_must_be_alike(tmp_path):
    npy(tmp_path, names=None, name="a.npy")
    npy(tmp_path, VECTORS[:, :4], None, "b.npy")
    with pytest.raises(FormatError, match=r"b\.npy: its vectors have 4 dimensions, those of .*a\.npy 5"):
        open_parts([f"{tmp_path}/*.npy"])
    npy(tmp_path, name="b.npy")
    with pytest.raises(FormatError, match=r"a\.npy: its rows have no symbols, those of .*b\.npy have"):
        open_parts([f"{tmp_path}/*.npy"])


def test_a_file_that_two_patterns_name_is_taken_once(tmp_path):
    npy(tmp_path, names=None, name="a.npy")
    npy(tmp_path, names=None, name="b.npy")
    parts = open_parts([f"{tmp_path}/b.npy", f"{tmp_path}/*.npy"])
    assert [part.name for part in parts] == [f"{tmp_path}/b.npy", f"{tmp_path}/a.npy"]


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\*\.npy: there is no such file"):
        open_parts([f"{tmp_path}/*.npy"])
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        open_parts([f"{tmp_path}/a.npy"])
    with pytest.raises(OptionError, match="at least one file"):
        open_parts([])


def test_options_of_one_file_are_refused_for_several(tmp_path):
    npy(tmp_path, names=None, name="a.npy")
    npy(tmp_path, names=None, name="b.npy")
    with pytest.raises(OptionError, match="limit: is for one file, and there are 2"):
        open_parts([f"{tmp_path}/*.npy"], ReadOptions(limit=3))
    with pytest.raises(OptionError, match="does not apply to the format 'npy'"):
        open_reader(tmp_path / "a.npy", ReadOptions(symbol_column="s"))


@every_format
def test_a_fingerprint_changes_with_the_file(tmp_path, kind):
    path = WRITERS[kind](tmp_path)
    before = open_reader(path).fingerprint()
    assert open_reader(path).fingerprint() == before
    WRITERS[kind](tmp_path, VECTORS[:-1], NAMES[:-1])
    assert open_reader(path).fingerprint() != before


def test_a_fingerprint_changes_with_the_file_of_symbols(tmp_path):
    path = npy(tmp_path)
    before = open_reader(path).fingerprint()
    (tmp_path / "a.symbols.txt").write_text("".join(f"other{row}\n" for row in range(ROWS)))
    assert open_reader(path).fingerprint() != before


def test_symbols_are_found_from_any_line_on(tmp_path, monkeypatch):
    monkeypatch.setattr(matrices, "_MARK_LINES", 8)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 13)
    source = open_reader(npy(tmp_path))
    for start, stop in [(0, ROWS), (7, 9), (8, 8), (8, 30), (ROWS - 1, ROWS)]:
        assert [name for symbols, _ in source.chunks(start, stop, 5) for name in symbols] == NAMES[start:stop]


def test_a_gzipped_file_of_symbols_is_read_from_any_line_on(tmp_path, monkeypatch):
    monkeypatch.setattr(matrices, "_MARK_LINES", 8)
    path = npy(tmp_path, names=None)
    (tmp_path / "names.gz").write_bytes(gzip.compress("\n".join(NAMES).encode()))
    reader = open_reader(path, ReadOptions(symbols=str(tmp_path / "names.gz")))
    assert rows_of(reader, 20, 30, 3)[0] == NAMES[20:30]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "expected one symbol for each of the 3 rows of .*, found 2 lines"),
        (b"a\nb\nc\nd", "found 4 lines"),
        (b"a\n\nc\n", "line 2: expected a symbol, found an empty line"),
        (b"a\n\xff\nc\n", "line 2: the symbol is not UTF-8"),
        (b"a\n" + b"x" * (1 << 22) + b"\nc\n", "line 2 is longer than 2097152 bytes"),
        (b"\x1f\x8b\x08\n\n\n", "the gzip data ends early"),
    ],
)
def test_a_bad_file_of_symbols_is_refused(tmp_path, content, message):
    path = npy(tmp_path, VECTORS[:3], None)
    (tmp_path / "names").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        list(open_reader(path, ReadOptions(symbols=str(tmp_path / "names"))).chunks())


def test_a_file_that_is_cut_short_later_is_refused(tmp_path):
    path = npy(tmp_path, names=None)
    source = open_reader(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FormatError, match="ends inside row 56"):
        list(source.chunks())


def test_a_damaged_parquet_part_is_refused_by_name(tmp_path):
    path = parquet(tmp_path)
    content = bytearray(path.read_bytes())
    content[20:60] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.parquet: not a usable Parquet file"):
        list(open_reader(path).chunks())


@every_format
def test_a_sample_has_distinct_rows_in_order(tmp_path, kind):
    source = open_reader(WRITERS[kind](tmp_path))
    seen = []
    table = sample_rows(source, 10, seed=3, on_progress=lambda done, total: seen.append((done, total)))
    places = [int(np.flatnonzero((row == VECTORS).all(axis=1))[0]) for row in table.matrix]
    assert len(set(places)) == 10
    assert places == sorted(places)
    assert seen[-1] == (ROWS, ROWS)
    assert not np.array_equal(sample_rows(source, 10, seed=4).matrix, table.matrix)
    np.testing.assert_array_equal(sample_rows(source, 1000).matrix, VECTORS)
    with pytest.raises(OptionError, match="at least 1 row"):
        sample_rows(source, 0)


def test_a_small_sample_of_many_rows_is_drawn_evenly(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(40_000, dtype=np.float32)[:, None])
    found = sample_rows(open_reader(tmp_path / "a.npy"), 4000).matrix[:, 0]
    assert len(np.unique(found)) == 4000
    counts = np.histogram(found, bins=10, range=(0, 40_000))[0]
    assert counts.min() > 330
    assert counts.max() < 470


def test_a_source_is_of_its_own_memory_not_of_the_file(tmp_path):
    source = open_reader(npy(tmp_path, names=None))
    first = next(source.chunks(0, 4, 4))[1]
    first[:] = 0  # a copy that its reader may change
    np.testing.assert_array_equal(rows_of(source)[1], VECTORS)
    assert isinstance(sample_rows(source, 3), VectorTable)
