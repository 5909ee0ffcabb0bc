"""What is sent and what is answered, as OpenAPI describes it; and what is sent, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from unire.errors import UnireError
from unire.serving.jobs import ExtractJob, Source, ViewJob, length

__all__ = [
    "GONE",
    "Answer",
    "ApiError",
    "ExtractRequest",
    "Problem",
    "ServingLimits",
    "State",
    "ViewAnswer",
    "ViewRequest",
    "parsed",
]


@dataclass(frozen=True)
class ServingLimits:
    """What one request may ask, how many may wait, and how they are batched."""

    body: int = 2**18
    """Bytes of a request."""
    text: int = 20_000
    """Characters of a text."""
    texts: int = 64
    """Texts of a request."""
    queue: int = 256
    """Requests that wait while others are computed."""
    timeout: float = 30.0
    """Seconds after which a request is given up; also, for which its body, and a caller who reads, are waited for."""
    grace: float = 20.0
    """Seconds that a server which is told to stop has for what it accepted."""
    connections: int = 512
    """Connections that are open at a time."""
    batch: int = 2**13
    """Characters that are computed together, where no text by itself has more."""
    wait: float = 0.005
    """Seconds, at most, that a request waits for others to be computed with it."""
    workers: int = 2
    """Batches that are computed at a time: while one is prepared or answered, another keeps the cores busy."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in ("wait", "grace") else 1
            if not least <= value < math.inf:
                raise UnireError(f"the limit {field.name!r} must be {least} or more, not {value}")


GONE = 499
"""The status under which requests are counted whose caller did not wait for the answer."""
EXAMPLE = "We train a chart parser on the Penn Treebank for dependency parsing."


class ApiError(Exception):
    """A request that is not answered as it hopes.

    Args:
        status: Of HTTP.
        sentence: Says why, and what to do.
        retry: Seconds after which it may be worth asking again.
    """

    def __init__(self, status: int, sentence: str, retry: int | None = None) -> None:
        super().__init__(status)  # the sentence may quote what was sent
        self.status = status
        self.sentence = sentence
        self.headers = {} if retry is None else {"Retry-After": str(retry)}


# Requests


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _may_be_absent(description: str) -> Any:
    """A field that is `None` where it is left out, but may not be sent as null."""
    return Field(default_factory=lambda: None, description=description)


class ExtractRequest(_Request):
    """One of `text`, `texts` and `words`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["text"]}, {"required": ["texts"]}, {"required": ["words"]}],
            "examples": [{"text": EXAMPLE}],
        }
    )

    text: str = _may_be_absent("A text.")
    texts: list[str] = _may_be_absent("Several texts.")
    words: list[list[str]] = _may_be_absent(
        "The sentences of one document, each a list of its words, which stay as they are."
    )
    min_score: Annotated[
        float, Field(ge=0, le=1, description="Leave out what has a lower score: a chance of being right.")
    ] = 0.0

    def order(self, limits: ServingLimits) -> ExtractJob:
        given = [value for value in (self.text, self.texts, self.words) if value is not None]
        if len(given) != 1:
            raise ApiError(422, 'give one of "text", "texts" and "words"')
        if self.words is not None:
            _check_length(self.words, "the words together have", limits)
            return ExtractJob([self.words], self.min_score)
        texts = [self.text] if self.text is not None else self.texts or []
        _check_texts(texts, limits)
        return ExtractJob(texts, self.min_score)


def _whole(value: Any) -> Any:
    """To JSON, 1.0 is the integer 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ViewRequest(_Request):
    """A text to be shown with its tables."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": EXAMPLE, "alpha": 1.2, "cells": [0]}]})

    text: Annotated[str, Field(description="The text.")]
    alpha: Annotated[float, Field(gt=0, le=1000)] = _may_be_absent(
        "The threshold by which tables are cut; the model's own when left out."
    )
    cells: Annotated[
        list[Annotated[int, Field(ge=0, le=2**31), BeforeValidator(_whole)]],
        Field(description="Sentences, counted from 0, whose tables are to come with the probabilities of every cell."),
    ] = []

    def order(self, limits: ServingLimits) -> ViewJob:
        _check_texts([self.text], limits)
        return ViewJob(self.text, self.alpha, frozenset(self.cells))


Request = TypeVar("Request", bound=_Request)


def parsed(kind: type[Request], body: bytes) -> Request:
    """The request that a body holds."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise ApiError(422, _sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    """What is wrong first, without what was sent."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    reason = first["msg"][:1].lower() + first["msg"][1:]
    place = ".".join(str(part) for part in first["loc"][:3] if len(str(part)) <= 20)
    if first["type"] == "json_invalid":
        return 'the body is not JSON that can be read: it should be an object such as {"text": "…"}'
    if first["type"] == "extra_forbidden":
        return f"the body has a field that is not known; known are {', '.join(_names(error))}"
    return f'"{place}" cannot be used: {reason}' if place else f"the body cannot be used: {reason}"


