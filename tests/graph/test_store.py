"""The graph on disk: the same as the one in memory, however it was built, interrupted or extended."""

from __future__ import annotations

import json
import random
import sys
from base64 import b64decode
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="needs the extra graph")

from helpers.graphs import HOSTILE, met
from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.graph import Graph, GraphInputs, KnowledgeGraph, MergeRecord, add_to_graph, build_graph, export_graph, merge
from unire.graph import store as store_module
from unire.output_files import lock_output

PARTS = ("iter_nodes", "iter_edges", "iter_evidence", "iter_merges")
NAMES = [
    "parser",
    "Parsers",
    "the parser",
    "tagger",
    "CRF",
    "conditional random field",
    "GPs",
    "GPS",
    "it",
    *HOSTILE[:4],
]


def make_documents(n: int, seed: int = 0) -> list[Document]:
    """Sentences of random names, types, relations, scores and clusters."""
    draw = random.Random(seed)
    documents = []
    for number in range(n):
        names = draw.sample(NAMES, 4)
        words = [["Conditional", "random", "field", "(CRF)", "."], [*names[:2], "met"], [*names[2:], "."]]
        spans = [(5, 6), (6, 7), (8, 9), (9, 10)]
        entities = [(*span, draw.choice(["Method", "Task", "Generic"]), draw.random()) for span in spans]
        pairs = draw.sample([(a, b) for a in range(4) for b in range(4) if a != b], 5)
        relations = [
            (*pair, draw.choice(["USED-FOR", "COMPARE"]), draw.choice([None, draw.random(), 1.0])) for pair in pairs
        ]
        clusters = [[spans[0], spans[3]]] if draw.random() < 0.3 else []
        documents.append(Document.from_words(words, entities, relations, clusters=clusters, id=f"d{number}"))
    return documents


def save(documents: list[Document], path: Path) -> str:
    formats.write(documents, path, "unire")
    return str(path)


def read(folder: Path) -> list[list[object]]:
    with KnowledgeGraph.open(folder) as graph:
        return [list(getattr(graph, part)()) for part in PARTS]


def in_memory(documents: list[Document], **options) -> list[list[object]]:
    graph = Graph(documents, **options)
    return [list(getattr(graph, part)()) for part in PARTS]


def test_acronyms_that_documents_agree_on_have_their_long_form_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "PART_DOCUMENTS", 2)

    def say(number: int, text: str, *names: str) -> Document:
        words = text.split()
        sizes = [(name.split(), len(name.split())) for name in names]
        spans = [(i, i + n) for name, n in sizes for i in range(len(words)) if words[i : i + n] == name]
        entities = [(*span, "Method", 0.5) for span in spans]
        return Document.from_words([words], entities, [(0, 1, "COMPARE", 0.5)], id=f"d{number}")

    models = "hidden Markov models (HMMs) and taggers", "hidden Markov models", "taggers"
    exams = "standard English test (SET) and taggers", "standard English test", "taggers"
    machines = "finite state machine (FSM) and taggers", "taggers", "finite state machine"
    documents = [say(i, *models) for i in range(10)] + [say(i, *exams) for i in range(10, 20)]
    documents += [say(i, *machines) for i in range(20, 29)]  # too few
    documents += [
        say(30, "HMM and parsers", "HMM", "parsers"),
        say(31, "HMM as hidden Markov model", "HMM", "hidden Markov model"),  # one node: no edge with itself
        say(32, "a set of parsers", "set", "parsers"),  # not the acronym
        say(33, "parsers and HMMs", "parsers", "HMMs"),
        say(34, "FSM and parsers", "FSM", "parsers"),
    ]
    for undo in ([], [MergeRecord(name="HMM")]):
        folder = tmp_path / f"graph{len(undo)}"
        build_graph([save(documents, tmp_path / "all.jsonl")], folder, undo=undo)
        assert read(folder) == in_memory(documents, undo=undo)
    nodes = {node.name: node for node in Graph(documents).iter_nodes()}
    assert (nodes["hidden Markov models"].documents, nodes["hidden Markov models"].names["HMM"]) == (13, 2)
    assert {"set", "standard English test", "FSM"} <= set(nodes)
    merges = {(merge.name, merge.reason, merge.document) for merge in Graph(documents).iter_merges()}
    assert {("HMM", "acronym", None), ("HMMs", "acronym", None)} <= merges


