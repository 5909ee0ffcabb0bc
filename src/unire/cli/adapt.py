"""`unire adapt`: domain adaptation of an encoder by masked-language modelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unire.cli import console
from unire.cli.options import Device, Json
from unire.cli.training_options import distributed_errors, stopped
from unire.training.callbacks import Callback

__all__ = ["adapt"]


@distributed_errors()
def adapt(
    encoder: Annotated[
        str,
        typer.Option("--encoder", help="Pretrained encoder: Hub name, folder, or a trained model."),
    ],
    corpus: Annotated[
        list[Path],
        typer.Option("--corpus", help="UTF-8 text, one document per line; also .gz, .xz, .bz2. May be repeated."),
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the adapted encoder.")],
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Time limit for everything, from loading to saving.", show_default=False),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", help="Stop after this many optimiser steps.", show_default=False)
    ] = None,
    length: Annotated[int, typer.Option("--length", help="Tokens per row.")] = 256,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            "--batch-tokens",
            help="Tokens per optimiser step.",
            show_default="65,536 on a GPU, 4,096 on a CPU",
        ),
    ] = None,
    lr: Annotated[float, typer.Option("--lr", help="Peak learning rate.")] = 1e-4,
    case_marks: Annotated[
        bool,
        typer.Option(
            "--case-marks", help="Mark capitals for an uncased encoder, for `unire train --set case_marks=true`."
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Random seed. Adaptation by steps is reproducible on a CPU.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted adaptation. Its time so far counts.")
    ] = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Adapt an encoder to a domain by masked-language modelling on plain text.

    \b
        unire adapt --encoder bert-base-uncased --corpus abstracts.txt.xz \\
            --out encoders/science --minutes 10
        unire train --encoder encoders/science …

    The learning-rate schedule ends at the limit of time or steps.
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
        console.say("interrupted; --resume goes on" if has_checkpoint(out) else "interrupted; nothing was kept yet")
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
