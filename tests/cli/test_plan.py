import json
import os
import signal
import time
from dataclasses import replace

import pytest

import kdcode
from kdcode.cli.plan import plan_lines
from kdcode.codec.sizes import SizeLimit
from kdcode.data import glove_50d
from kdcode.learning import Candidate, Plan, compression
from kdcode.learning.planning.predictor import Predictor
from kdcode.options import EFFORTS, CompressOptions


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "vectors.txt"
    kdcode.write(glove_50d().head(300), path, format="glove")
    return path


def test_the_starred_setting_is_the_one_that_compress_takes(run, vectors, tmp_path):
    planned = run("plan", vectors, "--size", "12x", "--effort", "fast", "--codewords")
    assert planned.exit_code == 0
    lines = planned.stdout.splitlines()
    assert lines[0] == "300 x 50 within 12x"
    (starred,) = [line.split() for line in lines if line.startswith("*")]
    target = tmp_path / "out.kdc"
    result = run("compress", vectors, target, "--size", "12x", "--effort", "fast", "--codewords")
    assert result.exit_code == 0
    coded = kdcode.load(target)
    assert f" {coded.codebook_size} {coded.code_length} int8 " in " ".join(starred)
    assert coded.sizes.ratio(300, 50) >= 12
    assert f"K={coded.codebook_size}, D={coded.code_length}, {coded.spec.composition}, int8" in result.stderr


def test_json_has_the_recommended_one_first(run, vectors):
    found = json.loads(run("plan", vectors, "--bits", "32", "--effort", "fast", "--json", "--quiet").stdout)
    errors = [candidate["relative_error"] for candidate in found]
    assert errors == sorted(errors)
    assert {"codebook_size", "codes", "codebook", "embedding", "seconds", "ratio_embedding"} <= found[0].keys()
    assert all(0 < candidate["unseen_error"] <= 1 for candidate in found)


@pytest.mark.parametrize("limits", [(), ("--size", "20x", "--bits", "8")])
def test_one_limit_is_needed(run, vectors, limits):
    result = run("plan", vectors, *limits)
    assert result.exit_code == 2
    assert "one of --size, --bits and --max-error" in result.stderr


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("-K", "8"), "--codebook-size"),
        (("-K", "32"), "--codebook-size"),  # the default, which was asked for all the same
        (("--codebook-dtype", "int8"), "--codebook-dtype"),
        (("--composition", "product"), "--composition"),
        (("--no-rotation",), "--rotation"),
    ],
)
def test_compress_refuses_what_the_size_decides(run, vectors, tmp_path, flags, name):
    result = run("compress", vectors, tmp_path / "out.kdc", "--size", "12x", *flags)
    assert result.exit_code == 2
    assert f"{name} is chosen for --size; leave one of the two out" in result.stderr
    assert not (tmp_path / "out.kdc").exists()


def test_a_size_that_cannot_be_is_refused(run, vectors, tmp_path):
    result = run("compress", vectors, tmp_path / "out.kdc", "--size", "9999x")
    assert result.exit_code == 1
    assert "size 9999x: too small for this table" in result.stderr


@pytest.mark.parametrize("goal", [("--size", "twenty"), ("--bits", "0"), ("--max-error", "1.5")])
def test_a_goal_that_cannot_be_read_is_wrong_usage(run, vectors, monkeypatch, goal):
    monkeypatch.setattr("kdcode.cli.plan.read_table", lambda *_, **__: pytest.fail("the table was read"))
    result = run("plan", vectors, *goal)
    assert result.exit_code == 2
    assert f"Error: {goal[0]} must be " in result.stderr


@pytest.mark.parametrize("form", ["named", "plain"])
def test_weights_of_a_file_count(run, vectors, tmp_path, form):
    table = kdcode.read(vectors)
    numbers = [100 if row < 30 else 1 for row in range(300)]
    lines = [f"{symbol}\t{number}" for symbol, number in zip(table.symbols, numbers, strict=True)]
    path = tmp_path / "weights.txt"
    path.write_text("\n".join([*reversed(lines), "unheard-of 7"] if form == "named" else map(str, numbers)))
    target = tmp_path / "out.kdc"
    flags = ("-K", "8", "-D", "6", "--effort", "fast", "--codebook-dtype", "float32")
    assert run("compress", vectors, target, *flags, "--weights", path).exit_code == 0
    expected = kdcode.compress(
        kdcode.VectorTable(table.symbols, table.matrix, numbers), codebook_size=8, code_length=6, effort="fast",
        codebook_dtype="float32",
    )  # fmt: skip
    assert kdcode.load(target).provenance["weighted_error"] == expected.provenance["weighted_error"]
    assert run("plan", vectors, "--size", "10x", "--effort", "fast", "--weights", path).exit_code == 0


