"""Codewords near the end of float32: vectors are decoded right where float32 holds them, and refused where not."""

import numpy as np
import pytest
import torch
from kdc_bytes import Parts
from sample_tables import KINDS, NAMES, codec_of, coded_table, codes_of

from kdcode import CodedTable, load, save, verify
from kdcode.codec import CodewordCodec, CodewordSpec, codec_from_tensors, make_codec
from kdcode.errors import OptionError, StorageError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag

MOST = float(np.finfo(np.float32).max)
DOWN = 2.0**-40


def huge_codec(kind, dtype):
    """A codec whose numbers reach to the end of float32, and one whose vectors are 2^40 times shorter."""
    codec = codec_of(kind, dtype, size=8)
    most = (
        np.abs(codec.weights()[codec.scaled_weight]).max() if isinstance(codec, CodewordCodec) else 2.0
    )  # of most vectors
    large = codec.scaled(0.999 * MOST / most)
    return large, large.scaled(DOWN)


def parted(codec, small, rows=200):
    """Random codes, their vectors in float64, and which of them float32 holds."""
    codes = codes_of(codec if isinstance(codec, CodewordCodec) else codec.scaled(2 / MOST), rows)
    vectors = small.decode(codes).astype(np.float64) / DOWN
    return codes, vectors, (np.abs(vectors) <= MOST).all(axis=1)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_vectors_are_right_or_refused(kind, dtype):
    codec, small = huge_codec(kind, dtype)
    codes, vectors, fits = parted(codec, small)
    assert codec.may_overflow
    assert not small.may_overflow
    assert fits.sum() > 5
    assert fits.all() == (kind == "product")  # whose vectors are codewords side by side
    np.testing.assert_allclose(codec.decode(codes[fits]), vectors[fits], rtol=1e-4, atol=1e-6 * MOST)
    for code in codes[~fits][:5]:
        with pytest.raises(StorageError, match=f"the vector of code {'-'.join(map(str, code))} has a number beyond"):
            codec.decode(code[None])


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_files_of_such_vectors_are_verified(kind, dtype, tmp_path):
    codec, small = huge_codec(kind, dtype)
    codes, vectors, fits = parted(codec, small)
    path = tmp_path / "t.kdc"
    save(CodedTable.from_codes(None, codes, codec).select(np.flatnonzero(fits)), path)
    assert verify(path).num_embeddings == fits.sum()
    np.testing.assert_allclose(np.asarray(load(path)), vectors[fits], rtol=1e-4, atol=1e-6 * MOST)

    if fits.all():
        return
    save(CodedTable.from_codes(None, codes, codec), path)
    coded = load(path)
    np.testing.assert_allclose(coded.decode(int(fits.argmax())), vectors[fits.argmax()], rtol=1e-4, atol=1e-6 * MOST)
    for use in (lambda: verify(path), lambda: coded.decode(int(fits.argmin())), lambda: coded.neighbors(np.ones(7), 1)):
        with pytest.raises(StorageError, match=r"codes: the vector of code .* has a number beyond float32, 3\.403e"):
            use()


@pytest.mark.parametrize("layer", [CodedEmbedding, CodedEmbeddingBag])
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_layers_agree(kind, dtype, layer):
    codec, small = huge_codec(kind, dtype)
    codes, vectors, fits = parted(codec, small)
    coded = CodedTable.from_codes(None, codes, codec).select(np.flatnonzero(fits))
    ids = torch.arange(len(coded))[:, None]
    first = layer(coded)
    again = layer.from_config(first.config)
    again.load_state_dict(first.state_dict())
    for built in (first, again, layer(coded, form="unpacked", dtype=torch.float64)):
        found = built(ids).reshape(len(coded), -1).numpy()
        np.testing.assert_allclose(found, vectors[fits], rtol=1e-4, atol=1e-6 * MOST)
    if not fits.all():
        with pytest.raises(StorageError, match="beyond float32"):
            layer(CodedTable.from_codes(None, codes, codec))
    for changes in ({"form": "unpacked"}, {"trainable": True})[: 2 if isinstance(codec, CodewordCodec) else 1]:
        with pytest.raises(OptionError, match=r"sums may leave float32; set dtype to torch\.float64"):
            layer(coded, **changes)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_such_vectors_are_encoded_as_short_ones_are(kind, dtype):
    codec, small = huge_codec(kind, dtype)
    _, vectors, fits = parted(codec, small)
    found = codec.encode(vectors[fits][:20].astype(np.float32))
    expected = small.encode((vectors[fits][:20] * DOWN).astype(np.float32))
    if "blocks" in kind or "centroids" in kind:  # sides of coordinates on their level are a matter of rounding
        np.testing.assert_array_equal(found[:, :-1], expected[:, :-1])
    elif isinstance(codec, CodewordCodec) and codec.spec.scale_bits:  # directions are encoded
        found, expected = found[:, :-1], expected[:, :-1]
        assert found.min() >= 0
        assert found.max() < codec.spec.codebook_size
    else:
        np.testing.assert_array_equal(found, expected)


