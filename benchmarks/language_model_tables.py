"""A language model made smaller: its token table, its output head, or both replaced by smaller copies of the table.

    python benchmarks/language_model_tables.py --model FOLDER [--gguf FILE] --text FOLDER --work FOLDER

`--model` holds a Transformers language model such as SmolLM2, or a GGUF file of one, then named by `--gguf`. `--text`
holds ptb.train.txt, ptb.valid.txt and ptb.test.txt. A text is read as it is, tokenised by the model's own tokenizer and
cut into windows of 512 tokens; the first token of a window is not predicted. Only the first `--tokens` are used.

- weights: kdcode at 20x with rows weighted in several ways, and calibrated, on validation text. The best way is used
  below.
- copies: kdcode at 5x to 40x, learned that way and plainly; rows of small integers; and kdcode in as many bytes.
- files: the size of the model's files with codes for both, saved by `save_pretrained`.
- distilled: the codewords of some copies fine-tuned on training text, to predict what the original predicts.

Each row is kept in the work folder, so that a benchmark that is stopped goes on where it was.
Writes benchmarks/results/language_model_tables.json with what is finished, and prints it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from distillation import Recipe, distilled
from model_files import file_sizes
from next_tokens import OriginalModel, Text, changes, read_ids, windows
from result_file import kept, measured_rows, write_result
from table_copies import KDCODE, CopiedTable, Wanted, wanted
from transformers import AutoModelForCausalLM, AutoTokenizer

from kdcode.learning.model_calibration import Observed

RESULTS = Path(__file__).parent / "results" / "language_model_tables.json"
PACKAGES = ("numpy", "torch", "transformers", "gguf")
Record = dict[str, Any]


class Scale(NamedTuple):
    """What is measured: tokens of the test and validation text, lengths of windows, sizes, and the fine-tune."""

    tokens: int = 4_096
    valid_tokens: int = 2_048
    window: int = 512
    train_window: int = 256
    times: tuple[int, ...] = (20, 40, 10, 5)
    tried: int = 20
    distilled: tuple[int, ...] = (20, 40)
    recipe: Recipe = Recipe()


TINY = Scale(64, 32, 16, 16, times=(8, 16), tried=16, distilled=(16,), recipe=Recipe(60, 1e-3, 25))


def weightings(counts: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """How much each row may count, by name, from how often the training text has each token.

    Tokens of a byte-pair vocabulary are numbered in the order in which they were merged, the most frequent first, so
    Zipf's law needs no text.
    """
    return {
        "zipf": 1 / (np.arange(len(counts)) + 10.0),
        "root of counts": np.sqrt(counts + 1.0),
        "counts": counts + 1.0,
    }


class Benchmark:
    """All rows, each measured once.

    Args:
        original: the model.
        texts: ids by name: train, valid and test.
        scale: how much is measured.
        work: where rows and codes are kept.
    """

    def __init__(self, original: OriginalModel, texts: dict[str, torch.Tensor], scale: Scale, work: Path) -> None:
        self.original, self.scale, self.work = original, scale, work
        self.valid = windows("valid", texts["valid"], scale.valid_tokens, scale.window)
        self.test = windows("test", texts["test"], scale.tokens, scale.window)
        self.train = windows("train", texts["train"], scale.recipe.steps * scale.train_window, scale.train_window)
        states = original.hidden(windows("calibration", texts["train"], scale.valid_tokens, scale.window))[:, 1:]
        self.mean = states.mean(dim=(0, 1))
        counts = torch.bincount(texts["train"], minlength=len(original.table)).numpy()
        self.weights = weightings(counts)
        flat = states.flatten(0, 1).double()
        seen = Observed(torch.from_numpy(counts), flat.T @ flat, len(flat))
        self.copies = CopiedTable(original.table.numpy(), work / "codes", self.weights, seen.root)

    def rows(self) -> Iterator[tuple[Path, Callable[[], Record]]]:
        """The file of every row, and what measures it; how kdcode's codes are learned is chosen on the way."""
        simple = self.at(self.scale.tried)
        tried = [simple, *(simple._replace(weighting=name) for name in self.weights)]
        tried.append(simple._replace(weighting="counts", is_calibrated=True))
        files = [self.work / f"weights-{one.stem}.json" for one in tried]
        for one, file in zip(tried, files, strict=True):
            yield file, lambda one=one: self.measured("weights", one, self.valid)
        if not all(file.exists() for file in files):
            return
        chosen = min(zip(files, tried, strict=True), key=lambda pair: kept(pair[0], dict)["both_kl"])[1]
        best = [self.at(times, chosen) for times in self.scale.times]
        shape = self.original.table.shape
        plain = list(wanted((shape[0], shape[1]), self.scale.times))
        as_peers = [one for one in plain if one.label.startswith("as ")]
        beside = [self.like(chosen, one) for one in as_peers]  # these take longest
        first = dict.fromkeys((*(one for one in plain if one not in as_peers), *best))
        for one in first:
            yield self.work / f"copies-{one.stem}.json", lambda one=one: self.measured("copies", one, self.test)
        for one in best:
            yield self.work / f"files-{one.stem}.json", lambda one=one: self.files(one)
        for times in self.scale.distilled:
            one = self.at(times, chosen)._replace(has_codewords=True)
            yield self.work / f"distilled-{one.stem}.json", lambda one=one: self.distilled(one)
        weighted = [one._replace(is_calibrated=False) for one in best]
        for one in dict.fromkeys(one for one in (*weighted, *beside) if one not in first):
            yield self.work / f"copies-{one.stem}.json", lambda one=one: self.measured("copies", one, self.test)

    @staticmethod
    def at(times: int, like: Wanted | None = None) -> Wanted:
        """The copy of kdcode that is so many times smaller, learned like another."""
        return (like or Wanted(KDCODE, "", ""))._replace(size=f"{times}x", label=f"{times}x")

    @staticmethod
    def like(chosen: Wanted, one: Wanted) -> Wanted:
        """A copy of kdcode, learned like another."""
        return one._replace(weighting=chosen.weighting, is_calibrated=chosen.is_calibrated)

    def measured(self, part: str, one: Wanted, text: Text) -> Record:
        """A copy in place of the table, without training."""
        copy = self.copies.make(one)
        rows = torch.from_numpy(np.ascontiguousarray(copy.rows))
        return {"part": part, **copy.record, **changes(self.original, text, rows, self.mean)}

    def files(self, one: Wanted) -> Record:
        """The model saved with codes for both, and loaded."""
        copy = self.copies.make(one)
        assert copy.coded is not None  # noqa: S101 - kdcode's copies have codes
        sizes = file_sizes(self.original.model, copy.coded, self.test.ids[:1])
        return {"part": "files", **copy.record, **sizes}

    def distilled(self, one: Wanted) -> Record:
        """A copy whose codewords are fine-tuned first."""
        start = self.copies.make(one)
        assert start.coded is not None  # noqa: S101 - kdcode's copies have codes
        recipe = self.scale.recipe
        better, losses = distilled(
            self.original, start.coded, self.train, recipe, self.work / f"distilled-{one.stem}.pt"
        )
        rows = torch.from_numpy(better.decode(np.arange(len(better))))
        before = changes(self.original, self.test, torch.from_numpy(np.ascontiguousarray(start.rows)), self.mean)
        few = max(1, recipe.steps // 10)
        return {
            "part": "distilled",
            **start.record,
            "bytes": better.sizes.embedding,
            "bytes_before": start.record["bytes"],
            "both_kl_before": before["both_kl"],
            "steps": recipe.steps,
            "train_kl_first": float(np.mean(losses[:few])),
            "train_kl_last": float(np.mean(losses[-few:])),
            **changes(self.original, self.test, rows, self.mean),
        }


def load(arguments: argparse.Namespace, scale: Scale) -> Benchmark:
    """The model and the texts of the command line."""
    options = {"gguf_file": arguments.gguf} if arguments.gguf else {}
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, **options)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32, **options)
    if arguments.gguf:  # its weights are floats by now, and Transformers would still refuse to save them
        model.hf_quantizer = None
        del model.config.quantization_config
    texts = {name: read_ids(arguments.text / f"ptb.{name}.txt", tokenizer) for name in ("train", "valid", "test")}
    return Benchmark(OriginalModel(model, arguments.work), texts, scale, arguments.work)


