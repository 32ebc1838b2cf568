"""Small files that would make a careless reader take a lot of memory or time, and reading one of them as a case.

They are made in a folder beforehand, whose path the cases find in the environment.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from case_worker import Case

import kdcode
from kdcode.errors import KdcodeError
from kdcode.io import numpy_files, torch_file  # noqa: F401 - imported before memory is measured

FOLDER = "KDCODE_TEST_BOMBS"


def load_arrow() -> None:
    """Read a small Parquet file, so that what Arrow takes for itself, some 70 MiB, is not counted as a file's."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "small.parquet")
        pq.write_table(pa.table({"v": pa.array([[0.0] * 4] * 4, pa.list_(pa.float32()))}), path)
        kdcode.read(path)


load_arrow()


class Packed(NamedTuple):
    """Raw deflate, how many bytes it unpacks to, and their checksum; 0 where that would take long."""

    data: bytes
    size: int
    checksum: int


def deflated(head: bytes, unit: bytes, count: int) -> Packed:
    """`head + count * unit`, packed without having it all in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    middle = packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)
    size = len(head) + count * len(unit)
    checksum = zlib.crc32(head)
    for _ in range(count if size < 1 << 27 else 0):
        checksum = zlib.crc32(unit, checksum)
    return Packed(start + middle * count + packer.flush(), size, checksum)


def gzipped(packed: Packed) -> bytes:
    """A gzip file."""
    end = struct.pack("<II", packed.checksum, packed.size % (1 << 32))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed.data + end


def zipped(entries: dict[str, Packed]) -> bytes:
    """A zip archive."""
    body, directory = b"", b""
    for name, (packed, size, checksum) in entries.items():
        sizes = struct.pack("<IIIHH", checksum, len(packed), size, len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0x21) + sizes
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 0x21) + sizes + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def array(kind: str, shape: tuple[int, ...], unit: bytes, count: int) -> Packed:
    """An entry of an .npz file: an array whose elements are `count` times `unit`."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return deflated(head.getvalue(), unit, count)


MIB = bytes(1 << 20)


def zeros(rows: int, dim: int = 256) -> Packed:
    """A matrix of float32 zeros."""
    return array("<f4", (rows, dim), MIB, rows * dim * 4 >> 20)


