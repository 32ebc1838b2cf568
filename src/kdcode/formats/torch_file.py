"""PyTorch .pt, .pth and .bin: one matrix of a state dict. Only data is loaded, never code."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdcode.errors import FormatError, MissingExtraError
from kdcode.formats import symbol_file, tensors
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

if TYPE_CHECKING:
    import torch

BARE = "tensor"
"""What a file is taken to call its tensor when it holds nothing else."""

_MAX_DEPTH = 8


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a PyTorch file; tensors of nested dicts are named with dots, as in `state_dict.embed.weight`."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("reading PyTorch files", "learn") from None
    loaded = _load(path)
    found = dict(_tensors(loaded, "")) if isinstance(loaded, Mapping) else {BARE: loaded}
    floats = {
        name: tensor
        for name, tensor in found.items()
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.layout == torch.strided
    }
    name = tensors.choose(path, {name: tuple(tensor.shape) for name, tensor in floats.items()}, options.tensor)
    chosen = floats[name].detach()
    symbols = symbol_file.symbols_for(path, options, (chosen.shape[0], chosen.shape[1]))
    limited = chosen[: options.limit]
    known = limited.dtype in (torch.float16, torch.float32, torch.float64)
    return VectorTable(symbols, (limited if known else limited.float()).numpy())


def _load(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    import torch

    try:
        # The older format, which is not a zip file, cannot be mapped.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # unpickling hostile data can end in any exception
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(
            f"{path}: not a PyTorch file of plain tensors: {reason[:200]} "
            "(files that need code to be run are never loaded; save the state dict or the tensor alone)"
        ) from None


def _tensors(values: Mapping[Any, Any], prefix: str, depth: int = 1) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    for key, value in values.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
            yield from _tensors(value, f"{prefix}{key}.", depth + 1)
