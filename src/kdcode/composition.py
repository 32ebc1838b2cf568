"""How the D codewords of a code become one vector, in numpy.

A composition is a small value with its own weights. `compose` takes codes and a codebook, never a gathered
(n, D, e) array, so that memory stays at n·d floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kdcode.budget import weight_format, weight_shapes
from kdcode.codebook import Codebook
from kdcode.errors import OptionError
from kdcode.table import FloatArray, IntArray

GATES = ("forget", "input", "output", "candidate")
"""Order of the four gates in LSTM weights: the paper's f, i, o and m."""


class Composition(Protocol):
    """The paper's f: D codewords to one vector of size d."""

    name: ClassVar[str]

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the composed vectors."""
        ...

    def compose(self, codes: IntArray, codebook: FloatArray) -> FloatArray:
        """(n, D) codes and (D, K, e) codewords to (n, d) vectors."""
        ...

    def score_tables(self, query: FloatArray, codebook: FloatArray) -> FloatArray | None:
        """(D, K) tables whose entries at a code's positions add up to the dot product with `query` (d,).

        None where the composition is not a sum over positions.
        """
        ...

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """What must be stored beside the codebook, by name."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """v = (Σ_j W^j_{c_j}) H, and no H where codewords are as long as the vectors (section 2 of the paper).

    Args:
        embedding_dim: d.
        projection: H, (e, d), or None for the identity.
    """

    name: ClassVar[str] = "linear"
    embedding_dim: int
    projection: FloatArray | None = None

    def compose(self, codes: IntArray, codebook: FloatArray) -> FloatArray:
        """(n, D) codes and (D, K, e) codewords to (n, d) vectors."""
        total = codebook[0].take(codes[:, 0], axis=0)
        for position in range(1, len(codebook)):
            total += codebook[position].take(codes[:, position], axis=0)
        return total if self.projection is None else np.asarray(total @ self.projection, dtype=np.float32)

    def score_tables(self, query: FloatArray, codebook: FloatArray) -> FloatArray:
        """(D, K) dot products of each codeword with the query, H moved to the query's side."""
        seen = query if self.projection is None else self.projection @ query
        return np.asarray(codebook @ seen, dtype=np.float32)

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """H, where there is one."""
        return {} if self.projection is None else {"projection": self.projection}

    def folded(self, codebook: FloatArray) -> FloatArray:
        """The (D, K, d) codewords that give the same vectors with no H."""
        return codebook if self.projection is None else np.asarray(codebook @ self.projection, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Lstm:
    """An LSTM over the codewords, each added to every gate directly; v = (Σ_j h_j) H (section 2 of the paper).

    Args:
        recurrent: U, (4, e, e), gates in the order of `GATES`.
        bias: b, (4, e).
        projection: H, (e, d).
    """

    name: ClassVar[str] = "lstm"
    recurrent: FloatArray
    bias: FloatArray
    projection: FloatArray

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the composed vectors."""
        return int(self.projection.shape[1])

    def compose(self, codes: IntArray, codebook: FloatArray) -> FloatArray:
        """(n, D) codes and (D, K, e) codewords to (n, d) vectors."""
        hidden = np.zeros((len(codes), codebook.shape[2]), dtype=np.float32)
        memory = np.zeros_like(hidden)
        total = np.zeros_like(hidden)
        for position in range(len(codebook)):
            hidden, memory = self.step(codebook[position].take(codes[:, position], axis=0), hidden, memory)
            total += hidden
        return np.asarray(total @ self.projection, dtype=np.float32)

    def step(self, word: FloatArray, hidden: FloatArray, memory: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One position: codewords (…, e) with the h and m before it, which broadcast, to the h and m after it."""
        keep, write, show, candidate = (
            word + (hidden @ weight.T + bias) for weight, bias in zip(self.recurrent, self.bias, strict=True)
        )
        memory = _sigmoid(keep) * memory + _sigmoid(write) * np.tanh(candidate)
        return _sigmoid(show) * np.tanh(memory), memory

    def score_tables(self, query: FloatArray, codebook: FloatArray) -> None:
        """None: h_j depends on all codewords before it, so nothing adds up over positions."""
        return None

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """U, b and H."""
        return {"recurrent": self.recurrent, "bias": self.bias, "projection": self.projection}


class Block(NamedTuple):
    """Some positions of a code, whose codewords add up to some coordinates."""

    positions: slice
    columns: slice

    @property
    def length(self) -> int:
        """How many positions."""
        return int(self.positions.stop - self.positions.start)

    @property
    def width(self) -> int:
        """How many coordinates."""
        return int(self.columns.stop - self.columns.start)


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Sums side by side: each block of coordinates is the sum of its positions' codewords; v is that, or turned by R.

    Codewords have the size of the widest block; what stands beyond a narrower one is not read.

    Args:
        embedding_dim: d.
        rotation: R, (d, d) with orthonormal rows, or None for the identity.
    """

    name: ClassVar[str]
    embedding_dim: int
    rotation: FloatArray | None = None

    def blocks(self, code_length: int, codeword_dim: int) -> list[Block]:
        """Which positions make which coordinates, for D positions and codewords of e numbers."""
        raise NotImplementedError

    def compose(self, codes: IntArray, codebook: FloatArray) -> FloatArray:
        """(n, D) codes and (D, K, e) codewords to (n, d) vectors."""
        vectors = np.empty((len(codes), self.embedding_dim), dtype=np.float32)
        for block in self.blocks(len(codebook), codebook.shape[2]):
            words = codebook[block.positions, :, : block.width]
            vectors[:, block.columns] = Linear(block.width).compose(codes[:, block.positions], words)
        return vectors if self.rotation is None else np.asarray(vectors @ self.rotation, dtype=np.float32)

    def score_tables(self, query: FloatArray, codebook: FloatArray) -> FloatArray:
        """(D, K) dot products of each codeword with its own part of the query, which is turned instead of them."""
        query = self.unturned(query)
        tables = np.empty(codebook.shape[:2], dtype=np.float32)
        for block in self.blocks(len(codebook), codebook.shape[2]):
            tables[block.positions] = codebook[block.positions, :, : block.width] @ query[block.columns]
        return tables

    def unturned(self, vectors: FloatArray) -> FloatArray:
        """(…, d) vectors in the coordinates that the blocks are of."""
        return vectors if self.rotation is None else np.asarray(vectors @ self.rotation.T, dtype=np.float32)

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """The rotation, where there is one; the blocks follow from d, e and D."""
        return {} if self.rotation is None else {"rotation": self.rotation}


class Product(SideBySide):
    """Codewords side by side: position j owns the coordinates `spans(d, D)[j]`."""

    name: ClassVar[str] = "product"

    def blocks(self, code_length: int, codeword_dim: int) -> list[Block]:
        """One block for each position."""
        owned = enumerate(spans(self.embedding_dim, code_length))
        return [Block(slice(position, position + 1), columns) for position, columns in owned]


class Grouped(SideBySide):
    """⌈d/e⌉ groups for codewords of e numbers; coordinates and positions are both split among them, in order."""

    name: ClassVar[str] = "grouped"

    def blocks(self, code_length: int, codeword_dim: int) -> list[Block]:
        """One block for each group."""
        groups = -(-self.embedding_dim // codeword_dim)
        if code_length < groups:
            raise OptionError(
                f"a grouped code has at least one position for each of its {groups} groups, got {code_length}; "
                "use a longer code, or fewer groups"
            )
        pairs = zip(spans(code_length, groups), spans(self.embedding_dim, groups), strict=True)
        return [Block(*pair) for pair in pairs]


COMPOSITIONS: dict[str, type[Linear] | type[Lstm] | type[Product] | type[Grouped]] = {
    composition.name: composition for composition in (Linear, Lstm, Product, Grouped)
}
"""The one table of compositions; options and files name them by these keys."""


def widest_span(embedding_dim: int, code_length: int) -> int:
    """The codeword size of a product code: the most coordinates that one position owns."""
    if not 1 <= code_length <= embedding_dim:
        raise OptionError(
            f"a product code of length {code_length} needs at least as many dimensions, got {embedding_dim}; "
            "use a shorter code or the linear composition"
        )
    return -(-embedding_dim // code_length)


def spans(embedding_dim: int, code_length: int) -> list[slice]:
    """The coordinates that each position of a product code owns: d split as evenly as possible, wider ones first."""
    widest = widest_span(embedding_dim, code_length)
    narrower = widest * code_length - embedding_dim
    widths = [widest] * (code_length - narrower) + [widest - 1] * narrower
    ends = list(accumulate(widths))
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


def from_weights(name: str, embedding_dim: int, weights: Mapping[str, npt.NDArray[Any]]) -> Composition:
    """Rebuild a composition from its name and what `weights()` gave."""
    arrays = {key: np.asarray(value, dtype=np.float32) for key, value in weights.items()}
    if name == Linear.name:
        return Linear(embedding_dim, **arrays)
    if name == Lstm.name:
        return Lstm(**arrays)
    if name == Product.name:
        return Product(embedding_dim, **arrays)
    if name == Grouped.name:
        return Grouped(embedding_dim, **arrays)
    raise OptionError(f"composition: expected one of {', '.join(COMPOSITIONS)}, got {name!r}")


def as_stored(composition: Composition, codebook: Codebook) -> Composition:
    """The composition with its weights rounded as they are beside this codebook in a file.

    A table holds this one from the start: saving and loading then changes no vector.

    Raises:
        OptionError: composition and codebook do not fit together, or a weight is not finite when rounded.
    """
    name, width, dim = composition.name, codebook.codeword_dim, composition.embedding_dim
    if name == Product.name and width != widest_span(dim, codebook.code_length):
        raise OptionError(
            f"codebook: a product code of {codebook.code_length} positions and {dim} dimensions has codewords of "
            f"{widest_span(dim, codebook.code_length)} numbers, got {width}"
        )
    if name == Grouped.name and Grouped(dim).blocks(codebook.code_length, width)[0].width != width:
        raise OptionError(f"codebook: no even groups of {dim} dimensions have codewords of {width} numbers")
    given = {key: weight.shape for key, weight in composition.weights().items()}
    expected = weight_shapes(name, width, dim, rotated="rotation" in given)
    if given != expected:
        hint = "; fold H into the codewords with Linear.folded" if name == Linear.name and width == dim else ""
        raise OptionError(
            f"composition: {name} from codewords of {width} numbers to {dim} dimensions has weights "
            f"{expected or 'none'}, got {given or 'none'}{hint}"
        )
    tensors = stored_weights(composition, codebook.number_format)
    for key, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise OptionError(f"composition.{key}: holds values that are not finite in {tensor.dtype}")
    return from_weights(name, dim, weights_of(tensors))


def stored_weights(composition: Composition, number_format: str) -> dict[str, npt.NDArray[Any]]:
    """The tensors that hold the weights of a composition beside codewords of a number format; see `weights_of`."""
    floats = weight_format(number_format)
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, weight in composition.weights().items():
        if name == "rotation" and number_format == "int8":
            tensors["rotation"], tensors["rotation_scale"] = _integer_rows(weight)
        else:
            with np.errstate(over="ignore"):  # what overflows becomes inf and is refused
                tensors[name] = np.asarray(weight, dtype=floats)
    return tensors


def weights_of(tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The weights that `stored_weights` made tensors of, as they are after rounding."""
    weights = {name: tensor for name, tensor in tensors.items() if name != "rotation_scale"}
    if "rotation_scale" in tensors:
        weights["rotation"] = np.asarray(tensors["rotation"] * tensors["rotation_scale"], dtype=np.float32)
    return weights


def _integer_rows(matrix: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Integers up to 127 and a scale for each row, a power of two: what comes back is rounded to itself again."""
    most = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-30)
    scale = np.exp2(np.ceil(np.log2(most / 127.5))).astype(np.float32)
    return np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (np.tanh(0.5 * values) + 1), dtype=np.float32)  # tanh cannot overflow
