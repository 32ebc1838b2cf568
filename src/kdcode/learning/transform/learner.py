"""transform_coded: the rows of one rank in transform codes, within the bytes that they may take."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.learning.planning.shared_plan import on_first_rank
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run
from kdcode.learning.table_shard import TableShard
from kdcode.learning.transform.coding import BlocksOfTable
from kdcode.learning.transform.design import Design, design_codec
from kdcode.learning.transform.sampling import direction_weights
from kdcode.options import CompressOptions
from kdcode.symbols import RowNumbers

CODING_STEPS = 20
"""Steps of a run: after each of them a caller may stop it."""


def transform_coded(shard: TableShard, options: CompressOptions, run: Run, design: Design | None = None) -> CodedTable:
    """The coded rows of this rank, without symbols. All ranks call this.

    Args:
        shard: the rows.
        options: of transform codes.
        run: that is told of every step.
        design: what a plan has found; made here where left out.

    Raises:
        OptionError: the rows take more bytes than they may.
    """
    rows = len(shard)
    design = design or on_first_rank(shard, lambda table: design_codec(table, rows, options))
    table, codec = shard.table, design.codec
    run.begin(0)
    blocks = BlocksOfTable.blank(codec, table.matrix, mean_weights(shard, options.loss))
    for done, part in enumerate(np.array_split(np.arange(len(blocks.packed)), CODING_STEPS), start=1):
        if len(part):
            blocks.packed[part] = blocks.code(part)
        run.after_step(StepReport(done, CODING_STEPS, design.relative_error, 0.0, 0.0, 0))
    most = design.row_bytes * len(table) // rows
    taken = blocks.within_bytes(most)
    if taken > most:
        raise OptionError(
            f"size: the {len(table):,} rows take {taken:,} bytes, {most:,} were expected from a sample of them; use "
            "another seed, or codewords=True"
        )
    return CodedTable(RowNumbers(len(table)), blocks.rows, codec)


def mean_weights(shard: TableShard, loss: str) -> DoubleArray | None:
    """(n,) weights of the rows here, 1 on average over all rows; None where rows have none."""
    weights = shard.table.weights if loss == "squared" else direction_weights(shard.table.norms, shard.table.weights)
    if weights is None:
        return None
    own = weights.astype(np.float64)
    return own * (len(shard) / float(shard.share.add_up(np.array([own.sum()]))[0]))
