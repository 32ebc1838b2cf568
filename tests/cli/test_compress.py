import json
import os
import pty
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import kdcode
from kdcode.cli import main
from kdcode.data import glove_50d
from kdcode.evaluation import reconstruction
from kdcode.file_locks import new_temporary
from kdcode.learning import Checkpoint, compress
from kdcode.learning.checkpoint_file import read_checkpoint
from kdcode.learning.run import Run
from kdcode.symbols import StoredSymbols
from kdcode.threads import using_threads

SHAPE = ("-K", "4", "-D", "3")
QUICK = (*SHAPE, "--effort", "fast")


def test_the_promise_is_what_the_file_holds(run, words, tmp_path):
    target = tmp_path / "out.kdc"
    result = run("compress", words, target, *QUICK)
    assert result.exit_code == 0, result.stderr
    promised = {
        line.split()[0]: line.split()[1] for line in result.stderr.splitlines() if line.endswith(("B", "symbols"))
    }
    # 60 rows of 3 x 2 bits are one byte each; 3 x 4 codewords of 8 float16 numbers, and 3 float32 scales
    assert (promised["codes"], promised["codebook"], promised["composition"]) == ("60", "204", "0")
    coded = kdcode.load(target)
    assert coded.sizes.total == int(promised["total"].replace(",", ""))
    assert f"{target.stat().st_size:,} B" in result.stdout
    assert f"kdcode verify {target} {words}" in result.stdout
    assert not Path(f"{target}.checkpoint").exists()


def test_json_is_the_only_thing_on_stdout(run, words, tmp_path):
    target = tmp_path / "out.kdc"
    result = run("compress", words, target, *QUICK, "--json", "--quiet", "--seed", "3", "--limit", "50")
    facts = json.loads(result.stdout)
    assert result.stderr == ""
    coded = kdcode.load(target)
    found = kdcode.evaluate(kdcode.read(words, limit=50), coded)
    assert facts["file_bytes"] == target.stat().st_size
    for name in ("relative_error", "mean_cosine", "norm_error", "recall_at_10"):
        assert facts[name] == pytest.approx(getattr(found, name), abs=1e-6)
    assert facts["sizes"] == coded.sizes.as_dict()
    assert facts["resumed_step"] == 0
    assert facts["provenance"]["options"]["seed"] == 3
    assert facts["num_embeddings"] == 50


def test_flags_reach_the_learner(run, words, tmp_path):
    target = tmp_path / "out.kdc"
    learner = ("--learner", "straight-through", "--epochs", "2", "--start", "warm", "--temperature", "0.5")
    result = run("compress", words, target, *SHAPE, "--composition", "product", "--codebook-dtype", "int8", *learner)
    assert result.exit_code == 0, result.stderr
    coded = kdcode.load(target)
    assert (coded.spec.composition, coded.spec.codebook_dtype) == ("product", "int8")
    assert coded.provenance["learner"] == "straight-through"
    assert coded.provenance["options"]["temperature"] == 0.5
    assert coded.provenance["options"]["start"] == "warm"


def test_the_encoder_learns_sums_of_codewords_and_nothing_else(run, words, tmp_path):
    target = tmp_path / "out.kdc"
    learner = ("--learner", "encoder", "--epochs", "2")
    assert run("compress", words, target, *SHAPE, *learner).exit_code == 0
    assert kdcode.load(target).provenance["learner"] == "encoder"
    refused = run("compress", words, tmp_path / "other.kdc", *SHAPE, *learner, "--composition", "lstm")
    assert refused.exit_code == 2
    assert "--composition must be linear for the encoder, got 'lstm'" in refused.stderr


def test_lines_that_were_skipped_are_told(run, words, tmp_path):
    with words.open("a") as stream:
        stream.write("broken 1 2\n")
    refused = run("compress", words, tmp_path / "out.kdc", *QUICK)
    assert refused.exit_code == 1
    assert "error:" in refused.stderr
    result = run("compress", words, tmp_path / "out.kdc", *QUICK, "--on-bad-line", "skip")
    assert result.exit_code == 0
    assert "warning:" in result.stderr
    assert "--on-bad-line skip" in result.stdout  # the verify command needs it as well


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("there.kdc", "--force"),
        ("words.txt", "the input itself"),
        ("no/such/out.kdc", "there is no folder"),
        (".", "is a folder"),
    ],
)
def test_a_bad_target_is_refused_before_any_work(run, words, tmp_path, target, message, monkeypatch):
    monkeypatch.setattr("kdcode.cli.compress.read_table", lambda *_, **__: pytest.fail("the table was read"))
    (tmp_path / "there.kdc").write_text("mine")
    result = run("compress", words, tmp_path / target)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""
    assert (tmp_path / "there.kdc").read_text() == "mine"