@pytest.mark.parametrize("seed", range(3))
def test_the_graph_on_disk_is_the_graph_in_memory(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "PART_DOCUMENTS", 7)
    monkeypatch.setattr(merge, "NODES_AT_A_TIME", 3)
    documents = make_documents(40, seed)
    keep = seed == 2
    undo = [MergeRecord(name="Parsers"), MergeRecord(name="CRF", document="d3"), MergeRecord(name="it")] * (seed == 1)
    about = build_graph([save(documents, tmp_path / "all.jsonl")], tmp_path / "graph", keep_generic=keep, undo=undo)
    expected = in_memory(documents, keep_generic=keep, undo=undo)
    assert read(tmp_path / "graph") == expected
    assert [about[name] for name in ("nodes", "edges", "evidence", "merges")] == [len(part) for part in expected]
    assert about["notes"] == +Graph(documents, keep_generic=keep, undo=undo).notes
    assert all(expected)


@pytest.mark.slow
def test_the_order_and_number_of_files_and_runs_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "PART_DOCUMENTS", 4)
    documents = make_documents(30)
    expected = in_memory(documents)
    files = [save(documents[i::3], tmp_path / f"{i}.jsonl") for i in range(3)]
    build_graph(files, tmp_path / "one", workers=2)
    build_graph(files[::-1], tmp_path / "two")
    build_graph(files[1:2], tmp_path / "three")
    add_to_graph(tmp_path / "three", [files[2], files[0]])
    add_to_graph(tmp_path / "three", files[:1])  # again
    other = save(documents[5:12], tmp_path / "other.jsonl")  # the same documents from another file
    add_to_graph(tmp_path / "three", [other])
    for name in ("one", "two", "three"):
        assert read(tmp_path / name) == expected


