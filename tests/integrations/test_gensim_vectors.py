"""gensim's KeyedVectors over a coded table: gensim's own tests, and its answers on the decoded vectors."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.keyedvectors import _load_word2vec_format
from gensim.similarities import WordEmbeddingSimilarityIndex
from gensim.test import test_keyedvectors as gensims
from gensim.test.utils import datapath
from sample_tables import KINDS, coded_table, words

import kdcode
from kdcode import CodedTable, VectorTable
from kdcode.codec import CodewordSpec, make_codec
from kdcode.errors import OptionError, ReadOnlyError
from kdcode.integrations.gensim_vectors import CHANGING, CodedKeyedVectors

NAMES = words(60)
IGNORING = pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`:DeprecationWarning")  # gensim's own call


def lossless(symbols, matrix):
    """A coded table with one codeword for each row, which decodes to the vectors themselves."""
    spec = CodewordSpec.named("linear", matrix.shape[1], len(matrix), 1, codebook_dtype="float32")
    return CodedTable.from_codes(symbols, np.arange(len(matrix))[:, None], make_codec(spec, {"codebook": matrix[None]}))


ORIGINAL = _load_word2vec_format(KeyedVectors, datapath("euclidean_vectors.bin"), binary=True)
CODED = lossless(ORIGINAL.index_to_key, ORIGINAL.vectors)

CHANGING_TESTS = {"test_add_single", "test_add_multiple", "test_set_item"}
"""gensim's tests of what a read-only table refuses."""

LOADING_TESTS = {
    "test_add_type",
    "test_load_model_and_vocab_file_ignore",
    "test_load_model_and_vocab_file_replace",
    "test_load_model_and_vocab_file_strict",
    "test_no_header",
    "test_save_reload",
}
"""gensim's tests that make an empty KeyedVectors of their own, or load one; no table of ours takes part in them."""

ASKING_TESTS = sorted(
    name
    for name in dir(gensims.TestKeyedVectors)
    if name.startswith("test_") and name not in CHANGING_TESTS | LOADING_TESTS
)


@pytest.mark.parametrize("name", ASKING_TESTS)
@pytest.mark.parametrize("form", ["coded", "expanded"])
@IGNORING
def test_gensims_own_tests(name, form):
    """Each test that asks something of a KeyedVectors, run as gensim wrote it on the same vectors in a coded table."""
    case = gensims.TestKeyedVectors(name)
    case.vectors = CODED.to_keyed_vectors(expanded=form == "expanded")
    for key in ORIGINAL.index_to_key:
        case.vectors.set_vecattr(key, "count", ORIGINAL.get_vecattr(key, "count"))
    getattr(case, name)()


def test_most_of_gensims_tests_are_run():
    assert len(ASKING_TESTS) >= 18
    assert {"test_most_similar_topn", "test_rank", "test_get_mean_vector"} <= set(ASKING_TESTS)
    assert all(hasattr(gensims.TestKeyedVectors, name) for name in CHANGING_TESTS | LOADING_TESTS)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def pair(request):
    coded = coded_table(*request.param, rows=60, symbols=NAMES)
    return CodedKeyedVectors(coded), coded.to_keyed_vectors()


@IGNORING
def test_every_question_has_the_answer_of_the_decoded_vectors(pair):
    ours, theirs = pair
    a, b, c = NAMES[3], NAMES[20], NAMES[44]
    assert isinstance(ours, KeyedVectors)
    assert type(theirs) is KeyedVectors
    assert list(ours.index_to_key) == theirs.index_to_key == NAMES
    assert dict(ours.key_to_index) == theirs.key_to_index
    assert len(ours) == len(theirs) == 60
    for key in (a, 5, [a, b], [1, 2, a]):
        np.testing.assert_allclose(ours[key], theirs[key], atol=1e-6)
    np.testing.assert_allclose(ours.get_vector(a, norm=True), theirs.get_vector(a, norm=True), atol=1e-6)
    np.testing.assert_allclose(ours.get_normed_vectors(), theirs.get_normed_vectors(), atol=1e-6)
    for ask in (
        lambda kv: kv.most_similar([a, b], [c], topn=7),
        lambda kv: kv.most_similar([(a, 0.5), (kv[b], 1.5)], topn=7),
        lambda kv: kv.most_similar(a, topn=7, clip_start=10, clip_end=50),
        lambda kv: kv.most_similar(a, topn=7, restrict_vocab=30),
        lambda kv: kv.most_similar_cosmul([a, b], [c], topn=7),
        lambda kv: kv.most_similar_cosmul(a, topn=7),
        lambda kv: kv.similar_by_vector(kv[a] + kv[b], topn=7),
        lambda kv: kv.similar_by_key(a, topn=7),
    ):
        mine, expected = ask(ours), ask(theirs)
        assert [score for _, score in mine] == pytest.approx([score for _, score in expected], rel=1e-5, abs=1e-5)
    for ask in (
        lambda kv: kv.most_similar([a, b], [c], topn=None),
        lambda kv: kv.most_similar(a, topn=None, clip_start=10, clip_end=50),
        lambda kv: kv.most_similar_cosmul([a, b], [c], topn=None),
        lambda kv: kv.distances(a),
        lambda kv: kv.distances(kv[a], [b, c]),
        lambda kv: kv.similarity(a, b),
        lambda kv: kv.distance(a, b),
        lambda kv: kv.n_similarity([a, b], [c]),
        lambda kv: kv.relative_cosine_similarity(a, b, 5),
        lambda kv: kv.get_mean_vector([a, b], [1, 2]),
    ):
        np.testing.assert_allclose(ask(ours), ask(theirs), rtol=1e-5, atol=1e-5)
    assert ours.doesnt_match([a, b, c]) == theirs.doesnt_match([a, b, c])
    for key in set(ours.closer_than(a, b)) ^ set(theirs.closer_than(a, b)):  # rows that are as near as b, to rounding
        assert theirs.distance(a, key) == pytest.approx(theirs.distance(a, b), abs=1e-6)


