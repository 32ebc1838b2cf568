"""Files of transform codes that are broken or made to do harm: refused by name, with bounded work and memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from kdc_bytes import Parts
from sample_tables import coded_table, transform_codec

from kdcode import load, save, verify
from kdcode.codec import Transform
from kdcode.codec.transform.level_tables import ESCAPE_BITS
from kdcode.coded import CodedTable
from kdcode.errors import LimitError, StorageError

ROWS = 600
"""Enough for three row starts."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.kdc"


@pytest.fixture
def parts(path):
    save(coded_table("transform", rows=ROWS), path)
    return Parts.of(path)


def refused(path, message, how=load):
    with pytest.raises(StorageError, match=message) as caught:
        how(path)
    assert str(caught.value).startswith(f"{path}: ")


def in_full(path):
    return load(path, check="full")


def changed(parts, name, dtype, change):
    """Change the numbers of a tensor in place."""
    numbers = np.frombuffer(parts.tensors[name][2], dtype=dtype).copy()
    change(numbers)
    parts.tensors[name][2] = numbers.tobytes()


# Where rows begin


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("by", [-1, 1, 7])
def test_a_row_start_that_does_not_agree_with_the_classes(path, parts, place, by):
    def move(starts):
        starts[place] = (int(starts[place]) + by) % 2**64

    changed(parts, "row_starts", "<u8", move)
    parts.write(path)
    how = "codes: |row_starts: a row ends" if place == 2 or by == -1 else "row_starts: row"
    refused(path, f"{how}|row_starts: row {256 * place} begins at byte", in_full)
    with pytest.raises(StorageError, match=r"row_starts: row|row_starts: a row ends|codes: "):
        verify(path)


def test_row_starts_out_of_order_are_found(path, parts):
    def swap(starts):
        starts[:2] = starts[1::-1]

    changed(parts, "row_starts", "<u8", swap)
    parts.write(path)
    refused(path, "row_starts: row 0 begins at byte", in_full)
    refused(path, "row_starts: row 0 begins at byte", verify)


@pytest.mark.parametrize("start", [2**63, 2**64 - 1, 2**63 - 1, 10**6])
def test_a_row_start_beyond_the_end(path, parts, start):
    def beyond(starts):
        starts[0] = start

    changed(parts, "row_starts", "<u8", beyond)
    parts.write(path)
    refused(path, "row_starts: ", in_full)
    coded = load(path)
    coded.decode(300)
    for rows in (5, np.arange(300), np.arange(300)[::-1]):
        with pytest.raises(StorageError, match=r"row_starts: a row ends at byte \d+ of \d+"):
            coded.decode(rows)


def test_the_last_row_ends_with_the_codes(path, parts):
    for more in (b"x", b"x" * 100):
        content = parts.tensors["codes"][2] + more
        tensors = {**parts.tensors, "codes": ["U8", [len(content)], content]}
        Parts(parts.metadata, tensors).write(path)
        refused(path, r"codes: \d+ bytes, where the rows end at byte \d+")
        content = parts.tensors["codes"][2][: -len(more)]
        tensors = {**parts.tensors, "codes": ["U8", [len(content)], content]}
        Parts(parts.metadata, tensors).write(path)
        refused(path, r"row_starts: a row ends at byte \d+ of \d+")


def test_a_class_that_there_is_not(path, parts):
    def no_class(groups):
        groups[:3] = 0xFF  # of the first eight rows, three bits each: 7, and there are six

    changed(parts, "row_classes", "u1", no_class)
    parts.write(path)
    refused(path, "row_classes: found a class that is not below 6", in_full)
    coded = load(path)
    coded.decode(300)
    for rows in (0, 100, np.arange(50)):
        with pytest.raises(StorageError, match="row_classes: found a class that is not below 6"):
            coded.decode(rows)


def test_classes_after_the_last_row_are_not_read(path):
    table = coded_table("transform", rows=9)
    save(table, path)
    parts = Parts.of(path)
    changed(parts, "row_classes", "u1", lambda groups: groups.__setitem__(slice(4, None), 0xFF))
    parts.write(path)
    loaded = load(path, check="full")
    np.testing.assert_array_equal(loaded.decode(np.arange(9)), table.decode(np.arange(9)))
    assert loaded.shared_codes == table.shared_codes


# What rows say


