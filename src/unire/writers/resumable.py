"""A file that grows document by document, and that a process which was stopped can go on with."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from unire.errors import UnireError
from unire.files import replace_atomically

__all__ = ["AnotherInputError", "ResumableFile", "part_of", "refuse_another", "so_many"]

SAVE_SECONDS = 1.0
"""How long a document may be in the file without being noted."""


class AnotherInputError(UnireError):
    """Of a file that cannot be gone on with."""


class ResumableFile:
    """Writes `NAME.part`, and renames it to `NAME` when everything is there.

    `NAME.part.json` says how many documents the part holds in how many bytes, what they were made from, and which was
    the last, by its id and a hash of its text: where the input has another there by then, it is not gone on with. What
    follows those bytes, half a line perhaps, is cut off when the file is opened again. So a process may be killed at
    any moment: the next one repeats the documents of the last second, and none is lost or there twice.

    Args:
        path: The finished file. What stands there is replaced at the end; a link is followed.
        about: What the documents are made from, as JSON: a part made from something else is not resumed. It is asked
            for when something is resumed or noted: to know it may take time.
        resume: Go on with a part, if there is one.
        head: What stands before the first document.
    """

    def __init__(self, path: Path, about: Callable[[], Mapping[str, Any]], *, resume: bool, head: bytes = b"") -> None:
        if path.is_dir():
            raise UnireError(f"{path} is a folder; give the name of a file")
        self.path = path = _followed(path)
        self.part = part_of(path)
        self._note = path.with_name(f"{path.name}.part.json")
        self._about = about
        self.documents = 0
        """How many the file holds."""
        self.last = ""
        """The id of the last one."""
        self._text: str | None = None
        self._hash: str | None = None
        """Of the last one's text, or its hash, which earlier versions did not note."""
        self._bytes = 0
        self._busy = threading.Lock()
        self._timer: threading.Timer | None = None
        """Notes, soon after the first of them, documents that came together: the next ones may take long."""
        self._failure: UnireError | None = None
        begun = self._read_note()
        if begun and not resume:
            raise UnireError(
                f"{self.part} holds {so_many(begun['documents'])} of an earlier run; go on with --resume, or delete "
                "it to begin anew"
            )
        self.complete = resume and path.exists() and not self.part.exists()
        """Whether there is nothing left to do."""
        if self.complete:
            self._note.unlink(missing_ok=True)
            return
        if begun:
            self._go_on(begun)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.part.open("r+b" if begun else "wb")
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)
            if not begun:
                self._bytes = self._file.write(head)
        except OSError as error:
            raise self._unwritable(error) from None

    def __enter__(self) -> ResumableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file; or after an error, Ctrl-C among them, note how far it is, if it is anywhere."""
        if self.complete:
            return
        if self._timer is not None:
            self._timer.cancel()
        try:
            with self._busy, self._file:
                if kind is None or self.documents:
                    self._save()
            if kind is not None and not self.documents:
                self.part.unlink()
                self._note.unlink(missing_ok=True)
            if kind is None:
                self.part.replace(self.path)
                self._note.unlink(missing_ok=True)
        except OSError as failure:
            raise self._unwritable(failure) from None

    def add(self, id: str, data: bytes, text: str = "") -> None:
        """Write a document, which was made from `text`."""
        with self._busy:
            if self._failure is not None:
                raise self._failure
            try:
                self._file.write(data)
            except OSError as error:
                raise self._unwritable(error) from None
            self.documents, self.last, self._text, self._bytes = self.documents + 1, id, text, self._bytes + len(data)
            if self._timer is None:
                self._timer = threading.Timer(SAVE_SECONDS, self._save_in_time)
                self._timer.daemon = True
                self._timer.start()

    def _save_in_time(self) -> None:
        """In a thread of its own; what goes wrong there is told by the next document."""
        with self._busy:
            self._timer = None
            if self._file.closed:
                return
            try:
                self._save()
            except UnireError as error:
                self._failure = error

    def refuse_another_last(self, id: str | None, text: str = "") -> None:
        """Refuse to go on if what the input has in the place of the last document, if anything, is another one."""
        if id != self.last:
            what = f" should be {self.last!r}"
        elif self._hash not in (None, _hash(text)):
            what = f", {self.last!r}, has another text"
        else:
            return
        raise AnotherInputError(
            f"the input is not what it was: document {self.documents:,} of it{what}; delete {self.part} to begin anew"
        )

    def _save(self) -> None:
        """Note how far the file is, once the disk has it."""
        try:
            self._file.flush()
            self._file.truncate(self._bytes)  # an interrupted write may have left half a document
            os.fsync(self._file.fileno())
            with replace_atomically(self._note) as temporary:
                if self._text is not None:  # a document was added: only of the last the hash is worth its time
                    self._hash, self._text = _hash(self._text), None
                note: dict[str, Any] = {"documents": self.documents, "bytes": self._bytes, "last": self.last}
                note.update(hash=self._hash, about=self._about())
                temporary.write_text(json.dumps(note) + "\n", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None

    def _read_note(self) -> dict[str, Any] | None:
        if not self.part.exists():
            return None
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None  # stopped before anything was noted: nothing to go on with
        except (OSError, ValueError) as error:
            raise UnireError(f"{self._note} cannot be read: {error}; delete it to begin anew") from None
        if not _is_note(note):
            raise UnireError(f"{self._note} does not say how far {self.part} is; delete it to begin anew")
        return note if note["documents"] else None

    def _go_on(self, note: Mapping[str, Any]) -> None:
        refuse_another(self.part, json.loads(json.dumps(self._about())), note["about"])
        if self.part.stat().st_size < note["bytes"]:
            raise UnireError(f"{self.part} is shorter than it was; delete it to begin anew")
        self.documents, self.last, self._bytes = note["documents"], note["last"], note["bytes"]
        self._hash = note.get("hash")

    def _unwritable(self, error: OSError) -> UnireError:
        return UnireError(f"{self.path} cannot be written: {error.strerror or error}")


def so_many(documents: int) -> str:
    """How many documents, in words."""
    return f"{documents:,} document{'' if documents == 1 else 's'}"


def part_of(path: Path) -> Path:
    """What a file is called until everything is there."""
    path = _followed(path)
    return path.parent / f"{path.name}.part"


def _followed(path: Path) -> Path:
    """Where a link leads; anything else is called what the user calls it."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _is_note(note: object) -> bool:
    kinds = {"documents": int, "bytes": int, "last": str, "about": dict}
    return isinstance(note, dict) and all(isinstance(note.get(key), kind) for key, kind in kinds.items())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_another(begun: Path, about: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
    """Refuse to go on with what was begun from something else than it is now about."""
    differing = [key for key in {**about, **noted} if about.get(key) != noted.get(key)]
    if differing:
        raise UnireError(
            f"{begun} was begun with another {' and another '.join(sorted(differing))}; give the same, or "
            "delete it to begin anew"
        )