@pytest.mark.parametrize("stop", [1, 5, 12, "merge"])
def test_an_interrupted_build_continues(stop, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "PART_DOCUMENTS", 3)
    documents = make_documents(14)
    source = save(documents, tmp_path / "all.jsonl")
    calls = 0
    collect = store_module.collect_facts

    def interrupted(*args):
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return collect(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "collect_facts", interrupted)
        if stop == "merge":
            patch.setattr(merge, "_copy_edges", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_graph([source], tmp_path / "graph")
    with pytest.raises(UnireError, match="is not finished; continue"):
        KnowledgeGraph.open(tmp_path / "graph")
    with pytest.raises(UnireError, match="holds a graph; pass a new folder, or continue"):
        build_graph([source], tmp_path / "graph")
    before = calls
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "collect_facts", interrupted)
        build_graph([source], tmp_path / "graph", resume=True)
    assert calls - before <= 14 - 3 * ((before - 1) // 3 if stop != "merge" else 4)
    assert read(tmp_path / "graph") == in_memory(documents)
    assert not (tmp_path / "graph" / ".work").exists()


def test_merges_can_be_undone_later(tmp_path):
    documents = make_documents(20)
    build_graph([save(documents, tmp_path / "all.jsonl")], tmp_path / "graph")
    undo = [MergeRecord(name="Parsers"), MergeRecord(name="the parser", document="d1")]
    add_to_graph(tmp_path / "graph", undo=undo[:1])
    add_to_graph(tmp_path / "graph", undo=undo)
    assert read(tmp_path / "graph") == in_memory(documents, undo=undo)
    assert read(tmp_path / "graph") != in_memory(documents)


def test_texts_are_read_by_the_model(tmp_path):
    texts = tmp_path / "abstracts.txt"
    texts.write_text("We train a parser on the Penn Treebank.\nParsers use word embeddings.\n", encoding="utf-8")
    about = build_graph(GraphInputs((str(texts),), lines=True), tmp_path / "graph")
    assert about["documents"] == 2
    assert about["rules"]["generic"] == ["Generic"]
    with KnowledgeGraph.open(tmp_path / "graph") as graph:
        assert graph.find_one("parser").documents == 2


def test_a_folder_of_results_is_read_file_by_file_and_other_files_are_refused(tmp_path):
    documents = make_documents(8)
    (tmp_path / "found").mkdir()
    for i in range(2):
        save(documents[i::2], tmp_path / "found" / f"{i}.jsonl")
    build_graph([tmp_path / "found"], tmp_path / "graph")
    assert read(tmp_path / "graph") == in_memory(documents)
    (tmp_path / "parquet").mkdir()
    for i in range(2):
        formats.write(documents[i::2], tmp_path / "parquet" / f"{i}.parquet", "parquet")
    build_graph([tmp_path / "parquet"], tmp_path / "other")
    assert read(tmp_path / "other") == in_memory(documents)
    (tmp_path / "found" / "notes.txt").write_text("A note.")
    with pytest.raises(UnireError, match=r"holds results and other files, such as notes\.txt"):
        build_graph([tmp_path / "found"], tmp_path / "third")


def test_what_a_reader_leaves_out_is_counted(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "found").mkdir()
    for i, document in enumerate(make_documents(2)):
        formats.write([document], tmp_path / "found" / f"{i}.parquet", "parquet")
    failed = pq.read_table(tmp_path / "found" / "1.parquet")
    for name, value in (("block", "1.parquet"), ("error", "it is not UTF-8")):  # as of a run with Ray
        failed = failed.append_column(name, pa.array([value]))
    pq.write_table(failed, tmp_path / "found" / "1.parquet")
    about = build_graph([tmp_path / "found"], tmp_path / "graph")
    assert about["documents"] == 1
    assert sum(count for note, count in about["notes"].items() if "error" in note) == 1


def test_only_one_run_writes_a_graph_and_only_into_a_new_folder(tmp_path):
    source = save(make_documents(2), tmp_path / "all.jsonl")
    with lock_output(tmp_path / "graph"):
        (tmp_path / "graph").mkdir()
        (tmp_path / "graph" / "mine.txt").touch()
        with pytest.raises(UnireError, match=r"already exists and holds 'mine\.txt'"):
            build_graph([source], tmp_path / "graph")
    with pytest.raises(UnireError, match="is no graph"):
        add_to_graph(tmp_path / "nothing", [source])
    build_graph([source], tmp_path / "new")
    with pytest.raises(UnireError, match="other labels or another keep_generic"):
        build_graph([source], tmp_path / "new", labels="conll04", resume=True)
    assert build_graph([source], tmp_path / "new", resume=True)["documents"] == 2
    (tmp_path / "new" / "graph.json").write_text(json.dumps({"format": 0}))
    with pytest.raises(UnireError, match="is not that of a graph of this version"):
        KnowledgeGraph.open(tmp_path / "new")
    with pytest.raises(UnireError, match="has one of the characters"):
        build_graph([source], tmp_path / "a*b")


NOT_UTF_8 = (
    "UEFSMRUCGVw1ABgNZHVja2RiX3NjaGVtYRUIABUEJQAYBG5vZGUlHAAVDCUAGARuYW1lJQAAFQwlABgGcmWljG9uJQAAFQwlAhgI"
    "ZG9jdW1lbnQlAAAWABkMKChEdWNrREIgdmVyc2lvbiB2Mi4wLjAgKGJ1aWxkIGQ1FGNiYmUzZGYpGUwcAAAcAAAcAAAcAAAAjwAA"
    "AFBBUjE="
)
"""A Parquet file with the name of a column that is not UTF-8."""


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("graph.json", b"[" * 100_000),
        ("graph.json", b'{"format": 1, "complete": true, "rules": {"symmetric": []}}'),
        ("graph.json", b'{"format": 1, "rules": {}}'),
        ("nodes.parquet", b"PAR1"),
        ("merges.parquet", b64decode(NOT_UTF_8)),
    ],
)
def test_a_broken_file_of_a_graph_is_one_sentence(file, content, tmp_path):
    build_graph([save([met("Ada", "Bob")], tmp_path / "all.jsonl")], tmp_path / "graph")
    (tmp_path / "graph" / file).write_bytes(content)

    def read() -> None:
        with KnowledgeGraph.open(tmp_path / "graph") as graph:
            graph.statistics()
            list(graph.iter_merges())

    with pytest.raises(UnireError):
        read()


