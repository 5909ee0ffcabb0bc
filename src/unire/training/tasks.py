"""Tasks of the trainer: what a model learns from, and by which loss.

`TableTask` fills tables: windows and gold tables, the losses of the paper, scores on dev. `ItemTask` trains models that
have no tables, but learn from items with a length and a weight: marker models, and the span model of the pipeline
study.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor, nn

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.scores import Scores
from unire.evaluation.thresholds import with_thresholds
from unire.evaluation.tuning import collect_log_odds, fit_calibration, tune_config
from unire.extractor import Extractor
from unire.inference.streaming import Prefetcher
from unire.inference.torch_engine import TorchEngine
from unire.models.batch import TensorBatch, Tensors, move_tensors, pin_tensors
from unire.models.cuda_graphs import GraphRunner
from unire.models.encoder import supports_position_ids
from unire.models.frozen_layers import FrozenLayers
from unire.models.losses import LOSSES, TableWeights, compute_losses
from unire.models.unire import UniRE
from unire.training.callbacks import TrainState
from unire.training.config import TrainingConfig
from unire.training.coreference import has_clusters, train_coreference
from unire.training.dataset import GoldBatch, TrainingSet, TrainingStep
from unire.training.optimizer import build_optimizer, build_schedule
from unire.training.trainer import Evaluation, Task, use_bf16
from unire.windows.collator import Padding, bucket_items

__all__ = [
    "ItemData",
    "ItemTask",
    "TableTask",
    "shuffle_into_steps",
]


@dataclass
class TableTask(Task):
    """Trains a model on gold tables.

    Args:
        model: An untrained or a trained model. `init_model` has written to its provenance the keys `encoder`, `data`
            and `fingerprint`, which become `settings` that a resumed training must share.
        documents: The training data.
        dev: Selects the best epoch; may be empty.
        config: The settings.
        accelerator: Device, precision and processes.
    """

    model: UniRE
    documents: Sequence[Document]
    dev: Sequence[Document]
    config: TrainingConfig
    accelerator: Accelerator

    loss_names: ClassVar[tuple[str, ...]] = LOSSES
    """Names of the losses in the history: those of `compute_losses`, then those of a subclass."""

    def __post_init__(self) -> None:
        config, device = self.config, self.accelerator.device
        self.processes = self.accelerator
        self.epochs, self.clip, self.patience = config.epochs, config.clip, config.patience
        self.evaluate_after, self.evaluate_every = config.evaluate_after, config.evaluate_every
        self.extractor = Extractor(
            TorchEngine(self.model, bf16=use_bf16(config)), self.model.tokenizer, self.model.config, self.model.labels
        )
        # distributed processes exchange gradients during the backward pass, which no CUDA graph can capture
        capture = device.type == "cuda" and self.accelerator.num_processes == 1
        padding, max_padding = self._batching(capture)
        self.data = TrainingSet(
            self.documents,
            self.model.labels,
            self.extractor.window_builder,
            config,
            padding=padding,
            max_padding=max_padding,
        )
        self._frozen = FrozenLayers(self.model.encoder, config.frozen) if config.frozen else None
        self.ddp_model, self.optimizer = self.accelerator.prepare(self.model, build_optimizer(self.model, config))
        self.schedule = build_schedule(self.optimizer, config)
        self.backward_batch = GraphRunner(self._backward_batch, device, capture=capture)
        if capture:  # a CUDA graph adds to gradients where they were when it was captured
            for parameter in self.model.parameters():
                parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        self.loss_sums = torch.zeros(len(self.loss_names), device=device)
        provenance = self.model.config.provenance
        self.default_settings = asdict(TrainingConfig())
        self.settings = {
            **asdict(config),
            "encoder": provenance["encoder"],
            "data": list(provenance["data"]),
            "labels": self.model.labels.to_dict(),
            "training data": provenance["fingerprint"],
        }

    # Data

    def _batching(self, capture: bool) -> tuple[Padding, int | None]:
        """How windows are padded, and how many tokens of padding cost as much as one more batch.

        A captured batch takes a GPU some milliseconds, however few tokens it has. A batch that is not captured takes
        the host longer than any padding. Packed windows have no padding that more batches would save.
        """
        if not capture:
            return "exact", 64 if self.accelerator.device.type == "cpu" else None
        return ("packed", None) if all(map(supports_position_ids, self._encoders())) else ("fixed", 1024)

    def _encoders(self) -> Sequence[nn.Module]:
        """All encoders that read the batches of a step."""
        return [self.model.encoder]

    def _rebatch(self) -> None:
        """Choose the padding by whether steps are still captured; between epochs, when no batch is prefetched."""
        self.data.padding, self.data.max_padding = self._batching(self.backward_batch.captures)

    def steps(self, epoch: int, start: int) -> tuple[int, Iterator[TrainingStep]]:
        """This process's share of each step; the next step is collated while the present one is computed."""
        self._rebatch()
        steps = self.data.steps(epoch)
        process, n_processes = self.accelerator.process_index, self.accelerator.num_processes
        return len(steps), Prefetcher(self.data.step(groups, process, n_processes) for groups in steps[start:])

    # Loss

    def backward(self, step: TrainingStep, out_of_time: Callable[[], bool]) -> None:
        self.model.train()
        for number, batch in enumerate(step.batches, start=1):
            last = number == len(step.batches)
            with nullcontext() if last else self.accelerator.no_sync(self.ddp_model):
                tensors = self.backward_batch.pin(to_tensors(batch, step, self.config))
                self.loss_sums[: len(LOSSES)] += self.backward_batch(tensors)

    def _backward_batch(self, tensors: Tensors) -> Tensor:
        """Add the gradients of a batch to the parameters', and return its losses."""
        batch, config = TensorBatch.from_dict(tensors), self.config
        losses = compute_losses(
            self.ddp_model(batch),
            tensors["gold"],
            batch.mask,
            TableWeights(tensors["cell"], tensors["word"]),
            self.model.labels,
            logit_dropout=config.logit_dropout,
            symmetry=config.symmetry,
            implication=config.implication,
        )
        # processes average their gradients; each one holds a share of a sum, so the mean is scaled back
        self.accelerator.backward(losses.sum() * self.accelerator.num_processes)
        return losses.detach()

    @property
    def keeps_gradients(self) -> bool:
        return self.backward_batch.captures

    def mean_loss(self, n_steps: int) -> dict[str, float]:
        losses = (self.accelerator.reduce(self.loss_sums, "sum") / n_steps).tolist()
        return dict(zip(self.loss_names, losses, strict=True))

    # Evaluation

    def evaluate(self) -> Evaluation | None:
        scores = self.score(self.dev)
        if scores is None:
            return None
        return Evaluation(scores.ent_plus_rel, {"ent": scores.entities.f1, "rel": scores.relations.f1})

    def score(self, documents: Sequence[Document]) -> Scores | None:
        """Scores on `documents`, each of which is scored by one process."""
        if not documents:
            return None
        share = documents[self.accelerator.process_index :: self.accelerator.num_processes]
        scores = score(share, self.extractor.annotate(share), self.model.labels)
        parts: list[Scores] = gather_object([scores])
        return sum(parts[1:], start=parts[0])

    def tune(self) -> None:
        """Fit on dev, after training: α, the relation odds, and the calibration of probabilities.

        If the training data has clusters, also train the coreference scorer, which the main process alone needs.
        """
        config, extractor = self.config, self.extractor
        extractor.config = self.model.config
        if config.tunes and (documents := self._tuning_documents()):
            extractor.config = tune_config(
                extractor, documents, alpha=config.tune_alpha, relation_odds=config.tune_odds
            )
        if self.dev:
            log_odds = collect_log_odds(extractor, self.dev)
            extractor.config = fit_calibration(extractor.config, log_odds, ["dev"], extractor.labels)
            extractor.config = with_thresholds(extractor, self.dev)
        (self.model.config,) = broadcast_object_list([extractor.config])  # GPUs may differ in a last digit
        extractor.config = self.model.config
        if has_clusters(self.documents) and self.accelerator.is_main_process:
            self.model.coreference, facts = train_coreference(
                extractor, self.documents, {"dev": self.dev}, seed=config.seed
            )
            provenance = {**self.model.config.provenance, "coreference": facts}
            self.model.config = extractor.config = self.model.config.with_(provenance=provenance)

    def _tuning_documents(self) -> Sequence[Document]:
        """The documents on which α and the relation odds are tuned."""
        return self.dev

    def release(self) -> None:
        """Return the model as a user expects it, after training and scoring."""
        if self._frozen is not None:
            self._frozen.close()

    # Output

    def save_model(
        self, out: Path, state: TrainState, scores: Mapping[str, Scores | None], *, interrupted: bool = False
    ) -> None:
        """Write the model; an interrupted one does not count as finished."""
        provenance = {name: value for name, value in self.model.config.provenance.items() if name != "interrupted"}
        self.model.config = self.model.config.with_(
            provenance={
                **provenance,
                "epochs": state.best_epoch or state.epoch,
                "seconds": round(state.seconds, 1),
                "notes": dict(self.notes()),
                "scores": {split: result.to_dict() for split, result in scores.items() if result is not None},
                **self._more_provenance(),
                **({"interrupted": True} if interrupted else {}),
            }
        )
        if self.accelerator.is_main_process:
            self.model.save_pretrained(out)

    def _more_provenance(self) -> dict[str, Any]:
        return {}

    def notes(self) -> Counter[str]:
        """What tables could not hold and what windows had to do, counted."""
        return +self.data.notes

    def run_info(self) -> dict[str, Any]:
        return {
            "documents": len(self.documents),
            "sentences": sum(len(group.table_spans) for group in self.data.groups),
            "dev documents": len(self.dev),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
            "notes": dict(self.notes()),
            "encoder": self.model.config.provenance["encoder"],
            "encoder choice": self.model.config.provenance.get("encoder_choice"),
        }


