"""The device that learning computes on, checked before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdcode.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    import torch


def checked_device(device: torch.device | str) -> torch.device | str:
    """The device of that name; the CPU needs no torch.

    Raises:
        OptionError: torch knows no such device, or cannot use it here.
        MissingExtraError: there is no torch for it.
    """
    if device == "cpu":
        return device
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the device {device}", "learn") from error
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
