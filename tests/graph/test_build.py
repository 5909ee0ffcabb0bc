"""The graph in memory: what is one node, what supports an edge, what is left out, and what can be undone."""

from __future__ import annotations

import sys
from itertools import permutations

import networkx
import pytest

from helpers.graphs import met
from unire.documents import Document
from unire.errors import UnireError
from unire.graph import Graph, MergeRecord
from unire.graph.build import REPEATED, SELF_LOOP, combine_scores, score_weight
from unire.graph.facts import GENERIC_MENTION, GENERIC_RELATION


def annotate(text: str, *mentions: tuple[str, str], relations=(), id: str = "a", clusters=()) -> Document:
    """A document with the next mention of each text; `clusters` are positions of mentions."""
    sentences = [line.split() for line in text.split("\n")]
    words = [word for sentence in sentences for word in sentence]
    spans: list[tuple[int, int]] = []
    for name, _ in mentions:
        parts = name.split()
        starts = (i for i in range(len(words)) if words[i : i + len(parts)] == parts)
        spans.append(next((i, i + len(parts)) for i in starts if (i, i + len(parts)) not in spans))
    entities = [(*span, label, 0.9) for span, (_, label) in zip(spans, mentions, strict=True)]
    joined = [[spans[i] for i in cluster] for cluster in clusters]
    return Document.from_words(sentences, entities, relations, id=id, clusters=joined)


def names(graph: Graph) -> dict[str, dict[str, int]]:
    return {node.name: dict(node.names) for node in graph.iter_nodes()}


def edges(graph: Graph) -> list[tuple[str, str, str]]:
    shown = {node.id: node.name for node in graph.iter_nodes()}
    return [(shown[edge.head], edge.relation, shown[edge.tail]) for edge in graph.iter_edges()]


def test_spellings_of_a_name_are_one_node_whatever_the_type():
    graph = Graph(
        [
            annotate("Neural networks learn", ("Neural networks", "Method"), id="a"),
            annotate("the neural network learns", ("the neural network", "Task"), id="b"),
            annotate("a neural network learns", ("neural network", "Method"), id="c"),
        ]
    )
    (node,) = graph.iter_nodes()
    assert (node.name, node.type, node.types) == ("Neural networks", "Method", {"Method": 2, "Task": 1})
    assert (node.mentions, node.documents) == (3, 3)
    assert [(merge.name, merge.reason) for merge in graph.iter_merges()] == [
        ("neural network", "folded"),
        ("the neural network", "folded"),
    ]


def test_an_acronym_holds_in_the_document_that_defines_it():
    graph = Graph(
        [
            annotate(
                "natural language inference ( NLI )\nNLI helps",
                ("natural language inference", "Task"),
                ("NLI", "Task"),
                id="a",
            ),
            annotate("native language identification (NLI)\nNLI works", ("NLI", "Task"), id="b"),
            annotate("NLI again", ("NLI", "Task"), id="c"),
        ]
    )
    assert sorted((node.name, *sorted(node.names)) for node in graph.iter_nodes()) == [
        ("NLI", "NLI"),  # of the second document
        ("NLI", "NLI"),
        ("natural language inference", "NLI", "natural language inference"),
    ]
    assert {(merge.name, merge.reason, merge.document) for merge in graph.iter_merges()} == {
        ("NLI", "acronym", "a"),
        ("NLI", "acronym", "b"),
    }


def test_generic_mentions_and_pronouns_are_left_out_and_counted():
    document = annotate(
        "our method and it use parsers\nit helps",
        ("our method", "Generic"),
        ("it", "Method"),
        ("parsers", "Method"),
        relations=[(0, 2, "USED-FOR"), (1, 2, "USED-FOR")],
    )
    graph = Graph([document])
    assert list(names(graph)) == ["parsers"]
    assert edges(graph) == []
    assert graph.notes == {GENERIC_MENTION: 2, GENERIC_RELATION: 2}
    kept = Graph([document, annotate("our method", ("our method", "Generic"), id="b")], keep_generic=True)
    assert sorted(node.name for node in kept.iter_nodes()) == ["it", "our method", "our method", "parsers"]
    assert len(edges(kept)) == 2
    assert not kept.notes
    assert "our method" in names(Graph([document], labels="conll04"))  # which has no generic types


