"""Put the scores under `docs/results/` and `docs/studies/` into the tables of `docs/results.md` and `docs/studies.md`.

    python recipes/tables.py

A row is the mean over its seeds, with the standard deviation where there are several. Everything between the marks
`<!-- name -->` and `<!-- end -->` is written by this script; a test says that it is up to date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from unire.studies.report import STUDIES
from unire.studies.results import load

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("results.md", "studies.md")
MEASURES = tuple((kind, measure) for kind in ("entities", "relations") for measure in ("precision", "recall", "f1"))


@dataclass(frozen=True)
class Row:
    """A row of our own, found by the beginning of its files' names."""

    title: str
    encoder: str
    stage: str


SCIERC = (
    Row("preset `paper`, 40 epochs", "mpnet", "scierc-paper"),
    Row("preset `released`, 40 epochs", "mpnet", "scierc-released"),
    Row("preset `best`", "mpnet-science-c", r"scierc-best-[34]\d"),
    Row("preset `best`, older", "mpnet-science", r"scierc-best-\d"),
    Row("preset `best`, older", "mpnet-science-b", r"scierc-best-[12]\d"),
    Row("`best`, taught by five teachers and three marker models", "mpnet-science-c", "scierc-marked"),
    Row("… and once more, by the five above", "mpnet-science-c", "scierc-marked-twice"),
    Row("`best`, self-trained by five teachers", "mpnet-science-c", "scierc-self-trained-c"),
    Row("`best`, self-trained by five teachers, odds not tuned", "mpnet-science-b", "scierc-self-trained-b"),
    Row("`best`, self-trained by five teachers, older", "mpnet-science", "scierc-self-trained"),
    Row("`science`, before quantisation", "gte-science, 33M", "scierc-small"),
    Row("`science`, as in the box (int8)", "gte-science, 33M", "science"),
)
CONLL04 = (
    Row("preset `best` with `case_marks`", "mpnet-news", r"conll04-best-4\d"),
    Row("… older", "mpnet-news, three others", r"conll04-best-[123]?\d"),
    Row("… with `case_marks`, on train and dev", "mpnet-news", "conll04-train-and-dev"),
    Row("… with `case_marks`, self-trained, on train and dev", "mpnet-news", "conll04-self-trained"),
    Row("`news`, before quantisation", "gte-news, 33M", "conll04-small"),
    Row("`news`, as in the box (int8)", "gte-news, 33M", "news"),
)
PUBLISHED = {
    "scierc": (
        ("UniRE (the paper)", "SciBERT", "65.8", "71.1", "68.4", "37.3", "36.6", "36.9"),
        ("PURE", "SciBERT", "", "", "68.2", "", "", "36.7"),
        ("PFN", "SciBERT", "", "", "66.8", "", "", "38.4"),
        ("PL-Marker", "SciBERT", "", "", "69.9", "", "", "41.6"),
        ("HGERE", "SciBERT", "", "", "", "", "", "43.9"),
    ),
    "conll04": (
        ("SpERT", "BERT-base, cased", "", "", "88.9", "", "", "71.5"),
        ("PFN", "ALBERT-xxlarge", "", "", "89.6", "", "", "75.0"),
        ("ASP", "3B parameters", "", "", "90.3", "", "", "76.3"),
    ),
    "ade": (
        ("SpERT", "BERT-base, cased", "", "", "89.3", "", "", "79.2"),
        ("PFN", "ALBERT-xxlarge", "", "", "91.3", "", "", "83.2"),
    ),
}
TRIED = (
    ("SciERC", "preset `best`", "scierc-best", "kept"),
    ("SciERC", "… with 120 epochs, on mpnet-science-b", "scierc-try-long", "undecided: two seeds"),
    ("SciERC", "… with `layout` of `in-place`, on mpnet-science-b", "scierc-try-in-place", "no gain, slower"),
    ("SciERC", "self-training by an ensemble of five, on mpnet-science-c, odds tuned", "scierc-self-trained-c", "kept"),
    ("SciERC", "self-training by an ensemble of five, on mpnet-science-b", "scierc-self-trained-b", "kept"),
    ("SciERC", "self-training by an ensemble of five, on mpnet-science", "scierc-self-trained", "kept"),
    ("SciERC", "… whose lessons marker models have named the relations of", "scierc-marked", "level, −1.2 in sum"),
    ("SciERC", "… and a second round, by these five", "scierc-marked-twice", "no gain"),
    ("SciERC", "self-training by one self-trained model", "scierc-self-trained-by-one", "undecided: one seed"),
    ("SciERC", "preset `best`, 30 epochs, on mpnet-science-b", "scierc-try-plain", ""),
    ("SciERC", "… with `average` of 0.995", "scierc-try-average", "dropped: no gain"),
    ("SciERC", "… with `none_weight` of 0.5", "scierc-try-none-weight", "dropped: no gain"),
    ("SciERC", "… with `distances` up to 16", "scierc-try-distances", "dropped: no gain in relations"),
    ("SciERC", "… with `beta2` of 0.999", "scierc-try-beta2", "no gain"),
    ("SciERC", "… with `consistency` (R-Drop) of 1", "scierc-try-consistency", "dropped: no gain"),
    ("SciERC", "… with `mean` of all cells of a batch", "scierc-try-mean-batch", "no gain in relations"),
    ("SciERC", "… without `symmetry` and `implication`", "scierc-try-no-losses", "no difference"),
    ("SciERC", "… with `case_marks`", "scierc-try-marks", "no gain"),
    ("SciERC", "… with `d` of 300", "scierc-try-d-300", "no gain"),
    ("SciERC", "… with `pooling` of a word's pieces by their mean", "scierc-try-pooling-mean", "no gain in relations"),
    ("SciERC", "… with `pooling` by their maximum", "scierc-try-pooling-max", "undecided: two seeds"),
    ("SciERC", "… with `adversarial` steps (FGM) of 0.5", "scierc-try-adversarial", "undecided: two seeds; slower"),
    ("SciERC", "… with `focal` cells, γ = 1", "scierc-try-focal", "dropped: no gain"),
    ("SciERC", "… with rate 2e-4", "scierc-try-lr-2e-4", "no gain in relations"),
    ("SciERC", "… with rate 5e-5", "scierc-try-lr-5e-5", "worse"),
    ("SciERC", "… with `layer_decay` of 0.9", "scierc-try-layer-decay", "worse"),
    ("SciERC", "… with the head's rate 1e-3", "scierc-try-head-lr-1e-3", "no gain"),
    ("SciERC", "… and `beta2` of 0.999, `warmup` of 0.1", "scierc-try-quick", "no gain"),
    ("SciERC", "… and batches of 16 as well", "scierc-try-quick-batch-16", "no gain"),
    ("SciERC", "… with batches of 16 alone", "scierc-try-batch-16", "no gain"),
    ("CoNLL04", "preset `best`, 50 epochs", "conll04-try-plain", ""),
    ("CoNLL04", "… with `case_marks`", "conll04-try-marks", "kept"),
    ("CoNLL04", "… with `case_marks` and `constraints`", "conll04-try-marks-constraints", "an option: no gain"),
    ("CoNLL04", "… with `case_marks`, batches of 16", "conll04-try-marks-batch-16", "dropped: no gain"),
    ("CoNLL04", "… with `case_marks`, rate 5e-5", "conll04-try-marks-lr-5e-5", "dropped"),
    ("CoNLL04", "… with `case_marks`, adapted to news, `window=0`, 60 epochs", "conll04-best", "kept"),
)


