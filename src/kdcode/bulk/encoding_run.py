"""encode_parts: all slices of a table encoded into a folder; what is there already is not encoded again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kdcode.bulk.encoding import Job
from kdcode.bulk.engines import Engine, engine_of
from kdcode.bulk.manifest import FILE_NAME, Manifest
from kdcode.bulk.settings import EncodeSettings
from kdcode.bulk.slice_file import is_finished, require_parquet
from kdcode.bulk.slices import Slice
from kdcode.coded import CodedTable
from kdcode.errors import CheckpointError, CheckpointInUseError, KdcodeError, OptionError, file_error
from kdcode.file_locks import locked
from kdcode.files import replacing
from kdcode.io import Reader, open_parts
from kdcode.storage import load

Codebook = CodedTable | str | os.PathLike[str]
Parts = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Reader]


@dataclass(frozen=True)
class EncodeProgress:
    """How far a run is.

    Args:
        rows_done: rows that are encoded, those of earlier runs counted.
        rows: rows in all.
        slices_done: slices whose files are written, those of earlier runs counted.
        slices: slices in all.
        code_bytes: what the codes of all rows take.
    """

    rows_done: int
    rows: int
    slices_done: int
    slices: int
    code_bytes: int


@dataclass(frozen=True)
class EncodeReport:
    """What a run did.

    Args:
        folder: where the codes are.
        rows: rows in all.
        slices: slices in all.
        encoded: the numbers of the slices that this run encoded; the others were there.
    """

    folder: Path
    rows: int
    slices: int
    encoded: list[int]


def encode_parts(
    parts: Parts,
    folder: str | os.PathLike[str],
    codebook: Codebook,
    *,
    settings: EncodeSettings | None = None,
    engine: Engine | str = "local",
    force: bool = False,
    progress: Callable[[EncodeProgress], None] | None = None,
) -> EncodeReport:
    """Encode the rows of many files by one codebook, slice by slice, into a folder; `assemble` makes one table of it.

    A run that was interrupted goes on where it was when it is started again: slices whose files are there are kept.
    The files do not depend on the engine, on threads or on workers.

    Args:
        parts: paths, patterns or URLs of .npy, safetensors and Parquet files, or sources that are open.
        folder: made where it is missing.
        codebook: the codec: a coded table, with rows or without, or the path of a .kdc file.
        settings: how codes are searched for.
        engine: "local", "ray", or one with settings of its own: `LocalEngine(threads)`, `RayEngine(workers, address)`.
        force: start over where the folder has the codes of other parts, of another codebook or of other settings.
        progress: called before the first slice, and whenever rows were encoded.

    Raises:
        CheckpointError: the folder is that of another run; the message says what differs.
        CheckpointInUseError: another run is writing to it.
        FormatError: a part is damaged, or its vectors are not those of the codebook.
        FileError: a part cannot be read, or a file cannot be written; slices that are written stay.
        MissingExtraError: pyarrow or what the engine needs is missing.
    """
    chosen = engine_of(engine)
    require_parquet()
    chosen.check()
    codec = (codebook if isinstance(codebook, CodedTable) else load(codebook)).codec
    sources = _sources_of(parts)
    if sources[0].embedding_dim != codec.spec.embedding_dim:
        raise OptionError(
            f"{sources[0].name}: its vectors have {sources[0].embedding_dim} dimensions, those of the codebook "
            f"{codec.spec.embedding_dim}; learn a codebook from these parts"
        )
    from kdcode.learning.interrupts import stopping_at_safe_places  # torch, which is there

    manifest = Manifest.of(sources, codec, settings or EncodeSettings())
    target = Path(folder)
    with _held(target):
        _take_over(target, manifest, force=force)
        run = _Run(target, manifest, codec.spec.row_bytes, progress)
        left = run.begin()
        with closing(chosen.run(Job(codec, tuple(sources), manifest), left, run.rows_encoded)) as results:  # type: ignore[type-var]
            for piece, content in results:
                with stopping_at_safe_places() as stop_if_asked:  # what is written is counted
                    run.write(piece, content)
                    stop_if_asked()
    return EncodeReport(target, manifest.rows, len(manifest.slices), [piece.number for piece in left])


class _Run:
    """Slices as they are written, and the progress that is reported."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        row_bytes: int,
        progress: Callable[[EncodeProgress], None] | None,
    ) -> None:
        self._folder, self._manifest, self._row_bytes, self._progress = folder, manifest, row_bytes, progress
        self._rows = self._slices = 0

    def begin(self) -> list[Slice]:
        """The slices that are left to encode."""
        stamp = self._manifest.stamp
        done = [piece for piece in self._manifest.slices if is_finished(self._folder / piece.file_name, piece, stamp)]
        self._slices, self._rows = len(done), sum(piece.rows for piece in done)
        self._report()
        finished = {piece.number for piece in done}
        return [piece for piece in self._manifest.slices if piece.number not in finished]

    def rows_encoded(self, rows: int) -> None:
        self._rows += rows
        self._report()

    def write(self, piece: Slice, content: bytes) -> None:
        path = self._folder / piece.file_name
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            raise file_error(path, "written", error) from error
        self._slices += 1
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            rows, slices = self._manifest.rows, len(self._manifest.slices)
            self._progress(EncodeProgress(self._rows, rows, self._slices, slices, rows * self._row_bytes))


def _sources_of(parts: Parts) -> list[Reader]:
    if isinstance(parts, str | os.PathLike):
        return open_parts([os.fspath(parts)])
    listed = list(parts)
    sources = [part for part in listed if isinstance(part, Reader)]
    if len(sources) == len(listed) and listed:
        return sources
    return open_parts([os.fspath(part) for part in listed])  # type: ignore[arg-type]  # what is no path is refused


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, made where it is missing, which no other run uses meanwhile."""
    try:
        folder.mkdir(exist_ok=True)
        with locked(folder / FILE_NAME):
            yield
    except KdcodeError:
        raise
    except BlockingIOError as error:
        raise CheckpointInUseError(
            f"{folder}: another run writes to it: {error.strerror}; wait until it ends, or name another folder",
            error.strerror or "",
        ) from error
    except FileExistsError as error:
        raise file_error(folder, "written", OSError(error.errno, "it is no folder")) from error
    except OSError as error:
        raise file_error(folder, "written", error) from error


def _take_over(folder: Path, manifest: Manifest, *, force: bool) -> None:
    """Make the folder that of this run, or refuse it."""
    try:
        before = Manifest.read(folder)
    except CheckpointError:
        if not force:
            raise
        before = None
    others = [path for path in folder.iterdir() if not path.name.startswith(".kdcode-")]
    if before == manifest:
        return
    if before is not None and not force:
        raise CheckpointError(
            f"{folder}: has the codes of another run: {'; '.join(manifest.differences(before))}; name another folder, "
            "or give force= to start over"
        )
    if others and not force:
        raise CheckpointError(
            f"{folder}: has files in it, and no {FILE_NAME} of `kdcode encode`; name another folder, or give force= to "
            "write there"
        )
    for path in folder.glob("codes-*.parquet"):
        path.unlink()
    manifest.write(folder)
