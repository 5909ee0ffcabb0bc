"""Checks of annotated data: issues in single documents, and leaks and inconsistencies between files."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tokenizers import Tokenizer

from unire import formats, tables
from unire.config import EncoderSpec
from unire.documents import CHARACTERS, Document, Entity, Relation, Sentence
from unire.errors import UnireError, describe_error
from unire.formats.alignment import BRIDGED, WIDENED
from unire.formats.base import UNREADABLE
from unire.labels import LabelSpace
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.model_files import load_json, load_tokenizer_file
from unire.windows.windows import WindowBuilder

__all__ = ["Issue", "IssueKind", "build_token_counter", "check_files", "count_types", "find_issues", "find_leaks"]


class IssueKind(Enum):
    """A kind of issue: its name, its effect on the label table, and whether it is only a hint."""

    UNREADABLE = ("document that cannot be read", "it is left out")
    UNREADABLE_ITEM = ("entity or relation that cannot be read", "it is left out; the rest of its document is read")
    SPLIT_WORD = ("entity that splits a word", "its square covers the whole words")
    IN_PARTS = ("entity in several parts", "its square covers the words between the parts too")
    ENTITY_ACROSS = (tables.OUTSIDE, "no table holds it; it counts as a miss")
    OVERLAP = (tables.OVERLAP, "the table keeps the longer one; the other counts as a miss")
    TWO_TYPES = ("two types on the same words", "the table keeps the first; the other counts as a miss")
    REPEATED_ENTITY = ("entity annotated twice", "its square is filled once")
    NO_ARGUMENT = (tables.NO_ARGUMENT, "no table holds it; it counts as a miss")
    RELATION_ACROSS = (tables.ACROSS, "no table holds it; it counts as a miss")
    TWO_LABELS = (tables.TWO_LABELS, "the table keeps the first; the other counts as a miss")
    REFLEXIVE = (tables.REFLEXIVE, "no table holds it; it counts as a miss")
    REPEATED_RELATION = ("relation annotated twice", "its rectangle is filled once")
    UNKNOWN_TYPE = ("type that is not in the label space", "training and scoring refuse the data")
    UNSEEN_TYPE = ("type that only files after the first have", "training on the first cannot learn it")
    SHARED_ID = ("id of several documents", "folds and split lists need unique ids; rename one")
    LEAK = ("sentence in two files", "test scores are too high")
    NEAR_LEAK = ("almost the same sentence in two files", "test scores may be too high")
    TOO_LONG = ("sentence longer than the encoder's input", "it is read in overlapping windows")
    ALIKE = ("types whose names differ by case or spaces only", "they are different labels", True)
    RARE = ("type with few examples", "the model may not learn it", True)
    BOTH_WAYS = (
        "relation type annotated both ways",
        "two rectangles; if it is symmetric, declare it so",
        True,
    )

    def __init__(self, what: str, effect: str, hint: bool = False) -> None:
        self.what = what
        self.effect = effect
        self.hint = hint

    @classmethod
    def from_reason(cls, reason: str) -> IssueKind:
        """The kind for a reason that `tables` gives."""
        return next(kind for kind in cls if kind.what == reason)


@dataclass(frozen=True)
class Issue:
    """An issue in annotated data. `str(issue)` is one line with place, kind, detail and effect."""

    kind: IssueKind
    """What it is: its name, its effect, and whether it is only a hint."""
    file: str
    """The name of the file."""
    place: str
    """The location in the file: a document and a sentence."""
    detail: str
    """What was found there."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {**asdict(self), "kind": self.kind.what, "effect": self.kind.effect, "hint": self.kind.hint}

    def __str__(self) -> str:
        where = f"{self.file}, {self.place}" if self.place else self.file
        return f"{where}: {self.kind.what}: {' '.join(self.detail.split())}; {self.kind.effect}"


def count_types(documents: Iterable[Document]) -> dict[str, Counter[str]]:
    """Count entity types and relation types, which may share names."""
    entities: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for document in documents:
        entities.update(entity.label for entity in document.entities)
        relations.update(relation.label for relation in document.relations)
    return {"entity": entities, "relation": relations}


MAX_ENCODER_TOKENS = 512
"""The limit for sentences, even if an encoder accepts more."""


