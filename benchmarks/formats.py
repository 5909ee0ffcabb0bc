"""How fast, and in how much memory, is a conversion? Ratios to a bare load and dump of the same file.

    python benchmarks/formats.py [FROM:TO …] [--megabytes 100] [--rounds 3] [--json FILE]

Made-up documents of about the size of SciERC's fill files of JSON lines, which are converted to other formats, and
loaded and dumped line by line by `json` alone. The two take turns; ratios compare the CPU time of their best rounds.
Each conversion runs in its own process, whose peak memory is compared with that for a tenth of the file. `--json`
keeps what the file says of other pairs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from unire import formats
from unire.documents import Document

LINES = ("unire", "dygie", "unire-released", "prodigy")
PAIRS = [f"{source}:{target}" for source in LINES for target in LINES if source in LINES[:2] or target in LINES[:1]]
TEXT = "we present a chart parser for the analysis of dependency trees , which ( unlike others ) is naïve"
WORDS = TEXT.split()
TYPES, RELATIONS = ("Task", "Method", "Metric", "Material"), ("USED-FOR", "PART-OF", "COMPARE")


def made_up(seed: int) -> Iterator[Document]:
    """Documents of about 5 sentences, 24 words each, with about 16 entities and 9 relations."""
    rng = random.Random(seed)
    for number in count():
        sentences = [[rng.choice(WORDS) for _ in range(rng.randint(8, 40))] for _ in range(rng.randint(3, 8))]
        entities: list[tuple[int, int, str]] = []
        relations: list[tuple[int, int, str]] = []
        start = 0
        for words in sentences:
            first = len(entities)
            for place in sorted(rng.sample(range(len(words) - 3), 3)):
                entities.append((start + place, start + place + rng.randint(1, 3), rng.choice(TYPES)))
            relations += [(first, first + 1, rng.choice(RELATIONS)), (first + 1, first + 2, rng.choice(RELATIONS))]
            start += len(words)
        entities = list(dict.fromkeys(entities))
        relations = [r for r in relations if max(r[:2]) < len(entities)]
        yield Document.from_words(sentences, entities, relations, id=f"made-up-{number}")


def bare(source: Path, target: Path) -> None:
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(json.loads(line), ensure_ascii=False) + "\n")


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and peak megabytes of some work in its own process."""
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)

    def run() -> None:
        start = time.process_time()
        work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sender.send((time.process_time() - start, peak))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    sender.close()  # so that a failed process is not waited for
    result: tuple[float, float] = receiver.recv()
    process.join()
    return result


def fill(path: Path, name: str, megabytes: float) -> None:
    """A file of about that size, its documents drawn again and again from the same thousand."""
    few = path.with_suffix(".few")
    formats.write([document for document, _ in zip(made_up(0), range(1000), strict=False)], few, name)
    chunk = few.read_bytes()
    with path.open("wb") as file:
        for _ in range(max(1, round(megabytes * 1e6 / len(chunk)))):
            file.write(chunk)


def compare(folder: Path, source: str, target: str, megabytes: float, rounds: int) -> dict[str, Any]:
    whole, tenth, out = folder / source, folder / f"{source}.tenth", folder / "out"
    fill(whole, source, megabytes)
    fill(tenth, source, megabytes / 10)

    def convert(path: Path) -> Callable[[], object]:
        return lambda: formats.write(formats.read(path, source), out, target)

    times: dict[str, list[float]] = {"bare": [], "convert": []}
    peaks = []
    for _ in range(rounds):
        times["bare"].append(measured(lambda: bare(whole, out))[0])
        seconds, peak = measured(convert(whole))
        times["convert"].append(seconds)
        peaks.append(peak)
    return {
        "from": source,
        "to": target,
        "megabytes": round(whole.stat().st_size / 1e6, 1),
        "bare_seconds": round(min(times["bare"]), 2),
        "convert_seconds": round(min(times["convert"]), 2),
        "ratio": round(min(times["convert"]) / min(times["bare"]), 2),
        "peak_megabytes": round(max(peaks)),
        "peak_megabytes_of_a_tenth": round(measured(convert(tenth))[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", metavar="FROM:TO", default=PAIRS)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        results = {f"{r['from']}:{r['to']}": r for r in json.loads(options.json.read_text(encoding="utf-8"))["results"]}
    for pair in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            results[pair] = compare(Path(folder), *pair.split(":"), options.megabytes, options.rounds)
        print(results[pair], flush=True)
        if options.json:
            ordered = sorted(results.values(), key=lambda r: (LINES.index(r["from"]), LINES.index(r["to"])))
            facts = {"python": sys.version.split()[0], "machine": platform.machine(), "results": ordered}
            options.json.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
