"""What compressing the embeddings of a model did: bytes before and after, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.coded import CodedTable


@dataclass(frozen=True)
class LayerReport:
    """One layer of a model.

    Args:
        name: as the model calls it.
        num_embeddings: N.
        embedding_dim: d.
        before: bytes of its matrix; 0 where that is counted at another layer.
        after: bytes of what the layer holds now.
        what: what became of it: its code, the layer that it is tied to, or why it was kept.
        coded: the coded table, where the layer has one of its own.
    """

    name: str
    num_embeddings: int
    embedding_dim: int
    before: int
    after: int
    what: str
    coded: CodedTable | None = None

    def as_dict(self) -> dict[str, object]:
        """JSON values; of the coded table what was lost."""
        names = ("name", "num_embeddings", "embedding_dim", "before", "after", "what")
        lost = {} if self.coded is None else _measured(self.coded)
        return {**{name: getattr(self, name) for name in names}, **lost}


@dataclass(frozen=True)
class ModelReport:
    """All embeddings of a model, and output layers that share their matrices. Printed, it is a table.

    Args:
        layers: one by one, those that were kept too.
        model_before: bytes of all parameters and buffers of the model.
        model_after: the same, now.
    """

    layers: tuple[LayerReport, ...]
    model_before: int
    model_after: int

    def as_dict(self) -> dict[str, object]:
        """JSON values."""
        layers = [layer.as_dict() for layer in self.layers]
        return {"layers": layers, "model_before": self.model_before, "model_after": self.model_after}

    def __str__(self) -> str:
        rows = [("layer", "rows x size", "bytes before", "bytes after", "smaller", "")]
        for layer in self.layers:
            shape = f"{layer.num_embeddings:,} x {layer.embedding_dim:,}"
            rows.append((layer.name, shape, *_amounts(layer.before, layer.after), layer.what))
        rows.append(("whole model", "", *_amounts(self.model_before, self.model_after), ""))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        edges = "<>>>><"
        lines = (
            "  ".join(f"{cell:{edge}{width}}" for cell, edge, width in zip(row, edges, widths, strict=True))
            for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)


def code_text(coded: CodedTable) -> str:
    """The shape of a code and what was lost: K=256, D=48, product, relative error 0.1234."""
    shape = coded.spec.words
    shape += ", calibrated" if coded.provenance.get("calibrated") else ""
    error = coded.provenance.get("relative_error")
    return shape if error is None else f"{shape}, relative error {error:.4f}"


def _amounts(before: int, after: int) -> tuple[str, str, str]:
    times = f"{before / after:.1f}x" if before and after and before != after else ""
    return f"{before:,}" if before else "", f"{after:,}" if after else "", times


def _measured(coded: CodedTable) -> dict[str, object]:
    names = ("relative_error", "mean_cosine", "norm_error", "recall_at_10")
    return {name: coded.provenance[name] for name in names if name in coded.provenance}
