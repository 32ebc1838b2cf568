"""Folders of Transformers models: read, compressed, and written whole, with tokenizer and all other files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kdcode.errors import FormatError, MissingExtraError, OptionError
from kdcode.files import check_readable

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIG, MODULES = "config.json", "modules.json"
GGUF = ".gguf"

CALIBRATION_TOKENS, CALIBRATION_WINDOW = 16_384, 256
"""How much of a text is read for calibration, and how much of it at a time."""

CALIBRATION_CHARACTERS = 20 * CALIBRATION_TOKENS

_WEIGHTS = (
    "*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model.bin.index.json", "*.gguf",
    "tf_model*.h5", "flax_model*.msgpack", "rust_model.ot", "model*.onnx", "*.onnx_data",
)  # fmt: skip
"""Files beside config.json that hold the weights of the original model."""

_WRITTEN = (CONFIG, "generation_config.json")
"""Files that `save_pretrained` writes."""

_OTHER_COPIES = ("onnx", "openvino", "coreml", ".git", ".cache")
"""Folders that hold the original model once more, or what no model needs."""


class LoadedModel(NamedTuple):
    """A model of a folder.

    Args:
        model: in evaluation mode.
        tokenizer: that of a GGUF file, which has no files of its own; None elsewhere.
        notes: what its user should know.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    notes: list[str]


