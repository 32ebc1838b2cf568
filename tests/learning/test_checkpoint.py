"""The file that a stopped run resumes from: written as often as asked, and never taken over by another run."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import threading
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_disk import mounted_disk

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError, CheckpointInUseError, FileError
from kdcode.learning import Checkpoint, CheckpointWarning
from kdcode.learning.checkpoint_file import read_checkpoint, read_digested, write_checkpoint, write_digested
from kdcode.learning.planning.predictor import Predictor
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
        steps.append(read_checkpoint(path)["state"]["step"])

    kdcode.compress(table(), options=QUICK, checkpoint=Checkpoint(path, every_seconds=0), progress=look)
    assert steps == [1, 2, 3, 4, 5]


def test_a_run_claims_its_file_when_it_begins(tmp_path):
    path, seen = tmp_path / "c", []
    kdcode.compress(
        table(),
        options=QUICK,
        checkpoint=Checkpoint(path),
        progress=lambda _: seen.append(read_checkpoint(path)),
    )
    assert seen[0]["state"] is None
    assert seen[0]["identity"]


@pytest.mark.parametrize("content", [b"", b"something else", b"PK\x03\x04" + bytes(100), b"kdcode", bytes(200)])
def test_what_is_no_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint; remove it"):
        kdcode.compress(table(50), options=QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [b"4", b"6", b"50"])
def test_a_checkpoint_of_another_version_is_refused(version, tmp_path):
    path = tmp_path / "c"
    Checkpoint(path).save("run", None)
    path.write_bytes(path.read_bytes().replace(b"checkpoint 5", b"checkpoint " + version, 1))
    with pytest.raises(CheckpointError, match="not a checkpoint of this version of kdcode"):
        Checkpoint(path).load("run")


def state_of(step, **more):
    return {"step": step, "stage": 0, "seconds": 1.5, "losses": [0.5], "state": {}, **more}


def learned(path):
    """A real checkpoint, written in the middle of a run."""
    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table(40), options=ADDITIVE, progress=stop_at(3), checkpoint=path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return learned(tmp_path_factory.mktemp("checkpoint") / "c")


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_every_change_of_any_bit_is_found(whole, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "flipped"
    place = data.draw(st.integers(0, 8 * len(whole) - 1))
    changed = bytearray(whole)
    changed[place // 8] ^= 1 << place % 8
    path.write_bytes(changed)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_every_bit_of_the_first_line_and_of_the_end_is_checked(whole, tmp_path):
    line = whole.index(b"\n") + 1
    for place in [*range(8 * line), *range(8 * len(whole) - 800, 8 * len(whole))]:
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / "c").write_bytes(changed)
        with pytest.raises(CheckpointError):
            read_checkpoint(tmp_path / "c")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_file_that_is_cut_or_grown_is_refused(whole, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "cut"
    cut = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(data.draw(st.sampled_from([whole[:cut], whole + whole[:cut] + b"0", b"k" + whole])))
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_nothing_is_read_before_the_digest_is_right(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    (tmp_path / "c").write_bytes(whole[:-1] + b"?")
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(tmp_path / "c")


def test_only_plain_values_and_arrays_are_written(tmp_path):
    for value in (object(), {1, 2}, np.array([object()]), np.float32(1)):
        with pytest.raises(TypeError, match="holds plain values and arrays"):
            write_checkpoint(tmp_path / "c", {"identity": "run", "state": value, "plan": None})
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "text", [b"", b"[", b'["a", "<f4", [1000]]', b'["a", "O", [1]]', b'["a", "x", [1]]', b'["d", [1]]', b'["a"]']
)
def test_a_file_with_a_right_digest_and_no_content_is_refused(text, tmp_path):
    digest = hashlib.sha256(text + b"\n").hexdigest()
    (tmp_path / "c").write_bytes(b"kdcode checkpoint 5 " + digest.encode() + b"\n" + text + b"\n")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(tmp_path / "c")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_any_plain_value_comes_back(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "plain"
    write_digested(path, (value, [value]))
    assert read_digested(path)[0] == (value, [value])


PLAN = {"identity": "goal", "options": None, "probes": {"K=4": [0.5, 1.0]}}


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {},
        {"identity": "run", "state": None},
        {"identity": "run", "state": None, "plan": None, "more": 1},
        {"identity": 7, "state": None, "plan": None},
        {"identity": "run", "state": [1], "plan": None},
        *({"identity": "run", "state": state, "plan": None} for state in [{}, {"step": 7}, state_of(1, more=2)]),
        *({"identity": "run", "state": state_of(value), "plan": None} for value in ["1", 1.0, True, None]),
        {"identity": "run", "state": state_of(1, state=None), "plan": None},
        *(
            {"identity": "run", "state": state_of(1, losses=losses), "plan": None}
            for losses in (1, [1], ["a"], [[0.5]])
        ),
        *({"identity": None, "state": None, "plan": {**PLAN, name: 7}} for name in PLAN),
        *({"identity": None, "state": None, "plan": {**PLAN, "probes": {"K": value}}} for value in (1, [1], ["a"])),
    ],
)
def test_a_missing_key_or_a_wrong_type_is_refused(content, tmp_path):
    write_checkpoint(tmp_path / "c", content)
    for load in (Checkpoint(tmp_path / "c").load, Checkpoint(tmp_path / "c").load_probes):
        with pytest.raises(CheckpointError, match=r"not a checkpoint of this version of kdcode: .*; remove it"):
            load("run")


def test_what_was_written_is_read(tmp_path):
    arrays = {"codes": np.arange(6).reshape(2, 3), "weights": np.linspace(0, 1, 1000, dtype=np.float32)[::2]}
    arrays |= {"none": np.zeros((0, 3), dtype=np.uint8), "one": np.array(2.5)}
    content = {"identity": "run", "state": state_of(1, state=arrays), "plan": PLAN}
    write_checkpoint(tmp_path / "c", content)
    found = read_checkpoint(tmp_path / "c")
    assert found["plan"] == PLAN
    for name, array in arrays.items():
        assert found["state"]["state"][name].dtype == array.dtype
        np.testing.assert_array_equal(found["state"]["state"][name], array)


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
    checkpoint.save("run", state_of(7))
    again = Checkpoint(tmp_path / "c")
    assert again.load_plan("goal") == {"code_length": 3}
    assert again.load("run") == state_of(7)
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
    checkpoint.save("run", state_of(2))
    again = Checkpoint(path)
    assert again.load_plan("goal") == {"code_length": 3}
    assert again.load_probes("goal") == {}
    assert again.load("run") == state_of(2)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@contextmanager
def no_file_longer_than(size):
    """The system lets no process write more bytes to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_that_cannot_be_written_warns_once_and_learning_goes_on(tmp_path):
    path, whole = tmp_path / "c", kdcode.compress(table(), options=ADDITIVE)
    steps, kept = [], []

    def look(report):
        steps.append(report.step)
        kept.append(read_checkpoint(path)["state"]["step"])
        if report.step == 2:
            limit.__enter__()
        if report.step == 6:
            limit.__exit__(None, None, None)

    limit = no_file_longer_than(2000)
    with pytest.warns(CheckpointWarning, match="c: cannot be written: File too large; learning goes on") as caught:
        coded = kdcode.compress(table(), options=ADDITIVE, checkpoint=Checkpoint(path, every_seconds=0), progress=look)
    assert len(caught) == 1
    assert kept == [1, 2, 2, 2, 2, 2, *steps[6:]]  # the old one stays, and a later one is written
    assert len(steps) > 6
    assert names(tmp_path) == ["c"]
    np.testing.assert_array_equal(coded.codes, whole.codes)


