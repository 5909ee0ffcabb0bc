"""Write the tables of the pages about results from the records in `results/`.

    python recipes/tables.py

A row is the mean over its runs, with the standard deviation if there are several. Rows of bundled models have 95%
bootstrap intervals. Everything between the marks `<!-- name -->` and `<!-- end -->` is written by this script. A test
checks that it is up to date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from unire import list_models
from unire.studies.report import STUDIES
from unire.studies.results import load_result

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "results"
PAGES = ("../README.md", "results/index.md", "lab-notes/accuracy.md", "lab-notes/studies.md")
MEASURES = tuple((kind, measure) for kind in ("entities", "relations") for measure in ("precision", "recall", "f1"))


F1 = (("entities", "f1"), ("relations", "f1"))


@dataclass(frozen=True)
class Row:
    """A row of our own scores. The names of its records begin with `stage`, a regular expression."""

    title: str
    encoder: str
    stage: str


# Headline rows: dev chose each of them

SCIERC_HEADLINE = (
    Row("`science`, bundled", "33M, adapted, int8", "science-test"),
    Row(
        "best on dev: soft labels from larger models and marker models", "MPNet-base, adapted", "scierc-marked-e-likely"
    ),
    Row("preset `best`, no soft labels", "MPNet-base, adapted", "scierc-best-e-split-then-likely"),
    Row("preset `paper`, stopped after 40 of 300 epochs", "MPNet-base", "scierc-paper"),
)
CONLL04_HEADLINE = (
    Row("`news`, bundled", "33M, adapted, int8", "news-test"),
    Row(
        "best on dev: soft labels from larger models and marker models",
        "MPNet-base, adapted",
        "conll04-marked(-h)?",
    ),
    Row("preset `best`, no soft labels", "MPNet-base, adapted", "conll04-best-(likely|g|h)"),
)
CONLL04_HEADLINE_WITH_DEV = (
    Row("soft labels, trained on train and dev", "MPNet-base, adapted", "conll04-marked-train-and-dev"),
    Row(
        "preset `best`, trained on train and dev",
        "MPNet-base, adapted",
        "conll04-train-and-dev-likely(-h)?",
    ),
)
PUBLISHED_HEADLINE = {
    "scierc": (
        ("UniRE, the paper", "SciBERT", "68.4", "36.9"),
        ("PURE, as cited by UniRE", "SciBERT", "68.2", "36.7"),
        ("PURE, its README (cross-sentence)", "SciBERT", "69.5", "37.7"),
        ("PFN", "SciBERT", "66.8", "38.4"),
        ("PL-Marker", "SciBERT", "69.9", "41.6"),
        ("HGERE", "SciBERT", "about 74.9, not verified", "43.9"),
    ),
    "conll04": (
        ("SpERT, trained on train and dev", "BERT-base, cased", "88.9", "71.5"),
        ("SpERT with an LSTM, as reimplemented in eznlp", "RoBERTa-base", "89.2", "75.0"),
        ("PFN", "ALBERT-xxlarge", "89.6", "75.0"),
        ("ASP", "3B parameters", "90.3", "76.3"),
        ("USM", "over 110M parameters", "", "78.8"),
    ),
}
BUNDLED = {"science": "SciERC", "news": "CoNLL04"}
SPEED = {
    "science": ("extraction-cpu", "extraction-gpu-science"),
    "news": ("extraction-cpu-models", "extraction-gpu-news"),
}
"""The records of the speed on a CPU and on a GPU."""
RATES = ("sentences/s, two CPU cores", "sentences/s, one H200")

# Lab notes

SCIERC = (
    Row("preset `paper`, 40 epochs", "mpnet", "scierc-paper"),
    Row("preset `released`, 40 epochs", "mpnet", "scierc-released"),
    Row("preset `best`, decoder `split`", "mpnet-science-c", r"scierc-best-[34]\d"),
    Row("preset `best`, decoder `split`", "mpnet-science-e", "scierc-best-e-split"),
    Row("the same five models, decoder `likely`", "mpnet-science-e", "scierc-best-e-split-then-likely"),
    Row("preset `best`, tuned with `likely`; four of five seeds", "mpnet-science-e", "scierc-best-e-likely"),
    Row("self-training with five models, `split`", "mpnet-science-c", "scierc-self-trained-c"),
    Row(
        "soft labels from five models and three marker models, `split`: **chosen on test**",
        "mpnet-science-c",
        "scierc-marked",
    ),
    Row(
        "soft labels from five models and three marker models, `likely`: best on dev",
        "mpnet-science-e",
        "scierc-marked-e-likely",
    ),
    Row("`science` before quantization", "gte-science, 33M", "scierc-small"),
    Row("`science`, int8, `split`", "gte-science, 33M", "science-split"),
    Row("`science` as bundled: int8, `likely`; CPU without VNNI", "gte-science, 33M", "science"),
    Row("`science` as bundled: int8, `likely`; CPU with VNNI", "gte-science, 33M", "science-test"),
    Row("`science` rebuilt in one run: int8, `likely`", "gte-science-e, 33M", "science-e"),
)
SCIERC_MORE = (
    Row("preset `best`, relation odds not tuned", "mpnet-science", r"scierc-best-\d"),
    Row("preset `best`, relation odds not tuned", "mpnet-science-b", r"scierc-best-[12]\d"),
    Row("self-training with five models, relation odds not tuned", "mpnet-science", "scierc-self-trained"),
    Row("self-training with five models, relation odds not tuned", "mpnet-science-b", "scierc-self-trained-b"),
    Row("second round: soft labels from the five students of marker models", "mpnet-science-c", "scierc-marked-twice"),
)
DECODERS = (
    ("preset `best`, five seeds, epochs chosen with `split`", "scierc-best-e-split", "scierc-best-e-split-then-likely"),
    (
        "soft labels from marker models, five seeds, epochs chosen with `likely`",
        "scierc-marked-e-likely-then-split",
        "scierc-marked-e-likely",
    ),
    ("`science`", "science-by-split", "science"),
    ("`news` (CoNLL04)", "news-by-split", "news"),
)
"""The same weights decoded with `split` and with `likely`."""
CONLL04 = (
    Row("preset `best` with `case_marks`, `split`", "mpnet-news", r"conll04-best-4\d"),
    Row("preset `best` with `case_marks`, `likely`", "mpnet-news-f", "conll04-best-likely"),
    Row("preset `best` with `case_marks`, `likely`", "mpnet-news-g", "conll04-best-g"),
    Row("preset `best` with `case_marks`, `likely`", "mpnet-news-h", "conll04-best-h"),
    Row("soft labels from five models, `likely`", "mpnet-news-h", "conll04-unmarked"),
    Row("soft labels from five models and three marker models, `likely`", "mpnet-news-f", "conll04-marked"),
    Row("soft labels from five models and three marker models, `likely`", "mpnet-news-h", "conll04-marked-h"),
    Row("train and dev: preset `best`, `split`, α = 1.25", "mpnet-news, another", r"conll04-train-and-dev-\d"),
    Row(
        "train and dev: preset `best`, `split`, α = 1.2, relation odds = 4", "mpnet-news", r"conll04-train-and-dev-1\d"
    ),
    Row(
        "train and dev: preset `best`, `likely`, α = 1, relation odds = 4",
        "mpnet-news-g",
        "conll04-train-and-dev-likely",
    ),
    Row(
        "train and dev: preset `best`, `likely`, α = 1, relation odds = 4",
        "mpnet-news-h",
        "conll04-train-and-dev-likely-h",
    ),
    Row("train and dev: self-training with five models, `split`", "mpnet-news, the third", "conll04-self-trained"),
    Row(
        "train and dev: soft labels from five models and three marker models, `likely`, α = 1.5, relation odds = 1.5",
        "mpnet-news-h",
        "conll04-marked-train-and-dev",
    ),
    Row("`news` before quantization", "gte-news, 33M", "conll04-small"),
    Row("`news`, int8, `split`", "gte-news, 33M", "news-split"),
    Row("`news` as bundled: int8, `likely`; CPU without VNNI", "gte-news, 33M", "news"),
    Row("`news` as bundled: int8, `likely`; CPU with VNNI", "gte-news, 33M", "news-test"),
    Row("`news` rebuilt with soft labels on all news sentences: int8, `likely`", "gte-news-f, 33M", "news-marked"),
    Row("`news` rebuilt in one run: int8, `likely`", "gte-news-h, 33M", "news-h"),
)
CONLL04_MORE = (
    Row("preset `best` with `case_marks`, relation odds not tuned", "mpnet-news, a first", r"conll04-best-\d"),
    Row("preset `best` with `case_marks`, relation odds not tuned", "mpnet-news, a second", r"conll04-best-1\d"),
    Row("preset `best` with `case_marks`, relation odds not tuned", "mpnet-news, a third", r"conll04-best-2\d"),
    Row("the same with MPNet's position bias frozen", "mpnet-news, the third", r"conll04-best-3\d"),
)
PUBLISHED = {
    "scierc": (
        ("UniRE (the paper), doubled", "SciBERT", "", "65.8", "71.1", "68.4", "37.3", "36.6", "36.9"),
        ("PURE, as cited by UniRE, as-annotated", "SciBERT", "", "", "", "68.2", "", "", "36.7"),
        ("PURE, its README, as-annotated", "SciBERT", "", "67.6", "71.4", "69.5", "36.2", "39.3", "37.7"),
        ("PFN", "SciBERT", "", "", "", "66.8", "", "", "38.4"),
        ("PL-Marker, doubled", "SciBERT", "", "", "", "69.9", "", "", "41.6"),
        ("HGERE, doubled", "SciBERT", "", "", "", "about 74.9, not verified", "", "", "43.9"),
    ),
    "conll04": (
        ("SpERT", "BERT-base, cased", "", "", "", "88.9", "", "", "71.5"),
        ("PFN", "ALBERT-xxlarge", "", "", "", "89.6", "", "", "75.0"),
        ("ASP", "3B parameters", "", "", "", "90.3", "", "", "76.3"),
        ("USM", "over 110M parameters", "", "", "", "", "", "", "78.8"),
    ),
    "ade": (
        ("SpERT", "BERT-base, cased", "without overlapping entities", "", "", "89.25", "", "", "79.24"),
        ("SpERT", "BERT-base, cased", "all", "", "", "89.28", "", "", "78.84"),
        ("PFN", "ALBERT-xxlarge", "", "", "", "91.3", "", "", "83.2"),
        ("SpERT.PL", "BioBERT", "without overlapping entities", "", "", "91.1", "", "", "82.4"),
        ("ASpERT", "about 110M parameters", "", "", "", "", "", "", "82.8"),
        ("ITER", "FLAN-T5, 3B parameters", "", "", "", "92.6", "", "", "85.6"),
    ),
}
TRIED = (
    ("SciERC", "`best`, 60 epochs, on mpnet-science-e, relation odds tuned", "scierc-best-e-split", ""),
    ("SciERC", "the same weights, decoder `likely`", "scierc-best-e-split-then-likely", "+2.7 in sum: kept"),
    ("SciERC", "epochs chosen with `likely` too", "scierc-best-e-likely", "kept"),
    ("SciERC", "`best`, 60 epochs, on mpnet-science-c, relation odds tuned", r"scierc-best-[34]\d", ""),
    ("SciERC", "`best`, 60 epochs, on mpnet-science-b", r"scierc-best-[12]\d", ""),
    ("SciERC", "`best`, 120 epochs, on mpnet-science-b", "scierc-try-long", "+1.5 in sum: undecided"),
    ("SciERC", "`best` with `layout=in-place`, on mpnet-science-b", "scierc-try-in-place", "no gain, slower"),
    ("SciERC", "`best`, 60 epochs, on mpnet-science", r"scierc-best-\d", ""),
    ("SciERC", "self-training with five models, on mpnet-science-c, odds tuned", "scierc-self-trained-c", "kept"),
    ("SciERC", "self-training with five models, on mpnet-science-b", "scierc-self-trained-b", ""),
    ("SciERC", "self-training with five models, on mpnet-science", "scierc-self-trained", ""),
    (
        "SciERC",
        "self-training with one self-trained model, on mpnet-science",
        "scierc-self-trained-by-one",
        "undecided",
    ),
    (
        "SciERC",
        "soft labels from five models and marker models, on mpnet-science-e, `likely`",
        "scierc-marked-e-likely",
        "kept",
    ),
    ("SciERC", "the same weights, `split`", "scierc-marked-e-likely-then-split", ""),
    ("SciERC", "soft labels from five models and marker models, on mpnet-science-c, odds tuned", "scierc-marked", ""),
    ("SciERC", "a second round, with these as teachers", "scierc-marked-twice", "no gain"),
    ("SciERC", "`best`, 60 epochs, on mpnet-science-i, `likely`", "scierc-best-i", "baseline of the next three rows"),
    ("SciERC", "convolutions over bilinear cell features", "scierc-convolutions-bilinear", "no gain: not added"),
    ("SciERC", "convolutions over products of word features", "scierc-convolutions-product", "no gain: not added"),
    ("SciERC", "convolutions over the scores", "scierc-convolutions-scores", "no gain: not added"),
    ("SciERC", "soft labels from six of these and marker models", "scierc-marked-i", "baseline of the next row"),
    ("SciERC", "the same, student with convolutions", "scierc-convolutions-taught", "no gain: not added"),
    ("SciERC", "`best`, 30 epochs, on mpnet-science-b", "scierc-try-plain", "baseline of the next rows"),
    ("SciERC", "30 epochs, `average` (of weights) = 0.995", "scierc-try-average", "no gain: deleted"),
    ("SciERC", "30 epochs, `none_weight` (weight of ⊥) = 0.5", "scierc-try-none-weight", "no gain: deleted"),
    ("SciERC", "30 epochs, `focal` loss, γ = 1", "scierc-try-focal", "no gain: deleted"),
    ("SciERC", "30 epochs, word `distances` up to 16", "scierc-try-distances", "no gain: deleted"),
    ("SciERC", "30 epochs, `consistency` (R-Drop) = 1", "scierc-try-consistency", "no gain: deleted"),
    ("SciERC", "30 epochs, `adversarial` steps (FGM) of 0.5", "scierc-try-adversarial", "no gain, slower: deleted"),
    ("SciERC", "30 epochs, mean `pooling` of a word's tokens", "scierc-try-pooling-mean", "no gain: deleted"),
    ("SciERC", "30 epochs, max `pooling`", "scierc-try-pooling-max", "+1.8 in sum, within seeds: deleted"),
    ("SciERC", "30 epochs, `mean` over all cells of a batch", "scierc-try-mean-batch", "no gain"),
    ("SciERC", "30 epochs, no `symmetry` and no `implication`", "scierc-try-no-losses", "no difference"),
    ("SciERC", "30 epochs, `case_marks`", "scierc-try-marks", "no gain"),
    ("SciERC", "30 epochs, `d` = 300", "scierc-try-d-300", "no gain"),
    ("SciERC", "30 epochs, `beta2` = 0.999", "scierc-try-beta2", "no gain"),
    ("SciERC", "30 epochs, learning rate 2e-4", "scierc-try-lr-2e-4", "no gain"),
    ("SciERC", "30 epochs, learning rate 5e-5", "scierc-try-lr-5e-5", "worse"),
    ("SciERC", "30 epochs, `layer_decay` = 0.9", "scierc-try-layer-decay", "worse"),
    ("SciERC", "30 epochs, batch size 16", "scierc-try-batch-16", "no gain"),
    ("SciERC", "30 epochs, learning rate of the head 1e-3", "scierc-try-head-lr-1e-3", "no gain"),
    ("SciERC", "the same with `beta2` = 0.999 and `warmup` = 0.1", "scierc-try-quick", "no gain"),
    ("SciERC", "the same with batch size 16", "scierc-try-quick-batch-16", "no gain"),
    ("CoNLL04", "`best`, 50 epochs, on mpnet-science", "conll04-try-plain", "baseline of the next rows"),
    ("CoNLL04", "50 epochs, `case_marks`", "conll04-try-marks", "kept"),
    ("CoNLL04", "50 epochs, `case_marks`, type `constraints`", "conll04-try-marks-constraints", "no gain: an option"),
    ("CoNLL04", "50 epochs, `case_marks`, batch size 16", "conll04-try-marks-batch-16", "no gain"),
    ("CoNLL04", "50 epochs, `case_marks`, learning rate 5e-5", "conll04-try-marks-lr-5e-5", "no gain"),
    ("CoNLL04", "60 epochs, `case_marks`, `window=0`, on mpnet-news, odds tuned", r"conll04-best-4\d", "kept"),
    ("CoNLL04", "four earlier batches of runs, odds not tuned", r"conll04-best-[123]?\d", ""),
    ("CoNLL04", "odds tuned, on mpnet-news-f, `likely`", "conll04-best-likely", "kept"),
    ("CoNLL04", "soft labels from these five and marker models, `likely`", "conll04-marked", "+4.5 in sum: kept"),
    ("CoNLL04", "`best` again, on mpnet-news-g, `likely`", "conll04-best-g", "+1.7 in sum: undecided"),
    ("CoNLL04", "`best` again, on mpnet-news-h, `likely`", "conll04-best-h", ""),
    ("CoNLL04", "soft labels from these five only", "conll04-unmarked", "+2.9 in sum"),
    ("CoNLL04", "soft labels from these five and marker models", "conll04-marked-h", "+4.5 in sum: kept"),
    ("ADE", "20 epochs, on mpnet-science-d, folds 1 to 3", "ade-try-plain", "baseline of the next row"),
    ("ADE", "20 epochs, `case_marks`, the same folds", "ade-try-marks", "+1.1 in sum: undecided"),
    ("ADE", "20 epochs, on mpnet-science-d, all ten folds, `split`", "ade-best-d-fold", ""),
    ("ADE", "20 epochs, on mpnet-science-f, all ten folds, `likely`", "ade-best-likely-fold", "+0.6 in sum: undecided"),
)


def records_of(stage: str) -> list[dict[str, Any]]:
    """The record of every run of a stage."""
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


def bundled_table() -> str:
    """The bundled models: data, scores on test, size and speed."""
    sizes = {model.name: f"{model.bytes / 1e6:.1f} MB" for model in list_models()}
    rows = [
        (f"`{name}`", data, *f1_cells(f"{name}-test"), sizes[name], *map(describe_rate, SPEED[name]))
        for name, data in BUNDLED.items()
    ]
    return table(("model", "data", "Ent F1", "Rel F1", "size", "sentences/s, CPU", "sentences/s, GPU"), rows)


def models_table() -> str:
    """The same with the labels, a column per model."""
    models = {model.name: model for model in list_models()}
    columns = [
        (
            ", ".join(models[name].labels.entity_types),
            ", ".join(models[name].labels.relation_types),
            data,
            *f1_cells(f"{name}-test"),
            f"{models[name].bytes / 1e6:.1f} MB",
            *map(describe_rate, SPEED[name]),
        )
        for name, data in BUNDLED.items()
    ]
    titles = ("entity types", "relation types", "data", "Ent F1", "Rel F1", "size", *RATES)
    return table(("", *(f"`{name}`" for name in BUNDLED)), list(zip(titles, *columns, strict=True)))


def labels_table() -> str:
    types = {model.name: (model.labels.entity_types, model.labels.relation_types) for model in list_models()}
    rows = [(f"`{name}`", *(", ".join(kind) for kind in types[name])) for name in BUNDLED]
    return table(("model", "entity types", "relation types"), rows)


def describe_rate(name: str) -> str:
    """The sentences per second in a record of `benchmarks/extraction.py`. A ratio to `science` gives an estimate."""
    (record,) = records_of(name)
    if "ratio to science" in record:
        (science,) = records_of("extraction-cpu")
        return f"{record['ratio to science'] * science['ours']:.0f}, estimated"
    return next(f"{value:,.0f}" for key, value in record.items() if key == "ours" or key.endswith("sentences/s"))


def headline_table(rows: Sequence[Row], data: str) -> str:
    ours = [(row.title, row.encoder, str(len(records_of(row.stage))), *f1_cells(row.stage)) for row in rows]
    others = [(f"*{name}*", f"*{encoder}*", "", *scores) for name, encoder, *scores in PUBLISHED_HEADLINE[data]]
    return table(("system", "encoder", "runs", "Ent F1", "Rel F1"), [*ours, *others])


def headline_folds_table() -> str:
    ours = [
        ("preset `best`: best on dev", "MPNet-base, adapted", sentences, *(_over_folds(counted, *key) for key in F1))
        for sentences, counted in counted_folds("ade-best-likely-counted")
    ]
    others = [
        ("*SpERT*", "*BERT-base, cased*", "without overlapping entities", "89.25", "79.24"),
        ("*SpERT*", "*BERT-base, cased*", "all", "89.28", "78.84"),
        ("*PFN*", "*ALBERT-xxlarge*", "", "91.3", "83.2"),
        ("*SpERT.PL*", "*BioBERT*", "without overlapping entities", "91.1", "82.4"),
        ("*ASpERT*", "*about 110M parameters*", "", "", "82.8"),
        ("*ITER*", "*FLAN-T5, 3B parameters*", "", "92.6", "85.6"),
    ]
    return table(("system", "encoder", "sentences", "Ent F1", "Rel F1"), [*ours, *others])


def counting_table() -> str:
    """Relations of `science` on test under every protocol, and as PURE counts them."""
    (record,) = records_of("science-test")
    relations = tuple((kind, measure) for kind, measure in MEASURES if kind == "relations")
    rows = [(name.removesuffix(", micro"), *cells([scores], relations)) for name, scores in record["protocols"].items()]
    rows.append(
        (
            "strict, as-annotated, predicted pairs written once: PURE",
            *cells(scores_of("science-test-pairs-once", "test"), relations),
        )
    )
    return table(("protocol", "Rel P", "Rel R", "Rel F1"), rows)


def repeated_table() -> str:
    """`news` on all test sentences, and on those that are not in train or dev."""
    return table(
        ("test sentences", "Ent F1", "Rel F1"),
        [
            ("all 288", *f1_cells("news-test")),
            ("263 without a copy or a near copy in train or dev", *f1_cells("news-test-without-repeated")),
        ],
    )


def f1_cells(stage: str) -> list[str]:
    """F1 on test with its 95% bootstrap interval, if the record has one; else the mean and deviation over runs."""
    records = records_of(stage)
    if "intervals" not in records[0]:
        return cells(scores_of(stage, "test"), F1)
    (record,) = records
    return [
        "{value:.1f} [{low:.1f}, {high:.1f}]".format(
            **{bound: 100 * record["intervals"][kind][measure][bound] for bound in ("value", "low", "high")}
        )
        for kind, measure in F1
    ]


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
    rows = [("preset `best`, 20 epochs, relation odds not tuned", "mpnet-science-b", "all", means)]
    for decoder, encoder, stage in (
        ("split", "mpnet-science-d", "ade-best-d-counted"),
        ("likely", "mpnet-science-f", "ade-best-likely-counted"),
    ):
        for sentences, counted in counted_folds(stage):
            rows.append((f"preset `best`, 20 epochs, `{decoder}`", encoder, sentences, counted))
    ours = [(*about, *(_over_folds(scores, kind, rate) for kind, rate in MEASURES)) for *about, scores in rows]
    return table(head, [*ours, *published("ade")])


def counted_folds(stage: str) -> list[tuple[str, dict[str, Any]]]:
    """The scores of the models of ten folds on all sentences, and without those with overlapping entities."""
    (record,) = records_of(stage)
    every, without = record["protocols"].values()
    return [("all", every), (f"without {without['dropped']} with overlapping entities", without)]


def _over_folds(means: dict[str, Any], kind: str, rate: str) -> str:
    deviation = f" ± {100 * means[kind]['deviation']:.1f}" if rate == "f1" else ""
    return f"{100 * means[kind][rate]:.1f}{deviation}"


def tried_table() -> str:
    rows = [
        (data, what, str(len(scores)), *cells(scores, F1), verdict)
        for data, what, stage, verdict in TRIED
        if (scores := scores_of(stage, "dev"))
    ]
    return table(("data", "what", "runs", "dev Ent F1", "dev Rel F1", ""), rows)


def decoders_table() -> str:
    rows = []
    for what, *stages in DECODERS:
        for decoder, stage in zip(("split", "likely"), stages, strict=True):
            scores = (cells(scores_of(stage, part), F1) for part in ("dev", "test"))
            rows.append(
                (what if decoder == "split" else "", f"`{decoder}`", *(cell for part in scores for cell in part))
            )
    return table(("model", "decoder", "dev Ent F1", "dev Rel F1", "test Ent F1", "test Rel F1"), rows)


def study_tables(name: str) -> str:
    """The tables and charts of a study, if it was run."""
    result = load_result(RESULTS / "studies", name)
    if result is None:
        return "Not measured yet.\n"
    charts = [f"![{chart}](charts/{chart}.svg)\n" for chart in STUDIES[name].charts(result)]
    tables = [f"{made.title}:\n\n{table(made.columns, made.rows)}" for made in STUDIES[name].tables(result)]
    return "\n".join([*tables, *charts])


def updated(page: str) -> str:
    """A page with up-to-date tables."""
    tables = {
        "bundled": bundled_table(),
        "models": models_table(),
        "labels": labels_table(),
        "headline-scierc": headline_table(SCIERC_HEADLINE, "scierc"),
        "headline-conll04": headline_table((*CONLL04_HEADLINE, *CONLL04_HEADLINE_WITH_DEV), "conll04"),
        "headline-ade": headline_folds_table(),
        "counting": counting_table(),
        "repeated": repeated_table(),
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
