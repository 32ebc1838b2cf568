"""Learning codes (needs torch: `pip install 'kdcode[learn]'`)."""

from kdcode.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("learning codes", "learn") from error

from kdcode.learning.beam import encode
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.compress import LearnedEncoder, compress, learn_encoder
from kdcode.learning.planning import Candidate, Plan, plan
from kdcode.learning.progress import StepReport

__all__ = [
    "Candidate",
    "Checkpoint",
    "LearnedEncoder",
    "Plan",
    "StepReport",
    "compress",
    "encode",
    "learn_encoder",
    "plan",
]