def test_a_folder_that_is_lost_during_a_run_is_no_end_of_it(tmp_path):
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()

    def lose(report):
        if report.step == 2:
            folder.rename(away)
        if report.step == 4:
            away.rename(folder)

    checkpoint = Checkpoint(folder / "c", every_seconds=0)
    with pytest.warns(CheckpointWarning, match="there is no folder") as caught:
        kdcode.compress(table(), options=ADDITIVE, checkpoint=checkpoint, progress=lose)
    assert len(caught) == 1
    assert read_checkpoint(folder / "c")["state"]["step"] > 4
    assert names(folder) == ["c"]


def test_it_warns_again_after_one_that_was_written(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.save("run", None)
    for _ in range(2):
        with no_file_longer_than(100):
            with pytest.warns(CheckpointWarning):
                checkpoint.save("run", state_of(1))
            checkpoint.save("run", state_of(2))  # a second warning would be an error here
        checkpoint.save("run", state_of(3))
    assert read_checkpoint(tmp_path / "c")["state"]["step"] == 3


def test_an_interruption_with_a_full_disk_keeps_the_one_from_before(tmp_path):
    path, limit = tmp_path / "c", no_file_longer_than(1000)

    def stop(report):
        if report.step == 2:
            limit.__enter__()
        if report.step == 4:
            raise KeyboardInterrupt

    with pytest.warns(CheckpointWarning), pytest.raises(KeyboardInterrupt):
        kdcode.compress(table(), options=ADDITIVE, checkpoint=Checkpoint(path, every_seconds=0), progress=stop)
    limit.__exit__(None, None, None)
    assert read_checkpoint(path)["state"]["step"] == 2


def never(_):
    pytest.fail("work was done")


@pytest.mark.parametrize("goal", [{"options": ADDITIVE}, {"size": "8x", "effort": "fast"}])
def test_a_run_whose_checkpoint_cannot_be_written_does_not_begin(tmp_path, goal, monkeypatch):
    monkeypatch.setattr("kdcode.learning.planning.predictor.Predictor.predict", never)
    with no_file_longer_than(100), pytest.raises(FileError, match="c: cannot be written: File too large"):
        kdcode.compress(table(), checkpoint=tmp_path / "c", progress=never, **goal)
    assert names(tmp_path) == []
    with pytest.raises(FileError, match="cannot be written: there is no folder"):
        kdcode.compress(table(), checkpoint=tmp_path / "no" / "c", progress=never, **goal)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_checkpoint_that_is_no_file_is_refused(tmp_path, make):
    make(tmp_path / "c")
    with pytest.raises(FileError):
        kdcode.compress(table(), options=ADDITIVE, checkpoint=tmp_path / "c", progress=never)
    assert names(tmp_path) == ["c"]


@pytest.fixture
def small_disk(tmp_path):
    with mounted_disk(tmp_path, 96) as disk:
        yield disk


def test_a_full_disk_is_no_end_of_a_run(small_disk):
    path, whole, steps = small_disk / "c", kdcode.compress(table(), options=ADDITIVE), []

    def fill(report):
        steps.append(report.step)
        if report.step == 2:
            with pytest.raises(OSError, match="No space left"):
                (small_disk / "full").write_bytes(bytes(1 << 20))
        if report.step == 5:
            (small_disk / "full").unlink()

    checkpoint = Checkpoint(path, every_seconds=0)
    with pytest.warns(CheckpointWarning, match="No space left on device; learning goes on") as caught:
        coded = kdcode.compress(table(), options=ADDITIVE, checkpoint=checkpoint, progress=fill)
    assert len(caught) == 1
    assert read_checkpoint(path)["state"]["step"] == steps[-1]
    np.testing.assert_array_equal(coded.codes, whole.codes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_a_folder_that_is_closed_for_a_while_is_no_end_of_a_run(tmp_path):
    def close(report):
        if report.step in (2, 5):
            tmp_path.chmod(0o500 if report.step == 2 else 0o700)

    checkpoint = Checkpoint(tmp_path / "c", every_seconds=0)
    with pytest.warns(CheckpointWarning, match="cannot be written: Permission denied") as caught:
        kdcode.compress(table(), options=ADDITIVE, checkpoint=checkpoint, progress=close)
    assert len(caught) == 1
    assert read_checkpoint(tmp_path / "c")["state"]["step"] > 5
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        kdcode.compress(table(), options=ADDITIVE, checkpoint=tmp_path / "c", progress=never)
    tmp_path.chmod(0o700)


def test_two_runs_with_one_checkpoint_are_refused(tmp_path):
    path, tried = tmp_path / "c", []
    checkpoint = Checkpoint(path)

    def begin_another(given):
        with pytest.raises(CheckpointInUseError, match=f"another run uses this checkpoint: process {os.getpid()}"):
            kdcode.compress(table(), options=QUICK, checkpoint=given, progress=never)
        tried.append(given)

    def look(report):
        if report.step == 1:
            begin_another(path)
            begin_another(Checkpoint(path))
            thread = threading.Thread(target=begin_another, args=[checkpoint])  # the same object in another thread
            thread.start()
            thread.join()

    kdcode.compress(table(), options=QUICK, checkpoint=checkpoint, progress=look)
    assert len(tried) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kdcode.compress(table(), options=QUICK, checkpoint=path)  # it is free again
    assert names(tmp_path) == ["c"]


def test_a_plan_has_the_checkpoint_to_itself_too(tmp_path, monkeypatch):
    path, predict = tmp_path / "c", Predictor.predict

    def begin_another(self, options):
        with pytest.raises(CheckpointInUseError):
            kdcode.compress(table(), "8x", effort="fast", checkpoint=path)
        return predict(self, options)

    monkeypatch.setattr(Predictor, "predict", begin_another)
    kdcode.compress(table(), "8x", effort="fast", checkpoint=path)
