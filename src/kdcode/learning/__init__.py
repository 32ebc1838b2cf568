"""Learning codes (needs torch: `pip install 'kdcode[learn]'`)."""

from kdcode.learning.compress import compress
from kdcode.learning.progress import StepReport

__all__ = ["StepReport", "compress"]