def torch_zip(pickled: bytes) -> bytes:
    """A PyTorch file with this pickle, and a storage of 64 bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/data/0", bytes(64))
        archive.writestr("a/version", "3\n")
    return stream.getvalue()


def _text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word.encode()


STORAGE = b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu") + b"K\x10tQ"


def tensor(shape: bytes, strides: bytes) -> bytes:
    """The part of a pickle that makes a tensor."""
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\0" + shape + strides + b"\x89}tR"


GOOD_TENSOR = tensor(b"K\x04K\x04\x86", b"K\x04K\x01\x86")


def state_dict(more: bytes) -> bytes:
    """A file with a good tensor and something else."""
    return torch_zip(b"\x80\x02}(" + _text("w") + GOOD_TENSOR + _text("x") + more + b"u.")


def laughing_dicts() -> bytes:
    """Nine levels of dicts, each a thousand times the one below."""
    made = b"}(" + _text("0") + b"}q\0" + _text("w") + GOOD_TENSOR + b"s"
    for level in range(1, 8):
        made += _text(f"{level}") + b"}q" + bytes([level]) + b"("
        made += b"".join(_text(f"{key}") + b"h" + bytes([level - 1]) for key in range(1000)) + b"u"
    return torch_zip(b"\x80\x02" + made + b"u.")


def doubled_tuple(levels: int) -> bytes:
    """The part of a pickle that makes a tuple of 2 to the power of `levels` empty tuples, in a few bytes for each."""
    return b")q\0" + b"".join(b"h" + bytes([level]) + b"\x86q" + bytes([level + 1]) for level in range(levels))


def storage_pickle(key: bytes) -> bytes:
    """A pickle that refers to a storage by a key."""
    return b"\x80\x02(" + _text("storage") + b"ctorch\nFloatStorage\n" + key + _text("cpu") + b"K\x10tQ."


def torch_files() -> dict[str, bytes]:
    """PyTorch files that torch.load alone would take gigabytes or hours for."""
    size = struct.pack("<i", 2 * 10**9)
    legacy = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    long_text = b"(c_codecs\nencode\nq\1" + _text("x" * (1 << 20)) + _text("utf-32") + b"\x86q\2"
    return {
        "bytearray.pt": state_dict(b"c__builtin__\nbytearray\nJ" + size + b"\x85R"),
        "encoded.pt": state_dict(long_text + b"h\1h\2R" * 2000 + b"t"),
        "key.pt": torch_zip(b"\x80\x02}" + doubled_tuple(60) + b"K\0s."),
        "shape.pt": torch_zip(b"\x80\x02" + tensor(doubled_tuple(60), b"K\x04K\x01\x86") + b"."),
        "storage.pt": torch_zip(storage_pickle(doubled_tuple(60))),
        "called.pt": torch_zip(b"\x80\x02" + doubled_tuple(60) + b")R."),
        "state.pt": torch_zip(b"\x80\x02ccollections\nOrderedDict\n)R]" + doubled_tuple(60) + b"K\0\x86ab."),
        "deep.pt": torch_zip(b"\x80\x02)" + b"\x85" * 100_000 + b"."),
        "expanded.pt": torch_zip(b"\x80\x02" + tensor(b"J\x00\x00\x00\x40K\x04\x86", b"K\0K\1\x86") + b"."),
        "dicts.pt": laughing_dicts(),
        "pickle.pt": zipped({"a/data.pkl": deflated(b"\x80\x02", b"]" * (1 << 20), 1 << 11)}),
        "version.pt": legacy + b"\x80\x02" + doubled_tuple(60) + b".",
        "keys.pt": legacy + b"\x80\x02M\xe9\x03.\x80\x02}.\x80\x02}.\x80\x02]" + doubled_tuple(60) + b"a.",
        "legacy.pt": legacy + b"\x80\x02M\xe9\x03.\x80\x02}." + b"\x80\x02" + b"]" * 999,
    }


def gguf(tensors: int, keys: int, rest: bytes) -> bytes:
    """The beginning of a GGUF file with its counts, and what follows."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def gguf_key(name: bytes, kind: int, value: bytes) -> bytes:
    """A key of the metadata of a GGUF file."""
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def gguf_files() -> dict[str, bytes]:
    """GGUF files with counts that no file could hold."""
    tokens = b"tokenizer.ggml.tokens"
    shape = struct.pack("<Q", 1) + b"w" + struct.pack("<IQQIQ", 2, 32, 1 << 62, 8, 0)
    return {
        "keys.gguf": gguf(1, 1 << 60, MIB),
        "tensors.gguf": gguf(1 << 60, 0, MIB),
        "tokens.gguf": gguf(1, 1, gguf_key(tokens, 9, struct.pack("<IQ", 8, 1 << 60) + MIB)),
        "long token.gguf": gguf(1, 1, gguf_key(tokens, 9, struct.pack("<IQQ", 8, 1, 1 << 62) + MIB)),
        "nested.gguf": gguf(1, 1, gguf_key(b"k", 9, struct.pack("<IQ", 9, 1) * 100_000)),
        "shape.gguf": gguf(1, 0, shape + MIB),
    }


def long_row(folder: Path) -> None:
    """A Parquet file with one vector of 40 million zeros."""
    values = np.zeros(40_000_000, dtype=np.float32)
    vectors = pa.ListArray.from_arrays([0, len(values)], pa.array(values))
    pq.write_table(pa.table({"v": vectors}), folder / "long row.parquet", compression="zstd")


def repeated_symbol(folder: Path) -> None:
    """A Parquet file with a symbol of 1 MiB in every row."""
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, dtype=np.int32)), pa.array(["x" * (1 << 20)]))
    table = pa.table({"s": names, "v": pa.array([[0.0]] * 5000, pa.list_(pa.float32()))})
    pq.write_table(table, folder / "repeated symbol.parquet", compression="zstd", store_schema=False)


