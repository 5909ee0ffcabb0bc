"""The knowledge graph on disk: built and extended in two steps, each of which can be interrupted.

1. The facts of every document are written to Parquet files of up to `PART_DOCUMENTS` documents, in `parts/`. A file is
   complete or missing, so an interrupted run continues behind the last one.
2. DuckDB merges all facts into `nodes.parquet`, `edges.parquet`, `evidence.parquet` and `merges.parquet`, with bounded
   memory. These files are replaced at the end.

The second step reads all facts, so the order of documents, files and runs does not matter.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from unire import formats, pretrained
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.files import is_stream, list_files, replace_atomically
from unire.formats.base import ReadOptions
from unire.graph.build import score_weight
from unire.graph.facts import GENERIC_MENTION, GENERIC_RELATION, GraphRules, collect_facts
from unire.graph.merge import merge_parts
from unire.graph.records import MergeRecord
from unire.hub.model_dir import fingerprint, locate_model
from unire.labels import LabelSpace
from unire.model_files import load_json
from unire.output_files import check_output_folder, lock_output
from unire.result_filter import ResultFilter
from unire.sources import TextSources

__all__ = ["GRAPH_FILE", "GraphInputs", "add_to_graph", "build_graph", "read_graph_file", "require_duckdb"]

GRAPH_FILE = "graph.json"
"""The file in a graph's folder that says what it holds."""
FORMAT = 3
"""The version of the folder's layout."""
PART_DOCUMENTS = 5_000
"""Documents of results in a file of facts."""
TEXT_PART_DOCUMENTS = 500
"""Documents in a file of facts if they are extracted first, which takes longer."""
DONE = "done.json"
"""The file beside the facts of an input that is complete: counts of what its reader changed or left out."""
COUNTS = ("documents", "nodes", "edges", "evidence")
TABLES = ("documents", "mentions", "relations", "definitions")
DEFAULT_MEMORY = 2 * 2**30
"""Bytes that DuckDB may use."""

OnDocuments = Callable[[int], None]
"""Called with the number of documents that were read since the last call."""


@dataclass(frozen=True)
class GraphInputs:
    """Results and texts that a graph is built from.

    Results are annotated files: those that `unire extract` wrote, the folder of a run with Ray, or any other format of
    `unire.formats`. All else is text, which the model reads.
    """

    sources: Sequence[str] = ()
    """Files, folders and texts."""
    lines: bool = False
    """Every line of a text file is a document."""
    field: str | None = None
    """The field or column of the text in JSON lines, Parquet, CSV or TSV. These are then texts, too."""
    model: str = pretrained.DEFAULT
    """The model that reads texts."""
    device: str | None = None
    min_score: float = 0.0
    """Entities and relations with a lower score are dropped."""

    def split(self) -> tuple[list[Path], TextSources | None]:
        """The files with results, and the texts."""
        results: list[Path] = []
        texts: list[str] = []
        for source in self.sources:
            found = [] if self.lines or self.field else _list_results(source)
            results += found
            if not found:
                texts.append(source)
        return results, TextSources(texts, lines=self.lines, field=self.field) if texts else None

    def load_labels(self, labels: LabelSpace | str | None, texts: TextSources | None) -> LabelSpace | str | None:
        """The label space that was named; else that of the model, if there are texts."""
        return LabelSpace.load(locate_model(self.model)) if labels is None and texts else labels


def _list_results(source: str) -> list[Path]:
    """The files of a source that hold results; none if it is text."""
    try:
        path = Path(source)
        if not path.exists() or is_stream(path):
            return []
    except (OSError, ValueError):  # a text
        return []
    if path.is_file():
        return [path] if _holds_results(path) else []
    if _holds_results(path):  # a folder in one format
        parquet = sorted(path.glob("*.parquet"))
        return parquet or [path]
    files = list_files(path)
    found = [file for file in files if _holds_results(file)]
    if found and len(found) < len(files):
        other = next(file for file in files if file not in found)
        raise UnireError(f"{path} holds results and other files, such as {other.name}; pass the files that you mean")
    return found


