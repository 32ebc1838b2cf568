"""Planning: which settings keep to a size or an error, from short probes on a sample of the table."""

from kdcode.learning.planning.candidates import PLANNED, Candidate
from kdcode.learning.planning.goal import FinalTable, Goal
from kdcode.learning.planning.planner import Plan, plan, plan_for, planned_options

__all__ = ["PLANNED", "Candidate", "FinalTable", "Goal", "Plan", "plan", "plan_for", "planned_options"]