@dataclass(frozen=True)
class ModelFolder:
    """A folder that `save_pretrained` has written, one of sentence-transformers, or a GGUF file.

    Args:
        folder: all of it.
        inner: the folder in it that has config.json: "" in most, such as "0_Transformer" in some.
        gguf_file: the file in it that has the weights, and says what the model is.
        config: what config.json says; empty where there is none.
    """

    folder: Path
    inner: str = ""
    gguf_file: str | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, source: Path, gguf_file: str | None = None) -> ModelFolder:
        """The model at a path: a folder, or a GGUF file.

        Args:
            source: the path.
            gguf_file: the name of a GGUF file in the folder, where the weights are in one.

        Raises:
            FormatError: there is no model, or one that cannot be compressed.
            FileError: there is no such file or folder.
        """
        if source.is_file() and source.suffix.lower() == GGUF:
            if gguf_file is not None:
                raise OptionError(f"gguf_file is for a folder, and {source} is a GGUF file already; leave it out")
            source, gguf_file = source.parent, source.name
        if not source.is_dir():
            check_readable(source)
            raise FormatError(f"{source}: expected a folder of `save_pretrained` or a GGUF file, got another file")
        if gguf_file is not None:
            check_readable(source / gguf_file)
            return cls(source, gguf_file=gguf_file)
        inner = _inner_folder(source)
        if not (source / inner / CONFIG).is_file():
            files = sorted(path.name for path in source.glob(f"*{GGUF}"))
            hint = f"; for its GGUF file give gguf_file={files[0]!r}" if files else ""
            raise FormatError(f"{source}: has no {CONFIG}; expected a folder written by `save_pretrained`{hint}")
        config = _json(source / inner / CONFIG)
        _refuse_quantized(source, config)
        return cls(source, inner, config=config)

    def load(self, dtype: str = "auto") -> LoadedModel:
        """The model as its config.json names it.

        Args:
            dtype: of the weights: "auto" is that of the files, or a name such as "float16".

        Raises:
            MissingExtraError: Transformers is not installed, or gguf where it is needed.
            FormatError: Transformers cannot load it.
        """
        transformers = _package("transformers", "Transformers models")
        path, name, more = self.folder / self.inner, "AutoModelForCausalLM", {}
        if self.gguf_file is not None:
            _package("gguf", "GGUF files")
            more = {"gguf_file": self.gguf_file}
        else:
            name = str((self.config.get("architectures") or ["AutoModel"])[0])
        kind = getattr(transformers, name, None)
        if kind is None:
            raise FormatError(f"{path}: its architecture {name!r} is not one of Transformers' own")
        try:
            with quiet_transformers():
                model, found = kind.from_pretrained(
                    path, dtype=dtype, local_files_only=True, output_loading_info=True, **more
                )
        except Exception as error:
            raise FormatError(f"{path}: Transformers cannot load it: {_first_line(error)}") from error
        tokenizer, notes = None, [*_notes(found)]
        if self.gguf_file is not None:
            try:
                with quiet_transformers():
                    tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, **more)
            except Exception as error:
                notes.append(f"its tokenizer cannot be read, so none is written: {_first_line(error)}")
        return LoadedModel(model.eval(), tokenizer, notes)

    def calibration(self, loaded: LoadedModel, text: Path) -> list[dict[str, Tensor]]:
        """Inputs of the model that show how it is used: windows of a text file, from its beginning.

        Raises:
            FormatError: there is no tokenizer that Transformers can load, or the text has no tokens.
            FileError: there is no such file.
        """
        transformers = _package("transformers", "Transformers models")
        check_readable(text)
        with text.open(encoding="utf-8", errors="replace") as file:
            words = file.read(CALIBRATION_CHARACTERS)
        path, tokenizer = self.folder / self.inner, loaded.tokenizer
        try:
            with quiet_transformers():
                if tokenizer is None:
                    tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
                ids = tokenizer(words, return_tensors="pt")["input_ids"][0]
        except Exception as error:
            raise FormatError(f"{path}: Transformers cannot load its tokenizer: {_first_line(error)}") from error
        if not len(ids):
            raise FormatError(f"{text}: has no text to calibrate with")
        most = getattr(loaded.model.config, "max_position_embeddings", None) or CALIBRATION_WINDOW
        window = min(CALIBRATION_WINDOW, int(most))
        return [{"input_ids": part[None]} for part in ids[:CALIBRATION_TOKENS].split(window)]

    def write(self, loaded: LoadedModel, target: Path) -> list[str]:
        """Write a model to an empty folder, with all that belongs to it; gives the names of what was left out."""
        left_out = [] if self.gguf_file is not None else _copy(self.folder, target, self.inner)
        place = target / self.inner
        with quiet_transformers():
            for part in (loaded.model, loaded.tokenizer):
                if part is not None:
                    part.save_pretrained(place)
        for path in place.glob("*.safetensors"):  # which safetensors writes for the owner alone
            shutil.copymode(place / CONFIG, path)
        return left_out

    @property
    def nbytes(self) -> int:
        """Bytes of all files, or of the GGUF file."""
        if self.gguf_file is not None:
            return (self.folder / self.gguf_file).stat().st_size
        return folder_bytes(self.folder)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder, and in those in it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep Transformers from showing progress and notes of its own."""
    logging: Any = import_module("transformers.utils.logging")
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def _inner_folder(source: Path) -> str:
    """Where config.json is: sentence-transformers may keep the network in a folder of its own."""
    if not (source / MODULES).is_file() or (source / CONFIG).is_file():
        return ""
    for module in _json(source / MODULES):
        path = module.get("path") if isinstance(module, dict) else None
        is_network = str(module.get("type")).endswith("Transformer") if isinstance(module, dict) else False
        if is_network and isinstance(path, str) and Path(path).name == path and (source / path / CONFIG).is_file():
            return path
    return ""


def _json(path: Path) -> Any:  # noqa: ANN401 - whatever is in it
    check_readable(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: is no JSON: {error}") from error


def _refuse_quantized(source: Path, config: Any) -> None:  # noqa: ANN401 - whatever is in it
    if not isinstance(config, dict):
        raise FormatError(f"{source / CONFIG}: expected an object, got {type(config).__name__}")
    method = (config.get("quantization_config") or {}).get("quant_method")
    if method == "kdcode":
        raise FormatError(f"{source}: its embeddings are coded already; compress the original model instead")
    if method is not None:
        raise FormatError(
            f"{source}: its weights are quantized by {method}, and config.json has room for one method; give the "
            "original model"
        )


def _package(name: str, feature: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, name) from error


def _notes(found: dict[str, Any]) -> Iterator[str]:
    """What to say of tensors that fit no layer, and of layers without tensors."""
    for keys, words in (
        ("unexpected_keys", "of the original fit no layer of the model, and are left out"),
        ("missing_keys", "of the model are not in the original, and are random numbers in both"),
    ):
        names = sorted(found.get(keys) or ())
        if names:
            listed = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
            yield f"{len(names)} tensors {words}: {listed}"


def _copy(source: Path, target: Path, inner: str) -> list[str]:
    """Copy all but the weights of the model, and copies of it for other programs; gives the names of the latter."""
    left_out = []
    for path in sorted(source.iterdir()):
        if path.is_dir():
            if path.name in _OTHER_COPIES:
                left_out.append(path.name)
            elif path.name == inner:
                (target / inner).mkdir()
                left_out += [f"{inner}/{name}" for name in _copy(path, target / inner, "")]
            else:
                shutil.copytree(path, target / path.name)
        elif inner or not (path.name in _WRITTEN or any(fnmatchcase(path.name, one) for one in _WEIGHTS)):
            shutil.copy(path, target / path.name)
    return left_out


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
