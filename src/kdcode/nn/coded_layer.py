"""What the layers over a coded table share: codes and codec in the bytes of the file, or expanded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from os import PathLike
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import Codec, CodewordCodec, CodewordSpec, make_spec
from kdcode.codec_torch import CodecModule, StoredCodec, TransformModule, module_of
from kdcode.codec_torch.twin import TensorsSeen
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.core_lookup import CoreLookup, places_of, tensors_of
from kdcode.nn.embedding_layer import EmbeddingLayer
from kdcode.nn.expanded_rows import EXPANDED_TYPES, ExpandedRows, fits
from kdcode.nn.layer_content import ROW_BUFFERS, LayerContent, buffer_of
from kdcode.nn.packed_operators import forget_decoders, shape_text
from kdcode.storage import load

CODE_FORMS = ("packed", "unpacked")
"""How codes and weights may be kept."""

EXPAND_BELOW = "200MB"
"""What rows may take that are decoded once and kept."""

CodedSource = CodedTable | str | PathLike[str]
"""A coded table, or the path of a .kdc file."""


class CodedLayer(EmbeddingLayer):
    """A layer whose codes stay as they are.

    Packed transform codes are decoded by the core, on the CPU, and their vectors moved to where the layer
    is. On another device the codes are fetched once, and the ids of every call: keep the vectors there with
    `expand`, or decode there with the form "unpacked". They cannot be trained.

    Args:
        coded: the table, or the path of a .kdc file; codes and weights are copied.
        padding_idx: row whose vector is zero; -1 is the last.
        form: "packed" takes the bytes of the file: codes as bits, codewords and rotation in their stored type.
            "unpacked" has an integer for each position and weights of type `dtype`: larger, and simpler to compute
            with for torch's operators. Transform codes have a position for each dimension: unpacked they take as much
            as vectors of float32.
        trainable: whether codewords and composition are trained; in both forms they are then of type `dtype`.
        device: where the layer lives.
        dtype: type of the vectors; torch's default type if None.
        expand: "float32", "bfloat16" or "int8" (with a scale for each row): all vectors are decoded at the first call
            and kept in this type, where they take no more than `expand_below`; None decodes at every call.
        expand_below: a size like "64MB".
    """

    code_rows: Tensor
    row_classes: Tensor | None
    row_starts: Tensor | None
    row_breaks: Tensor | None
    expanded: Tensor | None
    expanded_scales: Tensor | None
    codec: CodecModule | TransformModule | StoredCodec
    is_being_loaded = False
    """Whether `weight` has no numbers yet: set by loaders of models that set first weights to random numbers."""

    def __init__(  # noqa: PLR0913 - what one may want of a layer, each by its name
        self,
        coded: CodedSource | LayerContent,
        padding_idx: int | None = None,
        *,
        form: str = "packed",
        trainable: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        expand: str | None = None,
        expand_below: str | int = EXPAND_BELOW,
    ) -> None:
        if form not in CODE_FORMS:
            raise OptionError(f"form must be one of {', '.join(CODE_FORMS)}, got {form!r}")
        if dtype is not None and not dtype.is_floating_point:
            raise OptionError(f"dtype must be a float type such as torch.float16, got {dtype}")
        coded = coded if isinstance(coded, LayerContent) else as_coded(coded)
        _check_codec(coded.codec, form=form, trainable=trainable, dtype=dtype)
        if expand is not None and trainable:
            raise OptionError("expand: vectors cannot be kept while codewords are trained; leave it or trainable out")
        content = coded if isinstance(coded, LayerContent) else LayerContent.of(coded, form)
        spec = content.codec.spec
        super().__init__(content.num_embeddings, spec.embedding_dim, padding_idx)
        self.form, self.trainable = form, trainable
        self.expand, self.expand_below = expand, expand_below
        self._may_expand = fits(expand, expand_below, self.num_embeddings, self.embedding_dim)
        self._expanded_from: TensorsSeen | None = None
        self.register_buffer("expanded", None, persistent=False)
        self.register_buffer("expanded_scales", None, persistent=False)
        self._lookup = CoreLookup()
        self._row_names = tuple(map(buffer_of, spec.row_layout(self.num_embeddings)))
        self._shared_names = tuple(spec.tensor_layout())
        self._shape_text = shape_text(spec)
        for name in ROW_BUFFERS:
            rows = content.rows.get(name)
            self.register_buffer(name, None if rows is None else torch.from_numpy(rows).to(device))
        self._entropy_coded = form == "packed" and not isinstance(spec, CodewordSpec)
        if form == "packed" and not trainable:
            self.codec = StoredCodec(content.codec, device=device, dtype=dtype)
        else:
            self.codec = module_of(content.codec).requires_grad_(trainable).to(device=device, dtype=dtype)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, device: torch.device | str | None = None) -> Self:
        """A layer of the shape of another, all zeros, to be filled by `load_state_dict`.

        Args:
            config: the `config` of the other layer.
            device: where the layer lives; with "meta", use `load_state_dict(state, assign=True)`.
        """
        try:
            arguments = dict(config)
            shape = make_spec(arguments.pop("codec")), arguments.pop("num_embeddings")
            blank = LayerContent.blank(*shape, arguments["form"], arguments.pop("row_lengths", {}))
            dtype = getattr(torch, arguments.pop("dtype"))
            return cls(blank, **arguments, device=device, dtype=dtype)
        except (KeyError, TypeError, AttributeError) as error:
            raise OptionError(f"config: expected the dict of layer.config, got {dict(config)!r}: {error}") from error

    @property
    def config(self) -> dict[str, Any]:
        """JSON values that `from_config` builds a layer of the same shape from."""
        lengths = self._row_lengths
        return {
            "num_embeddings": self.num_embeddings,
            **({"row_lengths": lengths} if lengths else {}),
            "codec": asdict(self.codec.spec),
            "padding_idx": self.padding_idx,
            "form": self.form,
            "trainable": self.trainable,
            "dtype": str(self.codec.dtype).removeprefix("torch."),
            "expand": self.expand,
            "expand_below": self.expand_below,
        }

    @property
    def _row_lengths(self) -> dict[str, int]:
        """The lengths of tensors of rows that do not follow from N, by name."""
        if not self._entropy_coded:
            return {}
        layout = self.codec.spec.row_layout(self.num_embeddings)
        return {name: len(self.get_buffer(buffer_of(name))) for name, (_, shape) in layout.items() if shape[0] is None}

    @property
    def device(self) -> torch.device:
        """Where the layer is, and where its ids must be."""
        return self.code_rows.device

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, composed on request; gradients flow through it."""
        return self.blank_weight if self.is_being_loaded else super().weight

    @property
    def blank_weight(self) -> Tensor:
        """A tensor with the shape and the type of `weight` on the device "meta", which takes no memory."""
        return torch.empty(self.num_embeddings, self.embedding_dim, dtype=self.codec.dtype, device="meta")

    def codes_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to their (n, columns) codes."""
        if self._entropy_coded:
            found: Tensor = torch.ops.kdcode.packed_codes(ids, *self._packed())
            return found
        stored = self.code_rows.index_select(0, ids)
        return unpack(stored, self.codec.spec.widths) if self.form == "packed" else stored

    def vectors_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors."""
        if self._entropy_coded:
            found: Tensor = torch.ops.kdcode.packed_vectors(ids, *self._packed())
            return found.to(self.codec.dtype)
        return self.codec.decode(self.codes_of(ids))

    def _packed(self) -> tuple[list[Tensor], list[Tensor], str, int]:
        """The arguments of the operators that read packed transform codes, but for the ids."""
        rows = [self.get_buffer(name) for name in self._row_names]
        buffers = dict(self.codec.named_buffers())
        shared = [buffers[name] for name in self._shared_names]
        return rows, shared, self._shape_text, self.num_embeddings

    def padded_vectors(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors, that of the padding id zero."""
        found = self._lookup.vectors(self, ids)
        return self.composed(ids) if found is None else found

    def composed(self, ids: Tensor) -> Tensor:
        """The same by torch's operators."""
        return super().padded_vectors(ids)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors; errors as of `EmbeddingLayer.forward`."""
        if self.is_expanded:
            return self.rows_of(self.expanded_rows(), self._checked(ids))
        found = self._lookup.vectors(self, ids)
        return super().forward(ids) if found is None else found

    def rows_of(self, table: ExpandedRows, ids: Tensor) -> Tensor:
        """The vectors of ids of any shape in the whole table."""
        if not ids.is_cpu:
            self._in_range(ids.reshape(-1))
        try:
            return table.at(ids, self.codec.dtype)
        except IndexError:  # on the CPU torch checks ids by itself
            self._in_range(ids.reshape(-1))
            raise

    @property
    def is_expanded(self) -> bool:
        """Whether vectors are taken from the whole table.

        A graph that is compiled has the codes alone; tensors of inference mode do not tell when they are written to.
        """
        return self._may_expand and not torch.compiler.is_compiling() and not self.code_rows.is_inference()

    def expanded_rows(self) -> ExpandedRows:
        """All vectors, decoded where those that are kept are not of the tensors that are there now."""
        own = tensors_of(self, self._modules["codec"])
        table, seen = self._buffers["expanded"], self._expanded_from
        if table is None or seen is None or len(table) != self.num_embeddings or not seen.are(own):
            assert self.expand is not None  # noqa: S101 - for the type checker
            parts = [ExpandedRows.of(self.padded_vectors(ids), EXPANDED_TYPES[self.expand]) for ids in self.all_ids()]
            table = self.expanded = torch.cat([part.numbers for part in parts])
            scales = [part.scales for part in parts if part.scales is not None]
            self.expanded_scales = torch.cat(scales) if scales else None
            self._expanded_from = TensorsSeen(own, places_of(self), values=True)
        return ExpandedRows(table, self._buffers["expanded_scales"])

    def scores(self, hidden: Tensor) -> Tensor | None:
        """(n, d) hidden vectors to their (n, N) products with rows of transform codes, that of the padding id zero.

        None where torch's operators have to make them.
        """
        found = self._lookup.scores(self, hidden)
        if found is None:
            return None
        if self.padding_idx is not None:
            found[:, self.padding_idx] = 0
        return torch.from_numpy(found)

    def kept_or_padded(self, ids: Tensor) -> Tensor:
        """(n,) ids in [0, N) to (n, d) vectors: those that are kept, or `padded_vectors`."""
        return self.expanded_rows().at(ids, self.codec.dtype) if self.is_expanded else self.padded_vectors(ids)

    def refresh(self) -> None:
        """Look at all tensors anew.

        Call it after numbers were written through `.data`, or a tensor of the layer was resized in place: torch counts
        neither. All other changes count by themselves.
        """
        self._lookup.refresh()
        self.expanded = self.expanded_scales = self._expanded_from = None
        self.codec.refresh()
        if self._entropy_coded:
            forget_decoders()

    def _composes_all(self, ids: Tensor) -> bool:
        # Sorting pays where ids repeat; that they do is certain where there are more of them than half the rows.
        return super()._composes_all(ids) or 2 * ids.numel() < self.num_embeddings


def _check_codec(codec: Codec, *, form: str, trainable: bool, dtype: torch.dtype | None) -> None:
    """Refuse what cannot be made of a codec."""
    if trainable and not isinstance(codec, CodewordCodec):
        raise OptionError(
            "trainable: transform codes have no codewords to train; leave it out, or compress the table with "
            "codewords=True"
        )
    if codec.may_overflow and (trainable or form != "packed") and dtype != torch.float64:
        raise OptionError(
            "the codewords of this table are so large that their sums may leave float32; "
            "set dtype to torch.float64, or form to 'packed' and trainable to False"
        )


def as_coded(source: CodedSource) -> CodedTable:
    """A coded table as it is, or the one of a .kdc file."""
    if isinstance(source, CodedTable | str | PathLike):
        coded = source if isinstance(source, CodedTable) else load(source)
        coded.require_rows()
        return coded
    raise OptionError(
        f"expected a CodedTable or the path of a .kdc file, got {type(source).__name__}; "
        'compress a table first: coded = kdcode.compress(table, "20x")'
    )


def unpack(packed: Tensor, widths: Sequence[int]) -> Tensor:
    """`bitpack.unpack` in torch: (n, ceil(sum of widths / 8)) bytes to (n, columns) integers."""
    parts, start = [], 0
    for bits, equal in groupby(widths):
        end = start + bits * len(list(equal))
        parts.append(_unpack_equal(packed, bits, start, end))
        start = end
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _unpack_equal(packed: Tensor, bits: int, start: int, end: int) -> Tensor:
    """Columns of equal width, which fill the bits from `start` to `end` of a row."""
    if bits == 8 and start % 8 == 0:
        return packed[:, start // 8 : end // 8]
    places = torch.arange(start, end, bits, device=packed.device)
    first = places >> 3
    most_bytes = (bits + 14) // 8  # that a value lies in where it begins with the last bit of a byte
    wide = F.pad(packed, (0, most_bytes - 1)).long()
    word = wide.index_select(1, first)
    for byte in range(1, most_bytes):
        # by functions that torch.onnx.export knows, which are fewer than there are operators
        word = word | torch.bitwise_left_shift(wide.index_select(1, first + byte), 8 * byte)
    return torch.bitwise_right_shift(word, places & 7).bitwise_and((1 << bits) - 1)
