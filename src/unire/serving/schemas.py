"""Requests and answers, as OpenAPI describes them, and the checks of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from unire.errors import UnireError
from unire.extractor import Extractor
from unire.result_filter import ResultFilter
from unire.serving.jobs import ExtractJob, Source, ViewJob, count_characters
from unire.serving.limits import ServingLimits

__all__ = [
    "CLIENT_CLOSED_REQUEST",
    "Answer",
    "ApiError",
    "ExtractRequest",
    "GraphAnswer",
    "GraphRequest",
    "Problem",
    "State",
    "ViewAnswer",
    "ViewRequest",
    "parse_request",
]


CLIENT_CLOSED_REQUEST = 499
"""Status under which requests are counted whose caller disconnected, as nginx does."""
EXAMPLE = "We train a chart parser on the Penn Treebank for dependency parsing."


class ApiError(Exception):
    """An answer that is an error.

    Args:
        status: HTTP status.
        sentence: What is wrong, and what to do.
        retry: Seconds after which the caller may try again.
    """

    def __init__(self, status: int, sentence: str, retry: int | None = None) -> None:
        super().__init__(status)  # the sentence may quote the request, and exceptions are logged
        self.status = status
        self.sentence = sentence
        self.headers = {} if retry is None else {"Retry-After": str(retry)}


# Requests


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _optional(description: str) -> Any:
    """Make a field that is `None` by default but may not be sent as null."""
    return Field(default_factory=lambda: None, description=description)


class ExtractRequest(_Request):
    """One of `text`, `texts` and `words`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["text"]}, {"required": ["texts"]}, {"required": ["words"]}],
            "examples": [{"text": EXAMPLE}],
        }
    )

    text: str = _optional("A text.")
    texts: list[str] = _optional("Several texts.")
    words: list[list[str]] = _optional("The sentences of one tokenized document, each a list of its words.")
    min_score: Annotated[
        Annotated[float, Field(ge=0, le=1)] | Literal["auto"],
        Field(
            description="Drop entities and relations with a lower score (calibrated probability); `auto`: with a lower "
            "one than the model recommends."
        ),
    ] = 0.0
    entities: list[str] = _optional("Keep only entities of these types, and relations between them. [default: all]")
    relations: list[str] = _optional(
        "Keep only relations of these types; without `entities`, only their arguments. [default: all]"
    )

    def to_job(self, limits: ServingLimits, extractor: Extractor) -> ExtractJob:
        if sum(value is not None for value in (self.text, self.texts, self.words)) != 1:
            raise ApiError(422, 'give one of "text", "texts" and "words"')
        if self.words is not None:
            _check_length(self.words, "the words together have", limits)
            return ExtractJob([self.words], self._filter(extractor))
        texts = [self.text] if self.text is not None else self.texts or []
        _check_texts(texts, limits)
        return ExtractJob(texts, self._filter(extractor))

    def _filter(self, extractor: Extractor) -> ResultFilter:
        names = {"entities": self.entities, "relations": self.relations}
        known = extractor.config.calibration
        try:
            return ResultFilter.build(extractor.labels, self.min_score, **names, calibration=known)
        except UnireError as error:
            raise ApiError(422, str(error).replace("=...", "", 1)) from None


def _to_integer(value: Any) -> Any:
    """Accept 1.0 for 1, because JSON does not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ViewRequest(_Request):
    """A text to be shown with its tables."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": EXAMPLE, "alpha": 1.2, "cells": [0]}]})

    text: Annotated[str, Field(description="The text.")]
    alpha: Annotated[float, Field(gt=0, le=1000)] = _optional("Threshold of the decoder. [default: the model's own]")
    cells: Annotated[
        list[Annotated[int, Field(ge=0, le=2**31), BeforeValidator(_to_integer)]],
        Field(description="Sentences, counted from 0, for which the answer has the probabilities of every cell."),
    ] = []

    def to_job(self, limits: ServingLimits, extractor: Extractor) -> ViewJob:
        _check_texts([self.text], limits)
        return ViewJob(self.text, self.alpha, frozenset(self.cells))


Name = Annotated[str, Field(max_length=1000)]


class GraphRequest(_Request):
    """A question about the graph: one of the fields above the filter."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"search": "parser"}]})

    overview: Annotated[int, Field(ge=0, le=100)] = _optional("The counts, and as many of the largest nodes.")
    search: Name = _optional("The entities with these words in their names.")
    entity: Name = _optional("The node with this id, and its edges.")
    path: Annotated[list[Name], Field(min_length=2, max_length=2)] = _optional("A shortest path between two ids.")
    evidence: Annotated[list[Name], Field(min_length=3, max_length=3)] = _optional(
        "The sentences of an edge: head, relation, tail."
    )
    table: Annotated[list[Name], Field(min_length=1, max_length=2)] = _optional(
        "The edges of a comparison table: the type of the rows and, if its entities are the columns, a second one."
    )
    min_score: Annotated[float, Field(ge=0, le=1, description="Leave out edges with a lower score.")] = 0.0
    hidden_types: Annotated[list[Name], Field(max_length=1000)] = _optional("Leave out nodes of these types.")
    hidden_relations: Annotated[list[Name], Field(max_length=1000)] = _optional("Leave out these relations.")

    def check(self) -> GraphRequest:
        """Return the request if it has one question."""
        questions = ("overview", "search", "entity", "path", "evidence", "table")
        if sum(getattr(self, name) is not None for name in questions) != 1:
            raise ApiError(422, f"give one of {', '.join(questions)}")
        return self


Request = TypeVar("Request", bound=_Request)


def parse_request(kind: type[Request], body: bytes) -> Request:
    """Parse and check the body of a request."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise ApiError(422, _describe(error)) from None


