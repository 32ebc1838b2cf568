"""model2vec: a folder with a static model in, a smaller one out, and a StaticModel from the smaller one.

    compress_folder("potion-base-8M", "potion-small", "20x")
    model = load("potion-small")
    model.encode(["a sentence"])

In the new folder, `embeddings.kdc` stands in place of `model.safetensors`. The weights and the row numbers of tokens,
which models with a quantised vocabulary have, are kept in `tokens.safetensors`. Configuration, tokenizer and all other
files are copied as they are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdcode import storage
from kdcode.arrays import DoubleArray
from kdcode.codec import Sizes
from kdcode.errors import FileError, FormatError, MissingExtraError, OptionError, file_error
from kdcode.files import check_readable
from kdcode.folders import check_new_folder, new_folder
from kdcode.integrations.decoded_array import DecodedArray
from kdcode.options import CompressOptions, checked_spec
from kdcode.safetensors_header import HeaderError, read_header
from kdcode.table import VectorTable

if TYPE_CHECKING:
    from model2vec import StaticModel

    from kdcode.learning.model_report import ModelReport

TABLE_FILE, TOKENS_FILE = "embeddings.kdc", "tokens.safetensors"
"""What the new folder has in place of `model.safetensors`."""

_WEIGHTS, _MAPPING = "weights", "mapping"
_MAX_HEADER_BYTES = 100_000_000
_OTHER_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".onnx", ".h5", ".msgpack", ".gguf", ".kdc"}
"""Files with the same numbers in other forms, which are not copied."""


@dataclass(frozen=True)
class _Layout:
    """Where the parts of a model are in its folder, and what its table is called."""

    config: str
    folder: str
    table: str

    def place(self, root: Path, name: str) -> Path:
        """A file beside the table."""
        return root / self.folder / name

    def has(self, root: Path, name: str) -> bool:
        """Whether a folder has this layout, with the table in a file of this name."""
        files = (root / self.config, self.place(root, "tokenizer.json"), self.place(root, name))
        return all(file.is_file() for file in files)


_TENSORS = "model.safetensors"
_LAYOUTS = (
    _Layout("config.json", "", "embeddings"),
    _Layout("config_sentence_transformers.json", "", "embedding.weight"),
    _Layout("config_sentence_transformers.json", "0_StaticEmbedding", "embedding.weight"),
)
"""Those that model2vec loads: its own, and two of Sentence Transformers."""


def is_model2vec(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds a model that model2vec loads: a table of vectors and a tokenizer, and no other layers."""
    return _layout_of(Path(folder)) is not None


def compress_folder(
    source: str | PathLike[str],
    target: str | PathLike[str],
    size: str | int | None = None,
    *,
    replace: bool = False,
    **keywords: Any,  # noqa: ANN401 - those of compress
) -> ModelReport:
    """Write a smaller copy of a model2vec folder, which `load` opens. The new folder appears whole or not at all.

    Tokens that share a row, or have a weight, let that row count for as much when codes are learned as they make of it
    in sentences.

    Args:
        source: a folder as model2vec saves or downloads it.
        target: the new folder; it must not exist, or be empty.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes; 20x unless this, `bits`,
            `max_error` or the shape of a code is given.
        replace: whether a folder with files in it is replaced.
        **keywords: those of `kdcode.compress`: progress, effort, codebook_size and so on.

    Returns:
        Bytes before and after, and what was lost. Printed, it is a table.

    Raises:
        FileError: a folder is missing, or the target is there already.
        FormatError: the source holds no model of model2vec, or a damaged one.
        OptionError: options that cannot work, or codes that would not be smaller than the table.
    """
    from kdcode.learning import compress
    from kdcode.learning.model_compression import DEFAULT_SIZE
    from kdcode.learning.model_report import LayerReport, ModelReport, code_text
    from kdcode.learning.planning.candidates import PLANNED

    root, new = Path(source), Path(target)
    check_new_folder(new, replace=replace)
    layout = _checked_layout(root)
    if new.exists() and new.samefile(root):
        raise OptionError(f"{new}: is the input itself, name another folder")
    if size is None and not {"bits", "max_error", "options", *PLANNED} & keywords.keys():
        size = DEFAULT_SIZE
    tensors = _tensors(layout.place(root, _TENSORS), layout.table)
    matrix = tensors.pop(layout.table)
    table = VectorTable(None, matrix, _row_weights(len(matrix), tensors))
    if size is None and not {"bits", "max_error"} & keywords.keys():
        _refuse_larger(_sizes(table, keywords), matrix)
    coded = compress(table, size, **keywords)
    _refuse_larger(coded.sizes, matrix)
    kept = _smallest(tensors)
    with new_folder(new, replace=replace) as folder:
        _copy_others(root, folder)
        storage.save(coded, layout.place(folder, TABLE_FILE))
        if kept:
            _save_file(kept, layout.place(folder, TOKENS_FILE))
        files = [layout.place(folder, name) for name in (TABLE_FILE, TOKENS_FILE)]
        after = sum(file.stat().st_size for file in files if file.exists())
    before = layout.place(root, _TENSORS).stat().st_size
    rows, dim = matrix.shape
    layer = LayerReport(layout.table, rows, dim, matrix.nbytes, coded.sizes.total, code_text(coded), coded)
    return ModelReport((layer,), before, after)


