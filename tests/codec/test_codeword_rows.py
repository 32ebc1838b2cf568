"""Rows that the core decodes, against plain loops, for every number of bits and every shape; and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_threads import in_threads
from sample_tables import DTYPES, KINDS, codec_with, coded_table, random_codes, spec_of, words

import kdcode
from kdcode import CodedTable, _core
from kdcode.codec import Codec, CodewordRows, CodewordSpec, make_codec
from kdcode.errors import DamagedFileError, OptionError, RowError, StorageError


def rows_of(coded: CodedTable) -> CodewordRows:
    return CodewordRows(coded.spec, coded.codec.stored, coded.packed)


def composed_plainly(codec: Codec, codes: np.ndarray) -> np.ndarray:
    """The definition of sums, in float64: codewords added up block by block, times the basis and the row's scale."""
    spec, weights = codec.spec, {name: value.astype(np.float64) for name, value in codec.weights().items()}
    sums = np.zeros((len(codes), spec.inner_dim))
    for block in spec.blocks:
        for position in range(block.positions.start, block.positions.stop):
            sums[:, block.columns] += weights["codebook"][position][codes[:, position], : block.width]
    vectors = sums @ weights["basis"] if spec.basis else sums
    return vectors * codec.stored["scale_levels"][codes[:, -1]][:, None] if spec.scale_bits else vectors


def decoded_plainly(coded: CodedTable, rows) -> np.ndarray:
    return composed_plainly(coded.codec, coded.codes[rows].astype(int)).astype(np.float32)


@given(
    size=st.integers(2, 70_000),
    length=st.integers(1, 40),
    dim=st.integers(1, 140),
    groups=st.integers(1, 40),
    dtype=st.sampled_from(DTYPES),
    scale_bits=st.integers(0, 8),
    basis=st.booleans(),
)
def test_any_shape_decodes_as_plain_loops_do(size, length, dim, groups, dtype, scale_bits, basis):
    size = min(size, 2 + 65_534 // (length * dim))  # codebooks stay small
    groups = min(groups, length, dim)
    spec = CodewordSpec("block-sum", dim, size, length, dim, groups, basis, dtype, scale_bits)
    codec = codec_with(spec)
    coded = CodedTable.from_codes(None, random_codes(spec, 23), codec)
    rows = np.array([22, 0, 3, 3, 21, 7, 1, 0, 2, 11])
    found = rows_of(coded).decode(rows)
    expected = decoded_plainly(coded, rows)
    tolerance = 1e-5 * float(np.abs(codec.codebook).max()) * length * (dim if basis else 1) ** 0.5
    tolerance *= max(1.0, float(codec.stored["scale_levels"].max())) if scale_bits else 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale_bits", [0, 3])
@pytest.mark.parametrize("bits", range(1, 17))
def test_every_number_of_bits(bits, scale_bits, dtype):
    spec = CodewordSpec.named("product", 14, 1 << bits, 7, codebook_dtype=dtype, scale_bits=scale_bits)
    coded = CodedTable.from_codes(None, random_codes(spec, 50), codec_with(spec))
    rows = np.arange(50)[::-1].copy()
    np.testing.assert_allclose(rows_of(coded).decode(rows), decoded_plainly(coded, rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 24, 31, 32, 33, 48, 100])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 4])
def test_every_width_writes_its_columns_and_no_others(width, dtype, groups):
    spec = CodewordSpec.named("linear" if groups == 1 else "product", width * groups, 8, 4, codebook_dtype=dtype)
    coded = CodedTable.from_codes(None, random_codes(spec, 9), codec_with(spec))
    around = np.full((9 + 2, width * groups), 7.0, dtype=np.float32)
    rows = np.arange(9)
    rows_of(coded).decode_into(rows, around[1:-1])
    np.testing.assert_allclose(around[1:-1], decoded_plainly(coded, rows), rtol=1e-5, atol=1e-6)
    assert (around[0] == 7).all()
    assert (around[-1] == 7).all()


def test_float16_numbers_are_read_exactly():
    values = np.array([0.0, -0.0, 1.0, -1.5, 2.0**-24, -(2.0**-15), 65504.0, 3.14159], dtype=np.float16)
    spec = CodewordSpec.named("linear", 8, 2, 1, codebook_dtype="float16")
    tensors = {"codebook": np.stack([values, -values])[None], "codebook_scale": np.ones((1, 1, 1), np.float32)}
    packed = np.zeros((1, 1), dtype=np.uint8)
    found = CodewordRows(spec, tensors, packed).decode(np.array([0]))
    assert found.tolist() == [values.astype(np.float32).tolist()]


