"""Assignments: codes of symbols, learnable or fixed."""

from __future__ import annotations

import pytest
import torch

from kdcode.errors import OptionError
from kdcode.nn import FixedAssignment, FreeAssignment, QueryAssignment
from kdcode.nn.assignment import FIRST_LEAD, LEARNED, SCORES


def test_free_codes_are_the_largest_logits():
    assignment = FreeAssignment(5, 2, 3)
    with torch.no_grad():
        assignment.logits.zero_()
        assignment.logits[4, 0, 2] = 1
        assignment.logits[4, 1, 1] = 1
    assert assignment.codes(torch.tensor([4])).tolist() == [[2, 1]]
    assert assignment(torch.tensor([1, 1])).shape == (2, 2, 3)
    assert (assignment.num_embeddings, assignment.code_length, assignment.codebook_size) == (5, 2, 3)


@pytest.mark.parametrize("ids", [[-1], [5], [0, -3], [2, 99]])
def test_ids_outside_the_table_are_refused(ids):
    learned = [kind(5, 2, 3) for kind in LEARNED.values()]
    for assignment in (*learned, FixedAssignment(torch.zeros(5, 2, dtype=torch.long), 3)):
        with pytest.raises(IndexError):
            assignment.codes(torch.tensor(ids))
    for assignment in learned:
        with pytest.raises(IndexError):
            assignment(torch.tensor(ids))


@pytest.mark.parametrize("kind", LEARNED.values())
def test_first_values_repeat_for_a_generator(kind):
    first, again = (kind(5, 2, 3, generator=torch.Generator().manual_seed(1)).state_dict() for _ in range(2))
    other = kind(5, 2, 3, generator=torch.Generator().manual_seed(2)).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not torch.equal(first["rows.weight"], other["rows.weight"])


@pytest.mark.parametrize(
    "assignment", [FreeAssignment(50, 3, 8), *(QueryAssignment(50, 3, 8, score=score) for score in SCORES)]
)
def test_all_symbols_start_with_the_first_codewords_by_the_same_lead(assignment):
    scores = assignment(torch.arange(50)).detach()
    assert not scores.argmax(dim=-1).any()
    lead = scores[:, :, 0] - scores[:, :, 1:].amax(dim=-1)
    torch.testing.assert_close(lead, torch.full((50, 3), FIRST_LEAD), rtol=0, atol=0.1)
    assert not torch.equal(lead[0], lead[1])


@pytest.mark.parametrize("assignment", [FreeAssignment(500, 3, 8, lead=0), QueryAssignment(500, 3, 8, batch_norm=True)])
def test_codes_start_at_random_on_request(assignment):
    assignment(torch.arange(500))
    for column in assignment.codes(torch.arange(500)).T:
        assert len(column.unique()) == 8


def test_logits_begin_with_given_codes():
    codes = torch.randint(8, (50, 3))
    assignment = FreeAssignment.from_codes(codes, 8, lead=0.7)
    assert torch.equal(assignment.codes(torch.arange(50)), codes)
    ordered = assignment.logits.detach().sort(dim=-1).values
    torch.testing.assert_close(ordered[:, :, -1] - ordered[:, :, -2], torch.full((50, 3), 0.7))


@pytest.mark.parametrize("kind", LEARNED.values())
def test_printing_tells_the_shape(kind):
    assert "num_embeddings=5, code_length=2, codebook_size=3" in repr(kind(5, 2, 3))


def scores_by_hand(assignment, ids):
    """(n, D, K), one number at a time."""
    width = assignment.rows.embedding_dim // assignment.code_length
    found = torch.empty(len(ids), assignment.code_length, assignment.codebook_size)
    for place, row in enumerate(ids):
        for position in range(assignment.code_length):
            part = assignment.rows.weight[row, position * width : (position + 1) * width]
            for word, key in enumerate(assignment.keys[position]):
                if assignment.score == "dot":
                    found[place, position, word] = part @ key + assignment.bias[position, word]
                else:
                    found[place, position, word] = (part @ part - (part - key).square().sum()) / 2
    return found.detach()


@pytest.mark.parametrize("score", SCORES)
def test_scores_compare_parts_of_queries_with_keys(score):
    torch.manual_seed(0)
    assignment = QueryAssignment(7, 3, 5, 6, score=score)
    with torch.no_grad():
        for weight in assignment.parameters():
            weight.normal_()
    ids = torch.tensor([6, 0, 2, 2])
    expected = scores_by_hand(assignment, ids.tolist())
    torch.testing.assert_close(assignment(ids).detach(), expected)
    assert torch.equal(assignment.codes(ids), expected.argmax(dim=-1))
    assert "query_dim=6" in repr(assignment)


