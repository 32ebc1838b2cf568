"""Exported models, run by onnxruntime and compared with the table that they were made from."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, compose, helper, numpy_helper
from sample_tables import CODEWORD_KINDS, CODEWORD_NAMES, TRANSFORM_NAMES, codec_of, coded_table, codes_of, words

import kdcode
from kdcode.coded import CodedTable
from kdcode.errors import FileError, FormatError, LimitError, OptionError
from kdcode.integrations.onnx_export import OPSET, export_onnx, onnx_model
from kdcode.stored_array import StoredArray
from kdcode.symbols import RowNumbers

of_kinds = pytest.mark.parametrize(("kind", "dtype"), CODEWORD_KINDS, ids=str)


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # errors that a test expects are not for its output
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def vectors(model: onnx.ModelProto, ids) -> np.ndarray:
    [found] = session(model).run(None, {"ids": np.asarray(ids, dtype=np.int64)})
    return found


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(initial=0))


@of_kinds
def test_the_whole_range_of_ids(kind, dtype):
    coded = coded_table(kind, dtype, rows=50, length=5, size=6, dim=9)
    assert_near(vectors(onnx_model(coded), np.arange(50)), coded.decode(np.arange(50)))


@of_kinds
def test_repeated_ids_in_any_order_and_none_at_all(kind, dtype):
    coded = coded_table(kind, dtype, rows=50)
    model = onnx_model(coded)
    ids = np.random.default_rng(0).integers(0, 50, size=333)
    assert_near(vectors(model, ids), coded.decode(ids))
    assert vectors(model, []).shape == (0, 7)


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0), (0, 2), (2, 1, 4)])
def test_ids_of_every_rank(kind, shape):
    coded = coded_table(kind, rows=9)
    ids = np.random.default_rng(0).integers(0, 9, size=shape)
    model = onnx_model(coded, rank=len(shape))
    assert_near(vectors(model, ids), coded.decode(ids))
    names = {1: ["rows"], 2: ["batch", "length"], 3: ["axis0", "axis1", "axis2"]}[len(shape)]
    [given], [found] = session(model).get_inputs(), session(model).get_outputs()
    assert (given.name, given.type, given.shape) == ("ids", "tensor(int64)", names)
    assert (found.name, found.type, found.shape) == ("vectors", "tensor(float)", [*names, 7])


@of_kinds
def test_standard_operators_of_the_stated_opset_alone(kind, dtype):
    model = onnx_model(coded_table(kind, dtype))
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", OPSET)]
    assert model.ir_version == helper.find_min_ir_version_for(list(model.opset_import))
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions


@of_kinds
def test_codes_and_weights_are_kept_as_they_are_stored(kind, dtype):
    coded = coded_table(kind, dtype, rows=50)
    kept = {one.name: numpy_helper.to_array(one) for one in onnx_model(coded).graph.initializer}
    assert kept["codes"].dtype == np.uint8
    assert np.array_equal(kept["codes"], coded.packed)
    for name, tensor in coded.codec.tensors().items():
        assert kept[name].dtype == tensor.dtype
        assert sorted(kept[name].ravel().tolist()) == sorted(tensor.ravel().tolist())
    rest = sum(array.nbytes for name, array in kept.items() if name != "codes" and name not in coded.codec.stored)
    assert rest < 1000


@pytest.mark.parametrize("id_", [-1, -50, 50, 1 << 40, -(1 << 63)])
def test_ids_outside_the_table_are_refused(id_):
    run = session(onnx_model(coded_table(rows=50)))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds"):
        run.run(None, {"ids": np.array([0, id_])})


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(CODEWORD_NAMES),
    length=st.integers(1, 20),
    size=st.integers(2, 300) | st.sampled_from([256, 257, 1024, 1025, 65536]),
    dim=st.integers(1, 24),
    seed=st.integers(0, 99),
)
def test_codes_of_any_width(kind, length, size, dim, seed):
    if "product" in kind:
        length = min(length, dim)
    if size > 1000:
        length, dim = min(length, 3, dim), min(dim, 5)
    coded = coded_table(kind, "float16", rows=20, length=length, size=size, dim=dim, seed=seed)
    assert_near(vectors(onnx_model(coded), np.arange(20)), coded.decode(np.arange(20)))


def huge(kind: str) -> CodedTable:
    """Codewords near the end of float32, and the codes whose vectors float32 can hold all the same."""
    codec = codec_of(kind, "float32")
    weight = codec.weights()[codec.scaled_weight]
    factor = 3e38 / float(np.abs(weight).max())
    codes = codes_of(codec, 2000)
    held = (np.abs(codec.decode(codes)).max(axis=1).astype(np.float64) < 3e38 / factor).nonzero()[0]
    coded = CodedTable.from_codes(None, codes[held[:20]], codec.scaled(factor))
    assert coded.codec.may_overflow
    assert len(coded) > 1
    return coded


@pytest.mark.parametrize("kind", [name for name in CODEWORD_NAMES if "lstm" not in name])
def test_codewords_near_the_end_of_float32(kind):
    coded = huge(kind)
    rows = np.arange(len(coded))
    assert_near(vectors(onnx_model(coded), rows), coded.decode(rows))


@pytest.mark.parametrize("kind", [name for name in CODEWORD_NAMES if "lstm" in name])
def test_an_lstm_of_huge_numbers_is_refused(kind):
    with pytest.raises(OptionError, match="float64"):
        onnx_model(huge(kind))


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_transform_codes_are_refused(kind, tmp_path):
    with pytest.raises(OptionError, match=r"ONNX has no operators that read transform codes, .*`kdcode expand` writes"):
        export_onnx(coded_table(kind), tmp_path / "t.onnx")
    assert not list(tmp_path.iterdir())


def test_the_model_says_what_it_was_made_from():
    coded = coded_table("scaled-rotated", "int8", provenance={"fingerprint": "abc"})
    model = onnx_model(coded)
    assert (model.producer_name, model.producer_version) == ("kdcode", kdcode.__version__)
    assert {one.key: one.value for one in model.metadata_props} == {
        "kdcode.num_embeddings": "5",
        "kdcode.embedding_dim": "7",
        "kdcode.codebook_size": "4",
        "kdcode.code_length": "4",
        "kdcode.composition": "grouped",
        "kdcode.codebook_dtype": "int8",
        "kdcode.fingerprint": "abc",
    }


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        (10_000, {"kind": "linear", "length": 16, "size": 64, "dim": 50}),
        (10_000, {"kind": "product", "length": 10, "size": 32, "dim": 50}),
        (30_000, {"kind": "rotated-product", "length": 96, "size": 256, "dim": 384}),
        (30_000, {"kind": "uneven", "length": 31, "size": 100, "dim": 100}),
        (20_000, {"kind": "scaled-rotated", "length": 18, "size": 128, "dim": 64}),
        (20_000, {"kind": "lstm", "length": 16, "size": 32, "dim": 100}),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else str(value),
)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_the_file_is_as_small_as_the_coded_table(tmp_path, rows, settings, dtype):
    coded = coded_table(**settings, dtype=dtype, rows=rows)
    size = export_onnx(coded, tmp_path / "t.onnx")
    assert size == (tmp_path / "t.onnx").stat().st_size
    assert size <= 1.05 * coded.sizes.embedding


def test_a_file_gives_what_onnxruntime_needs(tmp_path):
    coded = coded_table(symbols=words(30), rows=30)
    kdcode.save(coded, tmp_path / "t.kdc")
    kdcode.export_onnx(kdcode.load(tmp_path / "t.kdc"), tmp_path / "t.onnx", symbols=tmp_path / "t.txt", check=True)
    model = onnx.load(tmp_path / "t.onnx")
    row_of = {word: row for row, word in enumerate((tmp_path / "t.txt").read_text(encoding="utf-8").splitlines())}
    assert list(row_of) == words(30)
    assert_near(vectors(model, [row_of[words(30)[7]]])[0], coded[words(30)[7]])


def test_equal_tables_give_equal_files(tmp_path):
    for name in ("a.onnx", "b.onnx"):
        export_onnx(coded_table("uneven", "int8"), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_the_model_in_front_of_another(tmp_path):
    coded = coded_table("grouped", rows=9)
    weight = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    classifier = helper.make_model(
        helper.make_graph(
            [helper.make_node("ReduceMean", ["x", "axis"], ["mean"], keepdims=0),
             helper.make_node("MatMul", ["mean", "weight"], ["scores"])],
            "classifier",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 7])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
            [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.array([1]), "axis")],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )  # fmt: skip
    merged = compose.merge_models(onnx_model(coded, rank=2), classifier, io_map=[("vectors", "x")])
    ids = np.array([[0, 3, 8], [1, 1, 2]])
    assert_near(vectors(merged, ids), coded.decode(ids).mean(axis=1) @ weight)


@pytest.mark.parametrize("rank", [0, 9, 1.0, "2", True])
def test_ranks_that_cannot_be(tmp_path, rank):
    with pytest.raises(OptionError, match="rank: expected a whole number from 1 to 8"):
        export_onnx(coded_table(), tmp_path / "t.onnx", rank=rank)
    assert not list(tmp_path.iterdir())


def test_what_is_no_coded_table(tmp_path):
    with pytest.raises(OptionError, match=r"expected a CodedTable, got str.*kdcode\.load"):
        export_onnx("t.kdc", tmp_path / "t.onnx")


class Untouchable(StoredArray):
    """Packed codes of 3 GB that nobody may read."""

    shape, dtype = (3 << 27, 8), np.dtype(np.uint8)

    def __init__(self):
        pass

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        raise AssertionError("codes were read")

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("codes were read")


def test_a_table_beyond_what_a_model_can_hold_is_refused_before_it_is_read(tmp_path):
    packed = Untouchable()
    coded = CodedTable(RowNumbers(len(packed)), packed, codec_of(length=8, size=256, dim=8))
    with pytest.raises(LimitError, match=r"2 GiB.*3,22\d,\d{3},\d{3}"):
        export_onnx(coded, tmp_path / "t.onnx")
    assert not list(tmp_path.iterdir())


def test_invalid_codes_are_refused(tmp_path):
    codec = codec_of(size=3)
    coded = CodedTable(RowNumbers(2), np.full((2, 1), 255, dtype=np.uint8), codec)
    with pytest.raises(kdcode.errors.StorageError, match="values must be below K=3"):
        export_onnx(coded, tmp_path / "t.onnx")
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_written(tmp_path):
    coded = coded_table(symbols=["a", "b", "c", "d", "line\nbreak"])
    (tmp_path / "t.onnx").write_text("mine")
    with pytest.raises(FormatError, match=r"t\.txt: row 4: .*holds a line break"):
        export_onnx(coded, tmp_path / "t.onnx", symbols=tmp_path / "t.txt")
    with pytest.raises(FileError, match="there is no folder"):
        export_onnx(coded, tmp_path / "none" / "t.onnx")
    with pytest.raises(FileError, match=r"names\.txt.*there is no folder"):
        export_onnx(coded, tmp_path / "t.onnx", symbols=tmp_path / "none" / "names.txt")
    with pytest.raises(FileError, match="is a folder"):
        export_onnx(coded, tmp_path)
    with pytest.raises(OptionError, match="symbols: this table has none"):
        export_onnx(coded_table(), tmp_path / "t.onnx", symbols=tmp_path / "t.txt")
    with pytest.raises(OptionError, match=r"symbols: .*is the model itself"):
        export_onnx(coded, tmp_path / "t.onnx", symbols=tmp_path / "t.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["t.onnx"]
    assert (tmp_path / "t.onnx").read_text() == "mine"


def test_a_check_finds_other_vectors(tmp_path, monkeypatch):
    coded = coded_table(rows=30)
    wrong = coded_table(rows=30, seed=1)
    monkeypatch.setattr("kdcode.integrations.onnx_export.onnx_model", lambda *_, **__: onnx_model(wrong))
    with pytest.raises(FormatError, match=r"^row 0: onnxruntime computes another vector"):
        export_onnx(coded, tmp_path / "t.onnx", check=True)
    assert not list(tmp_path.iterdir())
