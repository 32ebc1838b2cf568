import numpy as np
import pytest
from sample_tables import CODEWORD_NAMES, TRANSFORM_NAMES, coded_table

from kdcode.codec import CodewordSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.errors import NoRowsError
from kdcode.evaluation.code_use import code_use


def table_of(codes, size, **settings):
    codes = np.array(codes)
    spec = CodewordSpec.named("linear", 3, size, codes.shape[1] - bool(settings), **settings)
    weights = {name: np.ones(shape) for name, (_, shape) in spec.tensor_layout().items() if not name.endswith("_scale")}
    return CodedTable.from_codes(None, codes, make_codec(spec, weights))


def test_by_hand():
    found = code_use(table_of([[0, 3], [0, 1], [0, 3], [0, 2], [0, 0], [0, 0], [0, 1], [0, 2]], 4))
    assert found.counts.tolist() == [[8, 0, 0, 0], [2, 2, 2, 2]]
    assert found.unused.tolist() == [3, 0]
    assert found.entropies.tolist() == [0, 2]
    assert (found.entropy, found.bits) == (2, 4)
    assert found.shared_codes == 8
    assert found.as_dict() == {
        "code_length": 2,
        "codebook_size": 4,
        "unused_codewords": 3,
        "unused_by_position": [3, 0],
        "shared_codes": 8,
        "bits": 4.0,
        "entropy": 2.0,
        "entropy_by_position": [0.0, 2.0],
    }


def test_uneven_use_is_worth_less():
    found = code_use(table_of([[0]] * 3 + [[1]], 2))
    assert found.entropy == pytest.approx(0.75 * np.log2(4 / 3) + 0.25 * 2)


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_every_kind_of_codec_in_several_chunks(kind, monkeypatch):
    coded = coded_table(kind, rows=300)
    monkeypatch.setattr("kdcode.coded._CODES_AT_ONCE", 50 * len(coded.spec.widths))
    found = code_use(coded)
    for position in range(coded.code_length):
        expected = np.bincount(coded.codes[:, position], minlength=coded.codebook_size)
        assert found.counts[position].tolist() == expected.tolist()
    assert found.shared_codes == coded.shared_codes


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_a_codec_without_codebooks_has_none(kind):
    assert code_use(coded_table(kind)) is None


def test_a_codebook_has_no_codes():
    with pytest.raises(NoRowsError):
        code_use(coded_table("linear", rows=5).codebook())
