"""Extraction on a Ray cluster.

Ray Data hands the blocks out to a pool of actors, each with a model of its own, and asks for as many at a time as there
are actors to take them. What travels is the names of blocks: texts are read, and findings written, where they are
worked on, so that the memory it takes does not grow with the input, and the driver is no bottleneck.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from unire import pretrained
from unire.cluster.blocks import Block, Stamp, plan, sizes, stamps
from unire.cluster.folder import Finished, OutputFolder, path_of
from unire.cluster.worker import TRIES, Job, Worker
from unire.exceptions import UnireError
from unire.folders import ModelFolder, fingerprint
from unire.inputs import Inputs

__all__ = ["LOCAL", "extract"]

LOCAL = "local"
"""The address of a cluster that is this machine alone, and ends with the run."""
OBJECT_STORE = 2**28
"""Bytes of shared memory for such a cluster, through which next to nothing goes."""
PATIENCE = 10.0
"""Seconds that the head of a cluster has to answer."""


def extract(
    inputs: Inputs,
    out: Path,
    *,
    model: str = pretrained.DEFAULT,
    address: str | None = None,
    workers: int | None = None,
    gpus: int = 0,
    min_score: float = 0.0,
    constraints: str | None = None,
    resume: bool = False,
    on_block: Callable[[Block, Finished, bool], None] = lambda block, finished, earlier: None,
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
    ray = _ray()
    job = _job(inputs, out, model, gpus, min_score, constraints)
    files = stamps(inputs)
    folder = OutputFolder(out, _about(job, files), resume=resume)
    there, missing = folder.parted(plan(inputs, files))
    total = Finished()
    left = []
    new = _done(ray, missing, job, address, workers, gpus)
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


def _ray() -> Any:
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what Ray is told of every actor is not for users
    try:
        import ray
        import ray.data
    except ImportError:
        raise UnireError('a cluster needs Ray: pip install "unire[ray]"') from None
    return ray


def _job(inputs: Inputs, out: Path, model: str, gpus: int, min_score: float, constraints: str | None) -> Job:
    """What workers are told; what is wrong with it is said before any is started."""
    if set(inputs.sources) - inputs.files.keys() or not inputs.sources:
        raise UnireError("a cluster reads files and folders, no standard input and no text of the command line")
    next(iter(inputs), None)  # a wrong field is wrong at the first document already
    opened = ModelFolder.open(model)
    given: Any = constraints
    if constraints not in (None, "none", "learnt"):
        given = {}
        for head, relation, tail in opened.labels.given_signatures(constraints):
            given.setdefault(relation, []).append([head, tail])
    # workers are told how to read and not what: a million names would go with it
    return Job(
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


def _about(job: Job, files: Mapping[str, Stamp]) -> dict[str, Any]:
    """What findings depend on: a run that is resumed must have the same."""
    return {
        "input": {**asdict(job.inputs), "sources": files},
        "size of blocks": sizes(),
        "model": job.fingerprint,
        "min-score": job.min_score,
        "constraints": job.constraints,
        "version of unire": job.version,
    }


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """A cluster: the one that is there, or one that ends with the run."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS", LOCAL)
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a command that reports home is not ours
        os.environ.setdefault("RAY_worker_niceness", "0")  # or all else on the machine would go before our workers
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
    else:
        _knock(address)
    try:
        with _silent():
            ray.init(**options)
        yield
    except ConnectionError as error:
        raise _unreachable(address, error) from None
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray would try an address for minutes at which nobody is."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> UnireError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return UnireError(f"there is no Ray cluster at {address!r}: {reason}")


@contextmanager
def _silent() -> Iterator[None]:
    """Without what Ray's own processes say while they start, past Python and any level of logging."""
    stderr = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _done(
    ray: Any, blocks: Sequence[Block], job: Job, address: str | None, workers: int | None, gpus: int
) -> Iterator[Block]:
    """Have blocks done; each comes when its worker is through with it, in any order."""
    if not blocks:
        return
    with _connected(ray, address):
        try:
            for row in _answers(ray, blocks, job, workers, gpus):
                if row["problem"]:
                    raise UnireError(row["problem"])
                yield Block.from_json(row["block"])
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UnireError(f"the cluster failed: {reason}; what is done is kept, and --resume goes on") from None


def _answers(ray: Any, blocks: Sequence[Block], job: Job, workers: int | None, gpus: int) -> Iterator[dict[str, str]]:
    """What workers answer. One that ends is started anew, and its block tried again: that is Ray Data's way."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    kind = "GPU" if gpus else "CPU"
    there = int(ray.cluster_resources().get(kind, 0))
    if there < max(1, gpus):
        raise UnireError(f"the cluster has {there} {kind}s, and {max(1, gpus)} are asked for")
    wanted = gpus or workers
    pool = {"size": wanted} if wanted else {"min_size": min(there, len(blocks))}
    pool["max_tasks_in_flight_per_actor"] = (
        2  # one in hand and one in waiting: where none waits, no node that joins gets a worker
    )
    waiting = ray.data.from_items([{"block": block.to_json()} for block in blocks], override_num_blocks=len(blocks))
    return waiting.map_batches(  # type: ignore[no-any-return]
        Worker,
        fn_constructor_args=[job],
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(**pool),
        num_cpus=None if gpus else job.threads,
        num_gpus=1 if gpus else None,
    ).iter_rows()
