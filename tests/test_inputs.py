import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sample_tables import coded_table, words

import kdcode
from kdcode.errors import FormatError, TableError
from kdcode.inputs import as_rows, as_table
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
WORDS = ["king", "queen", "château"]


def is_the_matrix(table, symbols=None):
    assert isinstance(table, VectorTable)
    np.testing.assert_array_equal(np.concatenate([vectors for _, vectors in table.chunks()]), MATRIX)
    assert list(table.symbols) == (symbols or ["0", "1", "2"])
    assert isinstance(table.symbols, RowNumbers) == (symbols is None)
    return True


# Arrays, lists and dicts


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "int8", "int64", "uint16", ">f4"])
def test_arrays_of_any_real_type_are_not_copied(dtype):
    array = MATRIX.astype(dtype)
    table = as_table(array)
    assert is_the_matrix(table)
    assert table.matrix is array


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_matrix_a_list_and_a_dict_make_the_same_table(matrix):
    expected = as_table(matrix)
    names = words(len(matrix))
    np.testing.assert_array_equal(as_table(matrix.tolist()).matrix, expected.matrix)
    np.testing.assert_array_equal(as_table(dict(zip(names, matrix, strict=True))).matrix, expected.matrix)
    assert as_table(dict(zip(names, matrix, strict=True))).symbols == names


def test_lists_and_dicts_of_vectors():
    torch = pytest.importorskip("torch")
    assert is_the_matrix(as_table(MATRIX.tolist()))
    assert is_the_matrix(as_table(tuple(MATRIX)))
    assert is_the_matrix(as_table([torch.tensor(row, requires_grad=True) for row in MATRIX]))
    objects = np.empty(3, dtype=object)
    objects[:] = list(MATRIX.tolist())
    assert is_the_matrix(as_table(objects))
    mixed = {WORDS[0]: [0, 1], WORDS[1]: (2.0, 3.0), WORDS[2]: torch.tensor([4, 5], dtype=torch.bfloat16)}
    assert is_the_matrix(as_table(mixed), WORDS)


def test_tables_stay_as_they_are():
    table = VectorTable(WORDS, MATRIX, [1, 2, 3])
    assert as_table(table) is table
    assert as_rows(table) is table
    coded = coded_table(symbols=list("abcde"))
    assert as_rows(coded) is coded
    np.testing.assert_array_equal(as_table(coded).matrix, coded.decode(np.arange(5)))
    assert as_table(coded).symbols == list("abcde")


def test_symbols_and_weights_can_be_given():
    assert is_the_matrix(as_table(MATRIX, WORDS), WORDS)
    assert is_the_matrix(as_table(VectorTable(["x", "y", "z"], MATRIX), WORDS), WORDS)
    assert is_the_matrix(as_table(MATRIX, {"château": 2, "king": 0, "queen": 1}), WORDS)
    table = as_table(VectorTable(WORDS, MATRIX, [1, 2, 3]), ["x", "y", "z"])
    assert table.weights.tolist() == [1, 2, 3]
    assert as_table(table, weights=[3, 2, 1]).weights.tolist() == [3, 2, 1]
    assert as_table(table, weights=[3, 2, 1]).symbols == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (["a"], "1 symbols for 3 rows"),
        ({"a": 0, "b": 2}, "row 1 of 3 has no symbol"),
        ({"a": 0, "b": 1, "c": 2, "d": 3}, "4 symbols for the 3 rows"),
        ({"a": 0, "b": 1, "c": 2, "d": 2}, "4 symbols for the 3 rows"),
    ],
)
def test_symbols_that_do_not_fit_are_refused(symbols, message):
    with pytest.raises(TableError, match=message):
        as_table(MATRIX, symbols)


# Torch


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "float8_e5m2", "int64"])
def test_tensors_of_any_type(dtype):
    torch = pytest.importorskip("torch")
    assert is_the_matrix(as_table(torch.tensor(MATRIX).to(getattr(torch, dtype))))


