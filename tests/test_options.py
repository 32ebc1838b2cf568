import dataclasses
import re

import numpy as np
import pytest
from sample_tables import words

from kdcode import CompressOptions, VectorTable
from kdcode.errors import OptionError
from kdcode.options import (
    LEARNER_OPTIONS,
    AdditiveOptions,
    EncoderOptions,
    GradientOptions,
    RandomOptions,
    checked_spec,
    promised_sizes,
)
from kdcode.symbols import StoredSymbols

ALL = [CompressOptions, *LEARNER_OPTIONS.values()]


def test_every_option_has_a_help_text():
    for options in ALL:
        for item in dataclasses.fields(options):
            assert item.metadata["help"].endswith("."), item.name
            assert item.default is None or item.default in item.metadata.get("choices", [item.default]), item.name


def test_no_two_options_share_a_name():
    own = {item.name for item in dataclasses.fields(CompressOptions)}
    for options in LEARNER_OPTIONS.values():
        assert not own & {item.name for item in dataclasses.fields(options)}


@pytest.mark.parametrize(
    "options",
    [
        CompressOptions(),
        CompressOptions.of(codebook_size=7, composition="lstm", codeword_dim=4, start="random", epochs=3),
        CompressOptions.of(composition="grouped", groups=3, rotation=True, scale_bits=4, effort="best"),
        CompressOptions(learner=EncoderOptions(temperature=0.5)),
        CompressOptions(learner=RandomOptions(), codebook_dtype="int8", loss="cosine", seed=9),
    ],
)
def test_options_come_back_from_their_dict(options):
    again = CompressOptions.of(**options.as_dict())
    assert again.as_dict() == options.as_dict()
    assert again.learning == options.learning
    assert again.spec(12) == options.spec(12)
    assert options.as_dict()["learner"] == options.learning.name
    assert all(isinstance(value, int | float | str | None) for value in options.as_dict().values())


def test_changed_keeps_the_rest():
    options = CompressOptions.of(seed=5, effort="fast").changed(code_length=3)
    assert (options.seed, options.code_length, options.learning) == (5, 3, AdditiveOptions("fast"))
    gradient = CompressOptions.of(learner="straight-through", epochs=7, curvature=0)
    assert gradient.changed(batch_size=9).learning == GradientOptions(epochs=7, curvature=0.0, batch_size=9)
    with pytest.raises(OptionError, match="code_length"):
        options.changed(code_length=0)


def test_names_that_are_no_option_are_met_with_a_list():
    with pytest.raises(OptionError, match=r"no option 'codelength'; the options are code_length, .*effort"):
        CompressOptions().changed(codelength=3)
    for dropped in ("numbers", "choice", "settle", "shared_codebook", "temperature_clock", "lstm_from"):
        with pytest.raises(OptionError, match=f"no option '{dropped}'"):
            CompressOptions.of(**{dropped: 1})


# Learners


def test_a_learner_is_given_by_name_or_with_its_options():
    assert CompressOptions(learner="straight-through").learner == GradientOptions()
    assert CompressOptions(learner=GradientOptions(start="warm")).learning.start == "warm"
    for name, options in LEARNER_OPTIONS.items():
        assert CompressOptions(learner=name).learner == options()


def test_the_default_learner_suits_the_composition():
    for composition in ("linear", "product", "grouped"):
        assert CompressOptions(composition=composition).learning == AdditiveOptions()
    assert CompressOptions(composition="lstm").learning == GradientOptions()


@pytest.mark.parametrize("wrong", ["genetic", "Additive", 3, True, AdditiveOptions, {"name": "additive"}])
def test_unknown_learners_are_refused(wrong):
    with pytest.raises(
        OptionError, match="learner must be one of additive, straight-through, algorithm-1, encoder, random, got "
    ):
        CompressOptions(learner=wrong)


