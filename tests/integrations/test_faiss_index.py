"""faiss indexes, searched and compared with brute force over the decoded vectors of the table."""

import gc
import sys

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import (
    KINDS,
    NAMES,
    TRANSFORM_NAMES,
    codec_of,
    codec_with,
    coded_table,
    codes_of,
    random_codes,
    words,
)

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.coded import CodedTable
from kdcode.errors import FileError, FormatError, MissingExtraError, OptionError, StorageError
from kdcode.integrations.faiss_index import METRICS, export_faiss, faiss_index
from kdcode.symbols import RowNumbers

try:
    import resource
except ImportError:  # Windows
    resource = None

of_kinds = pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=str)
of_metrics = pytest.mark.parametrize("metric", METRICS)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def is_refused(kind: str) -> bool:
    return "scaled" in kind or "lstm" in kind or kind in TRANSFORM_NAMES


def read_again(index):
    return faiss.deserialize_index(faiss.serialize_index(index))


def queries_for(coded, count=9):
    """(count, d) vectors: some near rows of the table, some anywhere."""
    random = np.random.default_rng(3)
    vectors = coded.decode(random.integers(0, len(coded), size=count))
    vectors[::2] += 0.1 * vectors.std() * random.normal(size=vectors[::2].shape)
    vectors[1::2] = vectors.std() * random.normal(size=vectors[1::2].shape)
    return vectors


def all_scores(coded, queries, metric):
    """(q, N) what faiss calls scores of all rows, in float64: dot products, or squared distances."""
    vectors, queries = coded.decode(np.arange(len(coded))).astype(np.float64), queries.astype(np.float64)
    if metric == "dot":
        return queries @ vectors.T
    return np.square(queries[:, None] - vectors).sum(axis=2)


def assert_searches(index, coded, metric, k=8):
    """Scores, ids and vectors are those of brute force; of rows whose scores are equal to rounding, any may come."""
    assert (index.ntotal, index.d) == (len(coded), coded.embedding_dim)
    assert index.metric_type == (faiss.METRIC_INNER_PRODUCT if metric == "dot" else faiss.METRIC_L2)
    queries, k = queries_for(coded), min(k, len(coded))
    exact, [scores, ids] = all_scores(coded, queries, metric), index.search(queries, k)
    vectors = coded.decode(np.arange(len(coded)))
    size = np.linalg.norm(vectors, axis=1).max() * np.linalg.norm(queries, axis=1).max()
    tolerance = 1e-5 * (size if metric == "dot" else 4 * size)
    best = np.sort(exact if metric == "l2" else -exact, axis=1)[:, :k] * (1 if metric == "l2" else -1)
    assert np.allclose(scores, best, rtol=0, atol=tolerance)
    assert np.allclose(np.take_along_axis(exact, ids, axis=1), scores, rtol=0, atol=tolerance)
    assert all(len(set(row)) == k for row in ids.tolist())
    near = 1e-5 * np.abs(vectors).max()
    assert np.allclose(index.reconstruct_n(0, len(coded)), vectors, rtol=0, atol=near)
    assert np.allclose(index.reconstruct(len(coded) - 1), vectors[-1], rtol=0, atol=near)


@of_kinds
@of_metrics
def test_an_index_gives_what_brute_force_gives(kind, dtype, metric):
    coded = coded_table(kind, dtype, rows=200, length=5, size=6, dim=9)
    if is_refused(kind):
        with pytest.raises(OptionError, match=r"LSTM|row scales|transform codes"):
            coded.to_faiss(metric)
        return
    index = coded.to_faiss(metric)
    assert_searches(index, coded, metric)
    assert_searches(read_again(index), coded, metric)


@of_kinds
@of_metrics
def test_ids_are_those_of_brute_force(kind, dtype, metric):
    """With rows that are far apart no rounding can change their order."""
    if is_refused(kind):
        return
    coded = coded_table(kind, dtype, rows=12, length=6, size=16, dim=12)
    queries = queries_for(coded)
    exact = all_scores(coded, queries, metric)
    order = np.argsort(exact if metric == "l2" else -exact, axis=1, kind="stable")
    assert np.abs(np.diff(np.sort(exact, axis=1), axis=1)).min() > 2e-5
    assert np.array_equal(coded.to_faiss(metric).search(queries, 12)[1], order)


