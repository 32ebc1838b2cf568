"""Learning codes; gradients, devices and several ranks need torch (the extra `learn`)."""

from kdcode.learning.checkpoint import Checkpoint, CheckpointWarning
from kdcode.learning.codebook import learn_codebook
from kdcode.learning.compression import LearnedEncoder, compress, compress_shard, learn_encoder
from kdcode.learning.interrupts import StoppedBySignal
from kdcode.learning.planning import Candidate, Goal, Plan, plan, planned_options
from kdcode.learning.progress import StepReport
from kdcode.learning.ranks import Ranks, joined_ranks
from kdcode.learning.table_shard import TableShard, read_shard

__all__ = [
    "Candidate",
    "Checkpoint",
    "CheckpointWarning",
    "Goal",
    "LearnedEncoder",
    "Plan",
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
    "planned_options",
    "read_shard",
]
