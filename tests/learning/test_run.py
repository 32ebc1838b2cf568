"""Steps of a run: counted through all stages up to the total, reported, and resumed where they stopped."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError
from kdcode.learning import Checkpoint
from kdcode.learning.checkpoint_file import read_checkpoint, write_checkpoint
from kdcode.learning.identity import run_identity
from kdcode.learning.progress import StepReport
from kdcode.learning.run import CURVE_POINTS, Run
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

GRADIENT = {"learner": "straight-through", "epochs": 4, "batch_size": 50, "refine_rounds": 2}
RUNS = {
    "additive": {"effort": "fast", "code_length": 9},
    "additive normal": {"effort": "normal"},
    "additive projected": {"effort": "fast", "codeword_dim": 10, "codebook_size": 16},
    "additive product": {"effort": "fast", "composition": "product"},
    "additive grouped": {"effort": "fast", "composition": "grouped"},
    "additive rotated": {"effort": "fast", "composition": "grouped", "rotation": True},
    "additive cosine": {"effort": "fast", "loss": "cosine", "code_length": 9},
    "gradient": GRADIENT,
    "gradient product": {**GRADIENT, "composition": "product"},
    "gradient grouped": {**GRADIENT, "composition": "grouped"},
    "gradient projected": {**GRADIENT, "codeword_dim": 10, "codebook_size": 16},
    "gradient gumbel": {**GRADIENT, "estimator": "gumbel", "temperature_decay": 0.5},
    "gradient warm": {**GRADIENT, "start": "warm"},
    "gradient additive": {**GRADIENT, "start": "additive"},
    "gradient unrefined": {**GRADIENT, "refine_rounds": 0},
    "lstm": {**GRADIENT, "composition": "lstm", "codeword_dim": 10},
    "lstm cosine": {**GRADIENT, "composition": "lstm", "codeword_dim": 10, "loss": "cosine"},
    "lstm random": {**GRADIENT, "composition": "lstm", "codeword_dim": 10, "start": "random"},
    "lstm warm": {**GRADIENT, "composition": "lstm", "codeword_dim": 10, "start": "warm", "refine_rounds": 0},
    "encoder": {**GRADIENT, "learner": "encoder"},
    "encoder scaled": {**GRADIENT, "learner": "encoder", "scale_bits": 3},
    "random": {"learner": "random"},
    "random product": {"learner": "random", "composition": "product"},
    "random lstm": {"learner": "random", "composition": "lstm", "codeword_dim": 10},
    "random projected": {"learner": "random", "codeword_dim": 10, "codebook_size": 16},
}
"""Every learner with every composition, and the starts."""

RESUMABLE = {name: changes for name, changes in RUNS.items() if changes.get("learner") != "random"}
"""Random codes have only one or two steps, and begin again."""


def each_of(runs):
    return pytest.mark.parametrize("changes", runs.values(), ids=list(runs))


def options_of(changes):
    return CompressOptions.of(**{"codebook_size": 8, "code_length": 4, **changes})


def table(rows=120):
    return glove_50d().head(rows)


@each_of(RUNS)
def test_the_total_is_reached_and_steps_only_rise(changes):
    reports = []
    kdcode.compress(table(), options=options_of(changes), progress=reports.append)
    steps = [report.step for report in reports]
    assert steps == list(range(1, reports[0].total_steps + 1))
    assert {report.total_steps for report in reports} == {steps[-1]}


@pytest.mark.parametrize("name", ["additive", "additive normal", "additive rotated", "gradient additive", "lstm"])
@pytest.mark.parametrize("matrix", [np.eye(3, 50)[np.arange(120) % 3], np.ones((60, 50))], ids=["three", "one"])
def test_the_total_is_reached_where_the_additive_learner_is_done_early(name, matrix):
    reports = []
    kdcode.compress(VectorTable(None, matrix), options=options_of(RUNS[name]), progress=reports.append)
    steps = [report.step for report in reports]
    assert steps == sorted(set(steps))
    assert steps[-1] == reports[-1].total_steps
    assert len(steps) < reports[-1].total_steps or name == "additive"
    assert all(np.isfinite(report.loss) for report in reports)


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_reports_tell_the_whole_run(learner):
    reports = []
    options = CompressOptions.of(
        codebook_size=8,
        code_length=4,
        learner=learner,
        epochs=12,
        batch_size=100,
        refine_rounds=2,
        temperature_decay=0.5,
    )
    kdcode.compress(table(400), options=options, progress=reports.append)
    assert [report.step for report in reports] == list(range(1, 12 * 4 + 2 + 1))
    assert {report.total_steps for report in reports} == {50}
    assert reports[-1].loss < reports[0].loss
    assert 0 < reports[4].codes_changed <= 1  # the rows' second visit
    assert reports[0].temperature == 1
    assert reports[47].temperature == pytest.approx(1 / (1 + 0.5 * 11))


class KilledError(Exception):
    """Stands for whatever ends a run."""


@each_of(RESUMABLE)
def test_a_killed_run_resumes_and_ends_the_same(changes, tmp_path):
    options, reports = options_of(changes), []
    whole = kdcode.compress(table(), options=options, progress=reports.append)
    total = reports[-1].total_steps
    for step in sorted({1, total // 2, total - 1}):

        def die(report, step=step):
            if report.step == step:
                raise KilledError

        path = tmp_path / f"{step}.checkpoint"
        with pytest.raises(KilledError):
            kdcode.compress(table(), options=options, progress=die, checkpoint=Checkpoint(path))
        checkpoint, resumed_reports = Checkpoint(path), []
        resumed = kdcode.compress(table(), options=options, checkpoint=checkpoint, progress=resumed_reports.append)
        assert checkpoint.resumed_step == step
        assert [report.step for report in resumed_reports] == list(range(step + 1, total + 1))
        assert resumed_reports[-1].loss == pytest.approx(reports[-1].loss, rel=1e-6)
        assert np.array_equal(resumed.codes, whole.codes), step
        assert resumed.provenance["curve"] == whole.provenance["curve"], step
        for name, tensor in whole.codec.tensors().items():
            assert np.array_equal(resumed.codec.tensors()[name], tensor), (step, name)
        checkpoint.remove()
        assert not path.exists()


def test_a_run_is_killed_twice_and_ends_the_same(tmp_path):
    options = options_of(RUNS["gradient additive"])
    whole, path = kdcode.compress(table(), options=options), tmp_path / "c"
    for step in (20, 66):

        def die(report, step=step):
            if report.step == step:
                raise KilledError

        with pytest.raises(KilledError):
            kdcode.compress(table(), options=options, progress=die, checkpoint=Checkpoint(path))
    assert np.array_equal(kdcode.compress(table(), options=options, checkpoint=Checkpoint(path)).codes, whole.codes)


def test_weights_of_rows_are_resumed_with(tmp_path):
    weighted = VectorTable(None, table().matrix, np.linspace(0.1, 2, 120))
    options = options_of(RUNS["additive"])
    whole = kdcode.compress(weighted, options=options)

    def die(report):
        if report.step == 3:
            raise KilledError

    with pytest.raises(KilledError):
        kdcode.compress(weighted, options=options, progress=die, checkpoint=Checkpoint(tmp_path / "c"))
    resumed = kdcode.compress(weighted, options=options, checkpoint=Checkpoint(tmp_path / "c"))
    assert np.array_equal(resumed.codes, whole.codes)


def test_stages_count_on_from_each_other():
    reports = []
    run = Run({0: [1.0] * 2, 2: [1.0] * 3}, on_step=reports.append)
    for stage, steps in ((0, 2), (2, 3)):
        assert not run.begin(stage)
        for step in range(1, steps + 1):
            run.after_step(StepReport(step, steps, 0.5, 0.0, 0.0, 0))
    assert [(report.step, report.total_steps) for report in reports] == [(step, 5) for step in range(1, 6)]


@pytest.mark.parametrize(("steps", "kept"), [(1, [1]), (5, [1, 2, 3, 4, 5]), (96, range(3, 97, 3))])
def test_a_run_remembers_the_loss_of_evenly_spaced_steps_and_of_the_last(steps, kept):
    run = Run(steps)
    run.begin(0)
    for step in range(1, steps + 1):
        run.after_step(StepReport(step, steps, 1 / (step + 1), 0.0, 0.0, 0))
    assert run.curve == {"steps": steps, "losses": [float(f"{1 / (step + 1):.4g}") for step in kept]}
    assert len(kept) <= CURVE_POINTS


def test_a_curve_has_all_its_points_where_a_learner_is_done_early():
    run = Run({0: [1.0] * 4, 1: [1.0] * 2})
    for stage, reports in ((0, [(1, 0.5), (4, 0.25)]), (1, [(2, 0.125)])):
        run.begin(stage)
        for step, loss in reports:
            run.after_step(StepReport(step, 4, loss, 0.0, 0.0, 0))
    assert run.curve == {"steps": 6, "losses": [0.5, 0.25, 0.25, 0.25, 0.125, 0.125]}


def test_a_loss_that_is_no_number_is_none_in_a_curve():
    run = Run(3)
    run.begin(0)
    for step, loss in ((1, 0.5), (2, float("nan")), (3, float("inf"))):
        run.after_step(StepReport(step, 3, loss, 0.0, 0.0, 0))
    assert run.curve == {"steps": 3, "losses": [0.5, None, None]}


def test_the_curve_of_a_run_is_in_the_provenance_of_its_table():
    reports = []
    coded = kdcode.compress(table(), options=options_of(RUNS["additive"]), progress=reports.append)
    assert len(reports) < CURVE_POINTS
    losses = [float(f"{report.loss:.4g}") for report in reports]
    assert coded.provenance["curve"] == {"steps": len(reports), "losses": losses}
    assert losses[-1] < losses[0]


def test_the_identity_of_a_run_is_its_settings_its_vectors_and_its_weights():
    matrix = table(20).matrix
    changed = matrix.copy()
    changed[19, 49] += 1
    weights = np.ones(20)
    identities = [
        run_identity(VectorTable(None, matrix), {"a": 1}),
        run_identity(VectorTable(None, matrix), {"a": 2}),
        run_identity(VectorTable(None, matrix), {"a": 1}, {"size": "10x"}),
        run_identity(VectorTable(None, changed), {"a": 1}),
        run_identity(VectorTable(None, matrix, weights), {"a": 1}),
        run_identity(VectorTable(None, matrix.reshape(40, 25)), {"a": 1}),
    ]
    assert len(set(identities)) == 6
    assert identities[0] == run_identity(VectorTable([f"s{row}" for row in range(20)], matrix.copy()), {"a": 1})


@each_of(RUNS)
def test_the_share_of_work_rises_to_one(changes):
    reports = []
    kdcode.compress(table(), options=options_of(changes), progress=reports.append)
    shares = [report.work_done for report in reports]
    assert shares == sorted(set(shares))
    assert shares[0] > 0
    assert shares[-1] == 1


def test_steps_that_take_longer_are_a_larger_share_of_the_work():
    reports = []
    run = Run({0: [1, 2, 4, 1]}, on_step=reports.append)
    run.begin(0)
    for step in range(1, 5):
        run.after_step(StepReport(step, 4, 0.5, 0.0, 0.0, 0))
    assert [report.work_done for report in reports] == [0.125, 0.375, 0.875, 1.0]


def test_seconds_count_those_before_a_run_was_stopped(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("kdcode.learning.run.time.monotonic", lambda: now[0])

    def leg(seconds, last):
        """One leg of a run: steps of so many seconds up to the last one, which is interrupted."""
        run = Run(10, "me", on_step=stop, checkpoint=Checkpoint(tmp_path / "c"))
        loaded = []
        run.begin(0, lambda state: loaded.append(state["done"]) or state["done"])
        done = sum(loaded)
        for step in range(done + 1, last + 1):
            now[0] += seconds
            stopped[0] = step == last
            with pytest.raises(KilledError) if stopped[0] else nullcontext():
                run.after_step(StepReport(step, 10, 0.5, 0.0, 0.0, 0), lambda done=step: {"done": done})
        now[0] += 500  # nobody works
        return done

    def stop(_):
        if stopped[0]:
            raise KilledError

    stopped = [False]
    assert leg(5.0, 3) == 0
    assert leg(2.0, 7) == 3
    run = Run(10, "me", checkpoint=Checkpoint(tmp_path / "c"))
    now[0] += 1.5
    assert run.seconds == 3 * 5.0 + 4 * 2.0 + 1.5
    assert Run(10).seconds == 0


def test_the_time_of_learning_counts_all_legs_and_is_in_no_file(tmp_path):
    def slow(report):
        time.sleep(0.1)
        if report.step == 5:
            raise KilledError

    options = options_of(RUNS["additive"])
    with pytest.raises(KilledError):
        kdcode.compress(table(), options=options, progress=slow, checkpoint=tmp_path / "c")
    coded = kdcode.compress(table(), options=options, checkpoint=tmp_path / "c")
    assert coded.learning_seconds >= 0.5
    kdcode.save(coded, tmp_path / "out.kdc")
    loaded = kdcode.load(tmp_path / "out.kdc")
    assert loaded.learning_seconds is None
    assert "seconds" not in loaded.provenance


def file_bytes(coded, path):
    kdcode.save(coded, path)
    return path.read_bytes()


@each_of(RUNS)
def test_equal_runs_give_equal_bytes(changes, tmp_path):
    """Stopped and resumed or not, slow or quick, with a checkpoint or without."""
    options = options_of(changes)

    def stop_slowly(report):
        time.sleep(0.12 if report.step == 1 else 0)
        if report.step == report.total_steps - 1:
            raise KilledError

    whole = file_bytes(kdcode.compress(table(), options=options), tmp_path / "whole.kdc")
    with suppress(KilledError):
        kdcode.compress(table(), options=options, checkpoint=tmp_path / "c", progress=stop_slowly)
    resumed = kdcode.compress(table(), options=options, checkpoint=tmp_path / "c")
    assert file_bytes(resumed, tmp_path / "resumed.kdc") == whole


def test_equal_runs_with_a_plan_give_equal_bytes(tmp_path):
    whole = file_bytes(kdcode.compress(table(), "8x", effort="fast"), tmp_path / "whole.kdc")
    again = kdcode.compress(table(), "8x", effort="fast", checkpoint=tmp_path / "c", progress=lambda _: None)
    assert file_bytes(again, tmp_path / "again.kdc") == whole


def changed_checkpoint(path, change):
    """Rewrite a checkpoint, with a right digest, after `change` has had its way with the content."""
    content = read_checkpoint(path)
    change(content)
    write_checkpoint(path, content)


def set_stage(stage):
    def change(content):
        content["state"]["stage"] = stage

    return change


def set_step(step):
    def change(content):
        content["state"]["step"] = step

    return change


def lose(name):
    def change(content):
        del content["state"]["state"][name]

    return change


def set_state(name, value):
    def change(content):
        content["state"]["state"][name] = value

    return change


UNFIT = {
    "additive": [
        *(set_stage(stage) for stage in (1, 2, 7, -1)),
        *(set_step(step) for step in (0, 4, 1000)),
        *(lose(name) for name in ("best", "codes")),
        *(set_state("done", value) for value in (2, "3")),
        *(set_state("best", value) for value in (None, {"error": 0.5})),
        *(set_state("codes", value) for value in (None, np.zeros((120, 9)), np.zeros((3, 9), dtype=np.uint8))),
        *(set_state(name, value) for name, value in (("more", 1), ("model", {}), ("critical", 0.5))),
    ],
    "gradient": [
        *(set_stage(stage) for stage in (0, 2)),
        *(lose(name) for name in ("logits", "best")),
        *(set_state(name, {}) for name in ("row_optimizer", "weight_optimizer", "module", "best")),
        *(set_state("logits", value) for value in (None, np.zeros(1))),
        set_state("step", 5),
    ],
    "gradient unrefined": [set_stage(2)],
    "encoder": [set_stage(2), lose("encoder"), set_state("encoder", {})],
}
"""What was done to a checkpoint after step 3; a stage or a state that is not the run's own gave a wrong table once."""


