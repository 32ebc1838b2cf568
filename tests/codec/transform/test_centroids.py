"""Centroids: what rows are measured from, how they are stored, chosen and coded."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import decode_packed, transform_codec, weighted_codes

from kdcode import bitpack
from kdcode.codec import Transform
from kdcode.codec.transform.centroids import CENTROID_BITS, TOTAL, Centroids, rounded_centroids, rounded_frequencies
from kdcode.errors import OptionError


def centroids_of(vectors, frequencies=None, bits=6):
    """Centroids at (C, d) coordinates, which are equally frequent if nothing else is said."""
    counts = rounded_frequencies(np.ones(len(vectors), np.int64)) if frequencies is None else np.array(frequencies)
    return Centroids(*rounded_centroids(np.array(vectors, dtype=np.float64), bits), counts.astype(np.uint16), bits)


def nearest_by_hand(centroids, coordinates, trade):
    """(n,) the least of all sums of squared distance and bits, in float64."""
    apart = coordinates[:, None].astype(np.float64) - centroids.vectors.astype(np.float64)
    return (np.square(apart).sum(axis=2) + trade * -np.log2(centroids.frequencies / TOTAL)).argmin(axis=1)


# What is stored


def test_numbers_and_what_they_stand_for():
    """Two centroids of three numbers of 4 bits: 0, 8 and 15; 9, 7 and 1."""
    packed = np.frombuffer(bytes.fromhex("800f7901"), np.uint8).reshape(2, 2)
    scales = np.array([0.5, 2, 0.25], np.float32)
    centroids = Centroids(packed, scales, np.array([24576, 8192], np.uint16), 4)
    assert centroids.vectors.tolist() == [[-4, 0, 1.75], [0.5, -2, -1.75]]
    assert centroids.vectors.dtype == np.float32
    assert len(centroids) == 2
    assert centroids.largest == 16
    assert centroids.nbytes == 4 + 12 + 4
    np.testing.assert_allclose(centroids.costs, [-np.log2(0.75), 2])


@pytest.mark.parametrize("bits", CENTROID_BITS)
def test_rounded_coordinates_lie_within_half_a_scale(bits):
    vectors = np.random.default_rng(bits).normal(size=(50, 9)) * np.array([100, 10, 1, 1, 1, 0.1, 1e-3, 1e-30, 0])
    packed, scales = rounded_centroids(vectors, bits)
    assert packed.shape == (50, bitpack.row_bytes([bits] * 9))
    found = Centroids(packed, scales, rounded_frequencies(np.ones(50, np.int64)), bits).vectors
    assert (np.abs(found - vectors) <= 0.5001 * scales).all()
    assert scales[-1] == 0
    assert not found[:, -1].any()
    np.testing.assert_allclose(np.abs(found).max(axis=0), np.abs(vectors).max(axis=0), rtol=1e-5)


def test_the_largest_numbers_can_be_stored():
    codec = transform_codec(3, centroids=1)
    for bits in CENTROID_BITS:
        packed, scales = rounded_centroids(np.array([[3.4e38, -3.4e38, 1e-45]]), bits)
        found = Centroids(packed, scales, codec.stored["centroid_frequencies"], bits).vectors
        assert np.isfinite(found).all()
        assert found[0, 0] > 2.9e38
        assert found[0, 1] < -2.9e38


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.sampled_from([1, 100]))
def test_rounded_frequencies_add_up(counts, times):
    counts = np.sort(np.array(counts * times, dtype=np.int64))[::-1]
    found = rounded_frequencies(counts)
    assert found.dtype == np.uint16
    assert found.sum(dtype=np.int64) == TOTAL
    assert found.min() >= 1
    assert (np.diff(found.astype(np.int64)) <= 0).all()


def test_frequencies_are_near_those_of_the_counts():
    counts = np.array([5000, 3000, 1500, 400, 100])
    np.testing.assert_allclose(rounded_frequencies(counts) / TOTAL, counts / counts.sum(), atol=2e-4)
    assert rounded_frequencies(np.zeros(4000, np.int64)).tolist()[1:] == [7] * 3999
    assert rounded_frequencies(np.array([10**6, *[0] * 3999])).tolist() == [TOTAL - 3999, *[1] * 3999]
    assert rounded_frequencies(np.array([3])).tolist() == [TOTAL]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("centroid_frequencies", lambda numbers: numbers + 1, "centroid_frequencies: they add up to 32773, expected"),
        ("centroid_frequencies", lambda numbers: numbers * 0, "centroid_frequencies: expected numbers of at least 1"),
        ("centroid_frequencies", np.cumsum, "centroid_frequencies: they add up to"),
        ("centroid_scales", lambda numbers: -numbers, "centroid_scales: expected numbers of at least 0"),
        ("centroid_scales", lambda numbers: numbers + np.nan, "centroid_scales: holds values that are not finite"),
        ("centroids", lambda numbers: numbers[:-1], "centroids: expected uint8 of shape"),
    ],
)
def test_what_cannot_be_is_refused(name, change, message):
    codec = transform_codec(7, centroids=5)
    wrong = np.asarray(change(codec.stored[name]), dtype=codec.stored[name].dtype)
    with pytest.raises(OptionError, match=message):
        Transform(codec.spec, {**codec.stored, name: wrong})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("centroids", -1, "centroids: expected 0 to 8192, got -1"),
        ("centroids", 8193, "centroids: expected 0 to 8192, got 8193"),
        ("centroid_bits", 7, "centroid_bits: expected one of 4, 6, got 7"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(field, value, message):
    with pytest.raises(OptionError, match=message):
        replace(transform_codec(7, centroids=5).spec, **{field: value})


def test_a_codec_without_centroids_has_none_of_their_tensors():
    codec = transform_codec(7)
    assert codec.centroids is None
    assert not {"centroids", "centroid_scales", "centroid_frequencies"} & set(codec.spec.tensor_layout())
    with pytest.raises(OptionError, match="centroid_scales: this tensor does not belong to a transform codec"):
        Transform(codec.spec, {**codec.stored, "centroid_scales": np.ones(7, np.float32)})


@pytest.mark.parametrize("centroids", [1, 5, 4000])
def test_blank_tensors_are_a_codec(centroids):
    spec = transform_codec(7, centroids=centroids).spec
    codec = Transform(spec, spec.blank_tensors())
    assert len(codec.centroids) == centroids
    assert not codec.centroids.vectors.any()
    codes = codec.encode(np.eye(7))
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


# Which is chosen


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), count=st.sampled_from([1, 2, 30, 700]), trade=st.sampled_from([0.0, 0.3, 5.0]))
def test_the_nearest_is_that_of_the_least_distance_and_bits(seed, count, trade):
    random = np.random.default_rng(seed)
    centroids = centroids_of(random.normal(size=(count, 6)), rounded_frequencies(random.geometric(0.01, size=count)))
    coordinates = (2 * random.normal(size=(40, 6))).astype(np.float32)
    expected = nearest_by_hand(centroids, coordinates, trade)
    assert (centroids.nearest(coordinates, trade) == expected).mean() > 0.97  # float32 decides between equals


def test_what_is_named_often_is_chosen_from_farther_away():
    """From the middle of two, where the second takes three bits more."""
    centroids = centroids_of([[-1.0, 0], [1, 0]], [TOTAL * 8 // 9 + 1, TOTAL // 9])
    coordinates = np.array([[0, 5], [0.2, 5], [0.4, 5]], np.float32)
    assert centroids.nearest(coordinates, 0.0)[1:].tolist() == [1, 1]
    assert centroids.nearest(coordinates, 0.4).tolist() == [0, 0, 1]  # 4 times .3 is 3 bits times .4
    assert centroids.nearest(coordinates, 10.0).tolist() == [0, 0, 0]


def test_rows_are_compared_a_few_at_a_time_as_at_once(monkeypatch):
    centroids = centroids_of(np.random.default_rng(0).normal(size=(30, 6)))
    coordinates = np.random.default_rng(1).normal(size=(100, 6)).astype(np.float32)
    whole = centroids.nearest(coordinates, 0.1)
    monkeypatch.setattr("kdcode.codec.transform.centroids._AT_ONCE", 30 * 7)
    np.testing.assert_array_equal(centroids.nearest(coordinates, 0.1), whole)
    assert centroids.nearest(coordinates[:0], 0.1).shape == (0,)


@pytest.mark.parametrize("factor", [1e-40, 1e-25, 1e-15, 1e17, 1e30, 1e37])
def test_numbers_of_any_size_are_compared(factor):
    random = np.random.default_rng(0)
    vectors, coordinates = random.normal(size=(20, 6)), random.normal(size=(60, 6))
    usual = centroids_of(vectors).nearest(coordinates.astype(np.float32), 0.3)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        far = centroids_of(vectors * factor).nearest((coordinates * factor).astype(np.float32), 0.3 * factor**2)
    assert (far == usual).mean() > 0.9


@pytest.mark.parametrize(
    ("own", "other", "trade", "expected"),
    [
        (1e30, 1.0, 1.0, [0, 0, 0]),
        (1.0, 1e30, 1.0, [2, 1, 0]),
        (0.0, 1.0, 1e60, [0, 0, 0]),
        (1e-30, 1.0, 0.0, [2, 1, 0]),
    ],
)
def test_centroids_of_another_size_than_rows(own, other, trade, expected):
    """Rows on the axes, and a centroid on each: the first where all are equally far, or where bits decide."""
    centroids = centroids_of(own * np.eye(3), [16384, 8192, 8192])
    coordinates = (other * np.eye(3)[::-1]).astype(np.float32)
    with np.errstate(over="raise", invalid="raise"):
        found = centroids.nearest(coordinates, trade)
    assert found.tolist() == expected


# How it is coded


def clustered(codec, count, seed=0, away=0.15):
    """(count, d) vectors near the centroids of a codec, and the number of each."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, len(codec.centroids), size=count)
    coordinates = codec.centroids.vectors[numbers] + away * random.normal(size=(count, codec.spec.embedding_dim))
    coordinates = coordinates if codec.rotation is None else coordinates @ codec.rotation.T
    return (coordinates + codec.stored["mean"]).astype(np.float32), numbers


