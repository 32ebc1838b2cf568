"""One page that shows what is left of a table: numbers, charts, and an explorer of its codes."""

from kdcode.report.making import Report, make_report
from kdcode.report.measured import About

__all__ = ["About", "Report", "make_report"]