def to_tensors(gold_batch: GoldBatch, step: TrainingStep, config: TrainingConfig) -> Tensors:
    """The tensors of a batch, its gold tables and the weights of its cells and words in the step; on the host."""
    batch = TensorBatch.from_batch(gold_batch.batch, "cpu")
    weights = TableWeights.of(batch.lengths, config.mean, step.n_tables, step.n_cells, step.n_words)
    counts = {"cell": weights.cell * (not step.idle), "word": weights.word * (not step.idle)}
    return {**batch.to_dict(), "gold": torch.from_numpy(gold_batch.gold), **counts}


# Items

POOL_ITEMS = 2048
"""Items that are sorted by length together. The order between pools and between steps is random."""


class ItemData(Protocol):
    """Training data: items with a length in tokens, and a weight that counts towards the size of a step."""

    lengths: list[int]
    """Tokens of each item: items of similar length are batched together."""
    weights: list[int]
    """What each item counts in the mean loss and towards `batch_size`."""

    def collate(self, items: Sequence[int], /) -> Tensors:
        """Turn the items at these positions into the tensors of a batch."""


class ItemTask(Task):
    """Trains a model on items with a loss that is a sum over them, such as entity pairs or spans.

    Args:
        model: Has a `device`, an `encoder` with a learning rate of its own, and a method `loss` from the tensors of
            `data.collate` to the sum of the losses of their items.
        data: Shuffled by the seed and the number of the epoch.
        config: Epochs, learning rates, size of a step.
        evaluate: F1 on dev; without it the last epoch is kept.
        settings: What a resumed training must share.
    """

    prefers_later = True

    def __init__(
        self,
        model: Any,
        data: ItemData,
        config: TrainingConfig,
        *,
        evaluate: Callable[[], float] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not data.lengths:
            raise UnireError("the training data has no examples for this model")
        self.model: Any = model
        self.data = data
        self.config = config
        self.epochs, self.clip = config.epochs, config.clip
        self.device, self.bf16 = model.device, use_bf16(config, model.device)
        self.optimizer = build_optimizer(model, config)
        self.schedule = build_schedule(self.optimizer, config)
        self.loss_sums = torch.zeros(1, device=self.device)
        self.settings = {**asdict(config), **(settings or {})}
        self.default_settings = asdict(TrainingConfig())
        self._f1 = evaluate

    def steps(self, epoch: int, start: int) -> tuple[int, Iterator[tuple[list[Tensors], int]]]:
        """The batches of every step and its weight; the next step is collated while the present one is computed."""
        rng = np.random.default_rng([self.config.seed, epoch])
        steps = shuffle_into_steps(self.data.lengths, self.data.weights, self.config.batch_size, rng)
        return len(steps), Prefetcher(self._collate(step) for step in steps[start:])

    def _collate(self, step: Sequence[int]) -> tuple[list[Tensors], int]:
        """A step that is too large to compute at once has several batches, whose gradients add up."""
        parts = bucket_items(step, self.data.lengths.__getitem__, self.config.max_pieces)
        batches = [self.data.collate(part) for part in parts]
        if self.device.type == "cuda":
            batches = [pin_tensors(batch) for batch in batches]
        return batches, sum(self.data.weights[item] for item in step)

    def backward(self, step: tuple[list[Tensors], int], out_of_time: Callable[[], bool]) -> None:
        self.model.train()
        batches, weight = step
        for tensors in batches:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
                loss = self.model.loss(move_tensors(tensors, self.device)) / weight
            loss.backward()
            self.loss_sums += loss.detach()

    def evaluate(self) -> Evaluation | None:
        if self._f1 is None:
            return None
        f1 = self._f1()
        return Evaluation(f1, f1)


def shuffle_into_steps(
    lengths: Sequence[int], weights: Sequence[int], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Distribute the items of an epoch to steps. A step is filled until its weight is `size` or more."""
    order = rng.permutation(len(lengths)).tolist()
    steps: list[list[int]] = []
    for start in range(0, len(order), POOL_ITEMS):
        weight = size
        for item in sorted(order[start : start + POOL_ITEMS], key=lengths.__getitem__):
            if weight >= size:
                steps.append([])
                weight = 0
            steps[-1].append(item)
            weight += weights[item]
    return [steps[place] for place in rng.permutation(len(steps))]
