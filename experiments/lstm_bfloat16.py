"""The layers of an `nn.LSTM` with products in bfloat16, on a processor, for wide layers.

A step of the large model takes 0.9 s with them, and 1.5 s with torch's own. Torch multiplies the gradients of each step
of the text by themselves; here all steps are one product. Inputs of products are rounded to bfloat16, their sums are
float32 inside of a product, and gates, states and weights are float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor]
ROUNDED = torch.bfloat16


class LstmLayer(torch.autograd.Function):
    """One layer over a sequence, gates in torch's order i, f, g, o.

    Inputs: (steps, n, e) vectors, (n, h) hidden state and memory, (4h, e) and (4h, h) weights, (4h,) sum of the biases.
    Outputs: (steps, n, h) hidden states, and the memory after the last step; no gradient goes through the states
    between stretches of text.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        vectors: Tensor,
        hidden: Tensor,
        memory: Tensor,
        by_input: Tensor,
        by_hidden: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Keep gates, memories and rounded inputs for the way back."""
        steps, lanes, _ = vectors.shape
        size = by_hidden.shape[1]
        inputs, by_input, recurrent = vectors.to(ROUNDED), by_input.to(ROUNDED), by_hidden.to(ROUNDED)
        gates = (inputs.flatten(0, 1) @ by_input.t()).float().add_(bias).view(steps, lanes, 4 * size)
        hiddens = vectors.new_empty((steps + 1, lanes, size), dtype=torch.float32)
        memories, squashed = torch.empty_like(hiddens), vectors.new_empty((steps, lanes, size), dtype=torch.float32)
        hiddens[0], memories[0] = hidden, memory
        for step in range(steps):
            gate = gates[step].add_(hiddens[step].to(ROUNDED) @ recurrent.t())
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            write, keep, candidate, show = gate.chunk(4, dim=1)
            torch.mul(keep, memories[step], out=memories[step + 1]).addcmul_(write, candidate)
            torch.tanh(memories[step + 1], out=squashed[step])
            torch.mul(show, squashed[step], out=hiddens[step + 1])
        ctx.save_for_backward(inputs, by_input, recurrent, gates, hiddens, memories, squashed)
        last = memories[steps].clone()
        ctx.mark_non_differentiable(last)
        return hiddens[1:], last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Back through the steps; gradients of weights and inputs are one product over all of them at the end."""
        inputs, by_input, recurrent, gates, hiddens, memories, squashed = ctx.saved_tensors
        steps, lanes, size = squashed.shape
        grad_gates = torch.empty_like(gates)
        grad_hidden, grad_memory = grads[0].new_zeros(lanes, size), grads[0].new_zeros(lanes, size)
        for step in reversed(range(steps)):
            write, keep, candidate, show = gates[step].chunk(4, dim=1)
            to_write, to_keep, to_candidate, to_show = grad_gates[step].chunk(4, dim=1)
            grad_hidden = grads[0][step] + grad_hidden
            tangent = squashed[step]
            torch.mul(grad_hidden, tangent, out=to_show).mul_(show).mul_(1 - show)
            grad_memory.addcmul_(grad_hidden * show, 1 - tangent.square())
            torch.mul(grad_memory, memories[step], out=to_keep).mul_(keep).mul_(1 - keep)
            torch.mul(grad_memory, candidate, out=to_write).mul_(write).mul_(1 - write)
            torch.mul(grad_memory, write, out=to_candidate).mul_(1 - candidate.square())
            grad_memory.mul_(keep)
            grad_hidden = (grad_gates[step].to(ROUNDED) @ recurrent).float()
        flat = grad_gates.flatten(0, 1)
        rounded = flat.to(ROUNDED)
        return (
            (rounded @ by_input).float().view(steps, lanes, -1),
            None,
            None,
            (rounded.t() @ inputs.flatten(0, 1)).float(),
            (rounded.t() @ hiddens[:-1].flatten(0, 1).to(ROUNDED)).float(),
            flat.sum(dim=0),
        )


def lstm_in_bfloat16(layers: nn.LSTM, vectors: Tensor, state: State | None) -> tuple[Tensor, State]:
    """What `layers(vectors, state)` gives in training, with dropout between layers, by products in bfloat16."""
    hiddens, memories = [], []
    shape = (layers.num_layers, vectors.shape[1], layers.hidden_size)
    before = (vectors.new_zeros(shape), vectors.new_zeros(shape)) if state is None else state
    for number in range(layers.num_layers):
        if number:
            vectors = F.dropout(vectors, layers.dropout, layers.training)
        by_input, by_hidden, bias, other_bias = (
            getattr(layers, f"{name}_l{number}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        vectors, memory = LstmLayer.apply(
            vectors, before[0][number], before[1][number], by_input, by_hidden, bias + other_bias
        )
        hiddens.append(vectors[-1])
        memories.append(memory)
    return vectors, (torch.stack(hiddens), torch.stack(memories))
