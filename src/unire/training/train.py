"""Training in one call: `train` trains, tunes, scores and saves a model, `cross_validate` one model per fold."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from accelerate import Accelerator
from accelerate.utils import set_seed

import unire
from unire.analysis.checks import count_types
from unire.analysis.splits import Fold
from unire.config import HeadConfig, ModelConfig
from unire.decoding.decoders import default_alpha
from unire.documents import Document
from unire.errors import UnireError, fits
from unire.evaluation.scorer import score
from unire.evaluation.scores import Average, Scores
from unire.extractor import Extractor
from unire.hub.model_dir import ModelDir, is_model_dir
from unire.labels import LabelSpace
from unire.model_files import load_json
from unire.models.encoder import digest_weights, load_encoder
from unire.models.unire import UniRE
from unire.output_files import locks_output
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import PRESETS, TrainingConfig
from unire.training.distributed import new_accelerator
from unire.training.optimizer import TrainingBudget
from unire.training.resume import (
    check_folds,
    check_training_folder,
    fingerprint,
    fold_folder,
    has_checkpoint,
    is_finished,
)
from unire.training.tasks import TableTask
from unire.training.trainer import Trainer, use_bf16

__all__ = [
    "TrainResult",
    "cross_validate",
    "encoder_provenance",
    "init_model",
    "init_training",
    "over_folds",
    "portable_config",
    "train",
    "train_and_save",
]

ADAPTATION_FIELDS = {"encoder": str, "corpus": list, "tokens": int}
"""Facts about an adaptation for the model card."""


@dataclass(frozen=True, repr=False)
class TrainResult:
    """The trained model, and how the training went."""

    model: UniRE
    """The model with the weights of the best epoch."""
    dev: Scores | None
    """Scores on dev, after tuning; `None` without dev."""
    test: Scores | None
    """Scores on test; `None` without test."""
    history: list[dict[str, Any]]
    """The losses and dev scores of every epoch."""
    notes: Mapping[str, int]
    """What tables could not hold and what windows had to do, counted."""
    stopped_by: int | None = None
    """The number of the signal that interrupted the training, if one did."""
    main: bool = True
    """Whether this is the main process, where there are several."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal has ended the training early."""
        return self.stopped_by is not None

    def __repr__(self) -> str:
        parts = [f"{len(self.history)} epochs{', interrupted' if self.interrupted else ''}"]
        for name, scores in (("dev", self.dev), ("test", self.test)):
            if scores is not None:
                parts.append(f"{name} Ent {100 * scores.entities.f1:.1f} Rel {100 * scores.relations.f1:.1f}")
        return f"<TrainResult: {'; '.join(parts)}>"


@locks_output
def train(
    encoder: str | Path,
    documents: Sequence[Document],
    *,
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    config: TrainingConfig | None = None,
    data: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
) -> TrainResult:
    """Train a model and save it. Ctrl-C and SIGTERM end the training early, with a checkpoint to resume from.

    >>> train("bert-base-uncased", documents, dev=dev, test=test, out="models/mine")  # doctest: +SKIP
    <TrainResult: 60 epochs; dev Ent 68.3 Rel 38.1; test Ent 67.9 Rel 37.4>

    Args:
        encoder: A pretrained encoder, by Hub name or folder. Of a unire model the encoder is used; with `keep_head`,
            all of it.
        documents: The training data.
        out: A new folder for the model. Checkpoints to resume from are written next to it, to `OUT.resume`.
        dev: Selects the best epoch and α, and calibrates the scores. Without it the last epoch is kept.
        test: Scored once, at the end.
        labels: The label space. [default: learnt from all the data, without symmetric relations; with
            `keep_head` that of the model]
        config: The settings. [default: preset `best`]
        data: Names of the data files, for the model card.
        callbacks: Called in the course of the training.
        resume: Continue an unfinished training with the same settings.
        save_every_epochs: Write a checkpoint every N epochs.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.

    Returns:
        The trained model, its scores on dev and test, and the losses and scores of every epoch.

    Raises:
        UnireError: `out` is not empty, the documents have unknown labels, or there is nothing to resume.
    """
    out = Path(out)
    check_training_folder(out, resume=resume)
    config = config or TrainingConfig.from_preset("best")
    seen = [*documents, *dev, *test]
    labels = labels or (ModelDir.open(encoder).labels if config.keep_head else LabelSpace.learn(seen))
    labels.check([*dev, *test])
    model, accelerator = init_training(encoder, documents, dev=dev, labels=labels, config=config, data=data)
    task = TableTask(model, documents, dev, config, accelerator)
    if not config.keep_head:  # a kept head may know more types than this data has
        task.data.notes.update(_unseen(documents, dev, "dev") | _unseen(documents, test, "test"))
    return train_and_save(
        task,
        out,
        test,
        callbacks=callbacks,
        resume=resume,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
    )


