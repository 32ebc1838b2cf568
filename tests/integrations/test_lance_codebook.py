"""The codebook for Lance, used as Lance uses it: each block of a vector gets the number of the nearest codeword."""

import numpy as np
import pytest
from sample_tables import NAMES, codec_with, coded_table, random_codes

from kdcode.codec import CodewordSpec
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.integrations.lance_codebook import pq_codebook


@pytest.mark.parametrize(("size", "length", "dim"), [(256, 4, 12), (100, 3, 12), (2, 12, 12), (256, 1, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_codewords_in_the_shape_that_lance_takes(size, length, dim, dtype):
    coded = coded_table("product", dtype, rows=50, size=size, length=length, dim=dim)
    codebook = pq_codebook(coded)
    assert (codebook.dtype, codebook.shape) == (np.float32, (length, 256, dim // length))
    vectors = coded.decode(np.arange(50))
    chosen = codebook[np.arange(length), coded.codes]  # (50, D, d / D)
    assert np.allclose(chosen.reshape(50, dim), vectors, rtol=0, atol=1e-6)
    assert np.array_equal(codebook[:, size:], np.repeat(codebook[:, :1], 256 - size, axis=1))


def test_vectors_get_the_codes_of_the_table():
    coded = coded_table("product", rows=50, size=60, length=4, dim=12)
    near = coded.decode(np.arange(50)) + 0.01
    parts, codebook = near.reshape(50, 4, 1, 3), pq_codebook(coded)
    nearest = np.square(parts - codebook).sum(axis=3).argmin(axis=2)
    assert np.array_equal(nearest, coded.encode(near))


@pytest.mark.parametrize("kind", [name for name in NAMES if name != "product"])
def test_other_codes_are_refused(kind):
    with pytest.raises(
        OptionError, match=r"product codes without a rotation or row scales, got .*codes.*rotation=False"
    ):
        pq_codebook(coded_table(kind, length=4, dim=8))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "rotated-product"}, "got rotated product codes; compress"),
        ({"kind": "scaled-linear"}, "got linear codes with row scales; compress"),
        ({"kind": "lstm"}, "got lstm codes; compress"),
        ({"kind": "transform"}, "got transform codes; compress"),
        ({"kind": "product", "length": 4, "dim": 9}, "blocks of one width, got 9 dimensions in 4 blocks; compress"),
        (
            {"kind": "product", "size": 257, "length": 4, "dim": 8},
            "at most 256 codewords for each block, got 257; comp",
        ),
    ],
)
def test_refusals_say_what_was_given(settings, said):
    with pytest.raises(OptionError, match=said):
        pq_codebook(coded_table(**settings))


def test_row_scales_are_refused():
    spec = CodewordSpec.named("product", 8, 16, 4, scale_bits=2)
    coded = CodedTable.from_codes(None, random_codes(spec, 5), codec_with(spec))
    with pytest.raises(OptionError, match="got product codes with row scales; compress"):
        pq_codebook(coded)
