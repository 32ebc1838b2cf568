"""A small file made by hand, and a way to run commands as a user does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import kdcode
from kdcode.cli import main
from kdcode.codec import CodewordSpec, make_codec

SYMBOLS = ["monday", "tuesday", "wednesday", "france", "Paris", "new\nline"]
CODES = [[3, 1, 0], [3, 1, 0], [3, 1, 0], [3, 1, 2], [0, 1, 2], [0, 1, 2]]

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs a command in this process; anything but a clean exit is an error of the test."""

    def invoke(*args: object, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def coded() -> kdcode.CodedTable:
    """Six symbols, K=4, D=3, d=2; positions add code, code/8 and code/16 to the first number, negated to the second."""
    values = np.arange(4)[None, :, None] * np.array([1, 0.125, 0.0625])[:, None, None] * np.array([1, -1])
    spec = CodewordSpec.named("linear", 2, 4, 3, codebook_dtype="float32")
    return kdcode.CodedTable.from_codes(SYMBOLS, np.array(CODES), make_codec(spec, {"codebook": values}))


@pytest.fixture
def kdc(tmp_path: Path, coded: kdcode.CodedTable) -> Path:
    path = tmp_path / "small.kdc"
    kdcode.save(coded, path)
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A text table of 60 words and 8 dimensions."""
    numbers = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"word{row} {' '.join(map(str, numbers[row]))}\n" for row in range(60)), encoding="utf-8")
    return path


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command as a process of its own; what still runs when the test ends is ended."""
    with ExitStack() as stack:

        def begin(*args: object, **settings: object) -> subprocess.Popen[str]:
            words = [sys.executable, "-m", "kdcode", *map(str, args)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            process = stack.enter_context(subprocess.Popen(words, **pipes, **settings))
            stack.callback(process.kill)
            return process

        yield begin
