"""Learning codes. What needs torch (the extra `torch`) imports it when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdcode.learning.checkpoint import Checkpoint, CheckpointWarning
    from kdcode.learning.codebook import learn_codebook
    from kdcode.learning.codeword_tables import LearnedEncoder, learn_encoder
    from kdcode.learning.compression import compress, compress_shard
    from kdcode.learning.interrupts import StoppedBySignal
    from kdcode.learning.planned_table import Goal
    from kdcode.learning.planning.candidates import Candidate
    from kdcode.learning.planning.planner import Plan, Planned, plan, planned
    from kdcode.learning.progress import StepReport
    from kdcode.learning.ranks import Ranks, joined_ranks
    from kdcode.learning.table_shard import TableShard, read_shard

_HOME = {
    "Candidate": "planning.candidates",
    "Checkpoint": "checkpoint",
    "CheckpointWarning": "checkpoint",
    "Goal": "planned_table",
    "LearnedEncoder": "codeword_tables",
    "Plan": "planning.planner",
    "Planned": "planning.planner",
    "Ranks": "ranks",
    "StepReport": "progress",
    "StoppedBySignal": "interrupts",
    "TableShard": "table_shard",
    "compress": "compression",
    "compress_shard": "compression",
    "joined_ranks": "ranks",
    "learn_codebook": "codebook",
    "learn_encoder": "codeword_tables",
    "plan": "planning.planner",
    "planned": "planning.planner",
    "read_shard": "table_shard",
}

__all__ = [
    "Candidate",
    "Checkpoint",
    "CheckpointWarning",
    "Goal",
    "LearnedEncoder",
    "Plan",
    "Planned",
    "Ranks",
    "StepReport",
    "StoppedBySignal",
    "TableShard",
    "compress",
    "compress_shard",
    "joined_ranks",
    "learn_codebook",
    "learn_encoder",
    "plan",
    "planned",
    "read_shard",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
