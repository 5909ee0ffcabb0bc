"""Adaptation: masked-language-model training of an encoder on plain text, within a given time.

    config = AdaptationConfig(minutes=10)
    report = adapt("encoder", ["abstracts.txt.xz"], "adapted", config)

The output folder holds the encoder, its tokenizer, and the report as `adaptation.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.inference.torch_engine import choose_device
from unire.models.encoder import load_encoder, load_tokenizer, quiet_transformers
from unire.output_files import locks_output
from unire.training.adaptation.masked_lm import MaskedLM, MaskedLMTask, WholeWordMasking
from unire.training.adaptation.packed_corpus import PackedCorpus
from unire.training.callbacks import Callback
from unire.training.config import AdaptationConfig
from unire.training.distributed import require_single_process
from unire.training.optimizer import TrainingBudget
from unire.training.resume import check_training_folder
from unire.training.text_corpus import check_text_files
from unire.training.trainer import Trainer

__all__ = ["AdaptationConfig", "AdaptationReport", "adapt"]


@dataclass(frozen=True)
class AdaptationReport:
    """The settings of an adaptation, and how it went."""

    encoder: str
    """The encoder that was adapted."""
    corpus: tuple[str, ...]
    """The names of the text files."""
    config: AdaptationConfig
    """The settings."""
    steps: int
    """Optimiser steps."""
    tokens: int
    """Tokens of all steps."""
    passes: float | None
    """How often the corpus was read; `None` if its end was never reached."""
    seconds: float
    """Time of the whole run, without saving the encoder."""
    tokens_per_second: float
    """From the first step of this run to the last, without loading, compiling and saving."""
    loss_start: float
    """Mean loss over the first ten steps; over the first half if there are fewer."""
    loss_end: float
    """Mean loss over the last fifty steps, but no more than the second half."""
    accuracy_end: float
    """Share of masked tokens that are predicted correctly, over the same steps."""
    hardware: str
    """The name of the GPU, or `CPU`."""


@locks_output
def adapt(
    encoder: str | Path,
    corpus: Sequence[str | Path],
    out: str | Path,
    config: AdaptationConfig,
    *,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    save_every_minutes: float | None = 5.0,
    device: str | None = None,
) -> AdaptationReport:
    """Train an encoder to predict masked words of plain text, and save it.

    >>> adapt("bert-base-uncased", ["abstracts.txt"], "adapted", AdaptationConfig(minutes=10))  # doctest: +SKIP

    Args:
        encoder: A Hub name or a folder, with a fast tokenizer; or a unire model, whose encoder is used.
        corpus: UTF-8 text files with one document per line; `.gz`, `.xz` and `.bz2` are decompressed.
        out: A new folder. Checkpoints to resume from are written next to it, to `OUT.resume`.
        config: Time, learning rate, size of a step.
        callbacks: Called in the course of the training; `on_log` every few seconds.
        resume: Continue an interrupted adaptation with the same settings; only time and steps may differ.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.
        device: `cpu` or `cuda`. [default: a GPU if there is one]

    Returns:
        The number of steps and tokens, the speed, and the loss at the start and at the end.

    Raises:
        UnireError: A file cannot be read, `out` is not empty, or the time was over before the first step.
        KeyboardInterrupt: Ctrl-C or SIGTERM. A checkpoint was written if there was a step.
    """
    require_single_process("adaptation")
    out, files = Path(out), [Path(file) for file in corpus]
    check_text_files(files)
    torch_device = choose_device(device)
    config = config.on(torch_device)
    check_training_folder(out, resume=resume)
    budget = TrainingBudget(config.minutes, steps=config.max_steps)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(config.seed)
    adapted = _Encoder.load(encoder, config)
    settings = {"encoder": str(encoder), "corpus": [file.name for file in files], **config.lasting}
    with adapted.packed(files) as packed:
        task = MaskedLMTask(adapted.masked_lm(), config, torch_device, packed, settings=settings)
        trainer = Trainer(task, out=out, callbacks=callbacks, budget=budget, save_every_minutes=save_every_minutes)
        if resume:
            trainer.resume()
        first_step = trainer.state.step
        task.warm_up(config.rows, config.length)  # while the corpus is being read
        trainer.run()
        pass_rows = packed.pass_rows
    if trainer.state.step == first_step != config.max_steps:
        raise UnireError("the time limit was reached before the first step; give more minutes")
    metrics = task.metrics(trainer)
    tokens = int(metrics["tokens"])
    report = AdaptationReport(
        encoder=Path(encoder).name if Path(encoder).exists() else str(encoder),
        corpus=tuple(file.name for file in files),
        config=config,
        steps=trainer.state.step,
        tokens=tokens,
        passes=None if pass_rows is None else tokens / config.length / pass_rows,
        seconds=budget.seconds,
        tokens_per_second=metrics["tokens_per_second"],
        loss_start=task.mean_loss_start(trainer.state.step),
        loss_end=metrics["loss"],
        accuracy_end=metrics["accuracy"],
        hardware=torch.cuda.get_device_name(torch_device) if torch_device.type == "cuda" else "CPU",
    )
    adapted.save(out, report)
    trainer.remove_checkpoints()
    return report


@dataclass(frozen=True)
class _Encoder:
    """An encoder with its tokenizers."""

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
            raise UnireError(f"encoder {str(name)!r} reads at most {spec.max_pieces} tokens; reduce the length")
        return cls(module, tokenizer, tokens, spec, config)

    def packed(self, files: Sequence[Path]) -> PackedCorpus:
        """The text as rows of packed tokens."""
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
        """Write encoder, tokenizer and report."""
        text = json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n"
        try:
            with replace_atomically(out, directory=True) as temporary, quiet_transformers():
                self.module.save_pretrained(temporary)
                self.tokenizer.save_pretrained(temporary)
                (temporary / "adaptation.json").write_text(text, encoding="utf-8")
        except OSError as error:
            raise UnireError(f"{str(out)!r} could not be written: {error.strerror or error}") from None
