"""`kdcode compress-model`: a Transformers model with its embeddings replaced by codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kdcode.cli import page
from kdcode.cli.checkpoints import telling_what_is_kept
from kdcode.cli.compress import refuse_what_is_planned
from kdcode.cli.flags import FlaggedCommand, Sections, example, flags_for, is_given, naming_flags
from kdcode.cli.learn import require_learning, require_torch
from kdcode.cli.learner_flags import learner_sections, take_options
from kdcode.cli.plan import take_goal
from kdcode.errors import CheckpointError, CheckpointInUseError, OptionError
from kdcode.files import beside
from kdcode.folders import check_new_folder, new_folder
from kdcode.printable import shown
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.integrations.model_folder import LoadedModel, ModelFolder
    from kdcode.learning import Goal
    from kdcode.learning.model_report import ModelReport

_SHORT = ("size", "only", "heads", "calibrate", "effort", "seed", "dtype", "gguf_file", "force", "as_json", "quiet")
"""The flags that most runs need."""


def _sections() -> Sections:
    from kdcode.options import CompressOptions

    return {"Codes": flags_for(CompressOptions), **learner_sections()}


@click.command(
    "compress-model",
    cls=FlaggedCommand,
    sections=_sections,
    short=_SHORT,
    epilog=example(
        "kdcode compress-model all-MiniLM-L6-v2 small-MiniLM --size 20x",
        "kdcode compress-model all-MiniLM-L6-v2 larger-MiniLM --size 10x --only '*word_embeddings' --effort fast",
    ),
)
@click.argument("source", metavar="IN", type=click.Path(exists=True))
@click.argument("target", metavar="OUT", type=click.Path())
@click.option(
    "--size", metavar="SIZE", help="Size of each table: 20x (the default: times smaller than float32 vectors), 500KB."
)
@click.option("--bits", type=int, help="In place of a size: bits per code at most; the codebook is extra.")
@click.option("--max-error", type=float, help="In place of a size: the smallest whose relative error stays below this.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Compress this layer: a name, or a pattern like 'encoder.*'. May be repeated; by default all large tables.",
)
@click.option(
    "--heads",
    type=click.Choice(("tied", "full", "all")),
    default="tied",
    show_default=True,
    help="Output layers with the matrix of an embedding: share its codes (tied), or keep the matrix (full). With all, "
    "those with a matrix of their own get codes too.",
)
@click.option(
    "--calibrate",
    metavar="TEXT",
    type=click.Path(exists=True, dir_okay=False),
    help="A text file like what the model will read. The model is run on some of it first: frequent tokens then count "
    "more, and output layers keep their logits much better.",
)
@click.option(
    "--min-rows", type=click.IntRange(min=1), help="Leave tables with fewer rows as they are; 5000 by default."
)
@click.option(
    "--dtype",
    type=click.Choice(("auto", "float32", "bfloat16", "float16")),
    default="auto",
    show_default=True,
    help="Type of all other weights in OUT; by default that of IN, and float32 for a GGUF file.",
)
@click.option("--gguf-file", metavar="NAME", help="The GGUF file in IN, if its weights are in one.")
@click.option(
    "--device", default="cpu", show_default=True, help="Device to learn on, as PyTorch names it: cpu, cuda, cuda:1."
)
@click.option("--threads", type=click.IntRange(min=1), help="Number of CPU threads; by default all.")
@click.option("--fresh", is_flag=True, help="Start over instead of resuming from the checkpoint of an earlier run.")
@click.option("--force", is_flag=True, help="Replace OUT if it is a folder with a model.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    source: str,
    target: str,
    *,
    only: tuple[str, ...],
    heads: str,
    calibrate: str | None,
    min_rows: int | None,
    dtype: str,
    gguf_file: str | None,
    device: str,
    threads: int | None,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Compress the embeddings of the Transformers model IN and write the model to the folder OUT.

    IN is a folder written by `save_pretrained`, one of sentence-transformers or of model2vec, or a GGUF file. The
    tokenizer and all other files are copied. To load OUT by `from_pretrained`, import
    kdcode.integrations.transformers_models first; a model of model2vec is loaded by
    kdcode.integrations.model2vec_folder. Ctrl-C saves a checkpoint, and the same command resumes from it.
    """
    from kdcode.integrations.model2vec_folder import is_model2vec
    from kdcode.integrations.model_folder import ModelFolder

    options, goal = take_options(values), take_goal(values)
    if goal is not None:
        refuse_what_is_planned()
    settings = {"options": options, "device": device, "threads": threads, "progress": not quiet}
    if is_model2vec(source):
        _static_model(source, target, goal, settings, fresh=fresh, force=force, as_json=as_json)
        return
    folder = ModelFolder.at(Path(source), gguf_file)
    _check_target(Path(target), folder, force=force)
    require_torch("compressing models", quiet=quiet)
    require_learning(options, device, quiet=quiet)
    with progress("loading", quiet=quiet):
        loaded = folder.load(dtype)
    for note in loaded.notes:
        click.echo(f"{click.style('note:', fg='cyan')} {shown(note)}", err=True)
    layers: dict[str, Any] = {
        "only": list(only) or None,
        "heads": heads,
        **({} if min_rows is None else {"min_rows": min_rows}),
    }
    if calibrate is not None:
        layers["calibrate"] = folder.calibration(loaded, Path(calibrate))
    with _resumable(target, fresh=fresh) as kept, naming_flags(OptionError):
        result = _compressed(
            folder, loaded, Path(target), {**_goals(goal), **layers, **settings, "checkpoint": kept}, force
        )
        _remove_checkpoints(kept)
    if as_json:
        page.print_json(result.as_dict())
    else:
        page.echo(result.lines())


