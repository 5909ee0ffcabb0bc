"""Outputs that an interrupted run can continue: a file, document by document, or a folder, file by file.

Both are resumed by a `_RunNote`: it records the fingerprint of the run, and a run with another one is refused. They
differ in what else they record. A file is truncated to the documents that were noted. In a folder, each file is
complete or missing, and so is the note.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from unire.errors import UnireError
from unire.files import replace_atomically
from unire.output_files import check_output_folder, lock_path

__all__ = ["MANIFEST", "InputChangedError", "ResumableFile", "ResumableFolder", "count_documents", "part_path"]

MANIFEST = "_manifest.json"
"""The note in a resumable folder. Readers of Parquet folders ignore names that begin with an underscore."""

SAVE_SECONDS = 1.0
"""Seconds after which a written document is recorded in the progress file."""


class InputChangedError(UnireError):
    """The input has changed, so that the file cannot be continued."""


@dataclass(frozen=True)
class _RunNote:
    """The note of a run that writes an output: its fingerprint, `about`, and its progress, as a JSON file."""

    path: Path
    output: Path
    """The unfinished output."""
    kinds: Mapping[str, type]
    """The entries of the note, and their types."""
    remedy: str
    """What the error about an unreadable note tells the user to do."""

    def read(self) -> dict[str, Any] | None:
        """The note; `None` if there is none."""
        try:
            note = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise UnireError(f"{self.path} cannot be read: {error}; {self.remedy}") from None
        if not isinstance(note, dict) or not all(isinstance(note.get(key), kind) for key, kind in self.kinds.items()):
            raise UnireError(f"{self.path} does not record the progress of {self.output}; {self.remedy}")
        return note

    def write(self, about: Mapping[str, Any], **progress: Any) -> None:
        """Replace the note, so that it is the old or the new one at every moment."""
        with replace_atomically(self.path) as temporary:
            temporary.write_text(json.dumps({**progress, "about": about}) + "\n", encoding="utf-8")

    def check(self, about: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
        """Refuse to continue a run with another fingerprint than the one that is noted."""
        about = json.loads(json.dumps(about))  # as it would be noted
        differing = [key for key in {**about, **noted} if about.get(key) != noted.get(key)]
        if differing:
            raise UnireError(
                f"{self.output} was started with another {' and another '.join(sorted(differing))}; resume with the "
                "same, or delete it to start again"
            )


class ResumableFile:
    """Writes `NAME.part`, and renames it to `NAME` when it is complete.

    `NAME.part.json` records the progress: documents and bytes written, a fingerprint of the run, and the id and text
    hash of the last document. A resumed run checks these, and truncates the part to the recorded bytes. So a process
    may be killed at any moment: the next run repeats the documents of the last second; none is lost or duplicated.

    Args:
        path: The finished file. An existing file is replaced at the end; a link is followed.
        about: Returns the fingerprint of the run, as JSON. A part with another fingerprint is not resumed. Called only
            when needed, because computing it may take time.
        resume: Continue an existing part.
        head: Bytes before the first document.
    """

    def __init__(self, path: Path, about: Callable[[], Mapping[str, Any]], *, resume: bool, head: bytes = b"") -> None:
        if path.is_dir():
            raise UnireError(f"{path} is a folder; give the name of a file")
        self.path = path = _resolve_link(path)
        self.part = part_path(path)
        self._note = _RunNote(
            path.with_name(f"{path.name}.part.json"),
            self.part,
            {"documents": int, "bytes": int, "last": str, "about": dict},
            "delete it to start again",
        )
        self._about = about
        self.documents = 0
        """Documents in the file."""
        self.last = ""
        """The id of the last document."""
        self._text: str | None = None
        self._hash: str | None = None
        """The text of the last document, or its hash, which parts of earlier versions lack."""
        self._bytes = 0
        self._busy = threading.Lock()
        self._timer: threading.Timer | None = None
        """Records progress a second after a document was written, because the next document may take long."""
        self._failure: UnireError | None = None
        begun = self._note.read() if self.part.exists() else None
        if begun and not begun["documents"]:
            begun = None
        if begun and not resume:
            raise UnireError(
                f"{self.part} holds {count_documents(begun['documents'])} of an earlier run; "
                "continue it with resume=True, or delete it to start again"
            )
        self.complete = resume and path.exists() and not self.part.exists()
        """Whether the finished file exists already."""
        if self.complete:
            self._note.path.unlink(missing_ok=True)
            return
        if begun:
            self._continue(begun)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.part.open("r+b" if begun else "wb")
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)
            if not begun:
                self._bytes = self._file.write(head)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def __enter__(self) -> ResumableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file. After an error or Ctrl-C, record the progress instead, or delete an empty part."""
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
                self._note.path.unlink(missing_ok=True)
            if kind is None:
                self.part.replace(self.path)
                self._note.path.unlink(missing_ok=True)
        except OSError as failure:
            raise _unwritable(self.path, failure) from None

    def add(self, id: str, data: bytes, text: str = "") -> None:
        """Write the output of a document with this id and text."""
        with self._busy:
            if self._failure is not None:
                raise self._failure
            try:
                self._file.write(data)
            except OSError as error:
                raise _unwritable(self.path, error) from None
            self.documents, self.last, self._text, self._bytes = self.documents + 1, id, text, self._bytes + len(data)
            if self._timer is None:
                self._timer = threading.Timer(SAVE_SECONDS, self._save_in_time)
                self._timer.daemon = True
                self._timer.start()

    def _save_in_time(self) -> None:
        """Save from the timer's thread. The next `add` raises an error that occurs here."""
        with self._busy:
            self._timer = None
            if self._file.closed:
                return
            try:
                self._save()
            except UnireError as error:
                self._failure = error

    def check_last(self, id: str | None, text: str = "") -> None:
        """Check that the input still has the last written document at its position."""
        if id != self.last:
            what = f" should be {self.last!r}"
        elif self._hash not in (None, _hash(text)):
            what = f", {self.last!r}, has another text"
        else:
            return
        raise InputChangedError(
            f"the input has changed: document {self.documents:,} of it{what}; delete {self.part} to start again"
        )

    def _save(self) -> None:
        """Record the progress, after the data are on disk."""
        try:
            self._file.flush()
            self._file.truncate(self._bytes)  # an interrupted write may have left a partial document
            os.fsync(self._file.fileno())
            if self._text is not None:  # hash only the last document
                self._hash, self._text = _hash(self._text), None
            progress = {"documents": self.documents, "bytes": self._bytes, "last": self.last, "hash": self._hash}
            self._note.write(self._about(), **progress)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def _continue(self, note: Mapping[str, Any]) -> None:
        self._note.check(self._about(), note["about"])
        if self.part.stat().st_size < note["bytes"]:
            raise UnireError(f"{self.part} is shorter than recorded; delete it to start again")
        self.documents, self.last, self._bytes = note["documents"], note["last"], note["bytes"]
        self._hash = note.get("hash")