def test_tensors_that_train_and_those_that_lie_elsewhere():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(MATRIX, requires_grad=True)
    table = as_table(tensor)
    assert is_the_matrix(table)
    assert table.matrix.__array_interface__["data"][0] == tensor.data_ptr()  # shared, not copied
    assert is_the_matrix(as_table(tensor * 1))  # not a leaf of the graph
    assert is_the_matrix(as_table(torch.nn.Parameter(torch.tensor(MATRIX, dtype=torch.bfloat16))))
    assert is_the_matrix(as_table(torch.tensor(MATRIX).T.contiguous().T))
    assert is_the_matrix(as_table(torch.tensor(MATRIX).to_sparse()))
    with pytest.raises(TableError, match=r"meta device.*load its weights first"):
        as_table(torch.nn.Embedding(3, 2, device="meta"))


def test_layers_with_a_matrix():
    torch = pytest.importorskip("torch")
    weight = torch.tensor(MATRIX)
    assert is_the_matrix(as_table(torch.nn.Embedding.from_pretrained(weight, freeze=False)))
    assert is_the_matrix(as_table(torch.nn.EmbeddingBag.from_pretrained(weight)))
    layer = torch.nn.Embedding(3, 2, _weight=weight).half()
    assert is_the_matrix(as_table(layer))
    assert as_table(layer, WORDS)["queen"].tolist() == [2, 3]


def test_layers_without_one_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TableError, match=r"LayerNorm has a weight of shape \(5,\).*give the layer itself"):
        as_table(torch.nn.LayerNorm(5))
    with pytest.raises(TableError, match="Sequential has no weight of its own"):
        as_table(torch.nn.Sequential(torch.nn.Embedding(3, 2)))

    class Model(torch.nn.Module):
        def get_input_embeddings(self):
            return torch.nn.Embedding(3, 2)

    with pytest.raises(TableError, match=r"as in model\.get_input_embeddings\(\)"):
        as_table(Model())


def test_a_state_dict_is_no_table_but_says_how_to_get_one():
    torch = pytest.importorskip("torch")
    with pytest.raises(TableError, match=r"'weight' is float32 of shape \(3, 2\); expected a vector"):
        as_table(torch.nn.Embedding(3, 2).state_dict())


# Frames


@pytest.fixture(params=["pandas", "polars"])
def frames(request):
    return pytest.importorskip(request.param)


def test_frames_with_numeric_columns(frames):
    assert is_the_matrix(as_table(frames.DataFrame({"x": MATRIX[:, 0], "y": MATRIX[:, 1]})))
    assert is_the_matrix(as_table(frames.DataFrame({"x": MATRIX[:, 0].astype(int), "y": MATRIX[:, 1]})))
    named = frames.DataFrame({"x": MATRIX[:, 0], "word": WORDS, "y": MATRIX[:, 1]})
    assert is_the_matrix(as_table(named), WORDS)


def test_wide_frames(frames):
    matrix = np.random.default_rng(0).normal(size=(5, 400)).astype(np.float32)
    columns = {f"d{number}": matrix[:, number] for number in range(400)}
    table = as_table(frames.DataFrame({"token": list("abcde"), **columns}))
    np.testing.assert_array_equal(table.matrix, matrix)
    assert table.symbols == list("abcde")


def test_frames_with_a_column_of_lists(frames):
    frame = frames.DataFrame({"word": WORDS, "count": [3, 2, 1], "vector": MATRIX.tolist()})
    assert is_the_matrix(as_table(frame), WORDS)
    with pytest.raises(TableError, match="the row of 'queen' has 1 numbers, the row of 'king' has 2"):
        as_table(frames.DataFrame({"word": WORDS[:2], "vector": [[1.0, 2.0], [3.0]]}))
    with pytest.raises(TableError, match="columns 'u', 'v' hold lists"):
        as_table(frames.DataFrame({"u": MATRIX.tolist(), "v": MATRIX.tolist()}))


def test_series_of_lists(frames):
    assert is_the_matrix(as_table(frames.Series(MATRIX.tolist())))
    with pytest.raises(TableError, match="a Series of float64 is no table; expected a DataFrame"):
        as_table(frames.Series([1.0, 2.0]))


