"""The embeddings of a torch model replaced by coded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy.typing as npt
from torch import Tensor, nn

from kdcode.codec import Sizes
from kdcode.codec.spec import TRANSFORM
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, TableError
from kdcode.files import beside
from kdcode.inputs import as_table
from kdcode.learning.compression import compress
from kdcode.learning.model_calibration import Batch, can_be_fitted, compress_for_states, observe
from kdcode.learning.model_layers import (
    MIN_ROWS,
    Matrix,
    Only,
    Place,
    choose,
    matrices_of,
    reason_to_keep,
    scale_of,
    untied_heads,
)
from kdcode.learning.model_report import LayerReport, ModelReport, code_text
from kdcode.learning.planned_table import Goal
from kdcode.learning.planning.candidates import PLANNED
from kdcode.learning.run_settings import RunSettings
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag, CodedEmbeddingView, CodedOutput
from kdcode.options import CompressOptions, promised_sizes
from kdcode.table import VectorTable

DEFAULT_SIZE = "20x"
"""Where neither a size nor the shape of a code is given."""

_OWN_MATRIX = "an output layer with a matrix of its own"

RowWeights = Mapping[str, npt.ArrayLike] | npt.ArrayLike


@dataclass(frozen=True)
class Request:
    """What is asked of `replace_embeddings`; see `kdcode.compress_embeddings`.

    Args:
        keywords: those of `compress`, the size among them.
        on_layer: called with the name and the shape of a layer before its codes are learned.
        only, heads, weights, min_rows, trainable, calibrate: see there.
    """

    keywords: Mapping[str, Any] = field(default_factory=dict)
    only: Only = None
    heads: str = "tied"
    weights: RowWeights | None = None
    min_rows: int = MIN_ROWS
    trainable: bool = False
    calibrate: Iterable[Batch] | None = None
    on_layer: Callable[[str, tuple[int, ...]], None] | None = None


def replace_embeddings(model: nn.Module, request: Request) -> ModelReport:
    """Replace embeddings of a model in place; it stays as it was if anything is refused or fails.

    Raises:
        OptionError: a request that cannot work, or nothing was replaced.
    """
    how = _How.given(request.keywords, trainable=request.trainable)
    found = matrices_of(model)
    if any("" in place.names for matrix in found for place in matrix.places):
        raise OptionError(
            f"model: expected a module with embeddings in it, got {type(model).__name__}, which cannot be replaced in "
            "place; use kdcode.nn.CodedEmbedding(kdcode.compress(layer, size))"
        )
    wanted = choose(found, request.only, request.heads)
    kept = _kept_as_they_are(wanted, request.min_rows)
    before, coded = _model_bytes(model), _learned(model, wanted, kept, how, request)
    new: dict[str, nn.Module] = {}
    layers = []
    for matrix in wanted:
        if matrix in coded:
            layers += _replaced(matrix, coded[matrix], request, new)
        else:
            layers.append(_kept(matrix, kept[matrix]))
    if not new:
        raise OptionError(_nothing(layers))
    if request.only is None:
        layers += [_kept(matrix, _OWN_MATRIX) for matrix in untied_heads(found) if matrix not in wanted]
    for name, layer in new.items():
        parent, _, child = name.rpartition(".")
        model.get_submodule(parent)._modules[child] = layer
    return ModelReport(tuple(layers), before, _model_bytes(model))


def _kept_as_they_are(wanted: Sequence[Matrix], min_rows: int) -> dict[Matrix, str]:
    """The matrices that are not to be coded, and why; one that is wanted by name is refused."""
    kept = {matrix: reason for matrix in wanted if (reason := reason_to_keep(matrix, min_rows))}
    for matrix, reason in kept.items():
        if matrix.is_named:
            raise OptionError(f"{matrix.name}: cannot be compressed: {reason}")
    return kept


def _learned(
    model: nn.Module, wanted: Sequence[Matrix], kept: dict[Matrix, str], how: _How, request: Request
) -> dict[Matrix, CodedTable]:
    """Codes for all matrices but those in `kept`, to which those are added that cannot get small enough."""
    matrices = [matrix for matrix in wanted if matrix not in kept]
    weights, roots = request.weights, {}
    if request.calibrate is not None and matrices:
        how.check_calibration()
        seen = observe(model, matrices, request.calibrate)
        weights = {matrix.name: observed.weights for matrix, observed in seen.items()} if weights is None else weights
        roots = {matrix: observed.root for matrix, observed in seen.items() if _codes_its_heads(matrix, request)}
    tables = _tables(matrices, weights)
    how.check(list(tables.values()))
    coded = {}
    for matrix in matrices:
        if request.on_layer is not None:
            request.on_layer(matrix.name, tuple(matrix.weight.shape))
        try:
            coded[matrix] = how.learn(matrix, tables[matrix.name], roots.get(matrix))
        except OptionError as error:
            if matrix.is_named:
                raise OptionError(f"{matrix.name}: {error}") from error
            kept[matrix] = str(error)
    return coded


@dataclass(frozen=True)
class _How:
    """How codes are learned: the keywords of `compress`, checked before the first table."""

    goal: Goal | None
    options: CompressOptions
    settings: RunSettings

    @classmethod
    def given(cls, keywords: Mapping[str, Any], *, trainable: bool) -> _How:
        others = dict(keywords)
        goals = {name: others.pop(name, None) for name in ("size", "bits", "max_error")}
        options, settings = others.pop("options", None), RunSettings.take(others)
        shaped = [name for name in PLANNED if name in others]
        if all(goal is None for goal in goals.values()) and options is None and not shaped:
            goals["size"] = DEFAULT_SIZE
        goal = Goal.given(**goals)
        if goal is not None and shaped:
            raise OptionError(f"{shaped[0]} is chosen for {goal}; leave one of the two out")
        chosen = (options or CompressOptions()).changed(**others)
        if trainable and goal is None and chosen.composition == TRANSFORM:
            raise OptionError(
                "trainable: transform codes have no codewords to train; give another composition, or a size"
            )
        return cls(goal, chosen.changed(codewords=True) if trainable else chosen, settings)

    def check(self, tables: Sequence[VectorTable]) -> None:
        """Refuse what is known to fail before anything is learned."""
        if self.goal is None:
            for table in tables:
                promised_sizes(table, self.options)
        elif self.goal.size is not None and self.goal.limit.times is None and len(tables) > 1:
            raise OptionError(
                f"size: {self.goal.size} is for one table, and {len(tables)} are to be replaced; name one by only=, or "
                "give how many times smaller, such as 20x"
            )

    def check_calibration(self) -> None:
        """Refuse what calibration cannot work with."""
        if self.goal is not None and self.goal.max_error is not None:
            raise OptionError(
                "calibrate: codes keep logits, and not vectors to an error; give size or bits in its place"
            )
        if self.goal is None and self.options.composition == TRANSFORM:
            raise OptionError(
                "calibrate: transform codes cannot be fitted to states; give another composition, or a size"
            )
        if self.goal is None and not can_be_fitted(self.options):
            raise OptionError(
                f"calibrate: {self.options.composition} codes without a rotation cannot be fitted to states; give "
                "rotation=True, or a size"
            )

    def learn(self, matrix: Matrix, table: VectorTable, root: Tensor | None = None) -> CodedTable:
        """Codes for a matrix, for products with states where there is a root; refused where they are not smaller."""
        if self.goal is None:
            _refuse_larger(promised_sizes(table, self.options), matrix)
        settings: dict[str, Any] = {**vars(self.settings)}
        settings.pop("run_checkpoint", None)
        checkpoint = self.settings.checkpoint
        if isinstance(checkpoint, str | Path):
            settings["checkpoint"] = beside(Path(checkpoint), f"{Path(checkpoint).name}.{matrix.name}", "")
        coded = None if root is None else compress_for_states(table, root, self.options, self._goals, settings)
        if coded is None:
            coded = compress(table, options=self.options, **self._goals, **settings)
        _refuse_larger(coded.sizes, matrix)
        return coded

    @property
    def _goals(self) -> dict[str, Any]:
        return {} if self.goal is None else vars(self.goal)


def _codes_its_heads(matrix: Matrix, request: Request) -> bool:
    """Whether an output layer will compute logits from the codes of a matrix."""
    return any(place.is_chosen for place in matrix.heads) or (matrix.is_chosen and request.heads != "full")


def _refuse_larger(sizes: Sizes, matrix: Matrix) -> None:
    if sizes.embedding >= matrix.nbytes:
        raise OptionError(f"its codes would take {sizes.embedding:,} B, and the matrix takes {matrix.nbytes:,} B")


def _tables(matrices: Sequence[Matrix], weights: RowWeights | None) -> dict[str, VectorTable]:
    """The rows of each matrix as a table to learn codes for, by the name of its first layer."""
    names = [matrix.name for matrix in matrices]
    if weights is None:
        of_layer: Mapping[str, npt.ArrayLike] = {}
    elif isinstance(weights, Mapping):
        of_layer = weights
        unknown = [name for name in weights if name not in names]
        if unknown:
            raise OptionError(f"weights: {unknown[0]!r} is none of the layers to be compressed: {', '.join(names)}")
    elif len(names) == 1:
        of_layer = {names[0]: weights}
    else:
        raise OptionError(f"weights: expected a dict by layer, since there are several: {', '.join(names)}")
    tables = {}
    for matrix in matrices:
        try:
            tables[matrix.name] = as_table(matrix.weight.detach(), weights=of_layer.get(matrix.name))
        except TableError as error:
            raise TableError(f"{matrix.name}: {error}") from error
    return tables


def _replaced(matrix: Matrix, coded: CodedTable, request: Request, new: dict[str, nn.Module]) -> list[LayerReport]:
    """Make the layers that take the places of those of a matrix; adds them to `new` by name."""
    shape = (len(coded), coded.embedding_dim)
    layers, table = [], None
    for place in matrix.embeddings if matrix.is_chosen else []:
        if table is None:
            layer, table = _embedding(place, coded, request)
            layers.append(LayerReport(place.name, *shape, matrix.nbytes, table.nbytes, code_text(coded), coded))
        else:
            layer = CodedEmbeddingView(table, scale_of(place.layer) or 1.0)
            layers.append(LayerReport(place.name, *shape, 0, 0, f"tied to {matrix.name}"))
        _put(new, place, layer)
    has_full = False
    for place in matrix.heads:
        bias = place.layer.bias if isinstance(place.layer, nn.Linear) else None
        if table is not None and (request.heads != "full" or place.is_chosen):
            _put(new, place, CodedOutput(table, bias))
            layers.append(LayerReport(place.name, *shape, 0, 0, f"tied to {matrix.name}"))
        elif place.is_chosen:
            head = CodedOutput(coded, bias, **_kind(matrix.weight, request))
            _put(new, place, head)
            before = 0 if matrix.embeddings else matrix.nbytes
            what = f"{code_text(coded)}; {matrix.name} keeps its matrix" if matrix.embeddings else code_text(coded)
            layers.append(LayerReport(place.name, *shape, before, head.table.nbytes, what, coded))
        elif table is not None:
            layers.append(LayerReport(place.name, *shape, 0, 0 if has_full else matrix.nbytes, "keeps the full matrix"))
            has_full = True
    return layers


def _embedding(
    place: Place, coded: CodedTable, request: Request
) -> tuple[nn.Module, CodedEmbedding | CodedEmbeddingBag]:
    """The layer for the first place of a matrix, and the coded table in it."""
    old = place.layer
    kind = _kind(old.weight, request)
    if isinstance(old, nn.EmbeddingBag):
        bag = CodedEmbeddingBag(
            coded, old.padding_idx, mode=old.mode, include_last_offset=old.include_last_offset, **kind
        )
        return bag, bag
    # In nn.Embedding, the padding row gets no gradients, but has the vector that is in the matrix, often not zero.
    padding = old.padding_idx if isinstance(old, nn.Embedding) else None
    is_zero = padding is not None and not bool(old.weight[padding].any())
    table = CodedEmbedding(coded, padding if is_zero else None, **kind)
    scale = scale_of(old) or 1.0
    return table if scale == 1 else CodedEmbeddingView(table, scale, tied=False), table


def _kind(weight: Tensor, request: Request) -> dict[str, Any]:
    """Arguments of a coded layer in place of one with this matrix."""
    return {"trainable": request.trainable, "device": weight.device, "dtype": weight.dtype}


def _put(new: dict[str, nn.Module], place: Place, layer: nn.Module) -> None:
    new.update(dict.fromkeys(place.names, layer.train(place.layer.training)))


def _kept(matrix: Matrix, reason: str) -> LayerReport:
    rows, size = matrix.weight.shape
    return LayerReport(matrix.name, rows, size, matrix.nbytes, matrix.nbytes, f"kept: {reason}")


def _nothing(layers: list[LayerReport]) -> str:
    """The refusal where nothing was replaced."""
    if not layers:
        return "model: there is no nn.Embedding or nn.EmbeddingBag in it, so nothing was replaced"
    reasons = "; ".join(f"{layer.name} was {layer.what}" for layer in layers)
    return f"nothing was replaced: {reasons}. A layer that is named by only= is compressed however few rows it has"


def _model_bytes(model: nn.Module) -> int:
    tensors = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