class _Result(NamedTuple):
    """What was written.

    Args:
        target: the new folder.
        before: bytes of all files of the original.
        after: of the new folder.
        left_out: what was not copied.
        report: layer by layer.
    """

    target: Path
    before: int
    after: int
    left_out: list[str]
    report: ModelReport

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        files = {"folder": str(self.target), "folder_before": self.before, "folder_after": self.after}
        return {**files, "left_out": self.left_out, **self.report.as_dict()}

    def lines(self) -> list[str]:
        """What is printed otherwise."""
        lines = [
            click.style(shown(str(self.target)), bold=True),
            *(f"  {shown(line)}" for line in str(self.report).split("\n")),
            "",
            f"  all files: {page.amount(self.before)} before, {page.amount(self.after)} now",
        ]
        if self.left_out:
            lines.append(f"  left out: {', '.join(map(shown, self.left_out))}")
        load = f"  model = transformers.AutoModel.from_pretrained({shown(repr(str(self.target)))})"
        return [*lines, "", "next", "  import kdcode.integrations.transformers_models", load]


def _compressed(
    folder: ModelFolder, loaded: LoadedModel, target: Path, keywords: dict[str, Any], force: bool
) -> _Result:
    """Compress a Transformers model and write it."""
    from kdcode.integrations.model_folder import folder_bytes
    from kdcode.integrations.torch_models import compress_embeddings

    report = compress_embeddings(loaded.model, **keywords)
    with new_folder(target, replace=force) as place, progress("writing", quiet=not keywords["progress"]):
        left_out = folder.write(loaded, place)
    return _Result(target, folder.nbytes, folder_bytes(target), left_out, report)


def _static_model(
    source: str, target: str, goal: Goal | None, settings: dict[str, Any], *, fresh: bool, force: bool, as_json: bool
) -> None:
    """Compress a folder of model2vec."""
    from kdcode.cli.static_model import compress_static_model, refuse_other_flags
    from kdcode.integrations.model_folder import ModelFolder

    refuse_other_flags()
    _check_target(Path(target), ModelFolder(Path(source)), force=force)
    require_learning(settings["options"], settings["device"], quiet=not settings["progress"])
    with _resumable(target, fresh=fresh) as kept, naming_flags(OptionError):
        keywords = {**_goals(goal), **settings, "checkpoint": kept.with_name(f"{kept.name}.embeddings")}
        compress_static_model(source, target, keywords, force=force, as_json=as_json)
        _remove_checkpoints(kept)


def _check_target(target: Path, folder: ModelFolder, *, force: bool) -> None:
    """Refuse what cannot be the new folder, before any work."""
    if target.is_dir() and any(target.iterdir()):
        if target.resolve() == folder.folder.resolve():
            raise OptionError(f"{target}: is the input itself, name another folder")
        if not force:
            raise OptionError(f"{target}: exists already, --force replaces it")
        if not any((target / name).is_file() for name in ("config.json", "modules.json")):
            raise OptionError(f"{target}: has files and no model in it, and --force replaces models alone")
    check_new_folder(target, replace=force)


def _goals(goal: Goal | None) -> dict[str, Any]:
    """The size, or what is given in its place; none is needed where flags say what codes look like."""
    from kdcode.learning.model_compression import DEFAULT_SIZE
    from kdcode.learning.planning.candidates import PLANNED

    if goal is not None:
        return vars(goal)
    return {} if any(is_given(name) for name in PLANNED) else {"size": DEFAULT_SIZE}


@contextmanager
def _resumable(target: str, *, fresh: bool) -> Iterator[Path]:
    """Gives how the names of checkpoints begin, beside OUT; an interruption says that a run resumes from them."""
    path = Path(target).absolute()
    kept = beside(path, path.name, ".checkpoint")
    if fresh:
        _remove_checkpoints(kept)
    try:
        with telling_what_is_kept(lambda: _how_to_go_on(kept)):
            yield kept
    except CheckpointInUseError:
        raise
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --fresh starts over") from error


def _checkpoints(kept: Path) -> list[Path]:
    """The checkpoints of all layers."""
    return [path for path in kept.parent.iterdir() if path.name.startswith(f"{kept.name}.")]


def _how_to_go_on(kept: Path) -> str:
    return f"; the same command resumes from {kept}.*" if _checkpoints(kept) else ""


def _remove_checkpoints(kept: Path) -> None:
    for path in _checkpoints(kept):
        path.unlink(missing_ok=True)
