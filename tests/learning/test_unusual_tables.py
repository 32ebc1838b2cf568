"""Tables of one row, of equal rows, of very large and very small numbers, and of many more dimensions than rows."""

from __future__ import annotations

import numpy as np
import pytest
from counted_work import most_memory

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.options import CompressOptions

GRADIENT = {"epochs": 3, "batch_size": 10}
RUNS = [
    {"effort": "fast"},
    {"effort": "fast", "composition": "product"},
    {"effort": "fast", "composition": "grouped"},
    {"effort": "fast", "codeword_dim": 3, "codebook_size": 8},
    {"effort": "normal"},
    {"learner": "straight-through", **GRADIENT},
    {"learner": "straight-through", "composition": "product", **GRADIENT},
    {"learner": "straight-through", "composition": "grouped", **GRADIENT},
    {"learner": "straight-through", "composition": "lstm", **GRADIENT},
    {"learner": "straight-through", "composition": "lstm", "start": "random", **GRADIENT},
    {"learner": "straight-through", "start": "warm", "estimator": "gumbel", **GRADIENT},
    {"learner": "encoder", **GRADIENT},
    {"learner": "random"},
    {"learner": "random", "composition": "product"},
    {"learner": "random", "composition": "grouped"},
    {"learner": "random", "composition": "lstm"},
]
ROW = np.array([1.0, -2.0, 3.0, 0.5, 0.1, 4.0])
TABLES = {
    "one row": ROW[None],
    "one row of zeros": np.zeros((1, 6)),
    "equal rows": np.tile(ROW, (20, 1)),
    "equal rows far from zero": np.full((20, 6), 1e20),
    "zeros": np.zeros((20, 6)),
}


@pytest.mark.parametrize("changes", RUNS, ids=str)
@pytest.mark.parametrize("matrix", TABLES.values(), ids=list(TABLES))
@pytest.mark.parametrize("scale_bits", [0, 2])
def test_tables_without_variance_are_compressed_saved_and_loaded(changes, matrix, scale_bits, tmp_path):
    table = kdcode.VectorTable(None, matrix)
    options = CompressOptions.of(**{"codebook_size": 4, "code_length": 4, "scale_bits": scale_bits, **changes})
    coded = kdcode.compress(table, options=options)
    assert 0 <= coded.provenance["relative_error"] < 1e-3
    kdcode.save(coded, tmp_path / "t.kdc")
    loaded = kdcode.load(tmp_path / "t.kdc")
    copies = loaded.decode(range(len(matrix)))
    np.testing.assert_allclose(copies, matrix, atol=0.1 * np.abs(matrix).max())
    if not matrix.any():
        assert not copies.any()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"composition": "product"},
        {"composition": "grouped", "rotation": True},
        {"scale_bits": 4},
        {"loss": "cosine"},
        {"codeword_dim": 20, "codebook_size": 16},
    ],
    ids=str,
)
def test_the_size_of_numbers_is_no_matter(changes, dtype):
    matrix = glove_50d().head(300).matrix.astype(np.float32)
    options = CompressOptions.of(
        **{"codebook_size": 8, "code_length": 8, "codebook_dtype": dtype, "effort": "fast", **changes}
    )
    errors = [
        kdcode.compress(kdcode.VectorTable(None, matrix * np.float32(factor)), options=options).provenance[
            "relative_error"
        ]
        for factor in (1, 1e-25, 1e-7, 1e6, 1e30)
    ]
    assert errors == pytest.approx([errors[0]] * 5, rel=0.01)
    assert errors[0] < 0.7


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": "straight-through", "epochs": 4, "refine_rounds": 1},
        {"learner": "straight-through", "composition": "lstm", "epochs": 4, "refine_rounds": 1, "codeword_dim": 10},
        {"learner": "encoder", "epochs": 4, "refine_rounds": 1},
        {"learner": "random"},
    ],
    ids=str,
)
def test_the_size_of_numbers_hardly_matters_to_other_learners(changes):
    matrix = glove_50d().head(150).matrix.astype(np.float32)
    options = CompressOptions.of(codebook_size=4, code_length=4, **changes)
    errors = [
        kdcode.compress(kdcode.VectorTable(None, matrix * np.float32(factor)), options=options).provenance[
            "relative_error"
        ]
        for factor in (1, 1e-25, 1e30)
    ]
    assert errors == pytest.approx([errors[0]] * 3, rel=0.05)  # a rounding may tip a code, and others after it


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"codeword_dim": 50, "codebook_size": 32},
        {"composition": "product"},
        {"composition": "grouped", "code_length": 8},
    ],
    ids=str,
)
def test_few_rows_of_many_dimensions_make_no_square_matrix_of_them(changes):
    dim = 4000
    table = kdcode.VectorTable(None, np.random.default_rng(0).normal(size=(60, dim)))
    options = CompressOptions.of(**{"codebook_size": 16, "code_length": 4, **changes})
    found = []
    most = most_memory(lambda: found.append(kdcode.compress(table, options=options, threads=1)))
    assert 4 * 60 * dim <= most < 2 * dim * dim  # bytes; a float32 for each pair of dimensions takes twice as many
    assert found[0].provenance["relative_error"] < 0.8


@pytest.mark.parametrize("composition", ["product", "grouped"])
def test_a_rotation_of_more_dimensions_than_rows_is_refused(composition):
    table = kdcode.VectorTable(None, np.random.default_rng(0).normal(size=(60, 2000)))
    with pytest.raises(OptionError, match=r"rotation: one of 2000 dimensions takes more numbers than the table's 60"):
        kdcode.compress(table, composition=composition, rotation=True)
