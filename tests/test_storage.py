import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kdc_bytes import Parts
from safetensors.numpy import load_file
from sample_tables import DTYPES, KINDS, TRANSFORM_NAMES, codec_of, codec_with, coded_table, codes_of, words

from kdcode import CodedTable, CompressOptions, VectorTable, load, save, storage, stored_array, verify
from kdcode.codec import CodewordSpec, codec_from_tensors, make_codec
from kdcode.codec.spec import COMPOSITIONS
from kdcode.digests import block_digest
from kdcode.errors import DamagedFileError, FileError, OptionError, StorageError
from kdcode.evaluation import compare_tables
from kdcode.options import promised_sizes
from kdcode.safetensors_header import DTYPES as HEADER_DTYPES
from kdcode.safetensors_header import read_header
from kdcode.symbols import RowNumbers, StoredSymbols

SYMBOLS = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from(["", "\0", "a b", "\n", "\U0001f600", "\U0010ffff", "ÿ"])),
    unique=True,
    min_size=1,
    max_size=40,
)
SIZES = st.one_of(st.integers(2, 40), st.sampled_from([255, 256, 257, 1000, 65_535, 65_536]))


def same(left: CodedTable, right: CodedTable) -> None:
    """Two tables are one: symbols, codes, vectors to the last bit, and where they came from."""
    assert list(left.symbols) == list(right.symbols)
    assert type(left.symbols) is type(right.symbols)
    np.testing.assert_array_equal(left.codes, right.codes)
    rows = np.arange(len(left))
    np.testing.assert_array_equal(left.decode(rows), right.decode(rows))
    assert left.spec == right.spec
    assert left.sizes == right.sizes
    assert left.provenance == right.provenance


@settings(max_examples=150)
@given(
    kind=st.sampled_from(KINDS),
    symbols=st.one_of(st.none(), SYMBOLS),
    size=SIZES,
    length=st.integers(1, 9),
    extra_dim=st.integers(0, 4),
    provenance=st.dictionaries(
        st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.none()), max_size=3
    ),
)
def test_what_is_saved_is_loaded(tmp_path_factory, kind, symbols, size, length, extra_dim, provenance):
    path = tmp_path_factory.mktemp("round") / "t.kdc"
    rows = 3 if symbols is None else len(symbols)
    coded = coded_table(
        *kind, rows=rows, length=length, size=size, dim=length + extra_dim, symbols=symbols, provenance=provenance
    )
    assert save(coded, path) == path.stat().st_size
    loaded = load(path)
    same(coded, loaded)
    assert [loaded.row_of(symbol) for symbol in loaded.symbols] == list(range(rows))
    assert verify(path).file_bytes == path.stat().st_size
    again = path.with_name("again.kdc")
    save(loaded, again)
    assert again.read_bytes() == path.read_bytes()


@settings(max_examples=100)
@given(
    name=st.sampled_from([name for name in COMPOSITIONS if name != "transform"]),  # whose rows decide their sizes
    dtype=st.sampled_from(DTYPES),
    size=st.integers(2, 300),
    length=st.integers(1, 12),
    width=st.one_of(st.none(), st.integers(1, 20)),
    rotation=st.booleans(),
    scale_bits=st.integers(0, 8),
    rows=st.integers(1, 60),
    named=st.booleans(),
)
def test_the_promised_sizes_are_those_of_the_file(
    tmp_path_factory, *, name, dtype, size, length, width, rotation, scale_bits, rows, named
):
    dim = 13
    several = name in ("product", "grouped")
    options = CompressOptions(
        codebook_size=size,
        code_length=length,
        composition=name,
        codebook_dtype=dtype,
        codeword_dim=None if several else width,
        rotation=rotation and several and rows >= dim,
        scale_bits=scale_bits,
    )
    table = VectorTable(words(rows) if named else None, np.ones((rows, dim)))
    promised = promised_sizes(table, options)
    codec = codec_with(options.spec(dim))
    coded = CodedTable.from_codes(table.packed_symbols, codes_of(codec, rows), codec)
    assert coded.sizes == promised

    path = tmp_path_factory.mktemp("sizes") / "t.kdc"
    written = save(coded, path)
    found = {"codes": 0, "codebook": 0, "composition": 0, "symbols": 0}
    for tensor, (_, _, content) in Parts.of(path).tensors.items():
        part = tensor.split(".")[0].removesuffix("_scale")
        found[part if part in found else "composition"] += len(content)
    assert found == {part: getattr(promised, part) for part in found}
    assert 0 < written - promised.total <= storage.MAX_HEADER_BYTES + 16
    assert verify(path).overhead_bytes == written - promised.total


