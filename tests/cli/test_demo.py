"""The demo's page: one real run, and every claim on it checked against the file it leaves."""

import re

import click
import pytest
from click.testing import CliRunner

import kdcode
from kdcode.cli import main
from kdcode.cli.demo_page import PAIRS, WORDS, Demo, Sized, render
from kdcode.data import glove_50d


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    target = tmp_path_factory.mktemp("demo") / "demo.kdc"
    words = ["demo", "--out", str(target), "--report", str(target.with_name("r.html")), "--quiet"]
    return CliRunner().invoke(main, words), target


def test_the_page_fits_a_terminal_and_is_plain_when_piped(ran):
    result, _ = ran
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60
    assert "\x1b" not in result.stdout


def test_sizes_and_loss_are_those_of_the_file(ran):
    result, target = ran
    coded, table = kdcode.load(target), glove_50d()
    found, file_bytes = kdcode.evaluate(table, coded), target.stat().st_size
    ratio, file_ratio = coded.sizes.ratio(10_000, 50), coded.sizes.file_ratio(10_000, 50, file_bytes)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["vectors", "2,000,000", f"{coded.sizes.embedding:,}", f"{ratio:.1f}x", "smaller"] in lines
    assert ["file", f"{2_000_000 + coded.sizes.symbols:,}", f"{file_bytes:,}", f"{file_ratio:.1f}x", "smaller"] in lines
    rows = {line[1]: line for line in lines if line[:1] == ["--size"]}
    assert list(rows) == ["10x", "20x", "40x"]
    bytes_, error, cosine, recall = rows["20x"][2:6]
    assert (bytes_, error, cosine) == (
        f"{coded.sizes.embedding:,}",
        f"{found.relative_error:.4f}",
        f"{found.mean_cosine:.4f}",
    )
    assert recall == f"{found.recall_at_10:.0%}"
    assert 150_000 < int(rows["10x"][2].replace(",", "")) <= 200_000


def test_neighbours_and_codes_are_those_of_the_file(ran):
    result, target = ran
    coded = kdcode.load(target)
    lines = [line.split() for line in result.stdout.splitlines()]
    for word in WORDS:
        shown = next(line for line in lines if line[:1] == [word] and line[-1].endswith("/4"))
        before, after = ([near.symbol for near in table.neighbors(word, 4)] for table in (glove_50d(), coded))
        assert shown[-1] == f"{len(set(before) & set(after))}/4"
    codes = [line for line in lines for word in (word for pair in PAIRS for word in pair) if line[:1] == [word]]
    codes = [[int(value) for value in line[1:17]] for line in codes if len(line) >= 17 and line[1].isdigit()]
    assert len(codes) == 4
    assert all(0 <= value < 16 for code in codes for value in code)


def test_weekdays_share_a_code(ran):
    result, _ = ran
    group = next(line for line in result.stdout.splitlines() if re.match(r"  (\d-){3}\d  monday ", line))
    assert "tuesday" in group
    assert "thursday" in group


def test_the_commands_it_ends_with_work(ran, run):
    result, target = ran
    commands = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("  kdcode ")]
    assert commands[0][:3] == ["compress", "vectors.txt", "vectors.kdc"]
    assert commands[0][3:] == ["--size", "20x"]
    for words in commands[1:]:
        assert str(target) in words
        assert run(*words).exit_code == 0


def test_an_existing_file_is_refused_before_any_work(ran, run):
    _, target = ran
    before = target.read_bytes()
    for flag, file in (("--out", target), ("--report", target.with_name("r.html"))):
        result = run("demo", flag, file)
        assert result.exit_code == 1
        assert "--force" in result.stderr
        assert run("demo", flag, "-").exit_code == 2
    assert target.read_bytes() == before


def test_the_report_is_written_and_named(ran):
    result, target = ran
    page = target.with_name("r.html")
    assert f"\n  {page}\n" in result.stdout
    coded = kdcode.load(target)
    text = page.read_text(encoding="utf-8")
    assert f"{kdcode.evaluate(glove_50d(), coded).relative_error:.4f}" in text
    assert "All 10,000 symbols are in this page." in text
    assert len(text.encode()) < 5_000_000


def test_the_page_has_colours_for_a_terminal(ran):
    _, target = ran
    coded, table = kdcode.load(target), glove_50d()
    words = kdcode.compress(table, codebook_size=4, code_length=4, effort="fast")
    lines = list(render(Demo(table, [Sized("20x", coded, target.stat().st_size, 1.5)], 0, words, words, None)))
    assert any("\x1b[" in line for line in lines)
    assert max(len(click.unstyle(line)) for line in lines) <= 80
