import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import KINDS, NAMES, TRANSFORM_NAMES, codec_of, codes_of, spec_of

from kdcode.codec import CodewordSpec, Sizes, codec_from_tensors, make_spec
from kdcode.codec.codeword_spec import _split
from kdcode.codec.spec import COMPOSITIONS
from kdcode.errors import OptionError

LINEAR = CodewordSpec.named("linear", 20, 6, 5, codebook_dtype="float32")


def test_sizes_by_hand():
    # 5 values of 3 bits are 2 bytes; 6·5 codewords of 20 numbers.
    assert LINEAR.sizes(1000, 77) == Sizes(codes=2000, codebook=2400, composition=0, symbols=77)
    assert LINEAR.ratio(1000) == 4 * 20 * 1000 / 4400


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 2400), ("float16", 1200 + 5 * 4), ("int8", 600 + 5 * 4)])
def test_smaller_dtypes_add_one_scale_per_position(dtype, expected):
    assert dataclasses.replace(LINEAR, codebook_dtype=dtype).sizes(1).codebook == expected


@pytest.mark.parametrize(
    ("dtype", "each", "scales", "gates_each"), [("float32", 4, 0, 4), ("float16", 2, 4, 2), ("int8", 1, 4, 2)]
)
def test_sizes_of_a_composition_by_hand(dtype, each, scales, gates_each):
    def composition(name, **changes):
        return CodewordSpec.named(name, 20, 6, 5, codebook_dtype=dtype, **changes).sizes(1).composition

    assert composition("linear") == composition("product") == composition("grouped", groups=2) == 0
    assert composition("linear", codeword_dim=3) == 3 * 20 * each + 3 * scales
    assert composition("lstm", codeword_dim=3) == 3 * 20 * each + 3 * scales + (4 * 3 * 3 + 4 * 3) * gates_each
    assert composition("grouped", groups=2, rotation=True) == 20 * 20 * each + 20 * scales
    assert composition("linear", scale_bits=3) == 8 * 4


