"""Adaptation: masked-language-model training of an encoder on plain text, within a given time.

    config = AdaptationConfig(minutes=10)
    report = adapt("encoder", ["abstracts.txt.xz"], "adapted", config)

Beside the encoder and its tokenizer, the folder gets `adaptation.json`, the report. While training, and after an
interruption, it holds `resume/` instead: all that `adapt(..., resume=True)` needs to go on.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unire.checks import COUNT, FRACTION, POSITIVE, Range, check_kinds, check_ranges
from unire.engines.torch_engine import choose_device
from unire.exceptions import UnireError
from unire.files import check_new, replacing
from unire.modeling.checkpoint import tensors_from, tensors_to
from unire.modeling.encoder import load_encoder, load_tokenizer
from unire.training.clock import Clock
from unire.training.corpus import PackedCorpus
from unire.training.interrupt import Interrupt
from unire.training.masked_lm import MaskedLM, MaskedTrainer, WholeWordMasking
from unire.training.optimizer import rate_at
from unire.training.processes import refuse_several
from unire.training.state import moments_of, restore_moments
from unire.training.text_files import check_text_files

__all__ = ["AdaptationConfig", "AdaptationProgress", "AdaptationReport", "adapt", "can_resume"]

REPORT_EVERY = 5.0
"""Seconds between two reports of progress, the only times when the loop waits for the device."""
SAVE_EVERY = 300.0
"""Seconds between two savings of the state."""
START = 10
"""Steps over which the loss at the start is a mean: by then the head knows little more than how frequent pieces are."""
WINDOW = 50
"""Steps over which loss and accuracy are means later on, if they are no more than half of all."""
RESUME = "resume"
"""The folder inside the output that holds the state."""
STATE = "state.json"
"""The file inside that folder which says where it stands."""
BATCHES = {"cuda": 65_536, "cpu": 4_096}
"""Pieces of one optimiser step by default: on a CPU few, for it is to take more than one step in the time."""


@dataclass(frozen=True)
class AdaptationConfig:
    """How an encoder is adapted; it ends when the time or the steps are used up, whichever is first."""

    minutes: float | None = None
    """Time for all of it, from loading to saving."""
    max_steps: int | None = None
    """Optimiser steps; unlike with `minutes` alone, the outcome is then the same every time."""
    length: int = 256
    """Pieces of a row, special ones included."""
    batch_tokens: int | None = None
    """Pieces of one optimiser step; `None` for as many as suit the device: 65,536 on a GPU, 4,096 on a CPU."""
    lr: float = 1e-4
    """Peak rate of the encoder."""
    warmup: float = 0.06
    """Share of the training in which the rate rises; then it falls to zero in a straight line."""
    mask_rate: float = 0.2
    """Share of the pieces that is hidden."""
    case_marks: bool = False
    """Whether an encoder that knows no capitals is told of them, for trainings that do so too."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.minutes is None and self.max_steps is None:
            raise UnireError("adaptation needs an end: give the minutes or the steps that it may take")
        check_kinds(type(self), vars(self), "adaptation setting")
        check_ranges(vars(self), RANGES, "adaptation setting")
        if self.batch_tokens is not None and self.batch_tokens < self.length:
            raise UnireError(
                f"adaptation setting batch_tokens = {self.batch_tokens} is less than a row, of length = {self.length}"
            )
        if round(self.mask_rate * self.length) < 1:
            raise UnireError(
                f"adaptation setting mask_rate = {self.mask_rate} hides nothing of a row, of length = {self.length}"
            )

    def on(self, device: torch.device) -> AdaptationConfig:
        """The same, with a batch that suits the device where none is given."""
        usual = BATCHES["cuda" if device.type == "cuda" else "cpu"]
        return replace(self, batch_tokens=self.batch_tokens or max(usual, self.length))

    @property
    def rows(self) -> int:
        """Rows of one optimiser step: `batch_tokens`, rounded down; none before it is said on which device."""
        return (self.batch_tokens or 0) // self.length


RANGES = {
    **dict.fromkeys(("minutes", "lr"), POSITIVE),
    "max_steps": COUNT,
    "length": Range(8),
    "warmup": FRACTION,
    "mask_rate": Range(0, 0.5, with_low=False, with_high=True),
    "seed": Range(0, 2**32),
}


@dataclass(frozen=True)
class AdaptationProgress:
    """Where a running adaptation stands."""

    done: float
    """From 0 to 1."""
    steps: int
    tokens: int
    tokens_per_second: float
    """As in the report."""
    loss: float
    accuracy: float
    """Share of the hidden pieces that is named right."""


