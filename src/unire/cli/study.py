"""`unire study`: comparisons, error analysis, speed, and the studies of the paper on your own data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unire.cli import console, training_options
from unire.cli import options as shared
from unire.cli.options import INPUT, MODEL, OUTPUT, SCORING, Device, Format, Json, Labels, Symmetric, input_path, option
from unire.cli.training_options import DEV, Data, Encoder, Epochs, Set, Test, changes_from, config_from, stopped
from unire.errors import UnireError

if TYPE_CHECKING:
    from unire.studies.pipeline.study import PipelineConfig

__all__ = ["app"]

HELP = """Compare systems, analyse errors, measure speed, run ablations.

Examples:

    unire study compare science models/mine --data test.jsonl
    unire study errors models/mine --data test.jsonl --show 3

`unire study COMMAND --help` shows the options of a command.
"""
VARIANTS, FINISHED = "Train variants and compare them", "Study finished models"
"""Panels of `unire study --help`."""

app = typer.Typer(help=HELP, no_args_is_help=True)

STUDY, PIPELINE = "Study", "Pipeline"
"""Panels of `--help`."""

Dev = Annotated[list[Path], option("--dev", metavar="FILE", help=DEV, panel=INPUT)]
Out = Annotated[
    Path,
    option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Folder for models and results. Studies in one folder share trainings.",
        panel=OUTPUT,
    ),
]
Seeds = Annotated[int, option("--seeds", metavar="N", min=1, help="Trainings per variant, one per seed.", panel=STUDY)]
Jobs = Annotated[
    int, option("--jobs", metavar="N", min=1, help="Trainings in parallel. 2 to 5 share a large GPU well.", panel=STUDY)
]
EntityEpochs = Annotated[
    int | None,
    option("--entity-epochs", metavar="N", min=1, help="Epochs of the span model.", panel=PIPELINE, default="10"),
]
RelationEpochs = Annotated[
    int | None,
    option("--relation-epochs", metavar="N", min=1, help="Epochs of the marker models.", panel=PIPELINE, default="5"),
]
PipelineSettings = Annotated[
    list[str] | None,
    option("--pipeline", metavar="NAME=VALUE", help="Any other PipelineConfig field. May be repeated.", panel=PIPELINE),
]
Results = Annotated[
    Path | None,
    option("--out", "-o", metavar="FOLDER", help="Save the numbers in FOLDER, for `unire study report`.", panel=OUTPUT),
]
Show = Annotated[
    int,
    option("--show", metavar="N", min=0, help="Number of example sentences to print; the JSON has all.", panel=OUTPUT),
]

TRAINING_STUDIES = {
    "ablate": ("ABLATION", "Train without one part of the method at a time, and score on test.", "Table 4"),
    "window": ("WINDOW", "Train with windows of 100, 200 and 300 words, and score on dev.", "Table 6"),
    "dropout": ("DROPOUT", "Train with a logit dropout of 0.1 to 0.4, and score on dev.", "Table 6"),
    "beta2": ("BETA2", "Train with a β₂ of 0.9 and of 0.999, and score on dev.", "Section 4"),
}
"""Training studies: their name in `unire.studies.ablations`, their help, and their place in the paper."""


def _training_command(name: str) -> Callable[..., None]:
    def command(
        *,
        data: Data,
        dev: Dev,
        test: Test = None,
        format: Format = None,
        labels: Labels = None,
        symmetric: Symmetric = None,
        encoder: Encoder,
        preset: training_options.StudyPreset = "paper",
        epochs: Epochs = None,
        settings: Set = None,
        seeds: Seeds = 1,
        jobs: Jobs = 1,
        out: Out,
        json: Json = False,
    ) -> None:
        from unire.studies import ablations

        config = config_from(preset, settings or [], epochs=epochs)
        files = tuple(data), tuple(dev), config, out, tuple(test or ())
        setup = ablations.StudySetup(encoder, *files, labels, symmetric, format)
        with _report_interrupt():
            (result,) = ablations.run_studies(
                [getattr(ablations, name)], setup, seeds=seeds, jobs=jobs, log=console.say
            )
        _print_result(result, out, json)

    return command


def _training_help(name: str, sentence: str, place: str) -> str:
    return f"""{sentence}

    Examples:

        unire study {name} --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --seeds 3 --jobs 3 --out studies/mine

    Finished trainings are kept. The same command continues with the others.
    {place} of the UniRE paper has this study on its own data.
    """


for _name, (_study, *_help) in TRAINING_STUDIES.items():
    _register = app.command(
        _name, no_args_is_help=True, rich_help_panel=VARIANTS, help=cleandoc(_training_help(_name, *_help))
    )
    _register(_training_command(_study))


@app.command(no_args_is_help=True, rich_help_panel=VARIANTS)
def pipeline(
    *,
    data: Data,
    dev: Dev,
    test: Annotated[
        list[Path],
        option("--test", metavar="FILE", help="Annotated file for scores and speed. May be repeated.", panel=INPUT),
    ],
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    encoder: Encoder,
    preset: training_options.StudyPreset = "paper",
    epochs: Epochs = None,
    settings: Set = None,
    entity_epochs: EntityEpochs = None,
    relation_epochs: RelationEpochs = None,
    pipeline_settings: PipelineSettings = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Out,
    json: Json = False,
) -> None:
    """Compare the joint model with a pipeline on test: size, scores and speed.

    Examples:

        unire study pipeline --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --preset best --epochs 25 --entity-epochs 10 --relation-epochs 5 \\
            --out studies/mine

    --preset, --epochs and --set apply to the joint model. Finished trainings are
    kept. Table 5 of the UniRE paper has such a comparison.
    """
    from unire.studies.ablations import StudySetup
    from unire.studies.pipeline.study import run_study

    config = config_from(preset, settings or [], epochs=epochs)
    setup = StudySetup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
    pipeline_config = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
    with _report_interrupt():
        result = run_study(setup, pipeline_config, seeds=seeds, jobs=jobs, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True, rich_help_panel=FINISHED)
def threshold(
    *,
    data: Data,
    format: Format = None,
    model: Annotated[
        str, option("--model", "-m", metavar="NAME", help="Bundled model, folder or Hub name.", panel=MODEL)
    ],
    decoder: shared.Decoder = None,
    device: Device = None,
    out: Results = None,
    json: Json = False,
) -> None:
    """Measure F1 over the threshold α, and distances at entity boundaries.

    Examples:

        unire study threshold -m models/mine --data dev.jsonl -o studies/mine

    Figures 4 and 5 of the UniRE paper show the same for its models.
    """
    from unire.studies.threshold import study_threshold

    with _print_notes() as notes:
        options: dict[str, Any] = {"format": format, "decoder": decoder, "device": device, "out": out, "notes": notes}
        result = study_threshold(model, _paths(data), **options, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True, rich_help_panel=FINISHED)
def errors(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Model or file of predictions.", show_default=False)],
    *,
    data: Data,
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    device: Device = None,
    show: Show = 0,
    out: Results = None,
    json: Json = False,
) -> None:
    """Count why relations are missed: five types of error, with their sentences.

    Examples:

        unire study errors models/mine --data test.jsonl --show 3
        unire study errors found.jsonl --data test.jsonl --labels scierc

    Figure 6 of the UniRE paper counts the same types of error.
    """
    from unire.studies.error_analysis import list_predicted, study_errors

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


@app.command(no_args_is_help=True, rich_help_panel=FINISHED)
def speed(
    *,
    data: Data,
    format: Format = None,
    models: Annotated[
        list[str],
        option(
            "--model", "-m", metavar="NAME", help="Bundled model, folder or Hub name. May be repeated.", panel=MODEL
        ),
    ],
    device: Device = None,
    rounds: Annotated[
        int, option("--rounds", metavar="N", min=1, help="Measurement rounds; the fastest counts.", panel=STUDY)
    ] = 3,
    out: Results = None,
    json: Json = False,
) -> None:
    """Measure sentences per second for several settings.

    Examples:

        unire study speed -m models/mine -m models/small --data test.jsonl

    The settings are windows, decoders, engines, precisions and batch sizes.
    Table 5 of the UniRE paper has the speed of its model.
    """
    from unire.studies.speed import study_speed

    with _print_notes() as notes:
        options: dict[str, Any] = {"format": format, "device": device, "rounds": rounds}
        result = study_speed(models, _paths(data), **options, out=out, notes=notes, log=console.say)
    _print_result(result, out, json)


@app.command(no_args_is_help=True, rich_help_panel=FINISHED)
def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM",
            help="Models or files of predictions. All are compared with the first.",
            show_default=False,
        ),
    ],
    *,
    data: Data,
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    device: Device = None,
    samples: Annotated[
        int, option("--bootstrap", metavar="N", min=1, help="Bootstrap samples of the documents.", panel=SCORING)
    ] = 1000,
    show: Show = 0,
    out: Results = None,
    json: Json = False,
) -> None:
    """Compare systems on the same data, by a paired bootstrap.

    Examples:

        unire study compare models/mine models/shared --data test.jsonl
        unire study compare found.jsonl theirs.jsonl --data test.jsonl --show 5

    The tables have the scores under all protocols, and the differences in F1 with
    95% intervals and p-values. `--show` prints sentences in which systems differ.
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
                verdict = ("correct", "right") if item["right"] else ("wrong", "wrong")
                console.say(f"  {name}: ", verdict, f"  {item['item']}", to=console.out)


