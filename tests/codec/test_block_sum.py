import numpy as np
import pytest
from sample_tables import CODEWORD_NAMES, codec_of, codec_with, codes_of, random_codes, spec_of

from kdcode.codec import BlockSum, CodewordSpec, make_codec

CODEBOOK = np.array([[[1, 2], [3, 4]], [[10, 20], [30, 40]]], dtype=np.float32)  # (D, K, e) = (2, 2, 2)
CODES = np.array([[0, 0], [1, 0], [1, 1]])

BLOCK_SUMS = [name for name in CODEWORD_NAMES if "lstm" not in name]


def codec(composition, dim, codebook, **options):
    """A codec of a codebook, with a basis where one is given."""
    length, size, _ = codebook.shape
    weights = {"codebook": codebook, **({"basis": options.pop("basis")} if "basis" in options else {})}
    return make_codec(CodewordSpec.named(composition, dim, size, length, codebook_dtype="float32", **options), weights)


def test_linear_by_hand():
    assert codec("linear", 2, CODEBOOK).decode(CODES).tolist() == [[11, 22], [13, 24], [33, 44]]


def test_linear_with_a_projection_by_hand():
    projection = np.array([[1, 0, 2], [0, 1, -1]], dtype=np.float32)
    vectors = codec("linear", 3, CODEBOOK, codeword_dim=2, basis=projection).decode(CODES)
    assert vectors.tolist() == [[11, 22, 0], [13, 24, 2], [33, 44, 22]]


def test_product_by_hand():
    assert codec("product", 3, CODEBOOK).decode(CODES).tolist() == [[1, 2, 10], [3, 4, 10], [3, 4, 30]]


def test_grouped_by_hand():
    # d = 5 in two groups of 3 and 2 coordinates; three positions, two of them in the first group
    codebook = np.arange(3 * 2 * 3, dtype=np.float32).reshape(3, 2, 3)
    first = codebook[0, 1] + codebook[1, 0]
    expected = [*first, *codebook[2, 1, :2]]
    assert codec("grouped", 5, codebook, groups=2).decode(np.array([[1, 0, 1]])).tolist() == [expected]


def test_a_rotation_by_hand():
    quarter = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=np.float32)
    vectors = codec("product", 3, CODEBOOK, rotation=True, basis=quarter).decode(CODES)
    assert vectors.tolist() == [[-2, 1, 10], [-4, 3, 10], [-4, 3, 30]]


def test_a_row_scale_by_hand():
    spec = CodewordSpec.named("linear", 2, 2, 2, codebook_dtype="float32", scale_bits=1)
    scaled = make_codec(spec, {"codebook": CODEBOOK, "scale_levels": np.array([0.5, 3])})
    codes = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 1]])
    assert scaled.decode(codes).tolist() == [[5.5, 11], [33, 66], [99, 132]]
    assert scaled.compose(codes).tolist() == [[11, 22], [11, 22], [33, 44]]


def test_a_lookup_is_a_product_with_one_hot_rows():
    random = np.random.default_rng(0)
    codes, codebook = random.integers(0, 5, (20, 4)), random.normal(size=(4, 5, 3)).astype(np.float32)
    one_hot = np.zeros((20, 4, 5), dtype=np.float32)
    np.put_along_axis(one_hot, codes[:, :, None], 1, axis=2)
    by_matrix = one_hot.reshape(20, -1) @ codebook.reshape(-1, 3)
    np.testing.assert_allclose(codec("linear", 3, codebook).decode(codes), by_matrix, rtol=1e-5, atol=1e-6)


def number_by_number(codec, code):
    """The vector of one code, from the specification of the file, one number at a time."""
    spec = codec.spec
    coordinates = []
    for group in range(spec.groups):

        def part(count, group=group):
            """How many of `count` things a group has, and how many those before it."""
            sizes = [count // spec.groups + (other < count % spec.groups) for other in range(spec.groups)]
            return sizes[group], sum(sizes[:group])

        positions, first = part(spec.code_length)
        width, _ = part(spec.inner_dim)
        for column in range(width):
            numbers = (float(codec.codebook[first + j, code[first + j], column]) for j in range(positions))
            coordinates.append(sum(numbers))
    if codec.basis is not None:
        columns = range(spec.embedding_dim)
        coordinates = [
            sum(value * float(row[column]) for value, row in zip(coordinates, codec.basis, strict=True))
            for column in columns
        ]
    scale = float(codec.stored["scale_levels"][code[-1]]) if spec.scale_bits else 1
    return [value * scale for value in coordinates]


@pytest.mark.parametrize("name", BLOCK_SUMS)
def test_every_kind_agrees_with_the_specification_number_by_number(name):
    made = codec_of(name, "int8", length=5, dim=8)
    assert isinstance(made, BlockSum)
    codes = codes_of(made, 6)
    expected = [number_by_number(made, code) for code in codes]
    np.testing.assert_allclose(made.decode(codes), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BLOCK_SUMS)
def test_score_tables_add_up_to_dot_products(name):
    made = codec_of(name, length=4, size=5)
    codes = codes_of(made, 30)
    queries = np.random.default_rng(3).normal(size=(7, 2))
    tables = made.score_tables(queries)
    assert tables.shape == (4, 5, 2)
    summed = sum(tables[position][codes[:, position]] for position in range(4))
    np.testing.assert_allclose(summed, made.compose(codes) @ queries, rtol=1e-4, atol=1e-5)


def test_a_rotation_rotates_what_the_blocks_give():
    rotated = codec_of("rotated-grouped")
    plain = make_codec(spec_of("grouped"), {"codebook": rotated.codebook})
    codes = codes_of(plain, 20)
    np.testing.assert_allclose(rotated.basis @ rotated.basis.T, np.eye(7), atol=1e-5)
    np.testing.assert_allclose(rotated.decode(codes), plain.decode(codes) @ rotated.basis, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["grouped", "uneven", "product"])
def test_what_stands_beyond_a_narrow_block_is_not_read(name):
    made = codec_of(name)
    narrow = [block for block in made.spec.blocks if block.width < made.spec.codeword_dim]
    assert narrow
    codebook = made.codebook.copy()
    for block in narrow:
        codebook[block.positions, :, block.width :] = 1e6
    changed = make_codec(made.spec, {"codebook": codebook})
    codes = codes_of(made, 20)
    np.testing.assert_array_equal(changed.decode(codes), made.decode(codes))
    vectors, query = made.decode(codes), np.ones((7, 1))
    np.testing.assert_array_equal(changed.score_tables(query), made.score_tables(query))
    np.testing.assert_array_equal(changed.encode(vectors), made.encode(vectors))


@pytest.mark.parametrize("inner", [1, 5, 7, 12])
def test_a_reduced_basis_keeps_what_tells_codewords_apart(inner):
    spec = CodewordSpec("block-sum", 8, 6, 3, inner, basis=True, codebook_dtype="float32")
    made = codec_with(spec)
    codes, vectors = random_codes(spec, 30), np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32)
    assert made.reduced_words.shape == (3, 6, min(inner, 8))
    apart = np.square(vectors - made.compose(codes)).sum(axis=1)
    coordinates = sum(made.reduced_words[position][codes[:, position]] for position in range(3))
    reduced = np.square(made.reduced(vectors) - coordinates).sum(axis=1)
    unit = apart[0] - apart[1], reduced[0] - reduced[1]
    np.testing.assert_allclose((apart - apart[0]) / unit[0], (reduced - reduced[0]) / unit[1], rtol=1e-3, atol=1e-3)
