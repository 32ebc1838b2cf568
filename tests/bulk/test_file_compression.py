"""Tables compressed in parts: what is learned from a sample, and what an interruption leaves to go on from."""

import numpy as np
import pytest

import kdcode
from kdcode.bulk import file_compression
from kdcode.bulk.file_compression import compress_file
from kdcode.errors import CheckpointError, OptionError
from kdcode.evaluation import evaluate
from kdcode.learning import learn_codebook
from kdcode.learning.memory_plan import MemoryPlan

ROWS, DIM, SAMPLE = 3000, 16, 1000
OPTIONS = {"codebook_size": 16, "code_length": 4, "effort": "fast"}
PLAN = MemoryPlan(ROWS, SAMPLE, 1 << 30)


@pytest.fixture
def vectors():
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(30, DIM))
    return (centres[draw.integers(30, size=ROWS)] + 0.3 * draw.normal(size=(ROWS, DIM))).astype(np.float32)


@pytest.fixture
def table(tmp_path, vectors):
    np.save(tmp_path / "a.npy", vectors)
    (tmp_path / "a.symbols.txt").write_text("".join(f"w{row}\n" for row in range(ROWS)))
    return tmp_path / "a.npy"


def test_the_file_has_all_rows_and_the_error_that_it_says(tmp_path, table, vectors):
    report = compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)
    coded = kdcode.load(tmp_path / "a.kdc", check="full")
    assert (report.rows, report.sample) == (ROWS, SAMPLE)
    assert report.file_bytes == (tmp_path / "a.kdc").stat().st_size
    assert list(coded.symbols) == [f"w{row}" for row in range(ROWS)]
    lost = evaluate(kdcode.VectorTable(list(coded.symbols), vectors), coded)
    assert coded.provenance["relative_error"] == pytest.approx(lost.relative_error, rel=1e-4)
    assert lost.relative_error < 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kdc", "a.npy", "a.symbols.txt"]


def test_parts_give_the_same_file_as_one_file_with_all_rows(tmp_path, vectors):
    np.save(tmp_path / "whole.npy", vectors)
    (tmp_path / "parts").mkdir()
    for number, start in enumerate(range(0, ROWS, 700)):
        np.save(tmp_path / "parts" / f"{number}.npy", vectors[start : start + 700])
    compress_file(tmp_path / "whole.npy", tmp_path / "whole.kdc", memory=PLAN, **OPTIONS)
    compress_file(f"{tmp_path}/parts/*.npy", tmp_path / "parts.kdc", memory=PLAN, **OPTIONS)
    whole, parts = kdcode.load(tmp_path / "whole.kdc"), kdcode.load(tmp_path / "parts.kdc")
    np.testing.assert_array_equal(whole.packed, parts.packed)
    np.testing.assert_array_equal(whole.codec.tensors()["codebook"], parts.codec.tensors()["codebook"])


def test_a_size_is_kept_for_all_rows_and_not_for_those_of_the_sample(tmp_path, table):
    compress_file(table, tmp_path / "a.kdc", "12x", memory=PLAN, effort="fast", codewords=True)
    coded = kdcode.load(tmp_path / "a.kdc")
    assert coded.sizes.ratio(ROWS, DIM) >= 12
    as_for_sample = learn_codebook(np.load(table)[:SAMPLE], "12x", effort="fast", codewords=True)
    assert (
        coded.sizes.codebook + coded.sizes.composition > as_for_sample.sizes.codebook + as_for_sample.sizes.composition
    )


def test_transform_codes_of_rows_outside_the_sample_keep_to_the_size(tmp_path, table):
    compress_file(table, tmp_path / "a.kdc", "6x", memory=PLAN, effort="fast")
    coded = kdcode.load(tmp_path / "a.kdc")
    assert coded.spec.composition == "transform"
    assert 6 <= coded.sizes.ratio(ROWS, DIM) <= 6.3


@pytest.mark.parametrize("fails", ["encode_parts", "assemble"])
def test_a_run_that_failed_goes_on_without_learning_again(tmp_path, table, monkeypatch, fails):
    whole = tmp_path / "whole.kdc"
    compress_file(table, whole, memory=PLAN, **OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(file_compression, fails, _failing)
        with pytest.raises(KeyboardInterrupt):
            compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)
    assert not (tmp_path / "a.kdc").exists()
    assert (tmp_path / "a.kdc.parts" / "codebook.kdc").exists()
    monkeypatch.setattr(file_compression, "sampled_codebook", _failing)
    report = compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)
    assert report.learning_seconds == 0
    assert (tmp_path / "a.kdc").read_bytes() == whole.read_bytes()
    assert not (tmp_path / "a.kdc.parts").exists()


def _failing(*_arguments, **_keywords):
    raise KeyboardInterrupt


def test_what_was_done_for_another_table_or_with_other_options_is_refused(tmp_path, table, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(file_compression, "encode_parts", _failing)
        with pytest.raises(KeyboardInterrupt):
            compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)
    for changed in ({**OPTIONS, "seed": 1}, {**OPTIONS, "code_length": 5}):
        with pytest.raises(
            CheckpointError, match=r"a\.kdc\.parts: holds what was done for another table, or with other"
        ):
            compress_file(table, tmp_path / "a.kdc", memory=PLAN, **changed)
    np.save(table, np.load(table)[::-1])
    with pytest.raises(CheckpointError, match="remove the folder to start afresh"):
        compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)
    (tmp_path / "a.kdc.parts" / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        compress_file(table, tmp_path / "a.kdc", memory=PLAN, **OPTIONS)


def test_memory_decides_how_many_rows_are_learned_from(tmp_path, table, monkeypatch):
    seen = []
    monkeypatch.setattr(file_compression, "sampled_codebook", lambda *given, **_: seen.append(given[1]) or _failing())
    with pytest.raises(KeyboardInterrupt):
        compress_file(table, tmp_path / "a.kdc", memory="4GB", **OPTIONS)
    assert seen == [ROWS]
    with pytest.raises(OptionError, match="memory"):
        compress_file(table, tmp_path / "a.kdc", memory="1MB", **OPTIONS)
