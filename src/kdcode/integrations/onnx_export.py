"""Coded tables as ONNX models: row numbers in, vectors out."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from kdcode._version import __version__
from kdcode.arrays import described, rows_at_once
from kdcode.codec import CodewordCodec
from kdcode.codec.spec import LSTM
from kdcode.coded import CodedTable
from kdcode.errors import FormatError, LimitError, MissingExtraError, OptionError
from kdcode.integrations.exported_files import exported
from kdcode.integrations.onnx_graph import IDS, VECTORS, Graph, add_lookup
from kdcode.io import Progress

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18
"""The version of ONNX's operators that models use: the first with bitwise operators; onnxruntime has it since 1.14."""

MAX_RANK = 8
"""The most dimensions that ids may have."""

_MAX_BYTES = (1 << 31) - (1 << 20)
"""What codes and weights may take: protobuf, the format of ONNX files, ends at 2 GiB."""

_TOLERANCE = 1e-5
"""How far numbers may lie apart, as a share of the largest of some rows: two programs may add in another order."""


def export_onnx(
    coded: CodedTable,
    path: str | PathLike[str],
    *,
    rank: int = 1,
    symbols: str | PathLike[str] | None = None,
    check: bool = False,
    on_progress: Progress | None = None,
) -> int:
    """Write a coded table as an ONNX model from row numbers to vectors; files appear whole or not at all.

    The model has one input, `ids` (int64), and one output, `vectors` (float32, the shape of the ids and d more). It
    uses operators of the standard opset 18 alone. Codes stay packed and weights keep their type, so that the file has
    the size of the .kdc file without its symbols. An id that is negative or not below N is out of bounds for the
    operator `Gather`: onnxruntime raises an error on the CPU.

    Args:
        coded: the table; `kdcode.load` reads a .kdc file.
        path: the file to write, usually *.onnx.
        rank: how many dimensions the ids have: 1 for a list, 2 for (batch, length). ONNX wants it fixed; the sizes of
            the dimensions are not.
        symbols: also write the symbols to this file, one per line: that of line i has the id i, counted from 0.
        check: also compute every vector with onnxruntime, which must be installed, and compare it with the table's own.
        on_progress: called with the rows that were compared, and all of them.

    Returns:
        The bytes of the model.

    Raises:
        MissingExtraError: onnx is not installed.
        OptionError: the arguments cannot work; or the table has transform codes, or is an LSTM that has to be computed
            in float64.
        LimitError: codes and weights take more than the 2 GiB of an ONNX file.
        StorageError: the table has codes that are not valid.
        FormatError: a symbol does not fit in a line; or onnxruntime computes other vectors.
        FileError: a file cannot be written.
    """
    _check_table(coded, rank)
    runtime = _onnxruntime() if check else None
    with exported(coded, path, symbols, "model") as target:
        model = onnx_model(coded, rank=rank).SerializeToString(deterministic=True)
        if runtime is not None:
            _compare(runtime.InferenceSession(model, providers=["CPUExecutionProvider"]), coded, rank, on_progress)
        target.write_bytes(model)
    return len(model)


def onnx_model(coded: CodedTable, *, rank: int = 1) -> ModelProto:
    """The model of `export_onnx` in memory, to be joined to others by `onnx.compose.merge_models`."""
    codec = _check_table(coded, rank)
    from onnx import TensorProto, checker, helper

    graph = Graph()
    add_lookup(graph, coded, codec)
    shape = {1: ["rows"], 2: ["batch", "length"]}.get(rank, [f"axis{number}" for number in range(rank)])
    opset = helper.make_opsetid("", OPSET)
    made = helper.make_graph(
        graph.nodes,
        "kdcode",
        [helper.make_tensor_value_info(IDS, TensorProto.INT64, shape)],
        [helper.make_tensor_value_info(VECTORS, TensorProto.FLOAT, [*shape, coded.embedding_dim])],
        graph.initializers,
    )
    model = helper.make_model(
        made,
        opset_imports=[opset],
        ir_version=helper.find_min_ir_version_for([opset]),  # older runtimes read it too
        producer_name="kdcode",
        producer_version=__version__,
    )
    helper.set_model_props(model, {f"kdcode.{name}": str(value) for name, value in _facts(coded).items()})
    checker.check_model(model, full_check=True)
    return model


def _facts(coded: CodedTable) -> dict[str, object]:
    """What the metadata of a model says of its table."""
    spec = coded.spec
    facts: dict[str, object] = {"num_embeddings": len(coded)}
    for name in ("embedding_dim", "codebook_size", "code_length", "composition", "codebook_dtype"):
        facts[name] = getattr(spec, name)
    fingerprint = coded.provenance.get("fingerprint")
    return facts if fingerprint is None else {**facts, "fingerprint": fingerprint}


def _check_table(coded: CodedTable, rank: int) -> CodewordCodec:
    """The codec of a table that can be exported; refuses any other before anything of it is read."""
    try:
        import onnx  # noqa: F401 - is it there?
    except ImportError:
        raise MissingExtraError("exporting to ONNX", "onnx") from None
    if not isinstance(coded, CodedTable):
        raise OptionError(
            f"expected a CodedTable, got {described(coded)}; kdcode.load(path) reads one from a .kdc file"
        )
    coded.require_rows()
    if type(rank) is not int or not 1 <= rank <= MAX_RANK:
        raise OptionError(f"rank: expected a whole number from 1 to {MAX_RANK}, got {rank!r}")
    codec = coded.codewords
    if codec is None:
        raise OptionError(
            "ONNX has no operators that read transform codes, which are entropy-coded; `kdcode expand` writes all "
            "vectors for other programs, or compress the table again with codewords=True (--codewords)"
        )
    if coded.sizes.embedding > _MAX_BYTES:
        raise LimitError(
            f"an ONNX file holds less than 2 GiB, but codes and weights of this table take {coded.sizes.embedding:,} "
            "bytes; export it in parts: coded.select(slice(0, n)) is the table of the first n rows"
        )
    if coded.spec.kind == LSTM and codec.may_overflow:
        raise OptionError(
            "the weights of this LSTM are so large that it has to be computed in float64, and onnxruntime computes an "
            "LSTM in float32 alone; scale the table down and compress it again"
        )
    return codec


def _onnxruntime() -> Any:  # noqa: ANN401 - the module, which has no types
    try:
        import onnxruntime
    except ImportError:
        raise OptionError("check: this needs onnxruntime, which is not installed: pip install onnxruntime") from None
    return onnxruntime


def _compare(session: Any, coded: CodedTable, rank: int, on_progress: Progress | None) -> None:  # noqa: ANN401
    """Refuse a model whose vectors are not those of the table, over all rows."""
    at_once = rows_at_once(coded.spec.row_width)
    for start in range(0, len(coded), at_once):
        rows = np.arange(start, min(start + at_once, len(coded)))
        ids = rows.reshape((1,) * (rank - 1) + (len(rows),))
        found, expected = session.run([VECTORS], {IDS: ids})[0].reshape(len(rows), -1), coded.decode(rows)
        near = np.abs(found - expected) <= _TOLERANCE * np.abs(expected).max()
        if not near.all():
            row = start + int(near.all(axis=1).argmin())
            raise FormatError(f"row {row}: onnxruntime computes another vector from this model than kdcode does")
        if on_progress:
            on_progress(start + len(rows), len(coded))
