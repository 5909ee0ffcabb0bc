"""What does spaCy cost? The component `unire` in a pipeline, against the extractor on the same texts.

    python benchmarks/spacy_pipe.py SCIERC_TEST [--model science] [--rounds 5] [--json FILE]

The texts are SciERC's abstracts, restored to ordinary text; the pipeline is a blank English one with a sentencizer.
Prints the rates of both, from texts to results, and their ratio, rounds taken in turn; and how well each finds what is
annotated, by characters: the extractor with its own sentences and words, the component (spaCy's sentences, the model's
words, laid onto spaCy's tokens), and the same model on spaCy's tokens as words.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import spacy
from spacy.tokens import Doc

from timing import race
from unire import Document, Extractor, Protocol, formats, score
from unire.segmentation import detokenize


def words_of(doc: Doc) -> Document:
    """The tokens of a `Doc` as words, without those that are white space."""
    sentences = [[token for token in sentence if not token.is_space] for sentence in doc.sents]
    offsets = [(token.idx, token.idx + len(token)) for sentence in sentences for token in sentence]
    words = [[token.text for token in sentence] for sentence in sentences]
    return Document.from_words(words, text=doc.text, offsets=offsets)


def found_in(doc: Doc) -> Document:
    """What the component found, as a document of spaCy's tokens."""
    bare = words_of(doc)
    places = {offsets[0]: place for place, offsets in enumerate(bare.offsets)}
    ends = {offsets[1]: place + 1 for place, offsets in enumerate(bare.offsets)}
    spans = {span: bare.entity(places[span.start_char], ends[span.end_char], span.label_) for span in doc.spans["sc"]}
    relations = [(list(spans).index(r.head), list(spans).index(r.tail), r.label) for r in doc._.relations]
    return Document.from_words(
        [sentence.words for sentence in bare.sentences],
        [(entity.start, entity.end, entity.label) for entity in spans.values()],
        relations,
        text=bare.text,
        offsets=bare.offsets,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="science")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    gold = [detokenize(document) for document in formats.read(arguments.data)]
    texts = [document.text for document in gold]
    extractor = Extractor.load(arguments.model, device="cpu")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    component = nlp.add_pipe("unire", config={"model": arguments.model, "device": "cpu"})

    docs = list(nlp.pipe(texts))  # the first run prepares things
    by_characters = Protocol(spans="characters")
    f1: dict[str, list[float]] = {}
    for name, documents in (
        ("extractor", extractor.extract(texts)),
        ("component", map(found_in, docs)),
        ("spaCy's words", extractor.annotate(map(words_of, docs))),
    ):
        scores = score(gold, documents, extractor.labels, by_characters)
        f1[name] = [scores.entities.f1, scores.relations.f1]
        print(f"{name:14} Ent {100 * scores.entities.f1:.1f}  Rel {100 * scores.relations.f1:.1f}")
    print(f"unaligned      {dict(component.notes)}")

    times = race(
        {"extractor": lambda: extractor.extract(texts), "component": lambda: list(nlp.pipe(texts))}, arguments.rounds
    )
    rates = {name: len(texts) / min(each) for name, each in times.items()}
    for name, rate in rates.items():
        print(f"{name:14} {rate:8.1f} texts/s")
    ratio = rates["component"] / rates["extractor"]
    print(f"ratio          {ratio:8.2f}")
    if arguments.json:
        found = {"f1": f1, "texts/s": rates, "ratio": ratio, "notes": dict(component.notes)}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
