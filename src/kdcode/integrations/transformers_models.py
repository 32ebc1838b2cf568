"""Transformers models with coded embeddings: saved by `save_pretrained`, loaded by `from_pretrained`.

Importing this module lets every `from_pretrained` of Transformers load such models:

    import kdcode.integrations.transformers_models
    model = AutoModelForCausalLM.from_pretrained(folder)

The model is built without memory for its weights, as always; coded layers take the places of embeddings before any
weight is loaded, so the full tables are never allocated. What is where is in the `quantization_config` of config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kdcode.codec_torch import StoredCodec
from kdcode.errors import MissingExtraError, OptionError, StorageError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag, CodedEmbeddingView, CodedOutput
from kdcode.nn.coded_layer import CodedLayer
from kdcode.nn.table_reader import TableReader

try:
    from transformers import PreTrainedModel
    from transformers.quantizers.auto import register_quantization_config, register_quantizer
    from transformers.quantizers.base import HfQuantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin
except ImportError as error:
    raise MissingExtraError("Transformers models", "transformers") from error

METHOD = "kdcode"
"""What config.json calls these models."""

KINDS = {kind.__name__: kind for kind in (CodedEmbedding, CodedEmbeddingBag, CodedEmbeddingView, CodedOutput)}
"""The layers that may take the places of others."""


@register_quantization_config(METHOD)
class CodedConfig(QuantizationConfigMixin):
    """What config.json says of the coded layers of a model.

    Args:
        layers: by name: the class, the configuration, and for a tied layer the name of the one it is tied to.
        full_heads: output layers that share the matrix of an embedding in the original model, and keep it here.
        quant_method: "kdcode".
    """

    def __init__(
        self,
        layers: Mapping[str, Mapping[str, Any]] | None = None,
        full_heads: list[str] | None = None,
        quant_method: str = METHOD,
    ) -> None:
        self.layers = dict(layers or {})
        self.full_heads = list(full_heads or [])
        self.quant_method = quant_method  # type: ignore[assignment]  # Transformers lists its own methods only


@register_quantizer(METHOD)
class CodedQuantizer(HfQuantizer):
    """Puts coded layers into a model that `from_pretrained` has built and not filled yet."""

    quantization_config: CodedConfig

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **_more: Any) -> None:  # noqa: ANN401
        """Replace the layers that the configuration names."""
        config = self.quantization_config
        owners = {name: entry for name, entry in config.layers.items() if entry.get("tied_to") is None}
        tables: dict[str, CodedLayer] = {}
        for name, entry in owners.items():
            place = _place(model, name)
            if place is None:
                if entry["class"] != CodedOutput.__name__:  # a model without its output layer is asked for
                    raise OptionError(f"{name}: the folder has codes for this layer, and the model has no such layer")
                continue
            layer = _layer(model, place, entry)
            tables[name] = table = layer if isinstance(layer, CodedLayer) else layer.table
            table.is_being_loaded = True  # some models draw random numbers for `weight` first
        for name, entry in config.layers.items():
            place = _place(model, name)
            if name not in owners and place is not None:
                _layer(model, place, entry, tables[entry["tied_to"]])
        self._tie_others(model, {_place(model, name): table for name, table in tables.items()})
        _forget_matrices(model)
        guards = {rf"{re.escape(name)}\.weight$" for name in owners}
        model._keys_to_ignore_on_load_unexpected = guards.union(model._keys_to_ignore_on_load_unexpected or ())

    def _tie_others(self, model: PreTrainedModel, tables: Mapping[str | None, CodedLayer]) -> None:
        """Tie output layers that the saved model did not have, and whose matrix is that of a coded layer."""
        full = {_place(model, name) for name in self.quantization_config.full_heads}
        for target, source in model.all_tied_weights_keys.items():
            place, owner = target.removesuffix(".weight"), source.removesuffix(".weight")
            head = _submodule(model, place)
            if isinstance(head, nn.Linear) and owner in tables and place not in full:
                _put(model, place, CodedOutput(tables[owner], head.bias))

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **_more: Any) -> None:  # noqa: ANN401
        for name, layer in model.named_modules():
            if isinstance(layer, CodedLayer):
                layer.is_being_loaded = False
                _check_loaded(name, layer)
        _refuse_resizing(model)
        vars(model)["is_quantized"] = False  # half(), float() and training work as for any other model

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The tensors to save, with an empty one in the place of each matrix that codes replace.

        Without `import kdcode` Transformers only warns of a method that it does not know, and draws random numbers for
        embeddings that it does not find. A tensor of another size is an error.
        """
        state: dict[str, Tensor] = model.state_dict()
        for name, entry in self.quantization_config.layers.items():
            if entry.get("tied_to") is None:
                state[f"{name}.weight"] = torch.zeros(0)
        return state, {}

    def is_serializable(self) -> bool:
        """Always."""
        return True

    @property
    def is_trainable(self) -> bool:
        """Always: everything but codes, and codewords unless they were made trainable."""
        return True

    @property
    def is_qat_trainable(self) -> bool:
        """Always, as `is_trainable`."""
        return True

    @property
    def is_compileable(self) -> bool:
        """Always."""
        return True


