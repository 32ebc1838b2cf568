"""Learning codes (needs torch: the extra `learn`)."""

from kdcode.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("learning codes", "learn") from error

from kdcode.codec_torch.beam_search import encode
from kdcode.learning.checkpoint import Checkpoint, CheckpointWarning
from kdcode.learning.codebook import learn_codebook
from kdcode.learning.compression import LearnedEncoder, compress, learn_encoder
from kdcode.learning.interrupts import StoppedBySignal
from kdcode.learning.planning import Candidate, Goal, Plan, plan, planned_options
from kdcode.learning.progress import StepReport

__all__ = [
    "Candidate",
    "Checkpoint",
    "CheckpointWarning",
    "Goal",
    "LearnedEncoder",
    "Plan",
    "StepReport",
    "StoppedBySignal",
    "compress",
    "encode",
    "learn_codebook",
    "learn_encoder",
    "plan",
    "planned_options",
]
