"""docs/reliability.md names tests that are there, one for every promise."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
PROMISES = [
    line.strip("|").rpartition("|")
    for line in PAGE.partition("## What is not promised")[0].splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| promise |"))
]


def test_there_are_promises():
    assert len(PROMISES) >= 30


@pytest.mark.parametrize(("promise", "named"), [(left.strip(), right) for left, _, right in PROMISES])
def test_the_test_that_holds_a_promise_is_there(promise, named):
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", named)
    assert tests, f"{promise}: no test is named"
    for file, name in tests:
        code = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name}\(", code, flags=re.MULTILINE), f"{file} has no {name}"