def test_values_missing_from_a_frame_are_named(frames):
    with pytest.raises(TableError, match=r"row 1 \('b'\) has a value that is not a finite"):
        as_table(frames.DataFrame({"word": ["a", "b"], "x": [1.0, None]}))
    with pytest.raises(TableError, match=r"column 'word' has .* in row 0, expected a string"):
        as_table(frames.DataFrame({"word": [None, "b"], "x": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": ["a"]}, "it has no column of numbers"),
        ({"word": ["a"], "tag": ["b"], "x": [1.0]}, "columns 'word', 'tag' hold strings; keep the one"),
        ({"word": ["a"], "seen": [True], "x": [1.0]}, "column 'seen' holds neither numbers"),
        ({"word": [], "x": np.empty(0)}, "no column of numbers|holds neither|shape"),
        ({}, "it has no column of numbers"),
    ],
)
def test_frames_that_are_no_table_are_refused(frames, columns, message):
    with pytest.raises(TableError, match=message):
        as_table(frames.DataFrame(columns))


def test_the_index_of_a_pandas_frame_names_its_rows():
    pandas = pytest.importorskip("pandas")
    assert is_the_matrix(as_table(pandas.DataFrame(MATRIX, index=WORDS)), WORDS)
    assert is_the_matrix(as_table(pandas.Series(MATRIX.tolist(), index=WORDS)), WORDS)
    masked = pandas.DataFrame({"x": pandas.array([0, 2, 4], dtype="Int64"), "y": [1.0, 3.0, 5.0]})
    assert is_the_matrix(as_table(masked))
    assert is_the_matrix(as_table(masked.assign(word=pandas.Categorical(WORDS))), WORDS)
    with pytest.raises(TableError, match=r"the index has .*7.* in row 0.*reset_index\(drop=True\)"):
        as_table(pandas.DataFrame(MATRIX, index=[7, 8, 9]))
    with pytest.raises(TableError, match="column 'w' holds strings, and its index too"):
        as_table(pandas.DataFrame({"w": ["a"], "x": [1.0]}, index=["a"]))
    missing = pandas.DataFrame({"x": pandas.array([0, None], dtype="Int64"), "y": [1.0, 3.0]})
    with pytest.raises(TableError, match=r"row 1 .*not a finite"):
        as_table(missing)


def test_other_columns_of_polars():
    polars = pytest.importorskip("polars")
    fixed = polars.DataFrame(
        {"word": WORDS, "v": polars.Series(MATRIX.tolist(), dtype=polars.Array(polars.Float32, 2))}
    )
    assert is_the_matrix(as_table(fixed), WORDS)
    assert is_the_matrix(as_table(fixed["v"]))
    with pytest.raises(TableError, match=r"polars's LazyFrame; call \.collect\(\)"):
        as_table(fixed.lazy())


# gensim


def test_gensim_vectors_and_models():
    models = pytest.importorskip("gensim.models")
    keyed = models.KeyedVectors(2)
    keyed.add_vectors(WORDS, MATRIX)
    table = as_table(keyed)
    assert is_the_matrix(table, WORDS)
    assert table.matrix is keyed.vectors
    sentences = [["king", "queen"], ["queen", "king"]]
    for model in (models.Word2Vec, models.FastText):
        learned = model(sentences, vector_size=4, min_count=1, epochs=1, workers=1)
        found = as_table(learned)
        assert sorted(found.symbols) == ["king", "queen"]
        np.testing.assert_array_equal(found["king"], learned.wv["king"])


# Files


def test_paths_of_files(tmp_path):
    table = VectorTable(WORDS, MATRIX)
    kdcode.write(table, tmp_path / "a.txt")
    assert is_the_matrix(as_table(tmp_path / "a.txt"), WORDS)
    assert is_the_matrix(as_rows(str(tmp_path / "a.txt")), WORDS)
    coded = coded_table(symbols=list("abcde"))
    kdcode.save(coded, tmp_path / "a.kdc")
    np.testing.assert_array_equal(as_table(str(tmp_path / "a.kdc")).matrix, coded.to_table().matrix)
    assert isinstance(as_rows(tmp_path / "a.kdc"), kdcode.CodedTable)
    with pytest.raises((FormatError, FileNotFoundError), match="no such file"):
        as_table(tmp_path / "none.txt")


# What is no table


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "cannot make a table of NoneType; expected a VectorTable"),
        (7, "cannot make a table of int"),
        (b"glove.txt", "cannot make a table of bytes"),
        ({"king", "queen"}, "cannot make a table of set"),
        ([], "found no rows: the source is empty"),
        ({}, "found no vectors: the source is empty"),
        ([1.0, 2.0], "row 0 is float 1.0; expected a vector"),
        (["king", "queen"], "row 0 is str 'king'"),
        ([("king", [1.0, 2.0])], "row 0"),
        ([[1.0, 2.0], [3.0]], "row 1 has 1 numbers, row 0 has 2"),
        ([[[1.0], [2.0, 3.0]]], "row 0 holds lists"),
        ([["a", "b"]], "row 0 is <U1 of shape"),
        ([[1j]], "row 0 is complex128"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "the vector of 'b' has 2 numbers, the vector of 'a' has 1"),
        ({"a": 1.0}, "the vector of 'a' is float 1.0"),
        ({"a": None}, "the vector of 'a' is NoneType None"),
        ({1: [1.0]}, "symbol 0 is int 1; symbols must be strings"),
        ({"a": [1.0, np.nan]}, "row 0 .'a'. has a value that is not a finite"),
        ({"a": [1e39]}, "row 0 .'a'. has a value that is not a finite"),
        (np.zeros(3), r"\(rows, dimension\), got shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), r"got shape \(0, 2\)"),
        (np.zeros((2, 2), dtype=complex), r"got dtype complex128.*astype"),
        (np.zeros((2, 2), dtype=object), r"got dtype object.*astype"),
        (np.zeros((2, 2), dtype=bool), r"got dtype bool.*astype"),
        (np.array([["a", "b"]]), r"got dtype <U1"),
    ],
)
def test_what_is_no_table_is_refused_with_what_was_given(source, message):
    with pytest.raises(TableError, match=message):
        as_table(source)


