"""Does every reader survive files that are broken? Mutated fixtures, read until something other than our error comes.

    python benchmarks/fuzz_formats.py [--inputs 100000] [--seed 0]

Each format's fixture is written, then changed at random: bytes flipped, cut, repeated, swapped, numbers and quotes put
in. Formats that pack their bytes are also changed before they are packed. What is read is spelt as JSON again. Any
exception but `UnireError`, or an input that takes more than ten seconds, ends the run with the input kept.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.formats import json_utils, native
from unire.formats.base import project

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.ace import news

SECONDS = 10
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


def repacked(raw: bytes, rng: random.Random) -> bytes:
    return zlib.compress(mutated(zlib.decompress(raw), rng))


def write_fixture(name: str, path: Path) -> None:
    if name.startswith("ace"):
        news(name).write(path)
    else:
        formats.write(DOCUMENTS, path, name, lost=Counter())


def too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def fuzz(name: str, inputs: int, rng: random.Random, folder: Path) -> Counter[str]:
    """Read and rewrite mutants of a format's fixture; returns how many were read whole, in part and not at all."""
    fixture = folder / name
    write_fixture(name, fixture)
    files = sorted(file for file in fixture.rglob("*") if file.is_file()) if fixture.is_dir() else [fixture]
    originals = {file: file.read_bytes() for file in files}
    changes: list[Callable[[bytes, random.Random], bytes]] = [mutated]
    if name == "spacy":
        changes.append(repacked)
    outcome: Counter[str] = Counter()
    for _ in range(inputs):
        file = rng.choice(files)
        file.write_bytes(rng.choice(changes)(originals[file], rng))
        broken: list[UnireError] = []
        signal.alarm(SECONDS)
        try:
            asked = name if rng.random() < 0.9 or name.startswith("ace") else None
            found = list(formats.read(fixture, asked, on_error=broken.append, spaces=rng.random() < 0.5))
            for document in found:
                for part in project(document, formats.FORMATS["brat"].capabilities, Counter()):
                    json_utils.dump_json(list(native.to_json(part)))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=list(formats.FORMATS))
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    names = [options.format] if options.format else list(formats.FORMATS)
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
    print(f"{sum(total.values()):,} inputs in all, {dict(total)}: no exception but our own, none over {SECONDS} s")


if __name__ == "__main__":
    main()
