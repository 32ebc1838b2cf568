"""What all codecs have in common: stored numbers, codes as columns, encode and decode."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sample_tables import KINDS, NAMES, ROWS_PER_BLOCK, TRANSFORM_NAMES, codec_of, coded_table, codes_of, spec_of

from kdcode.codec import CODECS, CodewordCodec, codec_from_tensors, make_codec
from kdcode.codec.spec import KINDS as CODEC_KINDS
from kdcode.errors import OptionError, StorageError


def test_every_kind_of_codec_is_in_the_table():
    assert tuple(CODECS) == CODEC_KINDS
    assert all(codec.kind == name for name, codec in CODECS.items())


# Stored tensors


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_tensors_are_those_of_the_layout_and_make_the_codec_again(kind, dtype):
    codec = codec_of(kind, dtype)
    tensors = codec.tensors()
    assert {name: (array.dtype.name, array.shape) for name, array in tensors.items()} == codec.spec.tensor_layout()
    again = codec_from_tensors(codec.spec, tensors)
    assert type(again) is type(codec)
    assert all(again.tensors()[name] is array for name, array in tensors.items())  # kept as they are
    codes = codes_of(codec, 20)
    np.testing.assert_array_equal(again.decode(codes), codec.decode(codes))


@pytest.mark.parametrize(("kind", "dtype"), [pair for pair in KINDS if pair[0] not in TRANSFORM_NAMES])
def test_weights_are_what_the_stored_numbers_stand_for(kind, dtype):
    codec = codec_of(kind, dtype)
    weights = codec.weights()
    assert {name: value.shape for name, value in weights.items()} == codec.spec.weight_shapes()
    for name, value in weights.items():
        assert value.dtype == np.float32
        stored = codec.stored[name].astype(np.float64) * codec.stored.get(f"{name}_scale", 1.0)
        np.testing.assert_allclose(value, stored, rtol=1e-6)
    np.testing.assert_array_equal(codec.codebook, weights["codebook"])
    if codec.spec.basis:
        np.testing.assert_array_equal(codec.basis, weights["basis"])
    else:
        assert codec.basis is None


def test_stored_numbers_are_not_rounded_again():
    # Scales that are no powers of two, and integers that do not reach 127: rounding again would change both.
    spec = spec_of("rotated-grouped", "int8")
    tensors = codec_of("rotated-grouped", "int8").tensors()
    tensors["basis"] = (tensors["basis"] // 3).astype(np.int8)
    tensors["basis_scale"] = np.linspace(0.011, 0.037, 7, dtype=np.float32)[:, None]
    tensors["codebook"] = (tensors["codebook"] // 2).astype(np.int8)
    codec = codec_from_tensors(spec, tensors)
    np.testing.assert_array_equal(codec.basis, tensors["basis"] * tensors["basis_scale"])
    np.testing.assert_array_equal(codec.codebook, tensors["codebook"] * tensors["codebook_scale"])


def test_levels_are_one_where_they_are_not_given():
    codec = make_codec(spec_of("scaled-linear"), {"codebook": np.ones((4, 4, 7))})
    assert codec.stored["scale_levels"].tolist() == [1] * 8


def test_other_levels():
    codec = codec_of("scaled-rotated")
    codes = codes_of(codec, 20)
    twice = codec.with_levels(2 * codec.stored["scale_levels"])
    np.testing.assert_allclose(twice.decode(codes), 2 * codec.decode(codes), rtol=1e-6)
    np.testing.assert_array_equal(twice.compose(codes), codec.compose(codes))


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_codec_of_longer_vectors(kind, dtype):
    codec = codec_of(kind, dtype)
    codes = codes_of(codec, 20)
    for factor in (3.0, 1e-30, 1e30):
        scaled = codec.scaled(factor)
        expected = codec.decode(codes) * np.float64(factor)
        np.testing.assert_allclose(scaled.decode(codes), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        if dtype != "float32" and isinstance(codec, CodewordCodec):
            for name in codec.spec.weight_shapes():
                np.testing.assert_array_equal(scaled.stored[name], codec.stored[name])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda codec: pickle.loads(pickle.dumps(codec))])  # noqa: S301
@pytest.mark.parametrize("kind", NAMES)
def test_a_codec_can_be_copied_and_sent(kind, copied):
    codec = codec_of(kind)
    codes = codes_of(codec, 5)
    np.testing.assert_array_equal(copied(codec).decode(codes), codec.decode(codes))


@pytest.mark.parametrize(
    ("kind", "dtype", "changes", "message"),
    [
        ("linear", "float32", {"codebook": None}, "codebook: missing"),
        ("linear", "int8", {"codebook_scale": None}, "codebook_scale: missing"),
        ("projected", "float16", {"basis_scale": None}, "basis_scale: missing"),
        ("lstm", "float32", {"bias": None}, "bias: missing"),
        ("scaled-linear", "float32", {"scale_levels": None}, "scale_levels: missing"),
        ("linear", "float32", {"basis": np.eye(7, dtype=np.float32)}, "basis: this tensor does not belong to a linear"),
        ("linear", "float32", {"codebook_scale": np.ones((4, 1, 1), np.float32)}, "codebook_scale: .* not belong"),
        ("linear", "float32", {"codebook": np.zeros((4, 4, 6), np.float32)}, r"expected float32 of shape \(4, 4, 7\)"),
        ("linear", "float32", {"codebook": np.zeros((4, 4, 7))}, "codebook: expected float32 .* got float64"),
        ("linear", "int8", {"codebook_scale": np.ones((4, 4, 1), np.float32)}, r"codebook_scale: expected .*\(4, 1, 1"),
        ("linear", "int8", {"codebook_scale": np.full((4, 1, 1), np.nan, np.float32)}, "codebook_scale: .*not finite"),
        ("linear", "int8", {"codebook_scale": np.full((4, 1, 1), 3e38, np.float32)}, "codebook.*: .*not finite"),
        ("linear", "float16", {"codebook": np.full((4, 4, 7), np.inf, np.float16)}, "codebook: .*not finite"),
        ("projected", "int8", {"basis_scale": np.full((5, 1), np.inf, np.float32)}, "basis_scale: .*not finite"),
        ("lstm", "float32", {"recurrent": np.full((4, 3, 3), np.nan, np.float32)}, "recurrent: .*not finite"),
        ("scaled-linear", "float32", {"scale_levels": np.ones(7, np.float32)}, r"scale_levels: expected .*\(8,\)"),
        ("scaled-linear", "float32", {"scale_levels": -np.ones(8, np.float32)}, "at least 0 that do not fall"),
        ("scaled-linear", "float32", {"scale_levels": np.arange(8, 0, -1, np.float32)}, "at least 0 that do not fall"),
        ("scaled-linear", "float32", {"scale_levels": np.full(8, np.nan, np.float32)}, "scale_levels: .*not finite"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(kind, dtype, changes, message):
    tensors = {**codec_of(kind, dtype).tensors(), **changes}
    with pytest.raises(OptionError, match=message):
        codec_from_tensors(spec_of(kind, dtype), {name: array for name, array in tensors.items() if array is not None})


def test_a_scale_that_makes_float16_codewords_infinite_is_refused():
    tensors = codec_of("linear", "float16").tensors()
    tensors["codebook"] = np.full((4, 4, 7), 60_000, np.float16)
    tensors["codebook_scale"] = np.full((4, 1, 1), 1e36, np.float32)  # times 128 is finite, times 60,000 is not
    with pytest.raises(OptionError, match=r"codebook.*: .*not finite"):
        codec_from_tensors(spec_of("linear", "float16"), tensors)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_codewords_as_large_as_float32_goes_are_kept(dtype):
    values = np.random.default_rng(0).uniform(-1, 1, size=(4, 4, 7)) * 3e38
    codec = make_codec(spec_of("linear", dtype), {"codebook": values})
    np.testing.assert_allclose(codec.codebook, values, rtol=0, atol=3e38 / 200)


def test_float_weights_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match="basis: missing"):
        make_codec(spec_of("projected"), {"codebook": np.ones((4, 4, 5))})
    with pytest.raises(OptionError, match="finite"):
        make_codec(spec_of("linear"), {"codebook": np.full((4, 4, 7), np.nan)})
    with pytest.raises(OptionError, match=r"codebook: expected float32 of shape \(4, 4, 7\)"):
        make_codec(spec_of("linear"), {"codebook": np.ones((4, 4, 5))})


def test_gates_that_float16_cannot_hold_are_refused():
    weights = {**codec_of("lstm").weights(), "bias": np.full((4, 3), 1e6)}
    with pytest.raises(OptionError, match="bias: holds values that are not finite"):
        make_codec(spec_of("lstm", "float16"), weights)


# Codes and packed rows


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("size", [2, 5, 300])
def test_unpacking_undoes_packing(kind, dtype, size):
    codec = codec_of(kind, dtype, size=size, length=5)
    codes = codes_of(codec, 40)
    packed = codec.pack(codes)
    assert packed.dtype == np.uint8
    assert packed.shape == (40, codec.spec.row_bytes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)


def test_a_row_scale_is_packed_after_the_positions():
    codec = codec_of("scaled-linear", length=4, size=4)  # four times 2 bits, then 3 bits
    assert codec.pack(np.array([[3, 0, 1, 2, 5]])).tolist() == [[0b10_01_00_11, 0b101]]


@pytest.mark.parametrize(
    ("kind", "codes", "message"),
    [
        ("linear", np.zeros((3, 5), int), r"integers of shape \(rows, 4\), got int64 \(3, 5\)"),
        ("linear", np.zeros(4, int), r"got int64 \(4,\)"),
        ("linear", np.zeros((3, 4)), "got float64"),
        ("linear", np.full((3, 4), 4), r"values in \[0, 4\), got 4 to 4"),
        ("linear", np.full((3, 4), -1), "got -1 to -1"),
        ("scaled-linear", np.zeros((3, 4), int), r"integers of shape \(rows, 5\)"),
        ("scaled-linear", np.array([[0, 0, 0, 4, 0]]), r"values in \[0, 4\), got 0 to 4"),
        ("scaled-linear", np.array([[0, 0, 0, 0, 8]]), r"values in \[0, 8\), got 8 to 8"),
    ],
)
def test_codes_that_do_not_fit_are_refused(kind, codes, message):
    codec = codec_of(kind)
    for refuse in (codec.check_codes, codec.pack):
        with pytest.raises(OptionError, match=message):
            refuse(codes)


def test_a_packed_code_beyond_k_is_refused():
    codec = codec_of("scaled-linear", size=3)  # four times 2 bits, which could say 3, then 3 bits
    assert codec.unpack(np.array([[0b10_01_00_10, 7]], np.uint8)).tolist() == [[2, 0, 1, 2, 7]]
    with pytest.raises(StorageError, match="codes: found code value 3, values must be below K=3"):
        codec.unpack(np.array([[0, 0], [0b11_00_00_00, 0]], np.uint8))


# Encoding


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_codes_have_the_columns_that_decoding_takes(kind, dtype):
    coded = coded_table(kind, dtype, rows=20)
    columns = 7 + 2 + ("centroids" in kind) if kind in TRANSFORM_NAMES else 4 + ("scaled" in kind)
    vectors = coded.decode(np.arange(20))
    batch = coded.codec.encode(vectors)
    assert batch.shape == (20, columns)
    assert batch.dtype == np.int64
    coded.codec.check_codes(batch)
    assert coded.codec.encode(vectors[4]).shape == (columns,)
    together = ROWS_PER_BLOCK if "blocks" in kind else 1  # rows of a block depend on each other
    np.testing.assert_array_equal(coded.codec.encode(vectors[6 : 6 + together]), batch[6 : 6 + together])
    assert coded.codec.encode(vectors[4].tolist(), beam=1, sweeps=0).shape == (columns,)
    assert coded.codec.encode(vectors[:0]).shape == (0, columns)


@pytest.mark.parametrize("kind", [name for name in NAMES if "scaled" in name])
def test_an_encoded_vector_keeps_its_length(kind):
    # Positions say where a vector points and the scale how long it is: lengths from 1/20 to 20 come back.
    random = np.random.default_rng(0)
    codec = codec_of(kind, length=6, size=16)
    codec = codec.with_levels(np.geomspace(0.01, 100, 8).astype(np.float32))
    directions = codec.compose(codes_of(codec, 50))
    lengths = np.exp(random.uniform(-3, 3, size=50))
    vectors = (directions * (lengths / np.linalg.norm(directions, axis=1))[:, None]).astype(np.float32)
    decoded = codec.decode(codec.encode(vectors))
    # Levels are 3.7 times apart, so that the nearest is wrong by a factor of less than two.
    ratio = np.linalg.norm(decoded, axis=1) / lengths
    assert ratio.max() < 2
    assert ratio.min() > 1 / 2


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("unit", [1e-25, 1e30])
def test_tiny_and_huge_vectors_are_coded_as_well_as_any(kind, dtype, unit):
    plain = codec_of(kind, dtype, size=8)
    far = in_unit(plain, unit)
    codes = codes_of(plain, 30)
    vectors = plain.decode(codes).astype(np.float64)
    assert relative_error(vectors, far.decode(codes) / unit) < 1e-3

    found = far.decode(far.encode((vectors * unit).astype(np.float32))) / unit
    nearest = plain.decode(plain.encode(vectors))
    assert relative_error(vectors, found) < relative_error(vectors, nearest) + 1e-3


def in_unit(codec, unit):
    """A codec of the same vectors, times a unit."""
    if not isinstance(codec, CodewordCodec):
        return codec.scaled(unit)
    weights = dict(codec.weights())
    if codec.spec.scale_bits:  # codewords are for directions; the levels have the unit of the table
        weights["scale_levels"] = codec.stored["scale_levels"] * np.float32(unit)
    else:
        weights[codec.scaled_weight] = weights[codec.scaled_weight] * np.float64(unit)
    return make_codec(codec.spec, weights)  # rounded anew


def relative_error(vectors, copies):
    return np.square(vectors - copies.astype(np.float64)).sum() / np.square(vectors).sum()


@pytest.mark.parametrize("wrong", [np.ones(6), np.ones((2, 6)), np.ones((1, 1, 7)), 3.0])
def test_vectors_of_another_shape_are_refused(wrong):
    with pytest.raises(OptionError) as refused:
        codec_of().encode(wrong)
    assert str(refused.value) == f"expected vectors of shape (7,) or (rows, 7), got shape {np.shape(wrong)}"


@pytest.mark.parametrize("wrong", ["a", [[1.0, 2.0], [3.0]], object()])
def test_what_is_no_vector_is_refused(wrong):
    with pytest.raises(OptionError, match="expected vectors of 7 numbers, got "):
        codec_of().encode(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_values_that_are_not_finite_are_refused_by_row(value):
    vectors = np.ones((5, 7))
    vectors[[2, 4], 3] = value
    with pytest.raises(
        OptionError, match=r"^row 2 of the vectors has a value that is not a finite float32, as have 1 more rows"
    ):
        codec_of().encode(vectors)
    with pytest.raises(OptionError, match=r"^the vector has a value that is not a finite float32"):
        codec_of().encode(vectors[4])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_and_parameters_are_vectors_too(dtype):
    given = torch.nn.Parameter(torch.arange(14).reshape(2, 7).to(dtype) / 4)
    assert np.array_equal(codec_of().encode(given), codec_of().encode(given.detach().float().numpy()))


@pytest.mark.parametrize(("beam", "sweeps"), [(0, 1), (1, -1)])
def test_senseless_searches_are_refused(beam, sweeps):
    with pytest.raises(OptionError, match=f"got {beam} and {sweeps}"):
        codec_of().encode(np.ones(7), beam=beam, sweeps=sweeps)


@pytest.mark.parametrize("dim", [1, 2])
def test_transform_codes_shorter_than_the_memory_of_their_trellis(dim):
    """Not all states of the trellis are reached then."""
    codec = codec_of("transform", dim=dim)
    vectors = np.random.default_rng(0).normal(size=(50, dim))
    lost = codec.decode(codec.encode(vectors)) - vectors
    assert np.square(lost).sum() < 0.06 * np.square(vectors).sum()
