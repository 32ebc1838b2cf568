import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from sample_tables import KINDS, NAMES, TRANSFORM_NAMES, codec_of, coded_table, codes_of, words

from kdcode import CodedTable
from kdcode.codec import CodewordSpec, Sizes, make_codec
from kdcode.errors import OptionError, RowError, StorageError, UnknownSymbolError
from kdcode.symbols import RowNumbers, StoredSymbols

CODEBOOK = np.array([[[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]], dtype=np.float32)
CODEC = make_codec(CodewordSpec.named("linear", 2, 3, 2, codebook_dtype="float32"), {"codebook": CODEBOOK})
CODES = np.array([[0, 2], [2, 1], [0, 1]])


@pytest.fixture
def coded():
    return CodedTable.from_codes(["a", "b", "c"], CODES, CODEC)


def test_looking_up_by_hand(coded):
    assert coded["a"].tolist() == [51, 62]
    assert coded["b"].dtype == np.float32
    assert coded.decode([2, 0]).tolist() == [[31, 42], [51, 62]]
    assert coded.code_of("b") == (2, 1)
    assert coded.row_of("c") == 2
    assert coded.symbols_at(np.array([2, 0])) == ["c", "a"]
    assert "a" in coded
    assert "x" not in coded
    assert repr(coded) == "<CodedTable: 3 symbols, 2 dimensions, K=3, D=2, linear>"


def test_transform_tables_say_what_they_are_in_words():
    rotated, plain = coded_table("transform", rows=20), coded_table("transform-plain", rows=20)
    centred = coded_table("transform-centroids-blocks", rows=20)
    shape = "5.0 bytes per row on average, 6 lengths, rotation of 3 reflections, 64 states"
    assert repr(rotated) == f"<CodedTable: 20 symbols, 7 dimensions, transform, {shape}>"
    shape = "13.3 bytes per block of 3 rows on average, 6 lengths, rotation of 3 reflections, 5 centroids, 64 states"
    assert repr(centred) == f"<CodedTable: 20 symbols, 7 dimensions, transform, {shape}>"
    shape = "9 bytes per row, no rotation, 32 states"
    assert repr(plain.codebook()) == f"<CodedTable: a codebook without rows, 7 dimensions, transform, {shape}>"


def test_row_scales_by_hand():
    spec = CodewordSpec.named("linear", 2, 3, 2, codebook_dtype="float32", scale_bits=1)
    codec = make_codec(spec, {"codebook": CODEBOOK, "scale_levels": np.array([1, 10])})
    coded = CodedTable.from_codes(["a", "b"], np.array([[0, 2, 0], [0, 2, 1]]), codec)
    assert coded.decode([0, 1]).tolist() == [[51, 62], [510, 620]]
    assert coded.code_of("b") == (0, 2, 1)
    assert coded.codes.tolist() == [[0, 2, 0], [0, 2, 1]]
    assert coded.symbols_with_code([0, 2]) == ["a", "b"]
    assert coded.symbols_with_code([0, 2, 1]) == ["b"]
    np.testing.assert_allclose(coded.norms, np.linalg.norm([[51, 62], [510, 620]], axis=1), rtol=1e-6)


def test_what_it_is_made_of(coded):
    assert len(coded) == 3
    assert (coded.codebook_size, coded.code_length, coded.embedding_dim, coded.spec.bits) == (3, 2, 2, 4)
    assert coded.spec is coded.codec.spec
    np.testing.assert_array_equal(coded.codes, CODES)
    assert coded.packed.tolist() == [[0b1000], [0b0110], [0b0100]]
    assert coded.sizes == Sizes(codes=3, codebook=48, composition=0, symbols=coded.symbols.nbytes)
    np.testing.assert_allclose(coded.norms, np.linalg.norm(coded.to_table().matrix, axis=1), rtol=1e-6)


def test_decode_keeps_the_shape_of_the_rows(coded):
    assert coded.decode(1).shape == (2,)
    assert coded.decode(np.array(1)).shape == (2,)
    assert coded.decode([[0, 1], [2, 2]]).shape == (2, 2, 2)
    assert coded.decode([]).shape == (0, 2)
    assert coded.decode(np.empty((3, 0), int)).shape == (3, 0, 2)
    assert coded.decode(np.array([1], dtype=np.uint64)).tolist() == [[35, 46]]


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_decoding_is_composing_the_codes(kind, dtype):
    rows = np.arange(9000)  # more than one chunk
    table = coded_table(kind, dtype, rows=9000, size=5, length=3)
    composed = table.codec.compose(table.codes)
    if table.codewords is not None and table.codewords.spec.scale_bits:
        composed = composed * table.codec.stored["scale_levels"][table.codes[:, -1]][:, None]
    np.testing.assert_allclose(table.decode(rows), composed, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(table.compose(table.codes), composed, rtol=1e-6, atol=1e-6)
    assert table.compose(table.codes[:0]).shape == (0, 7)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_composing_what_was_encoded_gives_vectors_of_the_right_length(kind, dtype):
    table = coded_table(kind, dtype, rows=40, length=5, size=8)
    scaled = "scaled" in kind
    if scaled:  # levels for lengths from 1/1000 to 1000 that are 7.2 times apart
        codec = table.codec.with_levels(np.geomspace(1e-3, 1e3, 8).astype(np.float32))
        table = CodedTable(table.symbols, table.packed, codec)
    vectors = coded_table(kind, dtype, rows=40, length=5, size=8).decode(np.arange(40))
    codes = table.encode(vectors)
    columns = 7 + 2 + ("centroids" in kind) if kind in TRANSFORM_NAMES else 5 + scaled
    assert codes.shape == (40, columns)
    assert table.encode(vectors[0]).shape == (columns,)
    lengths, found = np.linalg.norm(vectors, axis=1), np.linalg.norm(table.compose(codes), axis=1)
    if scaled:
        assert (np.maximum(found / lengths, lengths / found) < 2.7).all()
    else:
        cut = kind == "transform-centroids"  # one row has levels that end at K with the step it is encoded with
        assert (np.abs(found - lengths) >= 0.5 * lengths.mean()).sum() <= cut


@pytest.mark.parametrize(("rows", "named"), [(-1, -1), (3, 3), ([0, 3], 3), ([[-1]], -1), ([7, 9], 7)])
def test_rows_outside_the_table_are_refused(coded, rows, named):
    with pytest.raises(RowError, match=f"row {named} is out of range: the table has 3 rows, 0 to 2"):
        coded.decode(rows)


@pytest.mark.parametrize("rows", [1.0, ["a"], True, None])
def test_rows_that_are_no_integers_are_refused(coded, rows):
    with pytest.raises(RowError, match="rows are integers"):
        coded.decode(rows)


@pytest.mark.parametrize("symbols", [None, list("abcde")])
@pytest.mark.parametrize("rows", [[-1], [5], [0, -1], np.array([2, 5])])
def test_symbols_of_rows_outside_the_table_are_refused(symbols, rows):
    table = coded_table(rows=5, symbols=symbols)
    with pytest.raises(RowError, match=f"row {rows[-1]} is out of range: the table has 5 rows"):
        table.symbols_at(rows)


def test_tables_without_symbols():
    table = coded_table(rows=3)
    np.testing.assert_array_equal(table["2"], table.decode(2))
    assert "2" in table
    assert "3" not in table
    assert table.symbols_at(np.array([1])) == ["1"]
    assert isinstance(table.to_table().symbols, RowNumbers)
    with pytest.raises(UnknownSymbolError):
        table["3"]


def test_a_table_of_one_row():
    table = CodedTable.from_codes(["only"], CODES[:1], CODEC)
    assert table["only"].tolist() == [51, 62]
    assert len(CodedTable(table.symbols, table.packed, table.codec)) == 1


def test_symbols_that_share_a_code(coded):
    assert coded.symbols_with_code([0]) == ["a", "c"]
    assert coded.symbols_with_code([0, 1]) == ["c"]
    assert coded.symbols_with_code((1,)) == []
    for prefix, message in (([], "got none"), ([0, 0, 0], "got 0-0-0"), ([3], "got 3"), ([0, -1], "got 0--1")):
        with pytest.raises(OptionError, match=message):
            coded.symbols_with_code(prefix)


def test_groups_of_equal_codes_are_sorted_and_hold_every_row(coded):
    groups = [(code, rows.tolist()) for code, rows in coded.code_groups()]
    assert [code for code, _ in groups] == sorted({coded.code_of(symbol) for symbol in coded.symbols})
    assert sorted(row for _, rows in groups for row in rows) == [0, 1, 2]
    assert [rows.tolist() for _, rows in coded.code_groups([0, 1])] == [[2]]
    assert not list(coded.code_groups([1]))


def test_chunks_are_the_decoded_table_in_order():
    table = coded_table(rows=1000, symbols=words(1000))
    pieces = list(table.chunks(300))
    assert [len(symbols) for symbols, _ in pieces] == [300, 300, 300, 100]
    assert [symbol for symbols, _ in pieces for symbol in symbols] == words(1000)
    np.testing.assert_array_equal(np.concatenate([vectors for _, vectors in pieces]), table.decode(np.arange(1000)))
    assert [start for start, _ in table.code_chunks(300)] == [0, 300, 600, 900]
    np.testing.assert_array_equal(np.concatenate([codes for _, codes in table.code_chunks(300)]), table.codes)


def test_the_whole_table_decoded(coded):
    table = coded.to_table()
    assert table.symbols == ["a", "b", "c"]
    np.testing.assert_array_equal(table["b"], coded["b"])


def test_symbols_may_be_stored_ones_or_row_numbers():
    stored = StoredSymbols.build(["a", "b", "c"])
    assert CodedTable.from_codes(stored, CODES, CODEC).symbols is stored
    with pytest.raises(OptionError, match="4 symbols for 3 codes"):
        CodedTable.from_codes(RowNumbers(4), CODES, CODEC)
    with pytest.raises(OptionError, match="2 symbols for 3 codes"):
        CodedTable.from_codes(["a", "b"], CODES, CODEC)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((0, 2), int), "at least one row"),
        (np.zeros((3, 3), int), r"shape \(rows, 2\), got int64 \(3, 3\)"),
        (np.zeros(2, int), r"got int64 \(2,\)"),
        (np.zeros((3, 2)), "got float64"),
        (np.full((3, 2), 3), r"in \[0, 3\), got 3 to 3"),
        (np.full((3, 2), -1), "got -1 to -1"),
    ],
)
def test_codes_that_do_not_fit_are_refused(coded, codes, message):
    with pytest.raises(OptionError, match=message):
        CodedTable.from_codes(None, codes, CODEC)
    if len(codes):
        with pytest.raises(OptionError, match=message):
            coded.compose(codes)