class ResumableFolder:
    """A folder of Parquet files. Each is written under a temporary name and then renamed, so it is complete or missing.

    So the files tell what is left to do, and it does no harm to write one of them twice.

    Args:
        path: A new folder, or that of an earlier run.
        about: The fingerprint of the run, as JSON. A folder with another fingerprint is not resumed.
        resume: Continue an earlier run, if there is one.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._about = about
        self._note = _RunNote(path / MANIFEST, path, {"complete": bool, "about": dict}, "give a new folder")
        manifest = self._note.read()
        if manifest is None or not self.finished():
            self._create(is_new=manifest is None)
        elif resume:
            self._note.check(about, manifest["about"])
        else:
            raise UnireError(f"{path} holds an earlier run; continue it with resume=True, or delete it to start again")

    def finished(self) -> set[str]:
        """Return the names of the files that are complete."""
        return {file.name for file in self.path.glob("*.parquet")}

    def complete(self) -> None:
        """Mark the folder as complete, and delete what killed processes left."""
        for leftover in (*self.path.glob(".*.partial"), *self.path.glob(".*.tries")):
            leftover.unlink(missing_ok=True)
        self._write(complete=True)

    def _create(self, *, is_new: bool) -> None:
        try:
            if is_new:
                check_output_folder(self.path, replaceable=[lock_path(self.path / MANIFEST).name])
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._write(complete=False)

    def _write(self, *, complete: bool) -> None:
        try:
            self._note.write(self._about, complete=complete)
        except OSError as error:
            raise _unwritable(self.path, error) from None


def count_documents(documents: int) -> str:
    """Format a number of documents: `1 document`, `2,000 documents`."""
    return f"{documents:,} document{'' if documents == 1 else 's'}"


def part_path(path: Path) -> Path:
    """The path of a file until it is complete."""
    path = _resolve_link(path)
    return path.parent / f"{path.name}.part"


def _resolve_link(path: Path) -> Path:
    """The target of a link; any other path as the user wrote it."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unwritable(path: Path, error: OSError) -> UnireError:
    return UnireError(f"{path} cannot be written: {error.strerror or error}")
