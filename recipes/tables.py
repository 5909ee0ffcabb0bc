"""Put the scores under `results/` into the tables of `docs/results.md` and `docs/studies.md`.

    python recipes/tables.py

A row is the mean over its runs, with the standard deviation where there are several. Everything between the marks
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
from unire.studies.results import load_result

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "results"
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
    Row("preset `best`, decoded by `split`", "mpnet-science-c", r"scierc-best-[34]\d"),
    Row("… likewise", "mpnet-science-e", "scierc-best-e-split"),
    Row("… the same weights, decoded by `likely`", "mpnet-science-e", "scierc-best-e-split-then-likely"),
    Row("… chosen and decoded by `likely`, as `best` is now", "mpnet-science-e", "scierc-best-e-likely"),
    Row("`best`, self-trained by five models, by `split`", "mpnet-science-c", "scierc-self-trained-c"),
    Row("`best`, taught by five models and three marker models, by `split`", "mpnet-science-c", "scierc-marked"),
    Row("… likewise, by `likely`", "mpnet-science-e", "scierc-marked-e-likely"),
    Row("`science`, before quantisation", "gte-science, 33M", "scierc-small"),
    Row("`science`, int8, decoded by `split`", "gte-science, 33M", "science-split"),
    Row("`science`, as in the box: int8, decoded by `likely`", "gte-science, 33M", "science"),
    Row("`science`, rebuilt in one go: int8, by `likely`", "gte-science-e, 33M", "science-e"),
)
SCIERC_MORE = (
    Row("preset `best`, odds not tuned", "mpnet-science", r"scierc-best-\d"),
    Row("preset `best`, odds not tuned", "mpnet-science-b", r"scierc-best-[12]\d"),
    Row("`best`, self-trained by five models, odds not tuned", "mpnet-science", "scierc-self-trained"),
    Row("`best`, self-trained by five models, odds not tuned", "mpnet-science-b", "scierc-self-trained-b"),
    Row("`best`, taught by the five that marker models taught", "mpnet-science-c", "scierc-marked-twice"),
)
DECODERS = (
    ("`best`, five seeds, chosen by `split`", "scierc-best-e-split", "scierc-best-e-split-then-likely"),
    (
        "taught with marker models, five seeds, chosen by `likely`",
        "scierc-marked-e-likely-then-split",
        "scierc-marked-e-likely",
    ),
    ("`science`", "science-by-split", "science"),
    ("`news` (CoNLL04)", "news-by-split", "news"),
)
"""The same weights by `split` and by `likely`."""
CONLL04 = (
    Row("preset `best` with `case_marks`, by `split`", "mpnet-news", r"conll04-best-4\d"),
    Row("… by `likely`, as `best` is now", "mpnet-news-f", "conll04-best-likely"),
    Row("… likewise", "mpnet-news-g", "conll04-best-g"),
    Row("… likewise", "mpnet-news-h", "conll04-best-h"),
    Row("`best`, taught by five models, by `likely`", "mpnet-news-h", "conll04-unmarked"),
    Row("`best`, taught by five models and three marker models, by `likely`", "mpnet-news-f", "conll04-marked"),
    Row("… likewise", "mpnet-news-h", "conll04-marked-h"),
    Row("`best` on train and dev, by `split`, α = 1.25", "mpnet-news, another", r"conll04-train-and-dev-\d"),
    Row("… with α = 1.2 and odds of 4", "mpnet-news", r"conll04-train-and-dev-1\d"),
    Row("… by `likely`, with α = 1 and odds of 4", "mpnet-news-g", "conll04-train-and-dev-likely"),
    Row("… likewise", "mpnet-news-h", "conll04-train-and-dev-likely-h"),
    Row("… by `split`, self-trained by five models", "mpnet-news, the third", "conll04-self-trained"),
    Row(
        "`best` on train and dev, taught by five models and three marker models, by `likely`, α = 1.5, odds of 1.5",
        "mpnet-news-h",
        "conll04-marked-train-and-dev",
    ),
    Row("`news`, before quantisation", "gte-news, 33M", "conll04-small"),
    Row("`news`, int8, decoded by `split`", "gte-news, 33M", "news-split"),
    Row("`news`, as in the box: int8, decoded by `likely`", "gte-news, 33M", "news"),
    Row("`news`, rebuilt with all sentences of the news: int8, by `likely`", "gte-news-f, 33M", "news-marked"),
    Row("`news`, rebuilt in one go: int8, by `likely`", "gte-news-h, 33M", "news-h"),
)
CONLL04_MORE = (
    Row("preset `best` with `case_marks`, odds not tuned", "mpnet-news, a first", r"conll04-best-\d"),
    Row("… likewise", "mpnet-news, a second", r"conll04-best-1\d"),
    Row("… likewise", "mpnet-news, a third", r"conll04-best-2\d"),
    Row("… likewise, after MPNet's position bias was frozen", "mpnet-news, the third", r"conll04-best-3\d"),
)
PUBLISHED = {
    "scierc": (
        ("UniRE (the paper), doubled", "SciBERT", "", "65.8", "71.1", "68.4", "37.3", "36.6", "36.9"),
        ("PURE, as-annotated", "SciBERT", "", "", "", "68.2", "", "", "36.7"),
        ("PFN", "SciBERT", "", "", "", "66.8", "", "", "38.4"),
        ("PL-Marker, doubled", "SciBERT", "", "", "", "69.9", "", "", "41.6"),
        ("HGERE", "SciBERT", "", "", "", "", "", "", "43.9"),
    ),
    "conll04": (
        ("SpERT", "BERT-base, cased", "", "", "", "88.9", "", "", "71.5"),
        ("PFN", "ALBERT-xxlarge", "", "", "", "89.6", "", "", "75.0"),
        ("ASP", "3B parameters", "", "", "", "90.3", "", "", "76.3"),
    ),
    "ade": (
        ("SpERT", "BERT-base, cased", "without overlapping entities", "", "", "89.25", "", "", "79.24"),
        ("SpERT", "BERT-base, cased", "all", "", "", "89.28", "", "", "78.84"),
        ("PFN", "ALBERT-xxlarge", "", "", "", "91.3", "", "", "83.2"),
    ),
}
TRIED = (
    ("SciERC", "`best`, 60 epochs, on mpnet-science-e, odds tuned", "scierc-best-e-split", ""),
    ("SciERC", "… the same weights, `decoder` of `likely`", "scierc-best-e-split-then-likely", "+2.7 in sum: kept"),
    ("SciERC", "… epochs chosen by it, too", "scierc-best-e-likely", "kept"),
    ("SciERC", "`best`, 60 epochs, on mpnet-science-c, odds tuned", r"scierc-best-[34]\d", ""),
    ("SciERC", "`best`, 60 epochs, on mpnet-science-b", r"scierc-best-[12]\d", ""),
    ("SciERC", "… with 120 epochs", "scierc-try-long", "+1.5 in sum: undecided"),
    ("SciERC", "… with `layout` of `in-place`", "scierc-try-in-place", "no gain, slower"),
    ("SciERC", "`best`, 60 epochs, on mpnet-science", r"scierc-best-\d", ""),
    ("SciERC", "self-training by five, on mpnet-science-c, odds tuned", "scierc-self-trained-c", "kept"),
    ("SciERC", "self-training by five, on mpnet-science-b", "scierc-self-trained-b", ""),
    ("SciERC", "self-training by five, on mpnet-science", "scierc-self-trained", ""),
    ("SciERC", "self-training by one that was, on mpnet-science", "scierc-self-trained-by-one", "undecided"),
    (
        "SciERC",
        "soft labels by five and by marker models, on mpnet-science-e, by `likely`",
        "scierc-marked-e-likely",
        "kept",
    ),
    ("SciERC", "… the same weights, by `split`", "scierc-marked-e-likely-then-split", ""),
    ("SciERC", "soft labels by five and by marker models, on mpnet-science-c, odds tuned", "scierc-marked", ""),
    ("SciERC", "… and a second round, by these", "scierc-marked-twice", "no gain"),
    ("SciERC", "`best`, 30 epochs, on mpnet-science-b", "scierc-try-plain", "what the next are held against"),
    ("SciERC", "30 epochs, `average` (of weights) of 0.995", "scierc-try-average", "no gain: deleted"),
    ("SciERC", "30 epochs, `none_weight` (what ⊥ counts) of 0.5", "scierc-try-none-weight", "no gain: deleted"),
    ("SciERC", "30 epochs, `focal` cells, γ = 1", "scierc-try-focal", "no gain: deleted"),
    ("SciERC", "30 epochs, `distances` of words up to 16", "scierc-try-distances", "no gain: deleted"),
    ("SciERC", "30 epochs, `consistency` (R-Drop) of 1", "scierc-try-consistency", "no gain: deleted"),
    ("SciERC", "30 epochs, `adversarial` steps (FGM) of 0.5", "scierc-try-adversarial", "no gain, slower: deleted"),
    ("SciERC", "30 epochs, `pooling` of a word's tokens by their mean", "scierc-try-pooling-mean", "no gain: deleted"),
    ("SciERC", "30 epochs, `pooling` by their maximum", "scierc-try-pooling-max", "+1.8 in sum, within seeds: deleted"),
    ("SciERC", "30 epochs, `mean` over all cells of a batch", "scierc-try-mean-batch", "no gain"),
    ("SciERC", "30 epochs, no `symmetry` and `implication`", "scierc-try-no-losses", "no difference"),
    ("SciERC", "30 epochs, `case_marks`", "scierc-try-marks", "no gain"),
    ("SciERC", "30 epochs, `d` of 300", "scierc-try-d-300", "no gain"),
    ("SciERC", "30 epochs, `beta2` of 0.999", "scierc-try-beta2", "no gain"),
    ("SciERC", "30 epochs, rate 2e-4", "scierc-try-lr-2e-4", "no gain"),
    ("SciERC", "30 epochs, rate 5e-5", "scierc-try-lr-5e-5", "worse"),
    ("SciERC", "30 epochs, `layer_decay` of 0.9", "scierc-try-layer-decay", "worse"),
    ("SciERC", "30 epochs, batches of 16", "scierc-try-batch-16", "no gain"),
    ("SciERC", "30 epochs, head's rate 1e-3", "scierc-try-head-lr-1e-3", "no gain"),
    ("SciERC", "… with `beta2` of 0.999 and `warmup` of 0.1", "scierc-try-quick", "no gain"),
    ("SciERC", "… and with batches of 16", "scierc-try-quick-batch-16", "no gain"),
    ("CoNLL04", "`best`, 50 epochs, on mpnet-science", "conll04-try-plain", "what the next are held against"),
    ("CoNLL04", "50 epochs, `case_marks`", "conll04-try-marks", "kept"),
    ("CoNLL04", "50 epochs, `case_marks`, type `constraints`", "conll04-try-marks-constraints", "no gain: an option"),
    ("CoNLL04", "50 epochs, `case_marks`, batches of 16", "conll04-try-marks-batch-16", "no gain"),
    ("CoNLL04", "50 epochs, `case_marks`, rate 5e-5", "conll04-try-marks-lr-5e-5", "no gain"),
    ("CoNLL04", "60 epochs, `case_marks`, `window=0`, on mpnet-news, odds tuned", r"conll04-best-4\d", "kept"),
    ("CoNLL04", "… odds not tuned, on four batches of other runs", r"conll04-best-[123]?\d", ""),
    ("CoNLL04", "… odds tuned, on mpnet-news-f, by `likely`", "conll04-best-likely", "kept"),
    ("CoNLL04", "soft labels by these five and by marker models, by `likely`", "conll04-marked", "+4.5 in sum: kept"),
    ("CoNLL04", "`best` once more, on mpnet-news-g, by `likely`", "conll04-best-g", "+1.7 in sum: undecided"),
    ("CoNLL04", "… and on mpnet-news-h, by `likely`", "conll04-best-h", ""),
    ("CoNLL04", "soft labels by these five alone", "conll04-unmarked", "+2.9 in sum"),
    ("CoNLL04", "soft labels by these five and by marker models", "conll04-marked-h", "+4.5 in sum: kept"),
    ("ADE", "20 epochs, on mpnet-science-d, folds 1 to 3", "ade-try-plain", "what the next is held against"),
    ("ADE", "20 epochs, `case_marks`, the same folds", "ade-try-marks", "+1.1 in sum: undecided"),
    ("ADE", "20 epochs, on mpnet-science-d, all ten folds, by `split`", "ade-best-d-fold", ""),
    ("ADE", "… on mpnet-science-f, by `likely`", "ade-best-likely-fold", "+0.6 in sum: undecided"),
)


def records_of(stage: str) -> list[dict[str, Any]]:
    """What was written down of every run of a stage."""
    files = [file for file in RESULTS.glob("*.json") if re.fullmatch(rf"{stage}(-\d+)?", file.stem)]
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(files)]


def scores_of(stage: str, split: str) -> list[dict[str, Any]]:
    """The scores of every run of a stage."""
    return [record["scores"][split] for record in records_of(stage) if split in record.get("scores", {})]


def cells(scores: Sequence[dict[str, Any]], measures: Iterable[tuple[str, str]] = MEASURES) -> list[str]:
    """Means over runs in percent, F1 with its deviation."""
    written = []
    for kind, measure in measures:
        values = [100 * score[kind][measure] for score in scores]
        deviation = f" ± {stdev(values):.1f}" if measure == "f1" and len(values) > 1 else ""
        written.append(f"{mean(values):.1f}{deviation}")
    return written


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def scores_table(rows: Sequence[Row], data: str = "") -> str:
    head = ("model", "encoder", "runs", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1")
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
            lines.append((row.title, row.encoder, str(len(records)), *counted))
    return table(("model", "encoder", "runs", *(name.removesuffix(", micro") for name in names)), lines)


def published(data: str) -> list[tuple[str, ...]]:
    return [(f"*{name}*", f"*{encoder}*", *rest) for name, encoder, *rest in PUBLISHED.get(data, ())]


def folds_table() -> str:
    """ADE: macro averages of each fold, and their means and deviations over folds."""
    head = ("model", "encoder", "sentences", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1")
    (first,) = records_of("ade-best")
    (means,) = (row for row in first["mean"] if row["average"] == "macro")
    rows = [("preset `best`, 20 epochs, odds not tuned", "mpnet-science-b", "all", means)]
    for decoder, encoder, stage in (
        ("split", "mpnet-science-d", "ade-best-d-counted"),
        ("likely", "mpnet-science-f", "ade-best-likely-counted"),
    ):
        (counted,) = records_of(stage)
        whole, parted = counted["protocols"].values()
        without = f"without {parted['dropped']} that have overlapping entities"
        rows += [
            (f"preset `best`, 20 epochs, by `{decoder}`", encoder, "all", whole),
            ("… the same models", encoder, without, parted),
        ]
    ours = [(*about, *(_over_folds(scores, kind, rate) for kind, rate in MEASURES)) for *about, scores in rows]
    return table(head, [*ours, *published("ade")])


def _over_folds(means: dict[str, Any], kind: str, rate: str) -> str:
    deviation = f" ± {100 * means[kind]['deviation']:.1f}" if rate == "f1" else ""
    return f"{100 * means[kind][rate]:.1f}{deviation}"


def tried_table() -> str:
    f1 = (("entities", "f1"), ("relations", "f1"))
    rows = [
        (data, what, str(len(scores)), *cells(scores, f1), verdict)
        for data, what, stage, verdict in TRIED
        if (scores := scores_of(stage, "dev"))
    ]
    return table(("data", "what", "runs", "dev Ent F1", "dev Rel F1", ""), rows)


def decoders_table() -> str:
    f1 = (("entities", "f1"), ("relations", "f1"))
    rows = []
    for what, *stages in DECODERS:
        for decoder, stage in zip(("split", "likely"), stages, strict=True):
            scores = (cells(scores_of(stage, part), f1) for part in ("dev", "test"))
            rows.append(
                (what if decoder == "split" else "", f"`{decoder}`", *(cell for part in scores for cell in part))
            )
    return table(("model", "decoder", "dev Ent F1", "dev Rel F1", "test Ent F1", "test Rel F1"), rows)


def study_tables(name: str) -> str:
    """The tables of a study with its charts, if it was run."""
    result = load_result(RESULTS / "studies", name)
    if result is None:
        return "Not measured yet.\n"
    charts = [f"![{chart}](studies/{chart}.svg)\n" for chart in STUDIES[name].charts(result)]
    tables = [f"{made.title}:\n\n{table(made.columns, made.rows)}" for made in STUDIES[name].tables(result)]
    return "\n".join([*tables, *charts])


def updated(page: str) -> str:
    """A page with every table made anew."""
    tables = {
        "scierc": scores_table(SCIERC, "scierc"),
        "scierc-more": scores_table(SCIERC_MORE),
        "conll04": scores_table(CONLL04, "conll04"),
        "conll04-more": scores_table(CONLL04_MORE),
        "protocols": protocols_table((*SCIERC, *SCIERC_MORE)),
        "ade": folds_table(),
        "decoders": decoders_table(),
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
