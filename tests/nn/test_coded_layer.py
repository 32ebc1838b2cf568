"""Layers over a coded table: the bytes they take, how they are built again, copied, moved and converted."""

from __future__ import annotations

import copy
import io
import json
import pickle

import numpy as np
import pytest
import safetensors.torch
import torch
from sample_tables import CODEWORD_NAMES, KINDS, TRANSFORM_NAMES, coded_table
from torch import nn

import kdcode
from kdcode.errors import KdcodeError, OptionError, StorageError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag

ROWS, DIM = 20, 7
RAGGED = [kind for kind in TRANSFORM_NAMES if "plain" not in kind]
"""Kinds whose rows are of several lengths."""
LAYERS = (CodedEmbedding, CodedEmbeddingBag)
FORMS = [
    {"form": "packed"},
    {"form": "unpacked"},
    {"form": "packed", "trainable": True},
    {"form": "unpacked", "trainable": True},
]
GRID = torch.tensor([[3, 3, 0], [19, 7, 3]])


def stored(layer):
    """A state dict through `torch.save` and `torch.load`."""
    stream = io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_packed_layer_takes_the_bytes_of_the_file(layer_class, kind, dtype):
    for size in (4, 37, 300):
        coded = coded_table(kind, dtype, rows=ROWS, size=size)
        layer = layer_class(coded)
        assert layer.nbytes == coded.sizes.embedding
        tensors = layer.state_dict()
        assert sum(value.nbytes for value in tensors.values()) == coded.sizes.embedding
        expected = {f"codec.{name}": str(value.dtype) for name, value in coded.codec.tensors().items()}
        found = {name: str(value.dtype).removeprefix("torch.") for name, value in tensors.items()}
        ragged = {"row_classes": "uint8", "row_starts": "int64"} if kind in RAGGED else {}
        ragged |= {"row_breaks": "int64"} if "blocks" in kind else {}
        expected = {
            name: own.replace("uint16", "int16") for name, own in expected.items()
        }  # torch lacks much of uint16
        assert found == {"code_rows": "uint8", **ragged, **expected}
        assert not list(layer.parameters())


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("count", [1, 7, 8, 20])
def test_few_and_many_rows_are_decoded_alike(kind, dtype, count):
    coded = coded_table(kind, dtype, rows=ROWS, size=16)  # codewords are taken one by one below 8 rows
    ids = torch.arange(count)
    found = CodedEmbedding(coded)(ids).numpy()
    np.testing.assert_allclose(found, coded.decode(range(count)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_layer_is_built_from_its_configuration_and_a_state_dict(layer_class, kind, dtype):
    coded = coded_table(kind, dtype, rows=ROWS)
    for form in FORMS if kind in CODEWORD_NAMES else FORMS[:2]:
        layer = layer_class(coded, 3, **form, dtype=torch.bfloat16)
        config = json.loads(json.dumps(layer.config))
        other = layer_class.from_config(config)
        ragged = kind in RAGGED
        if "lstm" not in kind and (not ragged or form["form"] == "unpacked"):  # there zeros are no rows
            assert torch.equal(other(GRID), torch.zeros_like(layer(GRID)))
        other.load_state_dict(stored(layer))
        assert torch.equal(other(GRID), layer(GRID))
        assert other.config == layer.config
        assert other.nbytes == layer.nbytes
        assert [value.requires_grad for value in other.parameters()] == [
            value.requires_grad for value in layer.parameters()
        ]


def test_configurations_of_bags_keep_how_they_pool():
    bag = CodedEmbeddingBag(coded_table(rows=ROWS), mode="max", include_last_offset=True)
    other = CodedEmbeddingBag.from_config(bag.config)
    assert (other.mode, other.include_last_offset) == ("max", True)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(
    ("kind", "form"), [*(("scaled-rotated", form) for form in FORMS), *(("transform", form) for form in FORMS[:2])]
)
def test_a_layer_without_memory_is_filled_by_assignment(layer_class, kind, form):
    layer = layer_class(coded_table(kind, "int8", rows=ROWS), 3, **form)
    other = layer_class.from_config(layer.config, device="meta")
    assert {value.device.type for value in other.state_dict().values()} == {"meta"}
    assert other(GRID.to("meta")).shape == layer(GRID).shape
    other.load_state_dict(stored(layer), assign=True)
    assert torch.equal(other.to("cpu")(GRID), layer(GRID))
    assert other.device.type == "cpu"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"rows": 21}, "code_rows"),
        ({"size": 64}, "code_rows"),
        ({"dim": 8}, "codec.codebook"),
        ({"length": 5}, "codec"),
    ],
)
def test_a_state_dict_of_another_shape_is_refused(change, key):
    layer = CodedEmbedding(coded_table("linear", "int8", **{"rows": ROWS, **change}))
    with pytest.raises(RuntimeError, match=rf"size mismatch for {key}"):
        CodedEmbedding(coded_table("linear", "int8", rows=ROWS)).load_state_dict(layer.state_dict())


