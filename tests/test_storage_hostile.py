"""Files that are broken or made to do harm: each is refused with a StorageError that names the path and the field."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
import raw_symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from kdc_bytes import DTYPE_BYTES, Parts, with_digests
from safetensors.numpy import save_file
from sample_tables import KINDS, TRANSFORM_NAMES, coded_table, words

from kdcode import load, save, verify
from kdcode.errors import FileError, OptionError, StorageError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag
from kdcode.nn.coded_layer import CODE_FORMS
from kdcode.storage import MAX_NESTING

COUNTS = ["format", "num_embeddings", "embedding_dim", "codebook_size", "code_length", "inner_dim", "groups"]


def table(kind="linear", dtype="float32", **changes):
    return coded_table(kind, dtype, **{"rows": 5, "size": 6, "symbols": ["a", "b", "", "ç", "\U0001f600"], **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.kdc"


@pytest.fixture
def parts(path):
    save(table(), path)
    return Parts.of(path)


def refused(path, message, how=load):
    with pytest.raises(StorageError, match=message) as caught:
        how(path)
    assert str(caught.value).startswith(f"{path}: ")


def use_everything(path):
    """Load a file and ask it for all it can give; what it says is no matter, that it answers is."""
    coded = load(path)
    list(coded.symbols)
    for row in range(min(len(coded), 5)):
        coded.decode(row)
    coded.row_of(coded.symbols[0])
    coded.neighbors(np.ones(coded.embedding_dim), 2)
    coded.encode(np.ones(coded.embedding_dim), beam=2)
    verify(path)


@pytest.mark.parametrize(("kind", "dtype"), [("scaled-rotated", "int8"), ("lstm", "float16"), ("transform", "float16")])
def test_a_file_cut_anywhere_is_refused(path, kind, dtype):
    save(table(kind, dtype), path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path, ".")
    path.write_bytes(whole + b"\0")
    refused(path, "tensors: they fill")


@settings(max_examples=600)
@given(kind=st.sampled_from(KINDS), repaired=st.booleans(), data=st.data())
def test_changed_bytes_are_refused_or_harmless(tmp_path_factory, kind, repaired, data):
    """Damage is found by the digests; and whoever makes lawful digests for such bytes does no harm either."""
    path = tmp_path_factory.mktemp("flip") / "t.kdc"
    save(table(*kind), path)
    before = path.read_bytes()
    content = bytearray(before)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(with_digests(bytes(content[:-16])) if repaired else bytes(content))
    if repaired:
        with suppress(StorageError):
            use_everything(path)
    elif content != before:
        refused(path, ".", verify)


@pytest.mark.parametrize("kind", ["projected", "scaled-rotated", *TRANSFORM_NAMES])
def test_every_single_byte_changed_is_found(path, kind):
    save(table(kind, "int8"), path)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        refused(path, ".", verify)


@settings(max_examples=100)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("noise") / "t.kdc"
    path.write_bytes(content)
    refused(path, ".")


# Things that are not files of ours


def test_a_missing_file(path):
    with pytest.raises(FileError) as caught:
        load(path)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == f"{path}: there is no such file"


def test_a_folder(tmp_path):
    with pytest.raises(FileError) as caught:
        load(tmp_path)
    assert isinstance(caught.value, IsADirectoryError)
    assert str(caught.value) == f"{tmp_path}: is a folder, expected a file"


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    ("name", "message"),
    [("/dev/zero", "is a device, which may have no end"), ("a\0b", "this is no name of a file: embedded null byte")],
)
def test_what_is_no_file(name, message, mmap):
    with pytest.raises(FileError, match=message):
        load(name, mmap=mmap)


def test_links_that_lead_in_a_circle(path):
    path.symlink_to(path)
    with pytest.raises(FileError, match="cannot be read: Too many levels of symbolic links"):
        load(path)


def test_a_pipe(path):
    os.mkfifo(path)
    refused(path, "this is a pipe")


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "claims 0 bytes in a file of 0"), (b"1234567", "in a file of 7;")]
)
def test_an_empty_file(path, content, message):
    path.write_bytes(content)
    refused(path, message)


def test_another_safetensors_file(path):
    save_file({"weight": np.zeros((3, 2), np.float32)}, path)
    refused(path, "this is a safetensors file, not a .kdc file; `kdcode compress` makes one")
    save_file({f"layer.{number}.weight": np.zeros(1, np.float32) for number in range(100)}, path)
    refused(path, r"the header takes \d+ bytes, at most 4088 are allowed here")


def test_a_text_file(path):
    path.write_text("the 0.1 0.2\nof 0.3 0.4\n" * 10)
    refused(path, r": not a \.kdc file; `kdcode compress` makes one of a table of vectors")


# The header


@pytest.mark.parametrize(
    "header",
    [
        "",
        "[]",
        "7",
        "null",
        "{",
        '"text"',
        "{}",
        '{"__metadata__": 1}',
        '{"__metadata__": {"kdcode": 1}}',
        '{"__metadata__": {"kdcode": ""}}',
        '{"__metadata__": {"kdcode": "[]"}}',
        '{"__metadata__": {"kdcode": "NaN"}}',
        '{"__metadata__": {"kdcode": "{\\"format\\": NaN}"}}',
        '{"__metadata__": {"kdcode": "{\\"format\\": 1, \\"format\\": 1}"}}',
        '{"__metadata__": {"kdcode": "{}"}, "__metadata__": {"kdcode": "{}"}}',
        "[" * 4000,
        '{"__metadata__": {"kdcode": "' + "[" * 4000 + '"}}',
        '{"__metadata__": {"kdcode": "{\\"format\\": ' + "9" * 3000 + '}"}}',
        '{"a":' * 800,
    ],
)
def test_headers_that_are_no_header(path, parts, header):
    parts.write(path, header)
    refused(
        path,
        "the header is not a JSON object|__metadata__|kdcode metadata|not a .kdc file|format: version|format: expected",
    )


def test_a_header_that_is_not_utf8(path, parts):
    text = json.dumps(parts.header()).encode("utf-16")
    path.write_bytes(len(text).to_bytes(8, "little") + text + parts.body())
    refused(path, "the header is not a JSON object")


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1, 5000])
def test_a_header_longer_than_the_file(path, parts, length):
    content = path.read_bytes()
    path.write_bytes(length.to_bytes(8, "little") + content[8:])
    refused(path, f"the header claims {length} bytes")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        1,
        [],
        "U8",
        {},
        {"dtype": "U8", "shape": [1]},
        {"dtype": "U8", "shape": None, "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": "1", "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [[1]], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [1, 1, 1, 1], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
        {"dtype": "U8", "shape": [2**62, 0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]},
        {"dtype": "U8", "shape": [2**32, 2**32], "data_offsets": [0, 0]},
        {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]},
        {"dtype": "U8", "shape": [1], "data_offsets": [-1, 0]},
        {"dtype": "U8", "shape": [1], "data_offsets": [0]},
        {"dtype": "U8", "shape": [1], "data_offsets": "01"},
        {"dtype": "U8", "shape": [1], "data_offsets": [0.0, 1.0]},
        {"dtype": "U8", "shape": [1], "data_offsets": [0, 10**400]},
        {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
        {"dtype": ["U8"], "shape": [1], "data_offsets": [0, 1]},
        {"dtype": {}, "shape": [1], "data_offsets": [0, 1]},
    ],
)
def test_a_malformed_entry(path, parts, entry):
    parts.write(path, {**parts.header(), "codes": entry})
    refused(path, "codes: ")


def test_tensors_that_overlap(path, parts):
    # The sizes still add up to the body: `strings` lies over the beginning of `blocks` and leaves its own place unused.
    header = parts.header()
    start, end = header["symbols.strings"]["data_offsets"]
    begin = header["symbols.blocks"]["data_offsets"][0]
    header["symbols.strings"]["data_offsets"] = [begin, begin + end - start]
    parts.write(path, header)
    refused(path, r"symbols\.\w+: starts at byte \d+, where the tensor before it ends at \d+")


def test_tensors_that_share_their_bytes(path, parts):
    header = parts.header()
    twice = {**header, "twin": header["codes"]}
    parts.write(path, twice)
    refused(path, "twin: starts at byte")


def test_a_gap_between_tensors(path, parts):
    header = parts.header()
    last = max(parts.tensors, key=lambda name: header[name]["data_offsets"])
    for name in (last, "digests"):
        header[name]["data_offsets"] = [offset + 1 for offset in header[name]["data_offsets"]]
    parts.tensors[last][2] = b"\0" + parts.tensors[last][2]
    parts.write(path, header)
    refused(path, f"{re.escape(last)}: starts at byte")


def test_bytes_that_no_tensor_claims(path, parts):
    path.write_bytes(path.read_bytes() + b"secret")
    refused(path, r"tensors: they fill \d+ of the \d+ bytes")


def test_no_tensors_at_all(path, parts):
    parts.tensors = {}
    parts.write(path)
    refused(path, "codes: missing")
    text = b'{"__metadata__":{"kdcode":"{\\"format\\":1}"}}'
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    refused(path, "tensors: they fill 0 of the 0 bytes")


# The metadata


@pytest.mark.parametrize("wrong", [None, "1", 1.0, True, 0, -1, [], {}, [[[]]]])
@pytest.mark.parametrize("field", COUNTS)
def test_metadata_of_the_wrong_kind(path, parts, field, wrong):
    parts.metadata[field] = wrong
    parts.write(path)
    if field == "num_embeddings" and type(wrong) is int and wrong == 0:  # a codebook has no codes
        refused(path, "codes: there is none in a file of 0 rows")
        return
    refused(
        path, f"{field}: expected (a version number|an integer of at least 0|a value of type int|[12] to \\d+), got "
    )


@pytest.mark.parametrize(("field", "wrong"), [("basis", 1), ("codebook_dtype", "float64"), ("scale_bits", True)])
def test_flags_and_types_of_the_wrong_kind(path, parts, field, wrong):
    parts.metadata[field] = wrong
    parts.write(path)
    refused(path, f"{field}(:| must be) ")


@pytest.mark.parametrize("field", [*COUNTS, "kind", "basis", "codebook_dtype", "scale_bits"])
def test_metadata_that_is_missing(path, parts, field):
    del parts.metadata[field]
    parts.write(path)
    refused(path, f"{field}: expected .* got None")


def test_a_version_from_the_future(path, parts):
    parts.metadata = {"format": 2}  # and nothing else that this version would know
    parts.tensors = {"new": ["U4", [1, 1, 1, 1], b"x"]}
    parts.write(path)
    refused(path, "format: version 2 is newer than 1, which this kdcode reads; upgrade")


@pytest.mark.parametrize("name", ["sum", "linear", "", None, 3, [], {}, ["block-sum"]])
def test_an_unknown_kind_of_codec(path, parts, name):
    parts.metadata["kind"] = name
    parts.write(path)
    refused(path, "kind: expected (one of block-sum, lstm, transform|a value of type str), got ")


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("name", ["codebook_scale", "basis_scale"])
def test_small_numbers_need_their_scales(path, dtype, name):
    save(table("rotated-grouped", dtype), path)
    parts = Parts.of(path)
    del parts.tensors[name]
    parts.write(path)
    refused(path, f"{name}: missing")


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (np.full(8, -1), "scale_levels: expected numbers of at least 0 that do not fall"),
        (np.arange(8)[::-1], "scale_levels: expected numbers of at least 0 that do not fall"),
        (np.ones(7), "scale_levels: expected float32 of shape"),
        (np.ones(1), "scale_levels: expected float32 of shape"),
        (np.ones(512), "scale_levels: expected float32 of shape"),
        (np.ones((2, 4)), "scale_levels: expected float32 of shape"),
    ],
)
def test_levels_of_row_scales_fit_the_table(path, levels, message):
    save(table("scaled-linear"), path)
    parts = Parts.of(path)
    parts.tensors["scale_levels"] = ["F32", list(levels.shape), levels.astype("<f4").tobytes()]
    parts.write(path)
    refused(path, message)


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ('{"a":' + "[" * 800 + "]" * 800 + "}", "nested deeper than 32 levels"),
        ('{"a":' + "[" * 31 + "1" + "]" * 31 + "}", "nested deeper than 32 levels"),
        ('{"a":1e999}', "1e999 is not a finite number"),
        (r'{"a":["\ud800"]}', "surrogates not allowed"),
        (r'{"\udfff":1}', "surrogates not allowed"),
    ],
)
def test_provenance_that_is_json_and_no_more(path, parts, provenance, message):
    parts.metadata["provenance"] = "HERE"
    parts.metadata = json.dumps(parts.metadata).replace('"HERE"', provenance)
    parts.write(path)
    refused(path, message)


def test_provenance_may_be_nested_to_the_limit(path, parts):
    deepest = 1
    for _ in range(MAX_NESTING - 2):  # the metadata is one level, the provenance is another
        deepest = [deepest]
    parts.metadata["provenance"] = {"a": deepest}
    parts.write(path)
    coded = load(path)
    assert coded.provenance == {"a": deepest}
    save(coded, path)
    coded.provenance["a"] = [deepest]
    with pytest.raises(OptionError, match="provenance: nested deeper than 32 levels"):
        save(coded, path)


def test_digests_are_needed(path, parts):
    header = parts.header()
    entry = header.pop("digests")
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + parts.body())
    refused(path, "digests: missing")
    for wrong in ({"dtype": "I8"}, {"shape": [16, 1]}, {"shape": [2, 8]}, {"shape": [16]}):
        parts.write(path, {**header, "digests": {**entry, **wrong}})
        refused(path, r"digests: expected U8 of shape \(1, 16\) at the end of the file, got ")


def test_digests_come_last(path, parts):
    header = parts.header()
    first = {"digests": {"dtype": "U8", "shape": [1, 16], "data_offsets": [0, 16]}}
    for name, (_, _, content) in parts.tensors.items():
        start = header[name]["data_offsets"][0] + 16
        header[name]["data_offsets"] = [start, start + len(content)]
    text = json.dumps({**header, **first}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16) + parts.body())
    refused(path, "digests: expected U8 of shape .* at the end of the file")


@pytest.mark.parametrize("provenance", [None, [], "text", 3])
def test_provenance_that_is_no_object(path, parts, provenance):
    parts.metadata["provenance"] = provenance
    parts.write(path)
    refused(path, "provenance: expected a JSON object")


def test_provenance_and_unknown_fields_may_be_left_out_or_added(path, parts):
    del parts.metadata["provenance"]
    del parts.metadata["written_by"]
    parts.metadata["comment"] = {"any": ["thing"]}
    parts.write(path)
    assert load(path).provenance == {}


@pytest.mark.parametrize("size", [1, 65_537, 2**40])
def test_a_codebook_size_out_of_range(path, parts, size):
    parts.metadata["codebook_size"] = size
    parts.write(path)
    refused(path, f"codebook_size: expected 2 to 65536, got {size}")


@pytest.mark.parametrize(
    ("field", "tensor"),
    [
        ("num_embeddings", "codes"),
        ("codebook_size", "codebook"),
        ("code_length", "(codes|codebook)"),
        ("embedding_dim", "a codec of 7 inner and 8 outer dimensions needs a basis"),
        ("inner_dim", "a codec of 8 inner and 7 outer dimensions needs a basis"),
        ("groups", "codebook"),
    ],
)
def test_metadata_that_contradicts_the_tensors(path, parts, field, tensor):
    parts.metadata[field] += 1
    parts.write(path)
    refused(path, tensor)


@pytest.mark.parametrize("huge", [2**24, 2**40])  # lists of so many things could be made, or could not
@pytest.mark.parametrize(
    "claims",
    [
        {"num_embeddings"},
        {"code_length"},
        {"embedding_dim", "inner_dim"},
        {"embedding_dim", "inner_dim", "code_length", "groups"},
    ],
)
@pytest.mark.parametrize("kind", ["linear", "scaled-rotated", "lstm", *TRANSFORM_NAMES])
def test_huge_claims_take_no_memory(path, kind, claims, huge):
    save(table(kind), path)
    parts = Parts.of(path)
    claims = claims & parts.metadata.keys() or {"level_groups"}  # transform codes have no code_length
    parts.metadata |= dict.fromkeys(claims, huge)
    parts.write(path)
    tracemalloc.start()
    try:
        refused(path, ": ")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_nothing_huge_is_made_under_a_memory_limit(tmp_path, parts):
    """The same with the address space of a process limited, so that no allocation hides from the tracer."""
    for number, (field, value) in enumerate(
        [("num_embeddings", 2**40), ("code_length", 2**40), ("code_length", 2**24)]
    ):
        Parts({**parts.metadata, field: value}, parts.tensors).write(tmp_path / f"{number}.kdc")
    parts.write(
        tmp_path / "3.kdc", {**parts.header(), "codes": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 1]}}
    )
    script = """