def init_training(
    encoder: str | Path,
    documents: Sequence[Document],
    *,
    dev: Sequence[Document],
    labels: LabelSpace,
    config: TrainingConfig,
    data: Sequence[str],
) -> tuple[UniRE, Accelerator]:
    """Seed the random numbers and initialise the model on its device; the arguments are those of `train`."""
    if not labels.entity_types:
        raise UnireError("there are no entity types to learn; give annotated data with entities, or a label space")
    accelerator = new_accelerator("bf16" if use_bf16(config) else "no")
    set_seed(config.seed)
    model = init_model(str(encoder), labels, config, data, fingerprint(documents, dev)).to(accelerator.device)
    signatures = {*model.config.signatures, *LabelSpace.collect_signatures(documents)}
    model.config = model.config.with_(signatures=tuple(sorted(signatures)))
    return model, accelerator


def train_and_save(
    task: TableTask,
    out: Path,
    test: Sequence[Document],
    *,
    callbacks: Sequence[Callback],
    resume: bool,
    budget: TrainingBudget | None = None,
    save_every_epochs: int | None,
    save_every_minutes: float | None,
) -> TrainResult:
    """Train, tune on dev, score and save; also used by distillation.

    Ctrl-C or SIGTERM leaves a model and a checkpoint to resume from. So does an error after the last epoch.
    """
    trainer = Trainer(
        task,
        out=out,
        callbacks=callbacks,
        budget=budget,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
    )
    if task.accelerator.num_processes > 1:  # each process drops out other units
        set_seed(task.config.seed, device_specific=True)
    if resume:
        trainer.resume()
    out = out.resolve()
    stopped_by = None
    scores: dict[str, Scores | None] = {}
    try:
        with Interrupt() as interrupt:
            try:
                trainer.fit(interrupt)
                scores = _finish(trainer, task, out, test, interrupt)
            except KeyboardInterrupt:
                stopped_by = interrupt.number
                trainer.load_best_weights()
                task.save_model(out, trainer.state, {}, interrupted=True)
    finally:
        trainer.callbacks.on_train_end()
    return TrainResult(
        task.model,
        scores.get("dev"),
        scores.get("test"),
        trainer.state.history,
        task.notes(),
        stopped_by,
        task.accelerator.is_main_process,
    )


def _finish(
    trainer: Trainer, task: TableTask, out: Path, test: Sequence[Document], interrupt: Interrupt
) -> dict[str, Scores | None]:
    """Tune α and calibrate on dev, score, and save the model."""
    task.save_model(out, trainer.state, {}, interrupted=True)  # whatever happens from here on, there is a model
    alone = task.accelerator.num_processes == 1
    if not alone:  # after an error the processes are at different places and cannot gather their states
        trainer.save_checkpoint()
    try:
        with interrupt.immediate():
            task.tune()
            scores = {"dev": task.score(task.dev), "test": task.score(test)}
        task.save_model(out, trainer.state, scores)
    except BaseException as error:
        if alone:
            # if saving fails as well, the first error is the one to report
            with nullcontext() if isinstance(error, KeyboardInterrupt) else suppress(Exception):
                trainer.save_checkpoint()
        raise
    trainer.remove_checkpoints()
    return scores


