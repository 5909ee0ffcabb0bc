"""Adaptation: masked-language-model training of an encoder on plain text, within a given time.

    config = AdaptationConfig(minutes=10)
    report = adapt("encoder", ["abstracts.txt.xz"], "adapted", config)

Beside the encoder and its tokenizer, the folder gets `adaptation.json`, the report. While training, and after an
interruption, it holds `resume/` instead: all that `adapt(..., resume=True)` needs to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.errors import UnireError
from unire.files import check_output_folder, replace_atomically
from unire.inference.torch_engine import choose_device
from unire.models.encoder import load_encoder, load_tokenizer, quiet_transformers
from unire.training.adaptation.config import AdaptationConfig
from unire.training.adaptation.corpus import PackedCorpus
from unire.training.adaptation.masked_lm import MaskedLM, MaskedTrainer, WholeWordMasking
from unire.training.adaptation.trainer import AdaptationLoop, AdaptationProgress, AdaptationState, ResumeFolder
from unire.training.distributed import require_single_process
from unire.training.optimizer import TrainingBudget
from unire.training.text_corpus import check_text_files

__all__ = ["AdaptationConfig", "AdaptationProgress", "AdaptationReport", "adapt", "can_resume"]


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
    require_single_process("adaptation")
    out, files = Path(out), [Path(file) for file in corpus]
    check_text_files(files)
    place = choose_device(device)
    config = config.on(place)
    with _folder(out, resume=resume):
        folder = ResumeFolder(out)
        identity = {"encoder": str(encoder), "corpus": [file.name for file in files], **config.lasting}
        state = folder.load(identity) if resume else AdaptationState(identity)
        clock = TrainingBudget(config.minutes, config.max_steps)
        clock.resume(state.seconds, state.done)
        torch.set_float32_matmul_precision("high")
        torch.manual_seed(config.seed)
        adapted = _Encoder.load(encoder, config)
        with adapted.packed(files) as packed:
            trainer = MaskedTrainer(adapted.masked_lm(), lr=config.lr, device=place)
            if resume:
                folder.restore(trainer)
            trainer.warm_up(config.rows, config.length)  # while the corpus is being read
            loop = AdaptationLoop(trainer, config, clock, state, folder)
            last = loop.run(packed, on_progress or (lambda _: None))
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
            loss_start=loop.loss_start,
            loss_end=last.loss,
            accuracy_end=last.accuracy,
            hardware=torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU",
        )
        adapted.save(out, report)
    return report


def can_resume(out: str | Path) -> bool:
    """Whether `out` holds what is needed to go on with an adaptation."""
    return ResumeFolder(Path(out)).holds_state


@dataclass(frozen=True)
class _Encoder:
    """An encoder that is adapted, and all that it comes with."""

    module: Any
    tokenizer: Any
    tokens: Tokenizer
    spec: EncoderSpec
    config: AdaptationConfig

    @classmethod
    def load(cls, name: str | Path, config: AdaptationConfig) -> _Encoder:
        module, tokens, spec = load_encoder(name, case_marks=config.case_marks)
        tokenizer = load_tokenizer(name)
        if tokenizer.mask_token_id is None:
            raise UnireError(f"encoder {str(name)!r} cannot be adapted: its tokenizer has no mask token")
        if config.length > spec.max_pieces:
            raise UnireError(f"encoder {str(name)!r} reads at most {spec.max_pieces} tokens; give no greater length")
        return cls(module, tokenizer, tokens, spec, config)

    def packed(self, files: Sequence[Path]) -> PackedCorpus:
        """The text as rows of its tokens."""
        return PackedCorpus(
            files,
            self.tokens,
            prefix=self.spec.prefix,
            suffix=self.spec.suffix,
            case_marks=self.spec.case_marks,
            length=self.config.length,
            seed=self.config.seed,
        )

    def masked_lm(self) -> MaskedLM:
        masking = WholeWordMasking(
            self.tokens,
            mask_id=self.tokenizer.mask_token_id,
            special_ids=self.tokenizer.all_special_ids,
            rate=self.config.mask_rate,
        )
        return MaskedLM(self.module, masking)

    def save(self, out: Path, report: AdaptationReport) -> None:
        """Replace all that is in `out`."""
        text = json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n"
        try:
            with replace_atomically(out, directory=True) as temporary, quiet_transformers():
                self.module.save_pretrained(temporary)
                self.tokenizer.save_pretrained(temporary)
                (temporary / "adaptation.json").write_text(text, encoding="utf-8")
        except OSError as error:
            raise UnireError(f"{str(out)!r} could not be written: {error.strerror or error}") from None


@contextmanager
def _folder(out: Path, *, resume: bool) -> Iterator[None]:
    """Make a folder to write into; one that was not there before, and has stayed empty, is not left behind."""
    try:
        resumable = can_resume(out)  # first of all: it puts back what a killed process left aside
        if resume and resumable:
            ResumeFolder(out).check_alone()
        if not resume:
            remedy = "pass a new folder" + (", or resume the adaptation in it" if resumable else "")
            check_output_folder(out, remedy=remedy)
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
