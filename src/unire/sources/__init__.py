"""Raw texts from where people keep them: files, packed or not, folders, lines, JSON lines, tables, standard input.

Everything is a stream: a line, a row or a file is read when its text is taken. Texts are UTF-8, and what cannot be
read is refused in one sentence that names the file and the line. A long file can be cut into parts, which are read each
for itself.
"""

from __future__ import annotations

from unire.sources.csv import TABLES, from_rows, from_table, table_parts
from unire.sources.folders import JSON_LINES, KNOWN, PARQUET, files_of, takes
from unire.sources.lines import from_json_lines, from_lines, line_parts, whole
from unire.sources.parquet import SHORT, from_parquet, row_parts
from unire.sources.text import Part, Text, skipping

__all__ = [
    "JSON_LINES",
    "KNOWN",
    "PARQUET",
    "SHORT",
    "TABLES",
    "Part",
    "Text",
    "files_of",
    "from_json_lines",
    "from_lines",
    "from_parquet",
    "from_rows",
    "from_table",
    "line_parts",
    "row_parts",
    "skipping",
    "table_parts",
    "takes",
    "whole",
]
