import numpy as np
import pytest
import torch

from kdcode import VectorTable
from kdcode.codec import CodewordSpec
from kdcode.comparison import product_codes as module
from kdcode.comparison.product_codes import fitting_specs, product_codes
from kdcode.data import glove_50d
from kdcode.evaluation import relative_error


def test_the_longest_codes_that_fit():
    for most in (2000, 20_000, 90_000):
        for spec in fitting_specs(1000, 50, most):
            assert spec.composition == ("product" if spec.code_length > 1 else "linear")
            assert not spec.basis
            assert spec.sizes(1000).embedding <= most
            if spec.code_length < 50:
                longer = type(spec).named("product", 50, spec.codebook_size, spec.code_length + 1)
                assert longer.sizes(1000).embedding > most
    assert [spec.codebook_size for spec in fitting_specs(1000, 50, 90_000)] == [16, 64, 256]
    assert [spec.codebook_size for spec in fitting_specs(100, 50, 90_000)] == [16]
    assert list(fitting_specs(1000, 50, 100)) == []


def test_planted_codewords_are_found():
    random = np.random.default_rng(0)
    words, labels = 5 * random.normal(size=(4, 16, 3)), random.integers(16, size=(4, 600))
    vectors = np.concatenate([words[block][labels[block]] for block in range(4)], axis=1)
    found = product_codes(VectorTable(None, vectors), 600 * 2 + 16 * 12 * 2 + 500)
    assert (found.codebook_size, found.code_length) == (16, 4)
    assert relative_error(vectors, found) < 0.02


@pytest.mark.parametrize(("size", "length"), [(16, 25), (64, 10)])
def test_they_lose_what_faiss_loses(size, length):
    faiss = pytest.importorskip("faiss")
    vectors = np.ascontiguousarray(glove_50d().matrix[:4000], dtype=np.float32)
    quantizer = faiss.ProductQuantizer(50, length, size.bit_length() - 1)
    quantizer.train(vectors)
    theirs = relative_error(vectors, quantizer.decode(quantizer.compute_codes(vectors)))
    rows = torch.from_numpy(vectors)
    error = module._Learned.of(rows, CodewordSpec.named("product", 50, size, length), 0).coded(rows)[1]
    ours = error / np.square(vectors - vectors.mean(axis=0)).sum()
    assert ours == pytest.approx(theirs, rel=0.03)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_vectors_does_not_matter(unit):
    table = glove_50d().head(500)
    scaled = table.matrix * np.float32(unit)
    found = product_codes(VectorTable(table.symbols, scaled), 10_000)
    plain = product_codes(table, 10_000)
    assert found.sizes == plain.sizes
    assert relative_error(VectorTable(table.symbols, scaled), found) == pytest.approx(
        relative_error(table, plain), rel=0.02
    )
    assert list(found.symbols[:3]) == list(table.symbols[:3])


def test_the_codebook_of_a_large_table_is_chosen_on_a_sample(monkeypatch):
    table = glove_50d().head(3000)
    exact = product_codes(table, 60_000)
    learned = []
    of = module._Learned.of.__func__
    monkeypatch.setattr(
        module._Learned, "of", classmethod(lambda cls, rows, *rest: learned.append(len(rows)) or of(cls, rows, *rest))
    )
    monkeypatch.setattr(module, "_SAMPLE", 1000)
    monkeypatch.setattr(module, "_JUDGED", 500)
    found = product_codes(table, 60_000)
    assert learned == [1000, 1000, 1000, 3000]
    assert relative_error(table, found) < 1.1 * relative_error(table, exact)


def test_nothing_fits():
    assert product_codes(glove_50d().head(100), 50) is None
