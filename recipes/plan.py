"""What there is to make: every model and every row of the results, as commands of `unire`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SCRIPTS", "Parts", "Stage", "plan"]

SCRIPTS = ("marked", "markers", "nearest", "related")
"""What is not a command of `unire`, but a script beside this one."""

REBUILD = "python recipes/reproduce.py"
WHERE = "--encoders ENCODERS --data DATA --corpus CORPUS --work WORK"

TEACHERS = "which rest on all-mpnet-base-v2 (Apache 2.0)"
ABOUT = {
    "science": (
        "science: what scientific abstracts speak of",
        "Tasks, methods, metrics, materials and other terms of scientific abstracts, and seven relations between them. "
        "It has learnt from SciERC (Luan et al., 2018: 500 abstracts of conferences on artificial intelligence, whose "
        "authors state no licence) and, on unlabelled abstracts of the ACL Anthology, of such conferences and of arXiv,"
        f" from larger models, {TEACHERS}. None of these texts comes with it.",
    ),
    "news": (
        "news: people, places and organisations",
        "People, places, organisations and other names in news, and five relations between them: who lives where, works"
        " for whom and killed whom, what lies in which place, where an organisation is based. It has learnt from"
        " CoNLL04 (Roth & Yih, 2004) and, on unlabelled news (Reuters-21578 and the BBC's), from larger models, "
        f"{TEACHERS}. None of these texts comes with it.",
    ),
}
"""Titles and descriptions of the models in the box, for their cards."""


@dataclass(frozen=True)
class Parts:
    """What must be there before: nothing of it comes with the project."""

    encoders: Path
    """`mpnet` (all-mpnet-base-v2) and `gte-small`, as folders."""
    data: Path
    """`scierc`, `conll04` (train, dev and test.json) and `ade` (ade_full.json and folds.json)."""
    corpus: Path
    """`science.txt` and `news.txt`, a document per line, without the abstracts of dev and test."""
    work: Path
    """Where everything is made."""


@dataclass(frozen=True)
class Stage:
    """One command, and what must have been made before it."""

    name: str
    """Also the name of what it makes, in the folder of work."""
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    alone: bool = False
    """It uses the whole GPU: nothing else runs beside it."""
    test: Path | None = None
    """What the model is scored on by every protocol, if it is a row of the results."""
    part_of: str = ""
    """The stage whose folder it fills a part of, if it has none of its own."""
    part: str = ""
    """That part's name."""


def plan(parts: Parts) -> dict[str, Stage]:
    """All stages by name."""
    return {stage.name: stage for stage in _stages(parts)}