def check(model: nn.Module) -> None:
    """Refuse models that could not be saved afterwards: those that another method has quantized.

    Raises:
        OptionError: which method it was.
    """
    for part in _pretrained(model):
        other = getattr(part, "hf_quantizer", None)
        if not (other is None or isinstance(other, CodedQuantizer) or _is_unpacked(part, other)):
            raise OptionError(
                f"model: its weights are quantized by {_method(other)}, and config.json has room for one method; load "
                "it without quantization"
            )


def _is_unpacked(model: PreTrainedModel, quantizer: HfQuantizer) -> bool:
    """Whether a GGUF file has left nothing but floats in a model."""
    return _method(quantizer) == "gguf" and all(value.is_floating_point() for value in model.parameters())


def _method(quantizer: HfQuantizer) -> str:
    method: Any = getattr(quantizer.quantization_config, "quant_method", type(quantizer).__name__)
    return str(getattr(method, "value", method))


def remember_codes(model: nn.Module) -> None:
    """Let every Transformers model in `model` that has coded layers be saved with them."""
    for part in _pretrained(model):
        _untie_modules(part)
        layers = _entries(part)
        if layers:
            full_heads = [
                target.removesuffix(".weight")
                for target, source in part.all_tied_weights_keys.items()
                if source.removesuffix(".weight") in layers
                and isinstance(_submodule(part, target.removesuffix(".weight")), nn.Linear)
            ]
            other = getattr(part, "hf_quantizer", None)
            if other is not None and not isinstance(other, CodedQuantizer):
                other.remove_quantization_config(part)
            part.config.quantization_config = config = CodedConfig(layers, full_heads)
            vars(part).update(hf_quantizer=CodedQuantizer(config), quantization_method=METHOD)
            _forget_matrices(part)
            _refuse_resizing(part)