def test_missing_keys_and_no_input_are_gensims_errors():
    ours = CodedKeyedVectors(CODED)
    assert "no such word" not in ours
    assert ours.get_index("no such word", 7) == 7
    for ask in (ours.get_vector, ours.most_similar, ours.distances, ours.key_to_index.__getitem__):
        with pytest.raises(KeyError):
            ask("no such word")
    for ask in (ours.most_similar, ours.most_similar_cosmul):
        with pytest.raises(ValueError, match="no input"):
            ask(positive=[])


def test_what_would_change_it_is_refused():
    ours = CodedKeyedVectors(CODED)
    vector = np.ones(ours.vector_size)
    calls = {
        "add_vector": lambda: ours.add_vector("new", vector),
        "add_vectors": lambda: ours.add_vectors(["new"], vector[None]),
        "intersect_word2vec_format": lambda: ours.intersect_word2vec_format("x.txt"),
        "resize_vectors": ours.resize_vectors,
        "sort_by_descending_frequency": ours.sort_by_descending_frequency,
        "unit_normalize_all": ours.unit_normalize_all,
        "item assignment": lambda: ours.__setitem__("war", vector),
        "setting vectors": lambda: setattr(ours, "vectors", vector),
    }
    assert set(CHANGING) <= calls.keys()
    for name, call in calls.items():
        with pytest.raises(ReadOnlyError, match=rf"{name}: coded vectors cannot be changed; .*to_keyed_vectors\(\)"):
            call()
    with pytest.raises(ValueError, match="read-only"):
        ours["war"][0] = 1
    assert len(ours) == len(ORIGINAL)
    np.testing.assert_array_equal(ours["war"], ORIGINAL["war"])
    changed = ours.table.to_keyed_vectors()
    changed.add_vectors(["new"], vector[None])
    assert "new" in changed


def test_files(tmp_path):
    CodedKeyedVectors(CODED).save(tmp_path / "words.kdc")
    ours = CodedKeyedVectors.load(tmp_path / "words.kdc")
    assert isinstance(ours.table, CodedTable)
    assert ours.most_similar("war", topn=3) == CodedKeyedVectors(CODED).most_similar("war", topn=3)
    ours.save_word2vec_format(str(tmp_path / "words.bin"), binary=True)
    assert np.array_equal(kdcode.read(tmp_path / "words.bin").matrix, ORIGINAL.vectors)
    with pytest.raises(OptionError, match=r"only codes are saved as \.kdc"):
        CodedKeyedVectors(CODED.to_table()).save(tmp_path / "other.kdc")
    assert not (tmp_path / "other.kdc").exists()


def test_a_table_of_vectors_and_one_without_symbols():
    table = VectorTable(None, ORIGINAL.vectors[:50])
    for vectors in (table.to_keyed_vectors(), table.to_keyed_vectors(expanded=False)):
        assert vectors["7"].tolist() == vectors[7].tolist() == ORIGINAL.vectors[7].tolist()
        assert vectors.most_similar("7", topn=1)[0][0] != "7"


def test_it_goes_back_to_a_table():
    again = kdcode.as_table(CodedKeyedVectors(CODED))
    assert list(again.symbols) == ORIGINAL.index_to_key
    assert np.array_equal(again.matrix, ORIGINAL.vectors)


def test_other_parts_of_gensim_take_it(tmp_path):
    ours = CodedKeyedVectors(CODED)
    near = list(WordEmbeddingSimilarityIndex(ours).most_similar("war", topn=3))
    assert [term for term, _ in near] == ["conflict", "administration", "terrorism"]
    (tmp_path / "pairs.tsv").write_text("war\tconflict\t9\nwar\tgood\t2\nnice\tgood\t7\n")
    found = ours.evaluate_word_pairs(str(tmp_path / "pairs.tsv"))
    assert found[0][0] == pytest.approx(ORIGINAL.evaluate_word_pairs(str(tmp_path / "pairs.tsv"))[0][0], abs=1e-5)
    (tmp_path / "analogies.txt").write_text(": section\nwar conflict good nice\ncall war israel terrorism\n")
    expected = ORIGINAL.evaluate_word_analogies(str(tmp_path / "analogies.txt"))
    assert ours.evaluate_word_analogies(str(tmp_path / "analogies.txt")) == expected


def test_searching_holds_no_decoded_table():
    coded = coded_table("product", rows=20_000, dim=256, length=4)
    ours = CodedKeyedVectors(coded)
    decoded = 20_000 * 256 * 4
    tracemalloc.start()
    try:
        ours.most_similar(["3", "4"], ["5"])
        ours.most_similar_cosmul(["3", "4"], ["5"])
        ours.rank("3", "4")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < decoded / 4


def test_without_gensim_the_extra_is_named():
    script = """
import sys
sys.modules["gensim"] = sys.modules["gensim.models"] = None
import numpy, kdcode
table = kdcode.VectorTable(["a", "b"], numpy.ones((2, 3)))
assert table.most_similar("a")[0].symbol == "b"
try:
    table.to_keyed_vectors()
except kdcode.errors.MissingExtraError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == (
        "gensim is required for gensim's KeyedVectors and is not installed: pip install 'gensim>=4.3'\n"
    )
