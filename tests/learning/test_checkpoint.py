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

    kdcode.compress(table(), options=QUICK, checkpoint=Checkpoint(path, every_seconds=0), progress=look)
    assert steps == [1, 2, 3, 4, 5]


def test_a_run_claims_its_file_when_it_begins(tmp_path):
    path, seen = tmp_path / "c", []
    kdcode.compress(
        table(),
        options=QUICK,
        checkpoint=Checkpoint(path),
        progress=lambda _: seen.append(torch.load(path, weights_only=True)),
    )
    assert seen[0]["state"] is None
    assert seen[0]["identity"]


@pytest.mark.parametrize("content", [b"", b"something else", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        kdcode.compress(table(50), options=QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("saved", [{"version": 1}, [1, 2], {"identity": "x"}])
def test_other_files_of_torch_are_refused(saved, tmp_path):
    path = tmp_path / "c"
    torch.save(saved, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of this kdcode"):
        kdcode.compress(table(50), options=QUICK, checkpoint=Checkpoint(path))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c"
    kdcode.compress(table(), options=QUICK, checkpoint=Checkpoint(path, every_seconds=0))
    content = path.read_bytes()
    for other in (QUICK.changed(seed=9), QUICK.changed(epochs=13), QUICK.changed(learner="random")):
        with pytest.raises(CheckpointError, match="another table or other options"):
            kdcode.compress(table(), options=other, checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError, match="another table"):
        kdcode.compress(table(101), options=QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("other", [ADDITIVE.changed(seed=1), QUICK, ADDITIVE.changed(code_length=10)])
def test_a_second_run_leaves_the_checkpoint_of_the_first_alone(other, tmp_path):
    path = tmp_path / "c"
    whole = kdcode.compress(table(), options=ADDITIVE)
    begun = []
    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table(), options=ADDITIVE, progress=stop_at(4), checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError):
        kdcode.compress(table(), options=other, progress=begun.append, checkpoint=Checkpoint(path, every_seconds=0))
    assert not begun
    checkpoint = Checkpoint(path)
    resumed = kdcode.compress(table(), options=ADDITIVE, checkpoint=checkpoint)
    assert checkpoint.resumed_step == 4
    np.testing.assert_array_equal(resumed.codes, whole.codes)


def test_a_second_run_is_refused_while_the_first_has_saved_nothing_yet(tmp_path):
    path, tried = tmp_path / "c", []

    def begin_another(report):
        with pytest.raises(CheckpointError):
            kdcode.compress(table(), options=QUICK.changed(seed=1), checkpoint=Checkpoint(path))
        tried.append(report.step)

    whole = kdcode.compress(table(), options=QUICK)
    first = kdcode.compress(table(), options=QUICK, checkpoint=Checkpoint(path), progress=begin_another)
    assert tried == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(first.codes, whole.codes)


def test_a_run_that_had_only_begun_starts_again(tmp_path):
    path = tmp_path / "c"
    checkpoint = Checkpoint(path)
    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(
            table(), options=CompressOptions(8, 4, learner="random"), progress=stop_at(1), checkpoint=checkpoint
        )
    assert path.exists()
    again = Checkpoint(path)
    kdcode.compress(table(), options=CompressOptions(8, 4, learner="random"), checkpoint=again)
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


def test_probes_of_an_unfinished_plan_are_kept(tmp_path):
    path = tmp_path / "c"
    assert Checkpoint(path).load_probes("goal") == {}
    checkpoint = Checkpoint(path)
    checkpoint.save_probes("goal", {"K=16": [0.25, 1.5]})
    checkpoint.save_probes("goal", {"K=16": [0.25, 1.5], "K=64": [0.125]})
    again = Checkpoint(path)
    assert again.load_plan("goal") is None
    assert again.load_probes("goal") == {"K=16": [0.25, 1.5], "K=64": [0.125]}
    assert again.load("run") is None  # nothing was learned yet


def test_probes_of_another_plan_are_refused(tmp_path):
    path = tmp_path / "c"
    Checkpoint(path).save_probes("goal", {"K=16": [0.25]})
    content = path.read_bytes()
    for load in (Checkpoint(path).load_plan, Checkpoint(path).load_probes):
        with pytest.raises(CheckpointError, match="another size"):
            load("another")
    assert path.read_bytes() == content


def test_a_run_without_a_plan_has_no_probes_to_go_on_from(tmp_path):
    path = tmp_path / "c"
    Checkpoint(path).save("run", None)
    with pytest.raises(CheckpointError):
        Checkpoint(path).load_probes("goal")


def test_a_finished_plan_replaces_its_probes(tmp_path):
    path = tmp_path / "c"
    checkpoint = Checkpoint(path)
    checkpoint.save_probes("goal", {"K=16": [0.25]})
    checkpoint.save_plan("goal", {"code_length": 3})
    checkpoint.save("run", {"step": 2})
    again = Checkpoint(path)
    assert again.load_plan("goal") == {"code_length": 3}
    assert again.load_probes("goal") == {}
    assert again.load("run") == {"step": 2}
