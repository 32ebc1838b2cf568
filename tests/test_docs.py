"""The pages are true: their code runs, their map shows the files that are there, their links lead somewhere."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kdcode.cli import main

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
DESIGN = ROOT / "docs" / "design.md"
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith((".", "build")) for part in path.relative_to(ROOT).parts)
)
NOT_RUN = "<!-- not run -->"
OUTPUT = "#> "
"""How a block writes a line that it prints. A block with such lines must print them and nothing else."""

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")


class Block(NamedTuple):
    """A fenced block of a page, the line it starts in, and whether the page says that it is not run."""

    language: str
    code: str
    line: int
    skipped: bool


def blocks_of(page: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(page):
        before = page[: match.start()]
        skipped = before.rstrip().endswith(NOT_RUN)
        found.append(Block(match[1], match[2], before.count("\n") + 2, skipped))
    return found


def run_python(block: Block, path: Path, namespace: dict[str, object]) -> None:
    code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")  # errors then name the line of the page
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    expected = [line.removeprefix(OUTPUT) for line in block.code.splitlines() if line.startswith(OUTPUT)]
    if expected:
        assert printed.getvalue().splitlines() == expected, f"{path}: the block at line {block.line} prints otherwise"


def run_commands(block: Block, path: Path) -> None:
    for line in block.code.splitlines():
        if line.startswith("kdcode "):
            done = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
            assert done.exit_code == 0, f"{path}: {line}\n{done.output}"


def test_formatters_have_left_the_printed_lines_alone():
    lines = TUTORIAL.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line.startswith("# > ")]  # such a line would be checked no more
    assert len([line for line in lines if line.startswith(OUTPUT)]) >= 12


@pytest.mark.filterwarnings("ignore::kdcode.formats.SkippedLinesWarning")
@pytest.mark.parametrize("path", [ROOT / "README.md", TUTORIAL], ids=lambda path: path.name)
def test_the_code_of_a_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": path.stem}
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language == "python" and not block.skipped:
            run_python(block, path, namespace)
        if block.language == "sh" and path == TUTORIAL:  # the README may speak of files that are not here
            run_commands(block, path)


@pytest.mark.parametrize("path", [ROOT / "README.md", TUTORIAL], ids=lambda path: path.name)
def test_most_code_of_a_page_is_run(path):
    code = [block for block in blocks_of(path.read_text(encoding="utf-8")) if block.language == "python"]
    skipped = [block for block in code if block.skipped]
    assert code or path != TUTORIAL
    assert len(skipped) <= len(code) / 3, f"{len(skipped)} of {len(code)} blocks are not run"


def tree(text: str) -> set[str]:
    """The paths of an indented tree: "a.py, b.py  what they are", two spaces a level; folders end in a slash."""
    paths, folders = set(), [""]
    for line in text.splitlines():
        if names := re.match(r"\s*((\S+, )*\S+)", line):
            level = (len(line) - len(line.lstrip())) // 2
            above = "".join(folders[: level + 1])
            paths |= {above + name for name in names[1].split(", ")}
            folders[level + 1 :] = [names[1]]
    return paths


def the_map() -> set[str]:
    section = DESIGN.read_text(encoding="utf-8").partition("## The map\n")[2]
    return tree(blocks_of(section)[0].code)


def test_everything_on_the_map_is_there():
    gone = sorted(
        name for name in the_map() if not ((ROOT / name).is_dir() if name.endswith("/") else (ROOT / name).is_file())
    )
    assert not gone


def test_every_module_is_on_the_map():
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")}
    named = {f"{name}__init__.py" if name.endswith("/") else name for name in the_map()}  # a folder names its package
    assert not sorted(modules - named)


def slug(heading: str) -> str:
    """The anchor that a heading gets on the web."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(path: Path) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    broken = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            broken.append(link)
        elif anchor and target.suffix == ".md":
            page = FENCE.sub("", target.read_text(encoding="utf-8"))
            if anchor not in {slug(heading) for heading in re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)}:
                broken.append(link)
    return broken


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert not broken_links(path)


def test_the_checks_see_what_they_should(tmp_path):
    page = f"a\n```python\nx = 1\n```\n\n{NOT_RUN}\n```python\nx = 2\n```\n```sh\nkdcode --version\n```\n"
    assert [(block.language, block.line, block.skipped) for block in blocks_of(page)] == [
        ("python", 3, False),
        ("python", 8, True),
        ("sh", 11, False),
    ]
    run_python(Block("python", "print(1)\n#> 1\n", 1, False), tmp_path, {})
    with pytest.raises(AssertionError, match="prints otherwise"):
        run_python(Block("python", "print(2)\n#> 1\n", 1, False), tmp_path, {})
    with pytest.raises(AssertionError, match="no-such-command"):
        run_commands(Block("sh", "pip install x\nkdcode no-such-command\n", 1, False), tmp_path)
    assert tree("a.md  text, more\nsrc/k/\n  b.py  text\n  c/\n    d.py, e.py  text\n  e.py\nf\n") == {
        "a.md",
        "src/k/",
        "src/k/b.py",
        "src/k/c/",
        "src/k/c/d.py",
        "src/k/c/e.py",
        "src/k/e.py",
        "f",
    }
    (tmp_path / "b.md").write_text("# One, two\n")
    (tmp_path / "a.md").write_text(
        "[x](b.md#one-two) [x](b.md) [x](https://c.org) `[x](e.md)` [x](b.md#three) [x](d.md) [x](#here)\n"
    )
    assert broken_links(tmp_path / "a.md") == ["b.md#three", "d.md", "#here"]
    assert {ROOT / "README.md", TUTORIAL, DESIGN} <= set(PAGES)
