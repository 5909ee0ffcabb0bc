"""Results as a knowledge graph: merged, and written for graph databases, network tools and spreadsheets.

`WRITERS` knows the writers by name. Each is called as `write(documents, target)`, where the target is a path (the file
is whole or not there) or an open text stream, reads the documents as a stream and returns how many they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TextIO

from unire.documents import Document
from unire.graph import cypher, graphml
from unire.graph.build import Edge, Graph, Node, key
from unire.graph.rows import CSV, ENTITIES, TRIPLES, TSV

__all__ = ["WRITERS", "Edge", "Graph", "Node", "key"]

WRITERS: dict[str, Callable[[Iterable[Document], str | Path | TextIO], int]] = {
    "csv": partial(TRIPLES.write, dialect=CSV),
    "tsv": partial(TRIPLES.write, dialect=TSV),
    "entities-csv": partial(ENTITIES.write, dialect=CSV),
    "entities-tsv": partial(ENTITIES.write, dialect=TSV),
    "graphml": graphml.write,
    "cypher": cypher.write,
}
