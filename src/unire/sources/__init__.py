"""Sources of raw text: files (compressed or not), folders, lines, JSON lines, CSV, TSV, Parquet, standard input.

Everything is a stream: a line, a row or a file is read when its text is needed. Text is UTF-8. Errors are one sentence
that names the file and the line.
"""
