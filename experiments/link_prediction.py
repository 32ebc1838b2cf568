"""Link prediction on FB15k-237: ComplEx with a full entity table, with codes of it, and with codes learned in the task.

    python experiments/link_prediction.py --data FOLDER --work FOLDER

Four rows: the full table; codes of the trained table, put in its place; the same codes, with codewords and relations
trained further; and codes that are learned in the task from random (all entities begin with the same).
Entity vectors are used on both sides of a score, so a coded layer composes the vectors of all candidates at every step.

Relations are reciprocal. The loss is the cross entropy of each tail against the tails of the batch and a random part of
the other entities; its products are of bfloat16 numbers. Ranks are of float32 scores of all entities. Every row keeps a
checkpoint per epoch in the work folder; the epoch with the best MRR on a quarter of the validation triples is tested.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from experiment import Experiment, kept
from knowledge_graph import DATA, Graph, Queries, Tails, made_up_graph, read_graph
from task_training import TaskTrainer, optimizer_for, size_of
from torch import Tensor, nn

import kdcode
from kdcode.nn import KDEmbedding

FULL, AFTER, LEARNED = "full table", "codes after training", "codes learned in the task"
TUNED = "the same, codewords trained on"
ROWS = (FULL, AFTER, TUNED, LEARNED)
VALID_STEP = 4
"""One of so many validation triples decides which epoch is the best."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Args:
        dim: d of entities and relations: half of the numbers are real parts, half imaginary ones.
        size: how small the codes are.
        epochs: passes over the queries.
        tuning_epochs: passes with which codewords are trained further.
        batch: queries in a step.
        candidates: share of the entities that a step's tails are compared with.
        rate: learning rate of Adam; it falls to zero.
        tuning_rate: the same, where codewords are trained further.
        row_rate: learning rate of the logits that codes come from.
        dropout: share of the numbers of head vectors that are dropped.
        regularization: weight of the third powers of the absolute values of a triple's three complex vectors (N3).
        spread: standard deviation of the first vectors of a full table.
        relation_spread: the same, for relations.
    """

    dim: int = 128
    size: str = "10x"
    epochs: int = 20
    tuning_epochs: int = 5
    batch: int = 1024
    candidates: float = 0.1
    rate: float = 2e-2
    tuning_rate: float = 2e-3
    row_rate: float = 0.1
    dropout: float = 0.5
    regularization: float = 0.005
    spread: float = 0.1
    relation_spread: float = 0.1


FROM_RANDOM = replace(Recipe(), epochs=12, rate=5e-3, dropout=0.3)
"""Where codes are learned from random; relations start as they do elsewhere."""

TINY = replace(Recipe(), dim=16, size="4x", epochs=12, tuning_epochs=2, batch=64, candidates=0.5)
TINY = replace(TINY, dropout=0.0, regularization=0.0)


class Step(NamedTuple):
    """Some queries of a batch, and what their tails are compared with.

    Args:
        heads: (n,) entities.
        relations: (n,).
        tails: of the queries, as numbers of candidates.
        candidates: (m,) entities, sorted.
    """

    heads: Tensor
    relations: Tensor
    tails: Tails
    candidates: Tensor


class ComplEx(nn.Module):
    """Scores Re⟨head · relation, conj(tail)⟩ as dot products of real vectors.

    Args:
        entities: an embedding layer, full or coded.
        relations: how many.
        recipe: dropout and the spread of the relations' first vectors.
    """

    def __init__(self, entities: nn.Embedding | KDEmbedding, relations: int, recipe: Recipe) -> None:
        super().__init__()
        self.entities = entities
        self.relations = nn.Embedding(relations, entities.embedding_dim)
        nn.init.normal_(self.relations.weight, std=recipe.relation_spread)
        self.dropout = nn.Dropout(recipe.dropout)
        self.regularization = recipe.regularization

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """(n, d) vectors of heads and (n,) relations to (n, d) vectors, whose products with tails are the scores."""
        real, imaginary = self.dropout(heads).chunk(2, dim=1)
        turn, other = self.relations(relations).chunk(2, dim=1)
        return torch.cat([real * turn - imaginary * other, real * other + imaginary * turn], dim=1)

    def loss(self, step: Step) -> Tensor:
        """The mean cross entropy of all tails of a step."""
        used, place = torch.cat([step.candidates, step.heads]).unique(return_inverse=True)
        table = self.entities(used)
        candidates, heads = place.split([len(step.candidates), len(step.heads)])
        queries = self.queries(table.index_select(0, heads), step.relations)
        scores = queries.bfloat16() @ table.index_select(0, candidates).bfloat16().T
        loss: Tensor = _TailLoss.apply(scores, *step.tails)
        sizes = _third_powers(table)
        of_queries = sizes[heads] + _third_powers(self.relations.weight)[step.relations]
        of_tails = sizes[candidates[step.tails.entity]]
        return loss + self.regularization * ((of_queries * step.tails.count).sum() + of_tails.sum()) / len(of_tails)

    def scores(self, table: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """(n, entities) scores, given the (entities, d) table."""
        return self.queries(table.index_select(0, heads), relations) @ table.T


def _third_powers(vectors: Tensor) -> Tensor:
    """(n, d) complex vectors to (n,) sums of the third powers of their absolute values."""
    real, imaginary = vectors.chunk(2, dim=1)
    return (real.square() + imaginary.square() + 1e-12).pow(1.5).sum(dim=1)


class _TailLoss(torch.autograd.Function):
    """The mean over all pairs of query and tail of −log softmax(scores); scores are overwritten by their gradients."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, query: Tensor, entity: Tensor, count: Tensor) -> Tensor:  # noqa: ANN401
        right = scores[query, entity].float().sum()
        top = scores.amax(dim=1, keepdim=True)
        exponentials = scores.sub_(top).exp_()
        total = exponentials.sum(dim=1, dtype=torch.float32)
        ctx.save_for_backward(exponentials, query, entity, count / total)
        loss: Tensor = (((total.log() + top[:, 0].float()) * count).sum() - right) / len(query)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        exponentials, query, entity, scale = ctx.saved_tensors
        step = grads[0] / len(query)
        grad = exponentials.mul_((scale * step)[:, None].to(exponentials.dtype))
        grad.index_put_((query, entity), -step.to(grad.dtype).expand(len(query)), accumulate=True)
        return grad, None, None, None


