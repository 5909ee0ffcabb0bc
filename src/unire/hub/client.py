"""Download files from the Hugging Face Hub, or upload them; only files that are named explicitly."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from unire.errors import UnireError

__all__ = ["download", "is_reachable", "quiet_client", "upload"]

RETRY_DELAYS_SECONDS = (0.0, 1.0, 2.0)
"""Seconds before each attempt to reach the Hub."""
CONNECT_TIMEOUT_SECONDS = 5.0
"""Seconds to wait for a connection and for a response."""
CONNECTION_ERRORS = ("ConnectError", "ConnectionError", "ProxyError")
"""Errors of the HTTP libraries of the Hub's client without a connection; a later attempt may succeed."""
TIMEOUT_ERROR = "ConnectTimeout"
"""The error if nobody responds."""


def download(name: str, files: Collection[str]) -> Path:
    """Download files of a repository, unless they are in the cache, and return their folder.

    Args:
        name: `USER/MODEL`, or `USER/MODEL@REVISION` for a branch, a tag or a commit.
        files: Names of files. Those that the repository lacks are skipped.
    """
    import huggingface_hub

    repository, _, revision = name.partition("@")
    with _plain_errors(name), quiet_client():
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=list(files))
        )


def is_reachable(name: str, file: str) -> bool:
    """Whether the Hub responds to a request for a file. Tries once if the file is cached, else for a few seconds.

    The Hub's own client retries for half a minute, several times, even for optional files. If the Hub is unreachable,
    the caller can use the client in offline mode instead.

    Args:
        name: The name of a repository, as it is passed to the client.
        file: A file of the repository.
    """
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import get_session

    try:
        address = hf_hub_url(name, file)
        is_cached = try_to_load_from_cache(name, file) is not None
    except HFValidationError:  # the client reports it itself
        return True
    for wait in (0.0,) if is_cached else RETRY_DELAYS_SECONDS:
        time.sleep(wait)
        try:
            get_session().head(address, timeout=min(CONNECT_TIMEOUT_SECONDS, constants.HF_HUB_ETAG_TIMEOUT))
            return True
        except Exception as error:  # depends on the HTTP library
            kind = type(error).__name__
            if kind == TIMEOUT_ERROR:
                return False
            if kind not in CONNECTION_ERRORS:
                return True  # such as a slow response, for which the client waits longer
    return False


def upload(
    name: str, files: Mapping[str, Path | bytes], *, known: Collection[str], message: str, private: bool | None = None
) -> str:
    """Upload files to a repository in one commit, so that readers never see a partial upload.

    Args:
        name: `USER/MODEL`; created if necessary.
        files: Contents or paths of the files, by name.
        known: Names of files to delete if `files` lacks them. Other files of the repository stay.
        message: The commit message.
        private: Visibility of a new repository. [default: that of the account]

    Returns:
        The URL of the repository.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    with _plain_errors(name):
        api = HfApi()
        address = api.create_repo(name, private=private, exist_ok=True)
        stale = set(known).intersection(api.list_repo_files(name)) - files.keys()
        operations = [
            *(CommitOperationAdd(path, content) for path, content in files.items()),
            *(CommitOperationDelete(path) for path in sorted(stale)),
        ]
        api.create_commit(name, operations, commit_message=message)
    return str(address)


@contextmanager
def quiet_client() -> Iterator[None]:
    """Silence the warnings of the Hub's client about every retry. A failure is still raised."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _plain_errors(name: str) -> Iterator[None]:
    """Turn errors of the Hub, its client and the network into one sentence."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except GatedRepoError:
        raise UnireError(f"access to {name!r} on the Hub is restricted; request it there") from None
    except RepositoryNotFoundError:
        raise UnireError(
            f"the Hub has no {name!r}, or it is private; check the name, and log in if necessary (hf auth login)"
        ) from None
    except RevisionNotFoundError:
        raise UnireError(f"the Hub has no such revision of {name!r}") from None
    except HFValidationError:
        raise UnireError(f"{name!r} is not a name on the Hub; give USER/MODEL") from None
    except Exception as error:  # depends on the HTTP library of the client's version
        raise UnireError(f"the Hub cannot be used for {name!r}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return "you may not write there; log in with a token that has write access (hf auth login)"
    message = _first_line(error)
    if error.__cause__ is None or (cause := _first_line(error.__cause__)) in message:
        return message
    return f"{message} ({cause})"  # for a large file, the error itself has no reason


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