def _stages(parts: Parts) -> Iterator[Stage]:
    scierc, conll04, ade = (parts.data / name for name in ("scierc", "conll04", "ade"))
    science, news = parts.corpus / "science.txt", parts.corpus / "news.txt"
    mpnet, gte = parts.encoders / "mpnet", parts.encoders / "gte-small"
    near, related = parts.work / "near.txt", parts.work / "related.txt"

    def made(name: str) -> str:
        return str(parts.work / name)

    def adapt(name: str, encoder: Path, corpus: Path, minutes: float, lr: float, *options: str) -> Stage:
        rate = ("--minutes", str(minutes), "--lr", str(lr))
        needs = (encoder.name,) if encoder.parent == parts.work else ()
        command = ("adapt", "--encoder", str(encoder), "--corpus", str(corpus), *rate, *options)
        return Stage(name, command, needs, alone=True)

    def train(
        name: str, seed: int, encoder: str, data: Path, *options: str, needs: Sequence[str] = (), dev: str = "--dev"
    ) -> Stage:
        files = ("--data", f"{data}/train.json", dev, f"{data}/dev.json", "--test", f"{data}/test.json")
        command = ("train", "--encoder", encoder, *files, "--labels", data.name, "--seed", str(seed), *options)
        return Stage(f"{name}-{seed}", command, tuple(needs), test=data / "test.json")

    def asked(teachers: Sequence[str], corpus: Sequence[Path]) -> list[str]:
        words = [word for teacher in teachers for word in ("--teacher", made(teacher))]
        return [*words, *(word for file in corpus for word in ("--corpus", str(file)))]

    def teach(name: str, teachers: Sequence[str], corpus: Path) -> Stage:
        return Stage(name, ("teach", *asked(teachers, [corpus])), (*teachers, corpus.name), alone=True)

    def distill(
        name: str,
        source: Sequence[str],
        student: str,
        data: Path,
        *options: str,
        needs: Sequence[str],
        dev: str = "--dev",
        alone: bool = False,
    ) -> Stage:
        files = ("--data", f"{data}/train.json", dev, f"{data}/dev.json", "--test", f"{data}/test.json")
        command = ("distill", *source, "--student", student, *files, "--preset", "best")
        command = (*command, *options, "--set", "max_cells=2000000")
        return Stage(name, command, tuple(needs), alone, data / "test.json")

    def export(name: str, model: str, data: Path) -> Stage:
        title, description = ABOUT[name]
        about = ("--title", title, "--description", description, "--base", "thenlper/gte-small", "--licence", "MIT")
        about = (*about, "--rebuild", f"{REBUILD} {name} {WHERE}")
        return Stage(
            name, ("export", made(model), "--test", f"{data}/test.json", *about), (model,), test=data / "test.json"
        )

    yield adapt("mpnet-science", mpnet, science, 7, 2e-4)
    yield adapt("gte-science", gte, science, 2.5, 5e-4)
    yield adapt("mpnet-news", parts.work / "mpnet-science", news, 1.5, 1e-4, "--case-marks")
    yield adapt("gte-news", gte, news, 1, 5e-4, "--case-marks")
    yield Stage("near.txt", ("nearest", str(science), f"{scierc}/train.json", "60000"))

    short = ("--epochs", "40", "--patience", "1000", "--set", "evaluate_every=10", "--set", "evaluate_after=0")
    for preset in ("paper", "released"):
        for seed in range(3):
            yield train(f"scierc-{preset}", seed, str(mpnet), scierc, "--preset", preset, *short)

    adapted = made("mpnet-science")
    for seed in range(5):
        yield train("scierc-best", seed, adapted, scierc, "--preset", "best", needs=["mpnet-science"])
    teachers = [f"scierc-best-{seed}" for seed in range(5)]
    yield teach("near.lessons", teachers, near)
    lessons, needs = ("--lessons", made("near.lessons")), ["mpnet-science", "near.lessons"]
    for seed in range(5):
        options = ("--seed", str(seed), "--epochs", "70", "--minutes", "5")
        yield distill(f"scierc-self-trained-{seed}", lessons, adapted, scierc, *options, needs=needs)
    markers = [f"scierc-markers-{seed}" for seed in range(3)]
    for seed, name in enumerate(markers):
        files = (f"{scierc}/train.json", f"{scierc}/dev.json")
        command = ("markers", "approximate", adapted, *files, "scierc", str(seed))
        yield Stage(name, command, ("mpnet-science",))
    command = ("marked", "0.75", made("near.lessons"), *map(made, markers))
    yield Stage("marked.lessons", command, ("near.lessons", *markers), alone=True)
    lessons, needs = ("--lessons", made("marked.lessons")), ["mpnet-science", "marked.lessons"]
    for seed in range(5):
        options = ("--seed", str(seed), "--epochs", "70", "--minutes", "5")
        yield distill(f"scierc-marked-{seed}", lessons, adapted, scierc, *options, needs=needs)
    options = (
        "--lr",
        "3e-4",
        "--head-lr",
        "1e-3",
        "--epochs",
        "250",
        "--set",
        "evaluate_every=10",
        "--set",
        "max_table=128",
        "--minutes",
        "5",
    )
    teacher = "scierc-self-trained-0"
    source, needs = asked([teacher], [near]), ["gte-science", "near.txt", teacher]
    yield distill("scierc-small", source, made("gte-science"), scierc, *options, needs=needs, alone=True)
    yield export("science", "scierc-small", scierc)

    # its sentences stand alone and tell of relations: so must what is unlabelled
    alone = ("--set", "case_marks=true", "--set", "window=0")
    for seed in range(5):
        options = ("--preset", "best", *alone)
        yield train("conll04-best", seed, made("mpnet-news"), conll04, *options, needs=["mpnet-news"])
    # like SpERT, on dev too, once it has chosen: α and odds are the means of what those five had
    chosen = ("--set", "alpha=1.2", "--set", "tune_alpha=false", "--set", "relation_odds=4", "--set", "tune_odds=false")
    for seed in range(3):
        options = ("--preset", "best", *alone, *chosen)
        name, needs = "conll04-train-and-dev", ["mpnet-news"]
        yield train(name, seed, made("mpnet-news"), conll04, *options, needs=needs, dev="--data")
    teachers = [f"conll04-best-{seed}" for seed in range(5)]
    yield Stage("related.txt", ("related", str(news), made(teachers[0])), (teachers[0],))
    yield teach("related.lessons", teachers, related)
    lessons, needs = ("--lessons", made("related.lessons")), ["mpnet-news", "related.lessons"]
    for seed in range(3):
        options = ("--seed", str(seed), *alone, "--epochs", "100", "--minutes", "5")
        name = f"conll04-self-trained-{seed}"
        # dev has chosen the teachers, and the model that is tested learns from its sentences too
        yield distill(name, lessons, made("mpnet-news"), conll04, *options, needs=needs, dev="--data")
    options = (
        "--lr",
        "3e-4",
        "--head-lr",
        "1e-3",
        *alone,
        "--set",
        "max_table=128",
        "--epochs",
        "250",
        "--set",
        "evaluate_every=10",
        "--minutes",
        "3.5",
    )
    source, needs = asked(teachers, [related, news]), ["gte-news", "related.txt", *teachers]
    yield distill("conll04-small", source, made("gte-news"), conll04, *options, needs=needs, alone=True)
    yield export("news", "conll04-small", conll04)

    options = ("--data", f"{ade}/ade_full.json", "--folds", f"{ade}/folds.json", "--labels", "ade", "--preset", "best")
    schedule = ("--epochs", "20", "--set", "evaluate_after=11", "--set", "evaluate_every=2")
    command = ("train", "--encoder", adapted, *options, *schedule)
    folds = [
        Stage(
            f"ade-best-fold-{k}",
            (*command, "--fold", str(k)),
            ("mpnet-science",),
            part_of="ade-best",
            part=f"fold-{k:02d}",
        )
        for k in range(1, 11)
    ]
    yield from folds
    yield Stage("ade-best", (*command, "--resume"), tuple(fold.name for fold in folds))