def test_a_state_dict_of_another_kind_is_refused():
    layer = CodedEmbedding(coded_table("rotated-product", "int8", rows=ROWS))
    with pytest.raises(RuntimeError, match=r"codec\.basis"):
        CodedEmbedding(coded_table("product", "int8", rows=ROWS)).load_state_dict(layer.state_dict())


@pytest.mark.parametrize(
    "change", [{"codec": None}, {"codec": {"kind": "lstm"}}, {"dtype": "float7"}, {"what": 1}, {"num_embeddings": "a"}]
)
def test_configurations_that_are_none_are_refused(change):
    config = CodedEmbedding(coded_table()).config
    with pytest.raises(OptionError, match=r"config: expected the dict of layer\.config"):
        CodedEmbedding.from_config({**config, **change})
    with pytest.raises(OptionError, match="config"):
        CodedEmbedding.from_config({})


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [*(("scaled-lstm", dtype) for dtype in ("float32", "float16", "int8")), *((kind, "") for kind in TRANSFORM_NAMES)],
)
def test_safetensors_pickle_and_copies_keep_the_layer(layer_class, kind, dtype, tmp_path):
    for form in FORMS if kind in CODEWORD_NAMES else FORMS[:2]:
        layer = layer_class(coded_table(kind, dtype, rows=ROWS), 3, **form).bfloat16()
        model = nn.ModuleDict({"embedding": layer})
        safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
        other = nn.ModuleDict({"embedding": layer_class.from_config(layer.config)})
        safetensors.torch.load_model(other, str(tmp_path / "model.safetensors"))
        for twin in (other["embedding"], pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):  # noqa: S301
            assert torch.equal(twin(GRID), layer(GRID))
            assert twin(GRID).dtype == torch.bfloat16
            assert twin.config == layer.config


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(("kind", "codebook_dtype"), KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float32])
def test_conversions_change_the_vectors_and_no_stored_tensor(layer_class, kind, codebook_dtype, dtype):
    coded = coded_table(kind, codebook_dtype, rows=ROWS)
    reference = layer_class(coded)
    expected = reference.vectors_of(torch.arange(ROWS)).to(dtype)
    for layer in (layer_class(coded, dtype=dtype), layer_class(coded).to(dtype), layer_class(coded).half().to(dtype)):
        assert layer(GRID).dtype == dtype
        assert torch.equal(layer.vectors_of(torch.arange(ROWS)), expected)
        for name, value in layer.state_dict().items():
            assert value.dtype == reference.state_dict()[name].dtype
            assert torch.equal(value, reference.state_dict()[name]), name
        assert layer.config["dtype"] == str(dtype).removeprefix("torch.")
        assert layer.nbytes == coded.sizes.embedding


def test_vectors_have_the_default_type_of_torch():
    try:
        torch.set_default_dtype(torch.float64)
        for form in FORMS:
            assert CodedEmbedding(coded_table("lstm", "int8"), **form)(torch.tensor([1])).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(
    ("kind", "form"), [*(("scaled-lstm", form) for form in FORMS), *(("transform", form) for form in FORMS[:2])]
)
def test_device_is_where_everything_lives(layer_class, kind, form):
    coded = coded_table(kind, "int8", rows=ROWS)
    for layer in (layer_class(coded, **form, device="meta"), layer_class(coded, **form).to("meta")):
        assert {value.device.type for value in layer.state_dict().values()} == {"meta"}
        assert layer(GRID.to("meta")).device.type == "meta"
    emptied = layer_class.from_config(layer.config, device="meta").to_empty(device="cpu")
    emptied.load_state_dict(layer_class(coded, **form).state_dict())
    assert torch.equal(emptied(GRID), layer_class(coded, **form)(GRID))


