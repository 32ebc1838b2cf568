"""The options of compression: one list that feeds Python keywords, command-line flags, saved metadata and docs.

`CompressOptions` holds what every run has. Each learner has a dataclass of its own with the options that it reads, and
`CompressOptions.learner` is one of them; an option of another learner is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol

from kdcode.codec import CodewordSpec, Sizes
from kdcode.codec.codeword_spec import MAX_SCALE_BITS
from kdcode.codec.quantized import DTYPE_BYTES
from kdcode.codec.spec import COMPOSITIONS, MAX_CODEBOOK_SIZE, TRANSFORM
from kdcode.codec.transform.spec import MAX_ROWS_PER_BLOCK
from kdcode.errors import OptionError
from kdcode.option_fields import check_fields, option
from kdcode.symbols import RowNumbers, StoredSymbols
from kdcode.wording import listed

EFFORTS = ("fast", "normal", "best")
STARTS = ("random", "warm", "additive")
ESTIMATORS = ("straight-through", "soft", "gumbel")
LOSSES = ("squared", "cosine")
TEMPERATURE_STEPS = ("epoch", "update")

_DECAY = "Temperature decay: T = T0 / (1 + decay * t), with epochs as t; 0 keeps T constant."
_LOGIT_LR = "Initial learning rate of the code logits or the encoder network."
_CODEWORD_LR = "Initial learning rate of codewords and composition, for vectors scaled to unit variance."


@dataclass(frozen=True)
class LearnerOptions:
    """Base of the options of one learner."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class AdditiveOptions(LearnerOptions):
    """Simulated annealing over codes with exact codebook updates; the default for sums of codewords."""

    name: ClassVar[str] = "additive"
    effort: str = option("normal", "How long to search for better codes.", choices=EFFORTS)


