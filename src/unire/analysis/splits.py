"""Splits of a data set: stratified random parts, folds for cross-validation, and parts by lists of document ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.files import list_files, open_text_output, replace_atomically
from unire.limits import read_whole
from unire.output_files import check_output_folder, lock_output

__all__ = [
    "Fold",
    "draw_folds",
    "read_folds",
    "read_lists",
    "split_by_lists",
    "split_folds",
    "stratified_split",
    "write_folds",
    "write_parts",
]


def stratified_split(documents: Sequence[Document], shares: Sequence[float], seed: int = 0) -> list[list[Document]]:
    """Split documents at random into parts with these shares of documents and of every label.

    The algorithm is iterative stratification (Sechidis et al. 2011). It starts with the rarest label, and assigns each
    document with it to the part that still lacks most of it. The sizes of the parts are exact. In each part documents
    keep their order.

    >>> train, dev, test = stratified_split(documents, [8, 1, 1])  # doctest: +SKIP

    Args:
        documents: The annotated documents.
        shares: The relative sizes of the parts.
        seed: The same seed gives the same parts.

    Returns:
        The documents of each part.
    """
    rng = np.random.default_rng(seed)
    content = [
        Counter([("entity", e.label) for e in document.entities] + [("relation", r.label) for r in document.relations])
        for document in documents
    ]
    capacity = np.array(_round_sizes(len(documents), shares))
    total: Counter[tuple[str, str]] = sum(content, Counter())
    missing_labels = {label: count * np.array(shares) / sum(shares) for label, count in total.items()}
    remaining = dict.fromkeys(rng.permutation(len(documents)).tolist())
    assignment = {}
    while remaining:
        holders = Counter(label for i in remaining for label in content[i])
        rarest = min(holders, key=lambda label: (holders[label], label)) if holders else None
        for i in [i for i in remaining if rarest is None or rarest in content[i]]:
            demand = missing_labels[rarest] if rarest else capacity
            # the part that lacks most of the label; of those the largest capacity; of those a random one
            part = max(np.flatnonzero(capacity).tolist(), key=lambda p: (demand[p], capacity[p], rng.random()))
            assignment[i] = part
            capacity[part] -= 1
            for label, count in content[i].items():
                missing_labels[label][part] -= count
            del remaining[i]
    return [[document for i, document in enumerate(documents) if assignment[i] == part] for part in range(len(shares))]


def _round_sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Integers in the ratio of `shares` that add up to `n`, by the largest-remainder method."""
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
        with path.open("rb") as file:
            data = json.loads(read_whole(file, str(path)))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnireError(f"folds {str(path)!r} cannot be read: {reason}") from None
    if isinstance(data, dict) and len(data) == 1:
        data = next(iter(data.values()))
    if not isinstance(data, list) or len(data) < 2 or not all(isinstance(fold, list) and fold for fold in data):
        raise UnireError(f"folds {str(path)!r} must be a JSON list with one list of test document ids per fold")
    return [[str(name) for name in fold] for fold in data]


def draw_folds(documents: Sequence[Document], n_folds: int, seed: int = 0) -> list[list[str]]:
    """Split documents at random into folds of equal size and similar labels.

    >>> folds = draw_folds(documents, 10)  # doctest: +SKIP

    Args:
        documents: The annotated documents, with different ids.
        n_folds: The number of folds.
        seed: The same seed gives the same folds.

    Returns:
        The ids of each fold's test documents.

    Raises:
        UnireError: There are fewer documents than folds, or two have the same id.
    """
    if not 2 <= n_folds <= len(documents):
        raise UnireError(
            f"{len(documents)} documents cannot be split into {n_folds} folds; choose 2 to {len(documents)}"
        )
    _index_by_id(documents)
    return [[document.id for document in fold] for fold in stratified_split(documents, [1] * n_folds, seed)]


