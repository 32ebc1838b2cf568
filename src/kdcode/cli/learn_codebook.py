"""`kdcode learn-codebook`: a codebook from a sample of a table, for `encode` and `append`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.checkpoints import is_result_of, place_of_checkpoint, resumable
from kdcode.cli.compress import refuse_what_is_planned
from kdcode.cli.files import STANDARD, check_target, is_of_parts, read_table
from kdcode.cli.flags import FlaggedCommand, example, naming_flags, take
from kdcode.cli.learn import require_learning
from kdcode.cli.learner_flags import compress_sections, take_options
from kdcode.cli.plan import GOALS, for_a_table, take_goal
from kdcode.cli.shell import command_line
from kdcode.cli.streamed import with_sample_flags
from kdcode.errors import OptionError
from kdcode.printable import shown
from kdcode.progress_bar import clock, progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.io import ReadOptions
    from kdcode.options import CompressOptions
    from kdcode.table import VectorTable

_CODE_FLAGS = ("codebook_size", "code_length", "composition", "codebook_dtype", "effort", "seed")


@click.command(
    "learn-codebook",
    cls=FlaggedCommand,
    sections=compress_sections,
    short=(*(goal for goal in GOALS if goal != "max_error"), "rows", "sample", *_CODE_FLAGS, "force", "quiet"),
    epilog=example("kdcode learn-codebook 'parts/*.parquet' cb.kdc --size 20x"),
)
@for_a_table
@with_sample_flags
@click.argument("target", metavar="OUT", type=click.Path())
@click.option(
    "--rows", type=click.IntRange(min=1), help="Rows of the table that the size is for; those of IN by default."
)
@click.option("--fresh", is_flag=True, help="Start over instead of resuming from the checkpoint of an earlier run.")
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    source: str,
    target: str,
    *,
    weights: str | None,
    format_name: str | None,
    device: str,
    threads: int | None,
    sample: int | None,
    memory: str | None,
    rows: int | None,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Learn a codebook from a sample of the rows in IN, and save it as the .kdc file OUT, which has no rows.

    Unlike `compress`, it is learned for rows that it has not seen: those of a table that is too large to learn from,
    or those to come. A few rows of the sample are held back, and tell the error of unseen rows. `kdcode encode` codes
    the parts of a table by it.
    """
    from kdcode.io import ReadOptions
    from kdcode.storage import save

    options, reading, goal = take_options(values), take(ReadOptions, values), take_goal(values)
    if goal is not None:
        refuse_what_is_planned()
        if goal.max_error is not None:
            raise OptionError("--max-error is for tables that are learned from as a whole; give --size or --bits")
    kept = place_of_checkpoint(target)
    is_tidying_up = not fresh and kept is not None and is_result_of(target, kept)
    check_target(target, force=force or is_tidying_up, inputs=[source, weights, reading.symbols])
    require_learning(options, device, quiet=quiet)
    from kdcode.learning import learn_codebook

    with naming_flags(OptionError):
        table, of = _sampled(source, format_name, reading, options, (memory, sample), weights, quiet=quiet)
    with resumable(target, kept, fresh=fresh) as checkpoint, naming_flags(OptionError):
        learned = learn_codebook(
            table,
            None if goal is None else goal.size,
            bits=None if goal is None else goal.bits,
            rows=rows or of,
            options=options,
            progress=not quiet,
            checkpoint=checkpoint,
            device=device,
            threads=threads,
        )
        save(learned.codebook(), target)
        if checkpoint is not None:
            checkpoint.remove()
    _tell(learned, source, target, as_json=as_json)


def _sampled(
    source: str,
    format_name: str | None,
    reading: ReadOptions,
    options: CompressOptions,
    limits: tuple[str | None, int | None],
    weights: str | None,
    *,
    quiet: bool,
) -> tuple[VectorTable, int]:
    """The rows to learn from, and how many there are in all; `limits` are those of memory and of the sample."""
    from kdcode.io import can_be_parts, open_reader, sample_rows
    from kdcode.io.reader import drawn_rows
    from kdcode.learning.memory_plan import SAMPLE_ROWS, plan_memory

    memory, sample = limits
    if weights is None and format_name is None and source != STANDARD and (is_of_parts(source) or can_be_parts(source)):
        rows = open_reader(source, reading)
        plan = plan_memory(len(rows), rows.embedding_dim, options, memory, sample or min(len(rows), SAMPLE_ROWS))
        with progress("sampling", quiet=quiet) as advance:
            return sample_rows(rows, plan.sample, options.seed, advance), len(rows)
    if memory is not None:
        raise OptionError("memory is for npy, safetensors and Parquet files, which can be read in parts")
    table = read_table(source, format_name, reading, weights, quiet=quiet)
    return table if sample is None else table.select(drawn_rows(len(table), sample, options.seed)), len(table)


def _tell(learned: CodedTable, source: str, target: str, *, as_json: bool) -> None:
    measured = learned.provenance
    result = {
        "file": target,
        "file_bytes": Path(target).stat().st_size,
        "sample": len(learned),
        "bits": learned.spec.bits,
        **{name: getattr(learned.spec, name) for name in ("codebook_size", "code_length", "composition")},
        **{name: measured[name] for name in ("relative_error", "unseen_error", "unseen_rows")},
        "seconds": learned.learning_seconds,
    }
    if as_json:
        page.print_json(result)
        return
    spec = learned.spec
    shape = f"K={spec.codebook_size}, D={spec.code_length}, {spec.composition}, {spec.bits} bits per row"
    facts = {
        "codebook": f"{page.amount(result['file_bytes'])}, {shape}",
        "error of unseen rows": f"{measured['unseen_error']:.4f}   ({measured['unseen_rows']:,} that were held back)",
        "of the sample": f"{measured['relative_error']:.4f}   ({len(learned):,} rows)",
        "learned in": clock(learned.learning_seconds or 0.0),
    }
    page.echo([click.style(shown(target), bold=True), *(f"  {line}" for line in page.pairs(facts))])
    page.echo(["", "next", f"  {command_line('encode', [source, 'codes'], ['--codebook', target])}"])
