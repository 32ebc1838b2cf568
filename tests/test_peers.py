"""Methods that kdcode is compared with: what they take is what they are counted as, and they lose what they should."""

import itertools
import sys
from pathlib import Path

import faiss
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import faiss_peers
from faiss_peers import BY_CODEWORD, FAISS_PEERS, additive_bytes, product_bytes, rotated_bytes
from peer_kinds import number_bytes, rounded
from peers import PEERS
from scalar_peers import SCALAR_PEERS, EntropyCoded, adaptive_bits

from kdcode.evaluation import gaussian_limit

BY_NAME = {peer.name: peer for peer in PEERS}
ENTROPY, RABITQ, TURBOQUANT = SCALAR_PEERS
FORMATS = ("float32", "float16", "int8", BY_CODEWORD)


@pytest.fixture(scope="module")
def vectors():
    """Gaussian rows, of which some directions have much more variance than others."""
    draw = np.random.default_rng(0)
    mixed = draw.normal(size=(3000, 16)) * np.geomspace(2, 0.2, 16)
    return (mixed @ np.linalg.qr(draw.normal(size=(16, 16)))[0] + 0.3).astype(np.float32)


def relative_error(vectors, copy):
    return np.square(vectors - copy).sum() / np.square(vectors - vectors.mean(axis=0)).sum()


def stored(groups, kept_as):
    """The arrays that numbers are kept as, and the numbers that come back of them."""
    if kept_as != "int8":
        arrays = [groups.astype(kept_as)]
        return arrays, arrays[0].astype(np.float32)
    scales = (np.abs(groups).max(axis=1, keepdims=True) / 127).astype(np.float16)
    whole = np.rint(groups / np.where(scales == 0, 1, scales.astype(np.float32))).clip(-127, 127).astype(np.int8)
    return [scales, whole], whole * scales.astype(np.float32)


@pytest.mark.parametrize("kept_as", ["float32", "float16", "int8"])
def test_rounded_numbers_are_those_of_arrays_that_take_the_counted_bytes(kept_as):
    groups = np.random.default_rng(0).normal(size=(5, 24)).astype(np.float32)
    groups[2] = 0
    arrays, back = stored(groups, kept_as)
    assert np.array_equal(rounded(groups, kept_as), back)
    assert number_bytes(kept_as, 5, 24) == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("kept_as", FORMATS)