def test_the_nearest_key_is_chosen():
    assignment = QueryAssignment(50, 2, 4, 4, score="distance")
    with torch.no_grad():
        assignment.rows.weight.normal_()
    parts = assignment.rows.weight.detach().view(50, 2, 2)
    nearest = torch.stack([torch.cdist(parts[:, j], assignment.keys[j].detach()).argmin(dim=1) for j in (0, 1)], dim=1)
    assert torch.equal(assignment.codes(torch.arange(50)), nearest)


@pytest.mark.parametrize("score", SCORES)
def test_batch_statistics_standardise_and_running_ones_follow(score):
    torch.manual_seed(0)
    assignment = QueryAssignment(400, 3, 5, score=score, batch_norm=True)
    scores = assignment(torch.arange(400))
    torch.testing.assert_close(scores.mean(dim=0), torch.zeros(3, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(scores.var(dim=0), torch.ones(3, 5), rtol=1e-3, atol=1e-3)
    assert torch.equal(assignment.codes(torch.arange(400)), scores.argmax(dim=-1))  # after one batch they are the same
    for start in range(0, 400, 40):
        assignment(torch.arange(start, start + 40))
    parts = assignment.rows.weight.detach().view(400, 3, 4)
    torch.testing.assert_close(assignment.query_mean, parts.mean(dim=0), rtol=0, atol=0.1)
    assert not torch.equal(assignment.query_mean, parts.mean(dim=0))
    before = assignment.query_mean.clone(), assignment.query_covariance.clone()
    assignment.eval()(torch.arange(30))
    assignment.codes(torch.arange(30))
    assert torch.equal(assignment.query_mean, before[0])
    assert torch.equal(assignment.query_covariance, before[1])


def test_batch_statistics_keep_all_codewords_in_use():
    torch.manual_seed(0)
    used = []
    for batch_norm in (True, False):
        assignment = QueryAssignment(1000, 1, 8, 4, batch_norm=batch_norm)
        with torch.no_grad():
            assignment.rows.weight.add_(3)  # all queries point the same way
        for _ in range(3):
            assignment(torch.randint(1000, (200,)))
        used.append(len(assignment.codes(torch.arange(1000)).unique()))
    assert used[0] == 8 > used[1]


def test_one_symbol_alone_has_no_statistics_of_its_own():
    assignment = QueryAssignment(5, 2, 3, batch_norm=True)
    assert torch.isfinite(assignment(torch.tensor([4]))).all()
    assert assignment(torch.tensor([], dtype=torch.long)).shape == (0, 2, 3)
    assert int(assignment.batches) == 0


def test_codes_do_not_depend_on_autocast():
    torch.manual_seed(0)
    assignment, ids = QueryAssignment(500, 4, 16, batch_norm=True), torch.arange(500)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = assignment(ids)
    assert scores.dtype == torch.float32
    assert torch.equal(assignment.codes(ids), scores.argmax(dim=-1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_dim": 5}, "multiple of code_length=2"),
        ({"query_dim": 0}, "multiple"),
        ({"score": "cosine"}, "dot, dist"),
    ],
)
def test_queries_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        QueryAssignment(5, 2, 3, **arguments)


@pytest.mark.parametrize(("size", "dtype"), [(4, torch.uint8), (256, torch.uint8), (300, torch.int32)])
def test_fixed_codes_are_kept_small_and_given_back(size, dtype):
    codes = torch.tensor([[0, size - 1], [1, 2]])
    assignment = FixedAssignment(codes, size)
    assert assignment.stored.dtype == dtype
    assert torch.equal(assignment.codes(torch.tensor([1, 0])), codes[[1, 0]])
    assert list(assignment.state_dict()) == ["stored"]
    assert (assignment.num_embeddings, assignment.code_length, assignment.codebook_size) == (2, 2, size)


def test_levels_of_row_scales_may_be_larger_than_codes():
    codes = torch.tensor([[1, 0, 200], [0, 1, 7]])
    assignment = FixedAssignment(codes, 2, code_length=2)
    assert (assignment.code_length, assignment.num_embeddings) == (2, 2)
    assert torch.equal(assignment.codes(torch.tensor([0, 1])), codes)


@pytest.mark.parametrize("codes", [torch.tensor([[3]]), torch.tensor([[-1]]), torch.tensor([0]), torch.tensor([[0.0]])])
def test_codes_that_do_not_fit_are_refused(codes):
    with pytest.raises(OptionError):
        FixedAssignment(codes, 3)
