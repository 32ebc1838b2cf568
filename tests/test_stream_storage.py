"""Tables written in chunks: the same bytes as `save`, flat memory, and nothing left where it fails."""

import os
import signal
import subprocess
import sys
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from kdc_bytes import Parts
from sample_tables import KINDS, codec_of, coded_table, codes_of, words
from small_disk import mounted_disk

from kdcode import load, save
from kdcode.errors import DamagedFileError, FileError, OptionError, StorageError, TableError
from kdcode.stream_storage import writing_table


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_in_chunks(coded, path, chunk):
    with writing_table(path, coded.codec) as writer:
        symbols = None if coded.symbols.nbytes == 0 else list(coded.symbols)
        for start in range(0, len(coded), chunk):
            some = None if symbols is None else symbols[start : start + chunk]
            writer.add(coded.packed[start : start + chunk], some)
        assert writer.rows == len(coded)
        return writer.finish(coded.provenance)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_every_kind_of_table_is_written_as_save_writes_it(kind, dtype, named, tmp_path):
    for rows, chunk in ((1, 1), (5, 2), (300, 128), (300, 7)):
        coded = coded_table(kind, dtype, rows=rows, symbols=words(rows) if named else None, provenance={"a": [1]})
        size = save(coded, tmp_path / "saved.kdc")
        assert write_in_chunks(coded, tmp_path / "streamed.kdc", chunk) == size
        assert (tmp_path / "streamed.kdc").read_bytes() == (tmp_path / "saved.kdc").read_bytes()
        with writing_table(tmp_path / "copied.kdc", coded.codec) as writer:
            writer.add_table(load(tmp_path / "saved.kdc"))
            writer.finish(coded.provenance)
        assert (tmp_path / "copied.kdc").read_bytes() == (tmp_path / "saved.kdc").read_bytes()
    assert names(tmp_path) == ["copied.kdc", "saved.kdc", "streamed.kdc"]


def test_a_large_table_has_the_same_digests(tmp_path):
    coded = coded_table("product", "int8", rows=70_000, symbols=words(70_000))
    save(coded, tmp_path / "saved.kdc")
    write_in_chunks(coded, tmp_path / "streamed.kdc", 8192)
    assert (tmp_path / "streamed.kdc").read_bytes() == (tmp_path / "saved.kdc").read_bytes()
    assert (tmp_path / "saved.kdc").stat().st_size > 4 * 65_536


def test_no_rows_are_a_codebook(tmp_path):
    coded = coded_table()
    save(coded.codebook(), tmp_path / "saved.kdc")
    with writing_table(tmp_path / "streamed.kdc", coded.codec) as writer:
        writer.add_table(coded.codebook())
        writer.finish({})
    assert (tmp_path / "streamed.kdc").read_bytes() == (tmp_path / "saved.kdc").read_bytes()


@pytest.mark.parametrize("named", [True, False])
def test_tables_and_rows_follow_each_other(named, tmp_path):
    whole = coded_table(rows=40, symbols=words(40) if named else None)
    save(whole, tmp_path / "whole.kdc")
    first = whole.select(slice(0, 25))
    save(first, tmp_path / "first.kdc")
    with writing_table(tmp_path / "t.kdc", whole.codec) as writer:
        writer.add_table(load(tmp_path / "first.kdc"))
        writer.add(whole.packed[25:], words(40)[25:] if named else None)
        writer.finish({})
    assert (tmp_path / "t.kdc").read_bytes() == (tmp_path / "whole.kdc").read_bytes()


@pytest.mark.parametrize("kind", ["product", "transform"])
def test_memory_does_not_grow_with_the_number_of_rows(kind, tmp_path):
    codec = codec_of(kind, "int8", length=8, dim=8)
    packed = codec.pack(codes_of(codec, 1000))

    def peak(chunks):
        tracemalloc.start()
        with writing_table(tmp_path / "t.kdc", codec) as writer:
            for _ in range(chunks):
                writer.add(packed, None)
            writer.finish({})
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    few, many = (peak(chunks) for chunks in ((2000, 8000) if kind == "product" else (600, 2400)))
    assert many < few + 200_000  # of a table of 2 MB, in pieces of one, and of four times as much
    assert len(load(tmp_path / "t.kdc")) in (2_400_000, 8_000_000)


def test_rows_of_different_lengths_end_where_their_class_says(tmp_path):
    coded = coded_table("transform", rows=20)
    with writing_table(tmp_path / "t.kdc", coded.codec) as writer:
        rows = coded.packed[:]
        rows[3, 0] = 6
        with pytest.raises(OptionError, match="codes: found a class of 6, classes must be below 6"):
            writer.add(rows, None)
        rows = coded.packed[:]
        short = int(np.flatnonzero(rows[:, 0] == 0)[0])
        rows[short, -1] = 1
        with pytest.raises(OptionError, match="codes: expected zeros after the end of a row"):
            writer.add(rows, None)