def wide_lists(folder: Path) -> None:
    """A Parquet file of 4,000 vectors of 10,000 zeros each, in row groups of 1,000."""
    values = pa.array(np.zeros(10_000_000, dtype=np.float32))
    part = pa.table({"v": pa.FixedSizeListArray.from_arrays(values, 10_000)})
    with pq.ParquetWriter(folder / "wide lists.parquet", part.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(part)


def make(folder: Path) -> None:
    """Write all of them."""
    names = array("<U1", (1 << 19,), b"a\0\0\0" * 1024, 1 << 9)
    long_header = b"\x93NUMPY\x02\0\xff\xff\xff\xff"
    lines = {"glove": b"a 0 0\n", "csv": b"a,0,0\n"}
    files = {
        "matrix.npz": zipped({"vectors.npy": zeros(1 << 20)}),
        "symbols.npz": zipped({"vectors.npy": zeros(1 << 19, 2), "symbols.npy": names}),
        "long symbols.npz": zipped(
            {"vectors.npy": zeros(1 << 17, 2), "symbols.npy": array("<U4096", (1 << 17,), MIB, 1 << 11)}
        ),
        "empty symbols.npz": zipped(
            {"vectors.npy": array("|i1", (1 << 27, 1), MIB, 1 << 7), "symbols.npy": array("|S0", (1 << 27,), b"", 0)}
        ),
        "header.npz": zipped({"vectors.npy": deflated(long_header, MIB, 1 << 11)}),
        "long row.bin.gz": gzipped(deflated(b"1 50000000\na ", MIB, 200)),
        "many blocks.bin.gz": gzipped(deflated(b"1 15728640\na ", MIB, 60)),
        "rows.bin.gz": gzipped(deflated(b"9 9999999\n", b"a " + MIB, 400)),
        "line.txt.gz": gzipped(deflated(b"a 1 2\nb", b" 1" * (1 << 19), 1 << 11)),
        "line.csv.gz": gzipped(deflated(b"a,1,2\nb", b",1" * (1 << 19), 1 << 11)),
        "fields.csv.gz": gzipped(deflated(b"", b"a" + b",12" * 600_000 + b"\n", 120)),
        "fields.txt.gz": gzipped(deflated(b"", b"a" + b" 12" * 600_000 + b"\n", 120)),
        "quoted.csv.gz": gzipped(deflated(b'a,1,2\n"', MIB.replace(b"\0", b"x"), 1 << 11)),
        "blank.csv.gz": gzipped(deflated(b"a,1,2\n", b"\n" * (1 << 20), 1 << 11)),
        "header.vec": b"999999999999999999 999999999999999999\na 1 2\n",
        "header.bin": b"999999999999 999999999999\na 1 2\n",
        "symbols.txt.gz": gzipped(deflated(b"", b"a\n" * (1 << 19), 1 << 11)),
    }
    files |= torch_files()
    files |= gguf_files()
    for name, line in lines.items():
        files[f"skipped {name}.gz"] = gzipped(deflated(line, line * (1 << 17), 200))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for write in (long_row, repeated_symbol, wide_lists):
        write(folder)


OPTIONS = {
    "skipped glove.gz": {"format": "glove", "on_bad_line": "skip"},
    "skipped csv.gz": {"format": "csv", "on_bad_line": "skip"},
}
FEW = ("matrix.npz", "long symbols.npz", "expanded.pt", "wide lists.parquet", "long row.parquet")
"""The files of which the first rows are read as well."""


def files_to_read() -> list[tuple[Path, int | None]]:
    """All files, each with how many of its rows are read."""
    paths = sorted(Path(os.environ[FOLDER]).iterdir())
    return [(path, limit) for path in paths for limit in ((None, 10) if path.name in FEW else (None,))]


def read(case: Case) -> str:
    """Read one file: what is said of it, or how many rows it gave."""
    path, limit = files_to_read()[case.number]
    try:
        table = kdcode.read(path, limit=limit, **OPTIONS.get(path.name, {}))
    except KdcodeError as error:
        return f"{path.name}, limit={limit}: {type(error).__name__}: {str(error).removeprefix(f'{path}: ')}"
    return f"{path.name}, limit={limit}: {len(table)} rows of {table.embedding_dim}"
