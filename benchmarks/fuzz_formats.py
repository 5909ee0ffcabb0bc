"""Does every reader survive files that are broken? Mutated fixtures, read until something other than our error comes.

    TMPDIR=/dev/shm python benchmarks/fuzz_formats.py [--inputs 100000] [--seed 0] [--format spacy]

Each format's fixture is written, then changed at random: bytes flipped, cut, repeated, swapped, numbers and quotes put
in. Packed files are also changed before they are packed. Every annotation is written as JSON again. `texts` are files
that `unire extract` reads: plain text, lines, JSON lines, CSV, TSV, Parquet, tokenized text, also packed.

Any exception but `UnireError`, an input that takes more than five seconds, or a process that needs more than 2 GiB
beyond its imports, ends the run with the input kept.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import lzma
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow
from pyarrow import parquet

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.formats import json_utils, native
from unire.formats.base import project
from unire.sources import SourceShard, TextSources
from unire.writers import format_jsonl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.ace import news

SECONDS = 5
MEMORY_BYTES = 2 * 2**30
"""Memory that the process may use beyond what it has after its imports."""
TEXTS = "texts"
SHARES = {"spacy": 0.4, "datasets": 0.4, "brat": 0.7, "ace04": 0.7, "ace05": 0.7}
"""How many inputs a format gets, compared with the others: some are slower to read."""
TOKENS = [
    *(b"0", b"-1", b"99999999999999999999", b"1e999", b"null", b"true", b"[]", b"{}", b'""', b'"', b"\\u", b"\\ud800"),
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\t",
        b"\n",
        b"\r\n",
        b";",
        b"T1",
        b"T99",
        b"Arg1:",
        b"<",
        b"</BODY>",
        b"&x;",
    ),
]

DOCUMENTS = [
    Document.from_words(
        [["Ada", "Lovelace", "lives", "in", "London", "."], ["She", "writes", "."]],
        [(0, 2, "Peop", 0.5, {"sure": True}), (4, 5, "Loc"), (6, 7, "Peop"), (4, 5, "City")],
        [(0, 1, "Live_In", 0.25, {"source": "x"}), (2, 1, "Live_In")],
        id="ada",
        meta={"year": 1843},
    ),
    Document.from_words([["a", "b"]], [(0, 1, "X"), (0, 2, "Y")], text="a, b", offsets=[(0, 1), (3, 4)], id="b"),
]


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """Some bytes with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start = rng.randrange(len(raw) + 1)
        end = min(len(raw), start + rng.choice((0, 1, 1, 2, 5, 20)))
        token = raw[start:end]
        change = rng.randrange(6)
        if change == 0:
            token = bytes(rng.randrange(256) for _ in token)
        elif change == 1:
            token = b""
        elif change == 2:
            token = token * 3
        elif change == 3:
            token = rng.choice(TOKENS)
        elif change == 4:
            other = rng.randrange(len(raw) + 1)
            token = raw[other : other + 10]
        elif rng.random() < 0.2:
            end = len(raw)
            token = b""
        raw = raw[:start] + token + raw[end:]
    return raw


Mutation = Callable[[bytes, random.Random], bytes]
Reader = Callable[[Path, random.Random, list[UnireError]], None]


def repacked(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Mutation:
    """Change what a packed file unpacks to."""
    return lambda raw, rng: pack(mutated(unpack(raw), rng))


PACKED = {
    ".gz": repacked(gzip.compress, gzip.decompress),
    ".xz": repacked(lzma.compress, lzma.decompress),
    ".bz2": repacked(bz2.compress, bz2.decompress),
    ".spacy": repacked(zlib.compress, zlib.decompress),
}


def write_fixture(name: str, path: Path) -> None:
    if name == TEXTS:
        write_texts(path)
    elif name == "jsonl":  # which has no writer among the formats
        path.write_text("".join(map(format_jsonl, DOCUMENTS)), encoding="utf-8")
    elif name.startswith("ace"):
        news(name).write(path)
    else:
        formats.write(DOCUMENTS, path, name, lost=Counter())


def write_texts(folder: Path) -> None:
    """One small file of every kind, some of them packed."""
    folder.mkdir()
    texts = ["Ada Lovelace lives in London. She writes.", 'He said: "naïve", twice;\n(or more) \U0001f600.', ""]
    rows = [json.dumps({"id": str(i), "text": text}) for i, text in enumerate(texts)]
    lines = "".join(f"{row}\n" for row in rows).encode()
    plain = "\n\n".join(texts).encode()
    cells = "id;text\r\n" + "".join(f'{i};"{text.replace(chr(34), chr(34) * 2)}"\r\n' for i, text in enumerate(texts))
    (folder / "a.txt").write_bytes(plain)
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "a.csv").write_bytes(cells.encode())
    (folder / "a.tsv").write_bytes(cells.replace(";", "\t").encode())
    (folder / "rows.json").write_text(f"[{', '.join(rows)}]", encoding="utf-8")
    (folder / "a.txt.gz").write_bytes(gzip.compress(plain))
    (folder / "a.jsonl.xz").write_bytes(lzma.compress(lines))
    (folder / "a.csv.bz2").write_bytes(bz2.compress(cells.encode()))
    parquet.write_table(pyarrow.table({"text": texts, "n": [1, 2, 3]}), folder / "a.parquet")


