"""`-` for standard input and output, and pipes where files are expected."""

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import kdcode
from kdcode.cli import main
from kdcode.errors import FormatError
from kdcode.io import FORMATS, read, write

TINY = ("-K", "4", "-D", "2", "--effort", "fast")


@pytest.fixture
def plain(tmp_path, coded):
    """A .kdc file whose symbols every format can hold."""
    path = tmp_path / "plain.kdc"
    kdcode.save(kdcode.CodedTable.from_codes(["a", "b", "c"], coded.codes[:3], coded.codec), path)
    return path


def run(*args, stdin=b""):
    """Runs a command with bytes on standard input."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    "words",
    [
        ["info", "-"],
        ["info", "-", "--json"],
        ["get", "-", "a"],
        ["neighbors", "-", "a"],
        ["codes", "-"],
        ["verify", "-"],
    ],
)
def test_a_kdc_file_on_standard_input_is_a_file_like_any_other(plain, words):
    from_stdin = run(*words, stdin=plain.read_bytes())
    from_file = run(*[plain if word == "-" else word for word in words])
    assert (from_stdin.exit_code, from_stdin.stderr) == (0, from_file.stderr) == (from_file.exit_code, "")
    names = {"info": {"standard input": str(plain), '"-"': f'"{plain}"'}, "verify": {"standard input": str(plain)}}
    expected = from_stdin.stdout
    for shown, name in names.get(words[0], {}).items():
        expected = expected.replace(shown, name)
    assert expected == from_file.stdout


@pytest.mark.parametrize("name", [name for name, known in FORMATS.items() if known.write])
def test_expand_to_standard_output_and_a_table_on_standard_input(plain, tmp_path, name):
    result = run("expand", plain, "-", "--format", name)
    if name in ("npy", "safetensors"):
        assert (result.exit_code, result.stdout_bytes) == (1, b"")
        assert "puts the symbols in a second file" in result.stderr
        assert "--format" in result.stderr
        return
    assert (result.exit_code, result.stderr) == (0, f"standard output  3 x 2, {len(result.stdout_bytes):,} B\n")
    write(kdcode.load(plain), tmp_path / "out", format=name)
    assert result.stdout_bytes == (tmp_path / "out").read_bytes()
    found = json.loads(run("verify", plain, "-", "--json", "--format", name, stdin=result.stdout_bytes).stdout)
    assert (found["relative_error"], found["original"]) == (0.0, "-")


def test_expand_writes_glove_text_by_default_and_says_nothing_when_quiet(plain):
    result = run("expand", "-", "-", "--quiet", stdin=plain.read_bytes())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == "a 3.125 -3.125"


def test_compress_from_and_to_the_pipes_gives_the_same_bytes_as_files(words, tmp_path):
    whole = run("compress", words, tmp_path / "out.kdc", *TINY)
    assert whole.exit_code == 0
    made = kdcode.load(tmp_path / "out.kdc")
    piped = run("compress", "-", "-", *TINY, stdin=words.read_bytes())
    assert piped.exit_code == 0, piped.stderr
    (tmp_path / "piped.kdc").write_bytes(piped.stdout_bytes)
    again = kdcode.load(tmp_path / "piped.kdc")
    assert np.array_equal(again.codes, made.codes)
    assert list(again.symbols) == list(made.symbols)
    assert "relative error" in piped.stderr
    assert run("compress", words, "-", *TINY, "--quiet").stderr == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.kdc", "piped.kdc", "words.txt"]


def test_a_table_from_standard_input_is_not_read_again_by_the_commands_that_come_next(words, tmp_path):
    result = run("compress", "-", tmp_path / "out.kdc", *TINY, stdin=words.read_bytes())
    assert result.exit_code == 0, result.stderr
    assert "kdcode info" in result.stdout
    assert "kdcode verify" not in result.stdout


def test_plan_and_weights_take_standard_input(words):
    weights = "".join(f"word{row} {row + 1}\n" for row in range(60)).encode()
    asked = ("--bits", "8", "--effort", "fast", "--json", "--quiet")
    assert json.loads(run("plan", "-", *asked, stdin=words.read_bytes()).stdout)
    weighted = run("plan", words, *asked, "--weights", "-", stdin=weights)
    assert (weighted.exit_code, weighted.stderr) == (0, "")


@pytest.mark.parametrize(
    "line", [["verify", "-", "-"], ["get", "-", "-"], ["compress", "-", "out.kdc", *TINY, "--weights", "-"]]
)
def test_standard_input_is_read_only_once(plain, words, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    content = words if line[0] in ("compress", "verify") else plain
    result = run(*line, stdin=content.read_bytes())
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: - stands for standard input, which can be read only once")


def test_a_kdc_file_is_not_written_to_a_terminal_nor_beside_json(words):
    refused = run("compress", words, "-", *TINY, "--json")
    assert (refused.exit_code, "--json and OUT - both write to standard output" in refused.stderr) == (2, True)
    own, terminal = pty.openpty()
    line = [sys.executable, "-m", "kdcode", "compress", words, "-", *TINY]
    refused = subprocess.run(line, stdout=terminal, stderr=subprocess.PIPE, check=False)
    os.close(terminal)
    os.close(own)
    assert refused.returncode == 1
    assert b"not for a terminal" in refused.stderr


def test_messages_name_standard_input_and_no_temporary_file(words, tmp_path):
    bad = words.read_bytes() + b"word0 1 2 3\n"
    refused = run("plan", "-", "--size", "2x", stdin=bad)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: standard input: line 61: ")
    skipping = run("compress", "-", tmp_path / "out.kdc", *TINY, "--on-bad-line", "skip", "--quiet", stdin=bad)
    assert skipping.stderr.startswith("warning: standard input: skipped 1 bad lines or rows, the first: line 61")
    assert run("info", "-", stdin=b"no table").stderr.startswith("error: standard input: ")


def test_a_chosen_tensor_is_told(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    save_file(
        {"bert.embeddings.word_embeddings.weight": matrix, "out.weight": np.ones((8, 8))}, tmp_path / "m.safetensors"
    )
    expected = "read the tensor 'bert.embeddings.word_embeddings.weight', 60 x 8; another one is read with --tensor\n"
    told = run("compress", tmp_path / "m.safetensors", tmp_path / "out.kdc", *TINY, "--quiet")
    assert told.stderr == f"note: {tmp_path / 'm.safetensors'}: {expected}"
    told = run("compress", "-", tmp_path / "b.kdc", *TINY, "--quiet", stdin=(tmp_path / "m.safetensors").read_bytes())
    assert told.stderr == f"note: standard input: {expected}"


@pytest.fixture
def pipe(tmp_path):
    """A named pipe that gives these bytes to whoever reads it first."""
    writers = []

    def make(content, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=[content], daemon=True))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join(timeout=300)
        assert not writer.is_alive()


@pytest.mark.parametrize("name", ["pipe", "pipe.txt"])
def test_the_library_reads_a_pipe_whole(words, pipe, name):
    table = read(pipe(words.read_bytes(), name))
    expected = read(words)
    assert list(table.symbols) == list(expected.symbols)
    assert np.array_equal(table.matrix, expected.matrix)


def test_a_mapped_file_from_a_pipe_outlives_its_copy(pipe, tmp_path):
    matrix = np.arange(600, dtype=np.float32).reshape(100, 6)
    np.save(tmp_path / "a.npy", matrix)
    table = read(pipe((tmp_path / "a.npy").read_bytes()))
    assert np.array_equal(table.matrix, matrix)


def test_what_is_wrong_in_a_pipe_is_told_of_the_pipe(words, pipe):
    path = pipe(words.read_bytes() + b"word0 1 2 3\n")
    with pytest.raises(FormatError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: line 61: ")


def test_commands_read_a_pipe(plain, pipe):
    assert run("get", pipe(plain.read_bytes()), "a").stdout == run("get", plain, "a").stdout


def test_nothing_is_left_behind(plain, words, tmp_path):
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    for line, source in (
        (["expand", "-", "-"], plain),
        (["get", "-", "nothing"], plain),
        (["plan", "-", "--size", "9GB"], words),
    ):
        with Path(source).open("rb") as stream:
            subprocess.run(
                [sys.executable, "-m", "kdcode", *line], stdin=stream, env=environment, capture_output=True, check=False
            )
        assert list((tmp_path / "temporary").iterdir()) == []