@pytest.mark.parametrize("name", ["faiss PQ", "faiss OPQ", "faiss RQ", "faiss LSQ"])
def test_bytes_of_faiss_are_those_of_its_codes_and_rounded_codebooks(name, kept_as):
    rows, dim, positions, bits = 100, 12, 4, 3
    wide = dim // positions if name in ("faiss PQ", "faiss OPQ") else dim
    codebooks = np.random.default_rng(0).normal(size=(positions, 2**bits, wide)).astype(np.float32)
    groups = codebooks.reshape(-1, wide) if kept_as == BY_CODEWORD else codebooks.reshape(positions, -1)
    number = "int8" if kept_as == BY_CODEWORD else kept_as
    arrays = stored(groups, number)[0] + [np.zeros((rows, -(-positions * bits // 8)), dtype=np.uint8)]
    if name == "faiss OPQ":
        arrays += stored(np.eye(dim, dtype=np.float32), number)[0]
    size = {"faiss PQ": product_bytes, "faiss OPQ": rotated_bytes}.get(name, additive_bytes)
    assert size(rows, dim, positions, bits, kept_as) == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("kept_as", FORMATS)
@pytest.mark.parametrize("splits", [2, 3, 6])
def test_bytes_of_a_split_sum_are_those_of_the_codebooks_of_its_parts(splits, kept_as):
    rows, dim, own, bits = 100, 12, 2, 3
    arrays = [np.zeros((rows, -(-own * splits * bits // 8)), dtype=np.uint8)]
    for codebooks in np.random.default_rng(0).normal(size=(splits, own, 2**bits, dim // splits)).astype(np.float32):
        groups = codebooks.reshape(-1, dim // splits) if kept_as == BY_CODEWORD else codebooks.reshape(own, -1)
        arrays += stored(groups, "int8" if kept_as == BY_CODEWORD else kept_as)[0]
    counted = additive_bytes(rows, dim, own * splits, bits, kept_as, splits=splits)
    assert counted == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("name", ["faiss RQ", "faiss LSQ"])
def test_each_part_of_a_split_sum_is_coded_by_itself(vectors, name):
    some = vectors[:1000]
    setting = {"positions": 4, "bits": 4, "splits": 2}
    fitted = BY_NAME[name].fit(some, {**setting, "formats": {"float32": 1}})
    assert fitted.setting == {**setting, "format": "float32"}
    for half in (slice(8), slice(8, 16)):  # the same as a quantizer that has never seen the other part
        alone = BY_NAME[name].fit(np.ascontiguousarray(some[:, half]), {"positions": 2, "bits": 4})
        assert np.allclose(fitted.copy[:, half], alone.copy, atol=1e-5)
        assert len(np.unique(fitted.copy[:, half], axis=0)) <= 2**8
    assert relative_error(some, fitted.copy) < 0.35
    assert np.array_equal(fitted.decode(), fitted.copy)
    if name == "faiss RQ":  # LSQ searches from codes that it draws
        changed = some.copy()
        changed[:, 8:] = 0
        assert np.allclose(fitted.recode(changed)[:, :8], fitted.copy[:, :8])


@pytest.mark.parametrize("name", ["faiss RQ", "faiss LSQ"])
def test_sums_are_tried_whole_and_in_parts_as_long_as_they_fit(name):
    rows, dim, most = 5000, 24, 5000 * 24 * 4 // 10
    settings = [setting for setting, _ in BY_NAME[name].settings(rows, dim, most)]
    assert {1, 2, 4} <= {setting["splits"] for setting in settings}
    for setting in settings:
        positions, bits, splits = (setting[key] for key in ("positions", "bits", "splits"))
        assert dim % splits == positions % splits == 0
        assert splits == 1 or 2 <= positions // splits <= 12
        assert additive_bytes(rows, dim, positions, bits, "int8", splits=splits) <= most
        assert additive_bytes(rows, dim, positions + splits, bits, "int8", splits=splits) > most


@pytest.mark.parametrize("name", ["faiss RQ", "faiss LSQ"])
def test_sums_that_would_take_too_long_are_left_out(name, monkeypatch):
    rows, dim, most = 200_000, 384, 200_000 * 384 * 4 // 40
    tried = [setting for setting, _ in BY_NAME[name].settings(rows, dim, most)]
    monkeypatch.setattr(faiss_peers, "MOST_SECONDS", np.inf)
    left_out = [setting for setting, _ in BY_NAME[name].settings(rows, dim, most) if setting not in tried]
    for bits in (4, 5):  # where one sum is more than fifty positions long, and those of parts are short
        assert 1 in [setting["splits"] for setting in left_out if setting["bits"] == bits]
        assert any(setting["splits"] > 1 for setting in tried if setting["bits"] == bits)


@pytest.mark.parametrize("name", ["faiss PQ", "faiss RQ", "faiss LSQ"])
def test_what_comes_back_of_faiss_has_codewords_of_int8(vectors, name):
    setting = {"positions": 1, "bits": 4, "formats": {"int8": 1234}}
    fitted = BY_NAME[name].fit(vectors, setting)
    whole = fitted.copy * (127 / np.abs(fitted.copy).max())
    assert np.abs(whole - np.rint(whole)).max() < 0.05  # the scale itself is float16
    assert len(np.unique(fitted.copy, axis=0)) == 16
    assert (fitted.setting, fitted.size) == ({"positions": 1, "bits": 4, "format": "int8"}, 1234)


@pytest.mark.parametrize("peer", FAISS_PEERS, ids=lambda peer: peer.name)
def test_the_codes_of_faiss_are_found_again_after_rounding(vectors, peer):
    shape = {"positions": 4, "bits": 4}
    exact = relative_error(vectors, peer.fit(vectors, shape).copy)
    fitted = peer.fit(vectors, {**shape, "formats": {"int8": 1, BY_CODEWORD: 2}})
    assert relative_error(vectors, fitted.copy) == pytest.approx(exact, rel=0.02)
    assert not np.array_equal(peer.fit(vectors, {**shape, "formats": {"float32": 1}}).copy, fitted.copy)
    if peer.name != "faiss LSQ":  # which searches from codes that it draws
        assert np.allclose(fitted.recode(vectors), fitted.copy)
    assert np.array_equal(fitted.decode(), fitted.copy)


def test_the_format_that_loses_least_is_kept(vectors):
    few = np.concatenate([vectors, np.full((200, 16), 3000, dtype=np.float32)])  # one codeword much longer than others
    for sizes in ({"int8": 1, BY_CODEWORD: 2}, {BY_CODEWORD: 2, "int8": 1}):
        fitted = BY_NAME["faiss PQ"].fit(few, {"positions": 1, "bits": 4, "formats": sizes})
        assert (fitted.setting["format"], fitted.size) == (BY_CODEWORD, 2)
        assert relative_error(vectors, fitted.copy[: len(vectors)]) < 0.9  # with one scale, other codewords are zero


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_the_limit_of_a_gaussian_is_below_what_any_method_loses(vectors, peer):
    some = vectors[:1000]
    spectrum = np.linalg.eigvalsh(np.cov(some.T))
    for times in (6, 16):
        most = 4 * some.size // times
        for setting, size in list(peer.settings(*some.shape, most))[: 1 if peer.look else 4]:
            fitted = peer.fit(some, setting)
            taken = fitted.size or size
            assert taken <= most
            assert relative_error(some, fitted.copy) > gaussian_limit(spectrum, 8 * taken / len(some))


def test_an_adaptive_code_counts_each_integer_by_those_before_it():
    integers = np.array([3, 3, 4, 3, 6, 3], dtype=np.int32)  # of 3, 4, 5 and 6
    seen, bits = dict.fromkeys(range(3, 7), 0.5), 0.0
    for one in integers.tolist():
        bits -= np.log2(seen[one] / sum(seen.values()))
        seen[one] += 1
    assert adaptive_bits(integers) == pytest.approx(bits)
    assert adaptive_bits(np.full(1000, 7, dtype=np.int32)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("rotation", ["int8", "float16", "none"])
def test_entropy_codes_lose_less_with_more_bytes_and_use_them(vectors, rotation):
    errors = []
    for times in (24, 12, 6):
        most = 4 * vectors.size // times
        fitted = ENTROPY.fit(vectors, {"rotation": rotation, "most": most})
        assert 0.99 * most < fitted.size <= most
        errors.append(relative_error(vectors, fitted.copy))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_entropy_codes_are_as_far_from_the_limit_as_theory_says():
    """A uniform quantiser loses 1.53 dB, a factor of πe/6, at a high rate."""
    vectors = np.random.default_rng(0).normal(size=(30_000, 4)).astype(np.float32)
    coder, step = EntropyCoded(vectors, "float16"), 0.2
    counted = coder.counted(coder.turned, step, 0.5)
    bits = sum(adaptive_bits(column) for column in counted.whole.T)
    error = relative_error(vectors, coder.decoded(counted, step))
    limit = gaussian_limit(np.linalg.eigvalsh(np.cov(vectors.T)), bits / len(vectors))
    assert error / limit == pytest.approx(np.pi * np.e / 6, rel=0.02)
    starts = 2.5 * -(-len(vectors) // 16)
    of_rotation = coder.basis.astype(np.float16).nbytes + 2
    assert counted.size == int(np.ceil(bits / 8 + starts)) + of_rotation + 4 * 6 + 2 * 4 + 4


@pytest.mark.parametrize("peer", [RABITQ, TURBOQUANT], ids=lambda peer: peer.name)
def test_every_bit_of_a_coordinate_counts(vectors, peer):
    errors = [
        relative_error(vectors, peer.fit(vectors, {"bits": bits, "kept": 16, "basis": None}).copy)
        for bits in (1, 2, 3, 4)
    ]
    assert 0.25 < errors[0] < 0.45
    assert all(0.15 < after / before < 0.5 for before, after in itertools.pairwise(errors))


def test_one_bit_of_rabitq_is_what_faiss_decodes(vectors):
    turned = np.ascontiguousarray(vectors - vectors.mean(axis=0))
    quantizer = faiss.RaBitQuantizer(16, faiss.METRIC_L2, 1)
    theirs = np.sign(quantizer.decode(quantizer.compute_codes(turned)))
    encode, decode = RABITQ.fit.keywords["directions"](16, 1)
    assert np.array_equal(np.sign(decode(encode(turned))), theirs)


@pytest.mark.parametrize("peer", [RABITQ, TURBOQUANT], ids=lambda peer: peer.name)
def test_principal_coordinates_are_kept_where_not_all_fit(vectors, peer):
    most = 3000 * 5 + 2 * 16 + 12 * 18
    found = {(setting["bits"], setting["basis"]): setting for setting, _ in peer.settings(*vectors.shape, most)}
    assert found[2, "int8"]["kept"] == 12  # 3 bytes, 2 of the scale, the mean, and rows of the basis with a scale each
    fewer = {(one["bits"], one["basis"]): one for one, _ in peer.settings(*vectors.shape, most - 1)}
    assert fewer[2, "int8"]["kept"] == 11
    assert relative_error(vectors, peer.fit(vectors, found[2, "int8"]).copy) < 0.2
