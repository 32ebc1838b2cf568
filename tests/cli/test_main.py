"""The command as a whole: help, start-up, pipes, missing torch, the generated page."""

import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import transformers

import kdcode
from kdcode.cli import COMMANDS, main
from kdcode.data import glove_50d
from kdcode.errors import KdcodeError

ROOT = Path(__file__).parents[2]


def python(script: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, **settings)


def examples(name: str) -> list[str]:
    group = click.Context(main, info_name="kdcode", **main.context_settings)
    text = main.get_command(group, name).epilog
    return [line.strip() for line in text.splitlines()[2:]]


def test_help_loads_little(start):
    """Start-up is importing: what help takes is told by the modules it needs, and not by a clock."""
    out, _ = start("--help").communicate()
    assert all(f"  {name} " in out for name in COMMANDS)
    script = (
        "import sys; before = set(sys.modules); from kdcode.cli import main; main(['--help'], standalone_mode=False)\n"
        "print(len(set(sys.modules) - before), file=sys.stderr)"
    )
    assert int(python(script).stderr) < 200  # click and the commands are 130; numpy alone would be as many again


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["get", "--help"], ["demo", "--help"]])
def test_help_needs_neither_numpy_nor_torch(words):
    script = (
        f"import sys; from kdcode.cli import main; main({words}, standalone_mode=False)\n"
        "print(sorted({'numpy', 'torch', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    assert python(script).stderr == "[]\n"


@pytest.mark.parametrize("flag", ["--help", "--help-all"])
def test_compress_help_needs_no_torch(flag):
    script = f"import sys; from kdcode.cli import main; main(['compress', '{flag}'], standalone_mode=False)\n"
    assert python(script + "assert 'torch' not in sys.modules").returncode == 0


def test_version(run):
    assert run("--version").stdout == f"kdcode {kdcode.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_an_example(run, name):
    lines = run(name, "--help").stdout.rstrip().splitlines()
    assert lines[-1].strip() == examples(name)[-1]
    assert f"kdcode {name}" in lines[-1]


def test_the_examples_work_as_they_stand(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["king", "queen", *glove_50d().symbols[:400]]
    kdcode.write(kdcode.VectorTable(words, np.stack([glove_50d()[word] for word in words])), "glove.txt")
    Path("parts").mkdir()
    for number, path in enumerate(("parts/0.parquet", "parts/1.parquet", "new.parquet", "more.parquet")):
        kdcode.write(glove_50d().select(slice(300 * number, 300 * (number + 1))), path)
    shape = {"vocab_size": 5000, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1}
    transformers.BertModel(transformers.BertConfig(**shape, num_attention_heads=1)).save_pretrained("all-MiniLM-L6-v2")
    Path("ws353.txt").write_text("king queen 9\nthe of 3\n")
    Path("questions-words.txt").write_text("king queen the of\n")
    for small in ("20x.kdc", "40x.kdc"):
        kdcode.save(kdcode.compress("glove.txt", "4x", effort="fast"), small)
    for name in COMMANDS:
        for line in examples(name) if name not in ("demo", "completion") else []:
            if "--engine ray" in line:
                continue  # tests/integrations/test_ray_encoding.py starts Ray, which takes long
            words = shlex.split(re.split(" [<>|] ", line)[0])
            result = run(*words[1:], stdin="king\nqueen\n")
            may_fail = {"--prefix", "--min-cosine"} & set(words)  # no such code, or a gate that is not passed
            assert result.exit_code == 0 or may_fail, (line, result.stderr)


def test_docs_are_up_to_date():
    generator = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == generator["page"](), "run: python docs/make_cli.py"


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_without_torch_learners_by_gradient_say_what_to_install(learner, words, tmp_path):
    filled = ["compress", str(words), str(tmp_path / "out.kdc"), "--learner", learner, "--quiet"]
    result = python(f"import sys; sys.modules['torch'] = None\nfrom kdcode.cli import main; main({filled})")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "pip install 'torch>=" in result.stderr
    assert result.stderr.count("\n") == 1


def test_all_other_commands_work_without_torch(kdc, tmp_path):
    lines = [
        ["info", str(kdc)],
        ["get", str(kdc), "monday"],
        ["neighbors", str(kdc), "monday"],
        ["codes", str(kdc)],
        ["expand", str(kdc), str(tmp_path / "out.parquet")],
        ["export", str(kdc), str(tmp_path / "out.onnx"), "--check"],
        ["verify", str(kdc), str(tmp_path / "out.parquet")],
        ["formats"],
        ["completion", "bash"],
    ]
    script = "import sys; sys.modules['torch'] = None\nfrom kdcode.cli import main\n"
    result = python(script + "".join(f"main({line}, standalone_mode=False)\n" for line in lines))
    assert result.returncode == 0, result.stderr


def test_an_unknown_command_is_wrong_usage(run):
    result = run("squash")
    assert result.exit_code == 2
    assert "squash" in result.stderr


@pytest.mark.parametrize("words", [["-"], ["-", "--json"], ["-", "--codes"]])
def test_a_reader_that_leaves_ends_it_quietly(start, kdc, tmp_path, words):
    many = tmp_path / "many.txt"
    many.write_text("monday\n" * 20_000)
    with many.open() as stream:
        # without a buffer Python does not notice that the rest of a long text was not taken
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        process = start("get", kdc, *words, stdin=stream, env=environment)
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait()
    assert (err, process.returncode) == ("", 1)


def test_a_system_error_is_one_line(run, kdc, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "small.kdc")

    monkeypatch.setattr("kdcode.storage.load", refuse)
    result = run("info", kdc)
    assert (result.exit_code, result.stderr) == (1, "error: small.kdc: Permission denied\n")


def test_ctrl_c_anywhere_else_is_130(run, kdc, monkeypatch):
    monkeypatch.setattr("kdcode.storage.load", lambda _: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores the signal
    try:
        result = run("info", kdc)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_every_refusal_of_the_library_is_an_exit_code(run, kdc, monkeypatch):
    def refuse(_):
        raise KdcodeError("because")

    monkeypatch.setattr("kdcode.storage.load", refuse)
    result = run("info", kdc)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: because\n")


def test_a_terminal_that_cannot_show_a_symbol_is_no_failure(start, tmp_path, coded):
    named = kdcode.CodedTable.from_codes(["naïve", "☃"], coded.codes[:2], coded.codec)
    kdcode.save(named, tmp_path / "a.kdc")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    process = start("codes", tmp_path / "a.kdc", env=environment, encoding="latin-1")
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "3-1-0  naïve \\u2603\n", "")


def test_a_device_that_is_not_there_is_named_by_its_flag(run, words):
    result = run("plan", words, "--size", "2x", "--device", "toaster")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: --device must be one that torch can use here, got 'toaster': ")


DIALECTS = [
    (b"poem", "a.xyz", {}, "name it with {}: glove", "format"),
    (b"2 2\na 1 2\n", "a.vec", {}, "({} reads the rows that are there)", "limit"),
    (b"hello\nworld", "a.bin", {}, "name the format with {}", "format"),
    (b"a 1 2\n", "a.txt", {"tensor": "w"}, "the option {} does not apply", "tensor"),
    (b"a,1\nb,2\n", "a.csv", {"symbol_column": "w"}, "as {} asks", "symbol_column"),
]


@pytest.mark.parametrize(("content", "name", "options", "said", "keyword"), DIALECTS)
def test_the_same_refusal_names_keywords_in_python_and_flags_on_the_command_line(
    run, tmp_path, content, name, options, said, keyword
):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(KdcodeError) as refused:
        kdcode.read(path, **options)
    assert said.format(f"{keyword}=") in str(refused.value)
    flag = f"--{keyword.replace('_', '-')}"
    given = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    result = run("plan", path, "--size", "2x", *given)
    assert result.exit_code == 1
    assert said.format(flag) in result.stderr
    assert f"{keyword}=" not in result.stderr


def test_a_command_that_is_nearly_there_is_named(run):
    result = run("compres", "a", "b")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such command 'compres'; did you mean 'compress'?" in result.stderr
    assert "did you mean" not in run("xyzzy").stderr