def _sizes(table: VectorTable, keywords: Mapping[str, Any]) -> Sizes:
    """The bytes that codes of the shape that was asked for will take; refused where it cannot work."""
    from kdcode.learning.run_settings import RunSettings

    others = dict(keywords)
    RunSettings.take(others)
    options = others.pop("options", None) or CompressOptions()
    return checked_spec(table, options.changed(**others)).sizes(len(table))


def _refuse_larger(sizes: Sizes, matrix: npt.NDArray[Any]) -> None:
    if sizes.total >= matrix.nbytes:
        raise OptionError(
            f"the codes take {sizes.total:,} bytes, and the table itself {matrix.nbytes:,}; ask for fewer"
        )


def load(folder: str | PathLike[str], *, normalize: bool | None = None) -> StaticModel:
    """The model in a folder that `compress_folder` wrote.

    It is model2vec's own StaticModel, whose `embedding` decodes the rows of the tokens that it encodes; the whole table
    is never in memory. Saved by its `save_pretrained`, it is an ordinary model with decoded vectors.

    Args:
        folder: the folder.
        normalize: whether sentence vectors get the length 1; by default as the configuration of the model says.

    Raises:
        FormatError: this is no such folder.
        StorageError: its file of codes is damaged.
        MissingExtraError: model2vec is not installed.
    """
    try:
        from model2vec import StaticModel
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError("loading a model2vec folder", "model2vec") from error
    root = Path(folder)
    layout = next((one for one in _LAYOUTS if one.has(root, TABLE_FILE)), None)
    if layout is None:
        hint = "; StaticModel.from_pretrained loads it as it is" if is_model2vec(root) else ""
        raise FormatError(f"{root}: expected a folder that compress_folder wrote, with {TABLE_FILE} in it{hint}")
    table = storage.load(layout.place(root, TABLE_FILE))
    tokens = layout.place(root, TOKENS_FILE)
    kept = _tensors(tokens) if tokens.exists() else {}
    config = _json(root / layout.config)
    mapping = kept.get(_MAPPING)
    try:
        tokenizer = Tokenizer.from_file(str(layout.place(root, "tokenizer.json")))
    except Exception as error:  # tokenizers raises Exception itself
        raise FormatError(f"{layout.place(root, 'tokenizer.json')}: not a tokenizer: {error}") from error
    limits = {"max_length": config["max_length"]} if "max_length" in config else {}
    return StaticModel(
        DecodedArray(table),  # type: ignore[arg-type]  # all that it does with an array
        tokenizer,
        config=config,
        normalize=bool(config.get("normalize", False)) if normalize is None else normalize,
        weights=kept.get(_WEIGHTS),
        token_mapping=None if mapping is None else mapping.astype(np.int64),
        **limits,
    )


