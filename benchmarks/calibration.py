"""Codes for an output head, learned so that logits change little, and not vectors.

A head's logits are dot products of its rows with states, and states are far from even: in SmolLM2 two thirds of their
energy lie in one direction. The squared error of a logit is the squared length of the row's error times a root of the
states' second moment. So rows are multiplied by that root before codes are learned, and codewords by its inverse
afterwards, which costs no byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import kdcode
from kdcode.codec_torch import module_of


def root_of_moment(states: Tensor, even: float = 1.0) -> Tensor:
    """(n, d) states to a (d, d) root of their second moment.

    Args:
        states: what the head is given.
        even: how much the plain error of the vectors counts beside the error of logits, since one table serves the
            token table, too.
    """
    moment = states.t() @ states
    size = len(moment)
    return torch.linalg.cholesky(moment * size / moment.trace() + even * torch.eye(size))


def calibrated(
    matrix: np.ndarray[Any, Any],
    weights: np.ndarray[Any, Any] | None,
    root: Tensor,
    size: str,
    *,
    effort: str,
    checkpoint: str | None = None,
) -> kdcode.CodedTable:
    """Codes of an (N, d) matrix for logits, by the best plan whose codec can take in the inverse of the root."""
    table = kdcode.as_table(matrix @ root.numpy(), weights=weights)
    plan = kdcode.plan(table, size, effort=effort)
    options = next(
        one.options for one in plan.candidates if one.options.rotation or one.options.composition == "linear"
    )
    return with_root_taken_out(kdcode.compress(table, options=options, checkpoint=checkpoint), root)


@torch.no_grad()
def with_root_taken_out(coded: kdcode.CodedTable, root: Tensor) -> kdcode.CodedTable:
    """Codes of `table @ root` as codes of the table: the inverse goes into the rotation, or into codewords."""
    codec, inverse = module_of(coded.codec), torch.linalg.inv(root)
    weight = codec.codebook if codec.basis is None else codec.basis
    weight.copy_(weight @ inverse)
    return kdcode.CodedTable.from_codes(None, coded.codes, codec.to_codec(), coded.provenance)
