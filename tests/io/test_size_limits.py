"""What a small file may take: no more than 256 MiB of memory and a few seconds, whatever it claims."""

import gzip

import input_bombs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from harness import run_cases
from input_samples import gguf_bytes
from safetensors.torch import save_file

import kdcode
from kdcode import limits
from kdcode.cli import main
from kdcode.errors import FormatError, LimitError

TORCH = "FormatError: not a PyTorch file of plain tensors:"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of reading each of the files, each in at most 256 MiB and 5 seconds of CPU time."""
    folder = tmp_path_factory.mktemp("bombs")
    input_bombs.make(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(input_bombs.FOLDER, str(folder))
        tally = run_cases("bombs", input_bombs.read, count=len(input_bombs.files_to_read()))
    assert tally.failures == {}, tally.first
    return dict(outcome.split(": ", 1) for outcome in tally.outcomes)


@pytest.mark.parametrize(
    ("name", "limit", "outcome"),
    [
        ("matrix.npz", 10, "10 rows of 256"),
        ("matrix.npz", None, "LimitError: the array 'vectors', 1048576 x 256 float32, would take 1,073,741,824 bytes"),
        ("long symbols.npz", None, "LimitError: 131072 of the 'symbols' would take"),
        ("empty symbols.npz", None, "LimitError: 134217728 of the 'symbols' would take"),
        (
            "header.npz",
            None,
            "FormatError: not a usable .npz file: 'vectors' is no array: its header claims 4294967295",
        ),
        ("long row.bin.gz", None, "LimitError: a row of 50000000 numbers would take"),
        ("many blocks.bin.gz", None, "1 rows of 15728640"),
        ("line.txt.gz", None, "FormatError: line 2 is longer than 2097152 bytes"),
        ("line.csv.gz", None, "FormatError: line 2 is longer than 2097152 bytes"),
        ("quoted.csv.gz", None, "FormatError: line 2 is longer than 2097152 bytes"),
        ("blank.csv.gz", None, "LimitError: the content of the gzipped file would take"),
        ("skipped glove.gz", None, "LimitError: 268436 bad lines that are skipped would take"),
        ("skipped csv.gz", None, "LimitError: 268436 bad lines that are skipped would take"),
        ("header.vec", None, "FormatError: line 2: expected 999999999999999999 numbers"),
        ("header.bin", None, "FormatError: line 1: the header promises 999999999999 rows"),
        ("bytearray.pt", None, f"{TORCH} it names __builtin__.bytearray"),
        ("encoded.pt", None, f"{TORCH} it names _codecs.encode"),
        ("key.pt", None, f"{TORCH} it uses SETITEM as files of tensors do not"),
        ("shape.pt", None, TORCH),
        ("storage.pt", None, f"{TORCH} it uses BINPERSID"),
        ("called.pt", None, f"{TORCH} it uses REDUCE"),
        ("state.pt", None, f"{TORCH} it uses BUILD"),
        ("deep.pt", None, "FormatError: expected a matrix of floats, found none"),
        ("expanded.pt", 10, "10 rows of 4"),
        ("expanded.pt", None, "LimitError: the tensor 'tensor' would take 17,179,869,184 bytes"),
        ("dicts.pt", None, "LimitError: the names of its tensors would take"),
        ("pickle.pt", None, f"{TORCH} its archive is compressed"),
        ("version.pt", None, f"{TORCH} it uses BINGET"),
        ("keys.pt", None, f"{TORCH} it uses BINGET"),
        ("long row.parquet", 10, "LimitError: row group 0 would take"),
        ("wide lists.parquet", 10, "10 rows of 10000"),
        ("wide lists.parquet", None, "LimitError: 3"),
        ("keys.gguf", None, "FormatError: not a usable GGUF file: 'Duplicate "),
        ("tensors.gguf", None, "FormatError: not a usable GGUF file: a value at byte 1048600 takes 8 bytes"),
        (
            "tokens.gguf",
            None,
            "FormatError: not a usable GGUF file: a value at byte 69 takes 9223372036854775808",
        ),
        ("long token.gguf", None, "FormatError: not a usable GGUF file: a token ends at byte 4611686018427387981"),
        ("nested.gguf", None, "FormatError: not a usable GGUF file: maximum recursion depth"),
        ("shape.gguf", None, "FormatError: not a usable GGUF file: cannot reshape array"),
        ("repeated symbol.parquet", None, "LimitError: 5000 symbols would take 5,242,880,000 bytes"),
    ],
)
def test_small_files_that_ask_for_a_lot(outcomes, name, limit, outcome):
    assert outcomes[f"{name}, limit={limit}"].startswith(outcome)


def zeros_npz(path):
    np.savez_compressed(path, vectors=np.zeros((3000, 30), dtype=np.float32))


def zeros_text(path):
    path.write_bytes(gzip.compress(b"".join(b"w%d 0 0 0\n" % row for row in range(3000))))


def zeros_binary(path):
    rows = b"".join(b"w%d " % row + bytes(120) for row in range(3000))
    path.write_bytes(gzip.compress(b"3000 30\n" + rows))


def zeros_csv(path):
    path.write_bytes(gzip.compress(b"".join(b"w%d,0,0,0\n" % row for row in range(3000))))


def zeros_parquet(path):
    pq.write_table(pa.table({"v": pa.array([[0.0] * 30] * 3000, pa.list_(pa.float32()))}), path)


def zeros_torch(path):
    torch.save(torch.zeros(1, 30).expand(3000, 30), path)


def half_safetensors(path):
    save_file({"w": torch.zeros(3000, 3, dtype=torch.bfloat16)}, path)


def few_bits_gguf(path):
    path.write_bytes(gguf_bytes(path.parent, {"w": (np.ones((3000, 32), dtype=np.float32), "Q4_0")}, None))


MAKERS = {
    "a.npz": zeros_npz,
    "a.txt.gz": zeros_text,
    "a.vec.gz": lambda path: path.write_bytes(
        gzip.compress(b"3000 1\n" + b"".join(b"w%d 0\n" % n for n in range(3000)))
    ),
    "a.bin.gz": zeros_binary,
    "a.csv.gz": zeros_csv,
    "a.parquet": zeros_parquet,
    "a.pt": zeros_torch,
    "a.safetensors": half_safetensors,
    "a.gguf": few_bits_gguf,
}


@pytest.mark.parametrize("name", MAKERS)
def test_max_expansion_sets_the_limit_of_every_format_that_can_expand(tmp_path, monkeypatch, name):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 1000)
    MAKERS[name](tmp_path / name)
    with pytest.raises(LimitError) as caught:
        kdcode.read(tmp_path / name, max_expansion=1)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert "set max_expansion= to" in str(caught.value)
    assert len(kdcode.read(tmp_path / name, max_expansion=1e6)) == 3000
    assert len(kdcode.read(tmp_path / name, max_expansion=1e6)) == 3000


def test_a_symbols_file_has_a_limit_of_its_own_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 1000)
    np.save(tmp_path / "a.npy", np.zeros((3000, 1)))
    names = tmp_path / "a.symbols.txt"
    names.write_bytes(gzip.compress(b"".join(b"w%d\n" % row for row in range(3000))))
    with pytest.raises(LimitError, match=f"{names}: "):
        kdcode.read(tmp_path / "a.npy", max_expansion=1)
    assert kdcode.read(tmp_path / "a.npy", max_expansion=1000).symbols[2999] == "w2999"


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.symbols.txt"])
def test_no_plain_file_is_refused_for_having_many_short_lines(tmp_path, monkeypatch, name):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 1000)
    lines = [f"{row:x}" for row in range(20_000)]
    if name == "a.symbols.txt":
        np.save(tmp_path / "a.npy", np.zeros((20_000, 1)))
        (tmp_path / name).write_text("\n".join(lines))
        assert len(kdcode.read(tmp_path / "a.npy")) == 20_000
    else:
        (tmp_path / name).write_text("".join(f"{line}{' ' if name == 'a.txt' else ','}0\n" for line in lines))
        assert len(kdcode.read(tmp_path / name)) == 20_000


def test_only_the_rows_that_are_asked_for_are_unpacked(tmp_path, monkeypatch):
    import zipfile

    symbols = np.array([f"w{row}" for row in range(100_000)])
    np.savez(tmp_path / "a.npz", vectors=np.ones((100_000, 30), dtype=np.float32), symbols=symbols)
    unpacked = []
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: unpacked.append(read(self, n)) or unpacked[-1])
    assert kdcode.read(tmp_path / "a.npz", limit=10).symbols[9] == "w9"
    assert sum(map(len, unpacked)) < 5000


def test_a_long_symbol_is_cut_in_messages(tmp_path):
    (tmp_path / "a.txt").write_text(f"{'x' * 100_000} 1 2\n{'x' * 100_000} 1 2\n")
    with pytest.raises(FormatError) as caught:
        kdcode.read(tmp_path / "a.txt")
    assert len(str(caught.value)) < 500


def test_the_command_line_names_its_flag(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 1000)
    zeros_npz(tmp_path / "a.npz")
    plan = ["plan", str(tmp_path / "a.npz"), "--size", "20x", "--quiet"]
    refused = CliRunner().invoke(main, plan)
    assert refused.exit_code == 1
    assert "set --max-expansion to" in refused.stderr
    assert "max-expansion" not in CliRunner().invoke(main, [*plan, "--max-expansion", "1e6"]).stderr
