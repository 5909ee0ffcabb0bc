"""Which format a file or a folder has, by its first bytes or its files."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

from unire.errors import UnireError
from unire.files import explain_read_errors, get_suffix, is_stream, open_binary
from unire.formats import conll04, hugging_face, json_utils, parquet
from unire.formats.json_utils import Json, expect

__all__ = ["guess"]

HEAD = 1 << 20
"""Bytes of a JSON list that are looked at before all of it is."""
ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How the packed files of spaCy may begin."""
JSON = (".json", ".jsonl", ".ndjson")
"""Endings of files that are JSON, and have something wrong with them where they are not."""
MAYBE_JSON = re.compile(rb"\s*(\{|\[\s*(\{|\]|$))")
"""How the first line of other files begins, if they are JSON."""
UNKNOWN = "not a format that unire knows; say which one it is, or convert it first"


def guess(path: str | Path) -> str:
    """The name of the format of a file, or of a folder."""
    path = Path(path)
    if is_stream(path):
        raise UnireError(f"{path} can be read but once, so its format is not guessed; name the format")
    with explain_read_errors(path):
        if path.is_dir():
            return _of_folder(path)
        with open_binary(path) as file:
            start = file.read(4)
    if start == b"PAR1":
        return "parquet"
    if start.startswith(ZLIB):
        return "spacy"
    return _of_text(path)


def _of_folder(path: Path) -> str:
    if (path / hugging_face.STATE).exists() or (path / "dataset_dict.json").exists():
        return "datasets"
    if next(path.rglob("*.ann"), None):
        return "brat"
    if next(path.rglob("*.apf.xml"), None):
        raise UnireError(f"{path} looks like ACE; say whether it is ace04 or ace05")
    if parquet.files_of(path):
        return "parquet"
    raise UnireError(f"{path}: {UNKNOWN}")


def _of_text(path: Path) -> str:
    for number, line in json_utils.lines(path):
        if not line or line.isspace():
            continue
        try:
            if conll04.is_row(json_utils.decoded(line)):
                return "conll04"
            if get_suffix(path) not in JSON and not MAYBE_JSON.match(line):
                raise UnireError(UNKNOWN)
            if line.lstrip().startswith(b"["):
                return _of_list(path)
            return _of_object(expect(json_utils.parsed(line), dict, "a document"))
        except UnireError as error:
            raise UnireError(f"{path}, line {number}: {error}") from None
    raise UnireError(f"{path} holds no document")


def _of_list(path: Path) -> str:
    """By the keys of the first item, if it lies in the first bytes; what is wrong with it the reader will say."""
    with explain_read_errors(path), open_binary(path) as file:
        head = codecs.decode(file.read(HEAD), "utf-8-sig", "ignore").lstrip()
    try:
        item, _ = json.JSONDecoder().raw_decode(head[1:].lstrip())
    except (ValueError, RecursionError):
        return "labelstudio" if '"annotations"' in head else "spert"
    return "labelstudio" if isinstance(item, dict) and "data" in item else "spert"


def _of_object(item: Json) -> str:
    keys = item.keys()
    if "sentText" in keys:
        return "unire-released"
    if keys & {"doc_key", "ner"} or ("sentences" in keys and "text" not in keys):
        return "dygie"
    if "text" in keys:
        if "sentences" in keys and "tokens" not in keys:
            return "unire"
        return "jsonl" if "entities" in keys and not keys & {"tokens", "spans"} else "prodigy"
    raise UnireError(UNKNOWN)