def test_codewords_that_cancel_are_added_up_right():
    spec = CodewordSpec.named("linear", 2, 2, 3, codebook_dtype="float32")
    codebook = np.array([[[3e38, 1], [0, 0]], [[3e38, 2], [0, 0]], [[-3e38, 4], [0, 0]]], dtype=np.float32)
    codec = make_codec(spec, {"codebook": codebook})
    np.testing.assert_array_equal(codec.decode(np.array([[0, 0, 0], [1, 0, 0]])), np.float32([[3e38, 7], [0, 6]]))
    with pytest.raises(StorageError, match="code 0-0-1 has a number beyond float32"):
        codec.decode(np.array([[1, 1, 1], [0, 0, 1]]))


def test_a_scale_brings_a_long_vector_back():
    spec = CodewordSpec.named("linear", 1, 2, 2, codebook_dtype="float32", scale_bits=1)
    weights = {"codebook": np.full((2, 2, 1), 3e38), "scale_levels": np.array([0.25, 1])}
    codec = make_codec(spec, weights)
    assert codec.decode(np.array([[0, 0, 0]])) == np.float32(1.5e38)
    with pytest.raises(StorageError, match="code 0-0-1 has"):
        codec.decode(np.array([[0, 0, 1]]))


@pytest.mark.parametrize("name", ["codebook", "recurrent", "bias"])
def test_gates_of_an_lstm_do_not_overflow(name):
    codec = codec_of("lstm", size=8)
    tensors = {key: value.copy() for key, value in codec.tensors().items()}
    tensors[name] = (np.sign(tensors[name]) * 3e38).astype(np.float32)
    codec = codec_from_tensors(codec.spec, tensors)
    codes = codes_of(codec, 50)
    assert codec.may_overflow
    vectors = codec.decode(codes)
    assert np.isfinite(vectors).all()
    layer = CodedEmbedding(CodedTable.from_codes(None, codes, codec))
    np.testing.assert_allclose(layer(torch.arange(50)).numpy(), vectors, rtol=1e-5, atol=1e-5)
    tensors[name] = (np.sign(tensors[name]) * 1e9).astype(np.float32)  # just as far beyond what a gate can tell
    np.testing.assert_allclose(codec_from_tensors(codec.spec, tensors).decode(codes), vectors, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", NAMES)
def test_usual_tables_are_computed_in_float32(kind):
    codec = codec_of(kind)
    assert not codec.may_overflow
    assert codec.compose(codes_of(codec, 3)).dtype == np.float32
    assert not codec.scaled(1e30).may_overflow


def test_a_file_with_codewords_that_only_add_up_to_infinity(tmp_path):
    path = tmp_path / "t.kdc"
    save(coded_table("linear", "float32", rows=5, length=4), path)
    parts = Parts.of(path)
    dtype, shape, content = parts.tensors["codebook"]
    parts.tensors["codebook"] = [dtype, shape, np.full(len(content) // 4, 2e38, dtype="<f4").tobytes()]
    parts.write(path)
    load(path)
    with pytest.raises(StorageError, match=r"t\.kdc: codes: the vector of code .* has a number beyond float32"):
        verify(path)
