"""Parts to codes in this process: which slices are made, that they can be made in parts, and what is refused."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import kdcode
from kdcode import encode_parts, load
from kdcode.bulk import EncodeSettings, encoding
from kdcode.bulk.engines import LocalEngine
from kdcode.bulk.losses import RowLosses
from kdcode.bulk.manifest import Manifest, codec_digest
from kdcode.bulk.slices import Slice, cut
from kdcode.errors import CheckpointError, CheckpointInUseError, FileError, FormatError, OptionError
from kdcode.file_locks import locked

from .conftest import DIM, ROWS, SETTINGS, SLICES, all_vectors, files, vectors_of, write_part


def encode(parts, folder, codebook, **changes):
    return encode_parts(parts, folder, codebook, **{"settings": SETTINGS, **changes})


def test_slices_have_rows_of_one_part_each():
    assert cut([5, 2], 3) == [Slice(0, 0, 0, 3, 0), Slice(1, 0, 3, 5, 3), Slice(2, 1, 0, 2, 5)]
    assert [piece.file_name for piece in cut([3, 3], 3)] == ["codes-0000000.parquet", "codes-0000001.parquet"]
    assert cut([], 3) == []


def test_codes_are_those_of_the_codec_in_the_order_of_the_parts(parts, codebook, tmp_path):
    report = encode(parts, tmp_path / "out", codebook)
    assert (report.rows, report.slices, report.encoded) == (sum(ROWS), SLICES, list(range(SLICES)))
    tables = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [len(table) for table in tables] == [40, 30, 40, 5, 40, 40, 20]
    ids = [name for table in tables for name in table["id"].to_pylist()]
    assert ids == [f"s{part}-{row}" for part, rows in enumerate(ROWS) for row in range(rows)]
    codec = load(codebook).codec
    packed = np.frombuffer(b"".join(code for table in tables for code in table["code"].to_pylist()), dtype=np.uint8)
    expected = codec.encode(all_vectors(), beam=SETTINGS.beam, sweeps=SETTINGS.sweeps)  # numpy's search
    found = codec.unpack(packed.reshape(sum(ROWS), -1))
    assert (found == expected).mean() > 0.95  # they may choose another of two that are nearly as near
    lost = [np.square(all_vectors() - codec.decode(codes)).sum() for codes in (found, expected)]
    assert lost[0] == pytest.approx(lost[1], rel=0.02)


def test_rows_without_symbols_are_numbered_over_all_parts(unnamed_parts, codebook, tmp_path):
    encode(unnamed_parts, tmp_path / "out", codebook)
    tables = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert str(tables[0].schema.field("id").type) == "int64"
    assert [number for table in tables for number in table["id"].to_pylist()] == list(range(sum(ROWS)))


def test_files_do_not_depend_on_threads(parts, codebook, tmp_path):
    encode(parts, tmp_path / "one", codebook, engine=LocalEngine(1))
    encode(parts, tmp_path / "three", codebook, engine=LocalEngine(3))
    assert files(tmp_path / "one") == files(tmp_path / "three")


def test_matrices_can_be_parts_too(codebook, tmp_path):
    for number in range(2):
        np.save(tmp_path / f"p{number}.npy", vectors_of(number, 50))
    report = encode([tmp_path / "p0.npy", tmp_path / "p1.npy"], tmp_path / "out", codebook)
    assert report.rows == 100


def test_progress_begins_with_what_is_there_and_counts_every_row(parts, codebook, tmp_path):
    seen = []
    encode(parts, tmp_path / "out", codebook, progress=seen.append)
    assert (seen[0].rows_done, seen[0].rows, seen[0].slices_done, seen[0].slices) == (0, sum(ROWS), 0, SLICES)
    assert seen[0].code_bytes == sum(ROWS) * load(codebook).spec.row_bytes
    assert (seen[-1].rows_done, seen[-1].slices_done) == (sum(ROWS), SLICES)
    assert [now.rows_done for now in seen] == sorted(now.rows_done for now in seen)


class Counted(LocalEngine):
    """Counts slices, and fails at one."""

    def __init__(self, fails_at=None, error=KeyboardInterrupt):
        super().__init__(1)
        self.begun, self._fails_at, self._error = [], fails_at, error

    def run(self, job, slices, on_rows):
        for piece, content in super().run(job, slices, on_rows):
            self.begun.append(piece.number)
            if piece.number == self._fails_at:
                raise self._error
            yield piece, content


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_run_goes_on_with_the_slices_that_are_left(parts, codebook, tmp_path, error):
    encode(parts, tmp_path / "whole", codebook)
    with pytest.raises(error):
        encode(parts, tmp_path / "out", codebook, engine=Counted(3, error))
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    again, seen = Counted(), []
    report = encode(parts, tmp_path / "out", codebook, engine=again, progress=seen.append)
    assert again.begun == report.encoded == [3, 4, 5, 6]
    assert (seen[0].slices_done, seen[0].rows_done) == (3, 110)
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert encode(parts, tmp_path / "out", codebook).encoded == []


def test_a_slice_that_is_damaged_cut_short_or_of_another_place_is_made_again(parts, codebook, tmp_path):
    out = tmp_path / "out"
    encode(parts, out, codebook)
    whole = files(out)
    (out / "codes-0000000.parquet").write_bytes(whole["codes-0000000.parquet"][:-9])
    (out / "codes-0000002.parquet").write_bytes(b"")
    (out / "codes-0000004.parquet").write_bytes(whole["codes-0000005.parquet"])
    (out / "codes-0000006.parquet").unlink()
    assert encode(parts, out, codebook).encoded == [0, 2, 4, 6]
    assert files(out) == whole


def test_the_manifest_says_what_is_in_the_folder(parts, codebook, tmp_path):
    encode(parts, tmp_path / "out", codebook)
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert told["codebook"] == codec_digest(load(codebook).codec)
    assert told["settings"] == {"beam": 2, "sweeps": 1, "rows_per_slice": 40}
    assert [part["name"] for part in told["parts"]] == [
        str(tmp_path / "parts" / f"p{part}.parquet") for part in range(3)
    ]
    assert told["slices"][3] == {
        "file": "codes-0000003.parquet",
        "part": 1,
        "part_name": told["parts"][1]["name"],
        "start": 40,
        "stop": 45,
        "first_row": 110,
    }
    assert (
        Manifest.read(tmp_path / "out").stamp.encode()
        == pq.read_schema(tmp_path / "out" / "codes-0000000.parquet").metadata[b"kdcode.manifest"]
    )


def change_a_part(tmp_path, _):
    write_part(tmp_path / "parts" / "p1.parquet", vectors_of(9, 45), [f"t{row}" for row in range(45)])
    return {}


def add_a_part(tmp_path, _):
    write_part(tmp_path / "parts" / "p9.parquet", vectors_of(9, 5), [f"t{row}" for row in range(5)])
    return {}


def remove_a_part(tmp_path, _):
    (tmp_path / "parts" / "p1.parquet").unlink()
    return {}


def another_codebook(tmp_path, codebook):
    table = load(codebook)
    return {"codebook": kdcode.CodedTable.of_codec(table.codec.scaled(2.0))}


CHANGES = {
    "part": (change_a_part, r"the part .*p1.parquet has changed"),
    "more parts": (add_a_part, r"the part .*p9.parquet is new"),
    "fewer parts": (remove_a_part, r"the part .*p1.parquet is missing"),
    "codebook": (another_codebook, "the codebook is another"),
    "beam": (lambda *_: {"settings": EncodeSettings(beam=3, sweeps=1, rows_per_slice=40)}, "beam= is 3, and was 2"),
    "slices": (
        lambda *_: {"settings": EncodeSettings(beam=2, sweeps=1, rows_per_slice=50)},
        "rows_per_slice= is 50, and was 40",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_run_is_refused_until_it_is_forced(name, parts, codebook, tmp_path):
    out = tmp_path / "out"
    encode(parts, out, codebook)
    before = files(out)
    change, message = CHANGES[name]
    given = {"codebook": codebook, **change(tmp_path, codebook)}
    with pytest.raises(CheckpointError, match=rf"{out}: has the codes of another run: {message}.*give force= to start"):
        encode(parts, out, **given)
    assert files(out) == before
    report = encode(parts, out, **given, force=True)
    assert len(report.encoded) == report.slices
    assert len(list(out.glob("codes-*"))) == report.slices
    assert encode(parts, out, **given).encoded == []


HOSTILE_ROWS = (10**13, 10**400, float("inf"), float("nan"), -7, "9", None, True)


def test_a_manifest_nested_without_end_is_refused(parts, codebook, tmp_path):
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="not a manifest of this version"):
        encode(parts, tmp_path, codebook)


def test_a_folder_with_other_files_or_a_damaged_manifest_is_refused_until_it_is_forced(parts, codebook, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"has files in it, and no manifest.json"):
        encode(parts, out, codebook)
    whole = {"format": "kdcode-encode 1", "codebook": "", "settings": {}, "has_symbols": False, "slices": []}
    claims = [json.dumps({**whole, "parts": [{"name": "", "fingerprint": "", "rows": rows}]}) for rows in HOSTILE_ROWS]
    for text in ("", "{}", "[]", '{"format": "kdcode-encode 1"}', '{"format": "kdcode-encode 2"}', "\xff", *claims):
        (out / "manifest.json").write_text(text, encoding="latin-1")
        with pytest.raises(CheckpointError, match="not a manifest of this version of `kdcode encode`"):
            encode(parts, out, codebook)
    assert len(encode(parts, out, codebook, force=True).encoded) == SLICES
    assert (out / "notes.txt").read_text() == "mine"


def test_two_runs_cannot_write_to_one_folder(parts, codebook, tmp_path):
    (tmp_path / "out").mkdir()
    with (
        locked(tmp_path / "out" / "manifest.json"),
        pytest.raises(CheckpointInUseError, match=f"process {os.getpid()}"),
    ):
        encode(parts, tmp_path / "out", codebook)
    assert len(encode(parts, tmp_path / "out", codebook).encoded) == SLICES


def test_what_cannot_work_is_refused_before_anything_is_written(parts, codebook, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(OptionError, match="engine must be one of local, ray, got 'dask'"):
        encode(parts, out, codebook, engine="dask")
    with pytest.raises(FileError, match="there is no such file"):
        encode(str(tmp_path / "none*.parquet"), out, codebook)
    with pytest.raises(OptionError, match="beam must be an integer of at least 1"):
        EncodeSettings(beam=0)
    np.save(tmp_path / "wide.npy", np.ones((3, DIM + 1)))
    with pytest.raises(OptionError, match=f"have {DIM + 1} dimensions, those of the codebook {DIM}"):
        encode(str(tmp_path / "wide.npy"), out, codebook)
    assert not out.exists()
    out.write_text("a file")
    with pytest.raises(FileError, match="it is no folder"):
        encode(parts, out, codebook)


def test_a_part_that_changes_on_the_way_is_refused(parts, codebook, tmp_path, monkeypatch):
    pack = type(load(codebook).codec).pack

    def touching(self, codes):
        os.utime(tmp_path / "parts" / "p1.parquet", (1, 1))
        return pack(self, codes)

    monkeypatch.setattr(type(load(codebook).codec), "pack", touching)
    with pytest.raises(FormatError, match=r"p1.parquet: has changed since it began to be encoded"):
        encode(parts, tmp_path / "out", codebook)
    assert len(list((tmp_path / "out").glob("codes-*"))) == 2  # those of the part before


def test_wide_rows_are_read_few_at_a_time(parts, codebook, tmp_path, monkeypatch):
    """The chunks decide nothing that is seen: only memory."""
    encode(parts, tmp_path / "out", codebook)
    monkeypatch.setattr(encoding, "_FEWEST_ROWS", 7)
    monkeypatch.setattr(encoding, "_CHUNK_FLOATS", 1)
    encode(parts, tmp_path / "few", codebook)
    for path in (tmp_path / "out").glob("codes-*"):
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "few" / path.name))


def test_losses_are_those_that_evaluate_finds():
    draw = np.random.default_rng(0)
    true, near = draw.normal(2, 1, size=(50, 4)).astype(np.float32), draw.normal(2, 1, size=(50, 4)).astype(np.float32)
    whole, first, second = (RowLosses.none(4) for _ in range(3))
    whole.add(true, near)
    first.add(true[:20], near[:20])
    second.add(true[20:], near[20:])
    first.add_sums(RowLosses.of_json(json.loads(json.dumps(second.as_json()))))
    expected = kdcode.evaluate(true, near).relative_error
    assert whole.relative_error == pytest.approx(expected, rel=1e-9)
    assert first.relative_error == pytest.approx(expected, rel=1e-9)
    assert whole.measured() == {"relative_error": round(expected, 6)}


def test_losses_of_equal_or_zero_rows_are_numbers():
    same = RowLosses.none(3)
    same.add(np.full((9, 3), 0.1, dtype=np.float32), np.full((9, 3), 0.2, dtype=np.float32))
    assert same.relative_error == pytest.approx(1.0, rel=1e-6)  # relative to their length
    zero = RowLosses.none(3)
    zero.add(np.zeros((2, 3), dtype=np.float32), np.ones((2, 3), dtype=np.float32))
    assert zero.measured() == {}


def test_the_package_loads_without_torch_and_ray():
    script = "import sys, kdcode; kdcode.encode_parts; print({'torch', 'ray', 'pyarrow'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"
    )
