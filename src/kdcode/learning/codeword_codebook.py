"""Codewords of sums from a sample, for rows that are not there yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec import CodewordCodec
from kdcode.coded import CodedTable
from kdcode.evaluation import compare_tables
from kdcode.learning.codebook import SampleParts, tell_unseen
from kdcode.learning.codeword_tables import version_of_torch
from kdcode.learning.compression import add_provenance
from kdcode.learning.identity import run_identity
from kdcode.learning.learners import codeword_work, learn_codewords
from kdcode.learning.progress import OnStep
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.run import Run
from kdcode.learning.run_settings import RunSettings
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions, checked_spec
from kdcode.table import VectorTable


def learned_codebook(
    table: VectorTable, parts: SampleParts, options: CompressOptions, settings: RunSettings, on_step: OnStep
) -> CodedTable:
    """Learn from some rows, code all, and measure those that were held back."""
    seen = parts.learned(table)
    spec = checked_spec(seen, options)  # refuses what cannot work before anything is done
    identity = run_identity(table, options.as_dict(), "codebook")
    run = Run(codeword_work(spec, options.effort), identity, on_step, settings.run_checkpoint)
    training = TrainingTable.of(seen, options)
    found = learn_codewords(training, spec, options, run)
    codec = rounded(training, found, refine=False)[1]
    del training, found  # as large as the table
    codes = np.concatenate([codec.encode(part) for _, part in table.chunks(CHUNK_ROWS)])
    if options.scale_bits:
        codes, codec = _with_row_scales(table, parts, codes[:, : spec.code_length], codec)
    coded = CodedTable.from_codes(table.packed_symbols, codes, codec)
    lost = compare_tables(table, coded, table.weights)
    add_provenance(coded, lost, options, identity, run.curve, **version_of_torch(options))
    tell_unseen(table, parts, coded)
    coded.learning_seconds = round(run.seconds, 1)
    return coded


def _with_row_scales(
    table: VectorTable, parts: SampleParts, codes: npt.NDArray[np.int64], codec: CodewordCodec
) -> tuple[npt.NDArray[np.int64], CodewordCodec]:
    """(N, D + 1) codes with levels that were fitted to the rows to learn from, and their codec."""
    levelled = with_row_scales(parts.learned(table), codes[parts.kept], codec)[1]
    starts = range(0, len(table), CHUNK_ROWS)
    chunks = zip(starts, table.chunks(CHUNK_ROWS), strict=True)
    found = [levelled.with_scale_level(codes[start : start + CHUNK_ROWS], part) for start, (_, part) in chunks]
    return np.concatenate(found), levelled
