"""Random generators made from a seed, a purpose and a number, so that a resumed run draws what it would have drawn."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def generator_for(seed: int, purpose: str, number: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on nothing but its arguments; the global generators are not touched."""
    words = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), number]).generate_state(2)
    return torch.Generator(device=device).manual_seed(int(words[0]) << 32 | int(words[1]))
