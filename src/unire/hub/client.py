"""Files of a repository on the Hugging Face Hub: brought here, or published. Only files that are asked for by name."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from unire.errors import UnireError

__all__ = ["download", "is_reachable", "quiet_client", "upload"]

WAITS = (0.0, 1.0, 2.0)
"""Seconds before each time that the Hub is asked whether it is there."""
PATIENCE = 5.0
"""Seconds in which a connection must stand, and somebody answer over it."""
REFUSED = ("ConnectError", "ConnectionError", "ProxyError")
"""What the HTTP libraries of the Hub's clients call an error where there is no connection: now, which may be soon."""
SILENT = "ConnectTimeout"
"""… and where nobody says anything."""


def download(name: str, files: Collection[str]) -> Path:
    """A folder with those of `files` that a repository has; what was brought before is not brought again.

    Args:
        name: `USER/MODEL`, or `USER/MODEL@REVISION` for a branch, a tag or a commit.
        files: Names; nothing else is brought.
    """
    import huggingface_hub

    repository, _, revision = name.partition("@")
    with _plain_errors(name), quiet_client():
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=list(files))
        )


def is_reachable(name: str, file: str) -> bool:
    """Whether somebody answers at the Hub; asked for a file, and of one that is not here a few seconds long.

    Its client goes on asking for half a minute, several times over, even for what it can do without. One that is told
    to look for what is here, and nowhere else, does not.

    Args:
        name: Of a repository, as it is passed to the client.
        file: Of the repository.
    """
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import get_session

    try:
        address = hf_hub_url(name, file)
        is_here = try_to_load_from_cache(name, file) is not None
    except HFValidationError:  # which the client finds wrong by itself
        return True
    for wait in (0.0,) if is_here else WAITS:
        time.sleep(wait)
        try:
            get_session().head(address, timeout=min(PATIENCE, constants.HF_HUB_ETAG_TIMEOUT))
            return True
        except Exception as error:  # of one HTTP library or another
            kind = type(error).__name__
            if kind == SILENT:
                return False
            if kind not in REFUSED:
                return True  # slow, say, with which the client is more patient
    return False


def upload(
    name: str, files: Mapping[str, Path | bytes], *, known: Collection[str], message: str, private: bool | None = None
) -> str:
    """Make files the content of a repository, in one commit, so that nobody ever finds half of them.

    Args:
        name: `USER/MODEL`; made if it is not there.
        files: What is written, by name.
        known: Names of files that are deleted where `files` has none of that name; other files stay as they are.
        message: Of the commit.
        private: Whether a new repository is; as the account has it when left out.

    Returns:
        The address of the repository.
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
    """Without the Hub client's warnings, which it gives for each time that it tries again: what fails is told once."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _plain_errors(name: str) -> Iterator[None]:
    """One sentence for whatever the Hub, its client or the network object to."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except GatedRepoError:
        raise UnireError(f"the Hub gives {name!r} only to those who were granted access; ask for it there") from None
    except RepositoryNotFoundError:
        raise UnireError(
            f"the Hub has no {name!r} that you may read; check the name, and log in (hf auth login) if it is private"
        ) from None
    except RevisionNotFoundError:
        raise UnireError(f"the Hub has no {name!r}: there is no such revision") from None
    except HFValidationError:
        raise UnireError(f"{name!r} is no name that the Hub can have; it is USER/MODEL") from None
    except Exception as error:  # clients of several generations, each with errors of its own HTTP library
        raise UnireError(f"the Hub cannot be used for {name!r}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return "it does not let you write there; log in with a token that may write (hf auth login)"
    said = _first_line(error)
    if error.__cause__ is None or (cause := _first_line(error.__cause__)) in said:
        return said
    return f"{said} ({cause})"  # of a large file, say: that the error itself only names


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
