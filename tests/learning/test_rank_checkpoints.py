"""Checkpoints of several ranks: another number of them resumes, and a set of files that is not whole is refused."""

from __future__ import annotations

import json
import shutil
import signal

import numpy as np
import pytest
from rank_processes import SECONDS, run_ranks, start_ranks

import kdcode
from kdcode.errors import CheckpointError
from kdcode.learning import Checkpoint
from kdcode.learning.checkpoint_file import read_checkpoint, write_checkpoint
from kdcode.learning.checkpoint_parts import RowFile, cut_rows, read_rows, remove_row_files, split_rows, with_rows

ROWS = 700
RUNS = {
    "additive": ({"codebook_size": 8, "code_length": 9, "effort": "fast"}, 4),
    "gradient": (
        {"codebook_size": 4, "code_length": 3, "learner": "straight-through", "epochs": 4, "batch_size": 100},
        20,
    ),
    "refining": (
        {"codebook_size": 4, "code_length": 3, "learner": "straight-through", "epochs": 1, "batch_size": 350},
        4,
    ),
    "lstm": (
        {"codebook_size": 4, "code_length": 3, "composition": "lstm", "start": "warm", "epochs": 5, "batch_size": 350},
        6,
    ),
}
"""Options, and the step that a run is stopped after."""


def stop_at(step):
    def on_step(report):
        if report.step == step:
            raise KeyboardInterrupt

    return on_step


@pytest.fixture(scope="module")
def matrix():
    draw = np.random.default_rng(7)
    return (draw.normal(size=(ROWS, 2)) @ draw.normal(size=(2, 10)) + draw.normal(size=(ROWS, 10))).astype(np.float32)


@pytest.fixture(scope="module")
def uninterrupted(matrix):
    return {name: kdcode.compress(matrix, **options).provenance for name, (options, _) in RUNS.items()}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, matrix):
    """A folder with checkpoints of two ranks that were stopped, and with results of two that resumed one process's."""
    out = tmp_path_factory.mktemp("stopped")
    np.save(out / "table.npy", matrix)
    jobs = []
    for name, (options, step) in RUNS.items():
        with pytest.raises(KeyboardInterrupt):
            kdcode.compress(matrix, **options, progress=stop_at(step), checkpoint=out / f"{name} of one")
        job = {"source": str(out / "table.npy"), "options": options}
        jobs.append({**job, "name": f"stop {name}", "stop": step, "checkpoint": str(out / f"{name} of two")})
        jobs.append({**job, "name": f"resume {name}", "checkpoint": str(out / f"{name} of one")})
    np.save(out / "other.npy", matrix + 1)
    job = {"source": str(out / "other.npy"), "options": RUNS["additive"][0]}
    jobs.append({**job, "name": "another table", "checkpoint": str(out / "additive of two")})
    return run_ranks(2, jobs, out), out


def copied(stopped, name, folder):
    """A copy of the checkpoint of two ranks; its path."""
    for file in stopped[1].glob(f"{name} of two*"):
        shutil.copy(file, folder / file.name)
    return folder / f"{name} of two"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_ranks_resume_what_one_process_has_begun(name, stopped, uninterrupted):
    assert all(rank[f"stop {name}"]["stopped"] for rank in stopped[0])
    found = stopped[0][0][f"resume {name}"]
    assert found["steps"][0] == RUNS[name][1] + 1
    assert found["provenance"]["relative_error"] == pytest.approx(uninterrupted[name]["relative_error"], rel=0.005)
    assert found["provenance"]["fingerprint"] == uninterrupted[name]["fingerprint"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_one_process_resumes_what_two_ranks_have_begun(name, stopped, uninterrupted, matrix, tmp_path):
    path = copied(stopped, name, tmp_path)
    checkpoint = Checkpoint(path, 0)
    coded = kdcode.compress(matrix, **RUNS[name][0], checkpoint=checkpoint)
    assert checkpoint.resumed_step == RUNS[name][1]
    assert coded.provenance["relative_error"] == pytest.approx(uninterrupted[name]["relative_error"], rel=0.005)
    assert list(tmp_path.glob("*.rows-*")) == []  # it has written checkpoints of its own since
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_three_ranks_resume_what_two_have_begun(stopped, uninterrupted, tmp_path):
    jobs = []
    for name, (options, _) in RUNS.items():
        path = copied(stopped, name, tmp_path)
        job = {"source": str(stopped[1] / "table.npy"), "options": options, "checkpoint": str(path)}
        jobs.append({"name": name, **job, "every": 0})
    found = run_ranks(3, jobs, tmp_path / "out")
    for name, (_, step) in RUNS.items():
        result = found[0][name]
        assert result["steps"][0] == step + 1
        assert result["provenance"]["relative_error"] == pytest.approx(uninterrupted[name]["relative_error"], rel=0.005)
        assert len(list(tmp_path.glob(f"{name} of two.rows-*"))) == 3


@pytest.mark.slow
def test_rows_are_kept_by_each_rank_and_what_they_share_by_the_first(stopped):
    _, out = stopped
    head = read_checkpoint(out / "gradient of two")
    files = [RowFile(*file) for file in head["files"]]
    assert [(file.first, file.rows) for file in files] == [(0, 320), (320, 380)]
    state = head["state"]["state"]
    assert state["logits"] is state["codes"] is state["best"]["codes"] is state["row_optimizer"]["visits"] is None
    assert state["module"]["codebook"].shape == (3, 4, 10)
    rows = files[1].read(out / "gradient of two")
    assert {path: tuple(tensor.shape) for path, tensor in rows.items()} == {
        "codes": (380, 3),
        "best.codes": (380, 3),
        "logits": (380, 3, 4),
        "row_optimizer.mean_square": (380,),
        "row_optimizer.visits": (380,),
    }


def damage(path, files):
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"?")


