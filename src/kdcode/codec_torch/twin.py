"""Twin: something in numpy that is made from tensors, and made anew once these are others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, is_
from typing import Any, Generic, TypeVar

import numpy.typing as npt
from torch import Tensor

Made = TypeVar("Made")
_address, _version = Tensor.data_ptr, attrgetter("_version")


class Twin(Generic[Made]):
    """Keeps what was made of tensors as long as they are the same; a copy begins without it.

    Tensors on the CPU are shared and not copied. Those on another device are fetched, once.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, ...], tuple[Tensor, ...], Made] | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return Twin, ()

    def forget(self) -> None:
        """Make it anew when it is next asked for."""
        self._kept = None

    def of(self, tensors: Mapping[str, Tensor], make: Callable[[dict[str, npt.NDArray[Any]]], Made]) -> Made:
        """What `make` makes of the tensors as arrays."""
        own = tuple(tensors.values())
        seen = tensors_seen(*own)
        kept = self._kept
        if kept is None or kept[0] != seen:
            made = make({name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()})
            kept = self._kept = (seen, own, made)  # with the tensors, so that no others can have their addresses
        return kept[2]


class TensorsSeen:
    """Tells whether tensors are still those that something was made from.

    Args:
        tensors: what it was made from; None where there is no tensor.
        places: those of them whose addresses are looked at: `Module.to` and its like move all parameters at once.
        values: whether it depends on the numbers in the tensors, and not only on where they are.
    """

    def __init__(self, tensors: list[Tensor | None], places: tuple[Tensor, ...], *, values: bool) -> None:
        self._own, self._places = tensors, places  # held, so that no others take their place
        self._addresses = list(map(_address, places))
        self._valued = [tensor for tensor in tensors if tensor is not None] if values else []
        self._versions = list(map(_version, self._valued))

    def are(self, tensors: list[Tensor | None]) -> bool:
        """Whether they are the same, in number too."""
        return (
            all(map(is_, tensors, self._own))
            and list(map(_address, self._places)) == self._addresses
            and list(map(_version, self._valued)) == self._versions
        )


def for_torch(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same bytes as numbers that torch computes with and pickles: of unsigned integers these are uint8 alone."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" and array.itemsize > 1 else array


def tensors_seen(*tensors: Tensor) -> tuple[int, ...]:
    """Numbers that are others once tensors are, or have been written to; inference mode does not count the latter."""
    seen: list[int] = []
    for tensor in tensors:
        seen += (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)
    return tuple(seen)