@dataclass(frozen=True)
class BatchOptions(LearnerOptions):
    """What learners that go over the table in batches of rows have in common."""

    temperature: float = option(1.0, "Initial softmax temperature T0.", above=0)
    temperature_decay: float = option(0.0, _DECAY, low=0)
    epochs: int | None = option(
        None, "Passes over the table; by default 100, or fewer (at least 40) above 20,000 rows.", low=1
    )
    batch_size: int = option(1000, "Rows per update.", low=1)
    logit_lr: float = option(0.05, _LOGIT_LR, above=0)
    codeword_lr: float = option(0.05, _CODEWORD_LR, above=0)

    def epochs_for(self, num_embeddings: int) -> int:
        """Passes over a table of N rows: what was asked for, or enough for codes to stop changing."""
        return self.epochs or min(100, max(40, 2_000_000 // num_embeddings))


@dataclass(frozen=True)
class RefinedOptions(BatchOptions):
    """What learners have in common whose codes are refined at the end."""

    refine_rounds: int = option(
        5, "Rounds of exact refinement of codes and codewords after training; 0 for none.", low=0
    )


@dataclass(frozen=True)
class GradientOptions(RefinedOptions):
    """Algorithm 1 with second-order gradients, row-wise steps, Adam, revival, refinement; the default for an LSTM."""

    name: ClassVar[str] = "straight-through"
    start: str | None = option(
        None,
        "Initial codes: random (as in the paper), warm (from residual k-means) or additive (from the additive "
        "learner); by default additive for lstm and random otherwise.",
        choices=STARTS,
    )
    estimator: str = option(
        "straight-through", "Gradient estimator for the discrete choice of codewords.", choices=ESTIMATORS
    )
    curvature: float = option(
        0.8, "Final weight of the second-order term in the gradient of the codes; 0 for the plain gradient.", low=0
    )


@dataclass(frozen=True)
class Algorithm1Options(BatchOptions):
    """Algorithm 1 as the paper prints it: straight-through gradients, a falling temperature, plain SGD, nothing else.

    t counts epochs, or updates, with which codes freeze early. Constant rates go with the squared error: `logit_lr`
    with that of a row, `composition_lr` with the mean of a batch, `codeword_lr` with K/D times this mean (at most 1).
    """

    name: ClassVar[str] = "algorithm-1"
    temperature_decay: float = option(1.0, _DECAY, low=0)
    logit_lr: float = option(0.001, _LOGIT_LR, above=0)
    codeword_lr: float = option(0.5, _CODEWORD_LR, above=0)
    composition_lr: float = option(0.003, "Learning rate of H, and of U and b of an LSTM.", above=0)
    temperature_step: str = option("epoch", "What t counts in the temperature.", choices=TEMPERATURE_STEPS)


@dataclass(frozen=True)
class EncoderOptions(RefinedOptions):
    """An encoder network with Gumbel-softmax (Shu and Nakayama, 2017), which codes unseen vectors too."""

    name: ClassVar[str] = "encoder"


@dataclass(frozen=True)
class RandomOptions(LearnerOptions):
    """Random codes with the best codewords for them: the paper's control. It has no options."""

    name: ClassVar[str] = "random"


LEARNER_OPTIONS: dict[str, type[LearnerOptions]] = {
    options.name: options
    for options in (AdditiveOptions, GradientOptions, Algorithm1Options, EncoderOptions, RandomOptions)
}
"""The one table of learners and their options."""


NOT_FOR_TRANSFORM = (
    *("codebook_size", "code_length", "codeword_dim", "groups", "rotation", "scale_bits", "codebook_dtype"),
)
"""Options of codes with codewords."""


@dataclass(frozen=True)
class CompressOptions:
    """How a table is compressed. Field names are Python keywords and, with dashes, command-line flags."""

    codebook_size: int = option(32, "K: number of codewords per position, 2 to 65536.", low=2, high=MAX_CODEBOOK_SIZE)
    code_length: int = option(16, "D: number of integers in a code, each below K.", low=1)
    composition: str = option("linear", "How codewords are combined into a vector.", choices=COMPOSITIONS)
    codeword_dim: int | None = option(
        None, "Size of codewords if smaller than the vectors, with a learned projection; for linear and lstm.", low=1
    )
    groups: int | None = option(
        None, "Blocks of coordinates in a grouped code, each a sum of D/groups codewords; default about 4.", low=1
    )
    rotation: bool = option(False, "Learn a rotation (OPQ) for product and grouped codes; it stores d*d more numbers.")
    scale_bits: int = option(
        0,
        "Bits for a scale per row, 1 to 8: codes then quantize directions, and scales lengths; 0 for none.",
        low=0,
        high=MAX_SCALE_BITS,
    )
    codebook_dtype: str = option("float16", "Data type of the stored codebook.", choices=tuple(DTYPE_BYTES))
    codewords: bool = option(
        False, "Choose codes with codewords for a size: they can be trained, and exported to ONNX and faiss."
    )
    row_bytes: float | None = option(
        None, "Bytes for each row of transform codes, with its share of everything else: 4 d / 10 is 10x.", above=0
    )
    rows_per_block: int | None = option(
        None,
        "Rows of transform codes that are coded together: more lose less, and take longer to read alone. Chosen by "
        "default; 1 unless rows are narrow or short.",
        low=1,
        high=MAX_ROWS_PER_BLOCK,
    )
    loss: str = option(
        "squared", "Minimise the squared error of the vectors, or (cosine) of the normalised vectors.", choices=LOSSES
    )
    learner: LearnerOptions | None = option(
        None,
        "How codes are learned: additive (default), straight-through (default of lstm), algorithm-1, encoder, random.",
        choices=tuple(LEARNER_OPTIONS),
    )
    seed: int = option(0, "Random seed; the same seed gives the same codes.", low=0, high=(1 << 63) - 1)

    def __post_init__(self) -> None:
        if isinstance(self.learner, str):
            object.__setattr__(self, "learner", _default_options(self.learner))
        elif self.learner is not None and not isinstance(self.learner, LearnerOptions):
            raise OptionError(f"learner must be one of {', '.join(LEARNER_OPTIONS)}, got {self.learner!r}")
        check_fields(self)
        self._check_composition()
        self._check_learner()

    def _check_composition(self) -> None:
        if (self.composition == TRANSFORM) != (self.row_bytes is not None):
            raise OptionError(
                "row_bytes says how small transform codes are to be: give it with composition='transform', or a size"
            )
        if self.composition == TRANSFORM:
            self._check_transform()
        elif self.rows_per_block is not None and self.codewords:
            raise OptionError("rows_per_block is for transform codes, and codewords leaves these out; give one of both")
        side_by_side = self.composition in ("product", "grouped")
        if self.codeword_dim is not None and side_by_side:
            follows = "the code length" if self.composition == "product" else "the groups"
            raise OptionError(f"codeword_dim follows from {follows} in a {self.composition} composition; leave it out")
        if self.groups is not None and self.composition != "grouped":
            raise OptionError(f"groups are for the grouped composition, not for {self.composition}; leave them out")
        if self.rotation and not side_by_side:
            raise OptionError(
                f"rotation is for product and grouped compositions; {self.composition} codewords have all coordinates"
            )

    def _check_transform(self) -> None:
        for name in NOT_FOR_TRANSFORM:
            if getattr(self, name) != getattr(CompressOptions, name):
                raise OptionError(f"{name} is for codes with codewords; transform codes have none, leave it out")
        if self.codewords:
            raise OptionError("codewords: transform codes have none; leave one of the two out")
        if self.learning.name != "additive":
            raise OptionError(f"learner: transform codes need none, got {self.learning.name!r}; leave it out")

    def _check_learner(self) -> None:
        learner = self.learning
        if self.rotation and learner.name != "additive":
            raise OptionError(f"rotation is learned by the additive learner alone, got the learner {learner.name!r}")
        if learner.name == "additive" and self.composition == "lstm":
            raise OptionError("learner must be straight-through, algorithm-1 or random for an LSTM, not additive")
        if learner.name == "encoder" and self.composition != "linear":
            raise OptionError(f"composition must be linear for the encoder, got {self.composition!r}")

    @property
    def learning(self) -> LearnerOptions:
        """The options of the learner that is asked for, or else of the one that suits the composition."""
        return self.learner or (GradientOptions() if self.composition == "lstm" else AdditiveOptions())

    @property
    def learner_name(self) -> str:
        """What finds the codes, as files tell it."""
        return TRANSFORM if self.composition == TRANSFORM else self.learning.name

    @property
    def needs_torch(self) -> bool:
        """Whether codes are found by gradients, or at random for those who compare with them."""
        return self.learner_name not in (TRANSFORM, "additive")

    @property
    def effort(self) -> str:
        """The effort of the additive learner, or of an additive start."""
        return getattr(self.learning, "effort", "normal")

    @classmethod
    def of(cls, **values: Any) -> CompressOptions:  # noqa: ANN401 - option values of any type
        """Options by name, those of the learner among them."""
        return cls().changed(**values)

    def changed(self, **changes: Any) -> CompressOptions:  # noqa: ANN401 - option values of any type
        """The same options with some replaced, those of the learner among them.

        Raises:
            OptionError: an unknown name, or an option of another learner.
        """
        own = {item.name for item in fields(self)}
        base = replace(self, **{name: value for name, value in changes.items() if name in own})
        others = {name: value for name, value in changes.items() if name not in own}
        if not others:
            return base
        known = {item.name for item in fields(base.learning)}
        for name in others:
            if name not in known:
                raise OptionError(_why_not(name, base.learning, own))
        return replace(base, learner=replace(base.learning, **others))

    def as_dict(self) -> dict[str, Any]:
        """The options by name, the learner's own among them, as saved in a file's metadata."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.composition == TRANSFORM:
            own = {name: value for name, value in own.items() if name not in NOT_FOR_TRANSFORM}
        return {**own, "learner": self.learner_name, **vars(self.learning)}

    def spec(self, embedding_dim: int) -> CodewordSpec:
        """The shape of the codec for vectors of d dimensions: from it follow all sizes.

        A projection is folded into the codewords where codewords of the full dimension take fewer numbers.
        """
        width = self.codeword_dim
        if width is not None and self.composition == "linear":
            words = self.codebook_size * self.code_length
            if words * embedding_dim <= words * width + width * embedding_dim:
                width = None
        return CodewordSpec.named(
            self.composition,
            embedding_dim,
            self.codebook_size,
            self.code_length,
            codeword_dim=width,
            groups=self.groups,
            rotation=self.rotation,
            codebook_dtype=self.codebook_dtype,
            scale_bits=self.scale_bits,
        )


class TableShape(Protocol):
    """A table as far as options care: its N and d."""

    def __len__(self) -> int: ...

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""


class NamedShape(TableShape, Protocol):
    """A table as far as the bytes of its symbols go."""

    @property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols in their compact form."""


def promised_sizes(table: NamedShape, options: CompressOptions) -> Sizes:
    """The bytes that compressing `table` will take, before anything is learned: exactly, of transform codes at most."""
    if options.row_bytes is not None:
        return Sizes(math.floor(len(table) * options.row_bytes), 0, 0, table.packed_symbols.nbytes)
    return checked_spec(table, options).sizes(len(table), table.packed_symbols.nbytes)


def checked_spec(table: TableShape, options: CompressOptions) -> CodewordSpec:
    """The shape of the codec for a table.

    Raises:
        OptionError: options that cannot work for this table.
    """
    if options.rotation and len(table) < table.embedding_dim:
        raise OptionError(
            f"rotation: one of {table.embedding_dim} dimensions takes more numbers than the table's {len(table)} rows "
            "have; leave it out"
        )
    return options.spec(table.embedding_dim)


def _default_options(learner: str) -> LearnerOptions:
    if learner not in LEARNER_OPTIONS:
        raise OptionError(f"learner must be one of {', '.join(LEARNER_OPTIONS)}, got {learner!r}")
    return LEARNER_OPTIONS[learner]()


def _why_not(name: str, learner: LearnerOptions, own: set[str]) -> str:
    owners = [other.name for other in LEARNER_OPTIONS.values() if name in {item.name for item in fields(other)}]
    if owners:
        return f"{name} is an option of the learner {listed(owners)}; the learner here is {learner.name}"
    known = sorted({*own, *(item.name for item in fields(learner))})
    return f"there is no option {name!r}; the options are {', '.join(known)}"