def rows_with(bytes_of_rows, centroids=0):
    """A table of one class whose rows are any bytes."""
    codec = transform_codec(7, plain=True, centroids=centroids)
    table = CodedTable.from_codes(None, codec.encode(np.zeros((len(bytes_of_rows), 7))), codec)
    return CodedTable(table.symbols, np.frombuffer(b"".join(bytes_of_rows), np.uint8).reshape(-1, 9).copy(), codec)


@pytest.mark.parametrize("centroids", [0, 5])
def test_any_bytes_are_a_row_or_refused(centroids):
    """Whatever bytes a row has, they are read to a code that packs again, or refused by name."""
    random, refusals = np.random.default_rng(0), 0
    for number in range(300):
        row = random.bytes(9) if number % 3 else bytes([random.choice([0, 255])] * 5) + random.bytes(4)
        coded = rows_with([row], centroids)
        try:
            code = coded.codes
        except StorageError:
            refusals += 1
            with pytest.raises(StorageError, match="codes: "):
                coded.decode(0)
        else:
            assert np.isfinite(coded.decode(0)).all()
            np.testing.assert_array_equal(coded.codec.unpack(coded.codec.pack(code)), code)
    assert 20 < refusals < 280


def test_levels_that_are_longer_than_the_row(path):
    codec = transform_codec(7, plain=True)
    written, room = codec.coder.write(np.full((1, 7), 23), np.empty((1, 0), np.int64), np.zeros(1, np.int64), None)
    assert room[0] < 0
    coded = rows_with([written[0, :9].tobytes()])
    with pytest.raises(StorageError, match="codes: the levels of a row take more bytes than it has"):
        coded.decode(0)


def escaping(codebook_size):
    """A codec whose escapes take little, so that a row may have endless ones."""
    codec = transform_codec(7, plain=True)
    frequencies = np.tile(np.array([1, 32767], np.uint16), 6)
    stored = {**codec.stored, "magnitudes": np.zeros((3, 2), np.uint16), "frequencies": frequencies}
    return Transform(replace(codec.spec, frequencies=12, codebook_size=codebook_size), stored)


def test_endless_escapes_and_values_beyond_k():
    codec = escaping(65_536)
    ones = np.full((1, 9), 255, np.uint8)  # every bit is 1: no zero ends the first escape
    ones[0, 8] = 0
    with pytest.raises(StorageError, match=f"codes: a level has more than {ESCAPE_BITS} bits|stands for no level"):
        codec.unpack(ones)
    codes = codec.encode(np.array([[9.0, 0, 0, 0, 0, 0, 0]]))
    assert codes[0, 0] > 30
    packed = codec.pack(codes)
    small = escaping(30)
    with pytest.raises(StorageError, match="codes: found a code value that is not below K=30"):
        small.unpack(packed)
    with pytest.raises(StorageError, match="codes: found a code value that is not below K=30"):
        small.decode_packed(packed)


def test_vectors_beyond_float32(path, parts):
    changed(parts, "steps", "<f4", lambda steps: steps.__setitem__(slice(None), 3e38))
    parts.write(path)
    refused(path, "codes: the vector of code .* has a number beyond float32", in_full)
    assert load(path).codec.may_overflow


# Tables


@pytest.mark.parametrize(
    ("name", "dtype", "change", "message"),
    [
        (
            "frequencies",
            "<u2",
            lambda numbers: numbers.__setitem__(0, 0),
            "frequencies: expected numbers of at least 1",
        ),
        (
            "frequencies",
            "<u2",
            lambda numbers: numbers.__iadd__(1),
            r"frequencies: those of table 0 add up to \d+, expected",
        ),
        ("magnitudes", "<u2", lambda numbers: numbers.__iadd__(1), r"frequencies: expected \d+ numbers for the given"),
        ("magnitudes", "<u2", lambda numbers: numbers.__setitem__(0, 65_535), "frequencies: expected 6"),
        ("steps", "<f4", lambda numbers: numbers.__setitem__(1, 0), "steps: expected numbers above 0"),
        ("steps", "<f4", lambda numbers: numbers.__setitem__(1, -1), "steps: expected numbers above 0"),
        ("search", "<f4", lambda numbers: numbers.__setitem__(0, 0), "search: expected numbers above 0"),
        ("search", "<f4", lambda numbers: numbers.__setitem__(0, 1e30), "search: expected numbers above 0, λ at most"),
        ("search", "<f4", lambda numbers: numbers.__setitem__(1, -1), "search: expected numbers above 0"),
    ],
)
def test_tables_that_cannot_be(path, parts, name, dtype, change, message):
    changed(parts, name, dtype, change)
    parts.write(path)
    refused(path, message)


