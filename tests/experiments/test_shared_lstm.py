"""The LSTM of the paper's printed sizes: its numbers are counted, and its vectors computed by a plain loop."""

from __future__ import annotations

import pytest
import torch
from ptb_perplexity import CODES, count_parameters
from shared_lstm import SharedLstmEmbedding
from table_1_rows import PAPER


@pytest.mark.parametrize(("dim", "numbers", "place"), [(200, 370_800, 0), (1500, 630_800, 1)])
def test_its_sizes_are_the_four_that_the_paper_prints(dim, numbers, place):
    codes = torch.zeros(10, CODES["code_length"], dtype=torch.long)
    layer = SharedLstmEmbedding(codes, CODES["codebook_size"], CODES["codeword_dim"], dim)
    assert count_parameters(layer) == numbers
    assert round(numbers / 1e6, 2) == PAPER["lstm-lstm"][place][1]
    assert round(numbers / (10_000 * dim), 3) == (0.185, 0.042)[place]


@torch.no_grad()
def test_vectors_are_those_of_a_plain_loop():
    draw = torch.Generator().manual_seed(0)
    codes = torch.randint(4, (6, 3), generator=draw)
    layer = SharedLstmEmbedding(codes, 4, 5, 2)
    layer.start(draw, 0.7)
    assert float(layer(torch.arange(6)).detach().std()) == pytest.approx(0.7, rel=1e-4)
    layer.codebook.mul_(20)  # so that gates are no longer half open
    ids = torch.tensor([[2, 5], [2, 0]])
    expected = torch.zeros(2, 2, 2)
    for row in range(2):
        for column in range(2):
            hidden = memory = total = torch.zeros(5)
            for code in codes[ids[row, column]]:
                gates = layer.lstm.weight_ih_l0 @ layer.codebook[code] + layer.lstm.weight_hh_l0 @ hidden
                write, keep, new, show = (gates + layer.lstm.bias_ih_l0).chunk(4)
                memory = keep.sigmoid() * memory + write.sigmoid() * new.tanh()
                hidden = show.sigmoid() * memory.tanh()
                total = total + hidden
            expected[row, column] = total @ layer.basis
    torch.testing.assert_close(layer(ids).detach(), expected, rtol=1e-5, atol=1e-6)
