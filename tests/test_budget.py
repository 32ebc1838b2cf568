import dataclasses

import pytest

from kdcode.budget import CodeShape, SizeLimit, Sizes, weight_format, weight_shapes
from kdcode.errors import OptionError

SHAPE = CodeShape(
    num_embeddings=1000,
    embedding_dim=20,
    codebook_size=6,
    code_length=5,
    codeword_dim=20,
    composition="linear",
    number_format="float32",
)


def test_sizes_by_hand():
    # 5 values of 3 bits are 2 bytes; 6·5 codewords of 20 numbers.
    assert SHAPE.sizes(77) == Sizes(codes=2000, codebook=2400, composition=0, symbols=77)


def test_int8_adds_one_scale_per_position():
    sizes = dataclasses.replace(SHAPE, number_format="int8").sizes(0)
    assert sizes.codebook == 600 + 5 * 4


@pytest.mark.parametrize(("numbers", "bytes_each"), [("float32", 4), ("float16", 2), ("int8", 2)])
def test_weights_of_a_composition_by_hand(numbers, bytes_each):
    projected = dataclasses.replace(SHAPE, codeword_dim=3, number_format=numbers)
    assert projected.sizes(0).composition == 3 * 20 * bytes_each
    lstm = dataclasses.replace(projected, composition="lstm")
    assert lstm.sizes(0).composition == (4 * 3 * 3 + 4 * 3 + 3 * 20) * bytes_each
    product = dataclasses.replace(projected, composition="product", codeword_dim=4)
    assert product.sizes(0).composition == 0


@pytest.mark.parametrize(("numbers", "expected"), [("float32", 1600), ("float16", 800), ("int8", 400 + 80)])
def test_a_rotation_takes_its_squares(numbers, expected):
    turned = dataclasses.replace(SHAPE, composition="grouped", codeword_dim=10, number_format=numbers, rotated=True)
    assert turned.sizes(0).composition == expected
    assert turned.parameters == 6 * 5 * 10 + 400


def test_shared_codewords_count_once():
    shared = dataclasses.replace(SHAPE, number_format="int8", shared=True)
    assert shared.sizes(0).codebook == 6 * 20 + 4
    assert shared.parameters == 6 * 20


def test_scales_of_rows_count_as_codes():
    scaled = dataclasses.replace(SHAPE, num_embeddings=1001, scale_bits=3)
    assert scaled.sizes(0).codes == 1001 * 2 + 126 * 3 + 8 * 4


def test_parameters_are_those_of_the_paper():
    # Section 5: K = 50, D = 10, d' = 200 is 0.1M in the small model (d = 200) and 0.4M in the large (d = 1500).
    small = CodeShape(10_000, 200, 50, 10, 200, "linear", "float32")
    assert small.parameters == 100_000
    assert dataclasses.replace(small, embedding_dim=1500).parameters == 400_000


def test_sums_and_ratios_by_hand():
    sizes = Sizes(codes=10, codebook=20, composition=10, symbols=60)
    assert sizes.embedding == 40
    assert sizes.total == 100
    assert sizes.ratio(100, 2) == 800 / 40
    assert sizes.file_ratio(100, 2, file_bytes=86) == (800 + 60) / 86
    assert sizes.as_dict() == {
        "codes": 10, "codebook": 20, "composition": 10, "symbols": 60, "embedding": 40, "total": 100,
    }  # fmt: skip


def test_weight_shapes_and_formats():
    assert weight_shapes("linear", 4, 4) == {}
    assert weight_shapes("linear", 4, 6) == {"projection": (4, 6)}
    assert weight_shapes("lstm", 4, 6) == {"recurrent": (4, 4, 4), "bias": (4, 4), "projection": (4, 6)}
    assert weight_shapes("lstm", 4, 4)["projection"] == (4, 4)
    assert weight_shapes("product", 4, 8) == {}
    assert [weight_format(numbers) for numbers in ("float32", "float16", "int8")] == ["float32", "float16", "float16"]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("20x", SizeLimit(times=20)),
        (" 7.5X ", SizeLimit(times=7.5)),
        ("500KB", SizeLimit(file_bytes=500_000)),
        ("1.5 MiB", SizeLimit(file_bytes=1_572_864)),
        ("2gb", SizeLimit(file_bytes=2_000_000_000)),
        ("1234", SizeLimit(file_bytes=1234)),
        (1234, SizeLimit(file_bytes=1234)),
    ],
)
def test_sizes_are_read_as_people_write_them(text, limit):
    assert SizeLimit.parse(text) == limit


@pytest.mark.parametrize("text", ["", "x", "1x", "0", "-5KB", "20 apples", "1e3", "0.5", True, 0, -3, None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(OptionError, match="size must be like 20x, 500KB"):
        SizeLimit.parse(text)


def test_limits_allow_what_is_small_enough_and_no_more():
    shape = CodeShape(1000, 50, 16, 10, 50, "linear", "int8")
    sizes = shape.sizes(3000)
    ratio = sizes.ratio(1000, 50)
    assert SizeLimit(times=ratio).allows(shape, 3000)
    assert not SizeLimit(times=ratio * 1.001).allows(shape, 3000)
    assert SizeLimit(file_bytes=sizes.total + 4096).allows(shape, 3000)
    assert not SizeLimit(file_bytes=sizes.total + 4095).allows(shape, 3000)
    assert SizeLimit.of_bits(40).allows(shape, 3000)
    assert not SizeLimit.of_bits(39).allows(shape, 3000)
    with pytest.raises(OptionError, match="bits must be an integer of at least 1, got 0"):
        SizeLimit.of_bits(0)


def test_limits_say_what_they_are():
    assert [str(SizeLimit.parse(text)) for text in ("20x", "2.5x", "500KB")] == ["20x", "2.5x", "500,000 B"]
    assert str(SizeLimit.of_bits(64)) == "64 bits"