def _unseen(documents: Iterable[Document], others: Iterable[Document], part: str) -> dict[str, int]:
    """A note on entities and relations of dev or test whose types do not occur in the training data."""
    shown = count_types(documents)
    unseen = [
        (label, count)
        for kind, counts in count_types(others).items()
        for label, count in counts.items()
        if label not in shown[kind]
    ]
    names = ", ".join(sorted({label for label, _ in unseen}))
    note = f"in {part} of a type that the training data never shows, and that can never be found: {names}"
    return {note: sum(count for _, count in unseen)} if unseen else {}


def init_model(
    encoder: str, labels: LabelSpace, config: TrainingConfig, data: Sequence[str] = (), fingerprint: str = ""
) -> UniRE:
    """A pretrained encoder with a new head; with `keep_head`, with the head of the model that the encoder is from."""
    loaded, tokenizer, spec = load_encoder(encoder, case_marks=config.case_marks)
    settings = ModelConfig(
        spec=spec,
        encoder=portable_config(loaded.config),
        head=HeadConfig(config.d, config.mlp_dropout),
        layout=config.layout,
        window=config.window,
        max_table=config.max_table,
        decoder=config.decoder,
        alpha=config.alpha or default_alpha(config.decoder),
        relation_odds=config.relation_odds,
        constraints=config.constraints,
        provenance={
            "unire": unire.__version__,
            **encoder_provenance(encoder),
            "encoder_weights": digest_weights(loaded),
            "data": ["/".join(Path(name).parts[-2:]) for name in data],
            "fingerprint": fingerprint,
            "preset": config.preset,
            "changes": _changes(config),
            "seed": config.seed,
            "config": asdict(config),
        },
    )
    model = UniRE(settings, labels, tokenizer, loaded)
    if config.keep_head:
        _keep_head(model, encoder)
    return model


def _keep_head(model: UniRE, source: str) -> None:
    """Copy the head of another model with the same labels and size, and what was fitted to it.

    Type constraints are kept. The calibration is kept if the decoder is the same, for which it was measured.
    """
    trained = UniRE.from_pretrained(source)
    known = trained.config
    if trained.labels != model.labels:
        raise UnireError(f"keep_head=True needs the labels of {source!r}; leave out labels=..., or train a new head")
    if known.head.d != model.config.head.d:
        raise UnireError(f"keep_head=True needs d = {known.head.d}, as in {source!r}; change d, or train a new head")
    model.config = model.config.with_(signatures=known.signatures)
    if known.decoder == model.config.decoder:
        model.config = model.config.with_(calibration=known.calibration)
    for part in ("head_mlp", "tail_mlp", "biaffine"):
        getattr(model, part).load_state_dict(getattr(trained, part).state_dict())


def _changes(config: TrainingConfig) -> dict[str, Any]:
    """The settings that differ from the preset, except for the seed."""
    preset = asdict(PRESETS[config.preset])
    return {name: value for name, value in asdict(config).items() if value != preset[name] and name != "seed"}


def encoder_provenance(encoder: str) -> dict[str, Any]:
    """The name of an encoder, its origin and its adaptation, as far as known."""
    if is_model_dir(encoder):
        origin = ModelDir.open(encoder).config.provenance
        known = {key: origin[key] for key in ("adaptation", "licence", "base_licence") if key in origin}
        return {"encoder": Path(encoder).name, "base": origin.get("base", origin.get("encoder", "unknown")), **known}
    if not Path(encoder).exists():
        return {"encoder": encoder}
    return {"encoder": Path(encoder).resolve().name, **_adaptation(Path(encoder) / "adaptation.json")}


def _adaptation(path: Path) -> dict[str, Any]:
    """The record that `adapt` writes next to an encoder, if there is one."""
    if not path.exists():
        return {}
    try:
        record = load_json(path)
        known = all(fits(record[name], kind) for name, kind in ADAPTATION_FIELDS.items())
        known = known and all(isinstance(file, str) for file in record["corpus"])
    except (UnireError, KeyError, TypeError):
        known = False
    if not known:
        raise UnireError(
            f"{str(path)!r} is not a record of `adapt`, or is damaged; delete it if `adapt` did not write it"
        )
    return {"adaptation": record}