def test_codes_of_rows_with_scales_have_one_column_more():
    codec = codec_of("scaled-linear")
    codes = codes_of(codec, 5)
    with pytest.raises(OptionError, match=r"shape \(rows, 5\), got int64 \(5, 4\)"):
        CodedTable.from_codes(None, codes[:, :4], codec)
    codes[0, 4] = 8
    with pytest.raises(OptionError, match=r"in \[0, 8\)"):
        CodedTable.from_codes(None, codes, codec)


def test_parts_that_do_not_fit_are_refused():
    for packed in (np.zeros((3, 2), np.uint8), np.zeros(3, np.uint8), np.zeros((3, 1), np.int8)):
        with pytest.raises(OptionError, match=r"codes: expected uint8 of shape \(rows, 1\)"):
            CodedTable(RowNumbers(3), packed, CODEC)


def test_a_packed_code_beyond_k_is_found_when_it_is_read(coded):
    broken = CodedTable(coded.symbols, np.array([[0], [3], [0]], np.uint8), coded.codec)
    assert broken["a"].tolist() == [11, 22]
    with pytest.raises(StorageError, match="codes: found code value 3, values must be below K=3"):
        broken.decode(1)
    with pytest.raises(StorageError, match="codes: found code value 3"):
        list(broken.code_chunks())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])  # noqa: S301