def _holds_results(path: Path) -> bool:
    try:
        kind = formats.guess(path)
    except UnireError:
        return False
    if kind == "parquet":
        import pyarrow.parquet as pq

        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        names = set(pq.read_schema(files[0]).names)
        return "entities" in names or "ner" in names
    if kind == "prodigy":  # or lines with texts
        with path.open("rb") as file:
            return b'"spans"' in file.readline()
    return True


def build_graph(
    inputs: GraphInputs | Sequence[str | Path],
    out: str | Path,
    *,
    labels: LabelSpace | str | None = None,
    keep_generic: bool = False,
    undo: Iterable[MergeRecord] = (),
    resume: bool = False,
    workers: int = 1,
    memory: int = DEFAULT_MEMORY,
    on_documents: OnDocuments | None = None,
) -> dict[str, Any]:
    """Build a knowledge graph in a folder. `KnowledgeGraph.open` reads it.

    >>> build_graph(["found.jsonl"], "graph")  # doctest: +SKIP

    Args:
        inputs: Files with results, or `GraphInputs`.
        out: A new folder.
        labels: As for `Graph`. [default: those of the model if there are texts]
        keep_generic: As for `Graph`.
        undo: As for `Graph`.
        resume: Continue an interrupted run.
        workers: Processes that read results, one file each.
        memory: Bytes that DuckDB may use.
        on_documents: Called while documents are read.

    Returns:
        What the file `graph.json` says: counts of documents, nodes and edges, and of what was left out.

    Raises:
        UnireError: The folder is not new, or an input cannot be read.
    """
    given = inputs if isinstance(inputs, GraphInputs) else GraphInputs(tuple(map(str, inputs)))
    require_duckdb()
    folder = Path(out)
    _, texts = given.split()
    rules = GraphRules.of(given.load_labels(labels, texts), keep_generic=keep_generic)
    with lock_output(folder):
        about = read_graph_file(folder, complete=False)
        if about is None:
            check_output_folder(folder)
            _write_graph_file(folder, _describe(rules, undo))
        elif not resume:
            raise UnireError(
                f"{folder} holds a graph; pass a new folder, or continue an interrupted run with resume=True"
            )
        elif about["rules"] != _describe(rules)["rules"]:
            raise UnireError(f"{folder} was built with other labels or another keep_generic=...; pass the same")
        elif about["complete"]:
            return dict(about)
        return _add(given, folder, memory=memory, workers=workers, on_documents=on_documents)


def add_to_graph(
    folder: str | Path,
    inputs: GraphInputs | Sequence[str | Path] = (),
    *,
    undo: Iterable[MergeRecord] = (),
    workers: int = 1,
    memory: int = DEFAULT_MEMORY,
    on_documents: OnDocuments | None = None,
) -> dict[str, Any]:
    """Add documents to a graph, or undo merges. The result is as if it had been built from all documents at once.

    An interrupted call continues when it is repeated. The arguments are those of `build_graph`.

    >>> add_to_graph("graph", ["more.jsonl"])  # doctest: +SKIP
    """
    given = inputs if isinstance(inputs, GraphInputs) else GraphInputs(tuple(map(str, inputs)))
    require_duckdb()
    folder = Path(folder)
    with lock_output(folder):
        about = read_graph_file(folder)
        known = {tuple(merge.items()) for merge in about["undo"]}
        about["undo"] += [merge for merge in map(_undo_entry, undo) if tuple(merge.items()) not in known]
        _write_graph_file(folder, about)
        return _add(given, folder, memory=memory, workers=workers, on_documents=on_documents)


def require_duckdb() -> Any:
    """Import DuckDB, or say how to install it."""
    try:
        import duckdb
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        raise UnireError('a graph in a folder needs DuckDB and pyarrow: pip install "unire[graph]"') from None
    atexit.unregister(gc.freeze)  # DuckDB reports objects that the command freezes at exit as leaks
    return duckdb


