"""RayEngine: slices encoded on the processes of Ray, on one machine or on a cluster.

A Ray dataset has one row per slice. Each worker is an actor with the codec and the list of parts, reads the rows of its
slice by itself, and gives back the bytes of the file, which the caller writes: a worker that is killed can leave
nothing half written. Ray starts it anew and hands its slice out again.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from importlib import import_module
from tempfile import TemporaryFile
from typing import Any, TypeAlias

from kdcode import errors
from kdcode.bulk.encoding import Job, OnRows, encode_slice
from kdcode.bulk.slices import Slice
from kdcode.cpus import available_cpus
from kdcode.errors import FileError, KdcodeError, MissingExtraError, OptionError
from kdcode.threads import using_threads

_SPARE_CPUS = 2
"""CPUs that are announced to Ray beyond those of the workers, for the task that hands out slices."""
_ATTEMPTS = 4
"""How often a slice is handed out whose workers die."""
_STORE_BYTES, _SLICES_HELD, _BYTES_OF_ID = 256 << 20, 4, 64
"""Memory for results: at least, and for how many slices per worker, with what an id takes in most tables."""
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
"""What keeps Ray from reporting to its makers, and from writing to our standard error."""
_OF_RAY = b"RAY_BACKEND_LOG_LEVEL"
"""What is in the one line that it still writes there: that it has read the variable."""
_STDERR = 2
_FIELDS = tuple(item.name for item in fields(Slice))
_NUMBER, _CONTENT, _ERROR = "number", "content", "error"

RayModule: TypeAlias = Any
"""ray has types, but is not always there."""


class RayEngine:
    """Encodes slices on workers of Ray, each with one thread.

    Where Ray is running in this process already, it is used and left running; otherwise it is started, and shut down at
    the end.

    Args:
        workers: how many; as many as there are CPUs if None, here or in the cluster.
        address: of a cluster to join, such as "auto" or "ray://host:10001"; None starts Ray on this machine. Workers of
            a cluster need kdcode, and the parts under the same names.

    Raises:
        OptionError: less than one worker.
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if workers is not None and workers < 1:
            raise OptionError(f"workers must be an integer from 1, got {workers}")
        self._workers, self._address = workers, address

    def check(self) -> None:
        """See `Engine`."""
        _ray()

    def run(self, job: Job, slices: Sequence[Slice], on_rows: OnRows) -> Iterator[tuple[Slice, bytes]]:
        """See `Engine`; rows are counted slice by slice."""
        if not slices:
            return
        ray = _ray()
        left = {piece.number: piece for piece in slices}
        with self._started(ray, job):
            workers = min(self._workers or _cpus_for_workers(ray), len(slices))
            for row in _results(ray, job, slices, workers):
                if row[_ERROR]:
                    raise _refusal_of(row[_ERROR])
                piece = left.pop(int(row[_NUMBER]))
                on_rows(piece.rows)
                yield piece, bytes(row[_CONTENT])
        if left:
            raise KdcodeError(f"Ray gave no result for {len(left)} slices; the same call goes on with them")

    @contextmanager
    def _started(self, ray: RayModule, job: Job) -> Iterator[None]:
        """Ray, started here unless it is running; what is started here is ended here."""
        if ray.is_initialized():
            yield
            return
        with _silenced():
            try:
                with _environment(), _signals_as_they_are(), _without_warnings(), _without_its_line():
                    ray.init(log_to_driver=False, logging_level=logging.ERROR, **self._init_settings(job))
                yield
            finally:
                ray.shutdown()

    def _init_settings(self, job: Job) -> dict[str, Any]:
        if self._address is not None:
            return {"address": self._address}
        workers = self._workers or available_cpus()
        slice_bytes = job.manifest.settings.rows_per_slice * (job.codec.spec.row_bytes + _BYTES_OF_ID)
        return {
            "address": "local",
            "num_cpus": workers + _SPARE_CPUS,
            "object_store_memory": max(_STORE_BYTES, _SLICES_HELD * workers * slice_bytes),
            "include_dashboard": False,
        }


