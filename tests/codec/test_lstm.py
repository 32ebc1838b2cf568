import math

import numpy as np
import pytest
from sample_tables import DTYPES, codec_of, codes_of

from kdcode.codec import CodewordSpec, Lstm, make_codec


def scalar_lstm(code, codec):
    """Section 2 of the paper, one number at a time, gate for gate."""

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    weights = codec.weights()
    codebook, recurrent, bias, basis = (weights[name] for name in ("codebook", "recurrent", "bias", "basis"))
    width = codebook.shape[2]
    forget, into, out, candidate = range(4)  # the order of docs/format.md
    hidden, memory, total = [0.0] * width, [0.0] * width, [0.0] * width
    for position, chosen in enumerate(code[: len(codebook)]):
        word = codebook[position, chosen]

        def gate(which, unit, word=word, before=tuple(hidden)):
            recurred = sum(float(recurrent[which, unit, other]) * before[other] for other in range(width))
            return float(word[unit]) + recurred + float(bias[which, unit])

        for unit in range(width):
            memory[unit] = sigmoid(gate(forget, unit)) * memory[unit] + sigmoid(gate(into, unit)) * math.tanh(
                gate(candidate, unit)
            )
            hidden[unit] = sigmoid(gate(out, unit)) * math.tanh(memory[unit])
            total[unit] += hidden[unit]
    dim = basis.shape[1]
    return [sum(total[unit] * float(basis[unit, axis]) for unit in range(width)) for axis in range(dim)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_agrees_with_the_paper_number_by_number(dtype):
    codec = codec_of("lstm", dtype, length=5, seed=2)
    assert isinstance(codec, Lstm)
    codes = codes_of(codec, 6)
    expected = [scalar_lstm(code, codec) for code in codes]
    np.testing.assert_allclose(codec.decode(codes), expected, rtol=1e-5, atol=1e-6)


def test_row_scales_multiply_what_it_gives():
    codec = codec_of("scaled-lstm")
    codes = codes_of(codec, 20)
    levels = codec.stored["scale_levels"]
    expected = [np.array(scalar_lstm(code, codec)) * levels[code[-1]] for code in codes]
    np.testing.assert_allclose(codec.decode(codes), expected, rtol=1e-5, atol=1e-5)
    assert len({int(level) for level in codes[:, -1]}) > 1


def test_it_does_not_overflow():
    spec = CodewordSpec.named("lstm", 1, 2, 1, codebook_dtype="float32")
    weights = {
        "codebook": np.zeros((1, 2, 1)),
        "basis": np.ones((1, 1)),
        "recurrent": np.zeros((4, 1, 1)),
        "bias": np.full((4, 1), -1e30),
    }
    assert make_codec(spec, weights).decode(np.array([[0]])).tolist() == [[0]]


def test_it_has_no_score_tables():
    assert codec_of("lstm").score_tables(np.ones((7, 1))) is None
