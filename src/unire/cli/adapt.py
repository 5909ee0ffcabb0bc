"""`unire adapt`: domain adaptation of an encoder by masked-language modelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from unire.cli import console
from unire.cli.options import INPUT, MODEL, OUTPUT, Device, Json, flag, option
from unire.cli.training_options import Encoder, distributed_errors, stopped
from unire.training.callbacks import Callback

__all__ = ["adapt"]

TRAINING = "Training"
"""Panel of `--help`."""


@distributed_errors()
def adapt(
    *,
    corpus: Annotated[
        list[Path],
        option(
            "--corpus",
            metavar="FILE",
            help="UTF-8 text, one document per line; also .gz, .xz, .bz2. May be repeated.",
            panel=INPUT,
        ),
    ],
    encoder: Encoder,
    case_marks: Annotated[
        bool, flag("--case-marks", help="Mark capitals, for `unire train --set case_marks=true`.", panel=MODEL)
    ] = False,
    device: Device = None,
    minutes: Annotated[
        float | None, option("--minutes", metavar="M", help="Time limit, from loading to saving.", panel=TRAINING)
    ] = None,
    max_steps: Annotated[
        int | None, option("--max-steps", metavar="N", help="Stop after N optimiser steps.", panel=TRAINING)
    ] = None,
    length: Annotated[int, option("--length", metavar="N", help="Tokens per row.", panel=TRAINING)] = 256,
    batch_tokens: Annotated[
        int | None,
        option(
            "--batch-tokens",
            metavar="N",
            help="Tokens per optimiser step.",
            panel=TRAINING,
            default="65,536 on a GPU, 4,096 on a CPU",
        ),
    ] = None,
    lr: Annotated[float, option("--lr", metavar="X", help="Peak learning rate.", panel=TRAINING)] = 1e-4,
    seed: Annotated[
        int, option("--seed", metavar="N", help="Random seed. With --max-steps, reproducible on a CPU.", panel=TRAINING)
    ] = 0,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the encoder.", panel=OUTPUT)],
    resume: Annotated[
        bool, flag("--resume", help="Continue an interrupted adaptation, including its time so far.", panel=OUTPUT)
    ] = False,
    json: Json = False,
) -> None:
    """Adapt an encoder to a domain, by masked-language modelling.

    Examples:

        unire adapt --encoder bert-base-uncased --corpus abstracts.txt.xz \\
            --out encoders/science --minutes 10
        unire train --encoder encoders/science …

    Give --minutes or --max-steps. The learning-rate schedule ends at that limit.
    """
    from unire.training.adaptation.adapt import adapt as run
    from unire.training.config import AdaptationConfig
    from unire.training.resume import has_checkpoint

    config = AdaptationConfig(
        minutes=minutes,
        max_steps=max_steps,
        length=length,
        batch_tokens=batch_tokens,
        lr=lr,
        case_marks=case_marks,
        seed=seed,
    )
    try:
        with _Bar(shown=not json) as bar:
            report = run(encoder, corpus, out, config, resume=resume, device=device, callbacks=[bar])
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; continue with --resume" if has_checkpoint(out) else "interrupted; nothing was saved")
        raise stopped(*interrupt.args) from None
    if json:
        console.print_json({"out": str(out), **asdict(report)})
        return
    console.say(
        f"{_count(report.tokens)} tokens in {report.seconds:,.0f} s ({report.tokens_per_second:,.0f} tokens/s), "
        f"loss {report.loss_start:.2f} → {report.loss_end:.2f}; encoder in ",
        (str(out), "bold"),
        to=console.out,
    )


def _count(tokens: int) -> str:
    return f"{tokens / 1e6:,.1f}M" if tokens >= 1e6 else f"{tokens:,}"


class _Bar(Callback):
    """A progress bar of an adaptation."""

    def __init__(self, *, shown: bool) -> None:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console.errors,
            transient=True,
            disable=not shown,
        )
        self._task = self._bar.add_task("loading and compiling", total=1.0)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def on_log(self, metrics: Mapping[str, float]) -> None:
        self._bar.update(
            self._task,
            completed=metrics["fraction"],
            description=f"{_count(int(metrics['tokens']))} tokens  {metrics['tokens_per_second']:,.0f}/s  "
            f"loss {metrics['loss']:.3f}  accuracy {100 * metrics['accuracy']:.1f}%",
        )
