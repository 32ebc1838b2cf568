"""The header of safetensors files: what is written is read by the library, and what lies is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from kdcode.errors import KdcodeError
from kdcode.safetensors_header import DTYPES, HeaderError, TensorPlace, header_bytes, parse_object, read_header

LIMIT = 10_000
TENSORS = {
    "wide": np.arange(3, dtype=np.uint64),
    "f64": np.array([[0.5, -1.25]]),
    "f32": np.arange(6, dtype=np.float32).reshape(3, 2),
    "f16": np.array([1.5], dtype=np.float16),
    "i8": np.array([[[-1, 2]]], dtype=np.int8),
    "u8": np.array([7, 255], dtype=np.uint8),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.safetensors"


def write(path, tensors=None, metadata=None):
    """A file of tensors with a header of ours."""
    tensors = TENSORS if tensors is None else tensors
    body = b"".join(array.tobytes() for array in tensors.values())
    path.write_bytes(header_bytes(metadata or {}, tensors) + body)
    return path


def write_header(path, header, body=b"\0" * 24):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + body)
    return path


def entry(**changes):
    return {"w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]} | changes}


def test_the_library_reads_what_is_written(path):
    write(path, metadata={"about": "ünicode"})
    read = load_file(path)
    assert set(read) == set(TENSORS)
    for name, array in TENSORS.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_what_is_written_is_read(path):
    header = read_header(write(path, metadata={"about": "ünicode"}), LIMIT)
    assert header.metadata == {"about": "ünicode"}
    assert list(header.entries) == list(TENSORS)
    assert header.data_start % 8 == 0  # so that wide numbers are aligned
    assert header.data_bytes == sum(array.nbytes for array in TENSORS.values())
    assert header.place("f32") == TensorPlace("F32", (3, 2), 40, 64)
    for name, array in TENSORS.items():
        mapped = header.mapped(name)
        assert isinstance(mapped, np.memmap)
        assert mapped.dtype == array.dtype
        np.testing.assert_array_equal(mapped, array)


def test_what_the_library_writes_is_read(path):
    save_file(TENSORS, path, metadata={"about": "them"})
    header = read_header(path, LIMIT)
    assert header.metadata == {"about": "them"}
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(header.mapped(name), array)


def test_bfloat16_is_given_as_its_bits(path):
    header = read_header(write_header(path, entry(dtype="BF16", data_offsets=[0, 12])), LIMIT)
    assert header.place("w").dtype == "BF16"
    assert header.mapped("w").dtype == np.uint16
    assert DTYPES["BF16"] == "uint16"


def test_the_example_below_is_a_good_file(path):
    np.testing.assert_array_equal(read_header(write_header(path, entry()), LIMIT).mapped("w"), np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "claims 0 bytes in a file of 0"),
        (b"1234567", "in a file of 7"),
        (b"\xff" * 8 + b"{}", "claims 18446744073709551615 bytes in a file of 10"),
        ((3).to_bytes(8, "little") + b"{}", "claims 3 bytes in a file of 10; truncated"),
    ],
)
def test_headers_that_are_longer_than_the_file(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(HeaderError, match=reason):
        read_header(path, LIMIT)


def test_headers_longer_than_allowed_are_not_read(path):
    write_header(path, b" " * 200 + b"{}")
    assert read_header(path, 202).entries == {}
    with pytest.raises(HeaderError, match="takes 202 bytes, at most 201 are allowed here"):
        read_header(path, 201)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"7", b"null", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": 1, "a": 1}', b'{"a": {"b": 1, "b": 2}}',
        b"[" * 5000, b'{"a":' * 1000,
    ],
)  # fmt: skip
def test_headers_that_are_no_object(path, text):
    write_header(path, text)
    with pytest.raises(HeaderError, match="not a JSON object"):
        read_header(path, LIMIT)


@pytest.mark.parametrize("metadata", [1, [], "text", None])
def test_metadata_that_is_no_object(path, metadata):
    write_header(path, {"__metadata__": metadata})
    with pytest.raises(HeaderError, match="__metadata__ is not a JSON object"):
        read_header(path, LIMIT)


@pytest.mark.parametrize(
    "wrong",
    [
        None, 3, [], "F32", {}, {"dtype": "F32", "shape": [3, 2]},
        entry(dtype="I32")["w"], entry(dtype=["F32"])["w"], entry(dtype=None)["w"],
        entry(shape=None)["w"], entry(data_offsets="x")["w"], entry(data_offsets=[0])["w"],
        entry(data_offsets=[0, 12, 24])["w"],
    ],
)  # fmt: skip
def test_entries_that_are_malformed(path, wrong):
    header = read_header(write_header(path, {"w": wrong}), LIMIT)
    with pytest.raises(HeaderError, match="w: the header entry is malformed or has an unknown dtype"):
        header.place("w")


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [3, 3]},
        {"shape": [3, -2]},
        {"shape": [-3, -2]},
        {"shape": [3.0, 2.0]},
        {"shape": [True, 6]},
        {"shape": "32"},
        {"shape": [[3], [2]]},
        {"shape": [1 << 60, 1 << 60]},
        {"shape": [1 << 62, 0, 1 << 62], "data_offsets": [0, 0]},
        {"data_offsets": [0, 20]},
        {"data_offsets": [4, 28]},
        {"data_offsets": [-24, 0]},
        {"data_offsets": [24, 0]},
        {"data_offsets": [0.0, 24.0]},
        {"data_offsets": ["0", "24"]},
        {"data_offsets": [0, 10**400]},
        {"shape": [1 << 45], "data_offsets": [0, 1 << 47]},
    ],
)
def test_places_that_do_not_fit_the_file(path, changes):
    header = read_header(write_header(path, entry(**changes)), LIMIT)
    for use in (header.place, header.mapped):
        with pytest.raises(HeaderError, match=r"w: shape .* do not fit the 24 bytes of tensors"):
            use("w")


def test_its_error_is_one_of_ours():
    assert issubclass(HeaderError, KdcodeError)
    assert issubclass(HeaderError, ValueError)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False, width=32),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    ).filter(lambda drawn: "Infinity" not in json.dumps(drawn))
)
def test_any_object_is_parsed(drawn):
    assert parse_object(json.dumps(drawn)) == drawn
