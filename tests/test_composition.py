import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sample_tables import KINDS, coded_table, composition

from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import (
    GATES,
    Grouped,
    Linear,
    Lstm,
    Product,
    as_stored,
    from_weights,
    spans,
    stored_weights,
    weights_of,
    widest_span,
)
from kdcode.errors import OptionError

CODEBOOK = np.array([[[1, 2], [3, 4]], [[10, 20], [30, 40]]], dtype=np.float32)  # (D, K, e) = (2, 2, 2)
CODES = np.array([[0, 0], [1, 0], [1, 1]])


def test_linear_by_hand():
    assert Linear(2).compose(CODES, CODEBOOK).tolist() == [[11, 22], [13, 24], [33, 44]]


def test_linear_with_a_projection_by_hand():
    projection = np.array([[1, 0, 2], [0, 1, -1]], dtype=np.float32)
    vectors = Linear(3, projection).compose(CODES, CODEBOOK)
    assert vectors.tolist() == [[11, 22, 0], [13, 24, 2], [33, 44, 22]]


def test_product_by_hand():
    assert Product(3).compose(CODES, CODEBOOK).tolist() == [[1, 2, 10], [3, 4, 10], [3, 4, 30]]


def test_a_lookup_is_a_product_with_one_hot_rows():
    random = np.random.default_rng(0)
    codes, codebook = random.integers(0, 5, (20, 4)), random.normal(size=(4, 5, 3)).astype(np.float32)
    one_hot = np.zeros((20, 4, 5), dtype=np.float32)
    np.put_along_axis(one_hot, codes[:, :, None], 1, axis=2)
    by_matrix = one_hot.reshape(20, -1) @ codebook.reshape(-1, 3)
    np.testing.assert_allclose(Linear(3).compose(codes, codebook), by_matrix, rtol=1e-5, atol=1e-6)


def scalar_lstm(code, codebook, lstm):
    """Section 2 of the paper, one number at a time, gate for gate."""

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    width = codebook.shape[2]
    forget, into, out, candidate = (GATES.index(name) for name in ("forget", "input", "output", "candidate"))
    hidden, memory, total = [0.0] * width, [0.0] * width, [0.0] * width
    for position, chosen in enumerate(code):
        word = codebook[position, chosen]

        def gate(which, unit, word=word, before=tuple(hidden)):
            recurrent = sum(float(lstm.recurrent[which, unit, other]) * before[other] for other in range(width))
            return float(word[unit]) + recurrent + float(lstm.bias[which, unit])

        for unit in range(width):
            memory[unit] = sigmoid(gate(forget, unit)) * memory[unit] + sigmoid(gate(into, unit)) * math.tanh(
                gate(candidate, unit)
            )
            hidden[unit] = sigmoid(gate(out, unit)) * math.tanh(memory[unit])
            total[unit] += hidden[unit]
    dim = lstm.projection.shape[1]
    return [sum(total[unit] * float(lstm.projection[unit, axis]) for unit in range(width)) for axis in range(dim)]


def test_the_lstm_agrees_with_the_paper_number_by_number():
    random = np.random.default_rng(1)
    codes, codebook = random.integers(0, 4, (6, 5)), random.normal(size=(5, 4, 3)).astype(np.float32)
    lstm = composition("lstm", 3, 7, seed=2)
    expected = [scalar_lstm(code, codebook, lstm) for code in codes]
    np.testing.assert_allclose(lstm.compose(codes, codebook), expected, rtol=1e-5, atol=1e-6)


def test_the_lstm_does_not_overflow():
    lstm = Lstm(np.zeros((4, 1, 1), np.float32), np.full((4, 1), -1e30, np.float32), np.ones((1, 1), np.float32))
    assert lstm.compose(np.array([[0]]), np.zeros((1, 2, 1), np.float32)).tolist() == [[0]]


def test_grouped_by_hand():
    # d=5 in two groups of 3 and 2 coordinates; three positions, two of them in the first group
    codebook = np.arange(3 * 2 * 3, dtype=np.float32).reshape(3, 2, 3)
    first = codebook[0, 1] + codebook[1, 0]
    expected = [*first, *codebook[2, 1, :2]]
    assert Grouped(5).compose(np.array([[1, 0, 1]]), codebook).tolist() == [expected]


def test_groups_share_out_positions_and_coordinates():
    found = [(block.positions, block.columns) for block in Grouped(7).blocks(5, 4)]
    assert found == [(slice(0, 3), slice(0, 4)), (slice(3, 5), slice(4, 7))]
    with pytest.raises(OptionError, match="at least one position for each of its 4 groups, got 3"):
        Grouped(7).blocks(3, 2)


def test_codewords_of_a_grouped_code_fit_its_groups():
    with pytest.raises(OptionError, match="no even groups of 10 dimensions have codewords of 6 numbers"):
        CodedTable.from_codes(None, np.zeros((2, 4), dtype=np.int64), np.ones((4, 3, 6), np.float32), Grouped(10))


