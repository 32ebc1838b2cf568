"""What a file may make its reader allocate: memory stays near its size, or the file is refused by name."""

import math
import tracemalloc

import numpy as np
import pytest
import raw_symbols
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import CODEWORD_KINDS, KINDS, coded_table, spec_of, words

from kdcode import bitpack, limits, load, save, verify
from kdcode.codec import CodewordSpec, codec_from_tensors
from kdcode.coded import CodedTable
from kdcode.errors import LimitError, OptionError, StorageError
from kdcode.limits import ALWAYS_ALLOWED, MAX_EXPANSION, MemoryLimit
from kdcode.symbols import BLOCK_SYMBOLS, MAX_SYMBOL_BYTES, RowNumbers, StoredSymbols

MIB = 1 << 20


def peak_of(call):
    """The most bytes that a call had allocated at once, and what it returned."""
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


# The limit itself


def test_a_file_may_take_a_multiple_of_its_size_and_256_mib_in_any_case():
    assert MemoryLimit(10).allowed == ALWAYS_ALLOWED == 256 * MIB
    assert MemoryLimit(10_000_000).allowed == 100 * 10_000_000
    assert MemoryLimit(10_000_000, 50).allowed == 500_000_000
    assert MemoryLimit(10_000_000, math.inf).allowed == math.inf
    MemoryLimit(10).check("anything", ALWAYS_ALLOWED)


def test_a_refusal_says_what_asked_for_how_much_and_what_to_do():
    with pytest.raises(LimitError) as caught:
        MemoryLimit(1000, name="a.kdc").check("the tensor 'weight'", 300 * MIB)
    assert str(caught.value) == (
        "a.kdc: the tensor 'weight' would take 314,572,800 bytes of memory; a file of 1,000 bytes may take 268,435,456"
        "; if you trust this file, set max_expansion= to 314573 or more"
    )
    MemoryLimit(1000, 314_573).check("the tensor 'weight'", 300 * MIB)


@pytest.mark.parametrize("wrong", [0, 0.5, -1, math.nan, "5", None])
def test_a_factor_below_one_is_refused(wrong, tmp_path):
    with pytest.raises(OptionError, match="max_expansion must be a number of at least 1"):
        load(tmp_path / "absent.kdc", max_expansion=wrong)


# Honest tables


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("rows", [1, 1000, 10_000_000])
def test_no_table_of_ours_comes_near_the_limit(kind, dtype, rows):
    for length, size, dim in ((4, 4, 7), (32, 256, 300), (64, 16, 1024), (8, 65_536, 4096)):
        spec = spec_of(kind, dtype, length=length, size=size, dim=dim)
        spec.check_memory(MemoryLimit(spec.sizes(rows).total, MAX_EXPANSION / 5), rows)


@given(
    size=st.integers(2, 65_536),
    length=st.integers(1, 65_536),
    dim=st.integers(1, 1 << 20),
    rows=st.integers(1, 1 << 40),
    kind=st.sampled_from(CODEWORD_KINDS),
)
def test_no_file_is_refused_for_its_shape_alone(size, length, dim, rows, kind):
    spec = spec_of(*kind, length=min(length, dim), size=size, dim=dim)
    spec.check_memory(MemoryLimit(spec.sizes(rows).total, MAX_EXPANSION / 5), rows)


# Files that claim as much as the format allows

HOSTILE = {
    "many positions": (CodewordSpec("block-sum", 1, 2, 2048, 1, codebook_dtype="int8"), 1),
    "many blocks": (CodewordSpec("block-sum", 8192, 2, 8192, 8192, 8192, codebook_dtype="int8"), 1),
    "rows of many positions": (CodewordSpec("block-sum", 1, 3, 1024, 1, codebook_dtype="int8"), 16_000),
    "blocks and rows": (CodewordSpec("block-sum", 2048, 2, 2048, 2048, 2048, codebook_dtype="int8"), 1000),
    "wide vectors": (CodewordSpec("block-sum", 262_144, 2, 1, 1, basis=True, codebook_dtype="int8"), 100),
    "wide and many codewords": (
        CodewordSpec("block-sum", 200_000, 65_536, 2, 1, basis=True, codebook_dtype="int8"),
        10,
    ),
    "many codewords": (CodewordSpec("block-sum", 64, 65_536, 64, 64, 64, codebook_dtype="int8"), 10),
    "short rows": (CodewordSpec("block-sum", 1, 3, 1, 1, codebook_dtype="int8"), 300_000),
    "wide LSTM": (CodewordSpec("lstm", 100_000, 65_536, 2, 1, basis=True, codebook_dtype="int8"), 10),
    "long LSTM": (CodewordSpec("lstm", 1, 2, 512, 1, basis=True, codebook_dtype="int8"), 100),
    "deep LSTM": (CodewordSpec("lstm", 1, 2, 1, 700, basis=True, codebook_dtype="int8"), 100),
}