def split_folds(
    documents: Sequence[Document], folds: Sequence[Sequence[str]], dev_fraction: float = 0.1, seed: int = 0
) -> Iterator[Fold]:
    """Yield the data of each fold: its documents as test, a random sample of the others as dev, the rest as train.

    >>> for fold in split_folds(documents, draw_folds(documents, 10)):  # doctest: +SKIP
    ...     print(len(fold.train), len(fold.dev), len(fold.test))

    Args:
        documents: The annotated documents, with different ids.
        folds: The ids of each fold's test documents.
        dev_fraction: The fraction of the other documents that becomes dev.
        seed: The same seed draws the same dev documents.

    Raises:
        UnireError: A fold names a document that is not there, or two documents have the same id.
    """
    by_id = _index_by_id(documents)
    for number, ids in enumerate(folds, start=1):
        if missing := [name for name in ids if name not in by_id]:
            raise UnireError(f"fold {number} names the document {missing[0]!r}, which the data does not have")
        held_out = set(ids)
        rest = [document for document in documents if document.id not in held_out]
        train, dev = _draw_sample(rest, dev_fraction, [seed, number])
        yield Fold(train, dev, test=[by_id[name] for name in ids])


def _index_by_id(documents: Sequence[Document]) -> dict[str, Document]:
    by_id = {document.id: document for document in documents}
    if len(by_id) < len(documents):
        (name, count), *_ = Counter(document.id for document in documents).most_common(1)
        raise UnireError(f"folds and split lists need documents with different ids, but {count} are called {name!r}")
    return by_id


def _draw_sample(
    documents: Sequence[Document], fraction: float, seed: Sequence[int]
) -> tuple[list[Document], list[Document]]:
    """The documents without a random sample, and the sample, both in the original order."""
    order = np.random.default_rng(seed).permutation(len(documents))
    drawn = set(order[: round(fraction * len(documents))].tolist())
    return [d for i, d in enumerate(documents) if i not in drawn], [documents[i] for i in sorted(drawn)]


# Lists of names

LISTED_SUFFIXES = (".sgm", ".apf.xml", ".txt", ".ann")
"""Suffixes that names on a list may have. Document ids do not have them."""
DISJOINT_LISTS = ("train", "dev", "test")
"""Lists in one folder that must not share a document."""


def read_lists(folder: Path) -> dict[str, list[str]]:
    """The names on every list in a folder, by the list's path in it: `train`, `dev` and `test`, or `fold-1/train` …

    A list is a text file with a name a line, as `split_by_lists` understands it.
    """
    lists = {}
    try:
        if folder.exists() and not folder.is_dir():
            raise UnireError(
                f"{folder} is not a folder; give one with a list of ids for every part (`train`, `dev`, `test`)"
            )
        for file in list_files(folder):
            with file.open("rb") as opened:
                names = [line.strip() for line in read_whole(opened, str(file)).decode("utf-8-sig").splitlines()]
            lists[file.relative_to(folder).with_suffix("").as_posix()] = [name for name in names if name]
    except UnicodeDecodeError:
        raise UnireError(f"{file} is not UTF-8; keep only split lists in this folder") from None
    except OSError as error:
        raise UnireError(f"{folder} cannot be read: {error.strerror or error}") from None
    if not lists:
        raise UnireError(f"{folder} has no files; add a list of document ids for every part (`train`, `dev`, `test`)")
    return lists


