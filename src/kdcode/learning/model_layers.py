"""The embeddings and output layers of a model: which share a matrix, and which can be replaced by codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain

import torch
from torch import Tensor, nn

from kdcode.errors import OptionError

Only = str | Iterable[str] | Callable[[str, nn.Module], bool] | None
"""Which layers: names, patterns such as "encoder.*", or a function of name and layer."""

HEADS = ("tied", "full", "all")
"""What becomes of output layers; see `compress_embeddings`."""

MIN_ROWS = 5000
"""Smaller tables stay as they are unless they are named: positions, segments and the like."""

_POSITIONS = ("position", "pos_emb", "wpe")
"""What the names of tables of positions have in them. They are small, and models depend on small differences."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_SCALE = "embed_scale"
"""What layers call the number that they multiply vectors by."""


@dataclass(eq=False)
class Place:
    """A layer in a model.

    Args:
        names: all names of it in the model, the first as `named_modules` has it.
        layer: an `nn.Embedding`, `nn.EmbeddingBag` or `nn.Linear`.
        is_named: whether the caller wants it by its full name.
        is_chosen: whether the caller wants it.
    """

    names: list[str]
    layer: nn.Embedding | nn.EmbeddingBag | nn.Linear
    is_named: bool = False
    is_chosen: bool = False

    @property
    def name(self) -> str:
        """The first name."""
        return self.names[0]


@dataclass(eq=False)
class Matrix:
    """A matrix of a model and the layers that use it.

    Args:
        weight: the (N, d) matrix.
        embeddings: the layers that look rows up.
        heads: the linear layers that multiply with it.
        parameters: all names under which the model has it as a parameter.
    """

    weight: Tensor
    embeddings: list[Place] = field(default_factory=list)
    heads: list[Place] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    @property
    def places(self) -> list[Place]:
        """All layers, embeddings first."""
        return [*self.embeddings, *self.heads]

    @property
    def name(self) -> str:
        """The name of the first layer."""
        return self.places[0].name

    @property
    def nbytes(self) -> int:
        """Its bytes as it is."""
        return self.weight.numel() * self.weight.element_size()

    @property
    def is_chosen(self) -> bool:
        """Whether an embedding of it is wanted as codes."""
        return any(place.is_chosen for place in self.embeddings)

    @property
    def is_named(self) -> bool:
        """Whether one of its layers is wanted by name."""
        return any(place.is_named for place in self.places)


def matrices_of(model: nn.Module) -> list[Matrix]:
    """All matrices of embeddings and linear layers of a model, in the order of its layers."""
    places: dict[int, Place] = {}
    found: dict[object, Matrix] = {}
    for name, layer in model.named_modules(remove_duplicate=False):
        if not isinstance(layer, nn.Embedding | nn.EmbeddingBag | nn.Linear) or "weight" not in layer._parameters:
            continue
        if id(layer) in places:
            places[id(layer)].names.append(name)
            continue
        places[id(layer)] = place = Place([name], layer)
        matrix = found.setdefault(_identity(layer.weight), Matrix(layer.weight))
        (matrix.heads if isinstance(layer, nn.Linear) else matrix.embeddings).append(place)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if _identity(parameter) in found:
            found[_identity(parameter)].parameters.append(name)
    return list(found.values())


def untied_heads(matrices: Sequence[Matrix]) -> list[Matrix]:
    """The matrices of linear layers that no embedding shares, and that are as large as that of an embedding."""
    sizes = {matrix.weight.shape for matrix in matrices if matrix.embeddings}
    return [matrix for matrix in matrices if not matrix.embeddings and matrix.weight.shape in sizes]


def choose(matrices: Sequence[Matrix], only: Only, heads: str) -> list[Matrix]:
    """The matrices that are to be coded, or were asked for; marks the layers that are wanted.

    Args:
        matrices: of the model.
        only: see `Only`; all embeddings where None.
        heads: one of `HEADS`; "all" adds output layers with a matrix of their own, as large as that of an embedding.

    Raises:
        OptionError: unknown names, or patterns that fit nothing.
    """
    if heads not in HEADS:
        raise OptionError(f"heads must be one of {', '.join(HEADS)}, got {heads!r}")
    heads_of = [*(matrix for matrix in matrices if matrix.embeddings), *untied_heads(matrices)]
    eligible = [*chain(*(matrix.embeddings for matrix in matrices)), *chain(*(matrix.heads for matrix in heads_of))]
    if only is None:
        for matrix in matrices:
            for place in matrix.embeddings:
                place.is_chosen = True
    elif callable(only):
        for place in eligible:
            place.is_chosen = bool(only(place.name, place.layer))
    else:
        _choose_by_name(matrices, eligible, [only] if isinstance(only, str) else list(only))
    if heads == "all":
        for place in chain(*(matrix.heads for matrix in heads_of)):
            place.is_chosen = True
    return [matrix for matrix in matrices if any(place.is_chosen for place in matrix.places)]


