"""transform_coded: the rows of one rank in transform codes, within the bytes that they may take."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.codec.transform import EncodedBlocks
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.learning.planning.shared_plan import on_first_rank
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run
from kdcode.learning.table_shard import TableShard
from kdcode.learning.transform.coding import encoded, within_bytes
from kdcode.learning.transform.design import design_codec
from kdcode.options import CompressOptions
from kdcode.symbols import RowNumbers

CODING_STEPS = 20
"""Steps of a run: after each of them a caller may stop it."""


def transform_coded(shard: TableShard, options: CompressOptions, run: Run) -> CodedTable:
    """The coded rows of this rank, without symbols. All ranks call this."""
    rows = len(shard)
    design = on_first_rank(shard, lambda table: design_codec(table, rows, options))
    table, codec = shard.table, design.codec
    weights = mean_weights(shard)
    run.begin(0)
    together, parts = codec.spec.rows_per_block, []
    for done, part in enumerate(np.array_split(np.arange(codec.spec.blocks_of(len(table))), CODING_STEPS), start=1):
        if len(part):
            some = slice(int(part[0]) * together, (int(part[-1]) + 1) * together)
            parts.append(encoded(codec, table.matrix[some], None if weights is None else weights[some]))
        run.after_step(StepReport(done, CODING_STEPS, design.relative_error, 0.0, 0.0, 0))
    found = EncodedBlocks.joined(parts)
    most = design.row_bytes * len(table) // rows
    taken = within_bytes(codec, table.matrix, weights, found, most)
    if taken > most:
        raise OptionError(
            f"size: the {len(table):,} rows take {taken:,} bytes, {most:,} were expected from a sample of them; use "
            "another seed, or codewords=True"
        )
    return CodedTable(RowNumbers(len(table)), codec.packed_rows(found), codec)


def mean_weights(shard: TableShard) -> DoubleArray | None:
    """(n,) weights of the rows here, 1 on average over all rows; None where rows have none."""
    if shard.table.weights is None:
        return None
    own = shard.table.weights.astype(np.float64)
    return own * (len(shard) / float(shard.share.add_up(np.array([own.sum()]))[0]))