def test_a_table_of_pyarrow_is_a_frame():
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    assert is_the_matrix(as_table(pyarrow.table({"w": WORDS, "x": MATRIX[:, 0], "y": MATRIX[:, 1]})), WORDS)


def test_a_sparse_matrix_says_how_it_becomes_an_array():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TableError, match=r"scipy's csr_matrix; give its \.toarray\(\)"):
        as_table(sparse.csr_matrix(MATRIX))


def test_nothing_is_imported_for_it():
    script = (
        "import sys, numpy, kdcode; kdcode.as_table(numpy.ones((2, 2))); kdcode.as_table({'a': [1.0]}); "
        "print([name for name in ('torch', 'pandas', 'polars', 'gensim', 'pyarrow') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda torch: torch.ones(3, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        lambda torch: torch.conj(torch.ones(3, 2, dtype=torch.complex64)),
        lambda torch: torch.ones(3, 2, dtype=torch.complex64),
        lambda torch: torch.ones(3, 2, device="meta"),
    ],
    ids=["nested", "float4", "conjugate", "complex", "meta"],
)
def test_tensors_whose_numbers_cannot_be_had_are_refused(make):
    torch = pytest.importorskip("torch")
    with pytest.raises(TableError):
        as_table(make(torch))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch._neg_view(-torch.eye(3)),
        lambda torch: torch.eye(3).to_sparse(),
        lambda torch: torch.eye(3).to_sparse_csr(),
        lambda torch: torch.quantize_per_tensor(torch.eye(3), 0.5, 0, torch.qint8),
        lambda torch: torch.eye(3).to(torch.float8_e5m2),
    ],
    ids=["negative", "sparse", "sparse rows", "quantized", "float8"],
)
def test_tensors_of_other_kinds_give_their_numbers(make):
    torch = pytest.importorskip("torch")
    assert as_table(make(torch)).matrix.tolist() == np.eye(3).tolist()