def read_graph_file(folder: Path, *, complete: bool = True) -> Any:
    """What `graph.json` of a folder says. With `complete`, the graph must be there and complete."""
    path = folder / GRAPH_FILE
    try:
        about = load_json(path) if folder.is_dir() else None
    except FileNotFoundError:
        about = None
    if about is None:
        if complete:
            raise UnireError(f"{folder} is no graph; build one with `unire graph build`")
        return None
    rules = about.get("rules") if isinstance(about, dict) else None
    if not isinstance(rules, dict) or about.get("format") != FORMAT or not isinstance(rules.get("symmetric"), list):
        raise UnireError(f"{path} is not that of a graph of this version of unire; build the graph again")
    if complete and not (about.get("complete") and all(type(about.get(name)) is int for name in COUNTS)):
        raise UnireError(f"{folder} is not finished; continue the run that builds it with resume=True")
    return about


def _describe(rules: GraphRules, undo: Iterable[MergeRecord] = ()) -> dict[str, Any]:
    named = {key: sorted(value) if isinstance(value, frozenset) else value for key, value in asdict(rules).items()}
    return {"format": FORMAT, "complete": False, "rules": named, "undo": list(map(_undo_entry, undo))}


def _undo_entry(merge: MergeRecord) -> dict[str, str | None]:
    return {"name": merge.name, "document": merge.document}


def _write_graph_file(folder: Path, about: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replace_atomically(folder / GRAPH_FILE) as temporary:
            temporary.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnireError(f"{folder} cannot be written: {error.strerror or error}") from None


def _add(
    inputs: GraphInputs, folder: Path, *, memory: int, workers: int, on_documents: OnDocuments | None
) -> dict[str, Any]:
    about = read_graph_file(folder, complete=False)
    rules = about["rules"]
    staging = GraphRules(frozenset(rules["symmetric"]), frozenset(rules["generic"]), rules["keep_generic"])
    if inputs.sources:
        _write_parts(inputs, staging, folder, workers, on_documents or (lambda count: None))
    notes = merge_parts(folder, about, memory)
    for path in sorted((folder / "parts").glob(f"*/{DONE}")):
        notes["notes"].update(Counter(notes["notes"]) + Counter(json.loads(path.read_text(encoding="utf-8"))))
    about |= {"complete": True, **notes}
    _write_graph_file(folder, about)
    return dict(about)


# Facts


def _write_parts(inputs: GraphInputs, rules: GraphRules, folder: Path, workers: int, on_documents: OnDocuments) -> None:
    """Write the facts of all inputs that have not been written yet."""
    results, texts = inputs.split()
    if texts is not None:
        texts.check_output(folder, folder=True)
    jobs = []
    for path in results:
        target = folder / "parts" / _input_name(path, inputs)
        if not (target / DONE).exists():
            jobs.append((path, target, rules, inputs.min_score))
    if workers > 1 and len(jobs) > 1:
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
            try:
                for done in as_completed([pool.submit(_write_results, *job) for job in jobs]):
                    on_documents(done.result())
            except BrokenProcessPool:
                raise UnireError(
                    "a process that reads results was killed, perhaps for lack of memory; continue the run with fewer "
                    "workers=..."
                ) from None
    else:
        for job in jobs:
            _write_results(*job, on_documents)
    if texts is not None:
        _write_texts(inputs, texts, rules, folder, on_documents)


def _input_name(path: Path, inputs: GraphInputs) -> str:
    """The name of the folder for the facts of a file: the same as long as the file does not change."""
    status = path.stat()
    identity = json.dumps([str(path.resolve()), status.st_size, status.st_mtime_ns, inputs.min_score])
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _write_results(
    path: Path, target: Path, rules: GraphRules, min_score: float, on_documents: OnDocuments | None = None
) -> int:
    """Write the facts of a file with results."""
    kind = formats.guess(path)
    options = ReadOptions()
    keep = ResultFilter(min_score)
    documents = map(keep, formats.get_format(kind).read(path, options))
    return _write_input(documents, target, rules, PART_DOCUMENTS, on_documents, options.notes)


def _write_texts(
    inputs: GraphInputs, texts: TextSources, rules: GraphRules, folder: Path, on_documents: OnDocuments
) -> None:
    """Extract from texts, and write the facts."""
    stamps = [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns) for files in texts.files.values() for path in files
    ]
    model = fingerprint(locate_model(inputs.model))
    identity = json.dumps([texts.to_dict(), stamps, model, inputs.min_score], default=str)
    target = folder / "parts" / hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if (target / DONE).exists():
        return
    items = islice(texts.items(), TEXT_PART_DOCUMENTS * _count_parts(target), None)
    extractor = Extractor.load(inputs.model, device=inputs.device)
    notes: Counter[str] = Counter()
    annotated = extractor.annotate((item.document() for item in items), notes=notes)
    documents = map(ResultFilter(inputs.min_score), annotated)
    _write_input(documents, target, rules, TEXT_PART_DOCUMENTS, on_documents, notes, skip=False)


