"""The file of a slice: what is read is what was written, or the file is refused."""

import numpy as np
import pytest

from kdcode.bulk.losses import RowLosses
from kdcode.bulk.slice_file import is_finished, read_losses, read_slice, slice_bytes
from kdcode.bulk.slices import Slice
from kdcode.errors import FormatError

PIECE = Slice(number=4, part=1, start=10, stop=210, first_row=1000)
PACKED = np.random.default_rng(0).integers(0, 256, size=(200, 3)).astype(np.uint8)
SYMBOLS = [f"s{row} \u00e7" for row in range(200)]


def losses():
    found = RowLosses.none(2)
    found.add(np.ones((200, 2), dtype=np.float32), np.full((200, 2), 0.5, dtype=np.float32))
    return found


def content(symbols=SYMBOLS, stamp="a" * 64):
    return slice_bytes(PIECE, stamp, PACKED, symbols, losses())


def rows_of(path):
    found = list(read_slice(path, PIECE, 3))
    names = None if found[0][0] is None else [name for some, _ in found for name in some]
    return names, np.concatenate([packed for _, packed in found])


@pytest.mark.parametrize("symbols", [SYMBOLS, None])
def test_what_is_written_is_read(symbols, tmp_path):
    path = tmp_path / "c.parquet"
    path.write_bytes(content(symbols))
    names, packed = rows_of(path)
    assert names == symbols
    np.testing.assert_array_equal(packed, PACKED)
    assert read_losses(path).as_json() == losses().as_json()
    assert content(symbols) == content(symbols)


def test_a_finished_slice_is_whole_and_of_its_manifest(tmp_path):
    path = tmp_path / "c.parquet"
    assert not is_finished(path, PIECE, "a" * 64)
    path.write_bytes(content())
    assert is_finished(path, PIECE, "a" * 64)
    assert not is_finished(path, PIECE, "b" * 64)
    assert not is_finished(path, Slice(5, 1, 10, 210, 1000), "a" * 64)
    assert not is_finished(path, Slice(4, 1, 10, 211, 1000), "a" * 64)
    path.write_bytes(content()[:-1])
    assert not is_finished(path, PIECE, "a" * 64)


def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path):
    path, good, refused = tmp_path / "c.parquet", content(), 0
    path.write_bytes(good)
    expected = rows_of(path)
    for place in range(0, len(good), 11):
        changed = bytearray(good)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            names, packed = rows_of(path)
        except FormatError:
            refused += 1
        else:
            assert names == expected[0]
            np.testing.assert_array_equal(packed, expected[1])
    assert refused > len(good) // 22  # the rest lies in statistics and the like, which nobody reads


@pytest.mark.parametrize(
    ("piece", "width"), [(Slice(4, 1, 10, 210, 1001), 3), (Slice(4, 1, 10, 211, 1000), 3), (PIECE, 4)]
)
def test_a_slice_of_other_rows_is_refused(piece, width, tmp_path):
    path = tmp_path / "c.parquet"
    path.write_bytes(content(None))
    with pytest.raises(FormatError, match="is damaged"):
        list(read_slice(path, piece, width))


def test_other_parquet_files_are_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(FormatError, match="its columns are"):
        list(read_slice(path, PIECE, 3))
    with pytest.raises(FormatError, match="is damaged"):
        read_losses(path)
