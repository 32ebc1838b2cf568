"""Slices put together, and rows appended: the right rows in the right order, and old codes as they were."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kdc_bytes import Parts
from sample_tables import TRANSFORM_NAMES, codec_of

import kdcode
from kdcode import append, assemble, encode_parts, load, save, verify
from kdcode.bulk import EncodeSettings
from kdcode.bulk.appending import _provenance
from kdcode.bulk.losses import RowLosses
from kdcode.errors import CheckpointError, CheckpointInUseError, FileError, FormatError, OptionError, TableError
from kdcode.file_locks import locked
from kdcode.symbols import RowNumbers

from .conftest import DIM, ROWS, SETTINGS, all_vectors, files, vectors_of, write_part


@pytest.fixture
def folder(parts, codebook, tmp_path):
    encode_parts(parts, tmp_path / "codes", codebook, settings=SETTINGS)
    return tmp_path / "codes"


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_table_has_all_rows_in_order_and_their_error(folder, codebook, tmp_path):
    seen = []
    path = tmp_path / "t.kdc"
    assert assemble(folder, path, codebook, progress=lambda *now: seen.append(now)) == path.stat().st_size
    coded = load(path, check="full")
    assert list(coded) == [f"s{part}-{row}" for part, rows in enumerate(ROWS) for row in range(rows)]
    assert seen[-1] == (215, 215)
    original = kdcode.VectorTable(list(coded), all_vectors())
    found = verify(path, original)
    assert found.is_as_recorded
    assert coded.provenance == {
        "learner": "none",
        "relative_error": round(found.relative_error, 6),
        "encoded": {"rows": 215, "parts": 3, "beam": 2, "sweeps": 1},
    }
    again = tmp_path / "again.kdc"
    save(coded, again)
    assert again.read_bytes() == path.read_bytes()


def test_numbered_rows_become_a_table_without_symbols(unnamed_parts, codebook, tmp_path):
    encode_parts(unnamed_parts, tmp_path / "codes", codebook, settings=SETTINGS)
    assemble(tmp_path / "codes", tmp_path / "t.kdc", codebook)
    coded = load(tmp_path / "t.kdc", check="full")
    assert isinstance(coded.symbols, RowNumbers)
    assert verify(tmp_path / "t.kdc", all_vectors()).is_as_recorded


def test_slices_that_are_missing_are_told(folder, codebook, tmp_path):
    (folder / "codes-0000002.parquet").unlink()
    (folder / "codes-0000003.parquet").write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"2 of 7 slices are missing, the first is codes-0000002.parquet; run `kd"
    ):
        assemble(folder, tmp_path / "t.kdc", codebook)
    assert names(tmp_path) == ["cb.kdc"]


def test_another_codebook_and_another_folder_are_refused(folder, codebook, tmp_path):
    other = kdcode.CodedTable.of_codec(load(codebook).codec.scaled(2.0))
    with pytest.raises(CheckpointError, match="was encoded by another codebook"):
        assemble(folder, tmp_path / "t.kdc", other)
    with pytest.raises(CheckpointError, match=r"has no manifest.json"):
        assemble(tmp_path, tmp_path / "t.kdc", codebook)


def test_damage_inside_of_a_slice_is_noticed_and_named(folder, codebook, tmp_path):
    path = folder / "codes-0000001.parquet"
    content = bytearray(path.read_bytes())
    content[pq.read_metadata(path).row_group(0).column(0).data_page_offset + 60] ^= 1  # among the ids
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"{path}: is damaged: .*remove it, and encode again"):
        assemble(folder, tmp_path / "t.kdc", codebook)
    assert names(tmp_path) == ["cb.kdc"]


def test_a_symbol_of_two_parts_is_named_with_both_rows(codebook, tmp_path):
    (tmp_path / "parts").mkdir()
    write_part(tmp_path / "parts" / "a.parquet", vectors_of(0, 3), ["a", "b", "c"])
    write_part(tmp_path / "parts" / "b.parquet", vectors_of(1, 2), ["d", "b"])
    encode_parts(str(tmp_path / "parts"), tmp_path / "codes", codebook)
    with pytest.raises(TableError, match=r"symbol 'b' appears twice, in rows 1 and 4; .*counted over all parts"):
        assemble(tmp_path / "codes", tmp_path / "t.kdc", codebook)
    assert names(tmp_path) == ["cb.kdc"]


def test_a_full_disk_names_the_target_and_leaves_nothing(folder, codebook, small_disk):
    (small_disk / "filler").write_bytes(bytes(28 << 10))
    with pytest.raises(FileError, match=r"t.kdc: cannot be written: No space left on device"):
        assemble(folder, small_disk / "t.kdc", codebook)
    assert names(small_disk) == ["filler"]


# Rows that are appended


@pytest.fixture
def table(folder, codebook, tmp_path):
    assemble(folder, tmp_path / "t.kdc", codebook)
    return tmp_path / "t.kdc"


@pytest.fixture
def new(tmp_path):
    write_part(tmp_path / "new.parquet", vectors_of(7, 30), [f"n{row}" for row in range(30)])
    return tmp_path / "new.parquet"


def test_appended_rows_follow_and_old_codes_do_not_change(table, new):
    before = load(table, mmap=False)
    seen = []
    report = append(table, new, progress=lambda *now: seen.append(now))
    after = load(table, check="full")
    assert (report.rows_before, report.rows_added, seen[-1]) == (215, 30, (30, 30))
    assert report.file_bytes == table.stat().st_size
    old = np.asarray(before.packed).tobytes()
    assert Parts.of(table).tensors["codes"][2][: len(old)] == old
    assert list(after) == [*before, *(f"n{row}" for row in range(30))]
    for name, array in before.codec.tensors().items():
        np.testing.assert_array_equal(after.codec.tensors()[name], array)
    added = after.decode(np.arange(215, 245))
    lost = kdcode.evaluate(vectors_of(7, 30), added)
    assert report.relative_error == pytest.approx(lost.relative_error, rel=1e-6)
    np.testing.assert_array_equal(after.codes[215:], kdcode.learning.encode(after.codec, vectors_of(7, 30)))


def test_provenance_tells_of_all_rows_that_were_ever_appended(table, new, tmp_path):
    before = load(table).provenance
    append(table, new)
    write_part(tmp_path / "more.parquet", vectors_of(8, 10), [f"m{row}" for row in range(10)])
    append(table, tmp_path / "more.parquet")
    after = load(table)
    told = after.provenance
    assert told["taken_from"] == {"rows": 215, **before}
    assert "relative_error" not in told  # which was measured on other rows
    true = np.concatenate([vectors_of(7, 30), vectors_of(8, 10)])
    lost = np.square(true - after.decode(np.arange(215, 255))).sum() / np.square(true).sum()
    assert told["appended"]["appended_rows"] == 40
    assert told["appended"]["appended_error"] == pytest.approx(lost, rel=1e-5)


def test_many_appends_keep_the_header_within_its_limit(table, tmp_path):
    for number in range(12):
        write_part(tmp_path / "one.parquet", vectors_of(number, 1), [f"n{number}"])
        append(table, tmp_path / "one.parquet")
    assert len(load(table)) == 227


def test_another_output_leaves_the_table(table, new, tmp_path):
    before = table.read_bytes()
    append(table, new, tmp_path / "larger.kdc")
    assert table.read_bytes() == before
    assert len(load(tmp_path / "larger.kdc", check="full")) == 245


@pytest.mark.parametrize("named", [True, False])
def test_a_codebook_becomes_a_table(codebook, new, tmp_path, named):
    np.save(tmp_path / "new.npy", vectors_of(7, 30))
    append(codebook, new if named else tmp_path / "new.npy")
    coded = load(codebook, check="full")
    assert len(coded) == 30
    assert coded["n3" if named else "3"].shape == (DIM,)


def test_rows_without_symbols_go_on_with_their_numbers(codebook, tmp_path):
    np.save(tmp_path / "a.npy", vectors_of(0, 5))
    append(codebook, tmp_path / "a.npy")
    append(codebook, tmp_path / "a.npy")
    coded = load(codebook, check="full")
    assert isinstance(coded.symbols, RowNumbers)
    np.testing.assert_array_equal(coded["9"], coded["4"])


@pytest.mark.parametrize("rows", [-7, 10**400, float("inf"), 1.5, True])
@pytest.mark.parametrize("error", [0.5, float("nan"), -1, 10**400])
def test_numbers_of_strangers_in_the_provenance_are_left_out(table, new, tmp_path, rows, error):
    coded = load(table, mmap=False)
    coded.provenance["appended"] = {"appended_rows": rows, "appended_error": error, "appended_squared_length": 1.0}
    told = _provenance(coded, RowLosses(30, 6.0, 12.0, np.zeros(DIM)))["appended"]
    assert told == {"appended_rows": 30, "appended_error": 0.5, "appended_squared_length": 0.4}


def test_what_cannot_be_appended_leaves_the_table(table, new, tmp_path):
    before = table.read_bytes()
    write_part(tmp_path / "again.parquet", vectors_of(8, 2), ["x", "s1-3"])
    with pytest.raises(
        TableError, match=r"again.parquet: symbol 's1-3' appears twice, in rows 73 and 216; .* 0 to 214"
    ):
        append(table, tmp_path / "again.parquet")
    np.save(tmp_path / "wide.npy", np.ones((3, DIM + 1)))
    with pytest.raises(OptionError, match=f"have {DIM + 1} dimensions, those of .* {DIM}"):
        append(table, tmp_path / "wide.npy")
    np.save(tmp_path / "unnamed.npy", np.ones((3, DIM)))
    with pytest.raises(OptionError, match="have symbols and this file has none"):
        append(table, tmp_path / "unnamed.npy")
    np.save(tmp_path / "nan.npy", np.full((3, DIM), np.nan))
    with pytest.raises(FormatError, match="row 0: has a value that is not a finite"):
        append(load_codebook(table, tmp_path), tmp_path / "nan.npy")
    with locked(table), pytest.raises(CheckpointInUseError, match=f"process {os.getpid()} is using it; append again"):
        append(table, new)
    with pytest.raises(FileError, match="there is no such file"):
        append(tmp_path / "none.kdc", new)
    assert table.read_bytes() == before
    assert not [name for name in names(tmp_path) if name.startswith(".kdcode")]


def load_codebook(table, tmp_path):
    save(load(table).codebook(), tmp_path / "empty.kdc")
    return tmp_path / "empty.kdc"


def test_a_full_disk_leaves_the_table(table, new, small_disk):
    path = small_disk / "t.kdc"
    path.write_bytes(table.read_bytes())
    (small_disk / "filler").write_bytes(bytes((32 << 10) - (path.stat().st_size // 4096 + 2) * 4096))
    before = files(small_disk)
    with pytest.raises(FileError, match=r"t.kdc: cannot be written: No space left on device"):
        append(path, new)
    assert files(small_disk) == before


def test_settings_decide_how_codes_are_searched(table, new, tmp_path):
    append(table, new, tmp_path / "few.kdc", settings=EncodeSettings(beam=1, sweeps=0), threads=1)
    append(table, new, tmp_path / "many.kdc", settings=EncodeSettings(beam=16, sweeps=4), threads=2)
    few, many = (load(tmp_path / name).provenance["appended"]["appended_error"] for name in ("few.kdc", "many.kdc"))
    assert many < few


# Transform codes, whose rows are of different lengths


@pytest.fixture(params=TRANSFORM_NAMES)
def transform_codebook(request, tmp_path):
    kdcode.save(kdcode.CodedTable.of_codec(codec_of(request.param, dim=DIM)), tmp_path / "transform.kdc")
    return tmp_path / "transform.kdc"


def test_transform_codes_are_encoded_assembled_and_appended_to(transform_codebook, parts, tmp_path):
    codec = load(transform_codebook).codec
    encode_parts(parts, tmp_path / "codes", transform_codebook, settings=SETTINGS)
    path = tmp_path / "t.kdc"
    assemble(tmp_path / "codes", path, transform_codebook)
    coded = load(path, check="full")
    slices = np.split(all_vectors(), [40, 70, 110, 115, 155, 195])  # rows of a block are of one slice
    np.testing.assert_array_equal(coded.codes, np.concatenate([codec.encode(some) for some in slices]))
    assert verify(path, kdcode.VectorTable(list(coded), all_vectors())).is_as_recorded
    np.save(tmp_path / "more.npy", vectors_of(7, 50))
    save(kdcode.CodedTable(RowNumbers(len(coded)), coded.packed, codec), path)
    assert append(path, tmp_path / "more.npy").rows_added == 50
    longer = load(path, check="full")
    np.testing.assert_array_equal(longer.codes[:215], coded.codes)
    np.testing.assert_array_equal(longer.codes[215:], codec.encode(vectors_of(7, 50)))
    again = tmp_path / "again.kdc"
    save(longer, again)
    assert again.read_bytes() == path.read_bytes()


def test_a_codebook_of_transform_codes_becomes_a_table(transform_codebook, tmp_path):
    np.save(tmp_path / "a.npy", vectors_of(7, 300))
    append(transform_codebook, tmp_path / "a.npy")
    coded = load(transform_codebook, check="full")
    np.testing.assert_array_equal(coded.codes, coded.codec.encode(vectors_of(7, 300)))


def test_a_slice_whose_rows_are_not_those_of_the_codebook_is_refused(parts, tmp_path):
    save(kdcode.CodedTable.of_codec(codec_of("transform", dim=DIM)), tmp_path / "transform.kdc")
    folder = tmp_path / "codes"
    encode_parts(parts, folder, tmp_path / "transform.kdc", settings=SETTINGS)
    file = folder / "codes-0000002.parquet"
    table = pq.read_table(file)
    rows = [bytes([6]) + row[1:] for row in table["code"].to_pylist()]  # a class that there is not
    codes = pa.array(rows, table["code"].type)
    pq.write_table(table.set_column(1, table.schema.field("code"), codes), file)
    with pytest.raises(OptionError, match="codes: found a class of 6, classes must be below 6"):
        assemble(folder, tmp_path / "t.kdc", tmp_path / "transform.kdc")
    assert not (tmp_path / "t.kdc").exists()
