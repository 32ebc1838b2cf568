"""How a run is carried out: what it shows, where it saves itself, and on what it computes. None of it changes codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kdcode.errors import MissingExtraError, OptionError
from kdcode.learning.checkpoint import Checkpoint
from kdcode.option_fields import check_fields, option
from kdcode.option_keywords import OptionKeywords

if TYPE_CHECKING:
    import torch

Settings = TypeVar("Settings", bound="PlanSettings")


@dataclass(frozen=True)
class PlanSettings:
    """How a plan is made."""

    progress: bool | Callable[..., None] = option(
        False, "True shows a progress bar; a function is called before each probe with (done, of, name)."
    )
    device: torch.device | str = option(
        "cpu", "Where learners by gradients compute, as torch names it: cpu, cuda, cuda:1."
    )
    threads: int | None = option(None, "CPU threads; by default as many as this process may use.", low=1)

    def __post_init__(self) -> None:
        check_fields(self)
        checked_device(self.device)

    @classmethod
    def take(cls: type[Settings], keywords: dict[str, Any]) -> Settings:
        """Remove the settings of a run from keywords that hold options too."""
        names = [item.name for item in fields(cls) if item.name in keywords]
        return cls(**{name: keywords.pop(name) for name in names})


@dataclass(frozen=True)
class RunSettings(PlanSettings):
    """How a run of `compress` is made."""

    progress: bool | Callable[..., None] = option(
        False, "True shows a progress bar; a function is called after every step with a `StepReport`."
    )
    checkpoint: Checkpoint | str | Path | None = option(
        None, "File that a stopped run resumes from; it stays until you remove it."
    )

    @cached_property
    def run_checkpoint(self) -> Checkpoint | None:
        """The checkpoint, where a path is given the one of that file."""
        return Checkpoint(self.checkpoint) if isinstance(self.checkpoint, str | Path) else self.checkpoint


class PlanKeywords(OptionKeywords, total=False):
    """Keywords of `plan`: options, and how to run."""

    progress: bool | Callable[[int, int, str], None]
    device: torch.device | str
    threads: int | None


class CompressKeywords(OptionKeywords, total=False):
    """Keywords of `compress`: options, and how to run."""

    progress: bool | Callable[..., None]
    device: torch.device | str
    threads: int | None
    checkpoint: Checkpoint | str | Path | None


def checked_device(device: torch.device | str) -> None:
    """Refuse a device that learners by gradients cannot compute on; the CPU needs no torch.

    Raises:
        OptionError: torch knows no such device, or cannot use it here.
        MissingExtraError: torch is not installed.
    """
    if str(device) == "cpu":
        return
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"the device {device}", "torch") from None
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
