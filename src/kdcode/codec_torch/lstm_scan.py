"""The paper's LSTM over codewords, forward and backward by hand.

Written out because autograd keeps and copies an array per gate, position and operation: this is several times
quicker. `kdcode.codec.Lstm` and a plain loop in the tests are its references.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LstmScan(torch.autograd.Function):
    """Σ_j h_j of an LSTM whose gates f, i, o, m each add the codeword, U h and a bias (section 2 of the paper).

    Inputs: words (n, D, e), recurrent (4, e, e), bias (4, e). Output: (n, e).
    """

    @staticmethod
    def forward(ctx: Any, words: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:  # noqa: ANN401
        """Run the positions in order, keeping gates and states for the way back."""
        rows, length, size = words.shape
        gates = words.new_empty(length, 4, rows, size)
        hidden = words.new_zeros(length + 1, rows, size)
        memory = words.new_zeros(length + 1, rows, size)
        weight = recurrent.transpose(1, 2)
        for position in range(length):
            gate = gates[position]
            torch.baddbmm(bias[:, None], hidden[position].expand(4, -1, -1), weight, out=gate)
            gate.add_(words[:, position])
            gate[:3].sigmoid_()
            gate[3].tanh_()
            keep, write, show, candidate = gate
            torch.mul(keep, memory[position], out=memory[position + 1])
            memory[position + 1].addcmul_(write, candidate)
            torch.tanh(memory[position + 1], out=hidden[position + 1]).mul_(show)
        ctx.save_for_backward(gates, hidden, memory, recurrent)
        return hidden.sum(dim=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
        """Back through the positions; the gradients of U and b are one product over all of them at the end."""
        gates, hidden, memory, recurrent = ctx.saved_tensors
        grad_gates = torch.empty_like(gates)
        grad_hidden = grads[0].clone()
        grad_memory = torch.zeros_like(grad_hidden)
        for position in reversed(range(len(gates))):
            keep, write, show, candidate = gates[position]
            out_keep, out_write, out_show, out_candidate = grad_gates[position]
            squashed = memory[position + 1].tanh()
            torch.mul(grad_hidden, squashed, out=out_show).mul_(show * (1 - show))
            grad_memory += grad_hidden * show * (1 - squashed.square_())
            torch.mul(grad_memory, memory[position], out=out_keep).mul_(keep * (1 - keep))
            torch.mul(grad_memory, candidate, out=out_write).mul_(write * (1 - write))
            torch.mul(grad_memory, write, out=out_candidate).mul_(1 - candidate.square())
            grad_memory *= keep
            grad_hidden = torch.bmm(grad_gates[position], recurrent).sum(dim=0).add_(grads[0])
        by_gate = grad_gates.transpose(0, 1).flatten(1, 2)  # (4, D·n, e)
        before = hidden[:-1].flatten(0, 1).expand(4, -1, -1)
        return grad_gates.sum(dim=1).transpose(0, 1), torch.bmm(by_gate.transpose(1, 2), before), by_gate.sum(dim=1)