def test_without_duckdb_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UnireError, match=r"unire\[graph\]"):
        build_graph([save([met("Ada", "Bob")], tmp_path / "all.jsonl")], tmp_path / "graph")


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> KnowledgeGraph:
    """Ada – Bob – Cy – Dan, and Eve – Flo."""
    folder = tmp_path_factory.mktemp("chain")
    pairs = [("Ada", "Bob"), ("Cy", "Bob"), ("Cy", "Dan"), ("Eve", "Flo"), ("Ada", "Bob")]
    scores = [0.5, 0.6, 0.7, 0.8, 0.9]
    documents = [met(*pair, id=f"d{i}", score=score) for i, (pair, score) in enumerate(zip(pairs, scores, strict=True))]
    build_graph([save(documents, folder / "all.jsonl")], folder / "graph")
    return KnowledgeGraph.open(folder / "graph")


def test_entities_are_found_by_their_names(chain):
    assert [node.name for node in chain.find("ada")] == ["Ada"]
    assert [node.name for node in chain.find("the Adas")] == ["Ada"]
    assert [node.name for node in chain.find("o")] == ["Bob", "Flo"]
    assert chain.find_one(chain.find_one("Bob").id).name == "Bob"
    with pytest.raises(UnireError, match="no entity of the graph has the name 'Zoe'"):
        chain.find_one("Zoe")


def test_neighbours_come_with_their_evidence(chain):
    bob = chain.find_one("Bob")
    first, second = chain.neighbours(bob.id)
    assert (first.score, first.documents, second.score) == (0.95, 2, 0.6)
    assert [row.document for row in chain.get_evidence(first)] == ["d4", "d0"]
    assert chain.get_evidence(first, 1)[0].sentence == "Ada met Bob"
    assert len(chain.neighbours(bob.id, 1)) == 1


def test_a_path_is_a_shortest_one_or_none(chain):
    ada, dan, eve = (chain.find_one(name).id for name in ("Ada", "Dan", "Eve"))
    names = {node.id: node.name for node in chain.iter_nodes()}
    steps = [(names[edge.head], names[edge.tail]) for edge in chain.path(ada, dan)]
    assert steps == [("Ada", "Bob"), ("Cy", "Bob"), ("Cy", "Dan")]
    assert chain.path(ada, dan, max_edges=2) == []
    assert chain.path(ada, eve) == []
    assert chain.path(ada, ada) == []


def test_statistics_count_components(chain):
    counted = chain.statistics()
    assert (counted.documents, counted.nodes, counted.edges, counted.evidence) == (5, 6, 4, 5)
    assert (counted.shared, counted.isolated, counted.largest_component) == (3, 0, 4)
    assert counted.types == {"Peop": 10}
    assert counted.hubs[0] == ("Bob", 2, 3)


def test_a_graph_on_disk_is_exported_as_the_one_in_memory(tmp_path):
    documents = make_documents(10)
    build_graph([save(documents, tmp_path / "all.jsonl")], tmp_path / "graph")
    with KnowledgeGraph.open(tmp_path / "graph") as graph:
        export_graph(graph, tmp_path / "disk.graphml")
    export_graph(Graph(documents), tmp_path / "memory.graphml")
    assert (tmp_path / "disk.graphml").read_bytes() == (tmp_path / "memory.graphml").read_bytes()
