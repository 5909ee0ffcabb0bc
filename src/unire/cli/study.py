"""`unire study`: the paper's tables and figures on your own data and encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unire.cli import console
from unire.cli.options import Device, Format, Json, Labels, Symmetric, input_path
from unire.cli.training_options import PRESETS, changes_from, config_from, stopped
from unire.errors import UnireError

if TYPE_CHECKING:
    from unire.studies.pipeline.study import PipelineConfig

__all__ = ["app"]

app = typer.Typer(help="Repeat the paper's tables and figures on your data.", no_args_is_help=True)

Encoder = Annotated[str, typer.Option("--encoder", help="Pretrained encoder: Hub name, folder, or a trained model.")]
Data = Annotated[list[Path], typer.Option("--data", help="Annotated training file. May be repeated.")]
Dev = Annotated[list[Path], typer.Option("--dev", help="Selects the best epoch and α of every training.")]
Test = Annotated[list[Path] | None, typer.Option("--test", help="Scored at the end of a training.", show_default=False)]
Out = Annotated[
    Path, typer.Option("--out", help="Folder for runs, models and results. Studies in one folder share runs.")
]
Preset = Annotated[str, typer.Option("--preset", help=f"Settings that variants depart from: {PRESETS}.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Passes over the data.", show_default="the preset's")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other TrainingConfig field.", show_default=False),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Trainings of every variant.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Trainings in parallel. 2 to 5 share a large GPU well.")]
EntityEpochs = Annotated[
    int | None,
    typer.Option("--entity-epochs", min=1, help="Epochs of the pipeline's span model.", show_default="10"),
]
RelationEpochs = Annotated[
    int | None,
    typer.Option("--relation-epochs", min=1, help="Epochs of the pipeline's marker models.", show_default="5"),
]
PipelineSettings = Annotated[
    list[str] | None,
    typer.Option("--pipeline", metavar="NAME=VALUE", help="Any other PipelineConfig field.", show_default=False),
]
Gold = Annotated[list[Path], typer.Option("--data", help="Annotated file. May be repeated.")]
Results = Annotated[
    Path | None, typer.Option("--out", help="Folder of studies in which the numbers are saved.", show_default=False)
]
Show = Annotated[int, typer.Option("--show", min=0, help="Sentences to print. The JSON has all.")]

TRAINING_STUDIES = {
    "ablate": ("ABLATION", "Train without one part of the method at a time (Table 4; scores on test)."),
    "window": ("WINDOW", "Train with windows of 100, 200 and 300 words (Table 6; scores on dev)."),
    "dropout": ("DROPOUT", "Train with a logit dropout of 0.1 to 0.4 (Table 6; scores on dev)."),
    "beta2": ("BETA2", "Train with a β₂ of 0.9 and of 0.999 (section 4; scores on dev)."),
}
"""Training studies: their name in `unire.studies.variants`, and their help."""


def _training_command(name: str) -> Callable[..., None]:
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
        from unire.studies import variants

        config = config_from(preset, settings or [], epochs=epochs)
        files = tuple(data), tuple(dev), config, out, tuple(test or ())
        setup = variants.StudySetup(encoder, *files, labels, symmetric, format)
        with _report_interrupt():
            (result,) = variants.run_studies([getattr(variants, name)], setup, seeds=seeds, jobs=jobs, log=console.say)
        _print_result(result, out, json)

    return command


def _training_help(name: str, sentence: str) -> str:
    return f"""{sentence}

    \b
        unire study {name} --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --seeds 3 --jobs 3 --out studies/mine

    Finished trainings are kept. A second start trains only the missing ones.
    """


for _name, (_study, _sentence) in TRAINING_STUDIES.items():
    app.command(_name, no_args_is_help=True, help=cleandoc(_training_help(_name, _sentence)))(_training_command(_study))


@app.command(no_args_is_help=True)
def pipeline(
    encoder: Encoder,
    data: Data,
    dev: Dev,
    test: Annotated[list[Path], typer.Option("--test", help="Annotated file for scores and speed. May be repeated.")],
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
    """Compare the joint model with a pipeline: size, scores and speed (Table 5; on test).

    \b
        unire study pipeline --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --preset best --epochs 25 --entity-epochs 10 --relation-epochs 5 \\
            --out studies/mine

    --preset, --epochs and --set concern the joint model. Finished trainings are kept, as in the other studies.
    """
    from unire.studies.pipeline.study import run_study
    from unire.studies.variants import StudySetup

    config = config_from(preset, settings or [], epochs=epochs)
    setup = StudySetup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
    pipeline_config = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
    with _report_interrupt():
        result = run_study(setup, pipeline_config, seeds=seeds, jobs=jobs, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True)
def threshold(
    model: Annotated[str, typer.Option("--model", help="A bundled model, a folder, or a Hub name.")],
    data: Gold,
    format: Format = None,
    device: Device = None,
    out: Results = None,
    json: Json = False,
) -> None:
    """Measure distances at entity boundaries and elsewhere, and F1 over α (Figures 4 and 5).

    \b
        unire study threshold --model models/mine --data dev.jsonl --out studies/mine
    """
    from unire.studies.threshold import study_threshold

    with _print_notes() as notes:
        options: dict[str, Any] = {"format": format, "device": device, "out": out, "notes": notes}
        result = study_threshold(model, _paths(data), **options, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True)
def errors(
    system: Annotated[str, typer.Argument(help="A model, or a file of predictions.", show_default=False)],
    data: Gold,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    device: Device = None,
    show: Show = 0,
    out: Results = None,
    json: Json = False,
) -> None:
    """Count why relations are missed: five types of error, with their sentences (Figure 6).

    \b
        unire study errors models/mine --data test.jsonl --show 3
        unire study errors found.jsonl --data test.jsonl --labels scierc
    """
    from unire.studies.errors import list_predicted, study_errors

    with _print_notes() as notes:
        options: dict[str, Any] = {"labels": labels, "symmetric": symmetric, "format": format, "device": device}
        result = study_errors(system, _paths(data), **options, out=out, notes=notes, log=console.say)
    _print_result(result, out, json)
    if json:
        return
    for kind in [kind for kind, count in result["errors"].items() if count and show]:
        console.say((kind, "bold"), to=console.out)
        for case in [case for case in result["cases"] if case["kind"] == kind][:show]:
            console.say(f"  {case['text']}", to=console.out)
            console.say(f"    gold:  {case['gold']}", to=console.out)
            for item in list_predicted(case):
                console.say(f"    found: {item}", to=console.out)


@app.command(no_args_is_help=True)
def speed(
    models: Annotated[list[str], typer.Option("--model", help="A model. May be repeated.")],
    data: Gold,
    format: Format = None,
    device: Device = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of each measurement; the best counts.")] = 3,
    out: Results = None,
    json: Json = False,
) -> None:
    """Measure sentences per second for different windows, decoders, engines, precisions and batches (Table 5).

    \b
        unire study speed --model models/mine --model models/small --data test.jsonl
    """
    from unire.studies.speed import study_speed

    with _print_notes() as notes:
        options: dict[str, Any] = {"format": format, "device": device, "rounds": rounds}
        result = study_speed(models, _paths(data), **options, out=out, notes=notes, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True)
def compare(
    systems: Annotated[
        list[str],
        typer.Argument(help="Models or files of predictions. All are compared with the first.", show_default=False),
    ],
    data: Gold,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    device: Device = None,
    samples: Annotated[
        int, typer.Option("--bootstrap", metavar="N", min=1, help="Bootstrap samples of the documents.")
    ] = 1000,
    show: Show = 0,
    out: Results = None,
    json: Json = False,
) -> None:
    """Compare systems on the same gold: all protocols, paired bootstrap, and sentences that differ.

    \b
        unire study compare models/mine models/shared --data test.jsonl
        unire study compare found.jsonl theirs.jsonl --data test.jsonl --labels scierc --show 5
    """
    from unire.studies.compare import study_systems

    with _print_notes() as notes:
        options: dict[str, Any] = {"labels": labels, "symmetric": symmetric, "format": format, "device": device}
        options |= {"samples": samples, "out": out, "notes": notes, "log": console.say}
        result = study_systems(systems, _paths(data), **options)
    _print_result(result, out, json)
    for case in [] if json else result["cases"][:show]:
        console.say((case["document"], "bold"), f"  {case['text']}", to=console.out)
        for name, items in case["found"].items():
            for item in items:
                verdict = ("right", "green") if item["right"] else ("wrong", "red")
                console.say(f"  {name}: ", verdict, f"  {item['item']}", to=console.out)


@app.command(no_args_is_help=True)
def report(
    context: typer.Context,
    out: Out,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Run all missing studies first.", show_default=False)
    ] = None,
    data: Annotated[list[Path] | None, typer.Option("--data", help="Training data.", show_default=False)] = None,
    dev: Annotated[list[Path] | None, typer.Option("--dev", help="Development data.", show_default=False)] = None,
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
    """Write a page with the studies of a folder and their charts; with --encoder, run all studies first.

    \b
        unire study report --out studies/mine
        unire study report --out studies/mine --encoder bert-base-uncased \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --labels scierc --entity-epochs 10 --seeds 3 --jobs 3

    The numbers as JSON and the charts as SVG are in the same folder.
    """
    from unire.studies.report import run_all, write_report

    if encoder is not None:
        from unire.studies.variants import StudySetup

        if not (data and dev and test):
            raise UnireError("to run all studies give --data, --dev and --test")
        config = config_from(preset, settings or [], epochs=epochs)
        setup = StudySetup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
        pipeline_config = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
        with _report_interrupt():
            run_all(setup, pipeline_config, seeds=seeds, jobs=jobs, log=console.say)
    elif unused := [name for name in _options_on_command_line(context) if name not in ("--out", "--json")]:
        raise UnireError(
            "to run studies give --encoder, too; without it, the existing studies of --out are reported, "
            f"and {', '.join(unused)} would have no effect"
        )
    page = write_report(out)
    if json:
        console.print_json({"page": str(page)})
    else:
        console.say(str(page), to=console.out)


def _options_on_command_line(context: typer.Context) -> list[str]:
    """The options that the user wrote, even with their default values."""
    sources = {option.opts[0]: context.get_parameter_source(option.name or "") for option in context.command.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _pipeline_config(
    settings: list[str] | None, entity_epochs: int | None, relation_epochs: int | None
) -> PipelineConfig:
    from unire.studies.pipeline.study import PipelineConfig

    epochs = {"entity_epochs": entity_epochs, "relation_epochs": relation_epochs}
    return PipelineConfig.with_changes(**changes_from("--pipeline", settings or [], **epochs))


def _paths(data: Sequence[Path]) -> list[Path]:
    return [input_path(path) for path in data]


@contextmanager
def _print_notes() -> Iterator[Counter[str]]:
    """Collect the notes of the data's readers, and print them, also after an error."""
    notes: Counter[str] = Counter()
    try:
        yield notes
    finally:
        console.print_notes(notes)


@contextmanager
def _report_interrupt() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a message and an exit status. Finished runs are kept."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; finished runs are kept, and the same command continues with the others")
        raise stopped(*interrupt.args) from None


def _print_result(result: dict[str, Any], out: Path | None, json: bool) -> None:
    """Print the numbers of a study as tables, or as JSON."""
    from unire.studies.report import STUDIES

    if json:
        console.print_json(result)
        return
    for table in STUDIES[result["study"]].tables(result):
        console.table(table.title, table.columns, table.rows)
    if out is not None:
        console.say(f"all numbers: {out / result['study']}.json; with charts: unire study report --out {out}")