class LinkPrediction:
    """All rows for one graph, recipe and seed.

    Args:
        graph: the triples.
        recipe: of the models, but those of which codes are learned from random.
        from_random: of those.
        seed: of weights, order and dropout.
        folder: for checkpoints and finished rows.
        experiment: tells of progress.
    """

    def __init__(
        self, graph: Graph, recipe: Recipe, from_random: Recipe, seed: int, folder: Path, experiment: Experiment
    ) -> None:
        self.graph, self.recipe, self.from_random = graph, recipe, from_random
        self.seed, self.folder, self.experiment = seed, folder, experiment
        self.training = Queries(graph.train, graph.relations)

    def row(self, name: str) -> dict[str, Any]:
        """The record of a row: trained, or gone on with, unless that is done."""
        return kept(self.folder / f"{name.replace(' ', '-').replace(',', '')}.json", lambda: self._measured(name))

    def _measured(self, name: str) -> dict[str, Any]:
        started = time.process_time()
        model = self._model(name)
        record: dict[str, Any] = {"row": name, "seed": self.seed, "epochs": 0}
        if name != AFTER:
            run = self._train(model, name)
            record |= {"epochs": len(run.valid), "best_epoch": run.best_epoch + 1, "valid_by_epoch": run.valid}
        for part in ("valid", "test"):
            found = self._ranks(model, getattr(self.graph, part))
            record |= {f"{part}_{key}": round(value, 4) for key, value in found.items()}
        return record | size_of(model.entities) | {"processor_seconds": round(time.process_time() - started)}

    def _model(self, name: str) -> ComplEx:
        """With its first weights; all but the full table and fresh codes begin with the trained full model."""
        torch.manual_seed(self.seed)
        graph, recipe = self.graph, self._recipe(name)
        if name == LEARNED:
            layer = KDEmbedding(graph.entities, recipe.dim, size=recipe.size)
            return ComplEx(layer, graph.relations, recipe)
        table = nn.Embedding(graph.entities, recipe.dim)
        nn.init.normal_(table.weight, std=recipe.spread)
        model = ComplEx(table, graph.relations, recipe)
        if name != FULL:
            self.row(FULL)
            best = torch.load(self._checkpoint(FULL), weights_only=True)["best_state"]
            model.load_state_dict(best)
            uses = torch.bincount(graph.train[:, 0], minlength=graph.entities).double().clamp_min(0.5).sqrt()
            source = kdcode.as_table(table.weight.detach().numpy(), weights=uses.numpy())
            coded = kdcode.compress(source, recipe.size, codewords=True, effort="fast", seed=self.seed)
            model.entities = KDEmbedding.from_coded(coded)
        return model.eval()

    def _train(self, model: ComplEx, name: str) -> Any:  # noqa: ANN401 - Progress
        recipe = self._recipe(name)
        begins_trained = name == TUNED
        rate = recipe.tuning_rate if begins_trained else recipe.rate
        epochs = recipe.tuning_epochs if begins_trained else recipe.epochs
        optimizer = optimizer_for(model, rate, recipe.row_rate)
        trainer = TaskTrainer(model, optimizer, epochs, self.seed, self._checkpoint(name))
        return trainer.fit(
            self._steps,
            model.loss,
            lambda: self._ranks(model, self.graph.valid[::VALID_STEP])["mrr"],
            lambda line: self.experiment.say(f"{name}, {line}"),
        )

    def _recipe(self, name: str) -> Recipe:
        return self.from_random if name == LEARNED else self.recipe

    def _steps(self) -> Iterator[Step]:
        """All queries once, in random order."""
        for queries in torch.randperm(len(self.training)).split(self.recipe.batch):
            tails = self.training.tails(queries)
            is_candidate = torch.rand(self.graph.entities) < self.recipe.candidates
            is_candidate[tails.entity] = True
            place = is_candidate.cumsum(0) - 1
            yield Step(
                self.training.heads[queries],
                self.training.relations[queries],
                tails._replace(entity=place[tails.entity]),
                is_candidate.nonzero()[:, 0],
            )

    @torch.no_grad()
    def _ranks(self, model: ComplEx, part: Tensor) -> dict[str, float]:
        table = model.entities.weight.detach()
        return self.graph.ranks(part, lambda heads, relations: model.scores(table, heads, relations))

    def _checkpoint(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-').replace(',', '')}.pt"


def write(experiment: Experiment, rows: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Write down and print the rows."""
    curves = {row["row"]: row.pop("valid_by_epoch") for row in rows if "valid_by_epoch" in row}
    seconds = sum(row["processor_seconds"] for row in rows)
    experiment.write(settings, rows, valid_mrr_by_epoch=curves, seconds=seconds)
    for row in rows:
        print(
            f"{row['row']:32}{row['smaller']:6.1f}x  MRR {row['test_mrr']:.3f}  Hits@1 {row['test_hits_at_1']:.3f}  "
            f"Hits@3 {row['test_hits_at_3']:.3f}  Hits@10 {row['test_hits_at_10']:.3f}"
        )


def main() -> None:
    """Train what is not trained yet, and write everything down."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    experiment.parser.add_argument("--rows", default=";".join(ROWS), help="which rows to run, with semicolons between")
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    rows = arguments.rows.split(";")
    if unknown := [row for row in rows if row not in ROWS]:
        experiment.parser.error(f"there is no row {unknown[0]!r}; the rows are {'; '.join(ROWS)}")
    torch.set_num_threads(arguments.threads)
    graph = made_up_graph() if arguments.tiny else read_graph(arguments.data)
    recipe, from_random = (TINY, TINY) if arguments.tiny else (Recipe(), FROM_RANDOM)
    folder = experiment.work / f"link_prediction-seed{arguments.seed}"
    task = LinkPrediction(graph, recipe, from_random, arguments.seed, folder, experiment)
    settings = {
        "entities": graph.entities,
        "relations": graph.relations,
        "triples": {part: len(getattr(graph, part)) // 2 for part in ("train", "valid", "test")},
        "recipe": asdict(recipe),
        "recipe_from_random": asdict(from_random),
        "threads": arguments.threads,
    }
    write(experiment, [task.row(row) for row in rows], settings)


if __name__ == "__main__":
    main()