def lose(path, files):
    files[0].unlink()


def mix(path, files):
    """A file of another time in the place of one: whole, but not the one that the checkpoint names."""
    first, rows = int(files[1].name[-12:]), 380
    write_checkpoint(files[1], {"first": first, "rows": rows, "arrays": {"codes": np.zeros((rows, 9))}})


def forget(path, files):
    content = read_checkpoint(path)
    write_checkpoint(path, {**content, "files": content["files"][:1]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damage, "the checkpoint is damaged"),
        (lose, "its rows in .* are missing"),
        (mix, "is of another time than"),
        (forget, "not one of stage 0|does not have all rows"),
    ],
)
def test_a_set_of_files_that_is_not_whole_is_refused(change, message, stopped, matrix, tmp_path):
    path = copied(stopped, "additive", tmp_path)
    change(path, sorted(tmp_path.glob("*.rows-*")))
    with pytest.raises(CheckpointError, match=message):
        kdcode.compress(matrix, **RUNS["additive"][0], checkpoint=path)


@pytest.mark.slow
def test_a_checkpoint_of_another_table_is_refused_by_all_ranks(stopped):
    assert all("belongs to a run with another table" in rank["another table"]["error"] for rank in stopped[0])


def test_a_rank_that_is_killed_ends_the_others_and_the_run_resumes(uninterrupted, matrix, tmp_path):
    options, step = RUNS["additive"]
    np.save(tmp_path / "table.npy", matrix)
    job = {"source": str(tmp_path / "table.npy"), "options": options, "checkpoint": str(tmp_path / "c"), "every": 0}
    processes = start_ranks(2, [{"name": "killed", **job, "stop": step, "kill": 1}], tmp_path / "out")
    for process in processes:
        process.communicate(timeout=SECONDS)
    assert processes[1].returncode == -signal.SIGKILL
    found = json.loads((tmp_path / "out" / "0.json").read_text())["killed"]
    assert found["error"].startswith("LostRankError: another rank has ended, or cannot be reached")
    assert not (tmp_path / "out" / "killed.kdc").exists()
    again = Checkpoint(tmp_path / "c")
    coded = kdcode.compress(matrix, **options, checkpoint=again)
    assert again.resumed_step == step
    # Sums of two ranks are rounded otherwise, which tips codes and others after them: 4 in 100, and errors by 0.5 %.
    assert coded.provenance["relative_error"] == pytest.approx(uninterrupted["additive"]["relative_error"], rel=0.02)


def test_rows_are_taken_out_of_a_state_and_put_back():
    state = {"codes": np.arange(6), "best": {"codes": np.arange(6) + 10, "error": 0.5}, "done": 3}
    shared, rows = split_rows(state, ["codes", "best.codes"])
    assert shared == {"codes": None, "best": {"codes": None, "error": 0.5}, "done": 3}
    assert state["best"]["codes"] is rows["best.codes"]
    assert with_rows(shared, rows) == state
    cut = cut_rows(state, ["codes", "best.codes"], 2, 4, 6)
    assert cut["codes"].tolist() == [2, 3]
    assert cut["best"]["codes"].tolist() == [12, 13]
    with pytest.raises(ValueError, match="codes has 6 rows, expected 7"):
        cut_rows(state, ["codes"], 2, 4, 7)


@pytest.mark.parametrize("name", ["c", "c" * 250, "a[b]*?"])
def test_rows_are_read_from_as_many_files_as_have_them(name, tmp_path):
    path = tmp_path / name
    files = [RowFile.written(path, "0123abcd", first, 4, {"codes": np.arange(first, first + 4)}) for first in (0, 4, 8)]
    assert read_rows(path, files, 3, 9)["codes"].tolist() == list(range(3, 9))
    assert read_rows(path, files[::-1], 0, 12)["codes"].tolist() == list(range(12))
    with pytest.raises(CheckpointError, match="does not have all rows"):
        read_rows(path, files, 3, 13)
    with pytest.raises(CheckpointError, match="does not have all rows"):
        read_rows(path, [files[0], files[2]], 0, 12)
    (tmp_path / "another.rows-0123abcd-000000000000").touch()
    remove_row_files(path, [files[1].name])
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {files[1].name, "another.rows-0123abcd-000000000000"}
