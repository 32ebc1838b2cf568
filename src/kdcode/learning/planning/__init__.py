"""Planning: which settings keep to a size or an error, from short probes on a sample of the table."""

from kdcode.learning.planning.planner import PLANNED, Candidate, Goal, Plan, plan, planned_options

__all__ = ["PLANNED", "Candidate", "Goal", "Plan", "plan", "planned_options"]