@pytest.mark.parametrize(
    ("layer_class", "kind", "dtype"),
    [
        (CodedEmbedding, "linear", "int8"),
        (CodedEmbedding, "scaled-rotated", "float32"),
        (CodedEmbedding, "scaled-lstm", "float16"),
        (CodedEmbeddingBag, "uneven", "int8"),
    ],
)
def test_compiled_layers_give_the_same(layer_class, kind, dtype):
    torch.compiler.reset()  # torch compiles the same function for a few layers only
    layer = layer_class(coded_table(kind, dtype, rows=ROWS, size=8), padding_idx=3)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for grid in (GRID[:, :1], GRID):  # fewer rows than half the codewords, and more
        torch.testing.assert_close(compiled(grid), layer(grid), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("layer_class", "kind"),
    [*((CodedEmbedding, kind) for kind in TRANSFORM_NAMES), (CodedEmbeddingBag, "transform")],
)
def test_compiled_layers_over_transform_codes_give_the_same(layer_class, kind):
    """Unpacked codes are decoded by the graph; packed ones by an operator in it."""
    for form in ("packed", "unpacked"):
        torch.compiler.reset()
        layer = layer_class(coded_table(kind, rows=ROWS), padding_idx=3, form=form)
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(GRID), layer(GRID), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("form", ["packed", "unpacked"])
@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_transform_codes_are_exported_and_traced(kind, form):
    layer = CodedEmbedding(coded_table(kind, rows=ROWS), form=form)
    others = GRID + 1 - GRID // 19
    for recorded in (torch.export.export(layer, (GRID,)).module(), torch.jit.trace(layer, GRID)):
        torch.testing.assert_close(recorded(others), layer(others), rtol=1e-5, atol=1e-5)


def test_an_exported_program_with_packed_codes_is_saved_and_loaded(tmp_path):
    layer = CodedEmbedding(coded_table("transform", rows=ROWS))
    torch.export.save(torch.export.export(layer, (GRID,)), tmp_path / "t.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "t.pt2").module()(GRID), layer(GRID))


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_the_operators_are_what_torch_expects(kind):
    layer = CodedEmbedding(coded_table(kind, rows=ROWS))
    for operator in (torch.ops.kdcode.packed_codes, torch.ops.kdcode.packed_vectors):
        torch.library.opcheck(operator, (GRID.flatten(), *layer._packed()))


def test_a_compiled_layer_has_the_tensors_that_are_there_now():
    torch.compiler.reset()
    layer = CodedEmbedding(coded_table("transform", rows=ROWS))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    before = compiled(GRID)
    layer.codec.mean.add_(1)
    torch.testing.assert_close(compiled(GRID), before + 1)
    with pytest.raises(IndexError):
        compiled(GRID + ROWS)


def test_damaged_transform_codes_are_refused_where_they_are_read():
    layer = CodedEmbedding(coded_table("transform", rows=ROWS))
    layer(GRID)
    layer.row_starts[0] = 10**6
    with pytest.raises(StorageError, match="row"):
        layer(GRID)
    layer = CodedEmbedding(coded_table("transform", rows=ROWS))
    layer.codec.steps[0] = -1
    with pytest.raises(OptionError, match="steps: expected numbers above 0"):
        layer(GRID)


@pytest.mark.parametrize("layer_class", LAYERS)
def test_a_path_is_loaded(layer_class, tmp_path):
    coded = coded_table("grouped", "int8", rows=ROWS)
    kdcode.save(coded, tmp_path / "t.kdc")
    for path in (tmp_path / "t.kdc", str(tmp_path / "t.kdc")):
        assert torch.equal(layer_class(path)(GRID), layer_class(coded)(GRID))
    with pytest.raises(KdcodeError, match=r"missing\.kdc"):
        layer_class(tmp_path / "missing.kdc")


def test_what_is_no_coded_table_is_refused():
    for source in (np.zeros((3, 2)), nn.Embedding(3, 2), None):
        with pytest.raises(OptionError, match=rf"path of a .kdc file, got {type(source).__name__}; compress"):
            CodedEmbedding(source)


def test_a_type_of_vectors_that_is_no_float_is_refused():
    with pytest.raises(OptionError, match="dtype must be a float type"):
        CodedEmbedding(coded_table(), dtype=torch.int8)


def test_a_layer_does_not_share_memory_with_its_table():
    coded = coded_table("linear", "int8", rows=ROWS)
    layer = CodedEmbedding(coded)
    before = layer(GRID)
    coded.packed[:] = 0
    coded.codec.stored["codebook"][:] = 0
    assert torch.equal(layer(GRID), before)
