"""Two tables compared, and .kdc files verified."""

from kdcode.evaluation.matching import RowMatch
from kdcode.evaluation.reconstruction import TableComparison, evaluate, relative_error
from kdcode.evaluation.verification import Verification, verify

__all__ = ["RowMatch", "TableComparison", "Verification", "evaluate", "relative_error", "verify"]
