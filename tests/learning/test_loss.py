import pytest
import torch

from kdcode.learning.loss import LOSSES, cosine_losses, squared_distances
from kdcode.options import LOSS_NAMES


def test_every_loss_has_a_name():
    assert set(LOSSES) == set(LOSS_NAMES)


def test_losses_by_hand():
    vectors = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    composed = torch.tensor([[6.0, 8.0], [2.0, 0.0], [1.0, 1.0]])
    assert squared_distances(composed, vectors).tolist() == [25, 8, 2]
    assert cosine_losses(composed, vectors).tolist() == pytest.approx([0, 8, 0], abs=1e-5)


def test_cosine_is_squared_distance_between_vectors_of_one_length():
    one, other = torch.nn.functional.normalize(torch.randn(2, 20, 5, generator=torch.Generator().manual_seed(0)), dim=2)
    torch.testing.assert_close(cosine_losses(3 * other, one), squared_distances(other, one), atol=1e-5, rtol=1e-4)
