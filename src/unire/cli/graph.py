"""`unire graph`: build, extend, look at and export a knowledge graph in a folder."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unire import graph as graphs
from unire import pretrained
from unire.cli import console
from unire.cli.options import INPUT, MODEL, OUTPUT, Device, Json, flag, option
from unire.errors import UnireError
from unire.graph.records import EdgeRecord, MergeRecord, NodeRecord
from unire.utils import cpu_count

__all__ = ["add", "app", "build", "export", "path", "show", "stats"]

LIMITS = "Limits"
"""Panel of `--help`."""
GIGABYTE = 10**9

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Results of `unire extract` (jsonl, unire, parquet, or the folder of a Ray run), other annotated files, "
        "or texts, which the model reads.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The graph.", show_default=False)]
Lines = Annotated[bool, flag("--lines", help="Read every line of a text file as a document.", panel=INPUT)]
Field = Annotated[
    str | None, option("--field", metavar="NAME", help="Field or column with the text.", panel=INPUT, default="text")
]
MinScore = Annotated[
    float,
    option(
        "--min-score", metavar="P", min=0, max=1, help="Leave out entities and relations of lower scores.", panel=INPUT
    ),
]
Model = Annotated[
    str | None,
    option("--model", "-m", metavar="NAME", help="Model that reads texts.", panel=MODEL, default=pretrained.DEFAULT),
]
Undo = Annotated[
    Path | None,
    option(
        "--undo",
        metavar="FILE",
        help='Merges to undo, as JSON lines: {"name": "GPs"}, or with "document" only there.',
        panel=INPUT,
    ),
]
Workers = Annotated[
    int | None,
    option("--workers", metavar="N", min=1, help="Processes that read results.", panel=LIMITS, default="one per core"),
]
Memory = Annotated[
    float, option("--memory", metavar="GB", min=0.1, help="Gigabytes that DuckDB may use.", panel=LIMITS)
]


def build(
    inputs: Inputs,
    *,
    lines: Lines = False,
    field: Field = None,
    min_score: MinScore = 0.0,
    undo: Undo = None,
    model: Model = None,
    device: Device = None,
    labels: Annotated[
        str | None,
        option(
            "--labels",
            metavar="NAME|FILE",
            help="Label space of the results: which relations are symmetric, and which types are generic.",
            panel=MODEL,
            default="that of the model for texts; scierc for results",
        ),
    ] = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the graph.", panel=OUTPUT)],
    keep_generic: Annotated[
        bool,
        flag(
            "--keep-generic",
            help='Keep mentions such as "our method", with a node in each document.',
            panel=OUTPUT,
        ),
    ] = False,
    resume: Annotated[bool, flag("--resume", help="Continue an interrupted run.", panel=OUTPUT)] = False,
    json: Json = False,
    workers: Workers = None,
    memory: Memory = 2.0,
) -> None:
    """Build a knowledge graph from results or texts.

    Examples:

        unire graph build found.jsonl --out graph
        unire graph build --lines abstracts.txt --out graph
        unire graph build found/ --out graph --resume

    Mentions of one name are one node. Edges have the sentences that state them.
    The order of the inputs does not matter.
    """
    given = graphs.GraphInputs(tuple(inputs), lines, field, model or pretrained.DEFAULT, device, min_score)
    advice = "continue with the same command and --resume"
    with _interruptible(advice, out), console.ProgressMeter(None) as meter:
        about = graphs.build_graph(
            given,
            out,
            labels=labels,
            keep_generic=keep_generic,
            undo=_read_undo(undo),
            resume=resume,
            workers=workers or cpu_count(),
            memory=int(memory * GIGABYTE),
            on_documents=lambda count: meter.advance(0, count),
        )
    _print_summary(about, out, json=json)


def add(
    folder: Folder,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Results or texts, as for `unire graph build`.", show_default="none"),
    ] = None,
    *,
    lines: Lines = False,
    field: Field = None,
    min_score: MinScore = 0.0,
    undo: Undo = None,
    model: Model = None,
    device: Device = None,
    json: Json = False,
    workers: Workers = None,
    memory: Memory = 2.0,
) -> None:
    """Add documents to a graph, or undo merges.

    Examples:

        unire graph add graph more.jsonl
        unire graph add graph --undo wrong.jsonl

    The graph is then the same as if it had been built from all documents at
    once. An interrupted run continues when it is repeated.
    """
    if not inputs and not undo:
        raise UnireError("nothing to add; give results or texts, or --undo")
    given = graphs.GraphInputs(tuple(inputs or ()), lines, field, model or pretrained.DEFAULT, device, min_score)
    with _interruptible("continue with the same command"), console.ProgressMeter(None) as meter:
        about = graphs.add_to_graph(
            folder,
            given,
            undo=_read_undo(undo),
            workers=workers or cpu_count(),
            memory=int(memory * GIGABYTE),
            on_documents=lambda count: meter.advance(0, count),
        )
    _print_summary(about, folder, json=json)


@contextmanager
def _interruptible(advice: str, new: Path | None = None) -> Iterator[None]:
    """Say how to continue after Ctrl-C, or after an error that leaves an unfinished folder `new`."""
    existed = new is None or new.exists()
    try:
        yield
    except KeyboardInterrupt:
        console.say(f"stopped; {advice}")
        raise typer.Exit(console.INTERRUPTED) from None
    except UnireError:
        if not existed and new is not None and new.exists():
            console.say(f"fix the error; then {advice}")
        raise


def _read_undo(path: Path | None) -> list[MergeRecord]:
    if path is None:
        return []
    merges = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                item: Any = json_module.loads(line)
                name, document = item["name"], item.get("document")
                if not isinstance(name, str) or not isinstance(document, str | None):
                    raise ValueError(f"line {number} has a name or a document that is no text")
                merges.append(MergeRecord(name=name, document=document))
    except OSError as error:
        raise UnireError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnireError(f'{path} must have a line such as {{"name": "GPs"}} for every merge ({error})') from None
    return merges


def _print_summary(about: dict[str, Any], folder: Path, *, json: bool) -> None:
    counts = {name: about[name] for name in ("documents", "nodes", "edges", "evidence")}
    if json:
        console.print_json({**counts, "out": str(folder), "notes": about["notes"]})
        return
    console.say(
        f"{folder}: {about['documents']:,} documents, {about['nodes']:,} nodes, {about['edges']:,} edges, "
        f"{about['evidence']:,} sentences as evidence"
    )
    console.print_notes(about["notes"])


def show(
    folder: Folder,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="A name, or a part of it.", show_default=False)],
    *,
    limit: Annotated[int, option("--limit", metavar="N", min=1, help="Edges to print.", panel=OUTPUT)] = 20,
    evidence: Annotated[
        int, option("--evidence", metavar="N", min=0, help="Sentences of each edge.", panel=OUTPUT)
    ] = 1,
    json: Json = False,
) -> None:
    """Show an entity with its relations and the sentences that state them.

    Examples:

        unire graph show graph "neural networks"
        unire graph show graph LLMs --limit 50 --evidence 3
    """
    with graphs.KnowledgeGraph.open(folder) as graph:
        found = graph.find(entity)
        if not found:
            raise UnireError(f"no entity of the graph has the name {entity!r}")
        node = found[0]
        edges = graph.neighbours(node.id, limit)
        nodes = graph.get_nodes(end for edge in edges for end in (edge.head, edge.tail))
        rows = [(edge, graph.get_evidence(edge, evidence) if evidence else []) for edge in edges]
    if json:
        console.print_json(
            {
                "entity": _describe_node(node),
                "edges": [
                    {
                        **_describe_edge(edge, nodes),
                        "evidence": [{"document": row.document, "sentence": row.sentence} for row in sentences],
                    }
                    for edge, sentences in rows
                ],
                "similar": [other.name for other in found[1:]],
            }
        )
        return
    _print_node(node)
    for edge, sentences in rows:
        _print_edge(edge, nodes)
        for row in sentences:
            console.say(("    " + " ".join(row.sentence.split()) + f"  ({row.document})", "dim"), to=console.out)
    if len(found) > 1:
        console.say((f"similar names: {', '.join(other.name for other in found[1:])}", "dim"))


def path(
    folder: Folder,
    first: Annotated[str, typer.Argument(metavar="FROM", help="A name.", show_default=False)],
    last: Annotated[str, typer.Argument(metavar="TO", help="A name.", show_default=False)],
    *,
    max_edges: Annotated[
        int, option("--max-edges", metavar="N", min=1, max=20, help="Longer paths are not searched.", panel=OUTPUT)
    ] = 6,
    json: Json = False,
) -> None:
    """Show a shortest path between two entities, with a sentence for each step.

    Examples:

        unire graph path graph LLMs "named entity recognition"
    """
    with graphs.KnowledgeGraph.open(folder) as graph:
        start, goal = graph.find_one(first), graph.find_one(last)
        edges = graph.path(start.id, goal.id, max_edges)
        nodes = graph.get_nodes([start.id, *(end for edge in edges for end in (edge.head, edge.tail))])
        sentences = [next(iter(graph.get_evidence(edge, 1)), None) for edge in edges]
    if json:
        console.print_json({"path": [_describe_edge(edge, nodes) for edge in edges]})
    elif start.id == goal.id:
        console.say(f"both names mean {start.name}", to=console.out)
    elif not edges:
        console.say(f"there is no path of up to {max_edges} edges from {start.name} to {goal.name}", to=console.out)
    else:
        for edge, row in zip(edges, sentences, strict=True):
            _print_edge(edge, nodes)
            if row is not None:
                console.say(("    " + " ".join(row.sentence.split()) + f"  ({row.document})", "dim"), to=console.out)


def stats(folder: Folder, *, json: Json = False) -> None:
    """Count nodes, edges and components, and name the nodes with the most edges.

    Examples:

        unire graph stats graph
    """
    with graphs.KnowledgeGraph.open(folder) as graph:
        counted = graph.statistics()
        notes = graph.about["notes"]
    if json:
        console.print_json({**counted._asdict(), "notes": notes})
        return
    names = {
        "documents": counted.documents,
        "nodes": counted.nodes,
        "  in several documents": counted.shared,
        "  without edges": counted.isolated,
        "  in the largest component": counted.largest_component,
        "edges": counted.edges,
        "sentences as evidence": counted.evidence,
    }
    console.table("Graph", ("", "count"), list(names.items()))
    console.table("Mentions by type", ("", "count"), list(counted.types.items()))
    console.table("Edges by relation", ("", "count"), list(counted.relations.items()))
    console.table("Largest nodes", ("", "edges", "documents"), counted.hubs)
    console.print_notes(notes)


def export(
    folder: Folder,
    *,
    out: Annotated[
        Path,
        option(
            "--out",
            "-o",
            metavar="FILE",
            help="Output; its ending is the format: "
            f"{', '.join(filter(None, graphs.EXPORTERS))}, or none for a folder of CSV files for Neo4j.",
            panel=OUTPUT,
        ),
    ],
) -> None:
    """Write a graph for other tools.

    Examples:

        unire graph export graph --out graph.graphml
        unire graph export graph --out graph.html
        unire graph export graph --out neo4j
    """
    with graphs.KnowledgeGraph.open(folder) as graph:
        graphs.export_graph(graph, out)
        console.say(f"Wrote {graph.about['nodes']:,} nodes and {graph.about['edges']:,} edges to {out}")


def _describe_node(node: NodeRecord) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "type": node.type,
        "types": dict(node.types),
        "names": dict(node.names),
        "mentions": node.mentions,
        "documents": node.documents,
    }


def _describe_edge(edge: EdgeRecord, nodes: dict[str, NodeRecord]) -> dict[str, Any]:
    return {
        "head": nodes[edge.head].name,
        "relation": edge.relation,
        "tail": nodes[edge.tail].name,
        "symmetric": edge.symmetric,
        "mentions": edge.mentions,
        "documents": edge.documents,
        "score": edge.score,
    }


def _print_node(node: NodeRecord) -> None:
    documents = f"{node.documents:,} document{'s' * (node.documents != 1)}"
    mentions = f"{node.mentions:,} mention{'s' * (node.mentions != 1)}"
    console.say((node.name, "bold"), f"  {node.type}, {documents}, {mentions}", to=console.out)
    if others := [name for name in node.names if name != node.name]:
        console.say((f"  also: {', '.join(others)}", "dim"), to=console.out)


def _print_edge(edge: EdgeRecord, nodes: dict[str, NodeRecord]) -> None:
    arrow = f"←{edge.relation}→" if edge.symmetric else f"–{edge.relation}→"
    score = "" if edge.score is None else f"{edge.score:.2f}, "
    counts = f"({score}{edge.documents:,} document{'s' * (edge.documents != 1)})"
    console.say(f"{nodes[edge.head].name} ", (arrow, "bold"), f" {nodes[edge.tail].name}  {counts}", to=console.out)


HELP = """Build, extend, look at and export a knowledge graph.

Examples:

    unire graph build found.jsonl --out graph
    unire graph show graph "neural networks"
    unire graph export graph --out graph.graphml

`unire graph COMMAND --help` shows the options of a command.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)
for command in (build, add, show, path, stats, export):
    app.command(no_args_is_help=True)(command)