@dataclass(frozen=True)
class AdaptationReport:
    """What an adaptation was, and how it went."""

    encoder: str
    corpus: tuple[str, ...]
    """File names."""
    config: AdaptationConfig
    steps: int
    tokens: int
    passes: float | None
    """How often the corpus was read; `None` if its end was never seen."""
    seconds: float
    """Of all of it, but for the last saving."""
    tokens_per_second: float
    """Over the time from the first step to the last, and not over `seconds`: loading, compiling and saving are left
    out. Where training was resumed, what came before is left out too."""
    loss_start: float
    """Mean over the first ten steps, resumed or not; where there are fewer, over the first half of them."""
    loss_end: float
    """Mean over the last fifty steps, but over no more than the second half of them."""
    accuracy_end: float
    hardware: str


def adapt(
    encoder: str | Path,
    corpus: Sequence[str | Path],
    out: str | Path,
    config: AdaptationConfig,
    *,
    resume: bool = False,
    device: str | None = None,
    on_progress: Callable[[AdaptationProgress], None] | None = None,
) -> AdaptationReport:
    """Train `encoder` to name hidden words of plain text, and save it as `out`.

    Args:
        encoder: A Hub name or a folder, with a fast tokenizer; or a model of ours, in the box too, for its own.
        corpus: UTF-8 text files, one document per line; `.gz`, `.xz` and `.bz2` are unpacked.
        out: A new folder.
        config: How long, how fast, how much at once.
        resume: Go on with the interrupted adaptation in `out`, with the same settings; only time and steps may differ.
        device: `cuda` or `cpu`; the GPU by default where there is one.
        on_progress: Called every few seconds.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the state was saved if there was a step (`can_resume`).
    """
    refuse_several("adaptation")
    out, files = Path(out), [Path(file) for file in corpus]
    check_text_files(files)
    place = choose_device(device)
    with _folder(out, resume=resume):
        return _adapt(encoder, files, out, config.on(place), place, resume, on_progress or (lambda _: None))


def can_resume(out: str | Path) -> bool:
    """Whether `out` holds what is needed to go on with an adaptation."""
    return (Path(out) / RESUME / STATE).exists()


def _adapt(
    encoder: str | Path,
    files: Sequence[Path],
    out: Path,
    config: AdaptationConfig,
    place: torch.device,
    resume: bool,
    on_progress: Callable[[AdaptationProgress], None],
) -> AdaptationReport:
    """Load, train and save."""
    settings = {name: value for name, value in asdict(config).items() if name not in ("minutes", "max_steps")}
    identity = {"encoder": str(encoder), "corpus": [file.name for file in files], **settings}
    state = _State.load(out / RESUME, identity) if resume else _State(identity)
    clock = Clock(config.minutes, config.max_steps, seconds_before=state.seconds, done_before=state.done)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)

    module: Any
    module, pieces, spec = load_encoder(encoder)
    tokenizer = load_tokenizer(encoder)
    if tokenizer.mask_token_id is None:
        raise UnireError(f"encoder {str(encoder)!r} cannot be adapted: its tokenizer has no mask token")
    if config.length > spec.max_pieces:
        raise UnireError(f"encoder {str(encoder)!r} reads at most {spec.max_pieces} pieces; give no greater length")
    masking = WholeWordMasking(
        pieces, mask_id=tokenizer.mask_token_id, special_ids=tokenizer.all_special_ids, rate=config.mask_rate
    )
    marks = spec.with_case_marks(pieces).case_marks if config.case_marks else spec.case_marks
    frame = {"prefix": spec.prefix, "suffix": spec.suffix, "case_marks": marks}
    with PackedCorpus(files, pieces, **frame, length=config.length, seed=config.seed) as packed:
        trainer = MaskedTrainer(MaskedLM(module, masking), lr=config.lr, device=place)
        if resume:
            _restore(trainer, out / RESUME)
        trainer.warm_up(config.rows, config.length)  # while the corpus is being read
        loss_start, last = _train(trainer, packed, config, clock, state, out / RESUME, on_progress)
        read = packed.pass_rows
    report = AdaptationReport(
        encoder=Path(encoder).name if Path(encoder).exists() else str(encoder),
        corpus=tuple(file.name for file in files),
        config=config,
        steps=last.steps,
        tokens=last.tokens,
        passes=None if read is None else last.tokens / config.length / read,
        seconds=clock.seconds,
        tokens_per_second=last.tokens_per_second,
        loss_start=loss_start,
        loss_end=last.loss,
        accuracy_end=last.accuracy,
        hardware=torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU",
    )
    with _written(out) as folder:
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _write_json(folder / "adaptation.json", asdict(report))
    return report


