"""The folder that extraction on a cluster writes: a Parquet file for every block, and what they were made from.

A block is written under a temporary name and then renamed, by whoever did it: it is there and whole, or missing. So it
does no harm if it is done twice, and what is left to do is seen by looking.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unire.errors import UnireError
from unire.files import check_output_folder, replace_atomically
from unire.integrations.ray.shards import Shard
from unire.writers.resumable import refuse_another

__all__ = ["MANIFEST", "Finished", "OutputFolder", "path_of"]

MANIFEST = "_manifest.json"
"""Whoever reads a folder of Parquet passes over names that begin with an underscore."""
KEY = b"unire"
"""Under this, a block's file says of itself what is summed up at the end."""
SHOWN = 3
"""Of so many documents that could not be done, the reason is kept beside the count."""


@dataclass
class Finished:
    """What has been done, of a block or of all."""

    documents: int = 0
    failed: int = 0
    """Documents that could not be read, or that the model failed on; their rows have an `error`."""
    errors: list[str] = field(default_factory=list)
    """Why, of the first few."""
    notes: Counter[str] = field(default_factory=Counter)
    """What needed special care, counted."""

    def add(self, other: Finished) -> None:
        self.documents += other.documents
        self.failed += other.failed
        self.errors = [*self.errors, *other.errors][:SHOWN]
        self.notes += other.notes

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.errors = [*self.errors, reason][:SHOWN]

    def to_metadata(self) -> dict[bytes, bytes]:
        return {KEY: json.dumps(vars(self)).encode()}

    @classmethod
    def of(cls, path: Path) -> Finished:
        """What the file of a block says of itself."""
        from pyarrow import ArrowException, parquet

        try:
            said = json.loads(parquet.read_metadata(path).metadata[KEY])
            return cls(said["documents"], said["failed"], said["errors"], Counter(said["notes"]))
        except (ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise UnireError(f"{path} is not the file of a block ({error}); delete it, and --resume") from None


def path_of(folder: Path, block: Shard) -> Path:
    return folder / f"{block.id}.parquet"


class OutputFolder:
    """A folder that grows block by block, and that another run can go on with.

    Args:
        path: A new folder, or one that was begun.
        about: What the blocks are made from, as JSON: a folder made from something else is not resumed.
        resume: Go on with a folder that was begun, if there is one.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._about = json.loads(json.dumps(about))
        begun = self._read()
        if begun is None or not any(path.glob("*.parquet")):
            self._begin(anew=begun is None)
        elif resume:
            refuse_another(path, self._about, begun["about"])
        else:
            raise UnireError(f"{path} holds an earlier run; go on with --resume, or delete it to begin anew")

    def parted(self, blocks: Iterable[Shard]) -> tuple[list[Shard], list[Shard]]:
        """Those that are there, and those that are missing."""
        names = {entry.name for entry in self.path.iterdir()}
        there: list[Shard] = []
        missing: list[Shard] = []
        for block in blocks:
            (there if path_of(self.path, block).name in names else missing).append(block)
        return there, missing

    def finish(self) -> None:
        """Note that every block is there, and clear away what killed workers left."""
        for rubbish in (*self.path.glob(".*.partial"), *self.path.glob(".*.tries")):
            rubbish.unlink(missing_ok=True)
        self._write(complete=True)

    def _begin(self, *, anew: bool) -> None:
        try:
            if anew:
                check_output_folder(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(complete=False)

    def _read(self) -> dict[str, Any] | None:
        try:
            noted: dict[str, Any] = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise UnireError(f"{self.path / MANIFEST} cannot be read: {error}; give a new folder") from None
        return noted

    def _write(self, *, complete: bool) -> None:
        try:
            with replace_atomically(self.path / MANIFEST) as temporary:
                noted = {"complete": complete, "about": self._about}
                temporary.write_text(json.dumps(noted) + "\n", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> UnireError:
        return UnireError(f"{self.path} cannot be written: {error.strerror or error}")
