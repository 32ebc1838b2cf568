"""The checkpoint of a command that learns: beside its OUT, held while it runs, and named when it is interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdcode.cli.files import STANDARD
from kdcode.errors import CheckpointError, CheckpointInUseError, KdcodeError, LostRankError
from kdcode.file_locks import remove_leftovers
from kdcode.files import beside
from kdcode.printable import shown

if TYPE_CHECKING:
    from kdcode.learning import Checkpoint


def place_of_checkpoint(target: str) -> Path | None:
    """The file that a run for OUT saves itself in, beside OUT or the file that it links to; None for a dash.

    What runs that were killed have left in the same folder is removed.
    """
    if target == STANDARD:
        return None
    path = Path(target)
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    remove_leftovers(path.parent)
    return beside(path, path.name, ".checkpoint")


def is_result_of(target: str, kept: Path) -> bool:
    """Whether OUT was written by the run whose checkpoint is there: it was killed before it could remove that.

    The run may then be repeated as if OUT were not there yet, and ends with the same bytes.
    """
    if not (Path(target).is_file() and kept.is_file()):
        return False
    from kdcode.learning import Checkpoint
    from kdcode.storage import load

    try:
        identity = Checkpoint(kept).identity()
        return identity is not None and load(target).provenance.get("fingerprint") == identity
    except KdcodeError:  # one of them is no such file
        return False


@contextmanager
def resumable(target: str, kept: Path | None, *, fresh: bool, hold: bool = True) -> Iterator[Checkpoint | None]:
    """Gives the checkpoint, which no other run may use meanwhile; an interruption says that a run resumes from it.

    Args:
        target: OUT.
        kept: the file.
        fresh: whether it is removed first.
        hold: whether this process keeps it, and not another rank.
    """
    from kdcode.learning import Checkpoint

    if kept is None:
        yield None  # there is no place beside standard output
        return
    try:
        checkpoint = Checkpoint(kept)
        with telling_what_is_kept(lambda: _how_to_go_on(kept)), checkpoint.held() if hold else nullcontext():
            if fresh and hold:
                checkpoint.remove()
            yield checkpoint
    except CheckpointInUseError as error:
        raise CheckpointInUseError(
            f"{target}: another run is writing it: {error.who}; wait until it ends, or name another OUT"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --fresh starts over") from error
    except LostRankError as error:
        raise LostRankError(f"{error}{_how_to_go_on(kept)}") from error


def _how_to_go_on(kept: Path) -> str:
    return f"; the same command resumes from {kept}" if kept.exists() else ""


@contextmanager
def telling_what_is_kept(kept: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP end the block with a message that says what is kept, and how to go on.

    Args:
        kept: gives the end of that message, from its semicolon on; empty where nothing is kept.
    """
    from kdcode.learning.interrupts import StoppedBySignal, ending_by_signal

    try:
        with ending_by_signal():
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept()) from None
    except StoppedBySignal as stopped:
        with suppress(OSError):  # the terminal may be gone
            click.echo(shown(f"{stopped}{kept()}"), err=True)
        raise