def _count_parts(target: Path) -> int:
    """The number of parts of an input that are complete."""
    return len(list(target.glob("*.documents.parquet")))


def _write_input(
    documents: Iterator[Document],
    target: Path,
    rules: GraphRules,
    size: int,
    on_documents: OnDocuments | None,
    notes: Counter[str],
    *,
    skip: bool = True,
) -> int:
    """Write the facts of documents as parts of `size` documents; those of complete parts are skipped."""
    written = 0
    try:
        target.mkdir(parents=True, exist_ok=True)
        part = _count_parts(target)
        rest = islice(documents, size * part, None) if skip else documents
        for first in rest:
            count = _write_part(chain([first], islice(rest, size - 1)), target / f"{part:06}", rules)
            part, written = part + 1, written + count
            if on_documents:
                on_documents(count)
        with replace_atomically(target / DONE) as temporary:
            temporary.write_text(json.dumps(+notes), encoding="utf-8")
    except OSError as error:
        raise UnireError(f"{target} cannot be written: {error.strerror or error}") from None
    return written


def _write_part(documents: Iterable[Document], path: Path, rules: GraphRules) -> int:
    """Write three files; that of the documents is the last, so it shows that the part is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    seen = set()
    for document in documents:
        facts = collect_facts(document, rules)
        left_out = facts.left_out[GENERIC_MENTION], facts.left_out[GENERIC_RELATION]
        columns["documents"].append((facts.key, facts.document, *left_out))
        if facts.key in seen:
            continue
        seen.add(facts.key)
        about = facts.key, facts.document
        columns["definitions"] += [(*about, *definition) for definition in facts.definitions]
        columns["mentions"] += [(*about, *mention) for mention in facts.mentions]
        columns["relations"] += [
            (*about, *relation, None if relation.score is None else score_weight(relation.score))
            for relation in facts.relations
        ]
    schemas = _schemas()
    for name in reversed(TABLES):
        arrays: list[Sequence[Any]] = list(zip(*columns[name], strict=True)) or [[] for _ in schemas[name]]
        table = pa.table(
            [pa.array(a, f.type) for a, f in zip(arrays, schemas[name], strict=True)], schema=schemas[name]
        )
        with replace_atomically(path.with_name(f"{path.name}.{name}.parquet")) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    return len(columns["documents"])


def _schemas() -> dict[str, Any]:
    """The columns of the facts."""
    import pyarrow as pa

    about = [("doc", pa.uint64()), ("document", pa.string())]
    places = ("sentence_start", "head_start", "head_end", "tail_start", "tail_end")
    return {
        "documents": pa.schema([*about, ("generic_mentions", pa.int32()), ("generic_relations", pa.int32())]),
        "mentions": pa.schema(
            [
                *about,
                ("node", pa.uint64()),
                ("name", pa.string()),
                ("type", pa.string()),
                ("reason", pa.string()),
                ("named", pa.bool_()),
                ("mentions", pa.int32()),
            ]
        ),
        "definitions": pa.schema([*about, ("short", pa.uint64()), ("long", pa.uint64())]),
        "relations": pa.schema(
            [
                *about,
                ("head", pa.uint64()),
                ("relation", pa.string()),
                ("tail", pa.uint64()),
                ("sentence", pa.string()),
                *((place, pa.int32()) for place in places),
                ("head_named", pa.bool_()),
                ("tail_named", pa.bool_()),
                ("score", pa.float64()),
                ("weight", pa.int64()),
            ]
        ),
    }
