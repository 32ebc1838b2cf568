import dataclasses

import numpy as np
import pytest

from kdcode import CompressOptions, VectorTable
from kdcode.errors import OptionError
from kdcode.options import promised_sizes
from kdcode.symbols import StoredSymbols


def test_every_option_has_a_help_text():
    for item in dataclasses.fields(CompressOptions):
        assert item.metadata["help"].endswith("."), item.name
        assert item.default is None or item.default in item.metadata.get("choices", [item.default]), item.name


def test_options_come_back_from_their_dict():
    options = CompressOptions(codebook_size=7, composition="lstm", codeword_dim=4)
    assert CompressOptions(**options.as_dict()) == options
    assert options.as_dict()["codebook_size"] == 7


def test_changed_keeps_the_rest():
    options = CompressOptions(seed=5).changed(code_length=3)
    assert (options.seed, options.code_length) == (5, 3)
    with pytest.raises(OptionError, match="no option 'codelength'; the options are codebook_size, code_length"):
        options.changed(codelength=3)
    with pytest.raises(OptionError, match="code_length"):
        options.changed(code_length=0)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("codebook_size", 1),
        ("codebook_size", 65_537),
        ("codebook_size", 2.0),
        ("codebook_size", True),
        ("code_length", 0),
        ("codeword_dim", 0),
        ("composition", "sum"),
        ("numbers", "int4"),
        ("learner", "genetic"),
        ("start", "cold"),
        ("choice", "hard"),
        ("temperature_clock", "minute"),
        ("temperature", 0),
        ("temperature", float("nan")),
        ("temperature_decay", -0.1),
        ("temperature_decay", float("nan")),
        ("epochs", 0),
        ("batch_size", 0),
        ("logit_rate", 0.0),
        ("codeword_rate", -1.0),
        ("seed", -1),
        ("seed", 2**63),
    ],
)
def test_values_that_cannot_work_are_refused(name, wrong):
    with pytest.raises(OptionError, match=f"{name} must be .*got {wrong!r}"):
        CompressOptions(**{name: wrong})


def test_codewords_of_a_product_have_no_size_of_their_own():
    with pytest.raises(OptionError, match="codeword_dim follows from the code length"):
        CompressOptions(composition="product", codeword_dim=3)
    with pytest.raises(OptionError, match="codeword_dim follows from the groups in a grouped composition"):
        CompressOptions(composition="grouped", codeword_dim=3)
    with pytest.raises(OptionError, match="groups are for the grouped composition, not for linear"):
        CompressOptions(groups=3)
    with pytest.raises(OptionError, match="groups must be an integer of at least 1, got 0"):
        CompressOptions(composition="grouped", groups=0)


@pytest.mark.parametrize(
    ("options", "width"),
    [
        (CompressOptions(), 100),
        (CompressOptions(composition="lstm"), 100),
        (CompressOptions(composition="lstm", codeword_dim=8), 8),
        (CompressOptions(composition="product", code_length=16), 7),  # 100/16, rounded up
        (CompressOptions(composition="grouped", groups=3), 34),
        (CompressOptions(codebook_size=32, code_length=16, codeword_dim=8), 8),  # 512·8 + 800 numbers against 51,200
        (CompressOptions(codebook_size=2, code_length=2, codeword_dim=90), 100),  # 4·90 + 9000 against 400: H is folded
        (CompressOptions(codebook_size=2, code_length=2, codeword_dim=200), 100),
    ],
)
def test_the_size_of_codewords(options, width):
    shape = options.code_shape(1000, 100)
    assert shape.codeword_dim == width
    assert (shape.num_embeddings, shape.embedding_dim) == (1000, 100)
    assert (shape.codebook_size, shape.code_length) == (options.codebook_size, options.code_length)


def test_a_product_code_longer_than_the_vector_is_refused():
    with pytest.raises(OptionError, match="length 9 needs at least as many dimensions, got 8"):
        CompressOptions(composition="product", code_length=9).code_shape(10, 8)
    with pytest.raises(OptionError, match="10 dimensions cannot be split into 6 groups of 2 and 1; 5 is the nearest"):
        CompressOptions(composition="grouped", groups=6).code_shape(10, 10)
    with pytest.raises(OptionError, match="5 groups need a code of at least that length, got 4"):
        CompressOptions(composition="grouped", groups=5, code_length=4).code_shape(10, 10)


def test_sizes_are_promised_by_hand():
    options = CompressOptions(codebook_size=4, code_length=3, numbers="int8")
    symbols = ["a", "b"]
    promised = promised_sizes(VectorTable(symbols, np.ones((2, 5))), options)
    assert promised.as_dict() == {
        "codes": 2,
        "codebook": 4 * 3 * 5 + 3 * 4,
        "composition": 0,
        "symbols": StoredSymbols.build(symbols).nbytes,
        "embedding": 74,
        "total": 74 + StoredSymbols.build(symbols).nbytes,
    }
    assert promised_sizes(VectorTable(None, np.ones((2, 5))), options).symbols == 0