class FixedVocabulary:
    """What `resize_token_embeddings` of a model with coded embeddings is.

    Args:
        model: the model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def __call__(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, **_more: object
    ) -> nn.Module:
        """The embedding, where it has as many rows as are asked for.

        Raises:
            OptionError: it has not.
        """
        embedding: Any = self.model.get_input_embeddings()
        rows = wanted = int(embedding.num_embeddings)
        if new_num_tokens is not None:
            wanted = new_num_tokens
        if pad_to_multiple_of is not None:
            wanted = -(-wanted // pad_to_multiple_of) * pad_to_multiple_of
        if wanted != rows:
            raise OptionError(
                f"resize_token_embeddings: the embeddings of this model are codes of {rows} rows, to which none can be "
                f"added to have {wanted}; resize the original model, then compress it again"
            )
        return embedding  # type: ignore[no-any-return]


def _check_loaded(name: str, layer: CodedLayer) -> None:
    """Refuse a layer of which tensors are missing in the files, or which has codes that no codeword belongs to.

    Raises:
        StorageError: what is missing, or wrong.
    """
    for part, tensor in [*layer.named_parameters(), *layer.named_buffers()]:
        if not getattr(tensor, "_is_hf_initialized", False):
            raise StorageError(f"{name}.{part}: the folder does not have this tensor of a coded layer")
    size, length = layer.codec.spec.codebook_size, layer.codec.spec.code_length
    try:
        if isinstance(layer.codec, StoredCodec):
            layer.codec.settle()
        if any(int(layer.codes_of(ids)[:, :length].max()) >= size for ids in layer.all_ids()):
            raise StorageError(f"codes must be below {size}; the file is damaged")
    except (OptionError, StorageError) as error:
        raise StorageError(f"{name}: {error}") from error


def _pretrained(model: nn.Module) -> Iterator[PreTrainedModel]:
    """The Transformers models in a module that are not inside another one."""
    if isinstance(model, PreTrainedModel):
        yield model
        return
    for child in model.children():
        yield from _pretrained(child)


def _entries(model: nn.Module) -> dict[str, dict[str, Any]]:
    """What `CodedConfig.layers` has for the coded layers of a model."""
    readers = {name: layer for name, layer in model.named_modules() if isinstance(layer, TableReader)}
    owned = {id(layer.table): name for name, layer in readers.items() if not layer.is_tied}
    tables = {
        name: layer for name, layer in model.named_modules() if isinstance(layer, CodedLayer) and id(layer) not in owned
    }
    owners = owned | {id(layer): name for name, layer in tables.items()}
    entries: dict[str, dict[str, Any]] = {}
    for name, layer in {**tables, **readers}.items():
        entries[name] = {"class": type(layer).__name__, "config": layer.config}
        if isinstance(layer, TableReader) and layer.is_tied:
            entries[name]["tied_to"] = owners[id(layer.table)]
    return entries


def _layer(
    model: PreTrainedModel, place: str, entry: Mapping[str, Any], table: CodedLayer | None = None
) -> CodedLayer | TableReader:
    """Build a layer without memory for its weights, and put it where it belongs."""
    kind: Any = KINDS[entry["class"]]
    config = dict(entry["config"])
    old = model.get_submodule(place)
    dtype = str(old.weight.dtype).removeprefix("torch.")
    if "dtype" in config:
        config["dtype"] = dtype
    elif config.get("table") is not None:
        config["table"] = {**config["table"], "dtype": dtype}
    tie = {"table": table} if issubclass(kind, TableReader) else {}
    layer: CodedLayer | TableReader = kind.from_config(config, **tie, device="meta")
    _put(model, place, layer)
    return layer


def _put(model: nn.Module, place: str, layer: nn.Module) -> None:
    parent, _, child = place.rpartition(".")
    model.get_submodule(parent)._modules[child] = layer


def _place(model: PreTrainedModel, name: str) -> str | None:
    """Where a layer of the saved model is in this one, which may have an output layer more or less."""
    prefix = f"{model.base_model_prefix}."
    names = (name, name.removeprefix(prefix), prefix + name)
    return next((one for one in names if _submodule(model, one) is not None), None)


def _submodule(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _untie_modules(model: nn.Module) -> None:
    """Give the second place of one coded layer a view of the first: files have every tensor under one name."""
    first: dict[int, str] = {}
    places = list(model.named_modules(remove_duplicate=False))
    tables = {id(layer.table) for _, layer in places if isinstance(layer, TableReader) and not layer.is_tied}
    for name, layer in places:
        if id(layer) in tables or first.setdefault(id(layer), name) == name:
            continue
        if isinstance(layer, CodedEmbedding):
            _put(model, name, CodedEmbeddingView(layer))
        elif isinstance(layer, CodedEmbeddingView):
            _put(model, name, CodedEmbeddingView(layer.table, layer.scale))


def _forget_matrices(model: PreTrainedModel) -> None:
    """Take ties out of the lists of a model whose matrices it has no more."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            kept = {
                target: source for target, source in part.all_tied_weights_keys.items() if _has(part, target, source)
            }
            part.all_tied_weights_keys = kept
            part._tied_weights_keys = dict(kept)


def _has(model: nn.Module, *names: str) -> bool:
    known = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return known.issuperset(names)


def _refuse_resizing(model: nn.Module) -> None:
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            vars(part)["resize_token_embeddings"] = FixedVocabulary(part)
