from __future__ import annotations

import numpy as np
import pytest
import torch

from kdcode.budget import CodeShape
from kdcode.learning.composition import make_composition
from kdcode.learning.target import Target, can_shift
from kdcode.table import VectorTable

SHAPES = [
    CodeShape(50, 6, 5, 3, 6, "linear", "float32"),
    CodeShape(50, 6, 5, 3, 4, "linear", "float32"),
    CodeShape(50, 6, 5, 3, 4, "lstm", "float32"),
    CodeShape(50, 7, 5, 3, 3, "product", "float32"),
]


def table(dim=6):
    return VectorTable(None, np.random.default_rng(0).normal(3, 2, size=(50, dim)))


def test_standardised_rows_have_spread_one():
    target = Target.of(table(), centred=True)
    assert float(target.vectors.mean(dim=0).abs().max()) < 1e-6
    assert float(target.vectors.square().mean()) == pytest.approx(1, rel=1e-5)
    assert target.variance == pytest.approx(50 * 6, rel=1e-5)


def test_a_table_that_cannot_be_written_to_is_read_without_a_warning():
    matrix = table().matrix.astype(np.float32)
    matrix.flags.writeable = False
    target = Target.of(VectorTable(None, matrix), centred=True)
    assert torch.equal(target.vectors, Target.of(VectorTable(None, matrix.copy()), centred=True).vectors)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.composition}-{shape.codeword_dim}")
def test_restoring_undoes_the_standardisation(shape):
    original = table(shape.embedding_dim)
    module = make_composition(shape)
    target = Target.of(original, centred=can_shift(shape))
    codes = torch.randint(shape.codebook_size, (50, shape.code_length))
    error = target.error(codes, module)
    expected = module.compose(codes).detach() * target.scale + target.shift
    target.restore(module)
    torch.testing.assert_close(module.compose(codes).detach(), expected, rtol=1e-4, atol=1e-4)
    true = torch.from_numpy(original.matrix).float()
    spread = (true - true.mean(dim=0)).square().sum()
    assert float((true - expected).square().sum() / spread) == pytest.approx(error, rel=1e-4)


def test_a_table_of_one_vector_has_no_variance_and_no_error():
    target = Target.of(VectorTable(None, np.ones((4, 6))), centred=True)
    module = make_composition(SHAPES[0])
    with torch.no_grad():
        module.codebook.zero_()
    assert target.error(torch.zeros(4, 3, dtype=torch.long), module) == 0
