"""The studies of models that are there: `unire study threshold`, `errors`, `speed` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unire.cli import printing
from unire.cli.options import Device, Format, Json, Labels, Symmetric, documents_from, label_space
from unire.cli.study_output import finish, prepare, tell
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

if TYPE_CHECKING:
    from unire.studies.systems import System

__all__ = ["compare", "errors", "speed", "threshold"]

Gold = Annotated[list[Path], typer.Option("--data", help="Annotated file; may be given several times.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of studies, where the numbers are kept.", show_default=False)
]
Show = Annotated[int, typer.Option("--show", min=0, help="Sentences to print; all are in the JSON.")]


def threshold(
    model: Annotated[str, typer.Option("--model", help="A model: in the box, a folder, or a Hub name.")],
    data: Gold,
    format: Format = None,
    device: Device = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Distances at entity boundaries and elsewhere, and F1 over α (Figures 4 and 5).

    \b
        unire study threshold --model models/mine --data dev.jsonl --out studies/mine
    """
    from unire.extractor import Extractor
    from unire.studies.systems import check_labels, facts
    from unire.studies.threshold import threshold as run

    prepare(out, "threshold", [model], data)
    documents = documents_from(data, format)
    extractor = Extractor.load(model, device=device)
    check_labels(model, extractor.labels, documents)
    finish({**run(extractor, documents), **facts([model], data)}, out, json)


def errors(
    system: Annotated[str, typer.Argument(help="A model, or a file of predictions.", show_default=False)],
    data: Gold,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    device: Device = None,
    show: Show = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Why relations are missed: five kinds of error, and the sentences behind them (Figure 6).

    \b
        unire study errors models/mine --data test.jsonl --show 3
        unire study errors found.jsonl --data test.jsonl --labels scierc
    """
    from unire.studies.errors import errors as run
    from unire.studies.errors import found as found_in
    from unire.studies.systems import facts, predict

    prepare(out, "errors", [system], data)
    gold = documents_from(data, format)
    found = predict(system, gold, device=device)
    space = _space([found], labels, symmetric, gold)
    result = {**run(gold, found.documents, space), **facts([system], data)}
    finish(result, out, json)
    if json:
        return
    for kind in [kind for kind, count in result["errors"].items() if count and show]:
        printing.say((kind, "bold"), to=printing.out)
        for case in [case for case in result["cases"] if case["kind"] == kind][:show]:
            printing.say(f"  {case['text']}", to=printing.out)
            printing.say(f"    gold:  {case['gold']}", to=printing.out)
            for item in found_in(case):
                printing.say(f"    found: {item}", to=printing.out)


def speed(
    models: Annotated[list[str], typer.Option("--model", help="A model; may be given several times.")],
    data: Gold,
    format: Format = None,
    device: Device = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="The best of so many counts.")] = 3,
    out: Out = None,
    json: Json = False,
) -> None:
    """Sentences per second, stage by stage, as windows, decoder, engine, precision and batches change (Table 5).

    \b
        unire study speed --model models/mine --model models/small --data test.jsonl
    """
    from unire.studies.speed import collected
    from unire.studies.speed import speed as run
    from unire.studies.systems import facts

    prepare(out, "speed", models, data)
    documents = documents_from(data, format)
    rows = [row for model in models for row in run(model, documents, device=device, rounds=rounds, tell=tell)]
    finish({**collected(rows, documents, device), **facts(models, data)}, out, json)


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="Models or files of predictions; the others are held against the first.", show_default=False
        ),
    ],
    data: Gold,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    device: Device = None,
    samples: Annotated[int, typer.Option("--bootstrap", metavar="N", min=1, help="Resamples of the documents.")] = 1000,
    show: Show = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Several systems on the same gold: every protocol, paired bootstrap, and where they differ.

    \b
        unire study compare models/mine models/shared --data test.jsonl
        unire study compare found.jsonl theirs.jsonl --data test.jsonl --labels scierc --show 5
    """
    from unire.studies.compare import compare as run
    from unire.studies.systems import facts, predict

    prepare(out, "compare", systems, data)
    gold = documents_from(data, format)
    found = [predict(system, gold, device=device) for system in systems]
    space = _space(found, labels, symmetric, gold)
    result = {**run(gold, found, space, samples=samples), **facts(systems, data)}
    finish(result, out, json)
    for case in [] if json else result["cases"][:show]:
        printing.say((case["document"], "bold"), f"  {case['text']}", to=printing.out)
        for name, items in case["found"].items():
            for item in items:
                verdict = ("right", "green") if item["right"] else ("wrong", "red")
                printing.say(f"  {name}: ", verdict, f"  {item['item']}", to=printing.out)


def _space(
    systems: Sequence[System], labels: str | None, symmetric: str | None, gold: Sequence[Document]
) -> LabelSpace:
    """The labels of the models among the systems; of files alone, those that are asked for, or that are in them."""
    from unire.studies.systems import common_labels

    own = common_labels(systems)
    if own is None:
        return label_space(labels, symmetric, [*gold, *(document for some in systems for document in some.documents)])
    if labels is not None or symmetric is not None:
        raise UnireError("a model has its own label space; leave out --labels and --symmetric")
    return own