def portable_config(config: Any) -> dict[str, Any]:
    """An encoder's configuration as plain JSON values, without the paths of this machine."""
    settings = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in settings.items() if key not in ("_name_or_path", "name_or_path")}


# Cross-validation


def cross_validate(
    encoder: str | Path,
    folds: Sequence[Fold],
    *,
    out: Path,
    config: TrainingConfig,
    only: Collection[int] = (),
    callbacks_for: Callable[[int], Sequence[Callback]] = lambda number: (),
    resume: bool = False,
    **options: Any,
) -> list[Scores]:
    """Train a model per fold, in `out/fold-01` and so on, and score each on its fold's test documents.

    >>> folds = list(split_folds(documents, draw_folds(documents, 10)))  # doctest: +SKIP
    >>> scores = cross_validate("bert-base-uncased", folds, out=Path("models"), config=config)  # doctest: +SKIP

    Args:
        encoder: A pretrained encoder, by Hub name or folder.
        folds: Training, dev and test documents of each.
        out: The folder for the models; it may hold those of other folds.
        config: How each model is trained.
        only: Numbers of the folds to train, from 1. [default: all]
        callbacks_for: Makes the callbacks of a fold, given its number from 1.
        resume: Keep finished folds, and continue the one that was interrupted.
        options: Passed on to `train`.

    Returns:
        The scores of each fold on its test documents.

    Raises:
        UnireError: There is no fold of a number in `only`, or the folder of a fold is not empty.
        KeyboardInterrupt: A fold was interrupted; `resume` continues it.
    """
    check_folds(out, len(folds), only, resume=resume)  # before the first is trained
    chosen = [
        (number, fold, fold_folder(out, number))
        for number, fold in enumerate(folds, start=1)
        if not only or number in only
    ]
    results = []
    for number, fold, folder in chosen:
        unfinished = has_checkpoint(folder)
        if resume and is_finished(folder) and not unfinished:
            results.append(_score_again(folder, fold, encoder, config))
            continue
        trained = train(
            encoder,
            fold.train,
            dev=fold.dev,
            test=fold.test,
            out=folder,
            callbacks=callbacks_for(number),
            resume=resume and unfinished,
            config=config,
            **options,
        )
        if trained.test is None:
            raise KeyboardInterrupt(trained.stopped_by or signal.SIGINT)
        results.append(trained.test)
    return results


def over_folds(results: Sequence[Scores], average: Average) -> dict[str, Any]:
    """Mean precision, recall and F1 over folds, and the standard deviation of F1, as plain JSON values."""
    row: dict[str, Any] = {"average": average}
    for part in ("entities", "relations"):
        folds = [replace(getattr(scores, part), average=average) for scores in results]
        row[part] = {rate: mean(getattr(fold, rate) for fold in folds) for rate in ("precision", "recall", "f1")}
        row[part]["deviation"] = stdev(fold.f1 for fold in folds)
    return row


def _score_again(folder: Path, fold: Fold, encoder: str | Path, config: TrainingConfig) -> Scores:
    """The scores of a fold that an earlier run with the same settings has finished."""
    extractor = Extractor.load(folder)
    provenance = extractor.config.provenance
    same = {
        "config": provenance.get("config") == asdict(config),
        "encoder": provenance.get("encoder") == encoder_provenance(str(encoder))["encoder"],
        "data": provenance.get("fingerprint") == fingerprint(fold.train, fold.dev),
    }
    if other := [what for what, equal in same.items() if not equal]:
        raise UnireError(
            f"the model in {str(folder)!r} was trained with another {other[0]}; resume with the same settings, "
            "or give a new folder"
        )
    return score(fold.test, extractor.annotate(fold.test), extractor.labels)