def test_a_file_of_no_weights_is_refused(run, vectors, tmp_path):
    path = tmp_path / "weights.txt"
    path.write_text("the many\n")
    result = run("compress", vectors, tmp_path / "out.kdc", "--weights", path)
    assert (result.exit_code, result.stderr) == (
        1, f"error: {path}: line 1: expected a number of zero or more, found 'many'\n",
    )  # fmt: skip


def test_the_efforts_are_those_of_the_options(run, vectors):
    assert f"[{'|'.join(EFFORTS)}]" in run("plan", "--help").stdout
    assert run("plan", vectors, "--size", "12x", "--effort", "none").exit_code == 2
    assert "--seed must be an integer from 0" in run("plan", vectors, "--size", "12x", "--seed", "-1").stderr


def test_a_rotated_candidate_says_so():
    options = CompressOptions(composition="grouped", groups=2, rotation=True, code_length=8, codebook_dtype="int8")
    candidate = Candidate(options, options.spec(50).sizes(300), 12.0, 0.25, 0.375, 3.0)
    head, line = plan_lines(Plan(SizeLimit(times=12), (candidate,)))
    assert head.split()[:4] == ["composition", "K", "D", "dtype"]
    assert line.split()[:8] == ["*", "grouped,", "2", "groups,", "rotated", "32", "8", "int8"]
    assert head.split()[-3:] == ["error", "unseen", "time"]
    assert line.split()[-4:-2] == ["0.250", "0.375"]


@pytest.mark.parametrize("command", ["plan", "compress"])
def test_ctrl_c_while_planning_is_130(run, vectors, tmp_path, monkeypatch, command):
    def asked_to_stop(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        pytest.fail("it went on")

    name = "plan" if command == "plan" else "planned"
    monkeypatch.setattr(f"kdcode.learning.{name}", asked_to_stop)
    words = (vectors, tmp_path / "out.kdc") if command == "compress" else (vectors,)
    result = run(command, *words, "--size", "12x")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.splitlines()[-1] == "interrupted"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_resumes_does_not_plan_again(run, vectors, tmp_path, monkeypatch):
    planned, candidates, learn = kdcode.learning.planned, [], compression.compress_planned

    def counting(table, options, goal, settings, **named):
        def on_each(*progress):
            candidates.append(progress)

        return planned(table, options, goal, replace(settings, progress=on_each), **named)

    def interrupted(shard, plan, how):
        def on_each(report):
            how.progress(report)
            raise KeyboardInterrupt

        return learn(shard, plan, replace(how, progress=on_each))

    monkeypatch.setattr("kdcode.learning.planned", counting)
    words = ("compress", vectors, tmp_path / "out.kdc", "--size", "12x", "--effort", "fast", "--json", "--codewords")
    with monkeypatch.context() as patch:
        patch.setattr(compression, "compress_planned", interrupted)
        assert run(*words).exit_code == 130
    assert candidates
    candidates.clear()
    resumed = run(*words)
    assert (resumed.exit_code, candidates) == (0, [])
    assert json.loads(resumed.stdout)["resumed_step"] > 0
    assert "resuming from step" in resumed.stderr
    straight = run("compress", vectors, tmp_path / "straight.kdc", *words[3:])
    assert json.loads(straight.stdout)["relative_error"] == json.loads(resumed.stdout)["relative_error"]


def test_ctrl_c_while_planning_keeps_the_probes(run, vectors, tmp_path, monkeypatch):
    predict, probed = Predictor._predict, []

    def pressed(self, options):
        if len(probed) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        probed.append(options)
        return predict(self, options)

    words = ("compress", vectors, tmp_path / "out.kdc", "--size", "12x", "--effort", "fast", "--json", "--codewords")
    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "_predict", pressed)
        stopped = run(*words)
    assert stopped.exit_code == 130
    kept = tmp_path / "out.kdc.checkpoint"
    assert stopped.stderr.splitlines()[-1] == f"interrupted; the same command resumes from {kept}"
    again = []
    monkeypatch.setattr(Predictor, "_predict", lambda self, options: again.append(options) or predict(self, options))
    resumed = run(*words)
    assert resumed.exit_code == 0, resumed.stderr
    assert len(probed) == 2
    assert not set(probed) & set(again)
    assert again
    assert not kept.exists()
    straight = run("compress", vectors, tmp_path / "straight.kdc", *words[3:])
    assert json.loads(straight.stdout)["relative_error"] == json.loads(resumed.stdout)["relative_error"]