def test_force_replaces(run, words, tmp_path):
    (tmp_path / "out.kdc").write_text("old")
    assert run("compress", words, tmp_path / "out.kdc", *QUICK, "--force").exit_code == 0
    assert len(kdcode.load(tmp_path / "out.kdc")) == 60


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("-K", "1"), 2),
        (("--learner", "straight-through", "--epochs", "0"), 2),
        (("--epochs", "2"), 2),
        (("--size", "10x", "--bits", "8"), 2),
        (("--composition", "product", "-D", "9"), 1),
        (("--composition", "sum"), 2),
        (("--device", "toaster"), 1),
        (("--nothing",), 2),
    ],
)
def test_bad_flags_are_refused(run, words, tmp_path, flags, code):
    result = run("compress", words, tmp_path / "out.kdc", *flags)
    assert result.exit_code == code
    assert result.stdout == ""
    assert not (tmp_path / "out.kdc").exists()


def test_a_refused_value_names_its_flag(run, words, tmp_path):
    result = run("compress", words, tmp_path / "out.kdc", "-K", "1")
    assert "--codebook-size must be an integer from 2 to 65536, got 1" in result.stderr
    result = run("compress", words, tmp_path / "out.kdc", "--composition", "product", "-D", "9")
    assert "error: --code-length: a product code of length 9 needs" in result.stderr


def test_symbols_are_packed_once_and_the_table_is_evaluated_once(run, words, tmp_path, monkeypatch):
    done = []
    build, comparison = StoredSymbols.build, reconstruction.TableComparison
    monkeypatch.setattr(StoredSymbols, "build", lambda *args: done.append("packed") or build(*args))
    monkeypatch.setattr(
        reconstruction, "TableComparison", lambda *args, **named: done.append("evaluated") or comparison(*args, **named)
    )
    assert run("compress", words, tmp_path / "out.kdc", "--size", "4x", "--effort", "fast").exit_code == 0
    assert sorted(done) == ["evaluated", "packed"]


def test_a_checkpoint_of_another_run_is_refused_until_fresh(run, words, tmp_path):
    target = tmp_path / "out.kdc"

    def stop(report):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        compress(
            kdcode.read(words),
            codebook_size=4,
            code_length=2,
            seed=1,
            progress=stop,
            checkpoint=Checkpoint(f"{target}.checkpoint"),
        )
    refused = run("compress", words, target, *QUICK)
    assert refused.exit_code == 1
    assert "--fresh" in refused.stderr
    assert run("compress", words, target, *QUICK, "--fresh").exit_code == 0
    assert not Path(f"{target}.checkpoint").exists()


SIGNALLED = """
import os, signal, sys
from kdcode.cli import main
from kdcode.learning.planning.predictor import Predictor
from kdcode.learning.run import Run
number, place = int(sys.argv.pop(1)), sys.argv.pop(1)
after_step, predict, probed = Run.after_step, Predictor._predict, []
def learning(self, report, *state):
    if place == "learning" and report.step == 20:
        os.kill(os.getpid(), number)
    after_step(self, report, *state)
def planning(self, options):
    probed.append(options)
    if place == "planning" and len(probed) == 3:
        os.kill(os.getpid(), number)
    return predict(self, options)
Run.after_step, Predictor._predict = learning, planning
main()
"""
"""The command, with a signal during its twentieth step, or during its third probe."""

ONE_CORE = {**os.environ, "OMP_NUM_THREADS": "1"}
STOPPED = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped by SIGTERM", signal.SIGHUP: "stopped by SIGHUP"}
LEARN = ("-K", "8", "-D", "4", "--learner", "straight-through", "--epochs", "8", "--batch-size", "100", "--json")
PLAN = ("--size", "8x", "--effort", "fast", "--codewords", "--json")