def _layout_of(root: Path) -> _Layout | None:
    """The layout of a folder whose tensors are those of a static model and no others."""
    for layout in _LAYOUTS:
        if layout.has(root, _TENSORS):
            try:
                names = read_header(layout.place(root, _TENSORS), _MAX_HEADER_BYTES).entries.keys()
            except (HeaderError, OSError):
                continue
            if layout.table in names and names <= {layout.table, _WEIGHTS, _MAPPING}:
                return layout
    return None


def _checked_layout(root: Path) -> _Layout:
    if not root.is_dir():
        check_readable(root)  # says that nothing is there
        raise FileError(None, "is a file, expected a folder", str(root))
    layout = _layout_of(root)
    if layout is None:
        if any(one.has(root, TABLE_FILE) for one in _LAYOUTS):
            raise FormatError(f"{root}: this model is compressed already; start from the original")
        raise FormatError(
            f"{root}: expected a folder of model2vec: config.json, tokenizer.json, and a {_TENSORS} that holds "
            "embeddings alone"
        )
    return layout


def _tensors(path: Path, table: str | None = None) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a safetensors file, checked against each other where it holds a table."""
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise MissingExtraError("model2vec folders", "model2vec") from error
    try:
        tensors: dict[str, npt.NDArray[Any]] = load_file(path)
    except OSError as error:
        raise file_error(path, "read", error) from error
    except Exception as error:  # safetensors has errors of its own, and none for types that numpy does not have
        raise FormatError(f"{path}: not a usable safetensors file: {error}") from None
    weights, mapping = tensors.get(_WEIGHTS), tensors.get(_MAPPING)
    for name, array in ((_WEIGHTS, weights), (_MAPPING, mapping)):
        if array is not None and array.ndim != 1:
            raise FormatError(f"{path}: {name}: expected one number for each token, found shape {array.shape}")
    if weights is not None and mapping is not None and len(weights) != len(mapping):
        raise FormatError(
            f"{path}: {len(weights)} {_WEIGHTS} and {len(mapping)} rows in {_MAPPING} for the same tokens"
        )
    if table is not None:
        rows = len(tensors[table]) if tensors[table].ndim == 2 else 0
        tokens = np.arange(rows) if mapping is None else mapping
        if not rows or not len(tokens) or tokens.min() < 0 or tokens.max() >= rows:
            raise FormatError(f"{path}: the tokens have rows outside of the {rows} rows of {table}")
        if mapping is None and weights is not None and len(weights) != rows:
            raise FormatError(f"{path}: expected one of the {_WEIGHTS} for each of {rows} rows, found {len(weights)}")
    return tensors


def _row_weights(rows: int, tensors: Mapping[str, npt.NDArray[Any]]) -> DoubleArray | None:
    """(N,) how much the squared error of each row counts: the squared weights of its tokens, added up."""
    weights, mapping = tensors.get(_WEIGHTS), tensors.get(_MAPPING)
    if weights is None and mapping is None:
        return None
    rows_of_tokens = np.arange(rows) if mapping is None else mapping
    squares = np.ones(len(rows_of_tokens)) if weights is None else np.square(weights.astype(np.float64))
    counted = np.asarray(np.bincount(rows_of_tokens, squares, rows), dtype=np.float64)
    return counted / counted.mean() if counted.any() else None


def _smallest(tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Weights as float32 at most, and row numbers in as few bytes as they need."""
    kept = {}
    for name, array in tensors.items():
        if name == _MAPPING:
            kept[name] = array.astype(np.min_scalar_type(int(array.max())))
        else:
            kept[name] = array.astype(np.float32) if array.dtype == np.float64 else array
    return kept


def _save_file(tensors: dict[str, npt.NDArray[Any]], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(tensors, path)


def _copy_others(source: Path, target: Path) -> None:
    """Copy all files but those that hold weights, and hidden ones."""
    for file in sorted(source.rglob("*")):
        place = file.relative_to(source)
        is_hidden = any(part.startswith(".") for part in place.parts)
        if file.is_file() and file.suffix not in _OTHER_WEIGHTS and not is_hidden:
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / place)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value
