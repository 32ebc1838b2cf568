"""The transform codec: packing, decoding and encoding, with numpy and compiled code."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kdcode.codec.transform.trellis import states_before
from sample_tables import codes_of, transform_codec

from kdcode import compiled
from kdcode.codec import Transform
from kdcode.coded import CodedTable
from kdcode.errors import OptionError

HAS_NUMBA = pytest.mark.skipif(compiled.kernels(0) is None, reason="numba is not installed")
CODECS = [
    transform_codec(7),
    transform_codec(7, plain=True),
    transform_codec(40),
    transform_codec(1),
    transform_codec(2),
    transform_codec(7, rows_per_block=4),
    transform_codec(2, plain=True, rows_per_block=16),
    transform_codec(20, rows_per_block=3),
    transform_codec(7, centroids=5),
    transform_codec(20, plain=True, centroids=1),
    transform_codec(7, rows_per_block=4, centroids=300),
    transform_codec(2, plain=True, rows_per_block=16, centroids=2),
]


def vectors_of(codec, count=300, seed=0):
    random = np.random.default_rng(seed)
    shape = (count, codec.spec.embedding_dim)
    return (random.normal(size=shape) * random.choice([0.1, 0.5, 2], size=(count, 1))).astype(np.float32)


def coordinates_of(codec, values, numbers, sides, classes):
    """(m, rows · d) coordinates of whole blocks, times the step."""
    found = codec.coder.coordinates(values, classes, sides) * codec.stored["steps"][classes][:, None]
    return found if codec.centroids is None else found + codec.centroids.vectors[numbers].reshape(found.shape)


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_packed_is_unpacked_again(codec):
    codes = codes_of(codec, 500)
    packed = codec.pack(codes)
    assert packed.shape == (500, codec.spec.row_bytes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)
    if codec.spec.rows_per_block > 1:
        np.testing.assert_array_equal(packed[:, 0], np.arange(500) % codec.spec.rows_per_block)
    if codec.spec.classes > 1:
        blocks = packed[:, packed.shape[1] - codec.spec.block_bytes :]
        np.testing.assert_array_equal(blocks[:, 0], codes[:, -2])
        lengths = np.array(codec.spec.lengths)[codes[:, -2]]
        assert not blocks[:, 1:][np.arange(blocks.shape[1] - 1) >= lengths[:, None]].any()
    some = np.array([7, 400, 8, 8, 12, 499])
    np.testing.assert_array_equal(codec.unpack(packed[some]), codes[some])
    np.testing.assert_array_equal(codec.decode_packed(packed), codec.decode(codes))


@pytest.mark.usefixtures("lookup_path")
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), which=st.integers(0, len(CODECS) - 1), scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_any_vector_has_a_code_that_packs(lookup_path, seed, which, scale):
    codec = CODECS[which]
    codes = codec.encode(scale * vectors_of(codec, 5, seed))
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


@HAS_NUMBA
@pytest.mark.parametrize("codec", CODECS)
def test_compiled_code_gives_what_numpy_gives(codec):
    vectors = vectors_of(codec, 700)
    with compiled.using("0"):
        codes = codec.encode(vectors)
        packed = codec.pack(codes)
        unpacked = codec.unpack(packed)
        bytes_of_blocks = codec.blocks_of(packed)[0]
        blocks = codec.coder.read(bytes_of_blocks)  # values, numbers and sides, those of the last one too
        coordinates = coordinates_of(codec, *blocks, codec.spec.row_blocks.block_codes(codes).classes)
    with compiled.using("1"):
        np.testing.assert_array_equal(codec.pack(codes), packed)
        np.testing.assert_array_equal(codec.unpack(packed), unpacked)
        np.testing.assert_array_equal(codec.decode_packed(packed), codec.decode(codes))
        np.testing.assert_array_equal(codec.compiled.decode(bytes_of_blocks), coordinates)  # to the last bit
        for count in (1, 2, 3, 4, 5, 7):
            np.testing.assert_array_equal(codec.compiled.decode(bytes_of_blocks[:count]), coordinates[:count])
            for one, other in zip(codec.compiled.read(bytes_of_blocks[:count]), blocks, strict=True):
                np.testing.assert_array_equal(one, other[:count])


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("centroids", [0, 5])
def test_a_vector_is_what_its_levels_say(centroids):
    """Coordinate by coordinate, as docs/format.md has it."""
    codec = transform_codec(7, centroids=centroids)
    codes = codes_of(codec, 50)
    quantizers = states_before(codes[:, :7], 8) & 1
    for code, quantizer, vector in zip(codes, quantizers, codec.decode(codes), strict=True):
        own, known = int(code[-2]), bin(int(code[-1]))[3:]
        expected = np.zeros(7)
        for i in range(7):
            value, q = int(code[i]), int(quantizer[i])
            context = min(
                max(int(codec.stored["coordinate_contexts"][i]) + int(codec.stored["class_contexts"][own]), 0), 2
            )
            if value:
                lies = 2 * ((value + 1) // 2) - q - int(codec.stored["shifts"][context, q]) / 512
                expected[i] = lies if value % 2 else -lies
            if i < len(known):
                expected[i] += (1 if known[i] == "1" else -1) * int(codec.stored["sides"][context]) / 128
        expected *= codec.stored["steps"][own]
        if centroids:
            packed, scales = (codec.stored[name] for name in ("centroids", "centroid_scales"))
            bits = int.from_bytes(packed[code[7]].tobytes(), "little")
            expected += [((bits >> 5 * i) % 32 - 16) * float(scales[i]) for i in range(7)]
        np.testing.assert_allclose(vector, expected @ codec.rotation.T + codec.stored["mean"], atol=1e-5)


@pytest.mark.usefixtures("lookup_path")
def test_sides_bring_a_vector_nearer():
    codec = transform_codec(40)
    vectors = vectors_of(codec)
    codes = codec.encode(vectors)
    without = codes.copy()
    without[:, -1] = 1
    assert (codes[:, -1] > 1).mean() > 0.5
    errors = [np.square(codec.compose(some) - vectors).sum() for some in (codes, without)]
    assert errors[0] < errors[1]


@pytest.mark.usefixtures("lookup_path")
def test_rows_that_were_not_seen_are_coded_as_well_as_others():
    codec = transform_codec(40)
    errors = []
    for seed in (1, 2):
        vectors = vectors_of(codec, 500, seed)
        errors.append(np.square(codec.decode(codec.encode(vectors)) - vectors).mean())
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    assert errors[0] < 0.1 * np.square(vectors).mean()


@pytest.mark.usefixtures("lookup_path")
def test_one_vector_and_many():
    codec = transform_codec(7)
    vectors = vectors_of(codec, 30)
    codes = codec.encode(vectors)
    np.testing.assert_array_equal(codec.encode(vectors[3]), codes[3])
    assert codec.encode(vectors[:0]).shape == (0, 9)
    with pytest.raises(OptionError, match="beam must be at least 1"):
        codec.encode(vectors, beam=0)


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("centroids", [0, 5])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("value", [0.0, 1e-30, 1e5, 1e30, -1e30, 3e38])
def test_vectors_of_any_size_have_codes(plain, centroids, value):
    """What lies beyond the largest level takes it; nothing overflows on the way."""
    codec = transform_codec(7, plain=plain, centroids=centroids)
    vectors = np.full((3, 7), value, dtype=np.float32)
    vectors[1, ::2] *= -1
    with np.errstate(all="raise"):
        codes = codec.encode(vectors)
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)
    assert np.isfinite(codec.decode(codes)).all()


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("centroids", [0, 5])
@pytest.mark.parametrize("factor", [1e-37, 1e-20, 1e20, 1e36])
def test_tables_of_tiny_and_huge_vectors(factor, centroids):
    codec = transform_codec(7, centroids=centroids)
    scaled = codec.scaled(factor)
    vectors = vectors_of(codec)
    wanted = (vectors.astype(np.float64) * factor).astype(np.float32)
    codes, far = codec.encode(vectors), scaled.encode(wanted)
    assert (codes == far).all(axis=1).mean() > 0.97
    np.testing.assert_allclose(scaled.decode(codes) / factor, codec.decode(codes), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("lookup_path")
def test_ordinary_vectors_under_a_codec_of_tiny_ones_are_cut_off():
    codec = transform_codec(7).scaled(1e-37)
    with np.errstate(over="raise", invalid="raise"):
        codes = codec.encode(np.full((2, 7), 1e4, np.float32))
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


@pytest.mark.usefixtures("lookup_path")
def test_a_constant_table_takes_the_shortest_rows():
    codec = transform_codec(40)
    mean = np.tile(codec.stored["mean"], (100, 1))
    table = CodedTable.from_codes(None, codec.encode(mean), codec)
    assert table.packed.nbytes == 100 * min(codec.spec.lengths)
    error = np.square(table.decode(np.arange(100)) - mean).sum() / 100
    assert error < 40 * float(codec.stored["steps"].max()) ** 2 / 4


@pytest.mark.usefixtures("lookup_path")
def test_weights_choose_the_step():
    codec = transform_codec(7)
    vectors = vectors_of(codec)
    light, heavy = (codec.encode_weighted(vectors, np.full(300, weight)) for weight in (0.25, 1.0))
    assert set(codec.stored["steps"][light[:, -2]].tolist()) == {0.5}
    assert set(codec.stored["steps"][heavy[:, -2]].tolist()) == {0.25}
    assert np.square(codec.decode(heavy) - vectors).sum() < np.square(codec.decode(light) - vectors).sum()


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("centroids", [0, 5])
def test_codes_that_do_not_fit_are_refused(centroids):
    codec = transform_codec(7, centroids=centroids)
    codes = codes_of(codec, 20)
    longer = codes.copy()
    longer[4, -1] = longer[4, -1] << 1 if codes[4, -1] < 1 << 6 else 1
    with pytest.raises(OptionError, match=r"codes: row 4 has \d sides, and the \d+ bytes of its class have room for"):
        codec.pack(longer)
    of_centroids = ((7, 5, r"codes: expected values in \[0, 5\)"), (7, -1, r"codes: expected values in \[0, 5\)"))
    for column, value, message in (
        *of_centroids[:centroids],
        (0, 200, r"codes: expected values in \[0, 200\)"),
        (0, -1, r"codes: expected values in \[0, 200\)"),
        (-2, 6, r"codes: expected values in \[0, 6\)"),
        (-1, 0, r"codes: expected values in \[1, 256\)"),
        (-1, 256, r"codes: expected values in \[1, 256\)"),
    ):
        wrong = codes.astype(np.int64)
        wrong[0, column] = value
        with pytest.raises(OptionError, match=message):
            codec.pack(wrong)
    with pytest.raises(OptionError, match=rf"codes: expected integers of shape \(rows, {codes.shape[1]}\)"):
        codec.pack(codes[:, :-1])


def test_no_level_has_a_value_beyond_k():
    """Where K is even, the largest magnitude is one whose negative is a value below K, too."""
    codec = transform_codec(7, plain=True)
    for size in (26, 27, 28):
        small = Transform(replace(codec.spec, codebook_size=size), codec.stored)
        for mode in ("0", "1"):
            with compiled.using(mode):
                codes = small.encode(np.full((1, 7), -100.0))
                assert codes[0, :-2].max() < size
                small.pack(codes)


def test_decoding_makes_no_tables_for_encoding():
    codec = transform_codec(7)
    packed = codec.pack(codes_of(codec, 5))
    for mode in ("0", "1"):
        fresh = Transform(codec.spec, codec.stored)
        with compiled.using(mode):
            fresh.decode_packed(packed)
        assert "problem" not in vars(fresh)


@pytest.mark.usefixtures("lookup_path")
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda codec: pickle.loads(pickle.dumps(codec))])  # noqa: S301
def test_a_codec_can_be_copied_and_sent_after_it_was_used(copied):
    codec = transform_codec(7)
    codes = codec.encode(vectors_of(codec, 20))
    np.testing.assert_array_equal(copied(codec).decode_packed(codec.pack(codes)), codec.decode(codes))


def test_without_signs_what_is_negative_becomes_zero(lookup_path):
    codec = transform_codec(plain=True, rows_per_block=3)
    assert not codec.spec.signs
    vectors = codec.stored["mean"] + np.array([[1.0, -1.0, 2.0, 0.0, -3.0, 1.0, 1.0]] * 6, dtype=np.float32)
    codes = codec.encode(vectors)
    assert codes[:, [1, 4]].max() == 0
    assert (codes[:, [0, 2, 5, 6]] % 2 == 1).all()
    assert np.array_equal(codec.unpack(codec.pack(codes)), codes)
    codes[0, 0] += 1
    with pytest.raises(OptionError, match=r"found a negative level, in a codec that has none \(signs=False\)"):
        codec.pack(codes)