SHAPES = [
    {"size": 256, "length": 16, "dim": 100},
    {"size": 256, "length": 20, "dim": 100},
    {"size": 16, "length": 32, "dim": 100},
    {"size": 100, "length": 10, "dim": 50},
    {"size": 64, "length": 12, "dim": 48},
    {"size": 64, "length": 7, "dim": 30},
    {"size": 1024, "length": 4, "dim": 64},
    {"size": 65536, "length": 2, "dim": 4},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "K{size}-D{length}-d{dim}".format(**shape))
@pytest.mark.parametrize("kind", [name for name in NAMES if not is_refused(name)])
@of_metrics
def test_shapes_of_real_tables(kind, shape, metric):
    coded = coded_table(kind, "float16", rows=2000, **shape)
    assert_searches(read_again(coded.to_faiss(metric)), coded, metric, k=100)


@settings(deadline=None, max_examples=150)
@given(
    kind=st.sampled_from([name for name in NAMES if not is_refused(name)]),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    length=st.integers(1, 12),
    size=st.integers(2, 40) | st.sampled_from([255, 256, 257, 1024, 1025]),
    dim=st.integers(1, 30),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 99),
)
def test_codes_of_any_width(kind, dtype, length, size, dim, metric, seed):
    if "product" in kind:
        length = min(length, dim)
    coded = coded_table(kind, dtype, rows=50, length=length, size=size, dim=dim, seed=seed)
    assert_searches(coded.to_faiss(metric), coded, metric)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("kind", ["product", "rotated-product"])
def test_small_codebooks_of_two_coordinates(kind, size):
    """faiss's own code for them takes eight codewords at a time, and refuses fewer."""
    coded = coded_table(kind, rows=60, length=5, size=size, dim=10)
    for metric in METRICS:
        assert_searches(coded.to_faiss(metric), coded, metric)


def inner(index):
    """The index behind the transform of queries."""
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index


def codes_in(index):
    return faiss.vector_to_array(inner(index).codes).reshape(index.ntotal, -1)


@pytest.mark.parametrize("size", [4, 6, 16, 64, 100, 256, 1000])
@pytest.mark.parametrize("kind", [name for name in NAMES if not is_refused(name)])
def test_codes_are_handed_over_as_they_are(kind, size):
    coded = coded_table(kind, rows=50, length=5, size=size, dim=9)
    assert np.array_equal(codes_in(coded.to_faiss()), coded.packed)
    if kind == "product":
        assert np.array_equal(codes_in(coded.to_faiss("l2")), coded.packed)


def test_sums_carry_their_squared_lengths_where_distances_are_asked_for():
    coded = coded_table("linear", rows=50, length=5, size=6)
    index = coded.to_faiss("l2")
    assert codes_in(index).shape[1] == coded.packed.shape[1] + 4
    assert index.lsq.search_type == faiss.AdditiveQuantizer.ST_norm_float
    assert coded.to_faiss("dot").lsq.search_type == faiss.AdditiveQuantizer.ST_LUT_nonorm


def kind_of_index(index):
    if not isinstance(index, faiss.IndexPreTransform):
        return type(index).__name__
    transform = faiss.downcast_VectorTransform(index.chain.at(0))
    return f"{type(transform).__name__}, {type(inner(index)).__name__}"


PQ, LSQ = "IndexPQ", "IndexLocalSearchQuantizer"


@pytest.mark.parametrize(
    ("kind", "dtype", "dim", "dot", "l2"),
    [
        ("product", "float16", 8, PQ, PQ),
        ("product", "float16", 9, f"RemapDimensionsTransform, {PQ}", f"RemapDimensionsTransform, {PQ}"),
        ("rotated-product", "float32", 9, f"LinearTransform, {PQ}", f"LinearTransform, {PQ}"),
        ("rotated-product", "float16", 8, f"LinearTransform, {PQ}", LSQ),  # rounded, it keeps distances no more
        ("rotated-product", "int8", 8, f"LinearTransform, {PQ}", LSQ),
        ("linear", "float16", 8, LSQ, LSQ),
        ("projected", "float16", 8, LSQ, LSQ),
        ("grouped", "float16", 8, LSQ, LSQ),
        ("rotated-grouped", "float32", 8, LSQ, LSQ),
    ],
)
def test_which_index_is_made(kind, dtype, dim, dot, l2):
    coded = coded_table(kind, dtype, dim=dim, size=16)
    assert (kind_of_index(coded.to_faiss("dot")), kind_of_index(coded.to_faiss("l2"))) == (dot, l2)