@pytest.mark.parametrize("rows", [1, 9, 300])
@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_the_sizes_of_transform_codes_are_those_of_the_file(kind, rows, tmp_path):
    coded = coded_table(kind, rows=rows, symbols=words(rows))
    written = save(coded, tmp_path / "t.kdc")
    found = {"codes": 0, "codebook": 0, "composition": 0, "symbols": 0}
    for tensor, (_, _, content) in Parts.of(tmp_path / "t.kdc").tensors.items():
        part = "codes" if tensor.startswith("row_") else tensor.split(".")[0]
        found[part if part in found else "composition"] += len(content)
    assert found == {part: getattr(coded.sizes, part) for part in found}
    assert 0 < written - coded.sizes.total <= storage.MAX_HEADER_BYTES + 16


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_the_safetensors_library_reads_the_same_tensors(kind, dtype, tmp_path):
    coded = coded_table(kind, dtype, rows=20, symbols=words(20))
    save(coded, tmp_path / "t.kdc")
    read = load_file(tmp_path / "t.kdc")
    assert read.pop("digests").shape == (1, 16)
    for name, array in coded.codec.row_tensors(coded.packed).items():
        np.testing.assert_array_equal(read.pop(name), array)
    for name, array in coded.symbols.arrays.items():
        np.testing.assert_array_equal(read.pop(f"symbols.{name}"), array)
    assert {name: (array.dtype.name, array.shape) for name, array in read.items()} == coded.spec.tensor_layout()
    for name, array in coded.codec.tensors().items():
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_every_tensor_is_aligned(kind, dtype, tmp_path):
    path = tmp_path / "t.kdc"
    save(coded_table(kind, dtype, rows=7, symbols=words(7), provenance={"n": "x" * 3}), path)
    header = read_header(path, 4096)
    assert header.data_start % 8 == 0
    for name in header.entries:
        place = header.place(name)
        assert place.start % np.dtype(HEADER_DTYPES[place.dtype]).itemsize == 0


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.kdc"
    save(coded_table(), path)
    before, other = path.read_bytes(), coded_table(seed=1)

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.np, "ascontiguousarray", full_disk)
    with pytest.raises(FileError, match=r"t\.kdc: cannot be written: No space left on device"):
        save(other, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.kdc"]


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ({"table": "x" * 4096}, "at most 4096 are allowed; shorten the table's provenance"),
        ({"when": object()}, "provenance: cannot be written as JSON"),
        ({"loss": float("nan")}, "provenance: cannot be written as JSON"),
        ({"name": "\ud800"}, "provenance: cannot be written as JSON"),
    ],
)
def test_provenance_that_cannot_be_kept_is_refused(provenance, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        save(coded_table(provenance=provenance), tmp_path / "t.kdc")
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.t\.kdc: cannot be written: there is no folder .*absent"):
        save(coded_table(), tmp_path / "absent" / "t.kdc")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder: is a folder, expected a file"):
        save(coded_table(), tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_saving_over_the_file_a_table_is_mapped_from(tmp_path):
    path = tmp_path / "t.kdc"
    original = coded_table("projected", rows=300, symbols=words(300))
    save(original, path)
    loaded = load(path)
    save(loaded, path)
    same(loaded, original)
    other = coded_table(rows=2, symbols=["x", "y"])
    save(other, path)
    same(loaded, original)  # the old file lives on while it is mapped
    same(load(path), other)


def test_a_read_only_file_in_a_read_only_folder(tmp_path):
    path = tmp_path / "t.kdc"
    original = coded_table(rows=20, symbols=words(20))
    save(original, path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        loaded = load(str(path))
        same(loaded, original)
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(loaded.packed)[0, 0] = 1
    finally:
        tmp_path.chmod(0o755)


def test_vectors_are_the_same_before_saving_and_after(tmp_path):
    # The basis is float16 in the file: the table in memory must not be better than what it is saved as.
    spec = CodewordSpec.named("linear", 2, 2, 1, codeword_dim=1, codebook_dtype="float16")
    codec = make_codec(spec, {"codebook": np.ones((1, 2, 1)), "basis": np.array([[0.1, 0.3]])})
    coded = CodedTable.from_codes(None, np.array([[0]]), codec)
    save(coded, tmp_path / "t.kdc")
    np.testing.assert_array_equal(load(tmp_path / "t.kdc").decode(0), coded.decode(0))
    assert coded.decode(0)[0] == np.float32(np.float16(0.1))


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_stored_numbers_are_kept_bit_for_bit(kind, dtype, tmp_path):
    """Numbers that no rounding of ours would give: integers short of 127, scales that are no powers of two."""
    random = np.random.default_rng(0)
    codec = codec_of(kind, dtype)
    tensors = codec.tensors()
    for name, array in tensors.items():
        if array.dtype == np.int8:
            tensors[name] = random.integers(-90, 90, size=array.shape).astype(np.int8)
        elif name.endswith("_scale"):
            tensors[name] = random.uniform(0.011, 0.037, size=array.shape).astype(np.float32)
        elif array.dtype == np.float16:
            tensors[name] = random.uniform(-9, 9, size=array.shape).astype(np.float16)
    codec = codec_from_tensors(codec.spec, tensors)
    coded = CodedTable.from_codes(words(9), codes_of(codec, 9), codec)
    save(coded, tmp_path / "one.kdc")
    loaded = load(tmp_path / "one.kdc")
    for name, array in loaded.codec.tensors().items():
        assert array.tobytes() == tensors[name].tobytes(), name
    np.testing.assert_array_equal(loaded.decode(np.arange(9)), coded.decode(np.arange(9)))
    save(loaded, tmp_path / "two.kdc")
    assert (tmp_path / "two.kdc").read_bytes() == (tmp_path / "one.kdc").read_bytes()


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [[1.0, 2.0]] * 4, [[0.0, 0.0]] * 4], ids=["one", "constant", "zero"])
def test_tables_without_variance_can_be_saved_with_their_error(rows, tmp_path):
    table = VectorTable(None, np.array(rows))
    spec = CodewordSpec.named("linear", 2, 2, 1, codebook_dtype="int8")
    codec = make_codec(spec, {"codebook": np.array([[rows[0], rows[0]]])})
    coded = CodedTable.from_codes(None, np.zeros((len(rows), 1), int), codec)
    coded.provenance.update(compare_tables(table, coded).as_dict())
    save(coded, tmp_path / "t.kdc")
    found = verify(tmp_path / "t.kdc", table).relative_error
    assert found == load(tmp_path / "t.kdc").provenance["relative_error"]
    assert found < 1e-4


def test_verify_compares_with_the_original(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=20, symbols=words(20))
    save(coded, path)
    table = coded.to_table()
    assert verify(path).relative_error is None
    assert verify(path, table).relative_error == 0
    moved = VectorTable(table.symbols, table.matrix + 0.1)
    spread = np.square(moved.matrix - moved.matrix.mean(axis=0)).sum()
    assert verify(path, moved).relative_error == pytest.approx(20 * 7 * 0.01 / spread, rel=1e-3)
    assert verify(path, moved).comparison == compare_tables(moved, coded)
    assert verify(path, moved).as_dict().items() >= compare_tables(moved, coded).as_dict().items()


def test_verify_tells_another_table_by_the_recorded_error(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=20, symbols=words(20))
    table = coded.to_table()
    moved = VectorTable(table.symbols, table.matrix + 0.1)
    coded.provenance["relative_error"] = round(compare_tables(moved, coded).relative_error, 6)
    save(coded, path)
    assert verify(path).is_as_recorded is None
    assert verify(path, moved).is_as_recorded is True
    assert verify(path, table).is_as_recorded is False
    assert verify(path, moved.head(19)).is_as_recorded is None  # the error of all rows is not that of some
    for unusable in (None, "low", True, [1]):
        coded.provenance["relative_error"] = unusable
        save(coded, path)
        assert verify(path, moved).is_as_recorded is None


def test_verify_counts_shared_codes(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=300, length=2, symbols=words(300))
    save(coded, path)
    assert verify(path).shared_codes == coded.shared_codes > 0
    assert verify(path).as_dict()["num_embeddings"] == 300


def test_verify_matches_rows_by_symbol(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=20, symbols=words(20))
    save(coded, path)
    table = coded.to_table()
    moved = verify(path, VectorTable(words(20)[::-1], table.matrix[::-1]))
    assert (moved.relative_error, moved.is_complete) == (0, True)
    assert not moved.comparison.match.same_order
    fewer = verify(path, table.head(18))
    assert (fewer.relative_error, fewer.is_complete) == (0, False)
    assert fewer.comparison.match.added == tuple(words(20)[18:])
    with pytest.raises(StorageError, match=r"t\.kdc: the tables have no symbol in common: the original has 'a'"):
        verify(path, VectorTable([*"abcdefghijklmnopqrst"], table.matrix))
    with pytest.raises(StorageError, match=r"t\.kdc: .* the same dimension, got 20 x 6 and 20 x 7"):
        verify(path, VectorTable(words(20), table.matrix[:, :6]))


def test_verify_takes_symbols_that_are_an_array_and_other_tables(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=20, symbols=words(20))
    save(coded, path)
    vectors = coded.decode(np.arange(20))
    for dtype in ("U", object):
        assert verify(path, VectorTable(np.array(words(20), dtype=dtype), vectors)).relative_error == 0
    for original in (coded, vectors, dict(zip(words(20), vectors, strict=True)), path):
        assert verify(path, original).relative_error == 0


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """Two million rows: 20 MB of codes and 2 million symbols, made without a list of them."""
    rows = 2_000_000
    codec = codec_of("linear", length=16, size=32, dim=20)
    path = tmp_path_factory.mktemp("large") / "large.kdc"
    packed = np.random.default_rng(0).integers(0, 256, size=(rows, codec.spec.row_bytes), dtype=np.uint8)
    symbols = StoredSymbols.build([f"{number:07d}" for number in range(rows)])
    save(CodedTable(symbols, packed, codec), path)
    return path


@pytest.fixture
def blocks_checked(monkeypatch):
    """The bytes of each block that is compared with its digest."""
    calls = []
    monkeypatch.setattr(stored_array, "block_digest", lambda block: calls.append(len(block)) or block_digest(block))
    return calls


def test_two_million_rows_open_at_once(large_file, blocks_checked):
    """Opening reads the header, the codebook; a lookup reads what its binary search comes by."""
    tracemalloc.start()
    try:
        coded = load(large_file)
        _, at_open = tracemalloc.get_traced_memory()
        assert len(blocks_checked) <= 3
        assert coded.row_of("1234567") == 1_234_567
        assert coded["1234567"].shape == (20,)
        _, after_lookup = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(blocks_checked) <= 12
    assert at_open < 1 << 20
    assert after_lookup < 1 << 20  # all symbols would be over 100 MB


def test_what_is_checked_at_once_and_what_is_checked_never(large_file, blocks_checked):
    load(large_file, check="full")
    assert sum(blocks_checked) + len(blocks_checked) * 16 == large_file.stat().st_size
    del blocks_checked[:]
    coded = load(large_file, check="none")
    assert coded["1234567"].shape == (20,)
    assert not blocks_checked


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory of a process")
def test_a_loaded_table_takes_no_memory_of_its_own_for_what_it_maps(large_file):
    """Memory that a process allocates (RssAnon) to open the file and look three symbols up.

    Mapped pages are not counted: the kernel maps as many around a touched one as it sees fit.
    """
    script = f"""
import ctypes, kdcode, kdcode.storage, numpy
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: memory is given page by page, and not in huge ones
def allocated():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
before = allocated()
coded = kdcode.load({str(large_file)!r})
for symbol in ("0000000", "1000000", "1999999"):
    coded[symbol]
print(allocated() - before)
kept = [codes.copy() for _, codes in coded.code_chunks()]
print(allocated() - before)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    few, all_codes = map(int, run.stdout.split())
    assert few < 2 << 20
    assert all_codes > 20e6  # the measure sees what it should


def test_row_numbers_stay_row_numbers(tmp_path):
    save(coded_table(rows=4), tmp_path / "t.kdc")
    loaded = load(tmp_path / "t.kdc")
    assert isinstance(loaded.symbols, RowNumbers)
    assert loaded.sizes.symbols == 0


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("check", storage.CHECKS)
@pytest.mark.parametrize("mmap", [True, False])
def test_every_way_to_open_a_file_gives_the_same(kind, dtype, check, mmap, tmp_path):
    coded = coded_table(kind, dtype, rows=20, symbols=words(20))
    save(coded, tmp_path / "t.kdc")
    loaded = load(tmp_path / "t.kdc", check=check, mmap=mmap)
    same(loaded, coded)
    loaded.check()


def test_a_table_in_memory_needs_its_file_no_more(tmp_path):
    path = tmp_path / "t.kdc"
    coded = coded_table(rows=20, symbols=words(20))
    save(coded, path)
    loaded = load(path, mmap=False)
    path.write_bytes(b"")
    same(loaded, coded)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_table_from_a_pipe(tmp_path):
    coded = coded_table(rows=3000, symbols=words(3000))
    save(coded, tmp_path / "t.kdc")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", tmp_path / "t.kdc", tmp_path / "pipe"]):
        same(load(tmp_path / "pipe", mmap=False), coded)


def test_damage_is_found_where_it_is_read(large_file, tmp_path):
    path = tmp_path / "t.kdc"
    content = bytearray(large_file.read_bytes())
    place = read_header(large_file, 4096)
    row = 1_500_000
    content[place.data_start + place.place("codes").start + row * 10] ^= 1
    path.write_bytes(content)
    coded = load(path)
    coded.decode(0)
    for reading in (
        lambda: coded.decode(row),
        lambda: coded[f"{row:07d}"],
        lambda: coded.select([row]),
        lambda: list(coded.code_chunks()),
        lambda: save(coded, tmp_path / "copy.kdc"),
        lambda: verify(path),
        lambda: load(path, check="full"),
        lambda: load(path, check="full", mmap=False),
    ):
        with pytest.raises(DamagedFileError, match=r"t\.kdc: bytes [\d,]+ to [\d,]+ do not match their digest"):
            reading()
    assert not (tmp_path / "copy.kdc").exists()
    load(path, check="none").decode(row)


@pytest.mark.parametrize("wrong", ["all", None, True])
def test_checks_that_do_not_exist(wrong, tmp_path):
    save(coded_table(), tmp_path / "t.kdc")
    with pytest.raises(OptionError, match=f"check must be one of lazy, full, none, got {wrong!r}"):
        load(tmp_path / "t.kdc", check=wrong)
