"""The file that a stopped run resumes from: written as often as asked, and never taken over by another run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError
from kdcode.learning import Checkpoint
from kdcode.options import CompressOptions, GradientOptions

QUICK = CompressOptions(8, 4, learner=GradientOptions(epochs=3, batch_size=100, refine_rounds=2))
ADDITIVE = CompressOptions.of(codebook_size=8, code_length=9, effort="fast")


def table(rows=100):
    return glove_50d().head(rows)


def stop_at(step):
    def stop(report):
        if report.step == step:
            raise KeyboardInterrupt

    return stop


def test_checkpoints_are_written_as_often_as_asked(tmp_path):
    path = tmp_path / "c"
    steps = []

    def look(report):
        steps.append(torch.load(path, weights_only=True)["state"]["step"])

    kdcode.compress(table(), QUICK, checkpoint=Checkpoint(path, every_seconds=0), on_step=look)
    assert steps == [1, 2, 3, 4, 5]


def test_a_run_claims_its_file_when_it_begins(tmp_path):
    path, seen = tmp_path / "c", []
    kdcode.compress(
        table(), QUICK, checkpoint=Checkpoint(path), on_step=lambda _: seen.append(torch.load(path, weights_only=True))
    )
    assert seen[0]["state"] is None
    assert seen[0]["identity"]


@pytest.mark.parametrize("content", [b"", b"something else", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        kdcode.compress(table(50), QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("saved", [{"version": 1}, [1, 2], {"identity": "x"}])
def test_other_files_of_torch_are_refused(saved, tmp_path):
    path = tmp_path / "c"
    torch.save(saved, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of this kdcode"):
        kdcode.compress(table(50), QUICK, checkpoint=Checkpoint(path))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c"
    kdcode.compress(table(), QUICK, checkpoint=Checkpoint(path, every_seconds=0))
    content = path.read_bytes()
    for other in (QUICK.changed(seed=9), QUICK.changed(epochs=13), QUICK.changed(learner="random")):
        with pytest.raises(CheckpointError, match="another table or other options"):
            kdcode.compress(table(), other, checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError, match="another table"):
        kdcode.compress(table(101), QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("other", [ADDITIVE.changed(seed=1), QUICK, ADDITIVE.changed(code_length=10)])
def test_a_second_run_leaves_the_checkpoint_of_the_first_alone(other, tmp_path):
    path = tmp_path / "c"
    whole = kdcode.compress(table(), ADDITIVE)
    begun = []
    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table(), ADDITIVE, on_step=stop_at(4), checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError):
        kdcode.compress(table(), other, on_step=begun.append, checkpoint=Checkpoint(path, every_seconds=0))
    assert not begun
    checkpoint = Checkpoint(path)
    resumed = kdcode.compress(table(), ADDITIVE, checkpoint=checkpoint)
    assert checkpoint.resumed_step == 4
    np.testing.assert_array_equal(resumed.codes, whole.codes)


def test_a_second_run_is_refused_while_the_first_has_saved_nothing_yet(tmp_path):
    path, tried = tmp_path / "c", []

    def begin_another(report):
        with pytest.raises(CheckpointError):
            kdcode.compress(table(), QUICK.changed(seed=1), checkpoint=Checkpoint(path))
        tried.append(report.step)

    whole = kdcode.compress(table(), QUICK)
    first = kdcode.compress(table(), QUICK, checkpoint=Checkpoint(path), on_step=begin_another)
    assert tried == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(first.codes, whole.codes)


def test_a_run_that_had_only_begun_starts_again(tmp_path):
    path = tmp_path / "c"
    checkpoint = Checkpoint(path)
    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table(), CompressOptions(8, 4, learner="random"), on_step=stop_at(1), checkpoint=checkpoint)
    assert path.exists()
    again = Checkpoint(path)
    kdcode.compress(table(), CompressOptions(8, 4, learner="random"), checkpoint=again)
    assert again.resumed_step == 0


def test_a_plan_stays_in_the_file_while_a_run_saves_itself(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.save_plan("goal", {"code_length": 3})
    assert Checkpoint(tmp_path / "c").load("run") is None
    checkpoint.save("run", None)
    checkpoint.save("run", {"step": 7})
    again = Checkpoint(tmp_path / "c")
    assert again.load_plan("goal") == {"code_length": 3}
    assert again.load("run") == {"step": 7}
    assert again.resumed_step == 7
    for load in (again.load, again.load_plan):
        with pytest.raises(CheckpointError):
            load("another")


def test_a_missing_file_is_nothing(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.load("run") is None
    assert checkpoint.load_plan("goal") is None
    checkpoint.remove()