class _DocumentNames:
    """Finds documents by the names on a list."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.by_id = _index_by_id(documents)
        self.by_bare_name: dict[str, list[Document]] = {}
        for document in documents:
            self.by_bare_name.setdefault(PurePosixPath(_strip_suffix(document.id)).name, []).append(document)

    def find(self, name: str) -> list[Document]:
        """The document with this id, or else all documents whose ids differ only in the folders before the name."""
        for candidate in (name, _strip_suffix(name)):
            if candidate in self.by_id:
                return [self.by_id[candidate]]
        return self.by_bare_name.get(PurePosixPath(_strip_suffix(name)).name, [])


def _strip_suffix(name: str) -> str:
    for ending in LISTED_SUFFIXES:
        name = name.removesuffix(ending)
    return name.replace("\\", "/")


def split_by_lists(
    documents: Sequence[Document], lists: dict[str, list[str]], dev_fraction: float = 0.1, seed: int = 0
) -> dict[str, list[Document]]:
    """Select the documents of every list, for published splits.

    A name on a list is a document's id, with or without a suffix of ACE or brat. Lists are shared with all kinds of
    paths, so a name that is no id matches the document whose id differs only in the folders before it. Several matches
    are an error, and so is a document on two of the lists `train`, `dev` and `test` of one folder. If a folder has a
    list `train` but no list `dev`, a random sample of `train` becomes `dev`.

    Args:
        documents: The documents, with different ids.
        lists: Names of documents, by part.
        dev_fraction: The fraction of `train` that becomes `dev`.
        seed: The same seed draws the same sample.

    Returns:
        The documents of each part.

    Raises:
        UnireError: A name matches no document or several, or a document is on two lists.
    """
    names = _DocumentNames(documents)
    parts = {part: _select_listed(part, lists[part], names) for part in sorted(lists)}
    _check_disjoint(parts)
    for number, part in enumerate(sorted(lists)):
        dev = PurePosixPath(part).with_name("dev").as_posix()
        if PurePosixPath(part).name == "train" and dev not in lists:
            parts[part], parts[dev] = _draw_sample(parts[part], dev_fraction, [seed, number])
    return parts


def _select_listed(part: str, names: Sequence[str], known: _DocumentNames) -> list[Document]:
    matched = {name: known.find(name) for name in names}
    if missing := sorted(name for name, matches in matched.items() if not matches):
        raise UnireError(
            f"the split list {part!r} names {len(missing):,} documents that the data does not have, "
            f"{missing[0]!r} for one; the data has {len(known.by_id):,}"
        )
    for name, matches in matched.items():
        if len(matches) > 1:
            ids = " or ".join(repr(document.id) for document in matches[:2])
            raise UnireError(f"the split list {part!r} names {name!r}, which may mean {ids}; give the full id")
    return list({document.id: document for (document,) in matched.values()}.values())


def _check_disjoint(parts: Mapping[str, Sequence[Document]]) -> None:
    """Raise an error if a test document is also used for training."""
    parts_by_id: dict[tuple[str, str], str] = {}
    for part, documents in parts.items():
        folder, name = str(PurePosixPath(part).parent), PurePosixPath(part).name
        for document in documents if name in DISJOINT_LISTS else ():
            other = parts_by_id.setdefault((folder, document.id), part)
            if other != part:
                raise UnireError(
                    f"the document {document.id!r} is on the split lists {other!r} and {part!r}; remove it from one"
                )


# Writing


def write_parts(
    parts: Mapping[str, Iterable[Document]],
    out: str | Path,
    format: str = "unire",
    *,
    lost: Counter[str] | None = None,
) -> dict[str, int]:
    """Write a new folder with one file per part, atomically.

    >>> write_parts({"train": train, "dev": dev}, "data")  # doctest: +SKIP
    {'train': 80, 'dev': 10}

    Args:
        parts: The documents of each part, by its name.
        out: The folder, which must be new or empty.
        format: The format of the files, one of `formats.WRITABLE`.
        lost: Counts what the format cannot represent.

    Returns:
        The number of documents of each part.

    Raises:
        UnireError: The folder is not empty, or cannot be written.
    """
    suffix = formats.get_writable(format).suffix
    try:
        with lock_output(out):
            check_output_folder(out)
            with replace_atomically(out, directory=True) as temporary:
                return {
                    name: formats.write(part, temporary / f"{name}{suffix}", format, lost=lost)
                    for name, part in parts.items()
                }
    except OSError as error:
        raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None


def write_folds(folds: Sequence[Sequence[str]], out: str | Path) -> None:
    """Write the ids of every fold as a JSON file that `read_folds` reads."""
    with open_text_output(out) as file:
        file.write(json.dumps(folds, ensure_ascii=False) + "\n")
