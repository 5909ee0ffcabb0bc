"""Data in parts: dealt at random so that every part has its share of every label, or as lists of names say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from unire.documents import Document
from unire.errors import UnireError

__all__ = ["Fold", "draw_folds", "part_by_lists", "read_folds", "read_lists", "split_folds", "stratified_split"]


def stratified_split(documents: Sequence[Document], shares: Sequence[float], seed: int = 0) -> list[list[Document]]:
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
    return [[document.id for document in fold] for fold in stratified_split(documents, [1] * n_folds, seed)]


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
APART = ("train", "dev", "test")
"""Lists that share no document, where they lie in one folder."""


def read_lists(folder: Path) -> dict[str, list[str]]:
    """The names on every list in a folder, by the list's path in it: `train`, `dev` and `test`, or `fold-1/train` …

    A list is a text file with a name a line, as `part_by_lists` understands it.
    """
    lists = {}
    try:
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
        if not folder.is_dir():
            raise UnireError(f"{folder} is not a folder; split lists are one, with a list of names for every part")
        for file in files:
            names = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
            lists[file.relative_to(folder).with_suffix("").as_posix()] = [name for name in names if name]
    except UnicodeDecodeError:
        raise UnireError(f"{file} is not UTF-8, and so no list of names; keep lists in a folder of their own") from None
    except OSError as error:
        raise UnireError(f"{folder} cannot be read: {error.strerror or error}") from None
    if not lists:
        raise UnireError(f"{folder} has no files; put a list of names into it for every part, `train`, `dev`, `test`")
    return lists


class _Names:
    """Documents by the names that lists have for them."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.by_id = _by_id(documents)
        self.by_bare_name: dict[str, list[Document]] = {}
        for document in documents:
            self.by_bare_name.setdefault(PurePosixPath(_unended(document.id)).name, []).append(document)

    def find(self, name: str) -> list[Document]:
        """The document of this name, or all that it may mean: those with other folders before it."""
        for whole in (name, _unended(name)):
            if whole in self.by_id:
                return [self.by_id[whole]]
        return self.by_bare_name.get(PurePosixPath(_unended(name)).name, [])


def _unended(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name.replace("\\", "/")


def part_by_lists(
    documents: Sequence[Document], lists: dict[str, list[str]], dev_fraction: float = 0.1, seed: int = 0
) -> dict[str, list[Document]]:
    """The documents of every list, each once.

    A name is a document's id, with or without an ending of ACE or brat. Since lists are passed around with all kinds of
    paths, one that is no id means the document whose id is the same but for the folders before it; where there are
    several of them it is refused, and so is a document on two of the lists `train`, `dev` and `test` of one folder.
    Where there is a list `train` but none `dev` beside it, a seeded sample of the former becomes the latter.
    """
    names = _Names(documents)
    parts = {part: _listed(part, lists[part], names) for part in sorted(lists)}
    _check_apart(parts)
    for number, part in enumerate(sorted(lists)):
        dev = PurePosixPath(part).with_name("dev").as_posix()
        if PurePosixPath(part).name == "train" and dev not in lists:
            parts[part], parts[dev] = _sample(parts[part], dev_fraction, [seed, number])
    return parts


def _listed(part: str, names: Sequence[str], known: _Names) -> list[Document]:
    found = {name: known.find(name) for name in names}
    if missing := sorted(name for name, meant in found.items() if not meant):
        raise UnireError(
            f"the split list {part!r} names {len(missing):,} documents that the data does not have, "
            f"{missing[0]!r} for one; the data has {len(known.by_id):,}"
        )
    for name, meant in found.items():
        if len(meant) > 1:
            ids = " or ".join(repr(document.id) for document in meant[:2])
            raise UnireError(f"the split list {part!r} names {name!r}, which may be {ids}; give the whole name")
    return list({document.id: document for (document,) in found.values()}.values())


def _check_apart(parts: Mapping[str, Sequence[Document]]) -> None:
    """Refuse to train on what is tested."""
    homes: dict[tuple[str, str], str] = {}
    for part, documents in parts.items():
        folder, name = str(PurePosixPath(part).parent), PurePosixPath(part).name
        for document in documents if name in APART else ():
            home = homes.setdefault((folder, document.id), part)
            if home != part:
                raise UnireError(
                    f"the document {document.id!r} is on the split lists {home!r} and {part!r}; take it off one of them"
                )
