"""Which predictions belong to which gold document: those in its place or, where the orders differ, of its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from unire.documents import Document
from unire.exceptions import UnireError

__all__ = ["paired"]


def paired(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[tuple[Document, Document]]:
    """Each gold document with its predictions, in the order of gold.

    Both are read as streams, document beside document, up to the first two whose ids differ. The rest of both is then
    read at once and paired by ids.

    Raises:
        UnireError: They are not the same documents, as far as lengths and ids tell.
    """
    truths, guesses = iter(gold), iter(predicted)
    for position, (truth, guess) in enumerate(zip_longest(truths, guesses)):
        if truth is None or guess is None:
            short, long = ("gold", "predicted") if truth is None else ("predicted", "gold")
            further = (truth or guess).id
            raise UnireError(
                f"the {short} documents end after {position} but the {long} ones go on"
                f"{f' with {further!r}' if further else ''}; both must be the same documents"
            )
        if truth.id and guess.id and truth.id != guess.id:
            yield from _by_id([truth, *truths], [guess, *guesses])
            return
        yield truth, guess


def _by_id(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    """The same documents in another order."""
    for side, documents in (("gold", gold), ("predictions", predicted)):
        times = Counter(document.id for document in documents)
        if times[""] or len(times) < len(documents):
            name, count = times.most_common(1)[0]
            fault = "some have no id" if times[""] else f"{count} are called {name!r}"
            raise UnireError(
                f"document {gold[0].id!r} of the gold stands against document {predicted[0].id!r} of the predictions, "
                f"and of the {side} {fault}; sort both alike"
            )
    found = {document.id: document for document in predicted}
    missing = [document.id for document in gold if document.id not in found]
    foreign = found.keys() - {document.id for document in gold}
    if missing or foreign:
        faults = ((missing, "not among the predictions"), (sorted(foreign), "predicted but not in the gold"))
        said = [f"document {ids[0]!r}{_more(ids)} {fault}" for ids, fault in faults if ids]
        raise UnireError(f"{'; '.join(said)}: both must be the same documents")
    for document in gold:
        yield document, found[document.id]


def _more(ids: Sequence[str]) -> str:
    return f" and {len(ids) - 1:,} more are" if len(ids) > 1 else " is"