def read_annotated(name: str) -> Reader:
    """Read files of a format, or guess it, and write what they hold as JSON."""

    def read(fixture: Path, rng: random.Random, broken: list[UnireError]) -> None:
        asked = name if rng.random() < 0.9 or name.startswith("ace") else None
        found = list(formats.read(fixture, asked, on_error=broken.append, spaces=rng.random() < 0.5))
        for document in found:
            for part in project(document, formats.FORMATS["brat"].capabilities, Counter()):
                json_utils.dump_json(list(native.to_json(part)))

    return read


def read_texts(fixture: Path, rng: random.Random, broken: list[UnireError]) -> None:
    """Read texts as `unire extract` does, in a layout drawn at random, and sometimes split files as on a cluster."""
    layout = rng.choice(({}, {"lines": True}, {"field": "text"}, {"field": "text"}, {"words": True}))
    sources = TextSources([str(fixture)], **layout)
    if rng.random() < 0.1:
        list(sources.split(SourceShard(str(fixture), None, fixture.stat().st_size), 20))
    for item in sources.items(broken.append):
        json_utils.dump_json(item.document().to_dict())


def too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def fuzz(name: str, inputs: int, rng: random.Random, folder: Path) -> Counter[str]:
    """Read and rewrite mutants of a format's fixture; returns how many were read whole, in part and not at all."""
    fixture = folder / name
    write_fixture(name, fixture)
    files = sorted(file for file in fixture.rglob("*") if file.is_file()) if fixture.is_dir() else [fixture]
    originals = {file: file.read_bytes() for file in files}
    read = read_texts if name == TEXTS else read_annotated(name)
    outcome: Counter[str] = Counter()
    for _ in range(inputs):
        file = rng.choice(files)
        suffix = ".spacy" if name == "spacy" else file.suffix
        change = rng.choice((mutated, PACKED[suffix])) if suffix in PACKED else mutated
        file.write_bytes(change(originals[file], rng))
        broken: list[UnireError] = []
        signal.alarm(SECONDS)
        try:
            read(file if name == TEXTS else fixture, rng, broken)
            outcome["in part" if broken else "read"] += 1
        except UnireError:
            outcome["refused"] += 1
        except BaseException:
            traceback.print_exc()
            kept = Path(f"fuzz-{name}-{file.name}")
            kept.write_bytes(file.read_bytes())
            sys.exit(f"{name}: the input is kept as {kept}")
        finally:
            signal.alarm(0)
        file.write_bytes(originals[file])
    return outcome


def limit_memory() -> None:
    """Limit what the process may allocate from now on."""
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES,) * 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=[TEXTS, *formats.FORMATS])
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    limit_memory()
    names = [options.format] if options.format else [TEXTS, *formats.FORMATS]
    shares = {name: SHARES.get(name, 1.2) for name in names}
    total: Counter[str] = Counter()
    for name, share in shares.items():
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            inputs = round(options.inputs * share / sum(shares.values()) + 0.5)
            outcome = fuzz(name, inputs, random.Random(f"{options.seed} {name}"), Path(folder))
        total += outcome
        print(
            f"{name:15} {sum(outcome.values()):7,} inputs {time.perf_counter() - start:6.0f} s  {dict(outcome)}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{sum(total.values()):,} inputs in all, {dict(total)}: no exception but our own, none over {SECONDS} s, "
        f"at most {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