@pytest.mark.parametrize(
    ("learner", "name", "value", "owners"),
    [
        ("additive", "epochs", 3, "straight-through, algorithm-1 and encoder"),
        ("additive", "curvature", 0.0, "straight-through"),
        ("additive", "start", "random", "straight-through"),
        ("straight-through", "effort", "fast", "additive"),
        ("encoder", "start", "warm", "straight-through"),
        ("encoder", "estimator", "soft", "straight-through"),
        ("random", "effort", "fast", "additive"),
        ("random", "batch_size", 10, "straight-through, algorithm-1 and encoder"),
    ],
)
def test_options_of_another_learner_are_refused(learner, name, value, owners):
    message = f"{name} is an option of the learner {owners}; the learner here is {learner}"
    with pytest.raises(OptionError, match=message):
        CompressOptions.of(learner=learner, **{name: value})
    with pytest.raises(OptionError, match=message):
        CompressOptions(learner=learner).changed(**{name: value})


def test_options_of_the_default_learner_need_no_name():
    assert CompressOptions.of(effort="best").learning == AdditiveOptions("best")
    assert CompressOptions.of(composition="lstm", epochs=3).learning == GradientOptions(epochs=3)
    with pytest.raises(OptionError, match="effort is an option of the learner additive; the learner here is straight"):
        CompressOptions.of(composition="lstm", effort="best")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"composition": "lstm", "learner": "additive"},
            "learner must be straight-through, algorithm-1 or random for an LSTM",
        ),
        ({"composition": "product", "learner": "encoder"}, "composition must be linear for the encoder, got 'product'"),
        (
            {"composition": "product", "rotation": True, "learner": "straight-through"},
            "rotation is learned by the additive learner alone, got the learner 'straight-through'",
        ),
    ],
)
def test_learners_that_cannot_learn_a_composition_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        CompressOptions(**options)


def test_epochs_follow_from_the_number_of_rows():
    assert [GradientOptions().epochs_for(rows) for rows in (100, 20_000, 25_000, 10**6)] == [100, 100, 80, 40]
    assert GradientOptions(epochs=3).epochs_for(100) == 3


# Values


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("codebook_size", 1),
        ("codebook_size", 65_537),
        ("codebook_size", 2.0),
        ("codebook_size", True),
        ("codebook_size", "32"),
        ("codebook_size", None),
        ("codebook_size", np.float64(32)),
        ("codebook_size", np.True_),
        ("code_length", 0),
        ("codeword_dim", 0),
        ("scale_bits", 9),
        ("scale_bits", -1),
        ("scale_bits", True),
        ("composition", "sum"),
        ("codebook_dtype", "int4"),
        ("loss", "absolute"),
        ("rotation", "no"),
        ("rotation", "yes"),
        ("rotation", 1),
        ("rotation", 0),
        ("rotation", None),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 1.5),
    ],
)
def test_values_that_cannot_work_are_refused(name, wrong):
    with pytest.raises(OptionError, match=rf"{name} must be .*got {re.escape(repr(wrong))}"):
        CompressOptions(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("start", "cold"),
        ("estimator", "hard"),
        ("temperature", 0),
        ("temperature", float("nan")),
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature_decay", -0.1),
        ("temperature_decay", float("nan")),
        ("epochs", 0),
        ("epochs", 1.5),
        ("batch_size", 0),
        ("batch_size", None),
        ("logit_lr", 0.0),
        ("codeword_lr", -1.0),
        ("refine_rounds", -1),
        ("curvature", -0.1),
    ],
)
def test_values_of_a_learner_that_cannot_work_are_refused(name, wrong):
    with pytest.raises(OptionError, match=rf"{name} must be .*got {re.escape(repr(wrong))}"):
        GradientOptions(**{name: wrong})


def test_effort_is_one_of_three():
    with pytest.raises(OptionError, match="effort must be one of fast, normal, best, got 'most'"):
        AdditiveOptions(effort="most")


def test_integers_of_numpy_are_integers():
    options = CompressOptions.of(
        codebook_size=np.int64(16), code_length=np.uint8(8), seed=np.int32(3), scale_bits=np.int16(2)
    )
    assert options == CompressOptions(codebook_size=16, code_length=8, seed=3, scale_bits=2)
    assert all(type(value) in (int, str, bool, type(None)) for value in options.as_dict().values())
    assert type(CompressOptions(composition="product", rotation=np.True_).rotation) is bool
    learner = GradientOptions(epochs=np.int64(3), temperature=np.float32(0.5), curvature=1)
    assert learner == GradientOptions(epochs=3, temperature=0.5, curvature=1.0)
    assert type(learner.temperature) is float


