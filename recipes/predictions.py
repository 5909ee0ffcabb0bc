"""Store the predictions of a model as spans without text, and score them again with the annotated data.

    python recipes/predictions.py store science scierc/test.json results/predictions/science-test.jsonl
    python recipes/predictions.py score results/predictions/science-test.jsonl scierc/test.json --labels scierc
    python recipes/predictions.py score results/predictions/news-test.jsonl conll04/test.json --labels conll04 \
        --without conll04/train.json --without conll04/dev.json

A line of a stored file has the predictions of one document. Spans count words of the document, and their ends are
exclusive. The head and the tail of a relation are positions in `entities`. The last value is the score:

    {"id": "X96-1059", "words": 213, "entities": [[2, 4, "Task", 0.81], …], "relations": [[0, 1, "USED-FOR", 0.42], …]}
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unire import Extractor, LabelSpace, formats
from unire.analysis.checks import find_leaks
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.evaluation.evaluate import Report, evaluate_predictions
from unire.evaluation.scores import Protocol

SCORE_DIGITS = 4
NEAR = 0.8
"""Sentences with this share of common words are almost the same. It is the default of `unire data check`."""


def strip(document: Document) -> dict[str, Any]:
    """The predictions of a document, without its words."""
    position = {entity: number for number, entity in enumerate(document.entities)}
    return {
        "id": document.id,
        "words": document.n_words,
        "entities": [[e.start, e.end, e.label, _round(e.score)] for e in document.entities],
        "relations": [[position[r.head], position[r.tail], r.label, _round(r.score)] for r in document.relations],
    }


def restore(item: Mapping[str, Any], gold: Document) -> Document:
    """The words of a gold document with stored predictions.

    Raises:
        UnireError: The predictions are of another document.
    """
    if (item["id"], item["words"]) != (gold.id, gold.n_words):
        raise UnireError(
            f"the predictions are for document {item['id']!r} with {item['words']} words, but the data has "
            f"{gold.id!r} with {gold.n_words} words at this position; give the file that the model was run on"
        )
    entities = [gold.bare.entity(*entity) for entity in item["entities"]]
    relations = [Relation(entities[head], entities[tail], *rest) for head, tail, *rest in item["relations"]]
    return gold.bare.annotated(entities, relations)


def find_repeated(documents: Sequence[Document], others: Mapping[str, Sequence[Document]]) -> set[str]:
    """The ids of the documents with a sentence that also occurs, or almost occurs, in other files."""
    issues = [issue for issue in find_leaks({**others, "": documents}, NEAR) if not issue.file]
    return {match[1] for issue in issues if (match := re.match(r"document '(.*)', sentence \d+$", issue.place))}


def write_pairs_once(document: Document, symmetric: Iterable[str]) -> Document:
    """Write each symmetric relation once, from the earlier to the later entity, as PURE's models do."""
    names = set(symmetric)
    relations: dict[tuple[Entity, Entity, str], Relation] = {}
    for relation in document.relations:
        head, tail = relation.head, relation.tail
        if relation.label in names and tail.span < head.span:
            head, tail = tail, head
        relations[head, tail, relation.label] = replace(relation, head=head, tail=tail)
    return document.annotated(document.entities, relations.values())


def store(model: str, data: Path, out: Path) -> None:
    documents = list(formats.read(data))
    predicted = Extractor.load(model).annotate([document.bare for document in documents])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{json.dumps(strip(document))}\n" for document in predicted), encoding="utf-8")


def score(stored: Path, data: Path, labels: str, *, without: Sequence[Path] = (), pairs_once: bool = False) -> Report:
    """Score stored predictions with 95% bootstrap intervals, under every protocol unless `pairs_once`.

    Args:
        stored: A file that `store` wrote.
        data: The annotated data that the model was run on.
        labels: The name of a label space, or its file.
        without: Leave out the documents with a sentence that these files have, or almost have.
        pairs_once: Score symmetric relations as PURE does: a pair is predicted once, and gold is as annotated.
    """
    gold = list(formats.read(data))
    lines = stored.read_text(encoding="utf-8").splitlines()
    if len(lines) != len(gold):
        raise UnireError(f"{stored} has {len(lines)} documents, but {data} has {len(gold)}")
    predicted = [restore(json.loads(line), document) for line, document in zip(lines, gold, strict=True)]
    space = LabelSpace.resolve(labels, None, gold)
    if without:
        repeated = find_repeated(gold, {str(path): list(formats.read(path)) for path in without})
        gold, predicted = ([d for d in documents if d.id not in repeated] for documents in (gold, predicted))
    protocol = Protocol()
    if pairs_once:
        predicted = [write_pairs_once(document, space.symmetric) for document in predicted]
        protocol = Protocol(symmetric="as-annotated")
    return evaluate_predictions(gold, predicted, space, protocol, all_protocols=not pairs_once, bootstrap=1000)


def describe(report: Report) -> Iterator[str]:
    yield repr(report)
    for scores in report.protocols:
        yield f"  {scores}"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("store", help="Run a model and store its predictions without text.")
    storing.add_argument("model", help="A bundled model, a folder, or a Hub name.")
    storing.add_argument("data", type=Path, help="Annotated file.")
    storing.add_argument("out", type=Path, help="File to write.")
    scoring = commands.add_parser("score", help="Score stored predictions.")
    scoring.add_argument("stored", type=Path, help="File with stored predictions.")
    scoring.add_argument("data", type=Path, help="The annotated file that the model was run on.")
    scoring.add_argument("--labels", required=True, help="Label space: scierc, conll04, ade, …, or a JSON file.")
    scoring.add_argument(
        "--without",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="Leave out documents with a sentence that this file has, or almost has; may be given several times.",
    )
    scoring.add_argument("--pairs-once", action="store_true", help="Score symmetric relations as PURE does.")
    scoring.add_argument("--json", action="store_true", help="Print the report as JSON.")
    options = parser.parse_args(words)
    try:
        if options.command == "store":
            store(options.model, options.data, options.out)
            return
        report = score(
            options.stored,
            options.data,
            options.labels,
            without=options.without,
            pairs_once=options.pairs_once,
        )
    except (OSError, UnireError) as error:
        sys.exit(str(error))
    print(json.dumps(report.to_dict(), indent=1) if options.json else "\n".join(describe(report)))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, SCORE_DIGITS)


if __name__ == "__main__":
    main()