def build_token_counter(folder: Path) -> tuple[Callable[[Sequence[str]], int], int]:
    """A function that counts the tokens of a sentence, special tokens included, and the limit of the encoder.

    It tokenizes like the windows of a model: every word separately, with the unknown token for words without tokens.

    Args:
        folder: The folder of an encoder or a model.
    """
    try:
        tokenizer = load_tokenizer_file(folder / "tokenizer.json")
        config = load_json(folder / "config.json")
        spec = EncoderSpec.from_dict(config["spec"]) if "spec" in config else _probe_spec(tokenizer, folder, config)
        window_builder = WindowBuilder(tokenizer, spec)
    except Exception as error:  # tokenizers has no specific exception type
        raise UnireError(
            f"encoder {str(folder)!r} cannot be read; give a folder with tokenizer.json and config.json "
            f"({describe_error(error)})"
        ) from None

    def count(words: Sequence[str]) -> int:
        return len(spec.prefix) + len(window_builder.tokenize(words).ids) + len(spec.suffix)

    return count, spec.max_pieces


def _probe_spec(tokenizer: Tokenizer, folder: Path, config: Mapping[str, Any]) -> EncoderSpec:
    """The facts about an encoder that are known without torch. They suffice to count tokens."""
    extra = folder / "tokenizer_config.json"
    more = load_json(extra) if extra.exists() else {}
    limits = (more.get("model_max_length"), config.get("max_position_embeddings"))
    longest = min([MAX_ENCODER_TOKENS, *(int(limit) for limit in limits if limit)])
    return EncoderSpec.probe(tokenizer, max_pieces=longest, token_types=False, pad_id=0, unk_id=0)


MIN_LEAK_WORDS = 5
"""Shorter sentences ("See Table 1 .") repeat by chance, and are not compared."""


class SentencePlace(NamedTuple):
    file: str
    document: str
    sentence: int

    def __str__(self) -> str:
        return f"document {self.document!r}, sentence {self.sentence}"


Words = frozenset[tuple[str, int]]
"""The case-folded words of a sentence, each with the number of its occurrence."""


def find_leaks(files: Mapping[str, Sequence[Document]], near: float) -> Iterator[Issue]:
    """Sentences that an earlier file also has, or almost has: their Jaccard similarity in words is at least `near`."""
    if len(files) < 2:
        return
    sentences = _index_sentences(files)
    common = Counter(word for words in sentences for word in words)
    seen: dict[tuple[str, int], list[Words]] = defaultdict(list)
    first = {words: places[0] for words, places in sentences.items()}
    for words, places in sentences.items():
        for place in places[1:]:
            if place.file != places[0].file:
                yield Issue(IssueKind.LEAK, place.file, str(place), f"as {places[0].file}, {places[0]}")
        # Prefix filtering: two sets that similar share a word among the rarest words of either.
        rarest = sorted(words, key=lambda word: (common[word], word))[: len(words) - math.ceil(near * len(words)) + 1]
        candidates = {id(other): other for word in rarest for other in seen[word]}
        for other in candidates.values():
            if first[other].file != first[words].file and len(words & other) >= near * len(words | other):
                yield Issue(
                    IssueKind.NEAR_LEAK, first[words].file, str(first[words]), f"as {first[other].file}, {first[other]}"
                )
        for word in rarest:
            seen[word].append(words)


def _index_sentences(files: Mapping[str, Sequence[Document]]) -> dict[Words, list[SentencePlace]]:
    """The locations of each sentence, in the order of files and documents."""
    locations: dict[Words, list[SentencePlace]] = defaultdict(list)
    for file, documents in files.items():
        for document in documents:
            for i, sentence in enumerate(document.sentences, start=1):
                if len(sentence) >= MIN_LEAK_WORDS:
                    number: Counter[str] = Counter()
                    words = []
                    for word in sentence.words:
                        folded = word.casefold()
                        words.append((folded, number[folded]))
                        number[folded] += 1
                    locations[frozenset(words)].append(SentencePlace(file, document.id, i))
    return dict(locations)


SEPARATORS = re.compile(r"(?<=[^\W_])[\s_-]+(?=\w)")
"""Between the words of a name. A sign at the end, as in `q+` and `q-`, is not one."""
MIN_TYPE_EXAMPLES = 10
"""A type with fewer examples is rare."""


