"""Extraction on a Ray cluster.

Ray Data hands the blocks out to a pool of actors, each with a model of its own, and asks for as many at a time as there
are actors to take them. What travels is the names of blocks: texts are read, and findings written, where they are
worked on, so that the memory it takes does not grow with the input, and the driver is no bottleneck.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from unire import pretrained
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir, fingerprint
from unire.integrations.ray.connection import address_of, connected, imported
from unire.integrations.ray.output import Finished, OutputFolder, path_of
from unire.integrations.ray.shards import Shard, Stamp, plan_shards, sizes, stamps, wholes
from unire.integrations.ray.worker import TRIES, RayJob, RayWorker
from unire.sources.sources import SourceShard, TextItem, TextSources

__all__ = ["extract"]

FEW = 32
"""Files, and documents of each, that are looked at before anything is begun."""
IDLE = "worker that was not started, since there were no more blocks to do"
WAITING = "worker for which the cluster had no core when the run began"


def extract(
    inputs: TextSources,
    out: Path,
    *,
    model: str = pretrained.DEFAULT,
    address: str | None = None,
    workers: int | None = None,
    gpus: int = 0,
    min_score: float = 0.0,
    constraints: str | None = None,
    resume: bool = False,
    on_block: Callable[[Shard, Finished, bool], None] = lambda block, finished, earlier: None,
) -> Finished:
    """Extract from files, block by block on all workers, into a folder of Parquet files.

    Args:
        inputs: Files and folders, which every node finds at the same place.
        out: The folder to write, likewise.
        model: As for `Extractor.load`; a folder must be there on every node.
        address: Of a running cluster, `auto` for one that has a node on this machine, `local` for one that is started
            for this run, with this machine's cores; what `RAY_ADDRESS` says, or else `local`, when left out. Where Ray
            is already connected, that cluster it is.
        workers: How many; one for each core of the cluster, those that join it later among them, when left out.
        gpus: Workers on a GPU each, instead of those on cores.
        min_score: Findings with a lower score are left out.
        constraints: As for `Extractor.load`.
        resume: Go on with a folder that was begun, if there is one; whatever is in it is not done again.
        on_block: Told of every block that is done, and whether that was in an earlier run.
    """
    ray = imported()
    address = "" if ray.is_initialized() else address_of(address)
    job = _job(inputs, out, model, gpus, min_score, constraints)
    files = stamps(inputs)
    folder = OutputFolder(out, _about(job, files), resume=resume)
    there, missing = folder.parted(plan_shards(inputs, files))
    total = Finished(notes=inputs.notes)
    left = []
    new = _done(ray, missing, job, address, workers, gpus, total.notes)
    for block, earlier in chain(zip(there, repeat(True)), zip(new, repeat(False))):
        if not path_of(out, block).exists():
            left.append(block)
            continue
        finished = Finished.of(path_of(out, block))
        total.add(finished)
        on_block(block, finished, earlier)
    if left:
        raise UnireError(
            f"{len(left):,} of {len(there) + len(missing):,} blocks are missing, for each has ended {TRIES} workers, "
            f"the first of them {left[0]}; --resume tries them again"
        )
    folder.finish()
    return total


def _job(inputs: TextSources, out: Path, model: str, gpus: int, min_score: float, constraints: str | None) -> RayJob:
    """What workers are told; what is wrong with it is said before any is started."""
    if set(inputs.sources) - inputs.files.keys() or not inputs.sources:
        raise UnireError("a cluster reads files and folders, no standard input and no text of the command line")
    inputs.check_output(out, folder=True)
    _refuse_unreadable(inputs)
    opened = ModelDir.open(model)
    given: Any = constraints
    if constraints not in (None, "none", "learnt"):
        given = {}
        for head, relation, tail in opened.labels.load_signatures(constraints):
            given.setdefault(relation, []).append([head, tail])
    # workers are told how to read and not what: a million names would go with it
    return RayJob(
        replace(inputs, sources=()),
        out=out,
        model=model,
        fingerprint=fingerprint(opened.path),
        here=Path.cwd(),
        run=secrets.token_hex(4),
        min_score=min_score,
        constraints=given,
        device="cuda" if gpus else "cpu",
    )


def _refuse_unreadable(inputs: TextSources) -> None:
    """What is wrong with all documents that are looked at is wrong with the command, such as the name of a field.

    A single one that cannot be read, be it the first, is none of the command's fault, and does not stop it.
    """
    errors = []
    for looked_at in (found for whole in islice(wholes(inputs), FEW) for found in _first_of(inputs, whole)):
        if not isinstance(looked_at, UnireError):
            return
        errors.append(looked_at)
    if errors:
        raise errors[0]


def _first_of(inputs: TextSources, whole: SourceShard) -> Iterator[TextItem | UnireError]:
    """The first documents of a file, or what is wrong with them."""
    try:
        for token in islice(inputs.split(whole, 1), FEW):
            try:
                yield from islice(inputs.read(token), 1)
            except UnireError as error:
                yield error
    except UnireError as error:
        yield error


def _about(job: RayJob, files: Mapping[str, Stamp]) -> dict[str, Any]:
    """What findings depend on: a run that is resumed must have the same."""
    return {
        "input": {**asdict(job.inputs), "sources": files},
        "size of blocks": sizes(),
        "model": job.fingerprint,
        "min-score": job.min_score,
        "constraints": job.constraints,
        "device": job.device,
        "version of unire": job.version,
    }


def _done(
    ray: Any,
    blocks: Sequence[Shard],
    job: RayJob,
    address: str,
    workers: int | None,
    gpus: int,
    notes: Counter[str],
) -> Iterator[Shard]:
    """Have blocks done; each comes when its worker is through with it, in any order."""
    if not blocks:
        return
    with connected(ray, address):
        try:
            for row in _answers(ray, blocks, job, workers, gpus, notes):
                if row["problem"]:
                    raise UnireError(row["problem"])
                yield Shard.from_json(row["block"])
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UnireError(f"the cluster failed: {reason}; what is done is kept, and --resume goes on") from None


def _answers(
    ray: Any, blocks: Sequence[Shard], job: RayJob, workers: int | None, gpus: int, notes: Counter[str]
) -> Iterator[dict[str, str]]:
    """What workers answer. One that ends is started anew, and its block tried again: that is Ray Data's way."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    kind = "GPU" if gpus else "CPU"
    there = int(ray.cluster_resources().get(kind, 0))
    if there < max(1, gpus):
        raise UnireError(f"the cluster has {there} {kind}s, and {max(1, gpus)} are asked for")
    asked = gpus or workers or 0
    wanted = min(asked, len(blocks))
    notes += Counter({IDLE: asked - wanted, WAITING: wanted - there})
    pool = {"size": wanted} if wanted else {"min_size": min(there, len(blocks))}
    # one in hand and one in waiting: where none waits, no node that joins gets a worker
    pool["max_tasks_in_flight_per_actor"] = 2
    waiting = ray.data.from_items([{"block": block.to_json()} for block in blocks], override_num_blocks=len(blocks))
    return waiting.map_batches(  # type: ignore[no-any-return]
        RayWorker,
        fn_constructor_args=[job],
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(**pool),
        num_cpus=None if gpus else job.threads,
        num_gpus=1 if gpus else None,
    ).iter_rows()