def hostile_table(name):
    spec, rows = HOSTILE[name]
    tensors = {tensor: np.ones(shape, dtype) for tensor, (dtype, shape) in spec.tensor_layout().items()}
    packed = np.zeros((rows, spec.row_bytes), dtype=np.uint8)
    return CodedTable(RowNumbers(rows), packed, codec_from_tensors(spec, tensors))


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_stays_near_the_size_of_the_file(name, tmp_path):
    path = tmp_path / "t.kdc"
    size = save(hostile_table(name), path)
    allowed = 64 * MIB + 16 * size  # a fraction of what the limit allows
    queries = np.ones((2, HOSTILE[name][0].embedding_dim), dtype=np.float32)
    for step in (
        lambda: load(path, check="full"),
        lambda: load(path).decode(0),
        lambda: load(path)["0"],
        lambda: load(path).neighbors(queries[0], 2),
        lambda: load(path).neighbors(queries, 2),
        lambda: load(path).encode(queries[0], sweeps=0),
        lambda: next(load(path).chunks()),
        lambda: verify(path),
    ):
        peak, _ = peak_of(step)
        assert peak < allowed


def test_codes_are_unpacked_with_little_beside_them():
    packed = np.zeros((4096, 1024), dtype=np.uint8)
    peak, codes = peak_of(lambda: bitpack.unpack(packed, [1] * 8192))
    assert peak < codes.nbytes + 16 * MIB


def test_wide_rows_are_decoded_few_at_a_time():
    spec = CodewordSpec("block-sum", 262_144, 2, 1, 1, basis=True, codebook_dtype="int8")
    tensors = {name: np.ones(shape, dtype) for name, (dtype, shape) in spec.tensor_layout().items()}
    coded = CodedTable(RowNumbers(3000), np.zeros((3000, 1), np.uint8), codec_from_tensors(spec, tensors))
    assert len(next(coded.chunks())[1]) == 16


def test_the_longest_code_is_65536_positions():
    with pytest.raises(OptionError, match="code_length: expected 1 to 65536, got 65537"):
        CodewordSpec("block-sum", 1, 2, 65_537, 1)


# What load refuses


def test_load_refuses_by_name_what_would_take_too_much(tmp_path, monkeypatch):
    path = tmp_path / "t.kdc"
    save(coded_table("linear", "int8", rows=20, length=8, size=256, dim=64, symbols=words(20)), path)
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 0)
    load(path)
    with pytest.raises(LimitError) as caught:
        load(path, max_expansion=2)
    assert str(caught.value).startswith(
        f"{path}: codebook: 8 x 256 x 64 numbers as float32 would take 524,288 bytes of memory; "
        f"a file of {path.stat().st_size:,} bytes may take"
    )
    assert str(caught.value).endswith("if you trust this file, set max_expansion= to 4 or more")
    assert load(path, max_expansion=4).decode(3).shape == (64,)


# Symbols that inflate to a thousand times their bytes


def bomb(blocks):
    """Symbols as long as they may be, of six bytes each; the blocks are not sorted."""
    longest = [(0, b"0"), (0, b"a" * (MAX_SYMBOL_BYTES - 1)), *[(MAX_SYMBOL_BYTES - 1, b"z")] * (BLOCK_SYMBOLS - 2)]
    block = raw_symbols.block_of(longest)
    return raw_symbols.stored(
        [(b"", block)] * blocks, blocks * BLOCK_SYMBOLS, limit=MemoryLimit(blocks * 1000, name="a.kdc")
    )


def test_one_symbol_of_a_bomb_takes_little():
    symbols = bomb(40)
    peak, found = peak_of(lambda: symbols[40 * BLOCK_SYMBOLS - 1])
    assert found.endswith("aaaz")
    assert peak < 2 * MIB
    assert symbols.find("0") == 39 * BLOCK_SYMBOLS  # all blocks have it, and the same head
    assert peak_of(lambda: next(symbols.ranked()))[0] < 80 * MIB


def test_all_symbols_of_a_bomb_are_refused_before_they_take_the_memory():
    symbols = bomb(200)

    def refused():
        with pytest.raises(LimitError, match=r"^a\.kdc: symbols\.blocks: the text of the first 4,?608 symbols would"):
            list(symbols)

    peak, _ = peak_of(refused)
    assert peak < ALWAYS_ALLOWED + 80 * MIB


def test_a_bomb_is_verified_in_little_memory():
    symbols = bomb(200)

    def refused():
        with pytest.raises(StorageError, match="not sorted"):
            symbols.verify()

    assert peak_of(refused)[0] < 2 * MIB


def test_symbols_that_are_not_from_a_file_have_no_limit(monkeypatch):
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 0)
    symbols = ["a" * 60_000 + str(number) for number in range(300)]
    built = StoredSymbols.build(symbols)
    assert list(built) == symbols
    limited = StoredSymbols(300, built.arrays, MemoryLimit(built.nbytes, 2))
    with pytest.raises(LimitError, match=r"symbols\.blocks: the text of the first 300 symbols would take"):
        list(limited)
    limited.verify()
    assert limited[7] == symbols[7]