@pytest.mark.parametrize(
    ("name", "dtype", "change", "message"),
    [
        ("centroid_frequencies", "<u2", lambda numbers: numbers.__setitem__(4, 0), "expected numbers of at least 1"),
        ("centroid_frequencies", "<u2", lambda numbers: numbers.__iadd__(1), "they add up to 32773, expected 32768"),
        ("centroid_frequencies", "<u2", lambda numbers: numbers.fill(65_535), "they add up to 327675, expected 32768"),
        ("centroid_scales", "<f4", lambda numbers: numbers.__setitem__(3, -1), "expected numbers of at least 0"),
    ],
)
def test_centroids_that_cannot_be(path, name, dtype, change, message):
    save(coded_table("transform-centroids-blocks", rows=9), path)
    parts = Parts.of(path)
    changed(parts, name, dtype, change)
    parts.write(path)
    refused(path, f"{name}: {message}")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("centroids", 0, "centroid_scales: this tensor does not belong to a transform codec"),
        ("centroids", 4, "centroids: expected uint8 of shape"),
        ("centroids", -1, "centroids: expected 0 to 8192, got -1"),
        ("centroids", 2**40, "centroids: expected 0 to 8192"),
        ("centroids", 5.0, "centroids: expected a value of type int"),
        ("centroid_bits", 7, "centroid_bits: expected one of 4, 5, 6, 8, got 7"),
        ("centroid_bits", 8, "centroids: expected uint8 of shape"),
    ],
)
def test_metadata_of_centroids_that_cannot_be(path, field, value, message):
    save(coded_table("transform-centroids", rows=9), path)
    parts = Parts.of(path)
    parts.metadata[field] = value
    parts.write(path)
    refused(path, message)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("lengths", [], "lengths: expected 1 to 256, got 0"),
        ("lengths", [1] * 257, "lengths: expected 1 to 256, got 257"),
        ("lengths", [2, 4, 9, 2, 4, 2**40], "lengths: expected 0 to 120, got 1099511627776"),
        ("lengths", [2, 4, 9, 2, 4, -1], "lengths: expected 0 to 120, got -1"),
        ("lengths", [0], "lengths: expected 1 to 120, got 0"),
        ("lengths", [2, 4, 9, 2, 4, 9.0], "lengths: expected a list of integers"),
        ("lengths", [2, 4, 9, 2, 4, True], "lengths: expected a list of integers"),
        ("lengths", "249249", "lengths: expected a value of type list"),
        ("lengths", [2, 4, 9, 2, 4], "(steps|row_classes): expected"),
        ("mean_length", -1, "mean_length: expected 0 to 9, got -1"),
        ("mean_length", 1e9, "mean_length: expected 0 to 9, got 1000000000.0"),
        ("mean_length", "2", "mean_length: expected a value of type float"),
        ("states", 2, "states: expected one of 1, 4, 8, 16, 32, got 2"),
        ("states", 2**40, "states: expected one of"),
        ("signs", False, r"frequencies: those of table 0 add up to \d+, expected 32768"),
        ("signs", 1, "signs: expected a value of type bool"),
        ("reflection_bits", 7, "reflection_bits: expected one of 4, 5, 6, 8, got 7"),
        ("reflection_bits", 8, "reflections: expected uint8 of shape"),
        ("reflections", 7, "reflections: expected 0 to 6, got 7"),
        ("reflections", 0, "basis: expected whether there are reflections"),
        ("reflections", 2**40, "reflections: expected 0 to 6"),
        ("contexts", 0, "contexts: expected 1 to 256"),
        ("contexts", 257, "contexts: expected 1 to 256"),
        ("contexts", 4, "(magnitudes|shifts|sides|frequencies): expected"),
        ("frequencies", 2**40, "frequencies: expected 12 to"),
        ("frequencies", 13, "frequencies: expected uint16 of shape"),
        ("codebook_size", 2, "frequencies: expected|magnitudes: "),
        ("codebook_size", 16, r"magnitudes: \d+ values in a table, K=16 are allowed|frequencies: expected"),
        ("code_length", 8, "as many positions as dimensions"),
        ("groups", 2, "groups: expected 1 to 1"),
        ("scale_bits", 1, "no groups and no row scales"),
        ("basis", False, "basis: expected whether there are reflections"),
    ],
)
def test_metadata_that_cannot_be(path, parts, field, value, message):
    parts.metadata[field] = value
    parts.write(path)
    refused(path, message)


