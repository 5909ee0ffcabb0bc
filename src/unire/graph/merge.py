"""Merges the facts of all documents into nodes, edges and evidence: in DuckDB, with bounded memory.

The result is that of `unire.graph.Graph`, which is the readable statement of what is computed here.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from unire.errors import UnireError, describe_error
from unire.files import replace_atomically
from unire.graph.build import MAX_NAMES, MIN_DEFINITIONS, REPEATED, SELF_LOOP, WEIGHT_UNIT
from unire.graph.facts import GENERIC_MENTION, GENERIC_RELATION, separate_node
from unire.graph.names import AWKWARD_NAME, CAPITALS
from unire.utils import cpu_count

__all__ = ["connect", "explain_errors", "merge_parts", "quote_text"]

NODES_AT_A_TIME = 250_000
"""Nodes whose names are sorted at a time."""
WORK_FOLDER = ".work"
FACTS = ("documents", "mentions", "relations", "definitions")


def quote_text(text: str) -> str:
    """A string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def explain_errors(folder: Path) -> Iterator[None]:
    """Turn errors of DuckDB, and texts that are not UTF-8, into a sentence."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise UnireError(f"memory or disk ran out in {folder}: {describe_error(error)}; raise memory=...") from None
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise UnireError(f"the graph in {folder} cannot be read or written: {describe_error(error)}") from None


def connect(folder: Path, memory: int, *, work: Path | None = None) -> Any:
    """Open a database: in memory, or in a folder for intermediate results."""
    import duckdb

    if set("*?[") & set(str(folder)):
        raise UnireError(f"{folder} has one of the characters * ? [ in its name, which DuckDB cannot read; rename it")
    database = duckdb.connect(":memory:" if work is None else str(work / "graph.duckdb"))
    database.execute(f"SET memory_limit = '{memory // 2**20}MiB'")
    database.execute(f"SET threads = {cpu_count()}")
    database.execute("SET enable_progress_bar = false")
    database.execute(f"SET temp_directory = {quote_text(str(work or Path(gettempdir()) / 'unire-graph'))}")
    if work is not None:
        database.execute("SET preserve_insertion_order = false")
    return database


def merge_parts(folder: Path, about: Mapping[str, Any], memory: int) -> dict[str, Any]:
    """Write the tables of a graph from all of its facts.

    Args:
        folder: The graph.
        about: The content of `graph.json`.
        memory: Bytes that DuckDB may use.

    Returns:
        The counts of documents, nodes, edges and evidence, and of what was left out.
    """
    parts = sorted((folder / "parts").glob("*/*.documents.parquet"))
    if not parts:
        raise UnireError("there is no document to build a graph from")
    work = folder / WORK_FOLDER
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        with explain_errors(folder):
            database = connect(folder, memory, work=work)
            try:
                return _merge(database, folder, parts, about)
            finally:
                database.close()
    except OSError as error:
        raise UnireError(f"{folder} cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _merge(database: Any, folder: Path, parts: list[Path], about: Mapping[str, Any]) -> dict[str, Any]:
    run = database.execute
    notes: Counter[str] = Counter()
    documents, notes[REPEATED] = _create_views(database, parts)
    symmetric = ", ".join(map(quote_text, about["rules"]["symmetric"])) or "NULL"
    _create_undo(database, about["undo"])
    _create_aliases(database)
    run(f"""
        CREATE VIEW edge_rows AS
        SELECT doc, document, relation, coalesce(relation IN ({symmetric}), false) AS is_symmetric,
            is_symmetric AND tail < head AS swap,
            CASE WHEN swap THEN tail ELSE head END AS first, CASE WHEN swap THEN head ELSE tail END AS last,
            sentence, sentence_start,
            CASE WHEN swap THEN tail_start ELSE head_start END AS first_start,
            CASE WHEN swap THEN tail_end ELSE head_end END AS first_end,
            CASE WHEN swap THEN head_start ELSE tail_start END AS last_start,
            CASE WHEN swap THEN head_end ELSE tail_end END AS last_end,
            score, weight
        FROM relations""")
    notes[SELF_LOOP] = run("SELECT count(*) FROM relations WHERE head = tail").fetchall()[0][0]
    generic = run("SELECT sum(generic_mentions), sum(generic_relations) FROM documents").fetchall()[0]
    notes[GENERIC_MENTION], notes[GENERIC_RELATION] = (int(count or 0) for count in generic)
    counts = {}
    tables = [("evidence", _copy_evidence), ("nodes", _write_nodes), ("edges", _copy_edges), ("merges", _copy_merges)]
    for name, write in tables:
        write(database, folder / WORK_FOLDER)
        path = folder / WORK_FOLDER / f"{name}.parquet"
        counts[name] = run(f"SELECT count(*) FROM read_parquet({quote_text(str(path))})").fetchall()[0][0]
    for name, _ in tables:
        with replace_atomically(folder / f"{name}.parquet") as temporary:
            (folder / WORK_FOLDER / f"{name}.parquet").replace(temporary)
    return {"documents": documents, **counts, "notes": dict(+notes)}


def _create_views(database: Any, parts: list[Path]) -> tuple[int, int]:
    """Create views of the facts without repeated documents. Return the number of documents, and of repeated ones."""
    run = database.execute
    for name in FACTS:
        files = ", ".join(quote_text(str(part).replace(".documents.", f".{name}.")) for part in parts)
        pattern = quote_text(rf"\.{name}\.parquet$")
        run(f"""
            CREATE VIEW all_{name} AS
            SELECT * EXCLUDE (filename), regexp_replace(filename, {pattern}, '') AS part
            FROM read_parquet([{files}], filename = true)""")
    total, distinct = run("SELECT count(*), count(DISTINCT doc) FROM all_documents").fetchall()[0]
    if total == distinct:
        for name in FACTS:
            run(f"CREATE VIEW staged_{name} AS SELECT * EXCLUDE (part) FROM all_{name}")
    else:
        run("CREATE TABLE kept AS SELECT doc, min(part) AS part FROM all_documents GROUP BY doc")
        run("CREATE VIEW staged_documents AS SELECT DISTINCT * EXCLUDE (part) FROM all_documents")
        for name in FACTS[1:]:
            run(f"""
                CREATE VIEW staged_{name} AS
                SELECT a.* EXCLUDE (part) FROM all_{name} a SEMI JOIN kept USING (doc, part)""")
    run("CREATE VIEW documents AS SELECT * FROM staged_documents")
    return distinct, total - distinct


def _create_undo(database: Any, undo: list[dict[str, str | None]]) -> None:
    """Create views of mentions and relations, in which undone merges have nodes of their own."""
    run = database.execute
    if not undo:
        run("CREATE VIEW own_mentions AS SELECT *, mentions AS n, false AS undone FROM staged_mentions")
        run("CREATE VIEW own_relations AS SELECT * FROM staged_relations")
        return
    run("CREATE TABLE undone (name VARCHAR, document VARCHAR, node UBIGINT)")
    rows = {(merge["name"], merge["document"]) for merge in undo}
    values = [(name, document, separate_node(str(name), document)) for name, document in rows]
    database.executemany("INSERT INTO undone VALUES (?, ?, ?)", values)
    run("CREATE VIEW here AS SELECT * FROM undone WHERE document IS NOT NULL")
    run("CREATE VIEW everywhere AS SELECT * FROM undone WHERE document IS NULL")
    run("""
        CREATE VIEW own_mentions AS
        SELECT m.* EXCLUDE (node), m.mentions AS n, coalesce(h.node, e.node, m.node) AS node,
            coalesce(h.node, e.node) IS NOT NULL AS undone
        FROM staged_mentions m
        LEFT JOIN here h ON h.name = m.name AND h.document = m.document LEFT JOIN everywhere e ON e.name = m.name
        WHERE named OR NOT undone""")
    sides = {side: f"substring(sentence, {side}_start + 1, {side}_end - {side}_start)" for side in ("head", "tail")}
    run(f"""
        CREATE VIEW own_relations AS
        SELECT r.* EXCLUDE (head, tail, head_name, tail_name), coalesce(h1.node, e1.node, r.head) AS head,
            coalesce(h2.node, e2.node, r.tail) AS tail
        FROM (SELECT *, {sides["head"]} AS head_name, {sides["tail"]} AS tail_name FROM staged_relations) r
        LEFT JOIN here h1 ON h1.name = r.head_name AND h1.document = r.document
        LEFT JOIN everywhere e1 ON e1.name = r.head_name
        LEFT JOIN here h2 ON h2.name = r.tail_name AND h2.document = r.document
        LEFT JOIN everywhere e2 ON e2.name = r.tail_name
        WHERE (head_named OR coalesce(h1.node, e1.node) IS NULL) AND (tail_named OR coalesce(h2.node, e2.node) IS NULL)
    """)


def _create_aliases(database: Any) -> None:
    """Create the views of mentions and relations, in which acronyms that documents agree on have the long form."""
    capitals = f"regexp_matches(name, {quote_text(CAPITALS.pattern)})"
    database.execute(f"""
        CREATE TABLE aliases AS
        WITH counts AS (SELECT short, long, count(DISTINCT doc) AS n FROM staged_definitions GROUP BY short, long),
        best AS (SELECT short, first(long ORDER BY n DESC, long) AS long, max(n) AS n, sum(n) AS total
            FROM counts GROUP BY short),
        agreed AS (SELECT short, long FROM best WHERE n >= {MIN_DEFINITIONS} AND 20 * n >= 19 * total
            AND long NOT IN (SELECT short FROM counts)),
        written AS (SELECT node FROM own_mentions SEMI JOIN agreed ON short = node WHERE named AND NOT undone
            GROUP BY node HAVING 20 * sum(n) FILTER (WHERE {capitals}) >= 19 * sum(n))
        SELECT * FROM agreed SEMI JOIN written ON node = short""")
    database.execute("""
        CREATE VIEW mentions AS
        SELECT m.* EXCLUDE (node, reason), coalesce(long, node) AS node,
            long IS NOT NULL AND reason = 'folded' AS aliased,
            CASE WHEN aliased THEN 'acronym' ELSE reason END AS reason
        FROM own_mentions m LEFT JOIN aliases ON short = node""")
    database.execute("""
        CREATE VIEW relations AS
        SELECT r.* EXCLUDE (head, tail), coalesce(h.long, head) AS head, coalesce(t.long, tail) AS tail
        FROM own_relations r LEFT JOIN aliases h ON h.short = head LEFT JOIN aliases t ON t.short = tail""")


def _copy(database: Any, query: str, work: Path, name: str) -> None:
    path = quote_text(str(work / f"{name}.parquet"))
    database.execute(f"COPY ({query}) TO {path} (FORMAT parquet, COMPRESSION zstd)")


def _copy_evidence(database: Any, work: Path) -> None:
    query = """
        SELECT first AS head, relation, last AS tail, is_symmetric, document, doc, sentence, sentence_start,
            first_start AS head_start, first_end AS head_end, last_start AS tail_start, last_end AS tail_end,
            score, weight
        FROM edge_rows WHERE first <> last
        ORDER BY head, relation, tail, document, doc, sentence_start, head_start, head_end, tail_start, tail_end"""
    _copy(database, query, work, "evidence")


def _copy_edges(database: Any, work: Path) -> None:
    nodes = f"read_parquet({quote_text(str(work / 'nodes.parquet'))})"
    query = f"""
        SELECT e.*, h.type AS head_type, t.type AS tail_type
        FROM (
            SELECT head, relation, tail, any_value(is_symmetric) AS is_symmetric, CAST(sum(n) AS BIGINT) AS mentions,
                count(*) AS documents,
                CASE WHEN sum(scored) > 0
                    THEN round(1 - exp(-CAST(sum(weights) AS DOUBLE) / {WEIGHT_UNIT}), 6) END AS score
            FROM (
                SELECT head, relation, tail, doc, any_value(is_symmetric) AS is_symmetric, count(*) AS n,
                    count(score) AS scored, sum(weight) AS weights
                FROM read_parquet({quote_text(str(work / "evidence.parquet"))}) GROUP BY head, relation, tail, doc)
            GROUP BY head, relation, tail) e
        JOIN {nodes} h ON h.node = head JOIN {nodes} t ON t.node = tail
        ORDER BY head, relation, tail"""
    _copy(database, query, work, "edges")


def _write_nodes(database: Any, work: Path) -> None:
    """Write the nodes by ranges of their ids, because lists of names are held in memory."""
    import pyarrow.parquet as pq

    run = database.execute
    run("CREATE TABLE name_counts AS SELECT node, name, named, sum(n) AS n FROM mentions GROUP BY node, name, named")
    run("CREATE TABLE type_counts AS SELECT node, type, sum(n) AS n FROM mentions GROUP BY node, type")
    run("""
        CREATE TABLE node_counts AS SELECT node, CAST(sum(n) AS BIGINT) AS mentions, count(*) AS documents
        FROM (SELECT node, doc, sum(n) AS n FROM mentions GROUP BY node, doc) GROUP BY node""")
    n_nodes = run("SELECT count(*) FROM node_counts").fetchall()[0][0]
    n_ranges = -(-n_nodes // NODES_AT_A_TIME) or 1
    awkward = f"regexp_matches(name, {quote_text(AWKWARD_NAME.pattern)})"
    names = f"list({{name: name, mentions: CAST(n AS BIGINT)}} ORDER BY n DESC, {awkward}, length(name) DESC, name)"
    writer = None
    for position in range(n_ranges):
        low, high = (2**64 * place // n_ranges for place in (position, position + 1))
        inside = f"node >= {low}::UBIGINT AND node <= {high - 1}::UBIGINT"
        table = database.sql(f"""
            SELECT node, names[1].name AS name, names, type, types, mentions, documents
            FROM (SELECT * FROM node_counts WHERE {inside})
            JOIN (SELECT node, coalesce({names} FILTER (WHERE named), {names})[:{MAX_NAMES}] AS names
                FROM name_counts WHERE {inside} GROUP BY node) USING (node)
            JOIN (SELECT node, list({{type: type, mentions: CAST(n AS BIGINT)}} ORDER BY type) AS types,
                first(type ORDER BY n DESC, type) AS type FROM type_counts WHERE {inside} GROUP BY node) USING (node)
            ORDER BY node""").to_arrow_table()
        writer = writer or pq.ParquetWriter(work / "nodes.parquet", table.schema, compression="zstd")
        writer.write_table(table)
    if writer:
        writer.close()


def _copy_merges(database: Any, work: Path) -> None:
    query = f"""
        SELECT DISTINCT m.node, m.name, reason,
            CASE WHEN reason <> 'folded' AND NOT aliased THEN document END AS document
        FROM mentions m JOIN read_parquet({quote_text(str(work / "nodes.parquet"))}) shown USING (node)
        WHERE NOT undone AND NOT (reason = 'folded' AND m.name = shown.name)
        ORDER BY m.node, m.name, reason, document NULLS FIRST"""
    _copy(database, query, work, "merges")
