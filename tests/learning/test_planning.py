import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.learning import planning
from kdcode.options import CompressOptions, promised_sizes

TABLE = glove_50d().head(800)
FAST = CompressOptions(effort="fast")


@pytest.mark.parametrize("size", ["8x", "20x", "20KB", 15_000])
def test_every_candidate_keeps_to_the_size_and_tells_its_bytes_exactly(size):
    plan = kdcode.plan(TABLE, size, options=FAST)
    assert len(plan.candidates) >= 5
    for candidate in plan.candidates:
        assert candidate.sizes == promised_sizes(TABLE, candidate.options)
        assert plan.limit.allows(candidate.options.code_shape(800, 50), candidate.sizes.symbols)
        assert candidate.options.effort == "fast"
        longer = candidate.options.changed(code_length=candidate.options.code_length + 1)
        if candidate.options.code_length < 50 or candidate.options.composition != "product":
            assert not plan.limit.allows(longer.code_shape(800, 50), candidate.sizes.symbols)
    errors = [candidate.relative_error for candidate in plan.candidates]
    assert errors == sorted(errors)
    assert plan.recommended is plan.candidates[0]


@pytest.mark.parametrize("size", ["10x", "12x", "40x"])
def test_predicted_errors_are_near_those_of_whole_runs(size):
    table = glove_50d().head(2000)
    best = kdcode.plan(table, size).recommended
    coded = kdcode.compress(table, best.options)
    assert best.relative_error == pytest.approx(coded.provenance["relative_error"], rel=0.1)


def test_a_sample_tells_what_all_rows_would_come_to(monkeypatch):
    table = glove_50d().head(4000)
    seen = kdcode.plan(table, "20x", options=FAST)
    monkeypatch.setitem(planning._SAMPLE_ROWS, "fast", 2000)
    guessed = {one.options: one.relative_error for one in kdcode.plan(table, "20x", options=FAST).candidates}
    for candidate in seen.candidates:
        if candidate.options in guessed:
            assert guessed[candidate.options] == pytest.approx(candidate.relative_error, rel=0.12)


def test_many_bits_are_for_codes_without_sums_and_few_for_sums():
    many, some, few = (
        [one.options for one in kdcode.plan(TABLE, size, options=FAST).candidates] for size in ("8x", "20x", "40x")
    )
    assert [one.codebook_size for one in many if one.composition == "linear"] == [16]
    assert {one.codebook_size for one in many if one.composition == "product"} > {8, 16, 64, 256}
    assert many[0].composition == "product"
    assert some[0].composition == "product"  # and yet sums are so near that theirs are looked at as well
    assert {one.codebook_size for one in some if one.composition == "grouped"} == {8, 16, 32}
    assert {one.groups for one in few} > {2, 4}
    assert {one.codebook_size for one in few if one.composition == "product"} <= {16, 256}
    assert few[0].composition != "product"


def test_compress_takes_the_recommended_settings():
    coded = kdcode.compress(TABLE, size="20x", effort="fast")
    best = kdcode.plan(TABLE, "20x", options=FAST).recommended
    assert coded.sizes == best.sizes
    assert coded.provenance["options"]["codebook_size"] == best.options.codebook_size
    assert coded.sizes.ratio(800, 50) >= 20
    with pytest.raises(OptionError, match="code_length is chosen for the size 20x; leave one of the two out"):
        kdcode.compress(TABLE, size="20x", code_length=8)


def test_bits_limit_the_code_alone():
    plan = kdcode.plan(TABLE, bits=24, options=FAST)
    assert {one.options.codebook_size: one.options.code_length for one in plan.candidates}[16] == 6


def test_the_smallest_table_within_an_error():
    loose, tight = (kdcode.plan(TABLE, max_error=most, options=FAST) for most in (0.5, 0.15))
    assert loose.recommended.relative_error <= 0.5
    assert tight.recommended.relative_error <= 0.15
    assert tight.recommended.sizes.embedding > 1.5 * loose.recommended.sizes.embedding
    with pytest.raises(OptionError, match="comes that near"):
        kdcode.plan(TABLE, max_error=1e-6, options=FAST)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "one of size, bits and max_error"),
        ({"size": "20x", "bits": 8}, "one of size, bits and max_error"),
        ({"size": "100000x"}, "too small for this table"),
        ({"size": "2KB"}, "too small for this table"),
        ({"max_error": 1.5}, "max_error must be between 0 and 1, got 1.5"),
    ],
)
def test_what_cannot_be_planned_is_refused(limits, message):
    with pytest.raises(OptionError, match=message):
        kdcode.plan(TABLE, **limits)


def test_lstms_are_not_planned():
    with pytest.raises(OptionError, match="leaves 'lstm' out"):
        kdcode.plan(TABLE, "20x", options=CompressOptions(composition="lstm"))


def test_other_learners_are_not_planned():
    with pytest.raises(OptionError, match=r"learner must be additive for a plan, .* got 'encoder'"):
        kdcode.compress(TABLE, size="20x", learner="encoder")


def test_each_look_is_told():
    seen = []
    kdcode.plan(TABLE.head(100), "10x", options=FAST, on_candidate=lambda *told: seen.append(told))
    assert [done for done, _, _ in seen] == list(range(len(seen)))
    assert seen[0][2].startswith("K=16, D=")
    assert seen[-1][1] == len(seen)