def test_a_mean_length_may_be_a_whole_number(path, parts):
    parts.metadata["mean_length"] = 3
    parts.write(path)
    assert load(path).spec.mean_length == 3


# Memory and work


def memory_of(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_rotation_that_takes_too_much_memory(path):
    """One reflection of 20,000 dimensions takes 10 kB, and its matrix 1.6 GB."""
    codec = transform_codec(7)
    dim = 20_000
    spec = replace(
        codec.spec,
        embedding_dim=dim,
        code_length=dim,
        inner_dim=dim,
        reflections=1,
        reflection_bits=4,
        lengths=(1, 2),
        mean_length=1.0,
    )
    rows, bits = spec.tensor_layout()["reflections"][1]
    stored = {
        **{name: codec.stored[name] for name in ("magnitudes", "frequencies", "shifts", "sides", "search")},
        "mean": np.zeros(dim, np.float32),
        "steps": np.ones(2, np.float32),
        "coordinate_contexts": np.zeros(dim, np.uint8),
        "class_contexts": np.zeros(2, np.int8),
        "reflections": np.zeros((rows, bits), np.uint8),
        "reflection_scale": np.ones(1, np.float32),
    }
    save(CodedTable.of_codec(Transform(spec, stored)), path)

    def load_it():
        with pytest.raises(LimitError, match="reflections: a rotation of 20000 x 20000 numbers"):
            load(path)

    assert memory_of(load_it) < 1 << 21
    assert load(path, max_expansion=100_000).embedding_dim == dim


def test_contexts_that_take_too_much_memory(path):
    codec = transform_codec(7, plain=True)
    dim = 65_536
    spec = replace(codec.spec, embedding_dim=dim, code_length=dim, inner_dim=dim, lengths=(1,) * 256, mean_length=1.0)
    stored = {
        **codec.stored,
        "mean": np.zeros(dim, np.float32),
        "steps": np.ones(256, np.float32),
        "coordinate_contexts": np.zeros(dim, np.uint8),
        "class_contexts": np.zeros(256, np.int8),
    }
    save(CodedTable.of_codec(Transform(spec, stored)), path)

    def load_it():
        with pytest.raises(LimitError, match="class_contexts: contexts of 256 x 65536 coordinates"):
            load(path)

    assert memory_of(load_it) < 1 << 22


def test_many_short_rows_in_a_wide_class_take_no_more_memory_than_others(path):
    """Padded to the longest, these 200,000 rows would take 24 MB."""
    codec = transform_codec(7)
    spec = replace(codec.spec, lengths=(2, 4, 9, 2, 4, 120))
    codec = Transform(spec, codec.stored)
    one = CodedTable.from_codes(None, codec.encode(np.tile(codec.stored["mean"], (1000, 1))), codec)
    table = CodedTable.from_codes(None, np.tile(one.codes, (200, 1)), codec)
    assert table.packed.nbytes <= 2 * 200_000
    save(table, path)
    del table
    assert memory_of(lambda: load(path, check="full")) < 12 << 20
    assert memory_of(lambda: verify(path)) < 20 << 20


def test_packed_rows_are_read_where_they_lie(path, parts):
    """Only the blocks of the file that a row lies in are compared with their digests."""
    coded = coded_table("transform", rows=60_000)
    save(coded, path)
    content = bytearray(path.read_bytes())
    place = content.index(np.asarray(coded.packed.tensors()["codes"]).tobytes()[:64]) + 150_000
    content[place] ^= 1
    path.write_bytes(content)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.decode([0, 1, 59_999]), coded.decode([0, 1, 59_999]))
    with pytest.raises(StorageError, match="do not match their digest"):
        loaded.decode(np.arange(60_000))
    np.testing.assert_array_equal(loaded.decode([0, 1, 59_999]), coded.decode([0, 1, 59_999]))