NUMBER_OR_AUTO = "constrained-float"
"""What pydantic appends to the place of an error in a number that may also be `auto`."""


def _describe(error: ValidationError) -> str:
    """Describe the first error without quoting the request."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    reason = first["msg"][:1].lower() + first["msg"][1:]
    parts = [str(part) for part in first["loc"][:3] if part != NUMBER_OR_AUTO]
    place = ".".join(part for part in parts if len(part) <= 20)
    if first["type"] == "json_invalid":
        return 'the body is not JSON that can be read: it should be an object such as {"text": "…"}'
    if first["type"] == "extra_forbidden":
        return f"the body has a field that is not known; known are {', '.join(_field_names(error))}"
    return f'"{place}" cannot be used: {reason}' if place else f"the body cannot be used: {reason}"


def _field_names(error: ValidationError) -> Sequence[str]:
    kinds = {kind.__name__: kind for kind in (ExtractRequest, ViewRequest, GraphRequest)}
    return [f'"{name}"' for name in kinds[error.title].model_fields]


def _check_texts(texts: Sequence[str], limits: ServingLimits) -> None:
    if len(texts) > limits.texts:
        raise ApiError(
            422, f"there are {len(texts):,} texts, and a request may have {limits.texts:,}; send fewer at once"
        )
    for i, text in enumerate(texts):
        _check_length(text, "the text has" if len(texts) == 1 else f"text {i} has", limits)


def _check_length(source: Source, what: str, limits: ServingLimits) -> None:
    if (characters := count_characters(source)) > limits.text_characters:
        raise ApiError(
            422, f"{what} {characters:,} characters, and a text may have {limits.text_characters:,}; send it in parts"
        )


# Answers


class MentionText(BaseModel):
    text: str
    char_start: int
    char_end: int


class Mention(MentionText):
    label: str


class FoundEntity(Mention):
    score: float


class FoundRelation(BaseModel):
    head: Mention
    tail: Mention
    label: str
    score: float


class TextDocument(BaseModel):
    """A text with entities and relations, as from `Document.to_dict()`."""

    model_config = ConfigDict(extra="forbid")
    id: str
    text: str
    entities: list[FoundEntity]
    relations: list[FoundRelation]
    clusters: list[list[MentionText]] | SkipJsonSchema[None] = None


class WordsEntity(FoundEntity):
    start: int
    end: int


class WordsRelation(BaseModel):
    head: Annotated[int, Field(description="Position in `entities`.")]
    tail: int
    label: str
    score: float


class WordsDocument(BaseModel):
    """A tokenized document with entities and relations, in the format `unire`."""

    model_config = ConfigDict(extra="forbid")
    id: str
    text: str
    sentences: list[list[str]]
    offsets: list[list[list[int]]] | SkipJsonSchema[None] = None
    entities: list[WordsEntity]
    relations: list[WordsRelation]
    cuts: list[list[int] | None] | SkipJsonSchema[None] = None
    clusters: list[list[list[int]]] | SkipJsonSchema[None] = None


class Answer(BaseModel):
    documents: Annotated[
        list[TextDocument | WordsDocument], Field(description="In the order of the texts; a single one for `words`.")
    ]


class ViewAnswer(BaseModel):
    """What the page at `/` shows of a text."""

    sentences: Annotated[list[dict[str, Any]], Field(description="Words and entities of each sentence.")]
    entities: Annotated[list[dict[str, Any]], Field(description="Entities, with their colours.")]
    clusters: Annotated[list[list[str]], Field(description="The different texts of each coreference cluster.")]
    relations: Annotated[
        list[dict[str, Any]], Field(description="Relations; the two directions of a symmetric one are one.")
    ]
    tables: Annotated[list[dict[str, Any]], Field(description="Tables by sentence.")]
    document: TextDocument
    tsv: Annotated[str, Field(description="The relations as tab-separated values.")]


class GraphAnswer(BaseModel):
    """What the page at `/graph` shows; its fields depend on the question."""

    nodes: list[list[Any]] = []
    edges: list[list[Any]] = []
    degrees: Annotated[list[int], Field(description="Numbers of edges of the nodes.")] = []
    evidence: list[list[Any]] = []


class Problem(BaseModel):
    error: Annotated[str, Field(description="One sentence: what is wrong, and what to do.")]


class State(BaseModel):
    status: str
    model: str