def test_integers_that_are_added_up_do_not_overflow():
    """256 positions of the largest numbers: their sum is just what 16 bits have room for."""
    spec = CodewordSpec.named("linear", 40, 2, 256, codebook_dtype="int8")
    codebook = np.ones((256, 2, 40))
    codebook[:, 1] = -1
    codec = make_codec(spec, {"codebook": codebook})
    codes = np.repeat([[0], [1]], 256, axis=1)
    coded = CodedTable.from_codes(None, codes, codec)
    found = rows_of(coded).decode(np.array([0, 1]))
    np.testing.assert_allclose(found, np.repeat([[256.0], [-256.0]], 40, axis=1), rtol=1e-5)


def test_scales_that_change_later_count():
    spec = CodewordSpec.named("linear", 40, 4, 3, codebook_dtype="int8")
    codec = codec_with(spec)
    tensors = {name: np.array(tensor) for name, tensor in codec.stored.items()}
    packed = codec.pack(random_codes(spec, 5))
    sums = CodewordRows(spec, tensors, packed)
    before = sums.decode(np.arange(5))
    tensors["codebook_scale"] *= np.array([3.0, 0.7, 1.1], dtype=np.float32)[:, None, None]
    changed = CodedTable.from_codes(None, random_codes(spec, 5), type(codec)(spec, tensors))
    np.testing.assert_allclose(sums.decode(np.arange(5)), decoded_plainly(changed, np.arange(5)), rtol=1e-5, atol=1e-6)
    assert not np.allclose(sums.decode(np.arange(5)), before)


@pytest.mark.parametrize(
    "scales", [[0, 1, 2], [0, 0, 0], [-1, 2, 1], [1e-38, 1, 1], [1, 0.61803, 1], [1e-45, 1e-45, 1e-45], [127, 128, 2]]
)
def test_scales_of_strangers_are_taken_as_they_are(scales):
    spec = CodewordSpec.named("linear", 40, 4, 3, codebook_dtype="int8")
    codec = codec_with(spec)
    tensors = {**codec.stored, "codebook_scale": np.array(scales, dtype=np.float32)[:, None, None]}
    coded = CodedTable.from_codes(None, random_codes(spec, 5), type(codec)(spec, tensors))
    found, expected = rows_of(coded).decode(np.arange(5)), decoded_plainly(coded, np.arange(5))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_codes_that_lie_apart_in_memory_are_read_too():
    coded = coded_table("linear", "int8", rows=40)
    wide = np.repeat(np.repeat(coded.packed, 3, axis=0), 2, axis=1)
    apart = CodedTable(coded.symbols, wide[::3, ::2], coded.codec)
    np.testing.assert_array_equal(rows_of(apart).decode(np.arange(40)), rows_of(coded).decode(np.arange(40)))


def test_the_row_that_is_zero_is_so_whatever_its_codewords_are():
    spec = CodewordSpec.named("linear", 20, 2, 2, codebook_dtype="float32")
    tensors = {"codebook": np.full((2, 2, 20), 3e38, dtype=np.float32)}  # the sum is infinite
    sums = CodewordRows(spec, tensors, np.zeros((3, 1), dtype=np.uint8))
    found = np.empty((2, 20), dtype=np.float32)
    sums.decode_into(np.array([0, 1]), found, zero_row=1, finite=False)
    assert np.isinf(found[0]).all()
    assert (found[1] == 0).all()


@pytest.mark.parametrize("rows", [[-1], [5], [0, 1, 2**40], [3, -(2**62)]])
def test_rows_outside_the_table_are_refused(rows):
    with pytest.raises(RowError, match=r"row -?\d+ is out of range: the table has 5 rows"):
        rows_of(coded_table(rows=5)).decode(np.array(rows))


@pytest.mark.parametrize("value", [5, 7])
@pytest.mark.parametrize("rows", [1, 40])
def test_codes_that_no_codebook_has_are_refused(rows, value):
    spec = spec_of("linear", size=5)
    codec = codec_with(spec)
    packed = np.zeros((rows, spec.row_bytes), dtype=np.uint8)
    packed[-1, 0] = value
    sums = CodewordRows(spec, codec.stored, packed)
    with pytest.raises(StorageError, match=f"found code value {value}, values must be below K=5"):
        sums.decode(np.arange(rows))


def test_integers_that_are_far_too_large_are_refused():
    spec = spec_of("linear", size=300)
    codes = np.zeros((2, 4), dtype=np.int32)
    codes[1, 2] = 1 << 28
    sums = CodewordRows(spec, codec_with(spec).stored, codes.view(np.uint8), (32, 32))
    with pytest.raises(StorageError, match="found code value 268435456, values must be below K=300"):
        sums.decode(np.array([0, 1]))