class SliceWorker:
    """What runs in a process of Ray: it has the job once, and encodes one slice per call.

    Args:
        job: the reference to the job in Ray's store, in a list: Ray would put the job in place of a bare one.
        attempts: the `Attempts` of the run.
    """

    def __init__(self, job: list[Any], attempts: Any) -> None:  # noqa: ANN401 - a handle of Ray
        self._job: Job = _ray().get(job[0])
        self._attempts = attempts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The file of a slice, or why there is none: an error of a bad file is a result, which nobody tries again."""
        piece = Slice(*(int(batch[name][0]) for name in _FIELDS))
        content, refusal = b"", ""
        try:
            self._check_attempts(piece)
            with using_threads(1):
                content = encode_slice(self._job, piece)
        except KdcodeError as error:
            refusal = _told(error)
        return {_NUMBER: [piece.number], _CONTENT: [content], _ERROR: [refusal]}

    def _check_attempts(self, piece: Slice) -> None:
        died = _ray().get(self._attempts.begin.remote(piece.number))
        if died >= _ATTEMPTS:
            name = self._job.manifest.parts[piece.part].name
            raise KdcodeError(
                f"{name}: {died} workers died while they encoded rows {piece.start} to {piece.stop}; do they have "
                "memory for that many rows? Slices that are written are kept"
            )


class Attempts:
    """Counts how often each slice was begun: Ray itself would hand out one that kills its workers for ever."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}

    def begin(self, number: int) -> int:
        """How often a slice was begun before."""
        before = self._begun.get(number, 0)
        self._begun[number] = before + 1
        return before


def _results(ray: RayModule, job: Job, slices: Sequence[Slice], workers: int) -> Iterator[dict[str, Any]]:
    """What workers give back, as it comes; workers that die are replaced, which is what Ray Data does by itself."""
    with _without_warnings():
        data = import_module("ray.data")
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        for name in ("print_on_execution_start", "enable_auto_log_stats"):
            if hasattr(context, name):
                setattr(context, name, False)
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Attempts).remote()
        reference = ray.put(job)  # kept until the end: workers that are started anew read it again
        items = [dict(zip(_FIELDS, astuple(piece), strict=True)) for piece in slices]
        rows = iter(
            data.from_items(items, override_num_blocks=len(items))
            .map_batches(
                SliceWorker,
                batch_size=1,
                # One slice is encoded and one waits, for each worker: results do not pile up.
                compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
                fn_constructor_args=([reference], attempts),
                num_cpus=1,
            )
            .iter_rows()
        )
    while True:
        with _without_warnings():
            row = next(rows, None)
        if row is None:
            return
        yield row


def _cpus_for_workers(ray: RayModule) -> int:
    """CPUs of the Ray that is running, but for one that is left to it."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)


def _told(error: KdcodeError) -> str:
    """A refusal as text, for another process; only of classes that every kdcode has."""
    known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
    given = [error.errno, error.strerror, error.filename] if isinstance(error, FileError) else error.args
    return json.dumps([known.__name__, list(given)], default=str)


def _refusal_of(text: str) -> KdcodeError:
    """What `_told` was given."""
    name, given = json.loads(text)
    kind: type[KdcodeError] = getattr(errors, name)
    return kind(*given)


@contextmanager
def _silenced() -> Iterator[None]:
    """Keep what Ray prints of itself, and of workers that died, from our standard output and error."""
    with _without_warnings():
        worker: Any = import_module("ray._private.worker")
        import_module("ray.data")
    printing = getattr(worker, "print_to_stdstream", None)
    handlers = [handler for handler in logging.getLogger("ray.data").handlers if hasattr(handler, "stream")]
    levels = [handler.level for handler in handlers]
    try:
        if printing is not None:
            worker.print_to_stdstream = lambda *_, **__: None
        for handler in handlers:
            handler.setLevel(logging.CRITICAL)
        yield
    finally:
        if printing is not None:
            worker.print_to_stdstream = printing
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)


@contextmanager
def _environment() -> Iterator[None]:
    """Variables that Ray, and the processes that it starts, read once."""
    added = [name for name in _ENVIRONMENT if name not in os.environ]
    os.environ.update({name: _ENVIRONMENT[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _without_its_line() -> Iterator[None]:
    """Keep what is written to standard error while Ray starts, and then write it, but for the line of Ray's own.

    Ray writes it from C++, so nothing but the descriptor itself can be in between.
    """
    with TemporaryFile() as kept:
        before = os.dup(_STDERR)
        os.dup2(kept.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(before, _STDERR)
            os.close(before)
            kept.seek(0)
            lines = [line for line in kept if _OF_RAY not in line]
            with suppress(OSError):  # the terminal may be gone
                os.write(_STDERR, b"".join(lines))


@contextmanager
def _signals_as_they_are() -> Iterator[None]:
    """Ray handles SIGTERM in a way of its own; that of whoever called us is put back."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if is_main else None
    try:
        yield
    finally:
        if is_main and before is not None:
            with suppress(ValueError):
                signal.signal(signal.SIGTERM, before)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """What Ray warns of is for who writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _ray() -> RayModule:
    try:
        with _without_warnings():
            return import_module("ray")
    except ImportError:
        raise MissingExtraError("encoding on Ray", "ray") from None
