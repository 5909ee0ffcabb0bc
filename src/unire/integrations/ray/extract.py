"""Extraction on a Ray cluster.

Ray Data distributes shards of the input to a pool of actors, each with its own model. Only the descriptions of
shards travel: workers read the texts and write the results themselves. So the memory of the driver does not grow with
the input, and the driver is no bottleneck.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from unire import pretrained
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir, fingerprint
from unire.integrations.ray.shards import (
    ExtractionResult,
    FileStamp,
    Shard,
    iter_files,
    plan_shards,
    shard_path,
    shard_sizes,
    stamp_files,
)
from unire.integrations.ray.worker import MAX_ATTEMPTS, RayJob, RayWorker
from unire.output_files import lock_output
from unire.result_filter import MinScore, ResultFilter
from unire.sources import SourceShard, TextItem, TextSources
from unire.writers.resumable import MANIFEST, ResumableFolder

__all__ = ["ADDRESS", "LOCAL", "extract", "resolve_address"]

AUTO = "auto"
"""Address of the cluster that this machine is a node of."""
LOCAL = "local"
"""Address of a cluster on this machine alone, which ends with the run."""
ADDRESS_VARIABLE = "RAY_ADDRESS"
"""Environment variable with the default address."""
ADDRESS = re.compile(r"auto|local|(?P<protocol>[a-z]+://)?[\w.-]+:\d+/?")
"""What looks like an address. Those with a protocol are refused later."""
OBJECT_STORE_BYTES = 2**28
"""Shared memory of a local cluster, which is hardly used."""
CONNECT_TIMEOUT_SECONDS = 10.0
AUTHENTICATION_HINT = "; if it asks for a token, set RAY_AUTH_MODE=token"
"""Ray does not say this when a cluster that needs a token does not answer."""
MAX_REASON_CHARACTERS = 300
"""An error of Ray is shortened to this."""
MAX_CHECKED_ITEMS = 32
"""Files, and documents of each, that are read before the run starts."""
UNUSED_WORKER = "worker that was not started, since there were no more blocks to do"
WAITING_WORKER = "worker waiting for a free core when the run began"


def extract(
    inputs: TextSources,
    out: Path,
    *,
    model: str = pretrained.DEFAULT,
    address: str | None = None,
    workers: int | None = None,
    gpus: int = 0,
    min_score: MinScore = 0.0,
    types: str | None = None,
    entities: str | None = None,
    relations: str | None = None,
    constraints: str | None = None,
    resume: bool = False,
    on_shard: Callable[[Shard, ExtractionResult, bool], None] = lambda shard, result, earlier: None,
) -> ExtractionResult:
    """Extract from files on all workers into a folder of Parquet files, one for every shard.

    Args:
        inputs: Files and folders, at the same path on every node.
        out: Output folder, at the same path on every node.
        model: As for `Extractor.load`; a folder must exist on every node.
        address: HOST:PORT of a running cluster, `auto` for one that has a node on this machine, or `local` for one that
            is started for this run. An existing connection of Ray is kept. [default: `RAY_ADDRESS`, else `local`]
        workers: Number of workers. [default: one per core of the cluster, including nodes that join later]
        gpus: Number of workers with one GPU each, instead of workers on CPU cores.
        min_score: Entities and relations with a lower score are dropped. `auto`: the scores that the model recommends.
        types: Only entities and relations of these types, separated by commas, are kept. [default: all]
        entities: Only entities of these types, and relations between them, are kept. [default: all]
        relations: Only relations of these types are kept; without `entities`, only their arguments. [default: all]
        constraints: As for `Extractor.load`.
        resume: Continue an interrupted run; finished shards are kept.
        on_shard: Called for every finished shard, with its result and whether an earlier run did it.
    """
    ray = import_ray()
    address = "" if ray.is_initialized() else resolve_address(address)
    opened = ModelDir.open(model)
    names = {"entities": entities, "relations": relations}
    keep = ResultFilter.build(opened.labels, min_score, types, **names, calibration=opened.config.calibration)
    job = _build_job(inputs, out, model, gpus, keep, constraints)
    files = stamp_files(inputs)
    with lock_output(out, inside=MANIFEST):
        folder = ResumableFolder(out, _fingerprint(job, files), resume=resume)
        shards, complete = plan_shards(inputs, files), folder.finished()
        finished = [shard for shard in shards if shard_path(out, shard).name in complete]
        missing = [shard for shard in shards if shard_path(out, shard).name not in complete]
        total = ExtractionResult(notes=inputs.notes)
        failed = []
        new = _run_shards(ray, missing, job, address, workers, gpus, total.notes)
        for shard, earlier in chain(zip(finished, repeat(True)), zip(new, repeat(False))):
            if not shard_path(out, shard).exists():
                failed.append(shard)
                continue
            result = ExtractionResult.load(shard_path(out, shard))
            total.add(result)
            on_shard(shard, result, earlier)
        if failed:
            raise UnireError(
                f"{len(failed):,} of {len(finished) + len(missing):,} blocks are missing, because each "
                f"crashed {MAX_ATTEMPTS} workers; the first is {failed[0]}; retry with resume=True"
            )
        folder.complete()
        return total


def _build_job(
    inputs: TextSources,
    out: Path,
    model: str,
    gpus: int,
    keep: ResultFilter,
    constraints: str | None,
) -> RayJob:
    """Build the description for workers, and check all arguments before any worker starts."""
    if set(inputs.sources) - inputs.files.keys() or not inputs.sources:
        raise UnireError("a cluster reads files and folders; it cannot read standard input or a text as an argument")
    if inputs.listing.errors:
        raise inputs.listing.errors[0]
    inputs.check_output(out, folder=True)
    _refuse_unreadable(inputs)
    opened = ModelDir.open(model)
    signatures: Any = constraints
    if constraints not in (None, "none", "learnt"):
        signatures = {}
        for head, relation, tail in opened.labels.load_signatures(constraints):
            signatures.setdefault(relation, []).append([head, tail])
    # without the file names, of which there may be a million
    return RayJob(
        replace(inputs, sources=()),
        out=out,
        model=model,
        fingerprint=fingerprint(opened.path),
        working_dir=Path.cwd(),
        run=secrets.token_hex(4),
        filter=keep,
        constraints=signatures,
        device="cuda" if gpus else "cpu",
    )


def _refuse_unreadable(inputs: TextSources) -> None:
    """Refuse the run if none of the first documents is readable: then an argument is wrong, such as the field.

    A single unreadable document does not stop the run.
    """
    errors = []
    for file in islice(iter_files(inputs), MAX_CHECKED_ITEMS):
        for item in _iter_first(inputs, file):
            if not isinstance(item, UnireError):
                return
            errors.append(item)
    if errors:
        raise errors[0]


def _iter_first(inputs: TextSources, file: SourceShard) -> Iterator[TextItem | UnireError]:
    """Yield the first documents of a file, or their errors."""
    try:
        for part in islice(inputs.split(file, 1), MAX_CHECKED_ITEMS):
            try:
                yield from islice(inputs.read(part), 1)
            except UnireError as error:
                yield error
    except UnireError as error:
        yield error


def _fingerprint(job: RayJob, files: Mapping[str, FileStamp]) -> dict[str, Any]:
    """Return all that the results depend on. A run can be resumed only if it is the same."""
    return {
        "input": {**job.inputs.to_dict(), "sources": files},
        "size of blocks": shard_sizes(),
        "model": job.fingerprint,
        "min-score": job.filter.min_score,
        "type filter": job.filter.types,
        "constraints": job.constraints,
        "device": job.device,
        "version of unire": job.version,
    }


def _run_shards(
    ray: Any,
    shards: Sequence[Shard],
    job: RayJob,
    address: str,
    workers: int | None,
    gpus: int,
    notes: Counter[str],
) -> Iterator[Shard]:
    """Run shards on the cluster; yield each when it is finished, in any order."""
    if not shards:
        return
    with connect(ray, address):
        try:
            for row in _start_workers(ray, shards, job, workers, gpus, notes):
                if row["problem"]:
                    raise UnireError(row["problem"])
                yield Shard.from_json(row["block"])
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UnireError(f"the cluster failed: {reason}; continue with resume=True") from None


def _start_workers(
    ray: Any, shards: Sequence[Shard], job: RayJob, workers: int | None, gpus: int, notes: Counter[str]
) -> Iterator[dict[str, str]]:
    """Start workers; yield their answers. Ray Data restarts workers that die, and retries their shards."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    kind = "GPU" if gpus else "CPU"
    available = int(ray.cluster_resources().get(kind, 0))
    if available < max(1, gpus):
        remedy = "pass a smaller gpus=..., or add nodes" if gpus else "add nodes"
        raise UnireError(f"the cluster has {available} {kind}s, but this run needs {max(1, gpus)}; {remedy}")
    requested = gpus or workers or 0
    n_workers = min(requested, len(shards))
    notes += Counter({UNUSED_WORKER: requested - n_workers, WAITING_WORKER: n_workers - available})
    pool = {"size": n_workers} if n_workers else {"min_size": min(available, len(shards))}
    # one in work and one in the queue: without a queue, Ray starts no workers on nodes that join
    pool["max_tasks_in_flight_per_actor"] = 2
    dataset = ray.data.from_items([{"block": shard.to_json()} for shard in shards], override_num_blocks=len(shards))
    return dataset.map_batches(  # type: ignore[no-any-return]
        RayWorker,
        fn_constructor_args=[job],
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(**pool),
        num_cpus=None if gpus else job.threads,
        num_gpus=1 if gpus else None,
    ).iter_rows()


