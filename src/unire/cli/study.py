"""`unire study`: the paper's tables and figures, on one's own data and encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unire.cli import printing, study_systems
from unire.cli.options import Format, Json, Labels, Symmetric
from unire.cli.study_output import finish, tell
from unire.cli.training_options import PRESETS, changes_from, config_from, stopped
from unire.errors import UnireError

if TYPE_CHECKING:
    from unire.studies.pipeline.config import PipelineConfig

__all__ = ["app"]

app = typer.Typer(help="Repeat the paper's tables and figures on your data.", no_args_is_help=True)

Encoder = Annotated[
    str, typer.Option("--encoder", help="Pretrained encoder: Hub name, folder, or a model that has one.")
]
Data = Annotated[list[Path], typer.Option("--data", help="Annotated file to train on; may be given several times.")]
Dev = Annotated[list[Path], typer.Option("--dev", help="Selects the best epoch and α of every training.")]
Test = Annotated[list[Path] | None, typer.Option("--test", help="Scored once, at the end of each.", show_default=False)]
Out = Annotated[
    Path, typer.Option("--out", help="Folder of the study: cells, models, results. Studies that share it share cells.")
]
Preset = Annotated[str, typer.Option("--preset", help=f"What variants depart from: {PRESETS}.")]
Epochs = Annotated[
    int | None, typer.Option("--epochs", help="How often the data is read; the preset's own.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of TrainingConfig.", show_default=False),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Trainings of every variant.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Trainings side by side; 2 to 5 share a large GPU well.")]

EntityEpochs = Annotated[
    int | None, typer.Option("--entity-epochs", min=1, help="Of the pipeline's span model; 10.", show_default=False)
]
RelationEpochs = Annotated[
    int | None,
    typer.Option("--relation-epochs", min=1, help="Of the pipeline's models of markers; 5.", show_default=False),
]
PipelineSettings = Annotated[
    list[str] | None,
    typer.Option("--pipeline", metavar="NAME=VALUE", help="Any other setting of PipelineConfig.", show_default=False),
]

TRAININGS = {
    "ablate": ("ABLATION", "Train without one part of the method at a time (Table 4; scores on test)."),
    "window": ("WINDOW", "Train with windows of 100, 200 and 300 words (Table 6; scores on dev)."),
    "dropout": ("DROPOUT", "Train with a logit dropout of 0.1 to 0.4 (Table 6; scores on dev)."),
    "beta2": ("BETA2", "Train with a β₂ of 0.9 and of 0.999 (section 4; scores on dev)."),
}
"""The variants of each training study, by their name in `unire.studies.variants`, and its help."""


def _training_command(variants: str) -> Callable[..., None]:
    def command(
        encoder: Encoder,
        data: Data,
        dev: Dev,
        out: Out,
        test: Test = None,
        labels: Labels = None,
        symmetric: Symmetric = None,
        format: Format = None,
        preset: Preset = "paper",
        epochs: Epochs = None,
        settings: Set = None,
        seeds: Seeds = 1,
        jobs: Jobs = 1,
        json: Json = False,
    ) -> None:
        from unire.studies import variants as all_variants
        from unire.studies.trainings import Setup, run

        config = config_from(preset, settings or [], epochs=epochs)
        setup = Setup(encoder, tuple(data), tuple(dev), config, out, tuple(test or ()), labels, symmetric, format)
        study = getattr(all_variants, variants)
        with _interruptible():
            (result,) = run([study], setup, seeds=seeds, jobs=jobs, tell=tell)
        finish(result, out, json)

    return command


def _help(name: str, sentence: str) -> str:
    return f"""{sentence}

    \b
        unire study {name} --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --seeds 3 --jobs 3 --out studies/mine

    Every training is kept: a second start trains only what is missing.
    """


for _name, (_variants, _sentence) in TRAININGS.items():
    app.command(_name, no_args_is_help=True, help=cleandoc(_help(_name, _sentence)))(_training_command(_variants))


@app.command(no_args_is_help=True)
def pipeline(
    encoder: Encoder,
    data: Data,
    dev: Dev,
    test: Annotated[list[Path], typer.Option("--test", help="What is scored, and what the time is taken on.")],
    out: Out,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    preset: Preset = "paper",
    epochs: Epochs = None,
    settings: Set = None,
    entity_epochs: EntityEpochs = None,
    relation_epochs: RelationEpochs = None,
    pipeline_settings: PipelineSettings = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """Train a pipeline beside the joint model: size, scores and speed of both (Table 5; on test).

    \b
        unire study pipeline --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --preset best --epochs 25 --entity-epochs 10 --relation-epochs 5 \\
            --out studies/mine

    --preset, --epochs and --set are those of the joint model. Every training is kept, as in the other studies.
    """
    from unire.studies.pipeline.study import run
    from unire.studies.trainings import Setup

    config = config_from(preset, settings or [], epochs=epochs)
    setup = Setup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
    of_pipeline = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
    with _interruptible():
        result = run(setup, of_pipeline, seeds=seeds, jobs=jobs, tell=tell)
    finish(result, out, json)


app.command(no_args_is_help=True)(study_systems.threshold)
app.command(no_args_is_help=True)(study_systems.errors)
app.command(no_args_is_help=True)(study_systems.speed)
app.command(no_args_is_help=True)(study_systems.compare)


@app.command(no_args_is_help=True)
def report(
    context: typer.Context,
    out: Out,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", help="Run all studies first, as far as they are missing.", show_default=False),
    ] = None,
    data: Annotated[list[Path] | None, typer.Option("--data", help="To train on.", show_default=False)] = None,
    dev: Annotated[list[Path] | None, typer.Option("--dev", help="To select on.", show_default=False)] = None,
    test: Test = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    preset: Preset = "paper",
    epochs: Epochs = None,
    settings: Set = None,
    entity_epochs: EntityEpochs = None,
    relation_epochs: RelationEpochs = None,
    pipeline_settings: PipelineSettings = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """Put the studies of a folder on one page with charts; with --encoder, run them all first.

    \b
        unire study report --out studies/mine
        unire study report --out studies/mine --encoder bert-base-uncased \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --labels scierc --entity-epochs 10 --seeds 3 --jobs 3

    Beside the page are the numbers as JSON and the charts as SVG.
    """
    from unire.studies.report import write

    if encoder is not None:
        from unire.studies.run_all import run_all
        from unire.studies.trainings import Setup

        if not (data and dev and test):
            raise UnireError("to run all studies give --data, --dev and --test")
        config = config_from(preset, settings or [], epochs=epochs)
        setup = Setup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
        of_pipeline = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
        with _interruptible():
            run_all(setup, of_pipeline, seeds=seeds, jobs=jobs, tell=tell)
    elif useless := [name for name in _given(context) if name not in ("--out", "--json")]:
        raise UnireError(
            "to run studies give --encoder, too; without it, those of --out are reported as they are, "
            f"and there is no use for {', '.join(useless)}"
        )
    page = write(out)
    if json:
        printing.print_json({"page": str(page)})
    else:
        printing.say(str(page), to=printing.out)


def _given(context: typer.Context) -> list[str]:
    """The options that a command was called with, whether or not they say what would be the case without them."""
    sources = {option.opts[0]: context.get_parameter_source(option.name or "") for option in context.command.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _pipeline_config(
    settings: list[str] | None, entity_epochs: int | None, relation_epochs: int | None
) -> PipelineConfig:
    from unire.studies.pipeline.config import PipelineConfig

    epochs = {"entity_epochs": entity_epochs, "relation_epochs": relation_epochs}
    return PipelineConfig.changed(**changes_from("--pipeline", settings or [], **epochs))


@contextmanager
def _interruptible() -> Iterator[None]:
    """An interrupt is no accident: what is finished is kept."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        tell("interrupted; what is finished is kept, and the same command goes on from there")
        raise stopped(*interrupt.args) from None
