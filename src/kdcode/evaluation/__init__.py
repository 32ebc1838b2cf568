"""Two tables compared, the use of codes counted, and .kdc files verified."""

from kdcode.evaluation.code_use import CodeUse
from kdcode.evaluation.evaluating import evaluate
from kdcode.evaluation.gates import GateResult, Gates
from kdcode.evaluation.level_use import LevelUse
from kdcode.evaluation.matching import RowMatch
from kdcode.evaluation.measures import Evaluation, Measures, Sampling, WorstRow
from kdcode.evaluation.rate_distortion import gaussian_limit
from kdcode.evaluation.reconstruction import TableComparison, compare_part, compare_tables, relative_error
from kdcode.evaluation.row_losses import RowLosses
from kdcode.evaluation.settings import EvaluationOptions
from kdcode.evaluation.verification import Verification, verify
from kdcode.evaluation.word_tests import WordScore

__all__ = [
    "CodeUse",
    "Evaluation",
    "EvaluationOptions",
    "GateResult",
    "Gates",
    "LevelUse",
    "Measures",
    "RowLosses",
    "RowMatch",
    "Sampling",
    "TableComparison",
    "Verification",
    "WordScore",
    "WorstRow",
    "compare_part",
    "compare_tables",
    "evaluate",
    "gaussian_limit",
    "relative_error",
    "verify",
]
