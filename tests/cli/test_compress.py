import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import kdcode
from kdcode.codec_torch.parallel import using_threads
from kdcode.data import glove_50d
from kdcode.evaluation import reconstruction
from kdcode.learning import Checkpoint, compress
from kdcode.symbols import StoredSymbols

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
        ("no/such/out.kdc", "does not exist"),
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


def test_ctrl_c_and_the_same_command_again_end_as_if_nothing_had_happened(start, tmp_path):
    source, target, whole = tmp_path / "glove.txt", tmp_path / "out.kdc", tmp_path / "whole.kdc"
    kdcode.write(glove_50d().head(2000), source)
    learner = ("--learner", "straight-through", "--epochs", "15", "--batch-size", "100")
    flags = ("-K", "8", "-D", "4", *learner, "--json")
    one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = start("compress", source, target, *flags, env=one_core)
    while "Ctrl-C" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.5)
    assert process.poll() is None, "the run must last longer than this to be interrupted"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    checkpoint = Path(f"{target}.checkpoint")
    assert process.returncode == 130, err
    assert out == ""
    assert f"the same command resumes from {checkpoint}" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, checkpoint.name]

    again = start("compress", source, target, *flags, env=one_core)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert "resuming from step" in err
    assert json.loads(out)["resumed_step"] > 0
    assert not checkpoint.exists()

    straight = start("compress", source, whole, *flags, env=one_core)
    out, err = straight.communicate(timeout=60)
    assert straight.returncode == 0, err
    assert np.array_equal(kdcode.load(target).packed, kdcode.load(whole).packed)
    stored, expected = (kdcode.load(path).codec.tensors() for path in (target, whole))
    assert all(np.array_equal(stored[name], expected[name]) for name in expected)


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