def _choose_by_name(matrices: Sequence[Matrix], eligible: Sequence[Place], wanted: Sequence[object]) -> None:
    """Mark layers by full names, which may be those of any linear layer, and by patterns."""
    everywhere = {name: place for matrix in matrices for place in matrix.places for name in place.names}
    for name in wanted:
        if not isinstance(name, str):
            raise OptionError(f"only: expected names of layers, patterns or a function, got {name!r}")
        if name in everywhere:
            everywhere[name].is_chosen = everywhere[name].is_named = True
            continue
        fitting = [place for place in eligible if any(fnmatchcase(one, name) for one in place.names)]
        if not fitting:
            known = ", ".join(place.name for place in eligible) or "none"
            raise OptionError(f"only: no embedding or output layer is called {name!r}; those of the model are: {known}")
        for place in fitting:
            place.is_chosen = True


def reason_to_keep(matrix: Matrix, min_rows: int) -> str | None:
    """Why a matrix cannot be coded, or is better left as it is; None where nothing speaks against it.

    Raises:
        OptionError: one of its layers has `max_norm`.
    """
    weight, rows = matrix.weight, len(matrix.weight)
    for place in matrix.embeddings:
        if getattr(place.layer, "max_norm", None) is not None:
            raise OptionError(
                f"{place.name}: max_norm={place.layer.max_norm} changes rows when they are looked up, and codes cannot "
                "be changed; set it to None, or leave the layer out by only="
            )
    if not weight.is_floating_point() or weight.dim() != 2:
        return f"its matrix is of type {weight.dtype}"
    if rows < min_rows and not matrix.is_named:
        return f"{rows:,} rows, fewer than {min_rows:,}"
    if not matrix.is_named and any(word in place.name.lower() for place in matrix.embeddings for word in _POSITIONS):
        return "a table of positions, by its name"
    ours = {f"{name}.weight" for place in matrix.places for name in place.names}
    others = [name for name in matrix.parameters if name not in ours]
    if others:
        return f"its matrix is also the parameter {others[0]}, which needs it"
    if len(matrix.embeddings) > 1 and any(isinstance(place.layer, nn.EmbeddingBag) for place in matrix.embeddings):
        return "its matrix is shared by an EmbeddingBag and another embedding"
    return next((reason for place in matrix.places if (reason := _reason_of_layer(place))), None)


def scale_of(layer: nn.Module) -> float | None:
    """What an embedding multiplies its vectors by, 1 for most; None where it does anything else to them."""
    if type(layer).forward in (nn.Embedding.forward, nn.EmbeddingBag.forward, nn.Linear.forward):
        return 1.0
    scale = getattr(layer, _SCALE, None)
    if not isinstance(layer, nn.Embedding) or not isinstance(scale, int | float | Tensor):
        return None
    if isinstance(scale, Tensor):
        if scale.numel() != 1:
            return None
        scale = scale.to(layer.weight.dtype).item()
    ids = torch.arange(min(8, layer.num_embeddings), device=layer.weight.device)
    with torch.no_grad():
        found, expected = layer(ids), layer.weight[ids] * scale
    is_scaled = found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-2, atol=1e-8)
    return float(scale) if is_scaled else None


def _reason_of_layer(place: Place) -> str | None:
    layer = place.layer
    if scale_of(layer) is None:
        return f"{type(layer).__name__} computes something else than nn.{_plain_name(layer)}"
    if "forward" in vars(layer) or any(getattr(layer, hooks, None) for hooks in _HOOKS):
        return f"{place.name} has hooks, which would be lost"
    return None


def _plain_name(layer: nn.Module) -> str:
    return next(kind.__name__ for kind in (nn.Embedding, nn.EmbeddingBag, nn.Linear) if isinstance(layer, kind))


def _identity(weight: Tensor) -> object:
    """Equal for tensors that are one matrix in memory."""
    if weight.is_meta or not weight.numel():
        return id(weight)
    return weight.device, weight.data_ptr(), tuple(weight.shape), weight.stride()
