"""The transform codec: packing, decoding and encoding."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kdc_reader import next_state
from sample_tables import codes_of, decode_packed, transform_codec, weighted_codes

from kdcode.codec import Transform
from kdcode.coded import CodedTable
from kdcode.errors import OptionError

CODECS = [
    transform_codec(7),
    transform_codec(7, plain=True),
    transform_codec(40),
    transform_codec(1),
    transform_codec(1, plain=True, states=1),
    transform_codec(33, states=256),
    transform_codec(5, states=1, rows_per_block=64),
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
    np.testing.assert_array_equal(decode_packed(codec, packed), codec.decode(codes))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), which=st.integers(0, len(CODECS) - 1), scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_any_vector_has_a_code_that_packs(seed, which, scale):
    codec = CODECS[which]
    codes = codec.encode(scale * vectors_of(codec, 5, seed))
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


@pytest.mark.parametrize("codec", CODECS)
def test_rows_are_decoded_alike_alone_and_together(codec):
    """One to four blocks are read one by one, more of them side by side."""
    packed = codec.pack(codes_of(codec, 200))
    decoder = codec.decoder(codec.block_rows(packed))
    whole, codes = decoder.decode(np.arange(200)), codec.unpack(packed)
    for count in (1, 2, 4, 5, 7, 16, 17, 40, 65, 130):
        rows = np.random.default_rng(count).integers(0, 200, size=count)
        np.testing.assert_array_equal(decoder.decode(rows), whole[rows])
        np.testing.assert_array_equal(decoder.codes(rows), codes[rows])
        np.testing.assert_array_equal(codec.decode(codes[rows]), whole[rows])


def test_threads_that_read_and_encode_at_once_do_not_disturb_each_other():
    codec = transform_codec(40, rows_per_block=2, centroids=9)
    packed = codec.pack(codes_of(codec, 300))
    vectors = vectors_of(codec, 300)
    expected = decode_packed(codec, packed), codec.encode(vectors)
    fresh = Transform(codec.spec, codec.stored)  # whose tables are made by whoever comes first
    with ThreadPoolExecutor(4) as pool:
        decoded = [pool.submit(decode_packed, fresh, packed) for _ in range(8)]
        encoded = [pool.submit(fresh.encode, vectors) for _ in range(4)]
        assert all((one.result() == expected[0]).all() for one in decoded)
        assert all((one.result() == expected[1]).all() for one in encoded)


def large_codec(**changes):
    """A codec of few magnitudes and large K, so that levels escape from all tables."""
    codec = transform_codec(9, plain=True, **changes)
    rows = codec.spec.rows_per_block
    length = 8 * rows * 9 + 64
    return Transform(replace(codec.spec, codebook_size=65_536, lengths=(length,), mean_length=1.0), codec.stored)


@pytest.mark.parametrize("rows_per_block", [1, 3])
@pytest.mark.parametrize("count", [1, 4, 5, 40])
def test_levels_beyond_all_tables_and_beyond_int8(rows_per_block, count):
    codec = large_codec(rows_per_block=rows_per_block)
    random = np.random.default_rng(count)
    steps = random.normal(size=(count, 9)) * random.choice([1, 40, 120, 130, 1000, 15_000], size=(count, 9))
    vectors = (0.25 * np.clip(steps, -16_000, 16_000) + codec.stored["mean"]).astype(np.float32)
    if not codec.spec.signs:
        vectors = np.abs(vectors) + codec.stored["mean"]
    codes = codec.encode(vectors)
    assert count < 5 or codes[:, :9].max() > 10_000
    packed = codec.pack(codes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)
    decoded = decode_packed(codec, packed)
    np.testing.assert_array_equal(decoded, codec.decode(codes))
    np.testing.assert_allclose(decoded, vectors, atol=0.25 * 2.5)


def test_vectors_of_large_levels_after_a_rotation():
    codec = transform_codec(9)
    spec = replace(codec.spec, codebook_size=65_536, lengths=(136,) * 6, mean_length=1.0)
    codec = Transform(spec, codec.stored)
    vectors = (100 * np.random.default_rng(0).normal(size=(40, 9))).astype(np.float32)
    codes = codec.encode(vectors)
    assert codes[:, :9].max() > 300
    decoded = decode_packed(codec, codec.pack(codes))
    np.testing.assert_array_equal(decoded, codec.decode(codes))
    np.testing.assert_allclose(decoded, vectors, atol=2.5)


def test_coordinates_without_levels_are_those_of_the_mean():
    codec = transform_codec(9, plain=True)
    groups = codec.stored["group_sizes"][:1]  # of four coordinates
    stored = {**codec.stored, "group_sizes": groups, "group_contexts": codec.stored["group_contexts"][:1]}
    codec = Transform(replace(codec.spec, level_groups=1), stored)
    assert codec.active == 4
    codes = codec.encode(vectors_of(codec, 50))
    assert codes[:, :4].any()
    assert not codes[:, 4:9].any()
    packed = codec.pack(codes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)
    np.testing.assert_array_equal(decode_packed(codec, packed)[:, 4:], np.tile(codec.stored["mean"][4:], (50, 1)))
    codes[0, 5] = 2
    with pytest.raises(OptionError, match="codes: row 0 is no code of this codec"):
        codec.pack(codes)


@pytest.mark.parametrize("centroids", [0, 5])
def test_a_vector_is_what_its_levels_say(centroids):
    """Coordinate by coordinate, as docs/format.md has it."""
    codec = transform_codec(7, centroids=centroids)
    codes = codes_of(codec, 50)
    numbers, scales = codec.matrix
    for code, vector in zip(codes, codec.decode(codes), strict=True):
        own, known, expected, state = int(code[-2]), bin(int(code[-1]))[3:], np.zeros(7), 0
        for i in range(7):
            value = int(code[i])
            expected[i] = (value + 1) // 2 if value % 2 else -(value // 2)
            quantizer = state % 2
            assert value == 0 or expected[i] % 2 == quantizer
            state = next_state(state, int(abs(expected[i]) + (quantizer if value else 0)) // 2 % 2, 64)
            if i < len(known):
                expected[i] += (1 if known[i] == "1" else -1) * int(codec.stored["sides"][i]) / 128
        expected *= codec.stored["steps"][own]
        if centroids:
            packed, widths = (codec.stored[name] for name in ("centroids", "centroid_scales"))
            bits = int.from_bytes(packed[code[7]].tobytes(), "little")
            expected += [((bits >> 6 * i) % 64 - 32) * float(widths[i]) for i in range(7)]
        rotated = (numbers * scales[:, None].astype(np.float64)) @ expected
        np.testing.assert_allclose(vector, rotated + codec.stored["mean"], atol=1e-5)


def test_sides_bring_a_vector_nearer():
    codec = transform_codec(40)
    vectors = vectors_of(codec)
    codes = codec.encode(vectors)
    without = codes.copy()
    without[:, -1] = 1
    assert (codes[:, -1] > 1).mean() > 0.5
    errors = [np.square(codec.compose(some) - vectors).sum() for some in (codes, without)]
    assert errors[0] < errors[1]


def test_rows_that_were_not_seen_are_coded_as_well_as_others():
    codec = transform_codec(40)
    errors = []
    for seed in (1, 2):
        vectors = vectors_of(codec, 500, seed)
        errors.append(np.square(codec.decode(codec.encode(vectors)) - vectors).mean())
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    assert errors[0] < 0.1 * np.square(vectors).mean()


def test_one_vector_and_many():
    codec = transform_codec(7)
    vectors = vectors_of(codec, 30)
    codes = codec.encode(vectors)
    np.testing.assert_array_equal(codec.encode(vectors[3]), codes[3])
    assert codec.encode(vectors[:0]).shape == (0, 9)
    with pytest.raises(OptionError, match="beam must be at least 1"):
        codec.encode(vectors, beam=0)


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


def test_ordinary_vectors_under_a_codec_of_tiny_ones_are_cut_off():
    codec = transform_codec(7).scaled(1e-37)
    with np.errstate(over="raise", invalid="raise"):
        codes = codec.encode(np.full((2, 7), 1e4, np.float32))
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


def test_a_constant_table_takes_the_shortest_rows():
    codec = transform_codec(40)
    mean = np.tile(codec.stored["mean"], (100, 1))
    table = CodedTable.from_codes(None, codec.encode(mean), codec)
    assert table.packed.nbytes == 100 * min(codec.spec.lengths)
    error = np.square(table.decode(np.arange(100)) - mean).sum() / 100
    assert error < 40 * float(codec.stored["steps"].max()) ** 2 / 4


def test_weights_choose_the_step():
    codec = transform_codec(7)
    vectors = vectors_of(codec)
    light, heavy = (weighted_codes(codec, vectors, np.full(300, weight)) for weight in (0.25, 1.0))
    assert set(codec.stored["steps"][light[:, -2]].tolist()) == {0.5}
    assert set(codec.stored["steps"][heavy[:, -2]].tolist()) == {0.25}
    assert np.square(codec.decode(heavy) - vectors).sum() < np.square(codec.decode(light) - vectors).sum()


@pytest.mark.parametrize("centroids", [0, 5])
def test_codes_that_do_not_fit_are_refused(centroids):
    codec = transform_codec(7, centroids=centroids)
    codes = codes_of(codec, 20)
    longer = codes.copy()
    longer[4, -1] = longer[4, -1] << 1 if codes[4, -1] < 1 << 6 else 1
    with pytest.raises(
        OptionError, match=r"codes: row 4 is no code of this codec: .* \d sides do not fill the \d+ bytes"
    ):
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
    for size in (45, 46, 47, 48):
        small = Transform(replace(codec.spec, codebook_size=size), codec.stored)
        codes = small.encode(np.full((1, 7), -100.0))
        assert codes[0, :-2].max() < size
        small.pack(codes)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda codec: pickle.loads(pickle.dumps(codec))])  # noqa: S301
def test_a_codec_can_be_copied_and_sent_after_it_was_used(copied):
    codec = transform_codec(7)
    codes = codec.encode(vectors_of(codec, 20))
    np.testing.assert_array_equal(decode_packed(copied(codec), codec.pack(codes)), codec.decode(codes))


def test_without_signs_what_is_negative_becomes_zero():
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