def records_of(stage: str) -> list[dict[str, Any]]:
    """What was written down of every seed of a stage."""
    files = [file for file in (DOCS / "results").glob("*.json") if re.fullmatch(rf"{stage}(-\d+)?", file.stem)]
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(files)]


def scores_of(stage: str, split: str) -> list[dict[str, Any]]:
    """The scores of every seed of a stage."""
    return [record["scores"][split] for record in records_of(stage) if split in record.get("scores", {})]


def cells(scores: Sequence[dict[str, Any]], measures: Iterable[tuple[str, str]] = MEASURES) -> list[str]:
    """Means over seeds in percent, F1 with its deviation."""
    written = []
    for kind, measure in measures:
        values = [100 * score[kind][measure] for score in scores]
        deviation = f" ± {stdev(values):.1f}" if measure == "f1" and len(values) > 1 else ""
        written.append(f"{mean(values):.1f}{deviation}")
    return written


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def test_table(rows: Sequence[Row], data: str) -> str:
    head = ("model", "encoder", "seeds", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1")
    ours = [
        (row.title, row.encoder, str(len(scores)), *cells(scores))
        for row in rows
        if (scores := scores_of(row.stage, "test"))
    ]
    return table(head, [*ours, *published(data)])


def protocols_table(rows: Sequence[Row]) -> str:
    """Relations of the same predictions, counted in every way; of the rows whose records have it."""
    relations = tuple((kind, measure) for kind, measure in MEASURES if kind == "relations")
    lines, names = [], []
    for row in rows:
        records = [record["protocols"] for record in records_of(row.stage) if "protocols" in record]
        if records:
            names = list(records[0])
            counted = (" / ".join(cells([record[name] for record in records], relations)) for name in names)
            lines.append((row.title, str(len(records)), *counted))
    return table(("model", "seeds", *(name.removesuffix(", micro") for name in names)), lines)


def published(data: str) -> list[tuple[str, ...]]:
    return [(f"*{name}*", f"*{encoder}*", "", *figures) for name, encoder, *figures in PUBLISHED[data]]


def folds_table() -> str:
    """ADE: macro averages of each fold, and their means and deviations over folds."""
    head = ("model", "encoder", "folds", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1")
    file = DOCS / "results" / "ade-best.json"
    ours = []
    if file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
        (means,) = (row for row in record["mean"] if row["average"] == "macro")
        figures = [
            f"{100 * means[kind][rate]:.1f}" + (f" ± {100 * means[kind]['deviation']:.1f}" if rate == "f1" else "")
            for kind, rate in MEASURES
        ]
        ours.append(("preset `best`, 20 epochs", "mpnet-science-b", str(len(record["folds"])), *figures))
    return table(head, [*ours, *published("ade")])


def tried_table() -> str:
    f1 = (("entities", "f1"), ("relations", "f1"))
    rows = [
        (data, what, str(len(scores)), *cells(scores, f1), verdict)
        for data, what, stage, verdict in TRIED
        if (scores := scores_of(stage, "dev"))
    ]
    return table(("data", "what", "seeds", "dev Ent F1", "dev Rel F1", ""), rows)


def study_tables(name: str) -> str:
    """The tables of a study with its charts, if it was run."""
    result = load(DOCS / "studies", name)
    if result is None:
        return "Not measured yet.\n"
    charts = [f"![{chart}](studies/{chart}.svg)\n" for chart in STUDIES[name].charts(result)]
    tables = [f"{made.title}:\n\n{table(made.columns, made.rows)}" for made in STUDIES[name].tables(result)]
    return "\n".join([*tables, *charts])


def updated(page: str) -> str:
    """A page with every table made anew."""
    tables = {
        "scierc": test_table(SCIERC, "scierc"),
        "conll04": test_table(CONLL04, "conll04"),
        "protocols": protocols_table(SCIERC),
        "ade": folds_table(),
        "tried": tried_table(),
        **{name: study_tables(name) for name in STUDIES},
    }
    for name, made in tables.items():
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(?=<!-- end -->)", lambda mark, made=made: mark[1] + made, page, flags=re.S
        )
    return page


def main() -> None:
    for page in (DOCS / name for name in PAGES):
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
