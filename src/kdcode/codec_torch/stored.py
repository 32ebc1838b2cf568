"""StoredCodec: a codec in torch that takes the bytes of the file; nothing in it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy.typing as npt
import torch
from torch import Tensor, nn

from kdcode.codec import Codec, CodewordSpec, codec_from_tensors
from kdcode.codec_torch.kinds import CODEC_MODULES
from kdcode.codec_torch.lookup import lookup, scale_rows
from kdcode.codec_torch.module import shape_of
from kdcode.codec_torch.twin import Twin, for_torch


class StoredCodec(nn.Module):
    """The tensors of `Codec.tensors()` as buffers, in their stored types: int8 and float16 stay so, with their scales.

    Only uint16 becomes int16, of the same bytes.

    Every call computes in float32, or in float64 where sums of codewords may leave float32, with weights that are
    expanded for this call alone, and rounds the vectors to `dtype`. `half()`, `to(torch.bfloat16)` and the like change
    `dtype` and leave the stored tensors as they are.

    Transform codes are decoded by the core, on the CPU: see `in_numpy`.

    Args:
        codec: whose tensors are copied.
        device: where they live.
        dtype: type of the decoded vectors; torch's default type if None.
    """

    codebook: Tensor
    codebook_scale: Tensor
    scale_levels: Tensor | None

    def __init__(
        self, codec: Codec, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.spec = codec.spec
        self.dtype = torch.get_default_dtype() if dtype is None else dtype
        self._twin: Twin[Codec] = Twin()
        self.register_buffer("scale_levels", None)
        for name, array in codec.tensors().items():
            self.register_buffer(name, torch.tensor(for_torch(array), device=device))
        self._computed_in = _type_for(codec)
        self._others: tuple[str, ...] = ()
        if isinstance(codec.spec, CodewordSpec):
            _ = codec.spec.blocks  # kept by the spec from here on: torch.compile cannot compute a cached property
            self._others = tuple(name for name in codec.spec.weight_shapes() if name != "codebook")

    def decode(self, codes: Tensor) -> Tensor:
        """(n, columns) codes to (n, d) vectors."""
        spec = self.spec
        if not isinstance(spec, CodewordSpec):
            return torch.from_numpy(self.in_numpy().decode(codes.cpu().numpy())).to(codes.device, self.dtype)
        kind = CODEC_MODULES[spec.kind]
        weights = {name: self._floats(name) for name in self._others}
        # Fewer codewords are expanded by taking those of the codes first, unless there are many codes. Half as many as
        # codewords is where it turns, since sums of codes under a whole codebook are fused. A graph that is compiled or
        # exported is for any number of codes, and must not depend on it.
        is_many = not torch.compiler.is_compiling() and 2 * len(codes) >= spec.codebook_size
        if self.codebook.dtype == torch.float32 or is_many:
            weights["codebook"] = self._floats("codebook")
            vectors = kind.compose_codes(spec, weights, codes)
        else:
            vectors = kind.compose_words(spec, weights, self._words(codes))
        return scale_rows(vectors, codes, self.scale_levels).to(self.dtype)

    def in_numpy(self) -> Codec:
        """The codec of the tensors that are there now; those on another device are fetched when they have changed."""
        return self._twin.of(dict(self.named_buffers()), self._codec_of)

    def stored_tensors(self) -> dict[str, Tensor]:
        """The tensors, named as in files."""
        return {name: tensor for name, tensor in self._buffers.items() if tensor is not None}

    @property
    def weights(self) -> dict[str, Tensor]:
        """All weights by name as the floats that they stand for, expanded for this call."""
        return {name: self._floats(name) for name in ("codebook", *self._others)}

    def _words(self, codes: Tensor) -> Tensor:
        """(n, columns) codes to their (n, D, e) codewords."""
        words = lookup(codes[:, : self.spec.code_length], self.codebook)
        return (words * self.codebook_scale[:, 0]).to(self._computed_in)

    def _floats(self, name: str) -> Tensor:
        """A weight as the floats that it stands for."""
        stored: Tensor = getattr(self, name)
        scale: Tensor | None = getattr(self, f"{name}_scale", None)
        return (stored.float() if scale is None else stored.float().mul_(scale)).to(self._computed_in)

    def _load_from_state_dict(self, *arguments: Any) -> None:  # noqa: ANN401 - those of nn.Module
        super()._load_from_state_dict(*arguments)
        self.settle()

    def refresh(self) -> None:
        """Look at the tensors anew, after they were changed in a way that torch does not count."""
        self._twin.forget()
        self.settle()

    def settle(self) -> None:
        """Choose the type to compute in for the tensors that are there now; for whoever sets them one by one."""
        tensors = dict(self.named_buffers())
        if not any(tensor.is_meta for tensor in tensors.values()):
            self._computed_in = _type_for(
                self._codec_of({name: tensor.cpu().numpy() for name, tensor in tensors.items()})
            )

    def _codec_of(self, arrays: dict[str, npt.NDArray[Any]]) -> Codec:
        """The codec of arrays of the types that torch has, which are those of the file or have their bytes."""
        layout = self.spec.tensor_layout()
        return codec_from_tensors(self.spec, {name: array.view(layout[name][0]) for name, array in arrays.items()})

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `to`, `half`, `cuda` and the like call: tensors move between devices, and only `dtype` changes type."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype

        def moved(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        super()._apply(moved, recurse)
        return self

    def extra_repr(self) -> str:
        """The shape and the types for printing."""
        if isinstance(self.spec, CodewordSpec):
            return f"{shape_of(self.spec)}, codebook_dtype={self.spec.codebook_dtype}, dtype={self.dtype}"
        return f"{self.spec.words}, embedding_dim={self.spec.embedding_dim}, dtype={self.dtype}"


def _type_for(codec: Codec) -> torch.dtype:
    return torch.float64 if codec.may_overflow else torch.float32
