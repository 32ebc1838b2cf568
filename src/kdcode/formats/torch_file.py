"""PyTorch .pt, .pth and .bin: one matrix of a state dict. Only data is loaded, never code."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kdcode.errors import FormatError, MissingExtraError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

BARE = "tensor"
"""What a file is taken to call its tensor when it holds nothing else."""

_MAX_DEPTH = 8


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a PyTorch file; tensors of nested dicts are named with dots, as in `state_dict.embed.weight`."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("reading PyTorch files", "learn") from None
    try:
        # The older format, which is not a zip file, cannot be mapped.
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # unpickling hostile data can end in any exception
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(
            f"{path}: not a PyTorch file of plain tensors: {reason[:200]} "
            "(files that need code to be run are never loaded; save the state dict or the tensor alone)"
        ) from None
    floats = {
        name: value
        for name, value in _leaves(loaded if isinstance(loaded, Mapping) else {BARE: loaded})
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout == torch.strided
    }
    name = matrices.choose(path, {name: tuple(tensor.shape) for name, tensor in floats.items()}, options.tensor)
    kept = floats[name].detach()[: options.limit]
    known = kept.dtype in (torch.float16, torch.float32, torch.float64)
    matrix = (kept if known else kept.float()).numpy()
    return matrices.named_table(path, options, matrix, len(floats[name]))


def _leaves(values: Mapping[Any, Any], prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """What nested dicts hold, by dotted name."""
    for key, value in values.items():
        if not isinstance(value, Mapping):
            yield f"{prefix}{key}", value
        elif depth < _MAX_DEPTH:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)
