"""CodedOutput: the output layer of a model, whose logits are computed from codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from kdcode.codec import CodewordSpec
from kdcode.codec.spec import LSTM
from kdcode.codec_torch import CODEC_MODULES, TransformModule
from kdcode.codec_torch.lookup import flat_codes
from kdcode.errors import OptionError
from kdcode.int8_rows import int8_scores
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_layer import CodedLayer, CodedSource
from kdcode.nn.core_lookup import has_numbers
from kdcode.nn.expanded_rows import ExpandedRows
from kdcode.nn.table_reader import TableReader, table_for

_BATCH, _TOGETHER = 64, 512
"""Hidden vectors whose dot products are looked up at once, since those of more do not stay in the cache, and those for
which codes are unpacked once."""


class CodedOutput(TableReader):
    """Called like the `nn.Linear` of a language model's head: hidden vectors (…, d) to logits (…, N).

    The logits are those of the decoded table, `hidden @ table.weight.T + bias`, without the table: each hidden vector
    is multiplied with the D·K codewords, and the logit of a symbol is the sum of the D products that its code names.
    Hidden vectors are rotated for transform codes, whose levels they are then multiplied by. Rows of
    LSTM codes are decoded, a few thousand at a time.

    Gradients reach hidden vectors and bias, and codewords where the table is trainable. Products and sums are of type
    float32 or wider, and logits of the type of the hidden vectors, or of autocast's.

        layer = CodedEmbedding(coded)
        head = CodedOutput(layer)             # tied: codes and codewords are those of `layer`
        head = CodedOutput(coded)             # a table of its own

    Args:
        table: a `CodedEmbedding`; or a coded table or the path of a .kdc file, of which one is made.
        bias: (N,) numbers to add, a parameter as it is; True for zeros to begin with.
        tied: whether `table` belongs to another layer of the model, as a `CodedEmbedding` does by default; otherwise it
            becomes a submodule.
        **own: arguments of `CodedEmbedding` where one is made: `form`, `trainable`, `device`, `dtype`, `expand`,
            `expand_below`. With `expand`, logits are products with the rows that are kept.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        table: CodedLayer | CodedSource,
        bias: Tensor | bool | None = None,
        *,
        tied: bool | None = None,
        **own: Any,  # noqa: ANN401 - those of CodedEmbedding
    ) -> None:
        given = isinstance(table, CodedLayer)
        if given and own:
            raise OptionError(f"{', '.join(own)}: the embedding has its own already; give them when you make it")
        if tied and not given:
            raise OptionError("tied: expected the CodedEmbedding to be tied to, got a coded table")
        layer = table if isinstance(table, CodedLayer) else CodedEmbedding(table, **own)
        super().__init__(layer, tied=given if tied is None else tied)
        self.in_features, self.out_features = self.table.embedding_dim, self.table.num_embeddings
        self.bias = _as_parameter(bias, self.table)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        table: CodedLayer | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> Self:
        """An output layer of the shape of another, all zeros, to be filled by `load_state_dict`.

        Args:
            config: the `config` of the other layer.
            table: the embedding to be tied to, where the other is tied.
            device: where the layer lives.
        """
        return cls(table_for(config, table, device), bool(config["bias"]), tied=table is not None)

    @property
    def config(self) -> dict[str, Any]:
        """JSON values that `from_config` builds a layer of the same shape from."""
        return {**super().config, "bias": self.bias is not None}

    @property
    def weight(self) -> Tensor:
        """A tensor with the shape and the type of the table and without its numbers, which are in `table.weight`.

        Models ask the weights of their output layer for both, some in every call.
        """
        return self.table.blank_weight

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, d) hidden vectors to (…, N) logits.

        Raises:
            OptionError: hidden vectors of another size, or on another device than the table.
        """
        if hidden.shape[-1] != self.in_features or hidden.device != self.table.device:
            raise OptionError(
                f"hidden: expected (…, {self.in_features}) on {self.table.device}, "
                f"got {tuple(hidden.shape)} on {hidden.device}"
            )
        kind = hidden.device.type
        cast = torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64
        dtype = torch.get_autocast_dtype(kind) if cast else hidden.dtype
        flat = hidden.reshape(-1, self.in_features)
        with torch.autocast(kind, enabled=False):
            if torch.compiler.is_compiling() or not torch.is_grad_enabled():
                logits = self._logits(flat, dtype)
            else:
                logits = _WithGradients.apply(self, dtype, flat, self.bias, *self.table.codec.parameters())
        return logits.view(*hidden.shape[:-1], self.out_features)

    def _logits(self, hidden: Tensor, dtype: torch.dtype) -> Tensor:
        """(n, d) hidden vectors to (n, N) logits of type `dtype`."""
        codec = self.table.codec
        kept = self.table.expanded_rows() if self.table.is_expanded else None
        if kept is not None and kept.numbers.dtype == hidden.dtype == dtype:
            return F.linear(hidden, kept.numbers, self.bias)
        logits = hidden.new_empty(len(hidden), self.out_features, dtype=dtype)
        if kept is not None:
            self._fill_from_kept(logits, hidden.to(_wide(hidden.dtype, codec.dtype)), kept)
            return logits
        if isinstance(codec, TransformModule) or not isinstance(codec.spec, CodewordSpec) or codec.spec.kind == LSTM:
            self._fill_from_rows(logits, hidden.to(_wide(hidden.dtype, codec.dtype)))
            return logits
        weights = codec.weights
        wide = _wide(hidden.dtype, weights["codebook"].dtype)
        weights = {name: weight.to(wide) for name, weight in weights.items()}
        for start, some in _parts(hidden.to(wide), _TOGETHER):
            self._fill(logits.narrow(0, start, len(some)), some, codec.spec, weights)
        return logits

    def _fill(self, logits: Tensor, hidden: Tensor, spec: CodewordSpec, weights: Mapping[str, Tensor]) -> None:
        """Write the (n, N) logits of (n, d) hidden vectors, for some rows of the table after another."""
        levels: Tensor | None = self.table.codec.get_buffer("scale_levels") if spec.scale_bits else None
        kind = CODEC_MODULES[spec.kind]
        places = [logits.narrow(0, start, len(some)) for start, some in _parts(hidden, _BATCH)]
        products = [kind.dot_products(spec, weights, batch) for _, batch in _parts(hidden, _BATCH)]
        for ids, columns in self._rows():
            codes = self.table.codes_of(ids)
            flat = flat_codes(codes[:, : spec.code_length], spec.codebook_size)
            scales = None if levels is None else levels[codes[:, -1].long()]
            bias = None if self.bias is None else self.bias[columns]
            for place, found in zip(places, products, strict=True):
                sums = F.embedding_bag(flat, found, mode="sum")
                sums = sums if scales is None else sums * scales[:, None]
                if self.table.padding_idx is not None:
                    sums = sums.masked_fill((ids == self.table.padding_idx)[:, None], 0)
                place[:, columns] = (sums if bias is None else sums + bias[:, None]).t()

    def _fill_from_kept(self, logits: Tensor, hidden: Tensor, kept: ExpandedRows) -> None:
        """Write the (n, N) logits of (n, d) hidden vectors, from all rows of the table."""
        if (found := _int8_scores(hidden, kept)) is not None:
            logits.copy_(found if self.bias is None else found + self.bias)
            return
        for _, columns in self._rows():  # rows as floats, so few that they stay in the cache
            found = hidden @ kept.numbers[columns].to(hidden.dtype).t()
            found = found if kept.scales is None else found * kept.scales[columns]
            logits[:, columns] = found if self.bias is None else found + self.bias[columns]

    def _fill_from_rows(self, logits: Tensor, hidden: Tensor) -> None:
        """The same where vectors are no sums of codewords.

        The core multiplies transform codes with hidden vectors; other rows are decoded, some after another.
        """
        scores = self.table.scores(hidden)
        if scores is not None:
            logits.copy_(scores if self.bias is None else scores.add_(self.bias))
            return
        for ids, columns in self._rows():
            found = hidden @ self.table.padded_vectors(ids).to(hidden.dtype).t()
            logits[:, columns] = found if self.bias is None else found + self.bias[columns]

    def _rows(self) -> Iterator[tuple[Tensor, slice]]:
        """All rows of the table, a few thousand at a time: their numbers, and where they are."""
        start = 0
        for ids in self.table.all_ids():
            yield ids, slice(start, start + len(ids))
            start += len(ids)

    def extra_repr(self) -> str:
        """Shape for printing."""
        shape = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{shape}, tied={self.is_tied}"


class _WithGradients(torch.autograd.Function):
    """Logits by look-ups; backward by products with decoded rows, a few thousand at a time.

    The gradient of a look-up is a scattered sum, which takes many times longer than a product of matrices. Nothing but
    the hidden vectors is kept between the two.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        head: CodedOutput,
        dtype: torch.dtype,
        hidden: Tensor,
        bias: Tensor | None,
        *weights: Tensor,
    ) -> Tensor:
        ctx.head = head
        ctx.save_for_backward(hidden, *weights)
        return head._logits(hidden, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own
        head: CodedOutput = ctx.head
        hidden, *weights = ctx.saved_tensors
        _, _, for_hidden, for_bias, *for_weights = ctx.needs_input_grad
        wide = _wide(hidden.dtype, head.table.codec.dtype)
        rows = hidden.to(wide)
        grad_hidden = torch.zeros_like(rows) if for_hidden else None
        wanted = [weight for weight, needed in zip(weights, for_weights, strict=True) if needed]
        sums = [torch.zeros_like(weight, dtype=wide) for weight in wanted]
        for ids, columns in head._rows() if for_hidden or wanted else ():
            part = grad[:, columns].to(wide)
            with torch.set_grad_enabled(bool(wanted)):
                vectors = head.table.kept_or_padded(ids)
            if grad_hidden is not None:
                grad_hidden.addmm_(part, vectors.detach().to(wide))
            if wanted:
                found = torch.autograd.grad(vectors, wanted, (part.t() @ rows).to(vectors.dtype))
                sums = [total.add_(one) for total, one in zip(sums, found, strict=True)]
        found_sums = iter(sums)
        grads = [next(found_sums).to(weights[0].dtype) if needed else None for needed in for_weights]
        grad_bias = grad.sum(dim=0, dtype=wide).to(head.bias.dtype) if for_bias and head.bias is not None else None
        return None, None, None if grad_hidden is None else grad_hidden.to(hidden.dtype), grad_bias, *grads


def _int8_scores(hidden: Tensor, kept: ExpandedRows) -> Tensor | None:
    """(n, N) products with rows of int8 by the core; None where torch's operators have to make them."""
    if kept.scales is None or not has_numbers(hidden) or not has_numbers(kept.numbers):
        return None
    asked = hidden.detach().double().numpy()
    return torch.from_numpy(int8_scores(kept.numbers.numpy(), kept.scales.numpy(), asked, torch.get_num_threads()))


def _wide(hidden: torch.dtype, weights: torch.dtype) -> torch.dtype:
    """The type of products and sums: that of hidden vectors and weights, and at least float32."""
    return torch.promote_types(torch.promote_types(hidden, weights), torch.float32)


def _parts(hidden: Tensor, size: int) -> list[tuple[int, Tensor]]:
    """(n, d) hidden vectors in parts of `size`, each with the number of its first vector."""
    return [(start, hidden[start : start + size]) for start in range(0, len(hidden), size)]


def _as_parameter(bias: Tensor | bool | None, table: CodedLayer) -> nn.Parameter | None:
    if bias is None or bias is False:
        return None
    if bias is True:
        bias = torch.zeros(table.num_embeddings, dtype=table.codec.dtype, device=table.device)
    if not isinstance(bias, Tensor) or bias.shape != (table.num_embeddings,):
        shape = tuple(bias.shape) if isinstance(bias, Tensor) else type(bias).__name__
        raise OptionError(f"bias: expected a tensor of shape ({table.num_embeddings},), True or None, got {shape}")
    return bias if isinstance(bias, nn.Parameter) else nn.Parameter(bias)
