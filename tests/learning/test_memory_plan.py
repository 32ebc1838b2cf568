"""How many rows are learned from within a limit of memory."""

import pytest

from kdcode.errors import OptionError
from kdcode.learning import memory_plan
from kdcode.learning.memory_plan import BASE_BYTES, SAMPLE_ROWS, plan_memory
from kdcode.options import CompressOptions

SUMS = CompressOptions()


def test_a_table_that_fits_is_learned_from_as_a_whole():
    plan = plan_memory(50_000, 100, SUMS, memory="4GB")
    assert (plan.sample, plan.is_streamed) == (50_000, False)
    assert plan.memory == BASE_BYTES + 50_000 * 6 * 4 * 100


def test_of_a_larger_one_a_sample_is_learned_from_whose_memory_does_not_grow_with_it():
    plans = [plan_memory(rows, 100, SUMS, memory="4GB") for rows in (10_000_000, 1_000_000_000)]
    assert [plan.sample for plan in plans] == [SAMPLE_ROWS] * 2
    assert plans[0].memory == plans[1].memory <= 4e9
    assert plans[0].is_streamed


def test_less_memory_gives_a_smaller_sample_that_keeps_to_it():
    plan = plan_memory(10_000_000, 1000, SUMS, memory="2GB")
    assert 0 < plan.sample < SAMPLE_ROWS
    assert plan.memory <= 2e9 < plan.memory + 6 * 4 * 1000


def test_a_sample_that_is_asked_for_is_taken_or_refused():
    assert plan_memory(50_000, 100, SUMS, memory="4GB", sample=2000).sample == 2000
    assert plan_memory(500, 100, SUMS, memory="4GB", sample=2000).sample == 500
    with pytest.raises(OptionError, match=r"sample: 10,000,000 rows take .* bytes of memory, and 4,000,000,000"):
        plan_memory(50_000_000, 100, SUMS, memory="4GB", sample=10_000_000)
    with pytest.raises(OptionError, match="sample must be at least 1, got 0"):
        plan_memory(50_000, 100, SUMS, memory="4GB", sample=0)


def test_logits_take_memory_too():
    rows = 1_000_000
    paper = CompressOptions.of(learner="straight-through")
    assert plan_memory(rows, 100, paper, memory="8GB").sample < plan_memory(rows, 100, SUMS, memory="8GB").sample


def test_without_a_limit_half_of_the_free_memory_may_be_used(monkeypatch):
    monkeypatch.setattr(memory_plan, "available_memory", lambda: 2 * (BASE_BYTES + 5000 * 6 * 4 * 100))
    assert plan_memory(1_000_000, 100, SUMS).sample == 5000
    monkeypatch.setattr(memory_plan, "available_memory", lambda: BASE_BYTES)
    assert plan_memory(1_000_000, 100, SUMS).sample == 1000  # the least that is tried


@pytest.mark.parametrize("memory", ["many", "500MB", 0])
def test_no_size_and_one_that_is_too_small_are_refused(memory):
    with pytest.raises(OptionError, match="memory"):
        plan_memory(1_000_000, 100, SUMS, memory=memory)