def test_options_of_other_compositions_are_refused():
    with pytest.raises(OptionError, match="codeword_dim follows from the code length in a product composition"):
        CompressOptions(composition="product", codeword_dim=3)
    with pytest.raises(OptionError, match="codeword_dim follows from the groups in a grouped composition"):
        CompressOptions(composition="grouped", codeword_dim=3)
    with pytest.raises(OptionError, match="groups are for the grouped composition, not for linear"):
        CompressOptions(groups=3)
    with pytest.raises(OptionError, match="groups must be an integer of at least 1, got 0"):
        CompressOptions(composition="grouped", groups=0)
    for composition in ("linear", "lstm"):
        with pytest.raises(OptionError, match="rotation is for product and grouped compositions"):
            CompressOptions(composition=composition, rotation=True)


# The codec that options ask for


@pytest.mark.parametrize(
    ("options", "width"),
    [
        (CompressOptions(), 100),
        (CompressOptions(composition="lstm"), 100),
        (CompressOptions(composition="lstm", codeword_dim=8), 8),
        (CompressOptions(composition="product", code_length=16), 7),  # 100/16, rounded up
        (CompressOptions(composition="grouped", groups=3), 34),
        (CompressOptions(codebook_size=32, code_length=16, codeword_dim=8), 8),  # 512·8 + 800 numbers against 51,200
        (CompressOptions(codebook_size=2, code_length=2, codeword_dim=90), 100),  # 4·90 + 9000 against 400: H is folded
        (CompressOptions(codebook_size=2, code_length=2, codeword_dim=200), 100),
    ],
)
def test_the_size_of_codewords(options, width):
    spec = options.spec(100)
    assert spec.codeword_dim == width
    assert (spec.embedding_dim, spec.composition) == (100, options.composition)
    assert (spec.codebook_size, spec.code_length) == (options.codebook_size, options.code_length)


def test_every_option_of_the_codec_reaches_it():
    spec = CompressOptions(
        codebook_size=6,
        code_length=9,
        composition="grouped",
        groups=3,
        rotation=True,
        scale_bits=4,
        codebook_dtype="int8",
    ).spec(20)
    assert (spec.codebook_size, spec.code_length, spec.groups, spec.is_rotated) == (6, 9, 3, True)
    assert (spec.scale_bits, spec.codebook_dtype) == (4, "int8")


def test_options_that_cannot_work_for_a_dimension_are_refused():
    with pytest.raises(OptionError, match="length 9 needs at least as many dimensions, got 8"):
        CompressOptions(composition="product", code_length=9).spec(8)
    with pytest.raises(OptionError, match="groups: 5 groups need as many positions and dimensions"):
        CompressOptions(composition="grouped", groups=5, code_length=4).spec(10)


def test_a_rotation_needs_as_many_rows_as_dimensions():
    options = CompressOptions(composition="product", code_length=4, rotation=True)
    assert checked_spec(VectorTable(None, np.ones((8, 8))), options).is_rotated
    with pytest.raises(OptionError, match="rotation: one of 8 dimensions takes more numbers than the table's 7 rows"):
        promised_sizes(VectorTable(None, np.ones((7, 8))), options)


def test_sizes_are_promised_by_hand():
    options = CompressOptions(codebook_size=4, code_length=3, codebook_dtype="int8", scale_bits=3)
    symbols = ["a", "b"]
    promised = promised_sizes(VectorTable(symbols, np.ones((2, 5))), options)
    assert promised.as_dict() == {
        "codes": 2 * 2,  # three times 2 bits and 3 bits
        "codebook": 4 * 3 * 5 + 3 * 4,
        "composition": 8 * 4,
        "symbols": StoredSymbols.build(symbols).nbytes,
        "embedding": 108,
        "total": 108 + StoredSymbols.build(symbols).nbytes,
    }
    assert promised_sizes(VectorTable(None, np.ones((2, 5))), options).symbols == 0


def test_symbols_are_packed_once_however_often_sizes_are_asked(monkeypatch):
    built = []
    build = StoredSymbols.build
    monkeypatch.setattr(StoredSymbols, "build", lambda symbols: built.append(1) or build(symbols))
    table = VectorTable(words(50), np.ones((50, 5)))
    for length in range(1, 6):
        promised_sizes(table, CompressOptions(code_length=length))
    assert built == [1]
