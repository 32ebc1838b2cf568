"""compress_embeddings: the embeddings of any torch model replaced by codes; freeze_embeddings ends their training."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Unpack

from torch import nn

from kdcode.learning.model_calibration import Batch
from kdcode.learning.model_compression import Request, RowWeights, replace_embeddings
from kdcode.learning.model_layers import MIN_ROWS, Only
from kdcode.learning.model_report import ModelReport
from kdcode.learning.run_settings import CompressKeywords, RunSettings
from kdcode.nn.freezing import freeze_layers
from kdcode.option_keywords import listing_keywords
from kdcode.options import CompressOptions
from kdcode.printable import shown


class ModelKeywords(CompressKeywords, total=False):
    """Keywords of `compress_embeddings` beside its own: those of `kdcode.compress`."""

    bits: int | None
    max_error: float | None
    options: CompressOptions | None


@listing_keywords(RunSettings)
def compress_embeddings(  # noqa: PLR0913 - which layers, and how they are compressed
    model: nn.Module,
    size: str | int | None = None,
    *,
    only: Only = None,
    heads: str = "tied",
    weights: RowWeights | None = None,
    min_rows: int = MIN_ROWS,
    trainable: bool = False,
    calibrate: Iterable[Batch] | None = None,
    **keywords: Unpack[ModelKeywords],
) -> ModelReport:
    """Replace the embeddings of a model by codes, in place.

        report = kdcode.nn.compress_embeddings(model, "20x", effort="fast", progress=True)
        print(report)

    Every `nn.Embedding` becomes a `CodedEmbedding`, every `nn.EmbeddingBag` a `CodedEmbeddingBag`, on the same device
    and of the same type. Embeddings that share a matrix share codes. An `nn.Linear` with the same matrix, the tied head
    of a language model, becomes a `CodedOutput`, which computes logits from the same codes. The model stays as it was
    if anything is refused or fails. A Transformers model is then saved by `save_pretrained` as usual; see
    `kdcode.integrations.transformers_models` for loading it.

    Layers are left as they are, with the reason in the report, if they have few rows, compute something else than their
    class in torch does, have hooks, or would not become smaller.

    Args:
        model: any module with embeddings in it.
        size: of each table: like 20x (times smaller than float32 vectors), which is the default, or for one table
            alone 500KB, or bytes.
        only: which layers: names, patterns such as "encoder.*", or a function of name and layer that says whether. A
            layer that is named in full is compressed however few rows it has, and may be an `nn.Linear`.
        heads: "tied": output layers that share the matrix of an embedding share its codes. "full": they keep the
            matrix for themselves. "all": output layers with a matrix of their own get codes of their own too.
        weights: how much each row counts, such as how often its token is used: (N,) numbers, or a dict of them by the
            name of the layer.
        min_rows: tables with fewer rows are left as they are, such as those of positions.
        trainable: whether codewords are trained with the model; codes stay as they are.
        calibrate: some inputs of the model, such as the ids of a few hundred sentences: batches that are each a tensor,
            a dict of keywords, or several arguments. The model is run on them first. Rows then count by how often they
            are used, unless `weights` says otherwise, and codes of output layers are chosen so that logits change
            little for the hidden states that occur. Much better for language models, whose states are far from even.
        **keywords: `bits`, `max_error` and `options`, as in `kdcode.compress`, single options, and how to run. They are
            listed below. Each table has a checkpoint of its own, whose name ends with that of the layer.

    Returns:
        Bytes before and after, layer by layer; printed, a table. The coded tables are in it, with what was lost.

    Raises:
        OptionError: nothing was replaced; a layer has `max_norm`; unknown names; or as `kdcode.compress`.
    """
    pretrained = _transformers_models()
    if pretrained is not None:
        pretrained.check(model)
    asked: dict[str, Any] = {"size": size, **keywords}
    show = _show_layer if keywords.get("progress") is True else None
    report = replace_embeddings(model, Request(asked, only, heads, weights, min_rows, trainable, calibrate, show))
    if pretrained is not None:
        pretrained.remember_codes(model)
    return report


def freeze_embeddings(model: nn.Module) -> None:
    """Make trained layers small again, in place: the last step before a model is saved.

    `compress_embeddings(model, trainable=True)` keeps codewords as parameters, in the type of the model. This rounds
    them to the type that they are stored in, so that they take the bytes that were promised. A `KDEmbedding` becomes
    the layer that its `freeze()` gives. Ties stay.

    Args:
        model: any module with such layers in it.

    Raises:
        OptionError: there is no such layer.
    """
    freeze_layers(model)
    pretrained = _transformers_models()
    if pretrained is not None:
        pretrained.remember_codes(model)


def _transformers_models() -> ModuleType | None:
    """The module for Transformers models; None where Transformers is not loaded, so that none can be there."""
    if "transformers" not in sys.modules:
        return None
    from kdcode.integrations import transformers_models

    return transformers_models


def _show_layer(name: str, shape: tuple[int, ...]) -> None:
    sys.stderr.write(f"{shown(name)}, {' x '.join(f'{size:,}' for size in shape)}\n")
