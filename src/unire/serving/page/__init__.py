"""The page at `/`, where users type a text and see its tables. It has no external resources."""

from __future__ import annotations

from unire.decoding.decoders import SPAN_DECODERS
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.rendering import Palette
from unire.rendering.html.markup import PageTemplate, escape_text, read_asset
from unire.rendering.html.page import SCRIPT, STYLE, TABLE_HINT, embed_json, encode_labels
from unire.serving.limits import ServingLimits

__all__ = ["LivePage"]

EXAMPLES: dict[frozenset[str], tuple[str, ...]] = {
    frozenset({"Task", "Method", "Metric", "Material"}): (
        "We train a chart parser on the Penn Treebank for dependency parsing. It outperforms a transition-based parser "
        "in accuracy.",
        "Word embeddings such as GloVe are used for named entity recognition. We evaluate a bidirectional LSTM and a "
        "conditional random field on CoNLL-2003, and report F1.",
        "We present a corpus of spoken dialogues for speech recognition. Language models trained on it reduce the word "
        "error rate of the recognizer.",
    ),
    frozenset({"Peop", "Org", "Loc", "PER", "ORG", "LOC", "GPE"}): (
        "Marie Curie was born in Warsaw and worked at the University of Paris. She died in Passy, France, in 1934.",
        "The company Siemens is based in Munich, Germany. Its founder, Werner von Siemens, lived in Berlin.",
        "Lee Harvey Oswald shot President John F. Kennedy in Dallas, Texas.",
    ),
    frozenset({"Person", "Organization", "Place"}): (
        "Marie Curie was born in Warsaw and married Pierre Curie in 1895. She taught at the University of Paris.",
        "Spotify was founded by Daniel Ek and Martin Lorentzon in 2006. The company is based in Stockholm, Sweden.",
        "The film Jaws, directed by Steven Spielberg and starring Roy Scheider, was released in 1975.",
    ),
    frozenset({"Drug", "Adverse-Effect"}): (
        "A patient developed acute renal failure after treatment with ibuprofen. Lithium may cause tremor.",
        "Severe hepatitis was reported in two women who took isoniazid.",
    ),
}
"""Texts to start with, by the entity types of the models that they suit."""


class LivePage:
    """The page for a model."""

    def __init__(self, extractor: Extractor, name: str, limits: ServingLimits) -> None:
        shell = PageTemplate(
            f"unire: {name}",
            "\n".join([*map(read_asset, STYLE), read_asset("live.css", __name__)]),
            "\n".join([*map(read_asset, SCRIPT), read_asset("live.js", __name__)]),
            connects=True,
        )
        labels, settings = extractor.labels, extractor.config
        known = {
            "labels": encode_labels(labels, Palette(labels)),
            "alpha": settings.alpha if settings.decoder in SPAN_DECODERS else None,
            "byDistance": settings.decoder == "split",
            "examples": _choose_examples(labels),
            "characters": limits.text_characters,
        }
        body = read_asset("live.html", __name__).replace("{hint}", TABLE_HINT).replace("{name}", escape_text(name))
        script = embed_json(known, 'id="known"')
        self.html = f"{shell.head}{body.replace('{known}', script)}</html>\n"
        self.headers = {
            "Content-Security-Policy": f"{shell.policy}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
        }


def _choose_examples(labels: LabelSpace) -> tuple[str, ...]:
    """The examples that share most entity types with a model; none if none shares any."""
    types = set(labels.entity_types)
    best = max(EXAMPLES, key=lambda known: len(known & types))
    return EXAMPLES[best] if best & types else ()
