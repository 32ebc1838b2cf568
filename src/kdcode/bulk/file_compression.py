"""compress_file: a table that is larger than memory, learned from a sample and encoded a piece at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Unpack

from kdcode.bulk.assembly import assemble
from kdcode.bulk.encoding_run import encode_parts
from kdcode.bulk.engines import LocalEngine
from kdcode.coded import CodedTable
from kdcode.errors import CheckpointError, file_error
from kdcode.files import replacing
from kdcode.io import JoinedReader, Reader, open_reader, sample_rows
from kdcode.learning.codebook import learn_codebook
from kdcode.learning.compression import chosen_options
from kdcode.learning.memory_plan import MemoryPlan, plan_memory
from kdcode.learning.run_settings import CompressKeywords, RunSettings
from kdcode.option_keywords import listing_keywords
from kdcode.options import CompressOptions
from kdcode.progress_bar import progress as shown_progress
from kdcode.storage import load, save

WORK_FOLDER = ".parts"
"""What the folder beside the target is called, after the target, in which a run keeps what it has done so far."""

_RUN, _CODEBOOK, _CHECKPOINT, _CODES = "run.json", "codebook.kdc", "codebook.checkpoint", "codes"


@dataclass(frozen=True)
class FileReport:
    """What came of it.

    Args:
        rows: of the table.
        sample: rows that were learned from.
        memory: bytes of memory that were promised not to be exceeded.
        file_bytes: of the file.
        learning_seconds: how long learning took, where it was not done before.
    """

    rows: int
    sample: int
    memory: int
    file_bytes: int
    learning_seconds: float


@listing_keywords(RunSettings)
def compress_file(
    source: Reader | str | os.PathLike[str],
    path: str | os.PathLike[str],
    size: str | int | None = None,
    *,
    bits: int | None = None,
    memory: MemoryPlan | str | int | None = None,
    options: CompressOptions | None = None,
    **keywords: Unpack[CompressKeywords],
) -> FileReport:
    """Compress a table that need not fit into memory to a .kdc file, in memory that does not grow with its rows.

        kdcode.compress_file("parts/*.parquet", "table.kdc", "20x", memory="4GB")

    A codebook is learned from a sample, as by `learn_codebook`; all rows are encoded by it, as by `encode_parts`, and
    put together, as by `assemble`. What is done is kept in the folder `<path>.parts` until the file is written, and the
    same call goes on from there after an interruption.

    Args:
        source: rows that can be read in parts; see `kdcode.io.open_reader`.
        path: the file to write; what is there is replaced when the new file is whole.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file, without symbols), or bytes.
        bits: of a code at most, in place of a size.
        memory: like 4GB; by default half of what is free. Or what `plan_memory` gave for this table, which has the
            number of rows to learn from.
        options: how to learn; the defaults where left out.
        **keywords: single options, which go before those in `options`, and how to run. They are listed below.

    Raises:
        OptionError: options that cannot work; or so little memory that nothing can be learned.
        CheckpointError: the folder is that of another table or of other options.
        FormatError, FileError: rows cannot be read, or files cannot be written.
        MissingExtraError: pyarrow is missing.
    """
    others: dict[str, Any] = {**keywords}
    settings = RunSettings.take(others)
    chosen = chosen_options(options, size, others)
    rows = source if isinstance(source, Reader) else open_reader(source)
    plan = memory if isinstance(memory, MemoryPlan) else plan_memory(len(rows), rows.embedding_dim, chosen, memory)
    work = Path(f"{os.fspath(path)}{WORK_FOLDER}")
    _take_over(work, [rows.fingerprint(), plan.sample, size, bits, chosen.as_dict()])
    codebook = _codebook(work, rows, plan.sample, size, bits, chosen, settings)
    quiet = settings.progress is not True
    with shown_progress("encoding", quiet=quiet) as advance:
        encode_parts(
            rows.parts if isinstance(rows, JoinedReader) else [rows],
            work / _CODES,
            codebook,
            engine=LocalEngine(settings.threads),
            progress=lambda done: advance(done.rows_done, done.rows),
        )
    with shown_progress("assembling", quiet=quiet) as advance:
        written = assemble(work / _CODES, path, codebook, progress=advance)
    shutil.rmtree(work, ignore_errors=True)
    return FileReport(plan.rows, plan.sample, plan.memory, written, codebook.learning_seconds or 0.0)


def _codebook(
    work: Path,
    rows: Reader,
    sample: int,
    size: str | int | None,
    bits: int | None,
    options: CompressOptions,
    settings: RunSettings,
) -> CodedTable:
    """The codebook in the work folder; learned and kept there where it is not."""
    place = work / _CODEBOOK
    if place.exists():
        return load(place)
    running = replace(settings, checkpoint=work / _CHECKPOINT)
    codebook = sampled_codebook(rows, sample, size, bits=bits, options=options, settings=running)
    save(codebook, place)
    (work / _CHECKPOINT).unlink(missing_ok=True)
    return codebook


def sampled_codebook(
    source: Reader,
    sample: int,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    options: CompressOptions,
    settings: RunSettings,
) -> CodedTable:
    """A codebook that `learn_codebook` learns from a sample of a source, for a table of all its rows."""
    with shown_progress("sampling", quiet=settings.progress is not True) as advance:
        table = sample_rows(source, sample, options.seed, advance)
    keywords: dict[str, Any] = {item.name: getattr(settings, item.name) for item in fields(settings)}
    learned = learn_codebook(table, size, bits=bits, rows=len(source), options=options, **keywords)
    codebook = learned.codebook()
    codebook.learning_seconds = learned.learning_seconds
    return codebook


def _take_over(work: Path, made_from: list[Any]) -> None:
    """Make the work folder that of this run, or refuse it where it is that of another."""
    identity = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    place = work / _RUN
    try:
        if place.exists():
            if json.loads(place.read_text(encoding="utf-8")) != identity:
                raise CheckpointError(
                    f"{work}: holds what was done for another table, or with other options; "
                    "repeat that run, or remove the folder to start afresh"
                )
            return
        work.mkdir(exist_ok=True)
        with replacing(place) as temporary:
            temporary.write_text(json.dumps(identity), encoding="utf-8")
    except ValueError as error:
        raise CheckpointError(f"{place}: cannot be read: {error}; remove the folder to start afresh") from error
    except OSError as error:
        raise file_error(work, "written", error) from error
