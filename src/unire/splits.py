"""Data in parts: dealt at random so that every part has its share of every label, or as lists of names say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from unire.documents import Document
from unire.exceptions import UnireError

__all__ = ["Fold", "deal", "draw_folds", "part_by_lists", "read_folds", "read_lists", "split_folds"]


def deal(documents: Sequence[Document], shares: Sequence[float], seed: int = 0) -> list[list[Document]]:
    """The documents in parts of these shares, at random but the same for the same seed.

    Labels are dealt from the rarest on, each document with one to the part that still lacks most of it (iterative
    stratification, Sechidis et al. 2011), so that each part comes near its share of every label. The sizes of the parts
    are exact, and in each the documents keep their order.
    """
    rng = np.random.default_rng(seed)
    content = [
        Counter([("entity", e.label) for e in document.entities] + [("relation", r.label) for r in document.relations])
        for document in documents
    ]
    room = np.array(_sizes(len(documents), shares))
    total: Counter[tuple[str, str]] = sum(content, Counter())
    lacking = {label: count * np.array(shares) / sum(shares) for label, count in total.items()}
    left = dict.fromkeys(rng.permutation(len(documents)).tolist())
    home = {}
    while left:
        holders = Counter(label for i in left for label in content[i])
        rarest = min(holders, key=lambda label: (holders[label], label)) if holders else None
        for i in [i for i in left if rarest is None or rarest in content[i]]:
            wanting = lacking[rarest] if rarest else room
            # the part that lacks most of the label, of those the one with most room, of those any
            part = max(np.flatnonzero(room).tolist(), key=lambda p: (wanting[p], room[p], rng.random()))
            home[i] = part
            room[part] -= 1
            for label, count in content[i].items():
                lacking[label][part] -= count
            del left[i]
    return [[document for i, document in enumerate(documents) if home[i] == part] for part in range(len(shares))]


def _sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in the ratio of `shares` that add up to `n`; what rounding leaves goes by the largest remainder."""
    exact = [n * share / sum(shares) for share in shares]
    sizes = [int(size) for size in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda part: sizes[part] - exact[part])
    for part in by_remainder[: n - sum(sizes)]:
        sizes[part] += 1
    return sizes


# Folds


@dataclass(frozen=True)
class Fold:
    """The data of one training in a cross-validation."""

    train: list[Document]
    dev: list[Document]
    test: list[Document]


def read_folds(path: Path) -> list[list[str]]:
    """The ids of every fold's test documents, from a JSON list of lists (or an object with just one)."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnireError(f"folds {str(path)!r} cannot be read: {reason}") from None
    if isinstance(data, dict) and len(data) == 1:
        data = next(iter(data.values()))
    if not isinstance(data, list) or len(data) < 2 or not all(isinstance(fold, list) and fold for fold in data):
        raise UnireError(f"folds {str(path)!r} must be a JSON list with one list of test document ids per fold")
    return [[str(name) for name in fold] for fold in data]


def draw_folds(documents: Sequence[Document], n_folds: int, seed: int = 0) -> list[list[str]]:
    """The documents dealt into folds of equal size and like labels, at random but the same for the same seed."""
    if not 2 <= n_folds <= len(documents):
        raise UnireError(f"{len(documents)} documents cannot be dealt into {n_folds} folds; give 2 to {len(documents)}")
    _by_id(documents)
    return [[document.id for document in fold] for fold in deal(documents, [1] * n_folds, seed)]


def split_folds(
    documents: Sequence[Document], folds: Sequence[Sequence[str]], dev_fraction: float = 0.1, seed: int = 0
) -> Iterator[Fold]:
    """Each fold's data: its documents are the test set, a seeded sample of the others is dev, the rest trains."""
    by_id = _by_id(documents)
    for number, ids in enumerate(folds, start=1):
        if missing := [name for name in ids if name not in by_id]:
            raise UnireError(f"fold {number} names the document {missing[0]!r}, which the data does not have")
        held_out = set(ids)
        rest = [document for document in documents if document.id not in held_out]
        train, dev = _sample(rest, dev_fraction, [seed, number])
        yield Fold(train, dev, test=[by_id[name] for name in ids])


def _by_id(documents: Sequence[Document]) -> dict[str, Document]:
    by_id = {document.id: document for document in documents}
    if len(by_id) < len(documents):
        (name, count), *_ = Counter(document.id for document in documents).most_common(1)
        raise UnireError(f"folds and split lists need documents with different ids, but {count} are called {name!r}")
    return by_id


def _sample(
    documents: Sequence[Document], fraction: float, seed: Sequence[int]
) -> tuple[list[Document], list[Document]]:
    """The documents without a random sample of them, and the sample, both in their order."""
    order = np.random.default_rng(seed).permutation(len(documents))
    drawn = set(order[: round(fraction * len(documents))].tolist())
    return [d for i, d in enumerate(documents) if i not in drawn], [documents[i] for i in sorted(drawn)]


# Lists of names

ENDINGS = (".sgm", ".apf.xml", ".txt", ".ann")
"""What names on a list may end in, and documents' names do not."""


def read_lists(folder: Path) -> dict[str, list[str]]:
    """The names on every list in a folder, by the list's path in it: `train`, `dev` and `test`, or `fold-1/train` …

    A list is a text file with a name a line. Of a name with folders before it and an ending of ACE or brat behind it
    only what lies between counts, since lists are passed around with all kinds of paths.
    """
    lists = {}
    try:
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
        if not folder.is_dir():
            raise UnireError(f"{folder} is not a folder; --splits takes one with a list of names for every part")
        for file in files:
            names = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
            lists[file.relative_to(folder).with_suffix("").as_posix()] = [_bare(name) for name in names if name]
    except UnicodeDecodeError:
        raise UnireError(f"{file} is not UTF-8, and so no list of names; --splits takes a folder of lists") from None
    except OSError as error:
        raise UnireError(f"{folder} cannot be read: {error.strerror or error}") from None
    if not lists:
        raise UnireError(f"{folder} has no files; put a list of names into it for every part, `train`, `dev`, `test`")
    return lists


def _bare(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return PurePosixPath(name.replace("\\", "/")).name


def part_by_lists(
    documents: Sequence[Document], lists: dict[str, list[str]], dev_fraction: float = 0.1, seed: int = 0
) -> dict[str, list[Document]]:
    """The documents of every list.

    Where there is a list `train` but none `dev` beside it, a seeded sample of the former becomes the latter.
    """
    by_name = {_bare(name): document for name, document in _by_id(documents).items()}
    parts = {}
    for number, (part, names) in enumerate(sorted(lists.items())):
        if missing := sorted({name for name in names if name not in by_name}):
            raise UnireError(
                f"the split list {part!r} names {len(missing):,} documents that the data does not have, "
                f"{missing[0]!r} for one; the data has {len(by_name):,}"
            )
        parts[part] = [by_name[name] for name in names]
        dev = PurePosixPath(part).with_name("dev").as_posix()
        if PurePosixPath(part).name == "train" and dev not in lists:
            parts[part], parts[dev] = _sample(parts[part], dev_fraction, [seed, number])
    return parts
