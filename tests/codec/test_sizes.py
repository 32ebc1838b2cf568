import numpy as np
import pytest

from kdcode.codec import CodewordSpec, SizeLimit, Sizes
from kdcode.codec.sizes import LEARNED_HEADER_BYTES, MAX_HEADER_BYTES
from kdcode.errors import OptionError


def test_sums_and_ratios_by_hand():
    sizes = Sizes(codes=10, codebook=20, composition=10, symbols=60)
    assert sizes.embedding == 40
    assert sizes.total == 100
    assert sizes.ratio(100, 2) == 800 / 40
    assert sizes.file_ratio(100, 2, file_bytes=86) == (800 + 60) / 86
    assert sizes.as_dict() == {
        "codes": 10, "codebook": 20, "composition": 10, "symbols": 60, "embedding": 40, "total": 100,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("20x", SizeLimit(times=20)),
        (" 7.5X ", SizeLimit(times=7.5)),
        ("500KB", SizeLimit(file_bytes=500_000)),
        ("1.5 MiB", SizeLimit(file_bytes=1_572_864)),
        ("2gb", SizeLimit(file_bytes=2_000_000_000)),
        ("20B", SizeLimit(file_bytes=20)),
        ("500000", SizeLimit(file_bytes=500_000)),
        (500_000, SizeLimit(file_bytes=500_000)),
        (np.int64(500_000), SizeLimit(file_bytes=500_000)),
        (MAX_HEADER_BYTES, SizeLimit(file_bytes=MAX_HEADER_BYTES)),
    ],
)
def test_sizes_are_read_as_people_write_them(text, limit):
    assert SizeLimit.parse(text) == limit


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("20", "got 20: 20x (times smaller) or 20B (bytes of file)?"),
        (20, "got 20: 20x (times smaller) or 20B (bytes of file)?"),
        (20.0, "got 20.0: 20x (times smaller) or 20B (bytes of file)?"),
        (" 7.5 ", "7.5x (times smaller) or 7.5B"),
        (MAX_HEADER_BYTES - 1, "4095x (times smaller) or 4095B"),
    ],
)
def test_a_small_number_without_a_unit_is_asked_about(text, asked):
    with pytest.raises(OptionError) as refused:
        SizeLimit.parse(text)
    assert str(refused.value).startswith("size must have a unit, got ")
    assert asked in str(refused.value)


@pytest.mark.parametrize("text", ["", "x", "1x", "0", "-5KB", "20 apples", "1e3", "0.5", True, 0, -3, None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(OptionError, match="size must be like 20x, 500KB"):
        SizeLimit.parse(text)


def allows(limit, spec, rows=1000, symbol_bytes=3000):
    return limit.allows(spec.sizes(rows, symbol_bytes), spec.ratio(rows), spec.bits)


def test_limits_allow_what_is_small_enough_and_no_more():
    spec = CodewordSpec.named("linear", 50, 16, 10, codebook_dtype="int8")
    ratio, total = spec.ratio(1000), spec.sizes(1000, 3000).total
    assert allows(SizeLimit(times=ratio), spec)
    assert not allows(SizeLimit(times=ratio * 1.001), spec)
    whole = total + LEARNED_HEADER_BYTES + 16  # and the digest of the only block
    assert allows(SizeLimit(file_bytes=whole), spec)
    assert not allows(SizeLimit(file_bytes=whole - 1), spec)
    assert allows(SizeLimit(bits=40), spec)
    assert not allows(SizeLimit(bits=39), spec)


def test_bits_of_a_limit_count_the_scale_of_a_row():
    spec = CodewordSpec.named("linear", 50, 16, 10, scale_bits=4)
    assert not allows(SizeLimit(bits=40), spec)
    assert not allows(SizeLimit(bits=43), spec)
    assert allows(SizeLimit(bits=44), spec)


def test_limits_say_what_they_are():
    assert [str(SizeLimit.parse(text)) for text in ("20x", "2.5x", "500KB")] == ["20x", "2.5x", "500,000 B"]
    assert str(SizeLimit(bits=64)) == "64 bits"
