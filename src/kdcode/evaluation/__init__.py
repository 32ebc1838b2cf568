"""Two tables compared, and .kdc files verified."""

from kdcode.evaluation.matching import RowMatch
from kdcode.evaluation.reconstruction import TableComparison, evaluate, evaluate_part, relative_error
from kdcode.evaluation.verification import Verification, verify

__all__ = ["RowMatch", "TableComparison", "Verification", "evaluate", "evaluate_part", "relative_error", "verify"]
