"""Canonical names: what is one name, what is not, and which acronyms a text defines."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire.graph.names import expand_acronyms, find_acronyms, fold_name, is_pronoun, normalize_text, strip_general_noun

words = st.text(st.sampled_from("abcdefgrstuyABCXYZß é1"), min_size=1, max_size=9).filter(str.strip)
long_words = st.text(st.sampled_from("abcdefghijklmnopqrtuvwz"), min_size=3, max_size=8).filter(
    lambda word: word not in ("and", "for", "the", "that", "this", "with", "from")
)


@pytest.mark.parametrize(
    "names",
    [
        ("Neural Networks", "neural network", "the neural network", "NEURAL NETWORKS", "our neural\nnetworks"),
        ("part-of-speech tagging", "Part of Speech Tagging", "part‐of‐speech tagging"),
        ("pre-trained models", "pretrained model", "pre trained model"),
        ("LLMs", "LLM", "llms"),
        ("speech corpora", "speech corpus"),
        ("ablation studies", "ablation study"),
        ("loss classes", "loss class"),
        ("matrices", "Matrix"),
        ("ﬁne-tuning", "fine-tuning", "finetuning"),
        ("straße", "STRASSE"),
        ("data-set", "dataset", "data sets"),
        ('"Penn Treebank"', "Penn Treebank,", "the Penn Treebank"),
        ("neural nets", "neural network models", "neural network (perceptron)"),
        ("tokenisation", "tokenization"),
        ("language modelling", "language modeling"),
        ("behaviours of neighbours", "behaviors of neighbors"),
        ("IGraSS (iterative refinement)", "iterative refinement module (IGraSS)", "IGraSS"),
    ],
)
def test_spellings_of_one_name_have_one_key(names):
    assert len({fold_name(name) for name in names}) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("GPS", "GPs"),  # a place, and Gaussian processes
        ("AIDS", "AID"),
        ("bus", "bu"),
        ("analysis", "analysi"),
        ("loss", "los"),
        ("GPT 3 5", "GPT 35"),
        ("gas", "ga"),
        ("layer 12", "layer 1 2"),
        ("C", "C++"),
        ("neural network", "neural networking"),
        ("k-means", "k-mean field"),
        ("A", "An A"[0:2]),
        ("f (x)", "g (x)"),
        ("f(x)", "f(y)"),
        ("face recognition", "frontal face recognition"),
        ("network architecture", "network"),
    ],
)
def test_different_names_have_different_keys(first, second):
    assert fold_name(first) != fold_name(second)


@given(st.text(max_size=30))
def test_every_visible_text_has_a_key(text):
    assert bool(fold_name(text)) == bool(text.split())


@given(words)
def test_a_key_ignores_case_except_in_short_capitals_and_ignores_the_form_of_characters(text):
    assert fold_name(text) == fold_name(unicodedata.normalize("NFD", text))
    lower = text.lower()
    assert fold_name(lower) == fold_name(f"  the {lower} ")
    assert fold_name(lower.replace(" ", "-")) == fold_name(lower)
    assert fold_name(lower.title()) == fold_name(lower) or "ß" in text or any(map(str.isdigit, text))


@given(st.text())
def test_a_normalized_text_stays_as_it_is(text):
    assert normalize_text(normalize_text(text)) == normalize_text(text)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("SHREWD method", "SHREWD"),
        ("SHREWD methods", "SHREWD"),
        ("framework IGraSS", "IGraSS"),
        ("method", "method"),
        ("method parsing", "method parsing"),
        ("", ""),
    ],
)
def test_a_name_can_go_without_its_general_noun(name, short):
    assert strip_general_noun(name) == short


def test_pronouns_name_nothing():
    assert all(map(is_pronoun, ("it", "Its", "They", "which", "this ")))
    assert not any(map(is_pronoun, ("its parser", "IT", "WHO", "US", "I/O", "theory")))


@pytest.mark.parametrize(
    ("text", "acronyms"),
    [
        ("named entity recognition (NER) is", {"NER": "named entity recognition"}),
        ("Large Language Models (LLMs) are", {"LLM": "Large Language Models"}),
        ("hidden Markov models (HMMs, for short)", {"HMM": "hidden Markov models"}),
        ("We use BERT (Bidirectional Encoder Representations from Transformers).",
         {"BERT": "Bidirectional Encoder Representations from Transformers"}),
        ("convolutional nets [CN] learn", {"CN": "convolutional nets"}),
        ("neural radiance field (NeRF)", {"NeRF": "neural radiance field"}),
        ("parsing and speech translation (ST)", {"ST": "speech translation"}),
        ("automatic and speech translation (AST)", {"AST": "automatic and speech translation"}),
        ("tagging and speech translation (AST)", {}),  # "and" begins no name
        ("Our parser (see Section 3) and (e.g. others) run (fast)", {}),
        ("good results (ACL) here", {}),
        ("one sentence ends. Machines (SEM)", {}),
        ("natural language inference (NLI) … Native Language Identification (NLI)",
         {"NLI": "natural language inference"}),
        ("(NER) x) ( [", {}),
        ("word error\nrate (WER)", {}),
        ("a classification model (CAT)", {}),
        ("long short-term memory networks (LSTM)", {"LSTM": "long short-term memory networks"}),
        ("a Simplified Tracking architecture (SimTrack)", {"SimTrack": "Simplified Tracking architecture"}),
    ],
)  # fmt: skip
def test_a_text_defines_its_acronyms(text, acronyms):
    assert find_acronyms(text) == acronyms


@given(st.lists(long_words, min_size=2, max_size=6))
def test_the_first_letters_of_words_are_an_acronym_of_them(long):
    short = "".join(word[0].upper() for word in long)
    name = " ".join(long)
    found = find_acronyms(f"We study {name} ({short}).")
    assert found == {short: name}
    assert fold_name(expand_acronyms(f"{name} ({short})", found)) == fold_name(name)
    assert fold_name(expand_acronyms(f"deep {short}s", found)) == fold_name(f"deep {name}")


@given(st.text(st.sampled_from("ab AB()[],. \n") | st.characters(), max_size=60))
def test_every_text_can_be_searched_and_expanded(text):
    found = find_acronyms(text)
    assert all(long in text for long in found.values())
    assert bool(expand_acronyms(text, found).strip()) == bool(text.strip())


def test_acronyms_are_expanded_as_whole_words_only():
    acronyms = {"NER": "named entity recognition"}
    assert expand_acronyms("NERD and NER", acronyms) == "NERD and named entity recognition"
    assert expand_acronyms("(NER)", acronyms) == "(named entity recognition)"
    assert expand_acronyms("entities (Deep NER)", acronyms) == "entities (Deep named entity recognition)"