@pytest.mark.parametrize("rows_per_block", [1, 4])
def test_a_row_has_the_number_of_its_centroid(rows_per_block):
    codec = transform_codec(12, rows_per_block=rows_per_block, centroids=20)
    vectors, numbers = clustered(codec, 200)
    codes = codec.encode(vectors)
    assert codes.shape == (200, 12 + 3)
    assert (codes[:, 12] == numbers).mean() > 0.95


@pytest.mark.parametrize("rows_per_block", [1, 4])
@pytest.mark.parametrize("count", [1, 6, 200])
def test_numbers_that_are_given_are_kept(rows_per_block, count):
    codec = transform_codec(12, rows_per_block=rows_per_block, centroids=20)
    vectors, numbers = clustered(codec, count)
    others = (numbers + 7) % 20
    codes = weighted_codes(codec, vectors, numbers=others)
    np.testing.assert_array_equal(codes[:, 12], others)
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)
    own = weighted_codes(codec, vectors, numbers=numbers)
    errors = [np.square(codec.decode(some) - vectors).mean() for some in (own, codes)]
    assert max(errors) < 0.1 * np.square(vectors).mean()


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(("rows_per_block", "count"), [(1, 1), (1, 50), (4, 1), (4, 4), (4, 50), (64, 50), (64, 131)])
def test_rows_and_blocks_are_read_again(plain, rows_per_block, count):
    codec = transform_codec(7, plain=plain, rows_per_block=rows_per_block, centroids=9)
    vectors, _ = clustered(codec, count, away=0.5)
    codes = codec.encode(vectors)
    packed = codec.pack(codes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)
    np.testing.assert_array_equal(decode_packed(codec, packed), codec.decode(codes))
    some = np.random.default_rng(0).permutation(count)[:20]
    np.testing.assert_array_equal(codec.unpack(packed[some]), codes[some])
    np.testing.assert_array_equal(decode_packed(codec, packed[some]), codec.decode(codes[some]))