def signalled(number, place, *args, **settings):
    """Run a command that a signal comes to."""
    words = [sys.executable, "-c", SIGNALLED, str(int(number)), place, *map(str, args)]
    return subprocess.run(words, env=ONE_CORE, capture_output=True, text=True, check=False, **settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A table, and the files of runs that nobody stopped, by where the others are stopped."""
    folder = tmp_path_factory.mktemp("whole")
    kdcode.write(glove_50d().head(500), folder / "glove.txt")
    for place, flags in {"learning": LEARN, "planning": PLAN}.items():
        words = ["compress", folder / "glove.txt", folder / place, *flags]
        assert CliRunner().invoke(main, list(map(str, words))).exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("place", "flags", "number"),
    [
        *(pytest.param("learning", LEARN, number, marks=pytest.mark.slow) for number in STOPPED),
        ("planning", PLAN, signal.SIGTERM),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", ""),
)
def test_a_signal_and_the_same_command_again_end_as_if_nothing_had_happened(
    run, undisturbed, tmp_path, place, flags, number
):
    source, target = undisturbed / "glove.txt", tmp_path / "out.kdc"
    stopped = signalled(number, place, "compress", source, target, *flags)
    checkpoint = Path(f"{target}.checkpoint")
    assert stopped.returncode == 128 + number, stopped.stderr
    assert stopped.stdout == ""
    assert stopped.stderr.splitlines()[-1] == f"{STOPPED[number]}; the same command resumes from {checkpoint}"
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.name]

    again = run("compress", source, target, *flags)
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["resumed_step"] == (20 if place == "learning" else 0)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == (undisturbed / place).read_bytes()


@pytest.mark.slow
def test_nohup_is_for_runs_whose_terminal_is_closed(undisturbed, tmp_path):
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    done = signalled(
        signal.SIGHUP, "learning", "compress", undisturbed / "glove.txt", tmp_path / "out.kdc", *LEARN, **ignoring
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.kdc").read_bytes() == (undisturbed / "learning").read_bytes()


@pytest.mark.slow
def test_a_terminal_that_is_closed_leaves_a_checkpoint(undisturbed, tmp_path):
    source, target = undisturbed / "glove.txt", tmp_path / "out.kdc"
    child, terminal = pty.fork()
    if child == 0:
        flags = ("-K", "16", "-D", "16", "--learner", "straight-through", "--epochs", "3000", "--batch-size", "100")
        os.execve(sys.executable, [sys.executable, "-m", "kdcode", "compress", source, target, *flags], ONE_CORE)
    shown = b""
    while b"loss" not in shown:  # steps are being made
        shown += os.read(terminal, 1000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGHUP
    checkpoint = Path(f"{target}.checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.name]
    assert read_checkpoint(checkpoint)["state"]["step"] > 0


@pytest.mark.parametrize("goal", [QUICK, ("--size", "4x", "--effort", "fast")])
def test_equal_runs_give_equal_files(run, words, tmp_path, goal):
    """On the command line, in Python, and after waiting."""
    with_progress = [run("compress", words, tmp_path / name, *goal) for name in ("a.kdc", "b.kdc")]
    assert [result.exit_code for result in with_progress] == [0, 0]
    assert (tmp_path / "a.kdc").read_bytes() == (tmp_path / "b.kdc").read_bytes()
    facts = json.loads(run("compress", words, tmp_path / "c.kdc", *goal, "--json").stdout)
    assert facts["seconds"] >= 0
    assert "seconds" not in facts["provenance"]
    options = {"size": "4x"} if "--size" in goal else {"codebook_size": 4, "code_length": 3}
    kdcode.save(kdcode.compress(words, effort="fast", **options), tmp_path / "d.kdc")
    assert (tmp_path / "a.kdc").read_bytes() == (tmp_path / "c.kdc").read_bytes() == (tmp_path / "d.kdc").read_bytes()


def at_each_step(monkeypatch, do):
    """Call a function after every step of the runs to come."""
    after_step = Run.after_step

    def also(self, report, *state):
        after_step(self, report, *state)
        do(report)

    monkeypatch.setattr(Run, "after_step", also)


LONGER = ("-K", "4", "-D", "9", "--effort", "fast")


@pytest.mark.parametrize("other", [LONGER, (*LONGER, "--seed", "1"), (*LONGER, "--fresh", "--force")])
def test_two_runs_with_one_out_are_refused(run, words, tmp_path, monkeypatch, other):
    target, refused = tmp_path / "out.kdc", []
    (tmp_path / "link.kdc").symlink_to(target)
    target.write_text("old")

    def begin_another(report):
        if report.step == 1:
            refused.extend(
                run("compress", words, tmp_path / name, *other, "--force") for name in ("out.kdc", "link.kdc")
            )

    at_each_step(monkeypatch, begin_another)
    first = run("compress", words, target, *LONGER, "--force")
    assert first.exit_code == 0, first.stderr
    for result, name in zip(refused, ("out.kdc", "link.kdc"), strict=True):
        assert result.exit_code == 1
        expected = (
            f"{tmp_path / name}: another run is writing it: process {os.getpid()} is using it; wait until it ends"
        )
        assert expected in result.stderr
        assert "--fresh starts over" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.kdc", "out.kdc", "words.txt"]
    assert len(kdcode.load(target)) == 60


def test_a_full_disk_is_told_once_and_learning_goes_on(run, words, tmp_path, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(Checkpoint, "due", lambda _: True)

    def fill(report):
        if report.step in (2, 5):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]) if report.step == 2 else before)

    at_each_step(monkeypatch, fill)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run("compress", words, tmp_path / "out.kdc", *LONGER)
    assert result.exit_code == 0, result.stderr
    told = [line for line in result.stderr.splitlines() if line.startswith("warning:")]
    kept = tmp_path / "out.kdc.checkpoint"
    assert told == [
        f"warning: {kept}: cannot be written: File too large; learning goes on, and the checkpoint from before stays"
    ]


def killed_before_tidying_up(run, monkeypatch, *args):
    """A run that ends as if killed between writing OUT and removing its checkpoint."""

    def die(_):
        raise SystemExit(137)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "remove", die)
        assert run("compress", *args).exit_code == 137


def test_a_run_that_was_killed_when_all_but_its_checkpoint_was_done_can_be_repeated(run, words, tmp_path, monkeypatch):
    target, kept = tmp_path / "out.kdc", tmp_path / "out.kdc.checkpoint"
    killed_before_tidying_up(run, monkeypatch, words, target, *QUICK)
    whole = target.read_bytes()
    assert kept.exists()
    other = run("compress", words, target, *QUICK, "--seed", "1")
    assert other.exit_code == 1
    assert "another table or other options" in other.stderr
    fresh = run("compress", words, target, *QUICK, "--seed", "1", "--fresh")
    assert "exists already, --force replaces it" in fresh.stderr
    assert target.read_bytes() == whole
    assert run("compress", words, target, *QUICK).exit_code == 0
    assert target.read_bytes() == whole
    assert not kept.exists()


@pytest.mark.parametrize("content", [b"old", None])
def test_a_checkpoint_is_no_leave_to_replace_another_file(run, words, tmp_path, monkeypatch, content):
    target = tmp_path / "out.kdc"
    if content is None:
        assert run("compress", words, target, *QUICK, "--seed", "1").exit_code == 0
        content = target.read_bytes()
    killed_before_tidying_up(run, monkeypatch, words, target, *QUICK, "--force")
    target.write_bytes(content)
    refused = run("compress", words, target, *QUICK)
    assert refused.exit_code == 1
    assert "exists already, --force replaces it" in refused.stderr
    assert target.read_bytes() == content


def test_what_a_killed_run_left_is_removed_even_where_out_is_complete(run, words, tmp_path):
    target = tmp_path / "out.kdc"
    assert run("compress", words, target, *QUICK).exit_code == 0
    os.close(new_temporary(tmp_path, 0o666)[1])
    assert len(list(tmp_path.iterdir())) == 3
    assert run("compress", words, target, *QUICK).exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.kdc", "words.txt"]


@pytest.mark.parametrize("goal", [("--size", "2000x"), ("--max-error", "0.0000001"), ("--size", "40KB")])
def test_a_plan_that_cannot_be_made_leaves_no_checkpoint(run, words, tmp_path, goal):
    assert run("compress", words, tmp_path / "out.kdc", *goal, "--effort", "fast").exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["words.txt"]


@pytest.mark.parametrize("goal", [QUICK, ("--size", "4x", "--effort", "fast")])
def test_any_number_of_threads_gives_the_same_file(run, words, tmp_path, goal):
    packed = []
    for count in ("1", "3"):
        target = tmp_path / f"{count}.kdc"
        assert run("compress", words, target, *goal, "--threads", count).exit_code == 0
        packed.append(kdcode.load(target).packed)
    assert np.array_equal(*packed)


@pytest.mark.parametrize("command", ["compress", "plan"])
def test_threads_reach_the_library(run, words, tmp_path, monkeypatch, command):
    seen = []

    def asked(count):
        seen.append(count)
        return using_threads(count)

    monkeypatch.setattr("kdcode.learning.compression.using_threads", asked)
    monkeypatch.setattr("kdcode.learning.planning.planner.using_threads", asked)
    target = [tmp_path / "out.kdc"] if command == "compress" else []
    result = run(command, words, *target, "--size", "4x", "--effort", "fast", "--threads", "3")
    assert result.exit_code == 0, result.stderr
    assert seen == [3] * len(seen)
    assert len(seen) == (2 if command == "compress" else 1)


def test_less_than_one_thread_is_refused(run, words, tmp_path):
    result = run("compress", words, tmp_path / "out.kdc", "--threads", "0")
    assert result.exit_code == 2
    assert "--threads" in result.stderr
