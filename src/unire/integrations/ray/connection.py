"""The way to a Ray cluster: what an address is, and what is said where there is nobody."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unire.errors import UnireError

__all__ = ["ADDRESS", "LOCAL", "address_of", "connected", "imported"]

AUTO = "auto"
"""The address of the cluster that this machine is in."""
LOCAL = "local"
"""The address of a cluster that is this machine alone, and ends with the run."""
VARIABLE = "RAY_ADDRESS"
"""What says, in the environment, which cluster is meant where nothing else does."""
ADDRESS = re.compile(r"auto|local|(?P<protocol>[a-z]+://)?[\w.-]+:\d+/?")
"""What is meant for an address; but with a protocol it is not one."""
OBJECT_STORE = 2**28
"""Bytes of shared memory for a cluster of this machine alone, through which next to nothing goes."""
PATIENCE = 10.0
"""Seconds that the head of a cluster has to answer."""
HINT = "; if it asks for a token, set RAY_AUTH_MODE=token"
"""What Ray does not say of a cluster that does not answer whoever has none."""
SHOWN = 300
"""Characters of what Ray says is wrong."""


def imported() -> Any:
    """Ray, if it is installed."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what Ray is told of every actor is not for users
    try:
        import ray
        import ray.data
    except ImportError:
        raise UnireError('a cluster needs Ray: pip install "unire[ray]"') from None
    return ray


def address_of(given: str | None) -> str:
    """The address that is meant: the one that is given, or that of the environment, or this machine."""
    address = given or os.environ.get(VARIABLE) or LOCAL
    meant = ADDRESS.fullmatch(address)
    if meant and not meant["protocol"]:
        return address
    told = f"{address!r} is" if given else f"{VARIABLE} is {address!r},"
    if address.startswith("ray://"):
        raise UnireError(
            f"{told} for Ray's client, which is not used; on a node of the cluster give HOST:PORT of its head, 6379 as "
            "a rule, or auto, and from elsewhere use `ray job submit`"
        )
    raise UnireError(f"{told} no address of a Ray cluster; give HOST:PORT of its head, 6379 as a rule, auto or local")


@contextmanager
def connected(ray: Any, address: str) -> Iterator[None]:
    """A cluster: the one that is there, or one that ends with the run."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a command that reports home is not ours
        os.environ.setdefault("RAY_worker_niceness", "0")  # or all else on the machine would go before our workers
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
    else:
        _knock(ray, address)
    try:
        try:
            with _silent():
                ray.init(**options)
        except Exception as error:  # Ray has many kinds for a cluster that is not as it should be
            raise _unreachable(address, error, HINT) from None
        with _stoppable():
            yield
    finally:
        ray.shutdown()


def _knock(ray: Any, address: str) -> None:
    """Ray would try an address for minutes at which nobody is, as `auto` is when a cluster was killed."""
    try:
        # what `auto` stands for is in a note of Ray's, which a cluster that is killed leaves behind
        head = ray._private.services.canonicalize_bootstrap_address(AUTO) if address == AUTO else address
        host, _, port = head.rstrip("/").rpartition(":")
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception, hint: str = "") -> UnireError:
    reason = textwrap.shorten(str(error), SHOWN, placeholder=" …") or type(error).__name__
    if address == LOCAL:
        return UnireError(f"Ray cannot be started on this machine: {reason}")
    return UnireError(f"there is no Ray cluster at {address!r}: {reason}{hint}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Have SIGTERM stop a run as Ctrl-C does: Ray's own answer to what a queue or a container sends is a crash."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
