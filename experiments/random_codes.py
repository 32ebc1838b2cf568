"""How much random codes cost: less here than in the paper, and less still where codewords learn slowly.

    python experiments/random_codes.py --data FOLDER --work FOLDER

Table 1 of the paper has random codes 26% above the full table; `ptb_perplexity.py` finds 4%. A language model is
trained by the shortened recipe of `shortened.py` with codes that are drawn, K = 50 and D = 10: as in
`ptb_perplexity.py`, and with codewords at a tenth of its rate. The full table and learned codes are those of
`vary_k_d.py`, whose work folder is read. Finished rows are kept in the work folder and not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from experiment import Experiment, kept
from language_model import LanguageModel, keep_freed_memory
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from shortened import SHARE_OF_TEXT, SHORT, TINY, perplexity_of

from kdcode.nn import KDEmbedding

SIZE, LENGTH = 50, 10
KNOWN = {"full table": "full", "learned codes": f"{SIZE}x{LENGTH}"}
"""Rows that `vary_k_d.py` has, and the file of each."""


def _slow_codewords(model: LanguageModel) -> None:
    model.embedding.codec.codebook.register_hook(lambda gradient: 0.1 * gradient)


CHANGES: dict[str, Callable[[LanguageModel], None] | None] = {
    "random codes": None,
    "random codes, codewords learn at a tenth": _slow_codewords,
}
"""Row to what is done to the model before it learns."""


def embedding_of(corpus: Corpus, hidden: int, seed: int) -> KDEmbedding:
    """A layer over codes that are drawn."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(SIZE, (len(corpus.words), LENGTH), generator=draw)
    return KDEmbedding.from_codes(codes, SIZE, hidden)


def measure(row: str, corpus: Corpus, folder: Path, *, seed: int, tiny: bool) -> dict[str, Any]:
    """The record of a row."""
    hidden = (TINY if tiny else SHORT).hidden
    path = folder / f"{row.replace(' ', '-').replace(',', '')}.json"

    def train() -> dict[str, Any]:
        layer = embedding_of(corpus, hidden, seed)
        checkpoint = path.with_suffix(".pt")
        before = CHANGES[row]
        record = perplexity_of(layer, corpus, seed=seed, checkpoint=checkpoint, tiny=tiny, before=before)
        checkpoint.unlink(missing_ok=True)
        return record

    return kept(path, train)


def main() -> None:
    """Train every row, and write and print them."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    experiment.parser.add_argument("--rows", help="only these, with semicolons between; no result is written then")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    corpus = made_up_corpus() if arguments.tiny else read_corpus(arguments.data)
    folder = experiment.work / f"random_codes-seed{arguments.seed}"
    found: dict[str, float] = {}
    seconds = 0.0
    for row in arguments.rows.split(";") if arguments.rows else CHANGES:
        record = measure(row, corpus, folder, seed=arguments.seed, tiny=arguments.tiny)
        found[row] = float(record["perplexity"])
        seconds += record["seconds"]
        experiment.say(f"{row}: {found[row]}")
    if arguments.rows:
        return
    for row, name in KNOWN.items():
        known = experiment.work / f"vary_k_d-seed{arguments.seed}" / f"{name}.json"
        if known.exists():
            found[row] = float(kept(known, dict)["perplexity"])
        elif not arguments.tiny:
            raise SystemExit(f"{row} is not finished: vary_k_d.py writes {known}")
    rows = [{"row": row, "short_test_perplexity": value} for row, value in found.items()]
    settings = {"recipe": asdict(SHORT), "share_of_text": SHARE_OF_TEXT, "K": SIZE, "D": LENGTH}
    experiment.write(settings, rows, seconds=seconds)
    for row, value in found.items():
        print(f"{row:48} {value:8.2f}")


if __name__ == "__main__":
    main()