def test_codewords_of_product_codes_keep_their_size():
    coded = coded_table("rotated-product", "float16", rows=3000, length=48, size=256, dim=192)
    assert faiss.serialize_index(coded.to_faiss()).size < 3000 * 48 + 4 * 256 * 192 + 4 * 192 * 192 + 1000
    assert faiss.serialize_index(coded.to_faiss("l2")).size > 4 * 48 * 256 * 192


@of_metrics
@pytest.mark.parametrize("dims", [(7, 5), (5, 7), (6, 6)])
def test_any_basis(dims, metric):
    """One that fits hidden states is no rotation, and a projection is not even square."""
    inner_dim, dim = dims
    for length, groups in ((1, 1), (3, 1), (3, 3)):
        if groups > 1 and inner_dim != dim:
            continue
        spec = CodewordSpec("block-sum", dim, 5, length, inner_dim, groups, True, "float32")
        weights = codec_with(spec).weights()
        basis = np.random.default_rng(1).normal(size=(inner_dim, dim))
        codec = kdcode.codec.make_codec(spec, {**weights, "basis": basis})
        coded = CodedTable.from_codes(None, random_codes(spec, 40), codec)
        index = coded.to_faiss(metric)
        assert_searches(index, coded, metric)
        assert_searches(read_again(index), coded, metric)


def test_rows_with_the_same_code():
    coded = coded_table(rows=500, size=2)
    assert coded.shared_codes == 500
    for metric in METRICS:
        assert_searches(coded.to_faiss(metric), coded, metric, k=500)


@of_metrics
def test_an_index_lives_without_the_table(metric):
    coded = coded_table("rotated-product", rows=30)
    expected, index = coded.decode([29])[0], coded.to_faiss(metric)
    del coded
    gc.collect()
    assert np.allclose(index.reconstruct(29), expected, atol=1e-5)
    index.search(expected[None], 3)


@of_metrics
def test_a_table_that_is_not_coded(metric):
    coded = coded_table("scaled-lstm", rows=300)
    index = coded.to_table().to_faiss(metric)
    assert isinstance(index, faiss.IndexFlat)
    assert_searches(index, coded, metric)


def test_a_table_from_a_file(tmp_path):
    kdcode.save(coded_table("grouped", rows=300, symbols=words(300)), tmp_path / "t.kdc")
    loaded = kdcode.load(tmp_path / "t.kdc")
    for metric in METRICS:
        assert_searches(loaded.to_faiss(metric), loaded, metric)
    _, [[row]] = loaded.to_faiss("l2").search(loaded[[words(300)[7]]], 1)
    assert loaded.code_of(loaded.symbols[row]) == loaded.code_of(words(300)[7])


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("cosine", r"metric: faiss has no cosine.*length 1.*metric='dot'.*kdcode's own neighbors"),
        ("l1", "metric must be one of dot, l2, got 'l1'"),
        (None, "metric must be one of dot, l2, got None"),
    ],
)
def test_metrics_that_faiss_has_not(metric, said):
    for table in (coded_table(), coded_table().to_table()):
        with pytest.raises(OptionError, match=said):
            table.to_faiss(metric)


def test_refusals_say_what_to_do():
    with pytest.raises(OptionError, match=r"cannot run an LSTM.*neighbors.*coded\.to_table\(\)\.to_faiss\(\)"):
        coded_table("lstm").to_faiss()
    with pytest.raises(OptionError, match=r"codewords=True .--codewords., search with kdcode's own neighbors"):
        coded_table("transform").to_faiss()
    with pytest.raises(OptionError, match=r"no row scales, and this table has 3 bits.*to_faiss\(\).*without them"):
        coded_table("scaled-linear").to_faiss()
    with pytest.raises(OptionError, match=r"expected a table, got str.*kdcode\.load"):
        faiss_index("t.kdc")


