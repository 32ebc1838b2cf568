"""Files of transform codes that are broken or made to do harm: refused by name, with bounded work and memory."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from kdc_bytes import Parts
from sample_tables import coded_table, decode_packed, transform_codec

from kdcode import load, save, verify
from kdcode.codec import Transform
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


WRONG_START = "row_starts: a block begins where the blocks before it do not end|codes: the bytes end before"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("by", [-1, 1, 7])
def test_a_row_start_that_does_not_agree_with_the_classes(path, parts, place, by):
    def move(starts):
        starts[place] = (int(starts[place]) + by) % 2**64

    changed(parts, "row_starts", "<u8", move)
    parts.write(path)
    refused(path, WRONG_START, in_full)
    refused(path, WRONG_START, verify)


def test_row_starts_out_of_order_are_found(path, parts):
    def swap(starts):
        starts[:2] = starts[1::-1]

    changed(parts, "row_starts", "<u8", swap)
    parts.write(path)
    refused(path, WRONG_START, in_full)
    refused(path, WRONG_START, verify)


@pytest.mark.parametrize("start", [2**63, 2**64 - 1, 2**64 - 3, 2**63 - 1, 2**48, 2**48 - 1, 10**6])
def test_a_row_start_beyond_the_end(path, parts, start):
    def beyond(starts):
        starts[0] = start

    changed(parts, "row_starts", "<u8", beyond)
    parts.write(path)
    refused(path, "row_starts: |row_classes: ", in_full)
    coded = load(path)
    coded.decode(300)
    for rows in (5, np.arange(300), np.arange(300)[::-1]):
        with pytest.raises(StorageError, match=r"row_starts: row \d+ ends after the last byte of codes|row_classes: "):
            coded.decode(rows)


def test_the_last_row_ends_with_the_codes(path, parts):
    for more in (b"x", b"x" * 100):
        content = parts.tensors["codes"][2] + more
        tensors = {**parts.tensors, "codes": ["U8", [len(content)], content]}
        Parts(parts.metadata, tensors).write(path)
        refused(path, "codes: the bytes end before the last block, or go on after it", in_full)
        content = parts.tensors["codes"][2][: -len(more)]
        tensors = {**parts.tensors, "codes": ["U8", [len(content)], content]}
        Parts(parts.metadata, tensors).write(path)
        refused(path, "codes: the bytes end before the last block, or go on after it", in_full)
        with pytest.raises(StorageError, match=f"row_starts: row {ROWS - 1} ends after the last byte of codes"):
            load(path).decode(ROWS - 1)


@pytest.mark.parametrize("name", ["row_classes", "row_starts"])
@pytest.mark.parametrize("rows", [-1, 1, 20])
def test_tensors_of_fewer_or_more_rows(path, parts, name, rows):
    """Sizes that are not those of N rows are refused, and not read beyond: issue 35, point 2."""
    dtype, shape, content = parts.tensors[name]
    width = len(content) // shape[0]
    content = content[: rows * width] if rows < 0 else content + bytes(rows * width)
    parts.tensors[name] = [dtype, [len(content) // width, *shape[1:]], content]
    parts.write(path)
    refused(path, f"{name}: expected")
    refused(path, f"{name}: expected", verify)


@pytest.mark.parametrize("count", [ROWS - 300, ROWS + 8, ROWS + 384, 2**40])
def test_numbers_of_rows_that_the_tensors_are_not_of(path, parts, count):
    parts.metadata["num_embeddings"] = count
    parts.write(path)
    refused(path, "row_classes: expected|row_starts: expected")


def test_a_row_more_than_there_are_in_the_last_group(path, parts):
    """Seven rows more leave all sizes what they are: they are refused when they are read, or where all are checked."""
    save(coded_table("transform", rows=601), path)
    parts = Parts.of(path)
    parts.metadata["num_embeddings"] = 608
    parts.write(path)
    refused(path, "codes: the bytes end before the last block", in_full)
    with pytest.raises(StorageError, match=r"row_starts: row \d+ ends after the last byte of codes"):
        load(path).decode(607)


@pytest.mark.parametrize("kind", ["transform-plain", "transform-plain-blocks"])
@pytest.mark.parametrize("more", [1, 64, -1, 10**6])
def test_codes_of_one_class_have_the_bytes_of_all_blocks(path, kind, more):
    save(coded_table(kind, rows=30), path)
    parts = Parts.of(path)
    if more < 10**6:
        content = parts.tensors["codes"][2] + bytes(max(0, more))
        content = content[: len(content) + min(0, more)]
        parts.tensors["codes"] = ["U8", [len(content)], content]
    else:
        parts.metadata["num_embeddings"] = more
    parts.write(path)
    refused(path, "codes: the bytes are not those of so many blocks")


def test_a_class_that_there_is_not(path, parts):
    def no_class(groups):
        groups[:3] = 0xFF  # of the first eight rows, three bits each: 7, and there are six

    changed(parts, "row_classes", "u1", no_class)
    parts.write(path)
    refused(path, "row_classes: found a class that there is not", in_full)
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


def test_levels_that_are_longer_than_the_row():
    codec = transform_codec(7, plain=True)
    short, refusals = Transform(replace(codec.spec, lengths=(1,), mean_length=1.0), codec.stored), []
    for byte in range(256):
        try:
            short.unpack(np.array([[byte]], np.uint8))
        except StorageError as error:
            refusals.append(str(error))
    assert refusals.count("codes: the levels of row 0 take more bytes than it has") > 50


def escaping(codebook_size):
    """A codec whose escapes take little, so that a row may have endless ones."""
    codec = transform_codec(7, plain=True)
    weights = np.tile(np.array([0, 255], np.uint8), 6)
    stored = {**codec.stored, "magnitudes": np.zeros((3, 2), np.uint16), "weights": weights}
    return Transform(replace(codec.spec, weights=12, codebook_size=codebook_size), stored)


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_endless_escapes_and_values_beyond_k(rows):
    codec = escaping(65_536)
    ones = np.full((rows, 9), 255, np.uint8)  # every bit is 1: no zero ends the first escape
    ones[:, 8] = 0
    with pytest.raises(StorageError, match=r"codes: a level of row 0 .*has more than 17 bits|stands for no level"):
        codec.unpack(ones)
    codes = np.tile(codec.encode(np.array([[9.0, 0, 0, 0, 0, 0, 0]])), (rows, 1))
    assert codes[0, 0] > 30
    packed = codec.pack(codes)
    np.testing.assert_array_equal(codec.unpack(packed), codes)
    small = escaping(30)
    for read in (small.unpack, partial(decode_packed, small)):
        with pytest.raises(StorageError, match="codes: a level of row 0 is not below K"):
            read(packed)


def test_vectors_beyond_float32(path, parts):
    changed(parts, "steps", "<f4", lambda steps: steps.__setitem__(slice(None), 3e38))
    parts.write(path)
    refused(path, "codes: the vector of .* has a number beyond float32", in_full)
    assert load(path).codec.may_overflow


# Tables


@pytest.mark.parametrize(
    ("name", "dtype", "change", "message"),
    [
        ("magnitudes", "<u2", lambda numbers: numbers.__iadd__(1), r"weights: expected \d+ numbers for the given"),
        ("magnitudes", "<u2", lambda numbers: numbers.__setitem__(0, 65_535), "weights: expected|magnitudes: "),
        ("group_sizes", "u1", lambda numbers: numbers.__setitem__(0, 3), "group_sizes: expected 1, 2 or 4"),
        ("group_sizes", "u1", lambda numbers: numbers.__setitem__(0, 0), "group_sizes: expected 1, 2 or 4"),
        ("group_sizes", "u1", lambda numbers: numbers.sort(), "group_sizes: a group must lie in one quad"),
        ("group_sizes", "u1", lambda numbers: numbers.fill(4), "group_sizes: they add up to more coordinates"),
        ("group_contexts", "u1", lambda numbers: numbers.__setitem__(1, 3), "group_contexts: there is no such context"),
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
        ("centroid_bits", 7, "centroid_bits: expected one of 4, 6, got 7"),
        ("centroid_bits", 4, "centroids: expected uint8 of shape"),
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
        ("states", 2, "states: expected one of 1, 32, 64, 128, 256, got 2"),
        ("states", 2**40, "states: expected one of"),
        ("signs", 1, "signs: expected a value of type bool"),
        ("reflections", 7, "reflections: expected 0 to 6, got 7"),
        ("reflections", 0, "reflection_scale: this tensor does not belong"),
        ("reflections", 2**40, "reflections: expected 0 to 6"),
        ("contexts", 0, "contexts: expected 1 to 64"),
        ("contexts", 65, "contexts: expected 1 to 64"),
        ("contexts", 4, "(magnitudes|weights): expected"),
        ("weights", 2**40, "weights: expected 12 to"),
        ("level_groups", 0, "level_groups: expected 1 to 7, got 0"),
        ("level_groups", 8, "level_groups: expected 1 to 7, got 8"),
        ("level_groups", 2, "group_(sizes|contexts): expected uint8 of shape"),
        ("weights", 13, "weights: expected uint8 of shape"),
        ("codebook_size", 2, "weights: expected|magnitudes: "),
        ("codebook_size", 16, "magnitudes: |weights: expected"),
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
    """One reflection of 10,000 dimensions takes 5 kB, and its matrix 400 MB."""
    codec, dim = transform_codec(7), 10_000
    spec = replace(
        codec.spec,
        embedding_dim=dim,
        reflections=1,
        lengths=(1, 2),
        mean_length=1.0,
    )
    rows, bits = spec.tensor_layout()["reflections"][1]
    stored = {
        **{name: codec.stored[name] for name in ("magnitudes", "weights", "search", "group_sizes", "group_contexts")},
        "mean": np.zeros(dim, np.float32),
        "steps": np.ones(2, np.float32),
        "sides": np.zeros(12, np.uint8),
        "class_contexts": np.zeros(2, np.int8),
        "reflections": np.zeros((rows, bits), np.uint8),
        "reflection_scale": np.ones(1, np.float32),
    }
    save(CodedTable.of_codec(Transform(spec, stored)), path)

    def load_it():
        with pytest.raises(LimitError, match="reflections: a rotation of 10000 x 10000 numbers"):
            load(path)

    assert memory_of(load_it) < 1 << 21
    assert load(path, max_expansion=100_000).embedding_dim == dim


def wide(dim, **changes):
    """A codec of d dimensions of which few have levels, so that its file is small."""
    codec = transform_codec(7, plain=True, rows_per_block=changes.pop("rows_per_block", 1))
    spec = replace(codec.spec, embedding_dim=dim, **changes)
    stored = {
        **codec.stored,
        "mean": np.zeros(dim, np.float32),
        "steps": np.ones(spec.classes, np.float32),
        "class_contexts": np.zeros(spec.classes, np.int8),
        "sides": np.zeros(spec.most_sides, np.uint8),
    }
    return Transform(spec, stored)


def test_contexts_that_take_too_much_memory(path):
    save(CodedTable.of_codec(wide(65_536, lengths=(1,) * 256, mean_length=1.0)), path)

    def load_it():
        with pytest.raises(LimitError, match="class_contexts: contexts of 256 x 65536 coordinates"):
            load(path)

    assert memory_of(load_it) < 1 << 24


@pytest.mark.parametrize("lengths", [(1,), (0, 2_000_000), (33_554_432,)])
def test_blocks_that_take_too_much_memory(path, lengths):
    codec = wide(65_536, rows_per_block=64, lengths=lengths, mean_length=0.5)
    save(CodedTable.of_codec(codec), path)

    def load_it():
        with pytest.raises(LimitError, match=r"rows_per_block: |lengths: "):
            load(path)

    assert memory_of(load_it) < 1 << 24


SCRIPT = """
import resource, sys
import numpy as np
import kdcode
path, what = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if what == "verify":
        kdcode.verify(path)
    elif what == "neighbors":
        coded = kdcode.load(path)
        coded.neighbors(np.ones(coded.embedding_dim, np.float32), 3)
    else:
        coded = kdcode.load(path)
        coded.decode(np.arange(min(len(coded), 100_000))).sum(), coded.codes
except kdcode.errors.KDCodeError as error:
    print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("what", ["verify", "neighbors", "decode"])
@pytest.mark.parametrize("length", [1, 500])
def test_a_small_file_of_long_blocks_takes_little_memory(path, what, length):
    """A file of 4 KB with 64 rows in each block, one class of which is as long as can be: issue 35, point 3."""
    codec = transform_codec(2, rows_per_block=64)
    lengths = (*codec.spec.lengths[:-1], 8 * 128 + 64 if length > 1 else codec.spec.lengths[-1])
    codec = Transform(replace(codec.spec, lengths=lengths, mean_length=1.0), codec.stored)
    one = CodedTable.from_codes(None, codec.encode(np.tile(codec.stored["mean"], (64 * 60, 1))), codec)
    save(one, path)
    assert path.stat().st_size < 5000
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path), what], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100_000  # KiB, torch and numpy not counted


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