import resource, sys, kdcode, kdcode.storage
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
for path in sys.argv[1:]:
    try:
        kdcode.load(path)
    except kdcode.errors.StorageError:
        print("refused")
"""
    files = [str(tmp_path / f"{number}.kdc") for number in range(4)]
    run = subprocess.run(
        [sys.executable, "-c", script, *files], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout.split() == ["refused"] * 4


# The tensors


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_missing_tensor(path, kind, dtype):
    save(table(kind, dtype), path)
    original = path.read_bytes()
    for name in Parts.of(path).tensors:
        path.write_bytes(original)
        parts = Parts.of(path)
        del parts.tensors[name]
        parts.write(path)
        refused(path, f"{re.escape(name)}: missing")


def test_a_tensor_too_many(path, parts):
    parts.tensors["weight"] = ["U8", [3], b"abc"]
    parts.write(path)
    refused(path, "weight: this tensor does not belong to a linear codec")


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_a_tensor_of_the_wrong_shape_or_type(path, kind, dtype):
    save(table(kind, dtype), path)
    original = path.read_bytes()
    for name, (kept, shape, content) in Parts.of(path).tensors.items():
        count = len(content) // DTYPE_BYTES[kept]
        wrong_type = "I8" if kept == "U8" else "U8"
        wrong = [[wrong_type, [len(content)]], [kept, [count]], [kept, [1, count]], [kept, shape[::-1]]]
        for changed in wrong:
            if changed != [kept, shape]:
                path.write_bytes(original)
                parts = Parts.of(path)
                parts.tensors[name] = [*changed, content]
                parts.write(path)
                refused(path, f"{re.escape(name)}: expected |scale_bits: expected|codes: expected")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("kind", "dtype", "name"),
    [
        ("linear", "float32", "codebook"),
        ("linear", "float16", "codebook"),
        ("linear", "float16", "codebook_scale"),
        ("linear", "int8", "codebook_scale"),
        ("projected", "float32", "basis"),
        ("rotated-grouped", "int8", "basis_scale"),
        ("lstm", "float16", "recurrent"),
        ("lstm", "float32", "bias"),
        ("scaled-lstm", "int8", "scale_levels"),
        ("transform", "float16", "mean"),
        ("transform", "float16", "steps"),
        ("transform", "float16", "search"),
        ("transform", "float16", "reflection_scale"),
        ("transform-centroids", "float16", "centroid_scales"),
    ],
)
def test_numbers_that_are_not_finite(path, kind, dtype, name, value):
    save(table(kind, dtype), path)
    parts = Parts.of(path)
    kept = {"F32": "<f4", "F16": "<f2"}[parts.tensors[name][0]]
    array = np.frombuffer(parts.tensors[name][2], dtype=kept).copy()
    array[-1] = value
    parts.tensors[name][2] = array.tobytes()
    parts.write(path)
    refused(path, f"{re.escape(name)}: holds values that are not finite")


@pytest.mark.parametrize(("dtype", "most", "scale"), [("int8", np.int8(127), 3e38), ("float16", np.float16(6e4), 1e36)])
@pytest.mark.parametrize("name", ["codebook", "basis"])
def test_a_scale_that_makes_numbers_infinite(path, dtype, most, scale, name):
    save(table("rotated-product", dtype), path)
    parts = Parts.of(path)
    shape = parts.tensors[name][1]
    parts.tensors[name][2] = np.full(shape, most).tobytes()
    parts.tensors[f"{name}_scale"][2] = np.full(shape[0], scale, "<f4").tobytes()
    parts.write(path)
    refused(path, f"{name}.*: holds values that are not finite")


@pytest.mark.parametrize("kind", ["product", "grouped", "uneven", "rotated-product"])
def test_codewords_of_the_wrong_size_for_the_blocks(path, kind):
    save(table(kind), path)
    parts = Parts.of(path)
    parts.metadata["inner_dim"] += 4
    parts.metadata["embedding_dim"] += 4
    parts.write(path)
    refused(path, "codebook: expected float32 of shape")


def test_groups_that_cannot_be(path, parts):
    for groups in (5, 8, 2**40):  # of a code of four positions
        parts.metadata["groups"] = groups
        parts.write(path)
        refused(path, f"groups: expected 1 to 4, got {groups}")


@pytest.fixture
def wrong_code(path, parts):
    """A file with a lawful digest whose row 2 has a code that is not below K: K = 6 takes 3 bits, which could say 7."""
    packed = bytearray(parts.tensors["codes"][2])
    packed[4] |= 0b111
    parts.tensors["codes"][2] = bytes(packed)
    return parts.write(path)


def test_a_code_out_of_range(wrong_code):
    message = "codes: found code value 7, values must be below K=6"
    refused(wrong_code, message, lambda path: load(path, check="full"))
    refused(wrong_code, message, verify)
    for check in ("lazy", "none"):
        coded = load(wrong_code, check=check)  # opens at once …
        coded.decode(0)
        with pytest.raises(StorageError, match=message):
            coded.decode(2)  # … and is refused where it is wrong


@pytest.mark.parametrize("layer", [CodedEmbedding, CodedEmbeddingBag])
@pytest.mark.parametrize("form", CODE_FORMS)
def test_a_code_out_of_range_is_refused_by_layers(wrong_code, layer, form):
    with pytest.raises(StorageError, match="codes: found code value 7, values must be below K=6"):
        layer(wrong_code, form=form)


# The symbols


def with_symbols(path, **changes):
    """The file with other arrays for some of its symbol tensors."""
    parts = Parts.of(path)
    for name, array in changes.items():
        parts.tensors[f"symbols.{name}"] = ["U8", list(array.shape), array.tobytes()]
    parts.write(path)


def test_an_order_that_is_no_permutation(path):
    save(coded_table(rows=3, symbols=["a", "b", "c"]), path)
    for order, message in (((0, 0, 1), "another rank has too"), ((3, 1, 2), "the table does not have")):
        packed = np.array([[order[0] | order[1] << 2 | order[2] << 4, 0]], dtype=np.uint8)
        with_symbols(path, order=packed)
        load(path)
        refused(path, rf"symbols\.order: .* {message}", verify)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ([(0, b"a"), (0, b"c"), (0, b"b")], "not sorted, or repeats"),
        ([(0, b"a"), (0, b"b"), (1, b"")], "not sorted, or repeats"),
        ([(0, b"a"), (0, b"b")], "ends too early"),
        ([(0, b"a"), (0, b"\xc3"), (0, b"\xc3\xa9")], "not UTF-8"),
        ([(0, b"a"), (0, b"b"), (0, bytes(1 << 16))], "more than 65,535 bytes"),
    ],
)
def test_symbols_that_break_the_specification(path, block, message):
    save(coded_table(rows=3, symbols=["a", "b", "c"]), path)
    written = raw_symbols.stored([(b"", block)], 3).arrays
    with_symbols(path, **{name: np.asarray(array) for name, array in written.items()})
    refused(path, rf"symbols\.blocks: block 0 .*{message}", verify)


def test_starts_that_break_the_specification(path):
    save(coded_table(rows=300, symbols=words(300)), path)
    starts = np.frombuffer(Parts.of(path).tensors["symbols.starts"][2], dtype=np.uint8).reshape(11, -1)
    with_symbols(path, starts=starts[::-1])
    refused(path, r"symbols\.starts: block 9 leaves bytes that belong to no block", verify)
    with_symbols(path, starts=starts[[0, 2, 1, *range(3, 11)]])
    refused(path, r"symbols\.\w+: block \d", verify)
    with_symbols(path, starts=starts[:-1])
    refused(path, r"symbols\.starts: expected uint8 of shape \(11, \d\)")