@pytest.mark.parametrize("kind", ["linear", "projected", "product", "grouped", "turned", "shared"])
def test_score_tables_add_up_to_dot_products(kind):
    coded = coded_table(kind, rows=30, length=4, size=5, dim=7)
    query = np.random.default_rng(3).normal(size=7).astype(np.float32)
    tables = coded.composition.score_tables(query, coded.codebook.values)
    assert tables.shape == (4, 5)
    summed = sum(tables[position][coded.codes[:, position]] for position in range(4))
    np.testing.assert_allclose(summed, coded.decode(np.arange(30)) @ query, rtol=1e-4, atol=1e-5)


def test_the_lstm_has_no_score_tables():
    coded = coded_table("lstm")
    assert coded.composition.score_tables(np.ones(6, np.float32), coded.codebook.values) is None


def test_a_rotation_turns_what_the_blocks_give():
    plain, turned = (coded_table(kind, rows=20) for kind in ("grouped", "turned"))
    rows = np.arange(20)
    rotation = turned.composition.rotation
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(turned.decode(rows), plain.decode(rows) @ rotation, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(turned.composition.unturned(turned.decode(rows)), plain.decode(rows), atol=1e-5)
    assert Grouped(6).weights() == {}


@given(hnp.arrays(np.float32, (4, 9), elements=st.floats(-1, 1, width=32)))
def test_integer_rotations_are_rounded_once(matrix):
    tensors = stored_weights(Product(9, matrix), "int8")
    assert tensors["rotation"].dtype == np.int8
    back = weights_of(tensors)["rotation"]
    most = np.abs(matrix).max(axis=1, keepdims=True)
    assert (np.abs(back - matrix) <= most / 127 + 1e-30).all()
    again = stored_weights(Product(9, back), "int8")
    np.testing.assert_array_equal(weights_of(again)["rotation"], back)


def test_folding_a_projection_changes_no_vector():
    coded = coded_table("projected", rows=20)
    folded = coded.composition.folded(coded.codebook.values)
    assert folded.shape == (3, 4, 6)
    np.testing.assert_allclose(
        Linear(6).compose(coded.codes, folded), coded.decode(np.arange(20)), rtol=1e-5, atol=1e-6
    )
    assert Linear(2).folded(CODEBOOK) is CODEBOOK


@given(st.integers(1, 300), st.data())
def test_spans_share_out_all_coordinates_evenly(dim, data):
    length = data.draw(st.integers(1, dim))
    parts = spans(dim, length)
    widths = [part.stop - part.start for part in parts]
    assert len(parts) == length
    assert [axis for part in parts for axis in range(dim)[part]] == list(range(dim))
    assert widths == sorted(widths, reverse=True)
    assert max(widths) - min(widths) <= 1
    assert widest_span(dim, length) == widths[0]


def test_spans_by_hand():
    assert spans(7, 3) == [slice(0, 3), slice(3, 5), slice(5, 7)]


@pytest.mark.parametrize("length", [0, 8])
def test_a_product_code_is_not_longer_than_the_vector(length):
    with pytest.raises(OptionError, match=f"length {length} needs"):
        spans(7, length)
    with pytest.raises(OptionError, match=f"length {length} needs"):
        widest_span(7, length)


@pytest.mark.parametrize(("kind", "numbers"), KINDS)
def test_weights_rebuild_the_composition(kind, numbers):
    coded = coded_table(kind, numbers, rows=10)
    used = coded.composition
    rebuilt = from_weights(used.name, used.embedding_dim, used.weights())
    np.testing.assert_array_equal(
        rebuilt.compose(coded.codes, coded.codebook.values), used.compose(coded.codes, coded.codebook.values)
    )


def test_an_unknown_composition_is_refused_with_the_list():
    with pytest.raises(OptionError, match="one of linear, lstm, product, grouped, got 'sum'"):
        from_weights("sum", 3, {})


def test_weights_are_rounded_as_the_file_keeps_them():
    projection = np.full((2, 3), 1.0001, dtype=np.float32)
    assert as_stored(Linear(3, projection), Codebook.of(CODEBOOK)).weights()["projection"][0, 0] == np.float32(1.0001)
    for numbers in ("float16", "int8"):
        rounded = as_stored(Linear(3, projection), Codebook.of(CODEBOOK, numbers)).weights()["projection"]
        assert rounded.dtype == np.float32
        assert rounded[0, 0] == 1


@pytest.mark.parametrize(
    ("given_one", "message"),
    [
        (Linear(3), "linear from codewords of 2 numbers to 3 dimensions has weights .*projection.* got none"),
        (Linear(2, np.eye(2, dtype=np.float32)), "fold H into the codewords"),
        (Linear(4, np.ones((2, 3), np.float32)), "got .*(2, 3)"),
        (composition("lstm", 3, 5), "lstm from codewords of 2"),
        (Product(5), "has codewords of 3 numbers, got 2"),
        (Product(1), "needs at least as many dimensions"),
        (Linear(3, np.full((2, 3), 1e6, np.float32)), "composition.projection: .* not finite in float16"),
        (Linear(3, np.full((2, 3), np.nan, np.float32)), "not finite"),
    ],
)
def test_parts_that_do_not_fit_are_refused(given_one, message):
    with pytest.raises(OptionError, match=message):
        as_stored(given_one, Codebook.of(CODEBOOK, "float16"))
