"""The device that learning computes on, checked before any work."""

from __future__ import annotations

import torch

from kdcode.errors import OptionError


def checked_device(device: torch.device | str) -> torch.device:
    """The device of that name.

    Raises:
        OptionError: torch knows no such device, or cannot use it here.
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        # torch asserts that it was built for a device
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise OptionError(
            f"device must be one that torch can use here, got {str(device)!r}: {reason}; leave it out to use the CPU"
        ) from None
    if found.type == "meta":
        raise OptionError("device must be one that can compute, got 'meta'; leave it out to use the CPU")
    return found
