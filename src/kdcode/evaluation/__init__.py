"""Metrics that compare two tables; they know nothing of codes."""

from kdcode.evaluation.reconstruction import TableComparison, evaluate, relative_error

__all__ = ["TableComparison", "evaluate", "relative_error"]
