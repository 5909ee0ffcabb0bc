"""Training in one call: `train` trains, tunes, scores and saves a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import unire
from unire.analysis.checks import count_types
from unire.config import HeadConfig, ModelConfig
from unire.decoding.decoders import default_alpha
from unire.documents import Document
from unire.errors import POSITIVE, UnireError, check_ranges, fits
from unire.evaluation.scores import Scores
from unire.hub.model_dir import ModelDir, is_model_dir
from unire.labels import LabelSpace
from unire.model_files import load_json
from unire.models.encoder import digest_weights, load_encoder
from unire.models.unire import UniRE
from unire.output_files import locks_output
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import PRESETS, TrainingConfig
from unire.training.distributed import new_accelerator, require_single_process
from unire.training.encoder_choice import choose_encoder
from unire.training.optimizer import TrainingBudget
from unire.training.resume import (
    check_training_folder,
    fingerprint,
)
from unire.training.tasks import TableTask
from unire.training.trainer import Trainer, use_bf16

__all__ = [
    "TrainResult",
    "encoder_provenance",
    "init_model",
    "init_training",
    "portable_config",
    "train",
    "train_and_save",
]

DEV_SENTENCES_PER_MINUTE = 100
"""Limit for dev if time is limited on a CPU, where scoring and tuning on thousands of sentences take minutes."""
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
    encoder: str | Path | None,
    documents: Sequence[Document],
    *,
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    label_map: Mapping[str, str] | None = None,
    config: TrainingConfig | None = None,
    data: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    minutes: float | None = None,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
) -> TrainResult:
    """Train a model and save it. Ctrl-C and SIGTERM end the training early, with a checkpoint to resume from.

    >>> train("bert-base-uncased", documents, dev=dev, test=test, out="models/mine")  # doctest: +SKIP
    <TrainResult: 60 epochs; dev Ent 68.3 Rel 38.1; test Ent 67.9 Rel 37.4>

    Args:
        encoder: A pretrained encoder, by Hub name or folder. Of a unire model the encoder is used; with `keep_head`,
            all of it. `None` for that of the bundled model whose vectors suit the data best, see `choose_encoder`.
        documents: The training data.
        out: A new folder for the model. Checkpoints to resume from are written next to it, to `OUT.resume`.
        dev: Selects the best epoch and α, and calibrates the scores. Without it the last epoch is kept. If `minutes`
            limits a training on a CPU, at most 100 sentences of dev are used for each minute.
        test: Scored once, at the end.
        labels: The label space. [default: learnt from all the data, without symmetric relations; with
            `keep_head` that of the model]
        label_map: Labels that start from what `encoder`, a unire model, knows of one of its own labels, for example
            `{"Place": "Loc"}`.
        config: The settings. [default: preset `best`, or `cpu` without a GPU]
        data: Names of the data files, for the model card.
        callbacks: Called in the course of the training.
        resume: Continue an unfinished training with the same settings.
        minutes: Time limit of the training, if it comes before the last epoch. The learning rates fall to zero by then.
        save_every_epochs: Write a checkpoint every N epochs.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.

    Returns:
        The trained model, its scores on dev and test, and the losses and scores of every epoch.

    Raises:
        UnireError: `out` is not empty, the documents have unknown labels, or there is nothing to resume.
    """
    out = Path(out)
    check_training_folder(out, resume=resume)
    config = config or TrainingConfig.from_preset()
    if minutes is not None:
        check_ranges({"minutes": minutes}, {"minutes": POSITIVE}, "time limit")
        require_single_process("training by the clock", "give epochs instead of minutes")
    budget = TrainingBudget(minutes, epochs=config.epochs)  # loading takes from the time
    choice = None
    if encoder is None:
        if config.keep_head or label_map:
            raise UnireError("to keep a head or map labels, name the model that they are from: give an encoder")
        choice = choose_encoder(documents, dev)
        encoder = choice.name
    seen = [*documents, *dev, *test]
    labels = labels or (ModelDir.open(encoder).labels if config.keep_head else LabelSpace.learn(seen))
    labels.check([*dev, *test])
    n_omitted = 0
    if minutes is not None and not torch.cuda.is_available():
        dev, n_omitted = limit_dev(dev, DEV_SENTENCES_PER_MINUTE * minutes, config.seed)
    model, accelerator = init_training(encoder, documents, dev=dev, labels=labels, config=config, data=data)
    if label_map:
        adopt_labels(model, encoder, label_map)
    if choice is not None:
        provenance = {**model.config.provenance, "encoder_choice": dict(choice.f1)}
        model.config = model.config.with_(provenance=provenance)
    task = TableTask(model, documents, dev, config, accelerator)
    task.data.notes["sentence of dev that is left out, because the time is limited"] += n_omitted
    if not config.keep_head:  # a kept head may know more types than this data has
        task.data.notes.update(_unseen(documents, dev, "dev") | _unseen(documents, test, "test"))
    return train_and_save(
        task,
        out,
        test,
        callbacks=callbacks,
        resume=resume,
        budget=budget,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
    )


def limit_dev(dev: Sequence[Document], n_sentences: float, seed: int) -> tuple[Sequence[Document], int]:
    """A random part of the documents with about so many sentences, and the number of sentences that are left out."""
    kept, left = [], n_sentences
    for index in np.random.default_rng(seed).permutation(len(dev)).tolist():
        if left > 0:
            kept.append(index)
            left -= len(dev[index].sentences)
    part = [dev[index] for index in sorted(kept)]
    return part, sum(len(document.sentences) for document in dev) - sum(len(document.sentences) for document in part)


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
    budget: TrainingBudget,
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
        task.release()
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
            trainer.callbacks.on_stage("tuning on dev")
            task.tune()
            scores = {"dev": task.score(task.dev)}
            trainer.callbacks.on_stage("scoring test")
            scores["test"] = task.score(test)
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


def adopt_labels(model: UniRE, source: str | Path, label_map: Mapping[str, str]) -> None:
    """Start a new head from that of another model: its MLPs, and its biaffine weights of ⊥ and of mapped labels.

    Labels of the same name are mapped too. The weights of all other labels stay zero.

    Args:
        model: Untrained, on its device.
        source: A trained model.
        label_map: Labels of `source` by labels of `model`.
    """
    if not is_model_dir(source):
        raise UnireError(f"a label map needs a trained model to start from, and {str(source)!r} is only an encoder")
    trained, labels = UniRE.from_pretrained(source), model.labels
    known = trained.labels
    if trained.config.head.d != model.config.head.d:
        raise UnireError(f"a label map needs d = {trained.config.head.d}, as in {str(source)!r}; change d")
    for mine, theirs in label_map.items():
        if mine not in labels.names:
            raise UnireError(f"the label map names {mine!r}, but the labels are {', '.join(labels.names[1:])}")
        if theirs not in known.names:
            raise UnireError(f"the label map names {theirs!r}, but {str(source)!r} has {', '.join(known.names[1:])}")
    rows, mapped = {labels.NONE: known.NONE}, set()
    for names, ids, known_names, known_ids in (
        (labels.entity_types, labels.entity_ids, known.entity_types, known.entity_ids),
        (labels.relation_types, labels.relation_ids, known.relation_types, known.relation_ids),
    ):
        numbers = dict(zip(known_names, range(known_ids.start, known_ids.stop), strict=True))
        for number, name in enumerate(names, start=ids.start):
            if (other := label_map.get(name, name)) in numbers:
                rows[number] = numbers[other]
                mapped.add(name)
    if wrong := [name for name in label_map if name not in mapped]:
        raise UnireError(f"the label map joins {wrong[0]!r} and {label_map[wrong[0]]!r}: an entity and a relation type")
    for part in ("head_mlp", "tail_mlp"):
        getattr(model, part).load_state_dict(getattr(trained, part).state_dict())
    with torch.no_grad():
        model.biaffine.U[list(rows)] = trained.biaffine.U[list(rows.values())].to(model.device)


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
