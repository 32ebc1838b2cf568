"""How large the files of a Transformers model are with its own table and with codes, and whether they load as saved."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

import kdcode
from kdcode.integrations.transformers_models import remember_codes
from kdcode.nn import CodedEmbedding, CodedOutput


def with_codes(model: PreTrainedModel, coded: kdcode.CodedTable) -> PreTrainedModel:
    """A copy of a model with codes in place of its token table, and of an output head that is tied to it."""
    small = copy.deepcopy(model)
    table, head = small.get_input_embeddings(), small.get_output_embeddings()
    layer = CodedEmbedding(coded)
    small.set_input_embeddings(layer)
    if head is not None and head.weight is table.weight:
        small.set_output_embeddings(CodedOutput(layer))
    remember_codes(small)
    return small.eval()


@torch.no_grad()
def file_sizes(model: PreTrainedModel, coded: kdcode.CodedTable, ids: Tensor) -> dict[str, Any]:
    """Bytes of all that `save_pretrained` writes, before and after.

    Args:
        model: the original.
        coded: its table.
        ids: (batch, length) tokens; what is loaded is to give the same output for them as what was saved.
    """
    small = with_codes(model, coded)
    before, _ = _saved(model)
    after, loaded = _saved(small)
    outputs = [one(input_ids=ids)[0] for one in (small, loaded)]
    return {
        "full_file_bytes": before,
        "file_bytes": after,
        "loads_as_saved": bool(torch.equal(*outputs)),
    }


def _saved(model: PreTrainedModel) -> tuple[int, PreTrainedModel]:
    """Save a model in a folder: the bytes of its files, and the model that is loaded from them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        return size, type(model).from_pretrained(folder, dtype=model.dtype).eval()