def test_a_cluster_gives_proper_names_the_fullest_name():
    document = annotate(
        "Ada Byron King wrote\nKing slept\nshe met Bob\nKing left",
        ("Ada Byron King", "Peop"),
        ("King", "Peop"),
        ("she", "Peop"),
        ("Bob", "Peop"),
        ("King", "Peop"),
        relations=[(2, 3, "knows")],
        clusters=[(0, 1, 2, 4)],
    )
    graph = Graph([document], labels="conll04")
    node = next(node for node in graph.iter_nodes() if node.name != "Bob")
    assert (node.mentions, node.names, node.types) == (4, {"Ada Byron King": 1, "King": 2}, {"Peop": 4})
    assert len(edges(graph)) == 1
    assert {(merge.name, merge.reason) for merge in graph.iter_merges()} >= {
        ("King", "coreference"),
        ("she", "coreference"),
    }
    assert not graph.notes


def test_a_cluster_of_concepts_names_its_generic_mentions_and_keeps_different_names_apart():
    document = annotate(
        "frontal face recognition\nface recognition\nour approach\nthe SHREWD method\nSHREWD\nit\nface recognition",
        ("frontal face recognition", "Task"),
        ("face recognition", "Task"),
        ("our approach", "Generic"),
        ("SHREWD method", "Method"),
        ("SHREWD", "Method"),
        ("it", "Generic"),
        ("face recognition", "Task"),
        relations=[(2, 0, "USED-FOR"), (5, 0, "USED-FOR")],
        clusters=[(0, 1, 6), (2, 3, 4, 5)],
    )
    graph = Graph([document])
    assert {node.name: node.mentions for node in graph.iter_nodes()} == {
        "frontal face recognition": 1,
        "face recognition": 2,
        "SHREWD method": 4,
    }
    assert edges(graph) == [("SHREWD method", "USED-FOR", "frontal face recognition")]


def test_a_generic_mention_gets_a_name_in_its_number_that_it_can_mean():
    document = annotate(
        "we extend Seq2Seq networks\nour model is small\nthey are slow\nexisting models fail\nour taggers\nour parser",
        ("Seq2Seq networks", "Method"),
        ("model", "Generic"),
        ("they", "Generic"),
        ("models", "Generic"),
        ("taggers", "Method"),
        ("parser", "Method"),
        clusters=[(0, 1, 2, 3)],
    )
    assert names(Graph([document])) == {"Seq2Seq networks": {"Seq2Seq networks": 1}}
    assert [node.mentions for node in Graph([document]).iter_nodes()] == [2]  # "they"


def test_an_undone_merge_gives_the_name_a_node_of_its_own_and_a_pronoun_none():
    documents = [
        annotate("GPs and gp", ("GPs", "Method"), ("gp", "Method"), relations=[(0, 1, "COMPARE")], id="a"),
        annotate("GPs work", ("GPs", "Method"), id="b"),
    ]
    assert [node.mentions for node in Graph(documents).iter_nodes()] == [3]
    everywhere = Graph(documents, undo=[MergeRecord(name="GPs")])
    assert names(everywhere) == {"gp": {"gp": 1}, "GPs": {"GPs": 2}}
    assert len(edges(everywhere)) == 1
    in_one = Graph(documents, undo=[MergeRecord(name="GPs", document="b")])
    assert sorted(node.mentions for node in in_one.iter_nodes()) == [1, 2]
    clustered = annotate("Ada met Bob\nshe left", ("Ada", "Peop"), ("she", "Peop"), clusters=[(0, 1)])
    assert [node.mentions for node in Graph([clustered], undo=[MergeRecord(name="she")]).iter_nodes()] == [1]