def test_levels_that_are_not_there_are_refused():
    spec = spec_of("scaled-linear", size=4)
    codes = np.zeros((3, 5), dtype=np.uint8)
    codes[2, 4] = 200
    sums = CodewordRows(spec, codec_with(spec).stored, codes, (8, 8))
    sums.decode(np.array([0, 1]))
    with pytest.raises(StorageError, match="found level 200 of a row scale, levels must be below 8"):
        sums.decode(np.array([0, 2]))


def test_damage_is_found_where_it_is_read_and_nowhere_else(tmp_path):
    coded = coded_table(rows=60_000, length=16, size=256, dim=8)
    path = tmp_path / "table.kdc"
    kdcode.save(coded, path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    loaded = kdcode.load(path)
    sums = rows_of(loaded)
    np.testing.assert_array_equal(sums.decode(np.array([0, 59_999])), rows_of(coded).decode(np.array([0, 59_999])))
    with pytest.raises(DamagedFileError, match="do not match their digest"):
        sums.decode(np.arange(60_000))


def test_a_search_checks_all_that_it_looks_at(tmp_path):
    """The nearest rows are the first ones: only they are decoded."""
    spec = CodewordSpec.named("linear", 1, 256, 16, codebook_dtype="float32")
    codec = make_codec(spec, {"codebook": np.repeat(np.arange(256.0)[None, :, None], 16, axis=0)})
    codes = np.zeros((60_000, 16), dtype=int)
    codes[:3] = 255
    path = tmp_path / "table.kdc"
    kdcode.save(CodedTable.from_codes(None, codes, codec), path)
    assert [near.symbol for near in kdcode.load(path).neighbors(np.ones(1), 2, metric="dot")] == ["0", "1"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="do not match their digest"):
        kdcode.load(path).neighbors(np.ones(1), 2, metric="dot")


def test_a_file_that_changes_in_place_is_checked_again(tmp_path):
    path = tmp_path / "table.kdc"
    kdcode.save(coded_table(rows=3000, length=16, size=256), path)
    loaded = kdcode.load(path)
    loaded.decode(np.arange(3000))
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    with path.open("r+b") as stream:
        stream.write(content)
    with pytest.raises(DamagedFileError):
        loaded.decode(np.arange(3000))


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_threads_that_read_at_once_get_right_answers(tmp_path, kind, dtype):
    path = tmp_path / "table.kdc"
    kdcode.save(coded_table(kind, dtype, rows=20_000, length=8, size=256, dim=10, symbols=words(20_000)), path)
    loaded = kdcode.load(path)
    expected = loaded.decode(np.arange(20_000))
    loaded, wrong = kdcode.load(path), []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(10):
            rows = random.integers(0, 20_000, size=300)
            if not np.allclose(loaded.decode(rows), expected[rows], rtol=1e-4, atol=1e-5):
                wrong.append(seed)
            symbol = loaded.symbols[int(rows[0])]
            if not np.allclose(loaded[symbol], expected[rows[0]], rtol=1e-4, atol=1e-5):
                wrong.append(symbol)

    in_threads(read)
    assert wrong == []


def test_copies_and_pickles_decode_by_themselves():
    coded = coded_table(rows=100)
    expected = coded.decode(np.arange(100))
    for other in (copy.copy(coded), copy.deepcopy(coded), pickle.loads(pickle.dumps(coded))):  # noqa: S301
        np.testing.assert_array_equal(other.decode(np.arange(100)), expected)
        assert [near.symbol for near in other.neighbors("3")] == [near.symbol for near in coded.neighbors("3")]


def test_numbers_that_leave_float32_are_computed_in_double_or_refused():
    spec = CodewordSpec.named("linear", 2, 2, 3, codebook_dtype="float32")
    codebook = np.array([[[3e38, 1], [0, 0]], [[3e38, 2], [0, 0]], [[-3e38, 4], [0, 0]]], dtype=np.float32)
    packed = make_codec(spec, {"codebook": codebook}).pack(np.array([[0, 0, 0], [0, 0, 1]]))
    rows = CodewordRows(spec, {"codebook": codebook}, packed)
    np.testing.assert_array_equal(rows.decode(np.array([0])), np.float32([[3e38, 7]]))
    with pytest.raises(StorageError, match=r"the vector of code 0-0-1 has a number beyond float32, 3\.403e\+38"):
        rows.decode(np.array([0, 1]))


FLOATS, MATRIX = np.empty(0, np.float32), np.empty((0, 0), np.float32)
CODEBOOK, BASIS = np.zeros((3, 4, 5), np.float32), np.zeros((5, 7), np.float32)
ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            (CODEBOOK.astype(np.float64), FLOATS, MATRIX, FLOATS, FLOATS, 5, 1),
            "expected float32, float16 or int8 values",
        ),
        (
            (CODEBOOK[:, ::2], FLOATS, MATRIX, FLOATS, FLOATS, 5, 1),
            "C-contiguous.*got float32 of shape .*, not contiguous",
        ),
        ((CODEBOOK[0], FLOATS, MATRIX, FLOATS, FLOATS, 5, 1), "with 3 dimensions; got float32 of shape"),
        ((CODEBOOK[:0], FLOATS, MATRIX, FLOATS, FLOATS, 5, 1), "a codec needs codewords and dimensions"),
        ((CODEBOOK, ONES[:2], MATRIX, FLOATS, FLOATS, 5, 1), r"codebook_scale must have shape \(3,\), got \(2,\)"),
        ((CODEBOOK, FLOATS, MATRIX, FLOATS, FLOATS, 6, 1), "the codebook, the basis and the number of groups must fit"),
        ((CODEBOOK, FLOATS, MATRIX, FLOATS, FLOATS, 5, 0), "must fit together"),
        ((CODEBOOK, FLOATS, MATRIX, FLOATS, FLOATS, 15, 4), "must fit together"),
        ((CODEBOOK, FLOATS, BASIS, FLOATS, FLOATS, 6, 1), r"the basis must have shape \(5, 6\), got \(5, 7\)"),
        ((CODEBOOK, FLOATS, BASIS, ONES, FLOATS, 7, 1), r"basis_scale must have shape \(5,\), got \(3,\)"),
    ],
)
def test_the_core_refuses_tensors_that_do_not_fit(given, message):
    with pytest.raises(OptionError, match=message):
        _core.sums(*given)