def _names(error: ValidationError) -> Sequence[str]:
    kinds = {kind.__name__: kind for kind in (ExtractRequest, ViewRequest)}
    return [f'"{name}"' for name in kinds[error.title].model_fields]


def _check_texts(texts: Sequence[str], limits: ServingLimits) -> None:
    if len(texts) > limits.texts:
        raise ApiError(
            422, f"there are {len(texts):,} texts, and a request may have {limits.texts:,}; send fewer at once"
        )
    for i, text in enumerate(texts):
        _check_length(text, "the text has" if len(texts) == 1 else f"text {i} has", limits)


def _check_length(source: Source, what: str, limits: ServingLimits) -> None:
    if (characters := length(source)) > limits.text:
        raise ApiError(422, f"{what} {characters:,} characters, and a text may have {limits.text:,}; send it in parts")


# Answers


class Mention(BaseModel):
    text: str
    label: str
    char_start: int
    char_end: int


class FoundEntity(Mention):
    score: float


class FoundRelation(BaseModel):
    head: Mention
    tail: Mention
    label: str
    score: float


class TextDocument(BaseModel):
    """A text with what was found in it, as `Document.to_dict()` has it."""

    model_config = ConfigDict(extra="forbid")
    id: str
    text: str
    entities: list[FoundEntity]
    relations: list[FoundRelation]


class WordsEntity(FoundEntity):
    start: int
    end: int


class WordsRelation(BaseModel):
    head: Annotated[int, Field(description="Position in `entities`.")]
    tail: int
    label: str
    score: float


class WordsDocument(BaseModel):
    """A document that came as words, with what was found in it, in the format `unire`."""

    model_config = ConfigDict(extra="forbid")
    id: str
    text: str
    sentences: list[list[str]]
    offsets: list[list[list[int]]] | SkipJsonSchema[None] = None
    entities: list[WordsEntity]
    relations: list[WordsRelation]
    cuts: list[list[int] | None] | SkipJsonSchema[None] = None


class Answer(BaseModel):
    documents: Annotated[
        list[TextDocument | WordsDocument], Field(description="In the order of the texts; one where words were sent.")
    ]


class ViewAnswer(BaseModel):
    """What the page at `/` shows of a text."""

    sentences: Annotated[list[str], Field(description="HTML of each sentence.")]
    triples: Annotated[str, Field(description="HTML of the list of relations.")]
    relations: Annotated[list[dict[str, Any]], Field(description="Arcs.")]
    tables: Annotated[list[dict[str, Any]], Field(description="Tables by sentence.")]
    document: TextDocument
    tsv: Annotated[str, Field(description="The relations as tab-separated values.")]


class Problem(BaseModel):
    error: Annotated[str, Field(description="One sentence: what is wrong, and what to do.")]


class State(BaseModel):
    status: str
    model: str