@pytest.mark.parametrize("kind", ["linear", "product", "rotated-product", "rotated-grouped"])
def test_numbers_beyond_float32(kind):
    codec = codec_of(kind)
    largest = float(np.abs(codec.codebook).max())
    codes = codes_of(codec, 20)
    for metric in METRICS:
        with pytest.raises(OptionError, match=r"leave float32.*scale the table down"):
            CodedTable.from_codes(None, codes, codec.scaled(3e38 / largest)).to_faiss(metric)
    long = CodedTable.from_codes(None, codes, codec.scaled(1e19 / largest))
    with pytest.raises(OptionError, match=r"squares of distances.*metric='dot'.*scale the table down"):
        long.to_faiss("l2")
    vectors = long.decode(np.arange(20))
    assert np.allclose(long.to_faiss("dot").reconstruct_n(0, 20), vectors, rtol=0, atol=1e-5 * np.abs(vectors).max())
    shorter = CodedTable.from_codes(None, codes, codec.scaled(1e17 / largest))
    assert_searches(shorter.to_faiss("l2"), shorter, "l2")


def test_invalid_codes_are_refused():
    for kind in ("linear", "product"):
        coded = CodedTable(RowNumbers(2), np.full((2, 1), 255, dtype=np.uint8), codec_of(kind, size=3))
        for metric in METRICS:
            with pytest.raises(StorageError, match="values must be below K=3"):
                coded.to_faiss(metric)


def test_faiss_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    coded = coded_table()
    for asked in (coded.to_faiss, coded.to_table().to_faiss, lambda: export_faiss(coded, tmp_path / "t.faiss")):
        with pytest.raises(MissingExtraError) as caught:
            asked()
        assert str(caught.value) == (
            "faiss-cpu is required for a faiss index and is not installed: pip install 'faiss-cpu>=1.8'"
        )
    assert not list(tmp_path.iterdir())


@of_metrics
def test_a_file_that_faiss_reads(tmp_path, metric):
    coded = coded_table("rotated-product", rows=30, symbols=words(30))
    size = export_faiss(coded, tmp_path / "t.faiss", metric=metric, symbols=tmp_path / "t.txt")
    assert size == (tmp_path / "t.faiss").stat().st_size
    assert_searches(faiss.read_index(str(tmp_path / "t.faiss")), coded, metric)
    assert (tmp_path / "t.txt").read_text(encoding="utf-8").splitlines() == words(30)


def test_equal_tables_give_equal_files(tmp_path):
    for name in ("a", "b"):
        export_faiss(coded_table("uneven", "int8"), tmp_path / name, metric="l2")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(resource is None, reason="needs a limit on the size of files")
def test_a_full_disk_leaves_what_was_there(tmp_path):
    coded, path = coded_table(rows=5000), tmp_path / "t.faiss"
    path.write_text("mine")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(FileError, match=r"t\.faiss: cannot be written: File too large"):
            export_faiss(coded, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["t.faiss"]
    assert path.read_text() == "mine"


def test_files_that_cannot_be_written(tmp_path):
    coded = coded_table(symbols=["a", "b", "c", "d", "line\nbreak"])
    (tmp_path / "t.faiss").write_text("mine")
    with pytest.raises(FormatError, match=r"t\.txt: row 4: .*holds a line break"):
        export_faiss(coded, tmp_path / "t.faiss", symbols=tmp_path / "t.txt")
    with pytest.raises(FileError, match="there is no folder"):
        export_faiss(coded, tmp_path / "none" / "t.faiss")
    with pytest.raises(OptionError, match=r"symbols: .*is the index itself"):
        export_faiss(coded, tmp_path / "t.faiss", symbols=tmp_path / "t.faiss")
    with pytest.raises(OptionError, match="expected a CodedTable, got VectorTable"):
        export_faiss(coded.to_table(), tmp_path / "t.faiss")
    with pytest.raises(OptionError, match="LSTM"):
        export_faiss(coded_table("lstm"), tmp_path / "t.faiss")
    assert [path.name for path in tmp_path.iterdir()] == ["t.faiss"]
    assert (tmp_path / "t.faiss").read_text() == "mine"
