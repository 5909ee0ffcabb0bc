"""`package_model`: build a wheel that holds a model. After `pip install`, the model is loaded by its name.

A wheel is a zip file with a few text files. It is written here, because building it with pip would need a project
folder and a network. It holds the files of the model and an empty module. Its bytes depend only on these files, the
arguments, the version of unire, and the zlib that compresses them.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import unire
from unire.documents import count_annotations
from unire.errors import UnireError, shorten
from unire.extractor import Extractor
from unire.files import replace_atomically
from unire.hub.model_dir import ModelDir, files_to_publish
from unire.output_files import lock_output
from unire.pretrained import ENTRY_POINTS, MODEL_NAME, find_packages, names

__all__ = ["PackageReport", "package_model"]

PREFIX = "unire-model-"
"""The start of the name of every package that holds a model."""
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*((a|b|rc)(0|[1-9]\d*))?(\.post(0|[1-9]\d*))?(\.dev(0|[1-9]\d*))?")
"""A version as PEP 440 writes it, without an epoch and a local part."""
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a wheel. The real one would change the bytes."""
ZIP_MODE = 0o100644 << 16
COPY_BYTES = 2**20
TEST_TEXT = "Ada Lovelace, who was born in London, worked with Charles Babbage on a method for computing numbers."


@dataclass(frozen=True, repr=False)
class PackageReport:
    """The wheel that `package_model` built, and what its model found in the text of the smoke test."""

    wheel: Path
    """The file."""
    name: str
    """The name of the model, for `Extractor.load`."""
    requirement: str
    """Name and version of the package, for pip."""
    licence: str
    """The licence of the model."""
    size: int
    """Bytes of the file."""
    text: str
    """The text of the smoke test."""
    entities: int
    """Entities that were found in it."""
    relations: int
    """Relations that were found in it."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to plain JSON values, as `unire package` prints them."""
        return {**asdict(self), "wheel": str(self.wheel)}

    def __repr__(self) -> str:
        lines = [f"Package {self.requirement} in {str(self.wheel)!r}: {self.size / 1e6:.1f} MB"]
        lines += [f"  Found {count_annotations(self.entities, self.relations)} in {self.text!r}"]
        return "\n".join(lines)


def package_model(
    model: str | Path,
    *,
    name: str,
    version: str,
    out: str | Path = ".",
    licence: str | None = None,
    description: str | None = None,
    text: str = TEST_TEXT,
) -> PackageReport:
    """Build a wheel from a trained or exported model, and check that its model loads and extracts.

    >>> package_model("models/mine", name="mine", version="1.0", licence="mit")  # doctest: +SKIP

    Install the file with pip. Then `Extractor.load("mine")`, `unire extract --model mine` and
    `unire train --encoder mine` find the model.

    Args:
        model: The folder or name of a model.
        name: The name of the model: lower-case letters, digits, and hyphens between them. The package is
            `unire-model-NAME`.
        version: The version of the package, such as `1.0` or `1.1rc1`.
        out: The folder for the wheel. A wheel of the same name and version is replaced.
        licence: The licence of the model. [default: the one in its model card]
        description: A sentence about the model. [default: the one in its model card]
        text: The text from which the packaged model extracts, as a smoke test.

    Returns:
        The path of the wheel, and what the model found in the text.

    Raises:
        UnireError: The model does not load, its licence is unknown, or the name or the version is not valid.
    """
    _check_name(name)
    if not VERSION.fullmatch(version):
        raise UnireError(f"{shorten(version)} is not a version; give numbers with dots, such as 1.0 or 1.1rc1")
    about = {"licence": licence, "description": description}
    with ModelDir.reading(model) as opened:
        known = {"title": name, **opened.config.provenance, **{key: value for key, value in about.items() if value}}
        if not known.get("licence"):
            raise UnireError(
                "the licence of the model is unknown; give licence=..., such as 'mit' or 'all rights reserved'"
            )
        module = f"{PREFIX}{name}".replace("-", "_")
        wheel = Path(out) / f"{module}-{version}-py3-none-any.whl"
        metadata = _dist_info(module, name, version, known, torch=not opened.has_graph)
        files = files_to_publish(opened, name, known)
        metadata["METADATA"] += _description(files["README.md"])
        contents = {f"{module}/{file}": content for file, content in files.items()}
        contents[f"{module}/__init__.py"] = f'"""The model {name!r} for unire."""\n'.encode()
        contents |= {f"{module}-{version}.dist-info/{file}": text.encode() for file, text in metadata.items()}
        try:
            with lock_output(wheel), replace_atomically(wheel) as temporary:
                _write_wheel(temporary, contents, f"{module}-{version}.dist-info/RECORD")
                document = _extract_from(temporary, name, text)
        except OSError as error:
            raise UnireError(f"{str(wheel)!r} cannot be written: {error.strerror or error}") from None
    found = len(document.entities), len(document.relations)
    requirement = f"{PREFIX}{name}=={version}"
    return PackageReport(wheel, name, requirement, str(known["licence"]), wheel.stat().st_size, text, *found)


def _check_name(name: str) -> None:
    if not MODEL_NAME.fullmatch(name):
        raise UnireError(
            f"{shorten(name)} is not the name of a package; use lower-case letters, digits, and hyphens between them"
        )
    if name in names():
        raise UnireError(f"{name!r} is the name of a bundled model, which would be loaded instead; choose another name")


def _dist_info(module: str, name: str, version: str, known: Mapping[str, Any], *, torch: bool) -> dict[str, str]:
    """The files that describe a package, without `RECORD`."""
    summary = str(known.get("description") or "Entities and relations: a model for unire").split(". ")[0]
    headers = {
        "Metadata-Version": "2.1",
        "Name": f"{PREFIX}{name}",
        "Version": version,
        "Summary": summary,
        "License": known["licence"],
        "Requires-Dist": f"unire{'[train]' if torch else ''}>={unire.__version__}",
        "Description-Content-Type": "text/markdown",
    }
    return {
        "METADATA": "".join(f"{key}: {' '.join(str(value).split())}\n" for key, value in headers.items()),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: unire\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[{ENTRY_POINTS}]\n{name} = {module}\n",
    }


def _description(card: Path | bytes) -> str:
    """The model card without the metadata of the Hub, as the body of the file `METADATA`."""
    text = card.decode() if isinstance(card, bytes) else card.read_text(encoding="utf-8")
    return "\n" + text.split("\n---\n", 1)[-1].lstrip()


def _write_wheel(path: Path, contents: Mapping[str, Path | bytes], record: str) -> None:
    """Write the files in order, and at the end the list of their hashes."""
    lines = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted(contents.items()):
            digest, size = _add(archive, name, content)
            lines.append(f"{name},sha256={digest},{size}\n")
        _add(archive, record, "".join([*lines, f"{record},,\n"]).encode())


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> tuple[str, int]:
    """Add a file, and return the hash and the size for `RECORD`."""
    info = zipfile.ZipInfo(name, ZIP_TIME)
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, ZIP_MODE
    digest, size = hashlib.sha256(), 0
    with (
        io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source,
        archive.open(info, "w", force_zip64=True) as target,
    ):
        for block in _blocks(source):
            target.write(block)
            digest.update(block)
            size += len(block)
    return urlsafe_b64encode(digest.digest()).rstrip(b"=").decode(), size


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(COPY_BYTES):
        yield block


def _extract_from(wheel: Path, name: str, text: str) -> unire.Document:
    """Unpack a wheel, find its model as if it were installed, and extract from a text."""
    with TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return Extractor.load(find_packages([folder])[name].folder, device="cpu").extract(text)
