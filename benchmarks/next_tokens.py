"""How the predictions of a language model change when its token table, its output head, or both are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kdcode.files import replacing

PARTS = ("input", "output", "both", "output_corrected", "both_corrected")
"""What is replaced: the table that tokens are looked up in, the output head, or both.

Corrected, the head has a bias, a float16 for each token: what the copy's logit lacks at the mean state, so that the
mean logit of every token stays what it was.
"""


class Text(NamedTuple):
    """A text as windows of tokens, each read without the ones before it: ids (windows, length)."""

    name: str
    ids: Tensor

    @property
    def predicted(self) -> int:
        """Tokens that are predicted: all but the first of every window."""
        return self.ids.shape[0] * (self.ids.shape[1] - 1)


def read_ids(path: Path, tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """(n,) tokens of a file, which is read as it is: its lines one after the other, line breaks among the tokens."""
    text = path.read_text(encoding="utf-8")
    return torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def windows(name: str, ids: Tensor, tokens: int, length: int) -> Text:
    """The first tokens of a text, as many whole windows as there are in them."""
    count = min(tokens, len(ids)) // length
    if not count:
        raise SystemExit(f"{name}: {min(tokens, len(ids))} tokens do not fill one window of {length}")
    return Text(name, ids[: count * length].view(count, length))


class OriginalModel:
    """A language model as it came, and its last hidden states of texts, which are computed once and kept.

    Args:
        model: with a tied or untied output head.
        work: where hidden states are kept.
    """

    def __init__(self, model: PreTrainedModel, work: Path) -> None:
        self.model, self.work = model.eval().requires_grad_(requires_grad=False), work
        self.table: Tensor = model.get_input_embeddings().weight.detach()
        self.head: Tensor = model.get_output_embeddings().weight.detach()

    def hidden_of(self, vectors: Tensor) -> Tensor:
        """(length, d) token vectors to the (length, d) states that the output head sees."""
        states: Tensor = self.model.base_model(inputs_embeds=vectors[None], use_cache=False).last_hidden_state
        return states[0]

    @torch.no_grad()
    def hidden(self, text: Text) -> Tensor:
        """(windows, length, d) states of a text, a mapped file."""
        path = self.work / f"hidden-{text.name}-{'x'.join(map(str, text.ids.shape))}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            states = torch.stack([self.hidden_of(self.table[ids]) for ids in text.ids])
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, states.numpy())
        return torch.from_numpy(np.load(path, mmap_mode="c"))


@torch.no_grad()
def changes(original: OriginalModel, text: Text, copy: Tensor, mean: Tensor) -> dict[str, Any]:
    """For each part that a copy replaces: perplexity, and what is lost of the original's distributions.

    Args:
        original: the model.
        text: what is predicted.
        copy: (N, d) the table as it comes back.
        mean: (d,) the mean state of the original on other text, for the parts that are corrected.

    Returns:
        `{part}_perplexity`; `{part}_kl`, the mean KL divergence from the original's distribution of the next token to
        the copy's, in nats; `{part}_top1`, the share of tokens whose most likely next token stays the same. And
        `original_perplexity`.
    """
    bias = ((original.head - copy) @ mean).half().float()
    sums = dict.fromkeys([f"{part}_{what}" for part in PARTS for what in ("loss", "kl", "top1")], 0.0)
    loss = 0.0
    for ids, states in zip(text.ids, original.hidden(text), strict=True):
        told, before = ids[1:], states[:-1]
        after = original.hidden_of(copy[ids])[:-1]
        logs = nn.functional.log_softmax(before @ original.head.t(), dim=1)
        loss -= _at(logs, told)
        shares, best = logs.exp(), logs.argmax(dim=1)
        for part, hidden, head in zip(PARTS[:3], (after, before, after), (original.head, copy, copy), strict=True):
            logits = hidden @ head.t()
            for name in (part, f"{part}_corrected") if head is copy else (part,):
                if name != part:
                    logits += bias
                totals = logits.logsumexp(dim=1)
                sums[f"{name}_loss"] += float(totals.sum()) - _at(logits, told)
                divergence = (shares * (logs - logits)).sum(dim=1) + totals  # one sum for all would lose small shares
                sums[f"{name}_kl"] += float(divergence.sum())
                sums[f"{name}_top1"] += int((logits.argmax(dim=1) == best).sum())
    means = {name: value / text.predicted for name, value in sums.items()}
    found: dict[str, Any] = {"original_perplexity": float(np.exp(loss / text.predicted))}
    for part in PARTS:
        found[f"{part}_perplexity"] = float(np.exp(means[f"{part}_loss"]))
        found |= {f"{part}_{what}": means[f"{part}_{what}"] for what in ("kl", "top1")}
    return found


def _at(values: Tensor, told: Tensor) -> float:
    """The sum of (tokens, N) values at (tokens,) ids."""
    return float(values.gather(1, told[:, None]).sum())
