"""Several compressed copies of a table, and baselines made at the same bytes, in one table and one figure."""

from kdcode.comparison.baselines import BASELINES
from kdcode.comparison.comparing import Contender, SizeComparison, compare
from kdcode.comparison.figure import draw

__all__ = ["BASELINES", "Contender", "SizeComparison", "compare", "draw"]
