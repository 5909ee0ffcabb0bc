"""How fast is decoding? Ratios on tables shaped like the test set of SciERC, all from one run.

    python benchmarks/decoding.py [--json FILE]

551 synthetic tables of 14 labels, with lengths, entities and relations about as in SciERC and noisy gold probabilities.
They are sorted by length, in batches of 32 and in those of the extractor. The batched `split` decoder runs against
`reference.decode_boundaries`, `hard` and `likely`: on numpy arrays and, if there is a GPU, on tensors in its memory.
The contestants take turns. Ratios compare their best rounds, and in brackets their median rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timing import race
from unire.decoding import reference
from unire.decoding.decoders import DEFAULT_MAX_SPAN_ALPHA, MaxSpanDecoder, decode
from unire.labels import LabelSpace

TABLES = 551
EXTRACTOR_CELLS = 400_000
"""The default bound of `unire.inference.torch_engine.TorchEngine`."""
LABELS = LabelSpace.load("scierc")

Table = NDArray[np.float32]
Batch = tuple[Any, NDArray[np.int64]]


def make_table(rng: np.random.Generator) -> Table:
    """A sentence of about 24 words with about 3 entities and 2 relations, as a well trained model might fill it."""
    n = int(np.clip(rng.lognormal(3.06, 0.52), 5, 101))
    gold = np.zeros((n, n), dtype=np.int64)
    entities = []
    start = rng.poisson(3)
    while start + (size := rng.choice([1, 2, 3, 4], p=[0.31, 0.39, 0.18, 0.12])) <= n:
        entities.append(slice(start, start + size))
        gold[entities[-1], entities[-1]] = rng.integers(LABELS.entity_ids.start, LABELS.entity_ids.stop)
        start += size + 1 + rng.poisson(4)
    for _ in range(2 if len(entities) > 1 else 0):
        head, tail = rng.choice(len(entities), size=2, replace=False)
        label = rng.integers(LABELS.relation_ids.start, LABELS.relation_ids.stop)
        gold[entities[head], entities[tail]] = label
        if label in LABELS.symmetric_ids:
            gold[entities[tail], entities[head]] = label
    logits = rng.normal(size=(n, n, len(LABELS))) + 10 * np.eye(len(LABELS))[gold]
    odds = np.exp(logits)
    return (odds / odds.sum(axis=2, keepdims=True)).astype(np.float32)


def in_batches(tables: Sequence[Table], size: int) -> list[Batch]:
    batches = []
    for first in range(0, len(tables), size):
        some = tables[first : first + size]
        lengths = np.array([len(table) for table in some])
        P = np.zeros((len(some), lengths.max(), lengths.max(), len(LABELS)), dtype=np.float32)
        for padded, table in zip(P, some, strict=True):
            padded[: len(table), : len(table)] = table
        batches.append((P, lengths))
    return batches


def in_extractor_batches(tables: Sequence[Table]) -> list[Batch]:
    """As many tables of similar length at once as the extractor takes: bounded by padded cells, not by their number."""
    batches: list[Batch] = []
    some: list[Table] = []
    for table in tables:
        if some and (len(some) + 1) * len(table) ** 2 > EXTRACTOR_CELLS:
            batches += in_batches(some, len(some))
            some = []
        some.append(table)
    return batches + in_batches(some, len(some))


def batched(batches: Sequence[Batch], decoder: str = "split") -> Callable[[], tuple[int, int]]:
    def run() -> tuple[int, int]:
        found = [decode(P, lengths, LABELS, decoder=decoder) for P, lengths in batches]
        return sum(len(f.entities) for f in found), sum(len(f.relations) for f in found)

    return run


def spans_chosen(batches: Sequence[Batch]) -> Callable[[], None]:
    """The span search of `likely` alone, most of which runs on the host even if the tables are on a GPU."""
    decoders = [MaxSpanDecoder(P, lengths, LABELS) for P, lengths in batches]

    def run() -> None:
        for decoder in decoders:
            decoder.span_starts(DEFAULT_MAX_SPAN_ALPHA)

    return run


def one_by_one(batches: Sequence[Batch]) -> tuple[int, int]:
    found = [
        reference.decode_boundaries(table[:n, :n], LABELS)
        for P, lengths in batches
        for table, n in zip(P, lengths, strict=True)
    ]
    return sum(len(f.entities) for f in found), sum(len(f.relations) for f in found)


def report(title: str, seconds: dict[str, list[float]], ratios: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Of each contestant, the best round and the median one."""
    print(f"\n{title}")
    times = {
        name: {"best_ms": 1e3 * min(rounds), "median_ms": 1e3 * statistics.median(rounds)}
        for name, rounds in seconds.items()
    }
    for name, time_ in times.items():
        print(f"  {name:<45} {time_['best_ms']:8.1f} ms  [{time_['median_ms']:8.1f}]")
    result: dict[str, Any] = {"times": times, "ratios": {}}
    for slow, fast in ratios:
        best, median = (times[slow][key] / times[fast][key] for key in ("best_ms", "median_ms"))
        result["ratios"][f"{slow} / {fast}"] = {"best": best, "median": median}
        print(f"  {slow} / {fast}: {best:.1f}× [{median:.1f}×]")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    tables = sorted((make_table(rng) for _ in range(TABLES)), key=len)
    batches = in_batches(tables, 32)
    entities, relations = one_by_one(batches)
    assert batched(batches)() == (entities, relations), "the decoders disagree"
    print(
        f"{TABLES} tables, {np.mean([len(t) for t in tables]):.1f} words on average, at most {len(tables[-1])}; "
        f"{entities / TABLES:.1f} entities and {relations / TABLES:.1f} relations each"
    )
    cores = os.cpu_count()
    threads = os.environ.get("OMP_NUM_THREADS", cores)  # of BLAS; all else runs in one
    print(f"numpy {np.__version__}, Python {platform.python_version()}, {cores} CPU cores, {threads} threads")
    sentence = "reference, sentence by sentence"
    results = {
        "cpu": report(
            "CPU, numpy",
            race(
                {
                    sentence: lambda: one_by_one(batches),
                    "split, batches of 32": batched(batches),
                    "split, the extractor's batches": batched(in_extractor_batches(tables)),
                    "hard, batches of 32": batched(batches, "hard"),
                    "likely, batches of 32": batched(batches, "likely"),
                    "likely, its span search alone": spans_chosen(in_extractor_batches(tables)),
                },
                arguments.rounds,
            ),
            [
                (sentence, "split, batches of 32"),
                (sentence, "split, the extractor's batches"),
                ("hard, batches of 32", "split, batches of 32"),
                ("likely, batches of 32", "split, batches of 32"),
            ],
        )
    }
    try:
        import torch

        gpu = torch.cuda.is_available()
    except ImportError:
        gpu = False
    if gpu:
        on_gpu = {
            size: [(torch.from_numpy(P).cuda(), lengths) for P, lengths in in_batches(tables, size)]
            for size in (32, 256, TABLES)
        }
        fetching = "reference, tables fetched from the GPU"
        times = race(
            {
                sentence: lambda: one_by_one(batches),
                fetching: lambda: one_by_one([(P.cpu().numpy(), lengths) for P, lengths in on_gpu[32]]),
                **{f"split, batches of {size}": batched(some) for size, some in on_gpu.items()},
                **{
                    f"{decoder}, batches of {size}": batched(some, decoder)
                    for decoder in ("hard", "likely")
                    for size, some in on_gpu.items()
                },
            },
            arguments.rounds,
        )
        ratios = [(slow, f"split, batches of {size}") for size in on_gpu for slow in (sentence, fetching)]
        ratios += [
            (f"{decoder}, batches of {size}", f"split, batches of {size}")
            for decoder in ("hard", "likely")
            for size in on_gpu
        ]
        results["gpu"] = report(f"GPU, {torch.cuda.get_device_name()}, torch {torch.__version__}", times, ratios)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
