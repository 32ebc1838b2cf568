"""Where slices are encoded: in this process, or on the processes of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol, cast

from kdcode.bulk.encoding import Job, OnRows, encode_slice
from kdcode.bulk.slices import Slice
from kdcode.errors import OptionError
from kdcode.threads import using_threads

ENGINES = {"local": ("kdcode.bulk.engines", "LocalEngine"), "ray": ("kdcode.integrations.ray_encoding", "RayEngine")}
"""The engines by name; a module is imported when it is asked for."""


class Engine(Protocol):
    """Encodes slices. Bytes do not depend on the engine: all call `encode_slice`."""

    def check(self) -> None:
        """Refuse what cannot work, before anything is written.

        Raises:
            MissingExtraError: a package is missing.
        """
        ...

    def run(self, job: Job, slices: Sequence[Slice], on_rows: OnRows) -> Iterator[tuple[Slice, bytes]]:
        """The files of slices, in any order, each as soon as it is there.

        Args:
            job: what they have in common.
            slices: which.
            on_rows: called with how many rows were encoded since it was called last.
        """
        ...


class LocalEngine:
    """Slices one after another, in this process.

    Args:
        threads: at most; all available CPUs if None.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    def check(self) -> None:
        """Nothing is needed that encoding does not need anyway."""

    def run(self, job: Job, slices: Sequence[Slice], on_rows: OnRows) -> Iterator[tuple[Slice, bytes]]:
        """See `Engine`."""
        for piece in slices:
            with using_threads(self._threads):  # not around the yield: the caller's operators are its own
                content = encode_slice(job, piece, on_rows)
            yield piece, content


def engine_of(engine: Engine | str) -> Engine:
    """An engine by its name, with its defaults; others as they are.

    Raises:
        OptionError: there is none of that name.
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise OptionError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    module, name = ENGINES[engine]
    return cast("Engine", getattr(import_module(module), name)())