@pytest.mark.parametrize("count", [1, 2, 300, 4000])
def test_the_core_names_the_nearest_centroids(count):
    codec = transform_codec(12, centroids=count)
    coordinates = (3 * np.random.default_rng(count).normal(size=(131, 12))).astype(np.float32)
    found = np.empty(131, np.uint16)
    codec.core.nearest(coordinates, 0.4, found)
    units = Centroids(
        codec.centroids.packed,
        (codec.centroids.scales / codec.nominal_step).astype(np.float32),
        codec.centroids.frequencies,
        codec.centroids.bits,
    )
    assert (found == nearest_by_hand(units, coordinates, 0.4)).mean() > 0.97


@pytest.mark.parametrize("rows_per_block", [1, 8])
def test_clusters_are_coded_better_with_centroids(rows_per_block):
    """At the same weight of a bit, so that vectors take no more bytes either."""
    codec = transform_codec(16, rows_per_block=rows_per_block, centroids=12)
    layout = replace(codec.spec, centroids=0).tensor_layout()
    without = Transform(replace(codec.spec, centroids=0), {name: codec.stored[name] for name in layout})
    vectors, _ = clustered(codec, 800)
    errors, sizes = [], []
    for one in (codec, without):
        packed = one.pack(one.encode(vectors))
        errors.append(np.square(decode_packed(one, packed) - vectors).mean())
        sizes.append(one.stored_rows(packed).nbytes)
    assert errors[0] < errors[1]
    assert sizes[0] < 0.8 * sizes[1]