@pytest.mark.parametrize(("name", "change"), [(name, change) for name, changes in UNFIT.items() for change in changes])
def test_what_does_not_fit_the_run_is_refused(name, change, tmp_path):
    path, options, begun = tmp_path / "c", options_of(RUNS[name]), []
    stop_after_three_steps(options, path)
    changed_checkpoint(path, change)
    with pytest.raises(CheckpointError, match=r"c: .*; remove it to start afresh"):
        kdcode.compress(table(), options=options, checkpoint=path, progress=begun.append)
    assert not begun


def stop_after_three_steps(options, path):
    def die(report):
        if report.step == 3:
            raise KilledError

    with pytest.raises(KilledError):
        kdcode.compress(table(), options=options, checkpoint=path, progress=die)


def test_refinement_takes_no_state_of_another_stage(tmp_path):
    options, path, total = options_of(RUNS["gradient"]), tmp_path / "c", []
    kdcode.compress(table(), options=options, progress=lambda report: total.append(report.total_steps))

    def die(report):
        if report.step == total[0] - 1:
            raise KilledError

    for change in (lose("weights"), lose("codes"), set_state("codes", np.zeros((3, 4))), set_state("round", 2)):
        path.unlink(missing_ok=True)
        with pytest.raises(KilledError):
            kdcode.compress(table(), options=options, checkpoint=path, progress=die)
        changed_checkpoint(path, change)
        with pytest.raises(CheckpointError, match="does not fit this run"):
            kdcode.compress(table(), options=options, checkpoint=path)
