"""Two ranks, real processes with rows of their own, end with what one process ends with."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rank_processes import run_ranks

import kdcode
from kdcode.errors import OptionError
from kdcode.evaluation import compare_tables
from kdcode.learning.identity import TableContent, run_identity
from kdcode.learning.ranks import ALONE, Ranks, joined_ranks
from kdcode.learning.row_share import BLOCK_ROWS, RowShare
from kdcode.table import VectorTable

ROWS, DIM = 900, 16
JOBS = {
    "linear": {"codebook_size": 16, "code_length": 4},
    "projected": {"codebook_size": 8, "code_length": 4, "codeword_dim": 6, "effort": "fast"},
    "product": {"composition": "product", "codebook_size": 16, "code_length": 4, "rotation": True, "effort": "fast"},
    "crowded": {"composition": "product", "codebook_size": 256, "code_length": 2, "effort": "fast"},
    "grouped": {"composition": "grouped", "codebook_size": 8, "code_length": 4, "groups": 2, "effort": "fast"},
    "weighted": {"codebook_size": 16, "code_length": 4, "effort": "fast"},
    "scaled": {"codebook_size": 16, "code_length": 4, "scale_bits": 4, "effort": "fast"},
    "cosine": {"codebook_size": 8, "code_length": 3, "loss": "cosine", "codebook_dtype": "int8", "effort": "fast"},
    "straight-through": {
        "codebook_size": 8,
        "code_length": 4,
        "learner": "straight-through",
        "epochs": 6,
        "refine_rounds": 2,
    },
    "warm": {
        "codebook_size": 8,
        "code_length": 4,
        "learner": "straight-through",
        "start": "warm",
        "epochs": 4,
        "refine_rounds": 1,
    },
    "lstm": {"codebook_size": 4, "code_length": 3, "composition": "lstm", "epochs": 5, "refine_rounds": 1},
    "encoder": {"codebook_size": 8, "code_length": 3, "learner": "encoder", "epochs": 4, "refine_rounds": 1},
    "random": {"codebook_size": 8, "code_length": 4, "learner": "random"},
    "planned": {"size": "12x", "effort": "fast", "codewords": True},
    "transform": {"size": "10x", "effort": "fast"},
}
BATCHES = {"straight-through", "warm", "lstm", "encoder"}


def options_of(name):
    return {**JOBS[name], "seed": 3, **({"batch_size": 100} if name in BATCHES else {})}


@pytest.fixture(scope="module")
def matrix():
    draw = np.random.default_rng(5)
    spread = draw.normal(size=(ROWS, 3)) @ draw.normal(size=(3, DIM)) + 0.4 * draw.normal(size=(ROWS, DIM)) + 1
    return spread.astype(np.float32)


@pytest.fixture(scope="module")
def weights():
    drawn = np.random.default_rng(6).random(ROWS).astype(np.float32)
    drawn[: ROWS // 2] = 0  # those of the first rank, and of some others
    return drawn


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, matrix, weights):
    """What each of two ranks found, and where they put it."""
    out = tmp_path_factory.mktemp("ranks")
    np.save(out / "table.npy", matrix)
    (out / "weights.txt").write_text("\n".join(map(str, weights)))
    (out / "names.txt").write_text("\n".join(f"name {row}" for row in range(ROWS)))
    (out / "twice.txt").write_text("\n".join(f"name {row % 800}" for row in range(ROWS)))
    damaged = matrix.copy()
    damaged[700, 3] = np.nan
    np.save(out / "damaged.npy", damaged)
    jobs = [{"name": name, "source": str(out / "table.npy"), "options": options_of(name)} for name in JOBS]
    for job in jobs:
        if job["name"] == "weighted":
            job["weights"] = str(out / "weights.txt")
        if job["name"] == "planned":
            job["symbols"] = str(out / "names.txt")
    refused = {"name": "damaged", "source": str(out / "damaged.npy"), "options": options_of("random")}
    twice = {"name": "twice", "source": str(out / "table.npy"), "options": {}, "symbols": str(out / "twice.txt")}
    impossible = {"name": "impossible", "source": str(out / "table.npy"), "options": {"size": "9000x"}}
    return run_ranks(2, [*jobs, refused, twice, impossible], out), out


@pytest.mark.parametrize("name", JOBS)
def test_two_ranks_find_what_one_process_finds(name, ranks, matrix, weights):
    symbols = [f"name {row}" for row in range(ROWS)] if name == "planned" else None
    table = VectorTable(symbols, matrix, weights if name == "weighted" else None)
    alone = kdcode.compress(table, **options_of(name))
    found, out = ranks
    measured, theirs = found[0][name]["provenance"], alone.provenance
    few = (
        0.005 if alone.codewords is not None else 0.01
    )  # each rank codes some rows again, to fill its share of the bytes
    assert measured["relative_error"] == pytest.approx(theirs["relative_error"], rel=few)
    if alone.codewords is not None:
        assert found[0][name]["sizes"] == alone.sizes.as_dict()
    else:  # each rank keeps to its share of the bytes
        assert found[0][name]["sizes"]["total"] == pytest.approx(alone.sizes.total, rel=0.005)
    assert measured["fingerprint"] == theirs["fingerprint"]
    assert measured["options"] == theirs["options"]
    coded = kdcode.load(out / f"{name}.kdc", check="full")
    lost = compare_tables(table, coded, table.weights)
    for key, value in lost.as_dict().items():  # of rows that are equally near, rounding decides which counts
        assert value == pytest.approx(measured[key], abs=0.005 if key == "recall_at_10" else 2e-6)
    assert measured["shared_codes"] == coded.shared_codes
    assert coded.symbols[:2] == list(table.symbols[:2])


@pytest.mark.parametrize("name", ["linear", "product", "crowded", "scaled", "straight-through", "random"])
def test_nearly_all_codes_are_the_same(name, ranks, matrix):
    """Random numbers are drawn by row, not by rank: what differs is the rounding of sums."""
    alone = kdcode.compress(matrix, **options_of(name))
    assert (np.load(ranks[1] / f"{name}.npy") == alone.codes).mean() > 0.9


def test_a_rank_reads_its_own_rows_and_no_others(ranks):
    for name in JOBS:
        shares = [(rank[name]["first"], rank[name]["first"] + rank[name]["rows"]) for rank in ranks[0]]
        assert [rank[name]["asked"] for rank in ranks[0]] == [[list(share)] for share in shares]
        assert [shares[0][0], shares[0][1], shares[1][1]] == [0, shares[1][0], ROWS]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("damaged", "FormatError: .*damaged.npy: row 700: has a value that is not a finite float32"),
        ("twice", "TableError: symbol 'name 0' appears twice"),
        ("impossible", "OptionError: size 9000x: too small for this table"),
    ],
)
def test_all_ranks_end_with_the_error_of_one(name, message, ranks):
    errors = [rank[name]["error"] for rank in ranks[0]]
    assert errors[0] == errors[1]
    assert re.match(message, errors[0]), errors[0]


@pytest.mark.parametrize("total", [64, 65, 1000, 5000, 123_457, 10_000_000])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_all_rows_in_order_and_begin_with_blocks(total, size):
    if total < size * BLOCK_ROWS:
        with pytest.raises(OptionError, match=f"rows cannot be shared among {size} ranks.*start {total // 64} at most"):
            RowShare.of(total, Ranks(0, size))
        return
    shares = [RowShare.of(total, Ranks(rank, size)) for rank in range(size)]
    assert [share.first for share in shares] == [0, *(share.end for share in shares[:-1])]
    assert shares[-1].end == total
    assert all(share.first % BLOCK_ROWS == 0 and share.rows >= BLOCK_ROWS for share in shares)
    assert max(share.rows for share in shares) <= 1.2 * total / size + BLOCK_ROWS


def test_large_shares_begin_where_chunks_of_any_usual_size_begin():
    assert [RowShare.of(1_000_000, Ranks(rank, 3)).first % 4096 for rank in range(3)] == [0, 0, 0]


def test_rows_at_even_distances_are_the_same_for_all_ranks():
    rows = np.arange(1000)
    shares = [RowShare.of(1000, Ranks(rank, 3)) for rank in range(3)]
    found = [rows[share.first : share.end][share.every(7)] for share in shares]
    np.testing.assert_array_equal(np.concatenate(found), rows[::7])


def test_draws_are_those_of_one_process():
    def draws():
        random = np.random.default_rng(1)
        return lambda rows: random.integers(9, size=(rows, 3))

    total = 300_000
    shares = [RowShare.of(total, Ranks(rank, 3)) for rank in range(3)]
    assert np.array_equal(np.concatenate([share.drawn(draws()) for share in shares]), draws()(total))
    assert np.array_equal(RowShare.whole(total).drawn(draws()), draws()(total))


def test_rows_are_found_by_their_number_in_the_whole_table():
    share = RowShare.of(1000, Ranks(1, 3))
    rows = np.array([999, share.first, 0, share.end - 1, share.end])
    assert share.has(rows).tolist() == [False, True, False, True, False]
    assert share.own(rows).tolist() == [0, share.rows - 1]
    assert RowShare.whole(1000).own(rows) is rows


def test_content_is_the_same_in_any_number_of_parts(matrix, weights):
    """Digests are added up, so that ranks need not know each other's rows."""
    whole = TableContent.of(VectorTable(None, matrix, weights))
    total = 0
    for rank in range(3):
        share = RowShare.of(ROWS, Ranks(rank, 3))
        part = VectorTable(None, matrix[share.first : share.end])
        part.weights = weights[share.first : share.end]
        alone = RowShare(ALONE, share.first, share.rows, ROWS)
        total += int(TableContent.of(part, alone).digest, 16)
    assert f"{total % (1 << 256):064x}" == whole.digest
    swapped = matrix.copy()
    swapped[[0, 899]] = swapped[[899, 0]]
    assert run_identity(VectorTable(None, swapped)) != run_identity(VectorTable(None, matrix))


def test_a_process_alone_talks_to_nobody():
    values = np.arange(3.0)
    assert ALONE.all_sum(values) is values
    assert ALONE.gather_rows(values) is values
    assert ALONE.rows_to_first(values) is values
    assert (ALONE.total(2), ALONE.largest(3), ALONE.any(False), ALONE.told("a")) == (2, 3, False, "a")
    assert ALONE.collect(5) == ALONE.values_to_first(5) == [5]
    with pytest.raises(OSError, match="mine"), ALONE.together():
        raise OSError("mine")


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")  # some schedulers set it for all that they start
    with joined_ranks() as ranks:
        assert ranks.is_alone
        assert ranks.is_first
        assert ranks.is_first_to_tell()
