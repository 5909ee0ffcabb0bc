"""The stages of a rebuild: a command of `unire` for every model and for every row of the test scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HELD", "SCRIPTS", "Parts", "Stage", "plan"]

SCRIPTS = ("fill_labels", "general_data", "score_folds", "select_related", "select_similar", "take_first")
"""Stages that are scripts in this folder instead of commands of `unire`."""

REBUILD = "python recipes/reproduce.py"
WHERE = "--encoders ENCODERS --data DATA --corpus CORPUS --work WORK"

TEACHERS = "The larger models are based on all-mpnet-base-v2 (Apache 2.0). None of the texts is included in the model."
ABOUT = {
    "science": (
        "science: entities and relations in scientific abstracts",
        "Finds tasks, methods, metrics, materials and other scientific terms in abstracts, and seven relations between "
        "them. Trained on the training part of SciERC (Luan et al., 2018; its authors state no licence), and on soft "
        "labels of larger models for unlabelled abstracts. These are from the ACL Anthology, conferences on artificial "
        f"intelligence and arXiv. {TEACHERS}",
    ),
    "news": (
        "news: people, places and organisations in news",
        "Finds people, places, organisations and other names, and five relations between them: Live_In, Work_For, "
        "Kill, Located_In and OrgBased_In. Trained on the training part of CoNLL04 (Roth & Yih, 2004), and on soft "
        f"labels of larger models for unlabelled news from Reuters-21578 and the BBC. {TEACHERS}",
    ),
    "general": (
        "general: people, organisations, places, dates and works in everyday text",
        "Finds people, organisations, places, dates, numbers and other names, such as works and events, and 42 "
        "relations between them: born_in, spouse, works_for, founded_by, located_in, created_by and others. Trained on "
        "Wikipedia introductions from the training part of Re-DocRED (Tan et al., 2022; MIT), on news sentences from "
        "the training part of CoNLL04 (Roth & Yih, 2004), and on soft labels of larger models for unlabelled news and "
        f"press releases. {TEACHERS}",
    ),
}
"""Titles and descriptions of the bundled models, for their cards."""


FULL = "--epochs 300 --patience 50"
"""The schedule of the paper."""
SMALL = "--lr 3e-4 --head-lr 1e-3 --epochs 250 --set evaluate_every=10 --set max_table=128"
"""How the bundled models are trained, except for the time limit."""

GENERAL_DATA = "general-data"
"""The stage that makes the data of `general`."""
GENERAL = {
    "general-evidence": ("evidence",),
    "general-all": ("all",),
    "general": ("all", "conll04-filled.jsonl"),
}
"""Data in the label space of `general`: a folder of `general-data`, and more training files from the work folder."""

HELD = {
    "encoders": "holds `mpnet` (all-mpnet-base-v2) and `gte-small`, as folders",
    "data": "holds `scierc`, `conll04` and `redocred` (train, dev and test.json) and `ade` (ade_full and folds.json)",
    "corpus": "holds `science.txt`, `news.txt` and `public-affairs.txt`, a document per line and none of dev or test "
    "(`drop_overlaps.py` drops them), or as .txt.xz",
    "work": "the output folder of all stages",
}


@dataclass(frozen=True)
class Parts:
    """The input folders, which do not come with the project, and the output folder. `HELD` describes them."""

    encoders: Path
    data: Path
    corpus: Path
    work: Path


@dataclass(frozen=True)
class DataSet:
    """Annotated files and their label space."""

    train: tuple[Path, ...]
    dev: Path
    test: Path
    labels: str
    needs: tuple[str, ...] = ()
    """The stages that make the files."""


@dataclass(frozen=True)
class Stage:
    """One command, and the stages that it needs."""

    name: str
    """Also the name of its output in the work folder."""
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    alone: bool = False
    """It uses the whole GPU. No other stage that needs a GPU runs at the same time."""
    light: bool = False
    """It needs one core and no GPU. It may run at the same time as any stage."""
    test: Path | None = None
    """Test data of a row of the results. The model is scored on it by every protocol."""
    part_of: str = ""
    """The stage to whose output folder it writes, if it has no folder itself."""
    part: str = ""
    """The name of its output in that folder."""


def plan(parts: Parts) -> dict[str, Stage]:
    """All stages by name."""
    build = _Builder(parts)
    return {stage.name: stage for part in (_encoders, _scierc, _conll04, _ade, _general) for stage in part(build)}


@dataclass(frozen=True)
class _Builder:
    """Builds stages of every kind.

    Options are the words of a command line in one string. Students, models and soft labels are named as in the work
    folder, and data as in its own.
    """

    parts: Parts

    @property
    def science(self) -> Path:
        return self._text("science.txt")

    @property
    def news(self) -> Path:
        return self._text("news.txt")

    def _text(self, name: str) -> Path:
        """The path of a text, or of its compressed file if only that exists."""
        text, packed = (self.parts.corpus / end for end in (name, f"{name}.xz"))
        return packed if packed.exists() and not text.exists() else text

    @property
    def public(self) -> Path:
        return self._text("public-affairs.txt")

    def data(self, name: str) -> Path:
        return self.parts.data / name

    def data_set(self, name: str) -> DataSet:
        """The files of `scierc` or `conll04`, or one of `GENERAL`."""
        if name not in GENERAL:
            train, dev, test = (self.data(name) / f"{part}.json" for part in ("train", "dev", "test"))
            return DataSet((train,), dev, test, name)
        folder, *more = GENERAL[name]
        train, dev, test = (
            self.parts.work / GENERAL_DATA / folder / f"{part}.jsonl" for part in ("train", "dev", "test")
        )
        files = (train, *(self.parts.work / file for file in more))
        labels = str(Path(__file__).with_name("general_labels.json"))
        return DataSet(files, dev, test, labels, (GENERAL_DATA, *more))

    def made(self, name: str) -> str:
        return str(self.parts.work / name)

    def adapt(self, name: str, encoder: Path, corpus: Sequence[Path], options: str) -> Stage:
        texts = (word for file in corpus for word in ("--corpus", str(file)))
        command = ("adapt", "--encoder", str(encoder), *texts, *options.split())
        return Stage(name, command, self._needed(encoder), alone=True)

    def train(
        self, name: str, seed: int, encoder: Path, data: str, preset: str, options: str = "", dev: str = "--dev"
    ) -> Stage:
        labels = self.data_set(data).labels
        files = (*self._files(data, dev), "--labels", labels, "--seed", str(seed), "--preset", preset)
        command = ("train", "--encoder", str(encoder), *files, *options.split())
        return Stage(f"{name}-{seed}", command, self._needed(encoder, data=data), test=self._test(data))

    def teach(self, name: str, teachers: Sequence[str], *corpus: Path) -> Stage:
        words = [word for teacher in teachers for word in ("--teacher", self.made(teacher))]
        command = ("teach", *words, *(word for file in corpus for word in ("--corpus", str(file))))
        return Stage(name, command, (*teachers, *self._needed(*corpus)), alone=True)

    def markers(self, name: str, seed: int, encoder: Path, data: str, options: str = "", dev: str = "--dev") -> Stage:
        """A model that names relations between given entities."""
        files = (*self._files(data, dev)[:-2], "--labels", self.data_set(data).labels, "--seed", str(seed))
        command = ("markers", "--encoder", str(encoder), *files, *options.split())
        return Stage(f"{name}-{seed}", command, self._needed(encoder, data=data))

    def relabel(self, name: str, soft_labels: str, markers: Sequence[str]) -> Stage:
        """Soft labels whose relations marker models have relabelled."""
        words = [word for marker in markers for word in ("--markers", self.made(marker))]
        command = ("relabel", "--soft-labels", self.made(soft_labels), *words)
        return Stage(name, command, (soft_labels, *markers), alone=True)

    def distill(
        self, name: str, seed: int, soft_labels: str, student: str, data: str, options: str, dev: str = "--dev"
    ) -> Stage:
        """A student that is distilled from stored soft labels. Several may run at the same time."""
        files = ("--student", self.made(student), *self._files(data, dev), "--preset", "best", "--seed", str(seed))
        files = (*files, *options.split(), "--set", "max_cells=2000000")
        command = ("distill", "--soft-labels", self.made(soft_labels), *files)
        needs = (student, soft_labels, *self.data_set(data).needs)
        return Stage(f"{name}-{seed}", command, needs, test=self._test(data))

    def decode(self, name: str, seed: int, model: str, data: str, decoder: str) -> Stage:
        """A trained model, decoded in another way: only its thresholds are fitted again."""
        files = ("--data", f"{self.data(data)}/dev.json", "--test", str(self._test(data)))
        trained = f"{model}-{seed}"
        command = ("calibrate", self.made(trained), "--tune", "--decoder", decoder, *files)
        return Stage(f"{name}-{seed}", command, (trained,), test=self._test(data))

    def export(self, name: str, model: str, data: str) -> Stage:
        title, description = ABOUT[name]
        about = ("--title", title, "--description", description, "--base", "thenlper/gte-small", "--licence", "MIT")
        rebuild = ("--rebuild", f"{REBUILD} {name} {WHERE}")
        command = ("export", self.made(model), "--test", str(self._test(data)), *about, *rebuild)
        return Stage(name, command, (model,), test=self._test(data))

    def _files(self, data: str, dev: str) -> tuple[str, ...]:
        """With `dev="--data"`, the dev data are training data too."""
        files = self.data_set(data)
        train = (word for file in files.train for word in ("--data", str(file)))
        return (*train, dev, str(files.dev), "--test", str(files.test))

    def _test(self, data: str) -> Path:
        return self.data_set(data).test

    def _needed(self, *paths: Path, data: str = "") -> tuple[str, ...]:
        """The names of those that are stages, and the stages that make the data."""
        needs = self.data_set(data).needs if data else ()
        return (*(path.name for path in paths if path.parent == self.parts.work), *needs)


def _encoders(build: _Builder) -> Iterator[Stage]:
    mpnet, gte = (build.parts.encoders / name for name in ("mpnet", "gte-small"))
    yield build.adapt("mpnet-science", mpnet, [build.science], "--minutes 4 --lr 0.0002")
    yield build.adapt("gte-science", gte, [build.science], "--minutes 2.5 --lr 0.0005")
    adapted = build.parts.work / "mpnet-science"
    yield build.adapt("mpnet-news", adapted, [build.news], "--minutes 1.5 --lr 0.0001 --case-marks")
    yield build.adapt("gte-news", gte, [build.news], "--minutes 1 --lr 0.0005 --case-marks")


def _scierc(build: _Builder) -> Iterator[Stage]:
    yield Stage(
        "near.txt", ("select_similar", str(build.science), f"{build.data('scierc')}/train.json", "45000"), light=True
    )

    plain = build.parts.encoders / "mpnet"
    short = "--epochs 40 --patience 1000 --set evaluate_every=10 --set evaluate_after=0"
    for preset in ("paper", "released"):
        for seed in range(3):
            yield build.train(f"scierc-{preset}", seed, plain, "scierc", preset, short)

    adapted = build.parts.work / "mpnet-science"
    for seed in range(5):
        yield build.train("scierc-paper-adapted", seed, adapted, "scierc", "paper", FULL)
    for seed in range(2):
        yield build.train("scierc-released-adapted", seed, adapted, "scierc", "released", FULL)
        yield build.train("scierc-paper-plain", seed, plain, "scierc", "paper", FULL)
        yield build.train("scierc-released-plain", seed, plain, "scierc", "released", FULL)
    for seed in range(5):
        yield build.train("scierc-best", seed, adapted, "scierc", "best")

    near = build.parts.work / "near.txt"
    yield build.teach("near.soft", [f"scierc-best-{seed}" for seed in range(5)], near)
    student = ("mpnet-science", "scierc", "--epochs 70 --minutes 5")
    for seed in range(5):
        yield build.distill("scierc-self-trained", seed, "near.soft", *student)

    markers = [f"scierc-markers-{seed}" for seed in range(3)]
    for seed in range(3):
        yield build.markers("scierc-markers", seed, adapted, "scierc")
    yield build.relabel("relabelled.soft", "near.soft", markers)
    for seed in range(5):
        yield build.distill("scierc-marked", seed, "relabelled.soft", *student)
    # and once more: the five teachers alone, without relabelling by marker models
    yield build.teach("second.soft", [f"scierc-marked-{seed}" for seed in range(5)], near)
    for seed in range(5):
        yield build.distill("scierc-marked-twice", seed, "second.soft", *student)

    # the same weights with the decoder of the paper
    for seed in range(5):
        yield build.decode("scierc-best-split", seed, "scierc-best", "scierc", "split")
        yield build.decode("scierc-marked-split", seed, "scierc-marked", "scierc", "split")

    small = f"{SMALL} --minutes 5"
    for seed in range(2):
        yield build.distill("scierc-small", seed, "relabelled.soft", "gte-science", "scierc", small)
        # for comparison: the same teachers without marker models
        yield build.distill("scierc-small-unmarked", seed, "near.soft", "gte-science", "scierc", small)
    yield build.export("science", "scierc-small-0", "scierc")


def _conll04(build: _Builder) -> Iterator[Stage]:
    # every sentence of CoNLL04 is a document with relations, so choose such unlabelled sentences
    by_itself = "--set case_marks=true --set window=0"
    adapted = build.parts.work / "mpnet-news"
    for seed in range(5):
        yield build.train("conll04-best", seed, adapted, "conll04", "best", by_itself)
    for seed in range(2):
        yield build.train("conll04-paper", seed, adapted, "conll04", "paper", f"{FULL} {by_itself}")
    teachers = [f"conll04-best-{seed}" for seed in range(5)]
    related = build.parts.work / "related.txt"
    yield Stage("related.txt", ("select_related", str(build.news), build.made(teachers[0])), (teachers[0],))
    yield build.teach("related.soft", teachers, related)
    student = f"{by_itself} --epochs 100 --minutes 5"
    for seed in range(3):
        yield build.distill("conll04-unmarked", seed, "related.soft", "mpnet-news", "conll04", student)

    markers = [f"conll04-markers-{seed}" for seed in range(3)]
    marker = f"{by_itself} --epochs 10"
    for seed in range(3):
        yield build.markers("conll04-markers", seed, adapted, "conll04", marker)
    yield build.relabel("related-relabelled.soft", "related.soft", markers)
    for seed in range(3):
        yield build.distill("conll04-marked", seed, "related-relabelled.soft", "mpnet-news", "conll04", student)

    # like SpERT, train on dev too. α and odds are roughly the geometric means of the values tuned on dev for
    # `conll04-best` and `conll04-marked`
    fixed = "--set alpha={} --set tune_alpha=false --set relation_odds={} --set tune_odds=false"
    both = [f"conll04-train-and-dev-likely-{seed}" for seed in range(5)]
    both_markers = [f"conll04-markers-train-and-dev-{seed}" for seed in range(3)]
    options, learnt = f"{by_itself} {fixed.format(1, 4)}", f"{student} {fixed.format(1.5, 1.5)}"
    for seed in range(5):
        yield build.train("conll04-train-and-dev-likely", seed, adapted, "conll04", "best", options, dev="--data")
    for seed in range(3):
        yield build.markers("conll04-markers-train-and-dev", seed, adapted, "conll04", marker, dev="--data")
    yield build.teach("related-train-and-dev.soft", both, related)
    soft_labels = "related-train-and-dev-relabelled.soft"
    yield build.relabel(soft_labels, "related-train-and-dev.soft", both_markers)
    for seed in range(3):
        name = "conll04-marked-train-and-dev"
        yield build.distill(name, seed, soft_labels, "mpnet-news", "conll04", learnt, dev="--data")

    # texts also have sentences without relations, so add whole articles to the chosen sentences
    articles = build.parts.work / "articles.txt"
    yield Stage("articles.txt", ("take_first", str(build.news), "3500"), light=True)
    yield build.teach("news.soft", teachers, related, articles)
    yield build.relabel("news-relabelled.soft", "news.soft", markers)
    small = f"{SMALL} {by_itself} --minutes 5"
    yield build.distill("conll04-small", 0, "news-relabelled.soft", "gte-news", "conll04", small)
    yield build.export("news", "conll04-small-0", "conll04")


def _ade(build: _Builder) -> Iterator[Stage]:
    data = build.data("ade")
    files = ("--data", f"{data}/ade_full.json", "--folds", f"{data}/folds.json", "--labels", "ade")
    schedule = "--preset best --epochs 20 --set evaluate_after=11 --set evaluate_every=2"
    command = ("train", "--encoder", build.made("mpnet-science"), *files, *schedule.split())
    folds = [f"ade-best-fold-{k}" for k in range(1, 11)]
    for k, name in enumerate(folds, 1):
        fold = (*command, "--fold", str(k))
        yield Stage(name, fold, ("mpnet-science",), part_of="ade-best", part=f"fold-{k:02d}")
    yield Stage("ade-best", (*command, "--resume"), tuple(folds))
    counted = ("score_folds", f"{data}/ade_full.json", f"{data}/folds.json")
    yield Stage("ade-best-counted", counted, tuple(folds), part_of="ade-best")
    command = ("train", "--encoder", build.made("mpnet-science"), *files, "--preset", "paper", *FULL.split())
    for k in range(1, 4):
        fold = (*command, "--fold", str(k))
        yield Stage(f"ade-paper-fold-{k}", fold, ("mpnet-science",), part_of="ade-paper", part=f"fold-{k:02d}")


def _general(build: _Builder) -> Iterator[Stage]:
    yield Stage(GENERAL_DATA, (GENERAL_DATA.replace("-", "_"), str(build.parts.data)), light=True)
    texts = [build.news, build.public]
    mpnet, gte = (build.parts.encoders / name for name in ("mpnet", "gte-small"))
    yield build.adapt("mpnet-general", mpnet, texts, "--minutes 4 --lr 0.0002 --case-marks")
    yield build.adapt("gte-general", gte, texts, "--minutes 2 --lr 0.0005 --case-marks")

    # with and without relations for which the annotators recorded no evidence: dev decides
    adapted = build.parts.work / "mpnet-general"
    first = "--set case_marks=true --epochs 20"
    for part in ("all", "evidence"):
        yield build.train(f"general-{part}", 0, adapted, f"general-{part}", "best", first)

    # CoNLL04 lacks dates, numbers and most relations: fill them in
    filled = ("fill_labels", build.made("general-all-0"), f"{build.made(GENERAL_DATA)}/conll04/train.jsonl", "0.5")
    yield Stage("conll04-filled.jsonl", filled, ("general-all-0", GENERAL_DATA))

    best = [f"general-best-{seed}" for seed in range(4)]
    markers = [f"general-markers-{seed}" for seed in range(3)]
    for seed in range(4):
        yield build.train("general-best", seed, adapted, "general", "best", "--set case_marks=true --epochs 30")
    for seed in range(3):
        yield build.markers("general-markers", seed, adapted, "general", "--set case_marks=true")

    near = [build.parts.work / f"near-{name}.txt" for name in ("news", "public")]
    like = f"{build.data('redocred')}/train.json"
    for path, text, count in zip(near, texts, ("7000", "11000"), strict=True):
        yield Stage(path.name, ("select_similar", str(text), like, count), light=True)
    yield build.teach("general.soft", best, *near)
    yield build.relabel("general-relabelled.soft", "general.soft", markers)
    small = f"{SMALL} --set case_marks=true --minutes 6"
    yield build.distill("general-small-unmarked", 0, "general.soft", "gte-general", "general", small)
    yield build.distill("general-small", 0, "general-relabelled.soft", "gte-general", "general", small)
    yield build.export("general", "general-small-0", "general")