def _train(
    trainer: MaskedTrainer,
    packed: PackedCorpus,
    config: AdaptationConfig,
    clock: Clock,
    state: _State,
    folder: Path,
    on_progress: Callable[[AdaptationProgress], None],
) -> tuple[float, AdaptationProgress]:
    """Take steps until the clock says that all is done; `folder` is where the state is saved meanwhile.

    Returns:
        The loss at the start, and all that there is to say at the end.
    """
    before = n_read = state.step * config.rows
    outcomes = deque((torch.tensor(outcome, device=trainer.device) for outcome in state.outcomes), maxlen=WINDOW)

    def progress() -> AdaptationProgress:
        loss, accuracy = _mean([*outcomes][-max(1, state.step // 2) :])
        if not math.isfinite(loss):
            raise UnireError(f"the training has diverged by step {state.step}; give a lower learning rate")
        speed = (n_read - before) * config.length / clock.training_seconds
        return AdaptationProgress(state.done, state.step, n_read * config.length, speed, loss, accuracy)

    rows = packed.rows(state.step * config.rows, config.rows)
    clock.start()
    reported = saved = clock.seconds
    with Interrupt() as interrupt:
        while (done := clock.done(state.step)) < 1:
            state.done = done
            outcome, read = trainer.find_gradients(
                rows, config.seed + state.step, lambda: interrupt.pending or clock.done(state.step) >= 1
            )
            if read == len(rows) or not interrupt.pending:  # what is interrupted halfway is done anew, to be the same
                middle = (done + clock.done(state.step + 1)) / 2  # of the step
                trainer.step(rate_at(middle, config.warmup))
                outcomes.append(outcome)
                state.step += 1
                n_read += read
                if state.step == START:
                    state.loss_start = _mean(outcomes)[0]
            if outcomes and clock.seconds - reported >= REPORT_EVERY:
                on_progress(progress())
                reported = clock.seconds
            if outcomes and (interrupt.pending or clock.seconds - saved >= SAVE_EVERY):
                with clock.pause():
                    state.outcomes = torch.stack(list(outcomes)).tolist()
                    _save(trainer, clock, state, folder)
                saved = clock.seconds
            interrupt.check()
            rows = packed.rows(state.step * config.rows, config.rows)
    if n_read == before:
        raise UnireError("the time was over before the first step; give more minutes")
    state.done = 1.0
    last = progress()
    on_progress(last)
    return state.loss_start or _mean([*outcomes][: max(1, state.step // 2)])[0], last


def _mean(outcomes: Iterable[Tensor]) -> list[float]:
    """Loss and accuracy; waits for the device."""
    mean: list[float] = torch.stack([*outcomes]).mean(0).tolist()
    return mean


@dataclass
class _State:
    """Where an adaptation stands; with the tensors of its trainer, all that is needed to go on."""

    identity: dict[str, Any]
    """Encoder, corpus and settings: what must not change on the way."""
    step: int = 0
    seconds: float = 0.0
    done: float = 0.0
    loss_start: float | None = None
    outcomes: list[list[float]] = field(default_factory=list)
    """Loss and accuracy of the last steps."""

    @classmethod
    def load(cls, folder: Path, identity: dict[str, Any]) -> _State:
        try:
            state = cls(**json.loads((folder / STATE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise UnireError(f"there is no adaptation to resume in {str(folder.parent)!r}") from None
        for name, value in state.identity.items():
            if identity[name] != value:
                raise UnireError(
                    f"the adaptation in {str(folder.parent)!r} cannot go on with {name} = {identity[name]!r}: "
                    f"it began with {value!r}"
                )
        return state


def _save(trainer: MaskedTrainer, clock: Clock, state: _State, folder: Path) -> None:
    state.seconds = clock.seconds
    with _written(folder) as temporary:
        tensors_to(temporary / "model.safetensors", trainer.model.state_dict())
        tensors_to(temporary / "optimizer.safetensors", moments_of(trainer.optimizer))
        _write_json(temporary / STATE, asdict(state))


def _restore(trainer: MaskedTrainer, folder: Path) -> None:
    trainer.model.load_state_dict(tensors_from(folder / "model.safetensors"))
    restore_moments(trainer.optimizer, tensors_from(folder / "optimizer.safetensors"))


@contextmanager
def _folder(out: Path, *, resume: bool) -> Iterator[None]:
    """Make a folder to write into; one that was not there before, and has stayed empty, is not left behind."""
    try:
        if not resume:
            check_new(out, "give a new folder" + (", or resume the adaptation in it" if can_resume(out) else ""))
        new = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnireError(f"{str(out)!r} cannot be made a folder: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # the first that is not empty, and so those that it is in
            for folder in new:
                folder.rmdir()


@contextmanager
def _written(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when it is whole."""
    try:
        with replacing(folder, directory=True) as temporary:
            yield temporary
    except OSError as error:
        raise UnireError(f"{str(folder)!r} could not be written: {error.strerror or error}") from None


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
