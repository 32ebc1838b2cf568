import pytest
import torch
from torch import nn

from kdcode.data import glove_50d
from kdcode.learning.composition import make_composition
from kdcode.learning.rounding import rounded
from kdcode.learning.target import Target
from kdcode.options import CompressOptions

TABLE = glove_50d().head(300)


def setting(**changes):
    options = CompressOptions(codebook_size=12, code_length=5, **changes)
    draw = torch.Generator().manual_seed(0)
    composition = make_composition(options.code_shape(300, 50), generator=draw)
    codes = torch.randint(12, (300, 5), generator=draw)
    target = Target(torch.from_numpy(TABLE.matrix.astype("float32")), torch.zeros(50), 1.0, 1.0)
    return target, codes, composition


@pytest.mark.parametrize("numbers", ["float16", "int8"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"codeword_dim": 7}, {"composition": "product"}, {"composition": "lstm", "codeword_dim": 7}],
    ids=["linear", "projected", "product", "lstm"],
)
def test_codes_move_to_what_suits_the_rounded_codewords(changes, numbers):
    target, codes, composition = setting(**changes)
    found, codebook, twin = rounded(TABLE, codes, composition, numbers)
    assert codebook.number_format == numbers
    stored = torch.from_numpy(twin.compose(found.numpy(), codebook.values))
    torch.testing.assert_close(composition.compose(found), stored, atol=1e-4, rtol=1e-4)
    before, after = (target.row_errors(part, composition) for part in (codes, found))
    assert (after <= before).all()
    assert float(after.sum()) < float(before.sum())


def test_codes_stay_where_they_are_told_to():
    _, codes, composition = setting()
    found, codebook, _ = rounded(TABLE, codes, composition, "int8", settle=False)
    assert torch.equal(found, codes)
    assert codebook.number_format == "int8"


def test_float32_is_not_rounded_and_codes_stay():
    _, codes, composition = setting()
    words = nn.Parameter(composition.codebook.detach().clone())
    found, codebook, _ = rounded(TABLE, codes, composition, "float32")
    assert torch.equal(found, codes)
    assert torch.equal(torch.from_numpy(codebook.values), words.detach())
