"""Damaged and hostile .kdc files: each is refused by name, or gives exactly what it says.

    python fuzz/kdc_files.py --count 100000 --seed 0

Half of the cases change the bytes of a good file: its digests no longer fit, so it is refused, or still gives the
symbols and vectors of the good file. The other half change its parts and make new digests, as someone would who means
harm: it is refused, or what it gives agrees with an independent reader (tests/kdc_reader.py), which is written from
docs/format.md alone.
Nothing but a KdcodeError may be raised, not even a warning.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import harness
import kdc_reader
import numpy as np
import numpy.typing as npt
from case_worker import Case, WrongError
from kdc_bytes import Parts
from kdc_mutations import changed_parts, damaged_bytes
from kdc_samples import MADE, Sample, any_sample, weights_of
from sample_tables import KINDS, coded_table

import kdcode
from kdcode.errors import KdcodeError, NoRowsError

TORCH_SHARE = 0.1
TOLERANCE = 1e-5
"""Of the largest number that may occur while a vector is added up, in float32."""
STEEP = 50.0
"""Weights of an LSTM above which float32 and float64 may differ by more than rounding."""

Floats = npt.NDArray[np.floating[Any]]


def check(case: Case) -> str:
    """Make one file and use it in every way."""
    good = any_sample(case.random)
    path = case.folder / "t.kdc"
    how = _raw if case.random.random() < 0.5 else _lawful
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody who reads a file is to be told of overflows
        return how(case.random, good, path)


def _raw(random: Random, good: Sample, path: Path) -> str:
    """A file whose bytes are damaged: refused, or as good as before."""
    how, content = damaged_bytes(random, good)
    path.write_bytes(content)
    trusting = random.random() < 0.1
    try:
        coded, symbols, vectors = _used(random, path, check="none" if trusting else random.choice(("lazy", "full")))
    except KdcodeError:
        return "raw: refused"
    if trusting:
        return "raw: unchecked, as was asked for"
    same = MADE.get(content, good)  # parts of two files may be one of them
    is_same = np.array_equal(vectors, same.vectors) and np.array_equal(weights_of(coded), same.weights)
    if tuple(symbols) != same.symbols or not is_same:
        raise WrongError(f"{good.name}, {how}: the damage was not noticed")
    return "raw: the good file's vectors"


def _lawful(random: Random, good: Sample, path: Path) -> str:
    """A file whose parts are changed and whose digests fit: refused, or what an independent reader makes of it."""
    path.write_bytes(good.content)
    parts = Parts.of(path)
    how = changed_parts(random, parts)
    parts.write(path)
    try:
        coded, symbols, vectors = _used(random, path, check=random.choice(("lazy", "full", "none")))
    except KdcodeError:
        return "lawful: refused"
    try:
        with suppress(NoRowsError):  # all that is wrong with a codebook that is whole
            kdcode.verify(path)
        verified = True
    except KdcodeError:
        verified = False
    if _is_steep(coded):
        return "lawful: read, an LSTM too steep to compare"
    try:
        expected_symbols, _, expected = kdc_reader.read(path)
    except Exception as error:
        if not verified:
            return "lawful: read in part, refused by verify"
        raise WrongError(f"{good.name}, {how}: accepted, and the independent reader refuses: {error!r}") from error
    if verified and symbols != expected_symbols:
        raise WrongError(f"{good.name}, {how}: other symbols than the independent reader")
    _compare(coded, vectors, np.array(expected).reshape(vectors.shape), f"{good.name}, {how}")
    return "lawful: agrees" if verified else "lawful: vectors agree, symbols refused by verify"


def _used(random: Random, path: Path, *, check: str) -> tuple[kdcode.CodedTable, list[str], Floats]:
    """Load a file and ask it for all it can give; its symbols and vectors."""
    coded = kdcode.load(path, check=check, mmap=random.random() < 0.7)
    rows = np.arange(len(coded))
    vectors = coded.decode(rows)
    if not np.isfinite(vectors).all():
        raise WrongError("a vector that is not finite was returned")
    symbols = list(coded.symbols)
    if not len(coded):
        coded.encode(np.ones(coded.embedding_dim), beam=2)
        return coded, symbols, vectors
    for row in random.sample(range(len(coded)), min(3, len(coded))):
        _compare(coded, coded.decode(row), vectors[row], "a row alone")
        _look_up(coded, symbols[row])
    _check_neighbors(coded, vectors, random.randrange(len(coded)))
    if random.random() < 0.2:
        coded.encode(vectors[:2], beam=2)
    if random.random() < TORCH_SHARE:
        _check_layer(coded, vectors)
    return coded, symbols, vectors


def _look_up(coded: kdcode.CodedTable, symbol: str) -> None:
    """A symbol that was listed is found, where the symbols are in order; what is found has its vector."""
    row = coded.row_of(symbol)
    if not np.array_equal(coded[symbol], coded.decode(row)):
        raise WrongError("a symbol's vector is not that of its row")


def _check_neighbors(coded: kdcode.CodedTable, vectors: Floats, row: int) -> None:
    """The cosines of the nearest rows are the largest there are."""
    found = [neighbor.score for neighbor in coded.neighbors(vectors[row], 3)]
    exact = vectors.astype(np.float64)
    lengths = np.sqrt((exact**2).sum(axis=1))
    if lengths[row] == 0:
        return
    cosines = exact @ exact[row] / np.where(lengths > 0, lengths, 1) / lengths[row]
    expected = np.sort(cosines)[::-1][:3]
    if len(found) != len(expected) or not np.allclose(found, expected, atol=1e-4):
        raise WrongError(f"neighbours have the cosines {found}, and there are {expected.tolist()}")


def _check_layer(coded: kdcode.CodedTable, vectors: Floats) -> None:
    """A torch layer of the table returns the same vectors."""
    import torch

    from kdcode.nn import CodedEmbedding

    with torch.no_grad():
        layer = CodedEmbedding(coded, dtype=torch.float32)
        given = layer(torch.arange(len(coded))).numpy()
    if not _is_steep(coded):
        _compare(coded, given, vectors, "CodedEmbedding")


def _is_steep(coded: kdcode.CodedTable) -> bool:
    """Whether the vectors are those of an LSTM with weights so large that rounding decides."""
    if coded.codewords is None or coded.spec.kind != "lstm":
        return False
    weights = coded.codewords.weights()
    return any(float(np.abs(weights[name]).max()) > STEEP for name in ("codebook", "recurrent", "bias"))


def _compare(coded: kdcode.CodedTable, given: Floats, expected: Floats, what: str) -> None:
    """Refuse vectors that differ by more than the rounding of float32 can explain."""
    stored = coded.codec.tensors() if coded.codewords is None else coded.codewords.weights()
    weights = {name: np.abs(np.asarray(array, dtype=np.float64)) for name, array in stored.items()}
    if coded.codewords is None:
        most = weights["mean"].max() + coded.embedding_dim * (np.abs(expected).max(initial=0) + weights["steps"].max())
        if "centroid_scales" in weights:  # whose numbers have 6 bits at most
            most += coded.embedding_dim * 32 * weights["centroid_scales"].max()
    else:
        positions = weights["codebook"].max(axis=(1, 2)) if coded.spec.kind != "lstm" else np.ones(coded.code_length)
        most = positions.sum()
        if "basis" in weights:
            most *= weights["basis"].sum(axis=0).max()
        if "scale_levels" in coded.codec.tensors():
            most *= coded.codec.tensors()["scale_levels"].max()
    if given.shape != expected.shape or not (np.abs(given - expected) <= TOLERANCE * most + 1e-37).all():
        raise WrongError(f"{what}: other vectors, by up to {np.abs(given - expected).max()}")


def _load() -> None:
    """Load torch and the core before the time of any case is measured."""
    for kind, dtype in KINDS:
        coded = coded_table(kind, dtype, rows=2)
        coded.neighbors(coded.decode(0), 1)
        _check_layer(coded, coded.decode([0, 1]))


_load()

if __name__ == "__main__":
    raise SystemExit(harness.main("kdc_files", check, count=100_000, packages=("numpy", "torch")))
