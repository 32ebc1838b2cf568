"""Layers of a model whose codewords were trained, made into layers for serving."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from kdcode.codec_torch import CodecModule
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.coded_layer import CodedLayer
from kdcode.nn.kd_embedding import KDEmbedding
from kdcode.nn.table_reader import TableReader


def freeze_layers(model: nn.Module) -> None:
    """Replace every layer with trained codes or codewords by one that takes the bytes of the file, in place.

    Ties stay: an output layer then reads the new layer.

    Raises:
        OptionError: there is no such layer.
    """
    frozen = {id(layer): _frozen(layer) for layer in _trained(model)}
    if not frozen:
        raise OptionError("model: there is no KDEmbedding and no layer with trainable codewords in it to freeze")
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if id(layer) in frozen:
            parent, _, child = name.rpartition(".")
            model.get_submodule(parent)._modules[child] = frozen[id(layer)]
    for layer in model.modules():
        if isinstance(layer, TableReader) and id(layer.table) in frozen:
            vars(layer)["table"] = frozen[id(layer.table)]


def _trained(model: nn.Module) -> Iterator[CodedLayer | KDEmbedding]:
    for name, layer in model.named_modules():
        if isinstance(layer, KDEmbedding) or (isinstance(layer, CodedLayer) and layer.trainable):
            if not name:
                raise OptionError(f"model: expected a module with layers in it, got {type(layer).__name__} itself")
            yield layer


def _frozen(layer: CodedLayer | KDEmbedding) -> CodedLayer:
    """The same layer with packed codes, and codewords rounded to the type that the table had."""
    if isinstance(layer, KDEmbedding):
        return layer.freeze()
    if not isinstance(layer.codec, CodecModule):
        raise TypeError(f"expected a layer whose codewords are trained, got {type(layer.codec).__name__}")
    coded = CodedTable.from_codes(None, layer.codes.cpu().numpy(), layer.codec.to_codec())
    config = {**layer.config, "form": "packed", "trainable": False}
    arguments = {name: value for name, value in config.items() if name not in ("codec", "num_embeddings", "dtype")}
    return type(layer)(coded, **arguments, device=layer.device, dtype=layer.codec.dtype).train(layer.training)