def test_what_does_not_fit_is_refused(tmp_path):
    coded = coded_table(rows=3)
    with writing_table(tmp_path / "t.kdc", coded.codec) as writer:
        with pytest.raises(OptionError, match="expected uint8 of shape"):
            writer.add(np.zeros((2, 9), dtype=np.uint8), None)
        with pytest.raises(OptionError, match="1 symbols for 3 codes"):
            writer.add(coded.packed, ["a"])
        writer.add(coded.packed, ["a", "b", "c"])
        with pytest.raises(OptionError, match="the rows before have symbols and these have none"):
            writer.add(coded.packed, None)
        with pytest.raises(OptionError, match="the rows before have symbols and these have none"):
            writer.add_table(coded)
        with pytest.raises(OptionError, match="provenance: cannot be written as JSON"):
            writer.finish({"a": object()})
    with writing_table(tmp_path / "t.kdc", coded.codec) as writer:
        writer.add(coded.packed, None)
        with pytest.raises(OptionError, match="the rows before have no symbols and these have some"):
            writer.add(coded.packed, ["a", "b", "c"])
        with pytest.raises(OptionError, match="shorten the table's provenance"):
            writer.finish({"a": "x" * 5000})
    assert not list(tmp_path.iterdir())


def test_a_repeated_symbol_leaves_the_old_file(tmp_path):
    path, coded = tmp_path / "t.kdc", coded_table(rows=3)
    path.write_bytes(b"old")
    with writing_table(path, coded.codec) as writer:
        writer.add(coded.packed, ["a", "b", "a"])
        with pytest.raises(TableError, match="'a' appears twice, in rows 0 and 2"):
            writer.finish({})
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["t.kdc"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, None])
def test_what_is_not_finished_leaves_nothing(error, tmp_path):
    path, coded = tmp_path / "t.kdc", coded_table(rows=3)
    with suppress(KeyboardInterrupt, ValueError), writing_table(path, coded.codec) as writer:
        writer.add(coded.packed, None)
        assert len(names(tmp_path)) == 1
        if error is not None:
            raise error
    assert not names(tmp_path)


def test_a_damaged_table_is_not_copied(tmp_path):
    coded = coded_table("product", "int8", rows=70_000)
    save(coded, tmp_path / "t.kdc")
    content = bytearray((tmp_path / "t.kdc").read_bytes())
    content[-20_000] ^= 1
    (tmp_path / "t.kdc").write_bytes(content)
    with writing_table(tmp_path / "u.kdc", coded.codec) as writer, pytest.raises(DamagedFileError):
        writer.add_table(load(tmp_path / "t.kdc"))
    assert names(tmp_path) == ["t.kdc"]


def test_ranks_that_point_nowhere_are_not_copied(tmp_path):
    coded = coded_table(rows=5, symbols=words(5))
    save(coded, tmp_path / "t.kdc")
    parts = Parts.of(tmp_path / "t.kdc")
    parts.tensors["symbols.order"][2] = b"\xff" * 3
    parts.write(tmp_path / "t.kdc")
    with writing_table(tmp_path / "u.kdc", coded.codec) as writer:
        writer.add_table(load(tmp_path / "t.kdc"))
        with pytest.raises(StorageError, match="a rank points to row 7 of 5"):
            writer.finish({})


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    codec = coded_table().codec
    with pytest.raises(FileError, match="there is no folder"), writing_table(tmp_path / "no" / "t.kdc", codec):
        pytest.fail("nothing is to be done")
    with pytest.raises(FileError, match="is a folder"), writing_table(tmp_path, codec):
        pytest.fail("nothing is to be done")


def write_many(coded, path, times):
    with writing_table(path, coded.codec) as writer:
        for _ in range(times):
            writer.add(coded.packed, None)
        writer.finish({})


@pytest.fixture
def small_disk(tmp_path):
    with mounted_disk(tmp_path, 128) as disk:
        yield disk


@pytest.mark.parametrize("rows", [100_000, 45_000])  # more than the disk takes, and more than it takes twice
def test_a_full_disk_leaves_the_old_file_and_names_the_target(small_disk, rows):
    path, coded = small_disk / "t.kdc", coded_table("product", "int8", rows=1000, length=4, size=16)
    save(coded, path)
    before = path.read_bytes()
    with pytest.raises(FileError, match=rf"{path}: cannot be written: No space left on device"):
        write_many(coded, path, rows // 1000)
    assert path.read_bytes() == before
    assert names(small_disk) == ["t.kdc"]


KILLED = """
import os, signal, sys
from sample_tables import coded_table
from kdcode.stream_storage import writing_table

coded = coded_table(rows=3)
with writing_table(sys.argv[1], coded.codec) as writer:
    writer.add(coded.packed, ["a", "b", "c"])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "t.kdc"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path], check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert done.returncode == -signal.SIGKILL
    left = names(tmp_path)
    assert len(left) == 1
    assert left[0].startswith(".kdcode-")
    write_in_chunks(coded_table(rows=3), path, 2)
    assert names(tmp_path) == ["t.kdc"]