def check_files(
    paths: Iterable[str | Path],
    labels: str | None = None,
    *,
    symmetric: str | None = None,
    format: str | None = None,
    spaces: bool = False,
    line_breaks: bool | None = None,
    events: Literal["trigger", "pairs"] = "trigger",
    encoder: Path | None = None,
    near: float = 0.8,
    notes: Counter[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> list[Issue]:
    """Read the files of one data set, and list all issues. Documents that cannot be read are issues, too.

    >>> for issue in check_files(["train.jsonl", "dev.jsonl"], "scierc"):  # doctest: +SKIP
    ...     print(issue)

    Args:
        paths: The files, the training data first.
        labels: The name or the file of a label space. [default: learnt from the data]
        symmetric: Symmetric relation types, separated by commas, for a label space that is learnt.
        format: The format of the files. [default: guessed]
        spaces: As in `formats.read`.
        line_breaks: As in `formats.read`.
        events: As in `formats.read`.
        encoder: The folder of an encoder or a model, to find sentences that are too long for it.
        near: The similarity from which two sentences are almost the same.
        notes: Counts what readers changed or left out, except what is listed as an issue.
        limits: As in `formats.read`.

    Returns:
        The issues, in the order of the files.

    Raises:
        UnireError: A file is missing, or there is no such label space or encoder.
    """
    issues: list[Issue] = []
    files: dict[str, list[Document]] = {}
    notes = Counter() if notes is None else notes
    for path in paths:

        def add(error: UnireError, kind: IssueKind, path: str | Path = path) -> None:
            issues.append(Issue(kind, str(path), "", str(error).removeprefix(str(path)).lstrip(",: ")))

        documents = formats.read(
            path,
            format,
            spaces=spaces,
            line_breaks=line_breaks,
            events=events,
            notes=notes,
            on_error=partial(add, kind=IssueKind.UNREADABLE),
            on_annotation_error=partial(add, kind=IssueKind.UNREADABLE_ITEM),
            limits=limits,
        )
        files[str(path)] = list(documents)
    for note in [note for note in notes if note in (WIDENED, BRIDGED) or note.endswith(UNREADABLE)]:
        del notes[note]  # the issues have them with their locations
    space = LabelSpace.resolve(labels, symmetric, [document for part in files.values() for document in part])
    count_tokens, max_tokens = build_token_counter(encoder) if encoder else (None, 0)
    issues += find_issues(files, space, near=near, count_tokens=count_tokens, max_tokens=max_tokens)
    return issues


def find_issues(
    files: Mapping[str, Sequence[Document]],
    labels: LabelSpace,
    *,
    near: float = 0.8,
    count_tokens: Callable[[Sequence[str]], int] | None = None,
    max_tokens: int = 512,
) -> Iterator[Issue]:
    """Find the issues in the documents of one data set.

    >>> list(find_issues({"train": train, "dev": dev}, labels))  # doctest: +SKIP

    Args:
        files: The documents of each file, by its name.
        labels: The expected types.
        near: The similarity from which two sentences are almost the same.
        count_tokens: Counts the tokens of a sentence's words. Without it, no sentence is too long.
        max_tokens: The limit of the encoder.

    Yields:
        The issues.
    """
    for file, documents in files.items():
        for document in documents:
            yield from _check_document(document, file, labels)
            if count_tokens:
                for i, sentence in enumerate(document.sentences):
                    if (tokens := count_tokens(sentence.words)) > max_tokens:
                        detail = f"{tokens} tokens of {len(sentence)} words, where {max_tokens} can be read"
                        yield Issue(IssueKind.TOO_LONG, file, _locate(document, i), detail)
        for name, count in Counter(document.id for document in documents).items():
            if count > 1:
                yield Issue(IssueKind.SHARED_ID, file, f"document {name!r}", f"{count} ×")
    yield from _check_types(files)
    yield from _find_unseen_types(files)
    yield from _find_symmetric_types(files, labels)
    yield from find_leaks(files, near)


def _locate(document: Document, sentence: int) -> str:
    return f"document {document.id!r}, sentence {sentence + 1}"


def _check_document(document: Document, file: str, labels: LabelSpace) -> Iterator[Issue]:
    here = f"document {document.id!r}"
    for entity in document.entities:
        if entity.label not in labels.entity_types:
            yield Issue(IssueKind.UNKNOWN_TYPE, file, here, str(entity))
        if parts := entity.attributes.get(CHARACTERS):
            spelt = " … ".join(document.text[start:end] for start, end in parts)
            kind = IssueKind.IN_PARTS if len(parts) > 1 else IssueKind.SPLIT_WORD
            yield Issue(kind, file, here, f"{spelt!r} in {entity}")
    for relation in document.relations:
        if relation.label not in labels.relation_types:
            yield Issue(IssueKind.UNKNOWN_TYPE, file, here, str(relation))
    for item, reason in tables.list_spanning(document):
        yield Issue(IssueKind.from_reason(reason), file, here, str(item))
    for i, sentence in enumerate(document.sentences):
        for kind, item in _check_sentence(sentence, labels):
            yield Issue(kind, file, _locate(document, i), str(item))


def _check_sentence(sentence: Sentence, labels: LabelSpace) -> Iterator[tuple[IssueKind, Entity | Relation]]:
    entities = [entity for entity in sentence.entities if entity.label in labels.entity_types]
    relations = [
        r
        for r in sentence.relations
        if r.label in labels.relation_types and {r.head.label, r.tail.label} <= set(labels.entity_types)
    ]
    spans = {(*entity.span, entity.label) for entity in entities}
    held = tables.fill_table(entities, relations, labels, sentence.start, sentence.end)
    for item, reason in held.omitted:
        kind = IssueKind.from_reason(reason)
        if kind is IssueKind.OVERLAP and isinstance(item, Entity):
            others = {label for start, end, label in spans if (start, end) == item.span and label != item.label}
            kind = IssueKind.TWO_TYPES if others else kind
        yield kind, item
    for entity, count in Counter(replace(e, score=None) for e in sentence.entities).items():
        if count > 1:
            yield IssueKind.REPEATED_ENTITY, entity
    for relation, count in Counter(replace(r, score=None) for r in sentence.relations).items():
        if count > 1:
            yield IssueKind.REPEATED_RELATION, relation


def _check_types(files: Mapping[str, Sequence[Document]]) -> Iterator[Issue]:
    """Issues of the types themselves, over all files."""
    for kind, counted in count_types(document for documents in files.values() for document in documents).items():
        for label, count in sorted(counted.items()):
            if count < MIN_TYPE_EXAMPLES:
                yield Issue(IssueKind.RARE, "all files", "", f"{kind} type {label!r}, {count} ×")
        spellings: dict[str, list[str]] = {}
        for label in sorted(counted):
            spellings.setdefault(SEPARATORS.sub("", label.strip().casefold()), []).append(label)
        for names in spellings.values():
            if len(names) > 1:
                spelled = ", ".join(f"{name!r} ({counted[name]:,} ×)" for name in names)
                yield Issue(IssueKind.ALIKE, "all files", "", f"{kind} types {spelled}")


def _find_unseen_types(files: Mapping[str, Sequence[Document]]) -> Iterator[Issue]:
    """Types that other files have and the first, the training data, does not have."""
    (_, trained), *others = files.items() or [("", ())]
    known = count_types(trained)
    for file, documents in others:
        for kind, counted in count_types(documents).items():
            for label in sorted(counted.keys() - known[kind].keys()):
                yield Issue(IssueKind.UNSEEN_TYPE, file, "", f"{kind} type {label!r}, {counted[label]:,} ×")


def _find_symmetric_types(files: Mapping[str, Sequence[Document]], labels: LabelSpace) -> Iterator[Issue]:
    """Relation types that look symmetric: some pairs have them in both directions."""
    pairs: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for documents in files.values():
        for document in documents:
            annotated = {(r.head.span, r.tail.span, r.label) for r in document.relations if r.head.span != r.tail.span}
            for head, tail, label in annotated:
                mirrored = (tail, head, label) in annotated
                if not mirrored or head < tail:
                    pairs[label] += 1
                    both[label] += mirrored
    for label in sorted(+both):
        if label not in labels.symmetric:
            detail = f"{label!r}, {both[label]:,} of {pairs[label]:,} pairs"
            yield Issue(IssueKind.BOTH_WAYS, "all files", "", detail)