def main() -> None:
    """Measure rows until they are done or the time is up, and write down what there is."""
    parser = argparse.ArgumentParser(description="A language model with smaller tables.")
    parser.add_argument("--model", type=Path, required=True, help="folder with a language model")
    parser.add_argument("--gguf", help="its GGUF file, where it is one")
    parser.add_argument(
        "--text", type=Path, required=True, help="folder with ptb.train.txt, ptb.valid.txt, ptb.test.txt"
    )
    work = Path("benchmarks/work/language_model_tables")
    parser.add_argument("--work", type=Path, default=work, help="folder that keeps codes and finished rows")
    parser.add_argument("--tokens", type=int, default=Scale().tokens, help="how much of the test text is used")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no row after this time")
    parser.add_argument("--only", default="", help="begin rows of this part alone, such as distilled")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="little text and few sizes, for tests")
    arguments = parser.parse_args()
    scale = TINY if arguments.tiny else Scale(tokens=arguments.tokens)
    torch.set_num_threads(1)
    benchmark = load(arguments, scale)
    finished = measured_rows(benchmark.rows(), arguments.minutes, arguments.only)
    settings = {
        "model": arguments.gguf or arguments.model.name,
        "table": "x".join(map(str, benchmark.original.table.shape)),
        "tokens": {text.name: text.ids.numel() for text in (benchmark.train, benchmark.valid, benchmark.test)},
        "window": scale.window,
        "effort": benchmark.copies.effort,
        "distillation": scale.recipe._asdict(),
    }
    write_result(arguments.output, settings, finished, PACKAGES)


if __name__ == "__main__":
    main()