@pytest.mark.parametrize("kind", NAMES)
def test_a_table_can_be_copied_and_sent(kind, copied):
    table = coded_table(kind, rows=20, symbols=words(20), provenance={"seed": 1})
    table.neighbors(words(1)[0])
    twin = copied(table)
    np.testing.assert_array_equal(twin[words(3)[2]], table[words(3)[2]])
    assert twin.provenance == {"seed": 1}


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_selection_keeps_codes_and_codec(kind, dtype, monkeypatch):
    table = coded_table(kind, dtype, rows=9, symbols=words(9), provenance={"learner": "by hand"})
    monkeypatch.setattr(CodedTable, "vectors_at", None)  # nothing is decoded
    part = table.select(words(9)[6:2:-1])
    assert type(part) is CodedTable
    assert part.codec is table.codec
    assert list(part.symbols) == words(9)[6:2:-1]
    np.testing.assert_array_equal(part.packed, table.packed[[6, 5, 4, 3]])
    assert part.provenance == {"taken_from": {"rows": 9, "learner": "by hand"}}
    assert part.select([0]).provenance == part.provenance
    assert CodedTable(table.symbols, table.packed, table.codec).select([0]).provenance == {}
    assert table.provenance == {"learner": "by hand"}


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_rows_added_are_encoded_by_the_codec(kind, dtype, at):
    table = coded_table(kind, dtype, rows=9, symbols=words(9))
    vector = np.random.default_rng(3).normal(size=7)
    more = table.with_rows({"<pad>": 0, "<unk>": vector}, at=at)
    assert list(more) == (["<pad>", "<unk>", *words(9)] if at == "start" else [*words(9), "<pad>", "<unk>"])
    np.testing.assert_array_equal(more[words(9)], table[words(9)])
    expected = table.compose(table.encode(np.stack([np.zeros(7), vector])))
    np.testing.assert_allclose(more[["<pad>", "<unk>"]], expected, rtol=1e-5, atol=1e-6)
    assert more.codec is table.codec
    assert len(table) == 9


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_shared_codes_are_symbols_whose_code_another_has_too(kind, dtype):
    rows = 900 if "centroids" in kind else 90  # rows that have the same levels may be measured from different ones
    coded = coded_table(kind, dtype, rows=rows, length=3, size=4, dim=3)
    counts = Counter(map(tuple, coded.codes.tolist()))
    shared = sum(count for count in counts.values() if count > 1)
    assert coded.shared_codes == shared
    assert 0 < shared < rows
    some = CodedTable(RowNumbers(rows // 2), coded.packed[::2], coded.codec)  # rows with gaps between
    assert some.shared_codes <= shared


def test_no_code_is_shared():
    codec = codec_of(length=2, size=4)
    every = np.stack(np.meshgrid(range(4), range(4)), axis=-1).reshape(-1, 2)
    assert CodedTable.from_codes(None, every, codec).shared_codes == 0
    assert CodedTable.from_codes(None, np.concatenate([every, every[:3]]), codec).shared_codes == 6
