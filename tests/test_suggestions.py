"""Sentences to annotate next: how they are chosen, and their way through the annotation tools and back."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cli import error, run
from unire import Document, Extractor, UnireError, formats, read_documents
from unire.segmentation import segment
from unire.suggestions import Suggestion, _choose, suggest, write_tasks

TEXTS = [
    "We train a chart parser on the Penn Treebank. It is fast.\nWord sense disambiguation helps machine translation.",
    "We train a chart parser on the Penn Treebank. Thanks.",
    "A conditional random field finds named entities, and is compared with a hidden Markov model.",
]


# The choice


def test_sentences_come_with_the_annotation_that_they_have_in_their_text(science: Extractor):
    suggestions = suggest(science, [segment(text, id=f"t{i}") for i, text in enumerate(TEXTS)], 3)
    documents = {document.id: document for document in science.extract(TEXTS, ids=["t0", "t1", "t2"])}
    assert len({suggestion.document.text for suggestion in suggestions}) == 3
    for suggestion in suggestions:
        name, _, number = suggestion.document.id.partition("#")
        sentence = documents[name].sentences[int(number or 0)]
        assert suggestion.document.words == sentence.words
        assert list(map(str, suggestion.document.entities)) == list(map(str, sentence.entities))
        assert [(str(r), r.score) for r in suggestion.document.relations] == [
            (str(r), r.score) for r in sentence.relations
        ]
        assert "\n" not in suggestion.document.text
        assert suggestion.expected_errors > sum(1 - item.score for item in sentence.entities)


def test_repeated_and_annotated_sentences_are_not_chosen(science: Extractor):
    documents = [segment(text) for text in TEXTS]
    texts = [suggestion.document.text for suggestion in suggest(science, documents, 100)]
    assert len(texts) == len(set(texts)) == 5
    known = segment("we train a chart parser on the penn treebank .")
    left = [suggestion.document.text for suggestion in suggest(science, documents, 100, exclude=[known])]
    assert sorted(left) == sorted(text for text in texts if not text.startswith("We train"))


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_a_count_that_is_none_is_refused(science: Extractor, count):
    with pytest.raises(UnireError, match="count must be a whole number, at least 1"):
        suggest(science, [segment("a")], count)


def candidate(words: str, label: str, errors: float) -> Suggestion:
    return Suggestion(Document.from_words([words.split()], [(0, 1, label, 0.5)]), errors)


def choose_slowly(candidates: Sequence[Suggestion], count: int) -> list[Suggestion]:
    """The definition: in each round the best of all that are left."""
    frequencies = Counter(word for c in candidates for word in set(c.document.words))
    rarity = {word: math.log(1 + len(candidates) / n) for word, n in frequencies.items()}
    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        covered = {word for i in chosen for word in candidates[i].document.words}
        examples = Counter(e.label for i in chosen for e in candidates[i].document.entities)

        def value(i: int, covered=covered, examples=examples) -> float:
            words = set(candidates[i].document.words)
            new = sum(rarity[w] for w in words - covered) / sum(rarity[w] for w in words)
            return (
                candidates[i].expected_errors * (new + 1 / (1 + examples[candidates[i].document.entities[0].label])) / 2
            )

        left = [i for i in range(len(candidates)) if i not in chosen]
        chosen.append(max(left, key=lambda i: (round(value(i), 9), -i)))
    return [candidates[i] for i in chosen]


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5).map(" ".join),
        st.sampled_from(["X", "Y", "Z"]),
        st.integers(1, 1000).map(lambda n: n / 7),
    ),
    max_size=8,
)


@given(CANDIDATES, st.integers(1, 9))
def test_the_choice_is_greedy(candidates: list[Suggestion], count: int):
    fast, slow = _choose(candidates, count), choose_slowly(candidates, count)
    assert [c.expected_errors for c in fast] == pytest.approx([c.expected_errors for c in slow])


def test_a_sentence_like_a_chosen_one_counts_less():
    alike = [candidate("a b c d", "X", 3.0), candidate("a b c e", "X", 2.9), candidate("f g", "Y", 2.0)]
    assert [suggestion.expected_errors for suggestion in _choose(alike, 2)] == [3.0, 2.0]


@pytest.mark.slow
def test_suggested_sentences_have_more_errors_than_random_ones(science: Extractor, data_folder: Path):
    """Measured: 451 errors in 50 sentences, where random ones have 184; per word 1.7 times as many."""
    gold = [
        Document.from_words(
            [s.words], [(e.start - s.start, e.end - s.start, e.label) for e in s.entities], id=f"{d.id}#{i}"
        )
        for d in read_documents(data_folder / "scierc" / "test.json")
        for i, s in enumerate(d.sentences)
    ]
    by_id = {document.id: document for document in gold}

    def errors_per_word(suggestions: Sequence[Suggestion]) -> float:
        documents = [suggestion.document for suggestion in suggestions]
        wrong = 0
        for document in documents:
            annotated = [{(e.span, e.label) for e in d.entities} for d in (document, by_id[document.id])]
            wrong += len(annotated[0] ^ annotated[1])
        return wrong / sum(document.n_words for document in documents)

    everything = suggest(science, gold, len(gold))
    chosen = suggest(science, gold, 50)
    others = [errors_per_word(random.Random(seed).sample(everything, 50)) for seed in range(20)]
    assert errors_per_word(chosen) > 1.2 * sum(others) / len(others)


# To the annotation tools and back


def correct_labelstudio(path: Path) -> Path:
    """Submit all tasks but the last as exported by Label Studio: with a type changed, and the predictions beside."""
    tasks = json.loads(path.read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):
        assert "annotations" not in task
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "science"
        result = json.loads(json.dumps(prediction["result"]))
        result[0]["value"]["labels"] = ["Generic"]
        task["annotations"] = [{"id": number, "result": result, "was_cancelled": False}]
    tasks[-1]["annotations"] = []
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def correct_prodigy(path: Path) -> Path:
    """Answer the examples as Prodigy exports them: the last one is ignored."""
    examples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for example in examples:
        assert "answer" not in example
        before = dict(example["spans"][0])
        example["spans"][0]["label"] = "Generic"
        for relation in example["relations"]:
            for side in ("head_span", "child_span"):
                if relation[side] == before:
                    relation[side] = example["spans"][0]
        example.update(_input_hash=1, answer="accept")
    examples[-1]["answer"] = "ignore"
    path.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    return path


def correct_brat(path: Path) -> Path:
    """Change the type of the first entity of each text."""
    for file in path.rglob("*.ann"):
        name, label = file.read_text(encoding="utf-8").partition(" ")[0].split("\t")
        assert name == "T1"
        file.write_text(file.read_text(encoding="utf-8").replace(f"T1\t{label}", "T1\tGeneric", 1), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "correct", "left_out"),
    [("labelstudio", correct_labelstudio, 1), ("prodigy", correct_prodigy, 1), ("brat", correct_brat, 0)],
)
def test_suggestions_are_corrected_and_come_back(
    tool: str, correct: Callable[[Path], Path], left_out: int, tmp_path: Path
):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join([TEXTS[0].partition("\n")[0], *TEXTS[1:]]), encoding="utf-8")
    out, back = tmp_path / "tasks", tmp_path / "back.jsonl"
    ran = run("annotate", "suggest", texts, "--lines", "--count", 2, "--format", tool, "--out", out)
    assert ran.exit_code == 0, ran.output
    assert f"Wrote 2 sentences for {tool}" in ran.output
    if tool == "labelstudio":  # nothing has been submitted yet
        wrong = error("data", "convert", out, "--out", back)
        assert "holds no document to read: 2 × task with predictions that nobody has annotated, left out" in wrong
    suggested = list(formats.read(out, tool, predicted=True))
    assert len(suggested) == 2
    assert run("data", "convert", correct(out), "--out", back).exit_code == 0
    corrected = list(formats.read(back))
    assert len(corrected) == 2 - left_out
    for document in corrected:
        before = next(other for other in suggested if other.id == document.id)
        assert (document.text, document.words) == (before.text, before.words)
        assert document.entities[0].label == "Generic"
        assert list(map(str, document.entities[1:])) == list(map(str, before.entities[1:]))
        assert [(r.head.span, r.label, r.tail.span) for r in document.relations] == [
            (r.head.span, r.label, r.tail.span) for r in before.relations
        ]
    again = run("annotate", "suggest", texts, "--lines", "--exclude", back, "--out", tmp_path / "more.json", "--json")
    texts_again = {task["data"]["text"] for task in json.loads((tmp_path / "more.json").read_text())}
    assert json.loads(again.stdout)["sentences"] == len(texts_again) > 0
    assert not texts_again & {document.text for document in corrected}


def test_texts_that_are_all_annotated_and_outputs_that_are_inputs_are_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_text("It is fast.", encoding="utf-8")
    formats.write([segment("It is fast.", id="a")], tmp_path / "known.jsonl")
    suggest_from = ("annotate", "suggest", tmp_path / "a.txt", "--out")
    assert "no sentence is left to suggest" in error(
        *suggest_from, tmp_path / "b", "--exclude", tmp_path / "known.jsonl"
    )
    assert "a.txt" in error(*suggest_from, tmp_path / "a.txt")
    with pytest.raises(UnireError, match="unknown annotation tool 'csv'; give one of labelstudio, prodigy, brat"):
        write_tasks([], tmp_path / "c", "csv")