def test_a_symmetric_relation_is_one_edge_and_both_directions_are_one_mention():
    document = annotate(
        "ant versus bee",
        ("ant", "Method"),
        ("bee", "Method"),
        relations=[(0, 1, "COMPARE", 0.5), (1, 0, "COMPARE", 0.6)],
    )
    other = annotate("bee versus ant", ("bee", "Method"), ("ant", "Method"), relations=[(0, 1, "COMPARE", 0.5)], id="b")
    graph = Graph([document, other])
    (edge,) = graph.iter_edges()
    assert (edge.symmetric, edge.mentions, edge.documents, edge.score) == (True, 2, 2, 0.8)
    assert edge.head < edge.tail
    shown = {node.id: node.name for node in graph.iter_nodes()}
    for row in graph.iter_evidence():
        assert row.sentence[row.head_start : row.head_end] == shown[row.head]
        assert row.sentence[row.tail_start : row.tail_end] == shown[row.tail]


def test_an_edge_has_the_sentences_that_state_it():
    text = "Hello there\nAda met Bob\nGoodbye Bob"
    document = annotate(
        text, ("Ada", "P"), ("Bob", "P"), ("Bob", "P"), relations=[(0, 1, "met", 0.5), (0, 2, "met", 0.5)]
    )
    graph = Graph([document])
    first, second = graph.iter_evidence()
    assert (first.document, first.sentence, first.score) == ("a", "Ada met Bob", 0.5)
    assert document.text[first.sentence_start :].startswith(first.sentence)
    assert second.sentence == "Ada met Bob\nGoodbye Bob"
    assert second.sentence[second.tail_start : second.tail_end] == "Bob"
    (edge,) = graph.iter_edges()
    assert (edge.mentions, edge.documents, edge.score) == (2, 1, 0.75)


def test_a_relation_of_a_node_with_itself_is_counted_and_left_out():
    graph = Graph([met("Ada", "ADA")])
    assert edges(graph) == []
    assert graph.notes[SELF_LOOP] == 1


def test_scores_combine_as_independent_chances():
    assert combine_scores(score_weight(0.5) + score_weight(0.2)) == pytest.approx(0.6)
    assert combine_scores(score_weight(1.0)) == 1.0
    assert combine_scores(score_weight(0.0)) == 0.0
    assert [edge.score for edge in Graph([met("Ada", "Bob", score=None)]).iter_edges()] == [None]


def test_the_order_of_documents_does_not_matter_and_a_repeated_one_counts_once():
    documents = [
        met("Ada", "Bob", id="a", score=0.3),
        met("ADA", "Bob", id="b", score=0.7),
        met("bob", "Cy", id="c"),
        met("Ada", "Bob"),
        met("Ada", "Bob"),
    ]
    results = set()
    for order in permutations(documents):
        graph = Graph(order)
        assert graph.documents == 4
        assert graph.notes[REPEATED] == 1
        results.add(
            repr(
                [list(part()) for part in (graph.iter_nodes, graph.iter_edges, graph.iter_evidence, graph.iter_merges)]
            )
        )
    assert len(results) == 1


def test_a_document_and_a_graph_become_networkx():
    graph = met("Ada", "Bob", id="a").to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    ids = {data["name"]: node for node, data in graph.nodes(data=True)}
    edge = graph.edges[ids["Ada"], ids["Bob"], "knows"]
    assert (edge["mentions"], edge["score"], edge["evidence"][0].sentence) == (1, 0.5, "Ada met Bob")
    both = Graph([met("Ada", "Bob", id="a"), met("Ada", "Bob", id="b", relation="likes")]).to_networkx()
    assert both.number_of_edges() == 2


def test_without_networkx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UnireError, match=r"unire\[graph\]"):
        Graph().to_networkx()