def import_ray() -> Any:
    """Import Ray, or say how to install it."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # messages about every actor are not for users
    try:
        import ray
        import ray.data
    except ImportError:
        raise UnireError('a cluster needs Ray: pip install "unire[ray]"') from None
    return ray


def resolve_address(address: str | None) -> str:
    """Return the address, or else that of the environment, or else `local`."""
    is_argument, address = bool(address), address or os.environ.get(ADDRESS_VARIABLE) or LOCAL
    match = ADDRESS.fullmatch(address)
    if match and not match["protocol"]:
        return address
    subject = f"{address!r} is" if is_argument else f"{ADDRESS_VARIABLE} is {address!r},"
    if address.startswith("ray://"):
        raise UnireError(
            f"{subject} for Ray's client, which is not supported; on a node of the cluster give HOST:PORT of its head "
            "(usually port 6379) or auto, and from elsewhere use `ray job submit`"
        )
    raise UnireError(
        f"{subject} not an address of a Ray cluster; give HOST:PORT of its head (usually port 6379), auto or local"
    )


@contextmanager
def connect(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster, or start a local one that ends with the run. Keep an existing connection."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
        os.environ.setdefault("RAY_worker_niceness", "0")  # by default, other processes go before Ray's workers
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    else:
        _check_reachable(ray, address)
    try:
        try:
            with _silence_stderr():
                ray.init(**options)
        except Exception as error:  # Ray has many error types for clusters
            raise _unreachable(address, error, AUTHENTICATION_HINT) from None
        with _handle_sigterm():
            yield
    finally:
        ray.shutdown()


def _check_reachable(ray: Any, address: str) -> None:
    """Refuse an address without a cluster. Ray itself would try for minutes."""
    try:
        # Ray keeps the address of `auto` in a file, which a killed cluster leaves behind
        head = ray._private.services.canonicalize_bootstrap_address(AUTO) if address == AUTO else address
        host, _, port = head.rstrip("/").rpartition(":")
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception, hint: str = "") -> UnireError:
    """Build the error for a cluster that does not answer."""
    reason = textwrap.shorten(str(error), MAX_REASON_CHARACTERS, placeholder=" …") or type(error).__name__
    if address == LOCAL:
        return UnireError(f"Ray cannot be started on this machine: {reason}")
    return UnireError(f"there is no Ray cluster at {address!r}: {reason}{hint}")


@contextmanager
def _handle_sigterm() -> Iterator[None]:
    """Stop the run on SIGTERM as on Ctrl-C. Ray's own handler crashes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Drop the messages of Ray's processes while they start, which bypass Python's logging."""
    stderr = os.dup(2)
    with open(os.devnull, "wb") as devnull:  # noqa: PTH123
        os.dup2(devnull.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
