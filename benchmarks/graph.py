"""What do canonical names do to a graph, what do they cost, and how long does a large graph take?

    python benchmarks/graph.py names results.jsonl [--json FILE]
    python benchmarks/graph.py facts scierc/test.json [--json FILE]
    python benchmarks/graph.py scale results.jsonl --documents 1000000 --folder work/ [--kill SECONDS …] [--json FILE]

`names` prints nodes, edges and components of the graph of results, step by step, and the time of each document.

`facts` compares the facts of documents with gold: a fact is a relation between two entities of a document, and counts
once. An entity is a cluster of mentions. Predicted and gold entities are aligned one to one, by φ4 as in CEAF.

`scale` grows results to more documents and builds a graph of them in a process of its own: every copy of a document has
the names that several documents have, and all other names with letters of its own, so distinct names grow as documents
do. It prints time and peak memory of all processes. With `--kill`, the build is killed after these seconds of running
and resumed, and the result is compared with that of a build without interruption.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import networkx
import psutil
import pyarrow.parquet as pq

from unire import Extractor, formats
from unire.documents import Document, Entity
from unire.graph import Graph
from unire.graph.facts import GraphRules, collect_facts
from unire.graph.names import expand_acronyms, find_acronyms, fold_name, is_pronoun, normalize_text

MARK = "\x01"
"""Where the letters of a copy go."""
DOCUMENTS_PER_FILE = 10_000
LETTERS = "bcdfghjklm"
TABLES = ("nodes", "edges", "evidence", "merges")

Key = Callable[[Entity, dict[str, str]], object]


# Names


def count_graph(
    documents: Sequence[Document], rules: GraphRules, key: Key, *, generic: bool, once: bool
) -> dict[str, Any]:
    """Counts of the graph in which mentions with equal keys are one node."""
    nodes: dict[object, set[str]] = defaultdict(set)
    generic_nodes: dict[object, Counter[bool]] = defaultdict(Counter)
    edges: set[tuple[object, str, object]] = set()
    for document in documents:
        acronyms = find_acronyms(document.text)
        keys = {}
        for entity in document.entities:
            is_generic = entity.label in rules.generic or is_pronoun(entity.text)
            if generic or not is_generic:
                keys[entity] = key(entity, acronyms)
                nodes[keys[entity]].add(document.id)
                generic_nodes[keys[entity]][is_generic] += 1
        for relation in document.relations:
            if relation.head in keys and relation.tail in keys:
                head, tail = keys[relation.head], keys[relation.tail]
                if once and relation.label in rules.symmetric:
                    head, tail = sorted((head, tail), key=repr)
                if not once or head != tail:
                    edges.add((head, relation.label, tail))
    mostly_generic = {node for node, votes in generic_nodes.items() if votes[True] > votes[False]}
    at_generic = sum(head in mostly_generic or tail in mostly_generic for head, _, tail in edges)
    return describe(nodes, edges, at_generic, sum(len(sources) > 1 for sources in nodes.values()))


def describe(nodes: Any, edges: Any, at_generic: int, shared: int) -> dict[str, Any]:
    drawn = networkx.Graph()
    drawn.add_nodes_from(nodes)
    drawn.add_edges_from((head, tail) for head, _, tail in edges)
    return {
        "nodes": len(nodes),
        "edges": len(edges),
        "nodes in several documents": shared,
        "largest component": max(map(len, networkx.connected_components(drawn)), default=0),
        "edges at generic nodes": round(at_generic / max(1, len(edges)), 4),
        "isolated nodes": round(networkx.number_of_isolates(drawn) / max(1, len(nodes)), 4),
    }


def compare_names(path: Path) -> dict[str, Any]:
    documents = list(formats.read(path))
    rules = GraphRules.of()

    def plain(entity: Entity, acronyms: dict[str, str]) -> object:
        return entity.label, normalize_text(entity.text)

    def folded(entity: Entity, acronyms: dict[str, str]) -> object:
        return entity.label, fold_name(entity.text)

    def expanded(entity: Entity, acronyms: dict[str, str]) -> object:
        return entity.label, fold_name(expand_acronyms(entity.text, acronyms))

    rows = {
        "equal type and text": count_graph(documents, rules, plain, generic=True, once=False),
        "without generic mentions, symmetric relations once": count_graph(
            documents, rules, plain, generic=False, once=True
        ),
        "+ folded names": count_graph(documents, rules, folded, generic=False, once=True),
        "+ acronyms of the document": count_graph(documents, rules, expanded, generic=False, once=True),
    }
    graph = Graph(documents)
    nodes = {node.id: node for node in graph.iter_nodes()}
    edges = [(edge.head, edge.relation, edge.tail) for edge in graph.iter_edges()]
    at_generic = sum(nodes[end].type in rules.generic for head, _, tail in edges for end in (head, tail))
    shared = sum(node.documents > 1 for node in nodes.values())
    clusters = sum(map(len, (document.clusters for document in documents)))
    rows[f"the graph: one node whatever the type, {clusters:,} clusters"] = describe(nodes, edges, at_generic, shared)
    seconds = []
    for _ in range(5):
        begun = time.process_time()
        for document in documents:
            collect_facts(document, rules)
        seconds.append(time.process_time() - begun)
    milliseconds = round(1000 * min(seconds) / len(documents), 3)
    return {"documents": len(documents), "steps": rows, "milliseconds per document": milliseconds}


# Facts

Spans = tuple[int, int]
Group = Callable[[Document], list[set[Spans]]]


def group_mentions(document: Document, *, names: bool, clusters: bool) -> list[set[Spans]]:
    """The entities of a document: mentions with equal names, or in one coreference cluster, are one."""
    groups: dict[Spans, set[Spans]] = {entity.span: {entity.span} for entity in document.entities}
    joined: list[list[Spans]] = [list(map(tuple, cluster)) for cluster in document.clusters] if clusters else []
    if names:
        acronyms = find_acronyms(document.text)
        equal = defaultdict(list)
        for entity in document.entities:
            if entity.label != "Generic" and not is_pronoun(entity.text):
                equal[fold_name(expand_acronyms(entity.text, acronyms))].append(entity.span)
        joined += equal.values()
    for cluster in joined:
        together = set().union(*(groups.get(span, {span}) for span in cluster))
        for span in together:
            groups[span] = together
    return list({id(group): group for group in groups.values()}.values())


def count_facts(gold: Document, predicted: Document, symmetric: frozenset[str], group: Group) -> Counter[str]:
    """Count gold, predicted and right facts of a document."""

    def find_facts(document: Document, place: dict[Spans, object]) -> set[tuple[object, str, object]]:
        found = set()
        for relation in document.relations:
            head, tail = place[relation.head.span], place[relation.tail.span]
            if relation.label in symmetric:
                head, tail = sorted((head, tail), key=repr)
            if head != tail:
                found.add((head, relation.label, tail))
        return found

    entities = group_mentions(gold, names=False, clusters=True)
    truth = {span: number for number, entity in enumerate(entities) for span in entity}
    facts = find_facts(gold, truth)
    own: dict[Spans, object] = {}
    guessed = group(predicted)
    for number, entity in enumerate(guessed):
        own |= dict.fromkeys(entity, number)
    alike = networkx.Graph()
    for number, entity in enumerate(guessed):
        for other in {truth[span] for span in entity if span in truth}:
            weight = 2 * len(entity & entities[other]) / (len(entity) + len(entities[other]))
            alike.add_edge(("guess", number), ("truth", other), weight=weight)
    pairs = map(dict, networkx.max_weight_matching(alike))
    meant = {pair["guess"]: pair["truth"] for pair in pairs}
    guesses = find_facts(predicted, own)
    right = set()
    for head, label, tail in guesses:
        ends = [meant.get(head), meant.get(tail)]
        right.add((*(sorted(ends, key=repr) if label in symmetric else ends), label))
    right &= {(head, tail, label) for head, label, tail in facts}
    return Counter(gold=len(facts), predicted=len(guesses), right=len(right))


def compare_facts(path: Path, model: str) -> dict[str, Any]:
    gold = list(formats.read(path))
    extractor = Extractor.load(model)
    predicted = list(extractor.annotate([document.annotated([]) for document in gold]))
    rows: dict[str, Any] = {}
    for name, names, clusters in (
        ("every mention is an entity", False, False),
        ("equal names", True, False),
        ("coreference", False, True),
        ("equal names and coreference", True, True),
    ):
        counts: Counter[str] = Counter()
        for truth, guess in zip(gold, predicted, strict=True):
            counts += count_facts(
                truth, guess, extractor.labels.symmetric, partial(group_mentions, names=names, clusters=clusters)
            )
        precision, recall = counts["right"] / counts["predicted"], counts["right"] / counts["gold"]
        f1 = 2 * precision * recall / (precision + recall)
        rows[name] = {
            **counts,
            **{k: round(100 * v, 1) for k, v in (("P", precision), ("R", recall), ("F1", f1))},
        }
    return {f"facts of {path.parent.name}/{path.name}, {model}": rows}


# Scale


def make_templates(path: Path) -> list[str]:
    """Documents as lines of JSON, with a mark behind every name that only one document has."""
    sources: Counter[str] = Counter()
    for document in formats.read(path):
        sources.update({fold_name(entity.text) for entity in document.entities})
    lines = []
    for number, document in enumerate(formats.read(path)):
        sentences = [list(sentence.words) for sentence in document.sentences]
        starts = [sentence.start for sentence in document.sentences]
        for entity in document.entities:
            if sources[fold_name(entity.text)] == 1:
                place = max(i for i, start in enumerate(starts) if start <= entity.end - 1)
                word = sentences[place][entity.end - 1 - starts[place]]
                sentences[place][entity.end - 1 - starts[place]] = word.removesuffix(MARK) + MARK
        positions = {entity: i for i, entity in enumerate(document.entities)}
        item = {
            "id": f"{number}-{MARK}",
            "text": "\n".join(map(" ".join, sentences)),
            "sentences": sentences,
            "entities": [
                {"start": e.start, "end": e.end, "label": e.label, "score": e.score} for e in document.entities
            ],
            "relations": [
                {"head": positions[r.head], "tail": positions[r.tail], "label": r.label, "score": r.score}
                for r in document.relations
            ],
            "clusters": document.clusters,
        }
        lines.append(json.dumps(item, ensure_ascii=False).replace("\\u0001", MARK) + "\n")
    return lines


def letters(number: int) -> str:
    return "".join(LETTERS[int(digit)] for digit in str(number))


def grow(path: Path, folder: Path, n_documents: int) -> dict[str, int]:
    """Write files with copies of the documents until there are as many as wanted."""
    templates = make_templates(path)
    folder.mkdir(parents=True, exist_ok=True)

    def iter_lines() -> Iterator[str]:
        for copy in count():
            suffix = letters(copy)
            for template in templates:
                yield template.replace(MARK, suffix)

    lines = iter_lines()
    for number, start in enumerate(range(0, n_documents, DOCUMENTS_PER_FILE)):
        size = min(DOCUMENTS_PER_FILE, n_documents - start)
        with (folder / f"{number:05}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(line for line, _ in zip(lines, range(size), strict=False))
    return {"real documents": len(templates), "bytes": sum(file.stat().st_size for file in folder.iterdir())}


def run_build(source: Path, out: Path, workers: int, memory: float, kills: Sequence[float]) -> dict[str, Any]:
    """Build a graph in a process of its own, and measure it and its children."""
    command = [sys.executable, "-m", "unire", "graph", "build", str(source), "--out", str(out), "--json"]
    command += ["--workers", str(workers), "--memory", str(memory)]
    peak, cpu, begun = 0, 0.0, time.monotonic()
    for number, limit in enumerate([*kills, None]):
        process = subprocess.Popen(
            command + ["--resume"] * (number > 0), stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        started = time.monotonic()
        used: dict[int, float] = {}
        while process.poll() is None:
            total = 0
            try:
                main = psutil.Process(process.pid)
                for each in (main, *main.children(recursive=True)):
                    total += each.memory_info().rss
                    times = each.cpu_times()
                    used[each.pid] = times.user + times.system
            except psutil.Error:
                pass
            peak = max(peak, total)
            if limit is not None and time.monotonic() - started > limit:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.5)
        cpu += sum(used.values())
    if process.returncode:
        raise SystemExit("the build failed")
    summary = json.loads(process.communicate()[0])
    size = sum(file.stat().st_size for file in out.glob("*.parquet"))
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "CPU seconds": round(cpu, 1),
        "peak MB": round(peak / 1e6),
        "graph MB": round(size / 1e6),
        **summary,
    }


def digest(folder: Path) -> dict[str, str]:
    """Hashes of the rows of the tables."""
    hashes = {}
    for name in TABLES:
        hashed = hashlib.sha256()
        for batch in pq.ParquetFile(folder / f"{name}.parquet").iter_batches(4096):
            hashed.update(repr(batch.to_pylist()).encode())
        hashes[name] = hashed.hexdigest()[:16]
    return hashes


def measure_scale(options: argparse.Namespace) -> dict[str, Any]:
    folder: Path = options.folder
    source, out = folder / f"results-{options.documents}", folder / f"graph-{options.documents}"
    grown = grow(options.results, source, options.documents)
    shutil.rmtree(out, ignore_errors=True)
    measured = {**grown, **run_build(source, out, options.workers, options.memory, ())}
    if options.kill:
        other = out.with_name(f"{out.name}-killed")
        shutil.rmtree(other, ignore_errors=True)
        run_build(source, other, options.workers, options.memory, options.kill)
        measured |= {"killed after": options.kill, "equal when resumed": digest(out) == digest(other)}
    return {f"{options.documents} documents": {**measured, "workers": options.workers, "memory GB": options.memory}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("names", "facts", "scale"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--model", default="science")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path("build/graph-benchmark"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=float, default=1.0, help="gigabytes for DuckDB")
    parser.add_argument("--kill", type=float, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "names":
        measured = compare_names(options.results)
    elif options.what == "facts":
        measured = compare_facts(options.results, options.model)
    else:
        measured = measure_scale(options)
    print(json.dumps(measured, indent=1))
    if options.json:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        options.json.write_text(json.dumps({**known, **measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