@app.command(no_args_is_help=True, rich_help_panel=FINISHED)
def report(
    context: typer.Context,
    *,
    data: Annotated[
        list[Path] | None,
        option("--data", metavar="FILE", help="Annotated training file. May be repeated.", panel=INPUT),
    ] = None,
    dev: training_options.Dev = None,
    test: Test = None,
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    encoder: Annotated[
        str | None,
        option("--encoder", metavar="NAME", help="Run all missing studies with this encoder first.", panel=MODEL),
    ] = None,
    preset: training_options.StudyPreset = "paper",
    epochs: Epochs = None,
    settings: Set = None,
    entity_epochs: EntityEpochs = None,
    relation_epochs: RelationEpochs = None,
    pipeline_settings: PipelineSettings = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Out,
    json: Json = False,
) -> None:
    """Write an HTML page with the studies of a folder and their charts.

    Examples:

        unire study report --out studies/mine
        unire study report --out studies/mine --encoder bert-base-uncased \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl \\
            --labels scierc --entity-epochs 10 --seeds 3 --jobs 3

    With --encoder, all missing studies run first. The numbers as JSON and the
    charts as SVG are in the same folder.
    """
    from unire.studies.report import run_all, write_report

    if encoder is not None:
        from unire.studies.ablations import StudySetup

        if not (data and dev and test):
            raise UnireError("--encoder needs --data, --dev and --test")
        config = config_from(preset, settings or [], epochs=epochs)
        setup = StudySetup(encoder, tuple(data), tuple(dev), config, out, tuple(test), labels, symmetric, format)
        pipeline_config = _pipeline_config(pipeline_settings, entity_epochs, relation_epochs)
        with _report_interrupt():
            run_all(setup, pipeline_config, seeds=seeds, jobs=jobs, log=console.say)
    elif unused := [name for name in _options_on_command_line(context) if name not in ("--out", "--json")]:
        raise UnireError(
            f"give --encoder, or leave out {', '.join(unused)}; without --encoder, only finished studies are reported"
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
        console.say("interrupted; finished runs are kept; the same command continues with the others")
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