@given(size=st.integers(2, 65_536), length=st.integers(1, 40), scale_bits=st.integers(0, 8))
def test_row_scales_count_as_bits_of_the_code(size, length, scale_bits):
    spec = CodewordSpec.named("linear", 3, size, length, scale_bits=scale_bits)
    each = next(bits for bits in range(1, 17) if 2**bits >= size)
    assert spec.bits == length * each + scale_bits
    assert sum(spec.widths) == spec.bits
    assert len(spec.widths) == length + (scale_bits > 0)
    assert spec.row_bytes == -(-spec.bits // 8)
    assert spec.sizes(7).codes == 7 * spec.row_bytes


def test_a_scale_may_fit_into_the_last_byte_of_a_row():
    plain, scaled, wider = (CodewordSpec.named("linear", 3, 4, 3, scale_bits=bits) for bits in (0, 2, 3))
    assert [spec.bits for spec in (plain, scaled, wider)] == [6, 8, 9]
    assert [spec.row_bytes for spec in (plain, scaled, wider)] == [1, 1, 2]


def test_parameters_are_those_of_the_paper():
    # Section 5: K = 50, D = 10, d' = 200 is 0.1M in the small model (d = 200) and 0.4M in the large (d = 1500).
    assert CodewordSpec.named("linear", 200, 50, 10).parameters == 100_000
    assert CodewordSpec.named("linear", 1500, 50, 10, codeword_dim=200).parameters == 400_000
    assert CodewordSpec.named("grouped", 20, 6, 5, groups=2, rotation=True).parameters == 6 * 5 * 10 + 400


def test_weight_shapes_by_hand():
    named = CodewordSpec.named
    assert named("linear", 6, 8, 4).weight_shapes() == {"codebook": (4, 8, 6)}
    assert named("linear", 6, 8, 4, codeword_dim=3).weight_shapes() == {"codebook": (4, 8, 3), "basis": (3, 6)}
    assert named("product", 7, 8, 4).weight_shapes() == {"codebook": (4, 8, 2)}
    assert named("grouped", 7, 8, 4, groups=2).weight_shapes() == {"codebook": (4, 8, 4)}
    assert named("product", 7, 8, 4, rotation=True).weight_shapes() == {"codebook": (4, 8, 2), "basis": (7, 7)}
    lstm = {"codebook": (4, 8, 3), "basis": (3, 6), "recurrent": (4, 3, 3), "bias": (4, 3)}
    assert named("lstm", 6, 8, 4, codeword_dim=3).weight_shapes() == lstm
    assert named("lstm", 6, 8, 4).weight_shapes()["basis"] == (6, 6)  # an LSTM has one where codewords are as wide too


def test_the_tensors_of_a_file_by_hand():
    spec = CodewordSpec.named("lstm", 6, 8, 4, codeword_dim=3, codebook_dtype="int8", scale_bits=2)
    assert spec.tensor_layout() == {
        "codebook": ("int8", (4, 8, 3)),
        "codebook_scale": ("float32", (4, 1, 1)),
        "basis": ("int8", (3, 6)),
        "basis_scale": ("float32", (3, 1)),
        "recurrent": ("float16", (4, 3, 3)),
        "bias": ("float16", (4, 3)),
        "scale_levels": ("float32", (4,)),
    }
    wide = dataclasses.replace(spec, codebook_dtype="float32", scale_bits=0).tensor_layout()
    assert wide == {name: ("float32", shape) for name, shape in spec.weight_shapes().items()}


@pytest.mark.parametrize("composition", [name for name in COMPOSITIONS if name != "transform"])
def test_a_composition_is_known_by_its_name(composition):
    spec = CodewordSpec.named(composition, 20, 6, 5)
    assert spec.composition == composition
    assert spec.kind == ("lstm" if composition == "lstm" else "block-sum")
    assert spec.codebook_dtype == "float16"
    assert not spec.is_rotated


def test_the_shape_of_transform_codes_follows_from_a_table():
    with pytest.raises(OptionError, match="composition: the shape of a transform codec follows from a table"):
        CodewordSpec.named("transform", 20, 6, 5)
    assert spec_of("transform").composition == "transform"


@pytest.mark.parametrize("kind", ["linear", "scaled-lstm", *TRANSFORM_NAMES])
def test_specs_are_made_again_of_their_fields(kind):
    spec = spec_of(kind)
    assert make_spec(json.loads(json.dumps(dataclasses.asdict(spec)))) == spec


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_blank_tensors_are_a_codec_of_the_same_shape(kind, dtype):
    spec = spec_of(kind, dtype)
    codec = codec_from_tensors(spec, spec.blank_tensors())
    assert {name: (array.dtype.name, array.shape) for name, array in codec.stored.items()} == spec.tensor_layout()


@pytest.mark.parametrize("kind", NAMES)
def test_columns_of_codes_end_where_they_are_refused(kind):
    codec = codec_of(kind)
    codes = codes_of(codec, 50)
    assert len(codec.spec.column_ends) == codes.shape[1]
    for column, end in enumerate(codec.spec.column_ends):
        assert codes[:, column].max() < end
        beyond = codes[:1].astype(np.int64)
        beyond[0, column] = end
        with pytest.raises(OptionError, match="codes: expected values in"):
            codec.check_codes(beyond)


def test_shapes_in_words():
    assert spec_of("linear").words == "K=4, D=4, linear"
    assert spec_of("rotated-product").words == "K=4, D=4, product, rotated"
    rotation = "rotation of 3 reflections, 64 states"
    assert spec_of("transform").words == f"transform, 5.0 bytes per row on average, 6 lengths, {rotation}"
    rotation = "rotation of 3 reflections, 5 centroids, 64 states"
    assert spec_of("transform-centroids").words == f"transform, 5.0 bytes per row on average, 6 lengths, {rotation}"
    assert spec_of("transform-plain").words == "transform, 9 bytes per row, no rotation, 32 states"


def test_grouped_codes_have_four_groups_where_that_many_fit():
    assert CodewordSpec.named("grouped", 20, 6, 5).groups == 4
    assert CodewordSpec.named("grouped", 20, 6, 3).groups == 3
    assert CodewordSpec.named("grouped", 2, 6, 5).groups == 2


def test_a_projection_is_no_rotation():
    assert not spec_of("projected").is_rotated
    assert not CodewordSpec.named("lstm", 6, 8, 4).is_rotated  # a square matrix, but of hidden states
    assert spec_of("rotated-product").is_rotated
    assert spec_of("rotated-grouped").is_rotated


def test_blocks_by_hand():
    blocks = CodewordSpec.named("grouped", 7, 8, 5, groups=2).blocks
    assert [(block.positions, block.columns) for block in blocks] == [
        (slice(0, 3), slice(0, 4)),
        (slice(3, 5), slice(4, 7)),
    ]
    assert [(block.length, block.width) for block in blocks] == [(3, 4), (2, 3)]
    assert [block.columns for block in CodewordSpec.named("product", 7, 8, 3).blocks] == [
        slice(0, 3), slice(3, 5), slice(5, 7),
    ]  # fmt: skip


@given(st.integers(1, 300), st.data())
def test_blocks_share_out_everything_evenly(count, data):
    parts = data.draw(st.integers(1, count))
    found = _split(count, parts)
    widths = [part.stop - part.start for part in found]
    assert len(found) == parts
    assert [place for part in found for place in range(count)[part]] == list(range(count))
    assert widths == sorted(widths, reverse=True)
    assert max(widths) - min(widths) <= 1
    if parts > 1:
        assert CodewordSpec.named("product", count, 2, parts).codeword_dim == widths[0]


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_specs_compare_by_value(kind, dtype):
    spec = spec_of(kind, dtype)
    assert spec == spec_of(kind, dtype)
    assert hash(spec) == hash(spec_of(kind, dtype))
    assert spec.widths
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301
    assert spec != dataclasses.replace(spec, codebook_size=spec.codebook_size + 1)


def test_huge_numbers_cost_nothing_before_they_are_used():
    # A file may claim them, and its claims are compared with its tensors before anything is made.
    spec = CodewordSpec.named("linear", 1 << 40, 65_536, 65_536)
    assert spec.row_bytes == 2 * 65_536
    assert spec.parameters == 1 << 72
    assert spec.sizes(1 << 40).codes == 1 << 57


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "sum"}, "kind: expected one of block-sum, lstm, transform, got 'sum'"),
        ({"codebook_dtype": "int4"}, "codebook_dtype must be one of float32, float16, int8, got 'int4'"),
        ({"codebook_size": 1}, "codebook_size: expected 2 to 65536, got 1"),
        ({"codebook_size": 65_537}, "codebook_size: expected 2 to 65536, got 65537"),
        ({"scale_bits": 9}, "scale_bits: expected 0 to 8, got 9"),
        ({"scale_bits": -1}, "scale_bits: expected 0 to 8, got -1"),
        ({"code_length": 0}, "code_length: expected 1 to 65536, got 0"),
        ({"code_length": 65_537}, "code_length: expected 1 to 65536, got 65537"),
        ({"embedding_dim": 0}, "embedding_dim: expected 1 to "),
        ({"inner_dim": 0, "basis": True}, "inner_dim: expected 1 to "),
        ({"groups": 0}, "groups: expected 1 to 5, got 0"),
        ({"groups": 6}, "groups: expected 1 to 5, got 6"),
        ({"groups": 4, "inner_dim": 3, "embedding_dim": 3}, "groups: expected 1 to 3, got 4"),
        ({"groups": 2, "inner_dim": 10, "basis": True}, "groups: expected 1 to 1, got 2"),  # a projection has one block
        ({"inner_dim": 10}, "10 inner and 20 outer dimensions needs a basis"),
        ({"kind": "lstm"}, "needs a basis"),
        ({"kind": "lstm", "basis": True, "groups": 2}, "groups: expected 1 to 1, got 2"),
    ],
)
def test_numbers_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(OptionError, match=message):
        dataclasses.replace(LINEAR, **changes)


def test_names_are_refused_in_the_words_of_the_options():
    with pytest.raises(
        OptionError, match="composition must be one of linear, product, grouped, lstm, transform, got 'sum'"
    ):
        CodewordSpec.named("sum", 6, 4, 3)
    with pytest.raises(OptionError, match="product code of length 9 needs at least as many dimensions, got 8"):
        CodewordSpec.named("product", 8, 4, 9)
    with pytest.raises(OptionError, match="groups: 5 groups need as many positions and dimensions, got a code of 4"):
        CodewordSpec.named("grouped", 10, 4, 4, groups=5)
    with pytest.raises(OptionError, match="3 dimensions; use fewer groups"):
        CodewordSpec.named("grouped", 3, 4, 8, groups=5)
