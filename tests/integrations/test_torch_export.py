"""Whole torch models with a coded table in them, exported by torch itself."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from sample_tables import CODEWORD_NAMES, TRANSFORM_NAMES, coded_table
from torch import nn

from kdcode.nn import CodedEmbedding, CodedEmbeddingBag
from kdcode.nn.coded_layer import CODE_FORMS

ROWS = 40
SHAPES = [(4, 7), (2, 3), (9, 30)]


class Classifier(nn.Module):
    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding, self.output = embedding, nn.Linear(embedding.embedding_dim, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = self.embedding(ids)
        return self.output(found if found.dim() == 2 else found.mean(dim=1))


def ids_of(shape: tuple[int, int]) -> torch.Tensor:
    return torch.randint(ROWS, shape, generator=torch.Generator().manual_seed(0))


def dynamic() -> tuple[dict[int, object]]:
    return ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)


def a_model(kind: str, form: str, layer: type = CodedEmbedding) -> Classifier:
    torch.manual_seed(0)
    coded = coded_table(kind, "float16", rows=ROWS, length=5, size=50, dim=8)
    return Classifier(layer(coded, form=form)).eval()


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((kind, "packed") for kind in CODEWORD_NAMES if "lstm" not in kind),
        *((kind, "unpacked") for kind in ("grouped", *TRANSFORM_NAMES)),
    ],
)
def test_exported_programs_take_batches_of_any_size(kind, form):
    model = a_model(kind, form)
    program = torch.export.export(model, (ids_of(SHAPES[0]),), dynamic_shapes=dynamic()).module()
    for shape in SHAPES:
        assert torch.allclose(program(ids_of(shape)), model(ids_of(shape)), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "form", "layer"),
    [
        *((kind, "packed", CodedEmbedding) for kind in CODEWORD_NAMES),
        *((kind, "unpacked", CodedEmbedding) for kind in TRANSFORM_NAMES),
        *(("grouped", form, layer) for form in CODE_FORMS for layer in (CodedEmbedding, CodedEmbeddingBag)),
    ],
)
def test_torch_writes_onnx_models_with_coded_tables_in_them(tmp_path, kind, form, layer):
    pytest.importorskip("onnxscript")
    model, file = a_model(kind, form, layer), tmp_path / "t.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        torch.onnx.export(model, (ids_of(SHAPES[0]),), file, dynamo=True, dynamic_shapes=dynamic(), verbose=False)
    assert {one.domain for one in onnx.load(file).opset_import} == {""}
    session = onnxruntime.InferenceSession(file)
    for shape in SHAPES:
        [found] = session.run(None, {session.get_inputs()[0].name: ids_of(shape).numpy()})
        assert np.allclose(found, model(ids_of(shape)).detach().numpy(), atol=1e-5)