def test_the_core_refuses_rows_and_vectors_that_do_not_fit():
    codec = _core.sums(CODEBOOK, FLOATS, MATRIX, FLOATS, FLOATS, 5, 1)
    none, numbers, vectors = np.empty(0, np.uint8), np.zeros(2, np.int64), np.zeros((2, 5), np.float32)
    good = _core.CodeRows(np.zeros((6, 3), np.uint8), 8, 0, none, 0)
    assert codec.decode(good, numbers, vectors, 0, -1, True) == 2
    for wrong in (
        _core.CodeRows(np.zeros((6, 4), np.uint8), 8, 0, none, 0),
        _core.CodeRows(np.zeros((6, 3), np.uint8), 9, 0, none, 0),
        _core.CodeRows(np.zeros((6, 3), np.uint8), 0, 0, none, 0),
        _core.CodeRows(np.zeros((6, 4), np.uint8), 8, 8, none, 0),  # levels that the codec has not
        _core.CodeRows(np.zeros((6, 3), np.uint8), 8, 0, np.ones(1, np.uint8), 65_530),  # too few blocks
    ):
        with pytest.raises(OptionError, match="the packed rows and the codec must fit together"):
            codec.decode(wrong, numbers, vectors, 0, -1, True)
    with pytest.raises(OptionError, match=r"the vectors must have shape \(2, 5\), got \(1, 5\)"):
        codec.decode(good, numbers, vectors[:1], 0, -1, True)
    with pytest.raises(OptionError, match="expected int64 values"):
        codec.decode(good, numbers.astype(np.int32), vectors, 0, -1, True)
    with pytest.raises(OptionError, match="expected writable float32 values"):
        codec.decode(good, numbers, np.broadcast_to(np.float32(0), (2, 5)), 0, -1, True)
    with pytest.raises(OptionError, match="no more rows can be done than are asked for"):
        codec.decode(good, numbers, vectors, 3, -1, True)


def test_the_core_refuses_scans_that_do_not_fit():
    codec = _core.sums(CODEBOOK, FLOATS, MATRIX, FLOATS, FLOATS, 5, 1)
    rows = _core.CodeRows(np.zeros((6, 3), np.uint8), 8, 0, np.empty(0, np.uint8), 0)
    kept = np.zeros((2, 9), np.int64), *np.zeros((2, 2, 9), np.float32), np.zeros(2, np.int64)
    tables, two = np.zeros((2, 12), np.float32), np.zeros(2, np.float32)
    scores = _core.Scores(tables, two, FLOATS, FLOATS)
    assert codec.scan(rows, scores, two - 1, 0, 6, *kept) == (6, False)
    assert kept[3].tolist() == [6, 6]
    for wrong in (
        _core.Scores(tables[:, :11].copy(), two, FLOATS, FLOATS),
        _core.Scores(tables, two[:1], FLOATS, FLOATS),
        _core.Scores(tables, two, ONES, FLOATS),
        _core.Scores(tables, two, FLOATS, ONES),
    ):
        with pytest.raises(OptionError, match="must have shape"):
            codec.scan(rows, wrong, two, 0, 6, *kept)
    with pytest.raises(OptionError, match="from one row of the table to another"):
        codec.scan(rows, scores, two, 0, 7, *kept)
    for count in (-1, 10, 2**62):
        kept[3][:] = count
        assert codec.scan(rows, scores, two - 1, 0, 6, *kept) == (0, False)
