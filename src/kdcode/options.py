"""The options of compression: one list that feeds Python keywords, command-line flags, saved metadata and docs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kdcode.budget import MAX_SCALE_BITS, NUMBER_BYTES, SIDE_BY_SIDE, CodeShape, Sizes
from kdcode.composition import COMPOSITIONS
from kdcode.errors import OptionError
from kdcode.symbols import StoredSymbols
from kdcode.table import RowNumbers, VectorTable

COMPOSITION_NAMES = tuple(COMPOSITIONS)
LEARNER_NAMES = ("additive", "straight-through", "random", "encoder")
EFFORT_NAMES = ("fast", "normal", "best")
START_NAMES = ("random", "warm", "additive")
CHOICE_NAMES = ("straight-through", "soft", "gumbel")
CLOCK_NAMES = ("update", "epoch")
LOSS_NAMES = ("squared", "cosine")
LSTM_BEGINNINGS = ("additive", "linear", "start")


_GROUPS = 4


def _option(default: Any, text: str, **extra: Any) -> Any:  # noqa: ANN401 - a dataclass field of any type
    return field(default=default, metadata={"help": text, **extra})


@dataclass(frozen=True)
class CompressOptions:
    """How a table is compressed. Field names are Python keywords and, with dashes, command-line flags."""

    codebook_size: int = _option(32, "K: codewords to choose from at each position, 2 to 65536.")
    code_length: int = _option(16, "D: positions of a code, each one integer in [0, K).")
    composition: str = _option("linear", "How D codewords become a vector.", choices=COMPOSITION_NAMES)
    codeword_dim: int | None = _option(None, "Numbers in a codeword; by default the vectors' dimension (product: d/D).")
    groups: int | None = _option(
        None, "Groups of coordinates of a grouped composition, each a sum of D/groups codewords; about 4 by default."
    )
    rotation: bool = _option(
        False,
        "Turn the coordinates of a product or grouped composition by a learned rotation, so that those that belong "
        "together stand side by side; takes d² numbers.",
    )
    shared_codebook: bool = _option(
        False, "Let all positions of a linear composition choose from the same K codewords, stored once."
    )
    scale_bits: int = _option(
        0,
        "Bits of a scale that every row keeps, 1 to 8: codes then say where vectors point, each counted alike, and the "
        "scale how long they are. 0 for none.",
    )
    loss: str = _option(
        "squared",
        "What is made small: squared error; or cosine, 1 − cosine, for which lengths do not count.",
        choices=LOSS_NAMES,
    )
    numbers: str = _option("float16", "Number format of the stored codewords.", choices=tuple(NUMBER_BYTES))
    learner: str | None = _option(
        None,
        "How codes are found: additive, the default for sums; straight-through, the paper's and the default for an "
        "LSTM; random, its control; encoder, a network that can code unseen vectors too.",
        choices=LEARNER_NAMES,
    )
    effort: str = _option("normal", "How long the additive learner searches.", choices=EFFORT_NAMES)
    start: str | None = _option(
        None,
        "Where learning starts: warm, from residual k-means, the default of additive; random as in the paper, "
        "the default of straight-through; or additive, from that learner's codes, for straight-through.",
        choices=START_NAMES,
    )
    lstm_from: str = _option(
        "additive",
        "What an LSTM is learned from: linear codes of the additive or (linear) the straight-through learner, or the "
        "start itself as in the paper.",
        choices=LSTM_BEGINNINGS,
    )
    choice: str = _option("straight-through", "How a codeword is picked while learning.", choices=CHOICE_NAMES)
    temperature: float = _option(1.0, "T0 of the tempering softmax.")
    temperature_decay: float = _option(0.0, "T = T0 / (1 + decay · t); 0 keeps T constant.")
    temperature_clock: str = _option("epoch", "What t counts in the temperature's decay.", choices=CLOCK_NAMES)
    curvature: float = _option(
        0.8, "Weight, at the end, of the loss's second-order term; 0 is the paper's Algorithm 1."
    )
    epochs: int | None = _option(
        None, "Passes over the table; by default 100, and fewer (down to 40) above 20,000 rows."
    )
    batch_size: int = _option(1000, "Rows per update.")
    logit_rate: float = _option(0.05, "First learning rate of the code logits; falls to zero along a cosine.")
    codeword_rate: float = _option(
        0.05, "First learning rate of codewords and composition, in units of the table's spread."
    )
    settle: int = _option(5, "Rounds of exact refits of codes and codewords at the end; 0 leaves what gradients found.")
    seed: int = _option(0, "Seed of everything random; the same seed gives the same codes.")

    def __post_init__(self) -> None:
        for item in fields(self):
            choices = item.metadata.get("choices")
            value = getattr(self, item.name)
            if choices and value not in choices and not (value is None and item.default is None):
                raise OptionError(f"{item.name} must be one of {', '.join(choices)}, got {value!r}")
        _within("codebook_size", self.codebook_size, 2, 1 << 16)
        for name in ("code_length", "batch_size"):
            _within(name, getattr(self, name), 1, None)
        if self.epochs is not None:
            _within("epochs", self.epochs, 1, None)
        _within("settle", self.settle, 0, None)
        _within("scale_bits", self.scale_bits, 0, MAX_SCALE_BITS)
        _within("seed", self.seed, 0, (1 << 63) - 1)
        self._check_widths()
        self._check_learner()
        for name in ("temperature", "logit_rate", "codeword_rate"):
            if not getattr(self, name) > 0:
                raise OptionError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("temperature_decay", "curvature"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"{name} must be 0 or more, got {getattr(self, name)}")

    def _check_widths(self) -> None:
        if self.codeword_dim is not None:
            _within("codeword_dim", self.codeword_dim, 1, None)
            if self.composition in SIDE_BY_SIDE:
                follows = "the code length" if self.composition == "product" else "the groups"
                raise OptionError(
                    f"codeword_dim follows from {follows} in a {self.composition} composition; leave it out"
                )
        if self.groups is not None:
            _within("groups", self.groups, 1, None)
            if self.composition != "grouped":
                raise OptionError(f"groups are for the grouped composition, not for {self.composition}; leave them out")
        if self.rotation and self.composition not in SIDE_BY_SIDE:
            raise OptionError(
                f"rotation is for {' and '.join(SIDE_BY_SIDE)} compositions; {self.composition} codewords have all "
                "coordinates as it is"
            )

        if self.shared_codebook and self.composition != "linear":
            raise OptionError(f"shared_codebook is for the linear composition, got {self.composition!r}")

    def _check_learner(self) -> None:
        if self.start == "additive" and (self.learner_name != "straight-through" or self.composition == "lstm"):
            raise OptionError(
                "start must be random or warm, but for the straight-through learner of a sum; lstm_from says what an "
                "LSTM goes on from"
            )
        if self.loss == "cosine" and self.learner_name == "encoder":
            raise OptionError("loss must be squared for the encoder, got 'cosine'")
        for name in ("rotation", "shared_codebook"):
            if getattr(self, name) and self.learner_name != "additive":
                raise OptionError(f"{name} is learned by the additive learner alone, got {self.learner_name!r}")
        if self.learner == "additive" and self.composition == "lstm":
            raise OptionError(
                "learner must be straight-through or random for an LSTM; additive is for sums of codewords"
            )
        if self.learner == "encoder" and self.composition != "linear":
            raise OptionError(f"composition must be linear for the encoder, got {self.composition!r}")

    def changed(self, **changes: Any) -> CompressOptions:  # noqa: ANN401 - option values of any type
        """The same options with some replaced; an unknown name is refused with the list of known ones."""
        known = [item.name for item in fields(self)]
        for name in changes:
            if name not in known:
                raise OptionError(f"there is no option {name!r}; the options are {', '.join(known)}")
        return replace(self, **changes)

    @property
    def learner_name(self) -> str:
        """The learner that is asked for, or else the one that suits the composition."""
        return self.learner or ("straight-through" if self.composition == "lstm" else "additive")

    @property
    def start_name(self) -> str:
        """The start that is asked for, or else the learner's own."""
        return self.start or ("warm" if self.learner_name == "additive" else "random")

    def epochs_for(self, num_embeddings: int) -> int:
        """Passes over a table of N rows: what was asked for, or enough for the codes to settle."""
        return self.epochs or min(100, max(40, 2_000_000 // num_embeddings))

    def as_dict(self) -> dict[str, Any]:
        """The options by name, as saved in a file's metadata."""
        return asdict(self)

    def code_shape(self, num_embeddings: int, embedding_dim: int) -> CodeShape:
        """The shape of the result for a table of N x d: from it follow all sizes.

        A linear map H is folded into the codewords where codewords of the full dimension take fewer numbers.
        """
        width = self.codeword_dim or embedding_dim
        if self.composition == "product":
            if self.code_length > embedding_dim:
                raise OptionError(
                    f"a product code of length {self.code_length} needs at least as many dimensions, "
                    f"got {embedding_dim}; use a shorter code or the linear composition"
                )
            width = -(-embedding_dim // self.code_length)
        elif self.composition == "grouped":
            width = _group_width(embedding_dim, self.groups, self.code_length)
        elif self.composition == "linear" and width != embedding_dim:
            words = self.codebook_size * (1 if self.shared_codebook else self.code_length)
            if words * embedding_dim <= words * width + width * embedding_dim:
                width = embedding_dim
        return CodeShape(
            num_embeddings=num_embeddings,
            embedding_dim=embedding_dim,
            codebook_size=self.codebook_size,
            code_length=self.code_length,
            codeword_dim=width,
            composition=self.composition,
            number_format=self.numbers,
            rotated=self.rotation,
            shared=self.shared_codebook and self.code_length > 1,
            scale_bits=self.scale_bits,
        )


def promised_sizes(table: VectorTable, options: CompressOptions) -> Sizes:
    """The bytes that compressing `table` will take, exactly, before anything is learned."""
    no_symbols = isinstance(table.symbols, RowNumbers)
    symbol_bytes = 0 if no_symbols else StoredSymbols.build(table.symbols).nbytes
    return options.code_shape(len(table), table.embedding_dim).sizes(symbol_bytes)


def _group_width(embedding_dim: int, groups: int | None, code_length: int) -> int:
    """The codeword size of a grouped composition; the groups must be as many as a file gives back for it, ⌈d/e⌉."""
    if groups is None:
        return -(-embedding_dim // min(_GROUPS, embedding_dim, code_length))
    width = -(-embedding_dim // groups)
    if groups != -(-embedding_dim // width):
        raise OptionError(
            f"groups: {embedding_dim} dimensions cannot be split into {groups} groups of {width} and {width - 1}; "
            f"{-(-embedding_dim // width)} is the nearest number that works"
        )
    if code_length < groups:
        raise OptionError(f"groups: {groups} groups need a code of at least that length, got {code_length}")
    return width


def _within(name: str, value: object, low: int, high: int | None) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        raise OptionError(f"{name} must be {expected}, got {value!r}")
