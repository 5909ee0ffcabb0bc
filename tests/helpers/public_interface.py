"""Describe everything that a user of `unire` can rely on, as plain JSON.

The description uses only entry points that must not change: the command, `unire.__all__`, the files on disk and the
HTTP interface. It therefore runs on any version of the code:

    PYTHONPATH=OTHER/src:tests python -m helpers.public_interface snapshot.json
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from helpers.paths import FIXTURES
from helpers.tiny_encoders import tiny_encoder

TEXT = "We train a parser on the Penn Treebank. The parser uses word embeddings for dependency parsing."
"""Two sentences in which the bundled model `science` finds entities and relations."""

WRITERS = (
    *("text", "tables", "jsonl", "csv", "tsv", "entities-csv", "entities-tsv", "graphml", "cypher", "html", "unire"),
    *("dygie", "spert", "unire-released", "conll04", "brat", "labelstudio", "prodigy", "spacy", "parquet", "datasets"),
)
"""What `unire extract --format` accepts."""

FORMATS = WRITERS[WRITERS.index("unire") :]
"""What `unire data convert --to` accepts."""

EXTENSIONS = ("txt", "jsonl", "csv", "tsv", "graphml", "cypher", "html", "spacy", "parquet")
"""Extensions of `unire extract --out` that choose the format."""

BINARY = (".spacy", ".parquet", ".arrow", ".safetensors", ".onnx", ".bin", ".npy")
GENERATED = (".html", ".md")
"""Files for people, whose wording may change."""

CONFIG_CLASSES = {
    "TrainingConfig": ("TrainingConfig",),
    "DistillConfig": ("DistillConfig",),
    "AdaptationConfig": ("AdaptationConfig",),
    "PipelineConfig": ("PipelineConfig",),
    "ModelConfig": ("ModelConfig", "Settings"),
    "HeadConfig": ("HeadConfig", "HeadSettings"),
    "EncoderSpec": ("EncoderSpec",),
}
"""Configuration classes, with the names that they have had."""

PRESETS = ("paper", "released", "best")

PROBES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.25, 1, 1.5, 2, 16, 1000, 5_000_000_000),
    *("split", "hard", "likely", "in-place", "released", "shared", "max", "sum", "none", "sentence", "batch", "other"),
)
"""Values that are tried for every field of a configuration."""

METHODS = {
    "Document": ("from_words", "annotated", "entity", "confident", "to_dict", "to_networkx", "_repr_html_"),
    "Extractor": ("load", "extract", "extract_words", "annotate", "with_alpha", "with_decoder"),
    "LabelSpace": ("load", "learn", "from_dict", "to_dict", "check"),
    "Protocol": ("all", "to_dict"),
    "Scores": ("to_dict",),
    "TrainingConfig": ("from_preset", "further"),
    "UniRE": ("save_pretrained", "from_pretrained"),
}
"""Methods and attributes that README.md and docs/ show."""


def describe_names(folder: Path) -> dict[str, Any]:
    """`unire.__all__`, documented methods, fields of documents, and what `pip` sees."""
    import unire

    classes = ("Document", "Sentence", "Entity", "Relation")
    project = tomllib.loads((Path(unire.__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "names": sorted(unire.__all__),
        "methods": {
            name: [method for method in methods if hasattr(getattr(unire, name), method)]
            for name, methods in METHODS.items()
        },
        "fields": {name: list(signature(getattr(unire, name)).parameters) for name in classes},
        "extras": sorted(project["optional-dependencies"]),
        "scripts": sorted(project["scripts"]),
        "spacy_factories": sorted(project["entry-points"]["spacy_factories"]),
        "label_spaces": {name: unire.LabelSpace.load(name).to_dict() for name in unire.LabelSpace.built_in()},
    }


def describe_commands(folder: Path) -> dict[str, Any]:
    """Every command, with the names, types, choices and defaults of its options."""
    from unire.cli.main import app

    return dict(_walk_commands(app, "unire"))


def _walk_commands(app: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Read options off the signatures, because parsed commands differ between versions of typer."""
    if app.registered_callback is not None:
        yield name, _describe_options(app.registered_callback.callback)
    for command in app.registered_commands:
        child = command.name or command.callback.__name__.strip("_").replace("_", "-")
        yield f"{name} {child}", _describe_options(command.callback)
    for group in app.registered_groups:
        yield from _walk_commands(group.typer_instance, f"{name} {group.name or group.typer_instance.info.name}")


def _describe_options(command: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(command, include_extras=True)
    options: dict[str, Any] = {}
    arguments = 0
    for parameter in signature(command).parameters.values():
        annotation = hints[parameter.name]
        if get_origin(annotation) is not Annotated:  # the context of typer
            continue
        kind, info = get_args(annotation)[:2]
        required = parameter.default is parameter.empty
        members = [get_args(each) for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
        about = {
            "type": _name_type(kind),
            "default": None if required else parameter.default,
            "required": required,
            "min": getattr(info, "min", None),
            "max": getattr(info, "max", None),
            "envvar": info.envvar,
            "choices": [choice for choices in members for choice in choices],
        }
        if type(info).__name__ == "ArgumentInfo":
            names = [f"argument {arguments}"]
            arguments += 1
        else:
            # inside `Annotated`, the first name stands in the place of the default
            first = [info.default] if isinstance(info.default, str) else []
            names = [*first, *(info.param_decls or ())] or [f"--{parameter.name.replace('_', '-')}"]
        options |= dict.fromkeys(names, about)
    return options


def _name_type(kind: Any) -> str:
    inner = [_name_type(each) for each in get_args(kind) if each is not type(None)]
    if get_origin(kind) is Literal:
        return "choice"
    if inner:
        return inner[0] if get_origin(kind) is not list else f"list of {inner[0]}"
    return str(getattr(kind, "__name__", kind))


def describe_configs(folder: Path) -> dict[str, Any]:
    """Fields of the configurations, their defaults, and which of the probes they accept; the presets."""
    import unire
    from unire import TrainingConfig, UnireError

    defined = _find_classes({name for names in CONFIG_CLASSES.values() for name in names})
    examples: dict[str, Any] = {
        "AdaptationConfig": {"minutes": 1.0},
        "EncoderSpec": {
            "prefix": (1,),
            "middle": (2,),
            "suffix": (2,),
            "pad_id": 0,
            "unk_id": 3,
            "max_pieces": 128,
            "token_types": True,
            "prefix_space": False,
        },
    }
    described: dict[str, Any] = {}
    for name, names in CONFIG_CLASSES.items():
        cls: Any = next((defined[each] for each in names if each in defined), None)
        if cls is None:
            continue
        if name == "ModelConfig":
            cls_spec = defined["EncoderSpec"]
            examples[name] = {"spec": cls_spec(**examples["EncoderSpec"]), "encoder": {"model_type": "bert"}}
        example = cls(**examples.get(name, {}))
        defaults = {}
        for each in fields(cls):
            absent = "required" if each.default_factory is MISSING else "computed"
            value = absent if each.default is MISSING else each.default
            accepted = [repr(probe) for probe in PROBES if _accepts(example, each.name, probe, UnireError)]
            defaults[each.name] = {"default": value, "accepts": accepted}
        described[name] = defaults
    described["presets"] = {name: vars(TrainingConfig.from_preset(name)) for name in PRESETS}
    assert is_dataclass(unire.TrainingConfig)
    return described


def _accepts(example: Any, field: str, probe: Any, refusal: type[Exception]) -> bool:
    try:
        replace(example, **{field: probe})
    except refusal:
        return False
    except (AttributeError, TypeError, ValueError):  # a nested configuration cannot be a number
        return False
    return True


def _find_classes(names: set[str]) -> dict[str, type]:
    """Import classes by name from wherever they are defined."""
    import unire

    root = Path(unire.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if not any(f"class {name}" in source for name in names):
            continue
        module = ".".join(["unire", *file.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name in names:
                found[node.name] = getattr(import_module(module), node.name)
    return found


def describe_formats(folder: Path) -> dict[str, Any]:
    """What each annotation format writes for one document, and what reading that gives back."""
    from unire import Document, formats

    document = Document.from_words(
        [
            ["Ada", "Lovelace", "met", "Charles", "Babbage", "in", "London", "."],
            ["She", "wrote", "“", "notes", "”", "."],
        ],
        [(0, 2, "Peop"), (3, 5, "Peop"), (6, 7, "Loc", 0.5), (8, 9, "Peop", 0.123456789)],
        [(0, 2, "Live_In", 0.25), (1, 2, "Live_In"), (3, 0, "Same")],
        id="ada-1",
    )
    source = folder / "source.jsonl"
    formats.write([document], source, "unire")
    described: dict[str, Any] = {"native": source.read_text(encoding="utf-8"), "to_dict": document.to_dict()}
    for name in FORMATS:
        target = folder / f"converted-{name}"
        summary = _run("data", "convert", source, "--to", name, "--out", target, "--json")
        back = folder / f"back-{name}.jsonl"
        _run("data", "convert", target, "--from", name, "--out", back, "--json")
        described[name] = {
            "summary": _outline(json.loads(summary)),
            "files": _read_files(target),
            "read back": back.read_text(encoding="utf-8"),
        }
    return described


def describe_writers(folder: Path) -> dict[str, Any]:
    """What `unire extract` writes in each format, without the digits of scores, which depend on the CPU."""
    described: dict[str, Any] = {}
    for name in WRITERS:
        out = folder / f"found-{name}"
        _run("extract", TEXT, "--device", "cpu", "--format", name, "--out", out)
        described[name] = _read_files(out, mask=True)
    for extension in EXTENSIONS:
        out = folder / f"found.{extension}"
        _run("extract", TEXT, "--device", "cpu", "--out", out)
        described[f".{extension}"] = _read_files(out, mask=True)
    described["standard output"] = _mask(_run("extract", TEXT, "--device", "cpu"))
    described["tables on standard output"] = _mask(_run("extract", TEXT, "--device", "cpu", "--format", "tables"))
    return described


def describe_json_output(folder: Path) -> dict[str, Any]:
    """Keys of what the commands print with `--json`."""
    data = FIXTURES / "twenty.jsonl"
    found = folder / "found.jsonl"
    predictions = folder / "predictions.jsonl"
    commands: dict[str, Sequence[object]] = {
        "extract": ("extract", data, "--out", found, "--device", "cpu"),
        "evaluate": ("evaluate", "--model", "science", "--data", data, "--predictions", predictions),
        "evaluate --all-protocols": (
            *("evaluate", "--model", "science", "--data", data, "--device", "cpu"),
            *("--all-protocols", "--bootstrap", 20, "--reliability"),
        ),
        "evaluate --oracle": ("evaluate", "--oracle", "--labels", "scierc", "--data", data),
        "score": ("score", data, predictions),
        "score --all-protocols": ("score", data, predictions, "--all-protocols", "--bootstrap", 20),
        "models": ("models",),
        "data check": ("data", "check", data),
        "data stats": ("data", "stats", data),
        "data split": ("data", "split", data, "--out", folder / "parts"),
        "study threshold": (
            *("study", "threshold", "--model", "science", "--data", data),
            *("--device", "cpu", "--out", folder / "threshold"),
        ),
        "study errors": (
            *("study", "errors", "science", "--data", data, "--device", "cpu", "--out", folder / "errors"),
        ),
    }
    described = {}
    for name, words in commands.items():
        try:
            described[name] = _outline(json.loads(_run(*words, "--json")))
        except (AssertionError, ValueError) as error:
            described[name] = f"fails: {str(error)[:300]}"
    return described


def describe_checkpoints(folder: Path) -> dict[str, Any]:
    """Files of trained models, adapted encoders and soft labels: names, JSON keys, tensors."""
    data = FIXTURES / "twenty.jsonl"
    words = {word for line in data.read_text(encoding="utf-8").splitlines() for word in _json_words(json.loads(line))}
    encoder = tiny_encoder("bert", folder / "encoder", words)
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([TEXT] * 20), encoding="utf-8")
    train = ("--data", data, "--labels", "scierc", "--epochs", 1, "--batch-size", 10, "--json")
    model, markers, soft = folder / "model", folder / "markers", folder / "soft"
    option = "--soft-labels" if "--soft-labels" in describe_commands(folder)["unire relabel"] else "--lessons"
    runs: dict[str, Sequence[object]] = {
        "train": ("train", "--encoder", encoder, *train, "--dev", data, "--test", data, "--out", model),
        "adapt": (
            *("adapt", "--encoder", encoder, "--corpus", corpus, "--max-steps", 2, "--length", 32),
            *("--batch-tokens", 64, "--out", folder / "adapted", "--json"),
        ),
        "teach": ("teach", "--teacher", model, "--corpus", corpus, "--out", soft, "--json"),
        "markers": ("markers", "--encoder", encoder, *train, "--out", markers),
        "relabel": ("relabel", option, soft, "--markers", markers, "--out", folder / "relabelled", "--json"),
        "distill": (
            *("distill", "--student", encoder, option, soft, *train[:2], *train[4:], "--soft-batch", 8),
            *("--out", folder / "student"),
        ),
        "calibrate": ("calibrate", "science", "--data", data, "--out", folder / "calibrated", "--json"),
        "export": ("export", model, "--out", folder / "exported", "--test", data, "--json"),
    }
    described = {}
    for name, arguments in runs.items():
        printed = _run(*arguments)
        out = Path(str(arguments[arguments.index("--out") + 1]))
        files = _outline_files(out)
        if name == "calibrate":
            files["model.safetensors"] = "file"  # a copy of the bundled weights
        described[name] = {"json": _outline(json.loads(printed)), "files": files}
    import unire

    for name in ("science", "news"):
        bundled = Path(unire.__file__).parent / "pretrained" / name
        described[name] = {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(bundled.iterdir())
            if file.suffix not in GENERATED
        }
    return described


def describe_http(folder: Path) -> dict[str, Any]:
    """Endpoints of `unire serve`, and the fields of requests and answers."""
    command = [sys.executable, "-m", "unire", "serve", "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        line = server.stdout.readline() if server.stdout else ""
        matched = re.search(r"http://[^ ]+", line)
        assert matched, line
        address = matched[0]
        schema = _get(f"{address}/openapi.json")
        body = json.dumps({"text": TEXT}).encode()
        request = urllib.request.Request(f"{address}/extract", data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            extracted = json.load(answer)
        with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
            metrics = re.findall(r"^# TYPE (unire\w*) (\w+)", answer.read().decode(), re.M)
    finally:
        server.terminate()
        server.wait(30)
    return {
        "paths": {
            f"{method.upper()} {path}": {
                "request": _resolve(about.get("requestBody", {}), schema),
                "responses": {code: _resolve(each, schema) for code, each in about["responses"].items()},
            }
            for path, methods in schema["paths"].items()
            for method, about in methods.items()
        },
        "answer of /extract": _outline(extracted),
        "metrics": dict(metrics),
    }


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def _resolve(schema: Any, root: Mapping[str, Any]) -> Any:
    """A JSON schema with its references filled in, and without titles, examples and wording."""
    if isinstance(schema, list):
        return [_resolve(each, root) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _resolve(target, root)
    dropped = ("title", "description", "example", "examples") if not isinstance(schema.get("title"), dict) else ()
    return {key: _resolve(value, root) for key, value in schema.items() if key not in dropped}


SECTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "names": describe_names,
    "commands": describe_commands,
    "configs": describe_configs,
    "formats": describe_formats,
    "writers": describe_writers,
    "json_output": describe_json_output,
    "checkpoints": describe_checkpoints,
    "http": describe_http,
}


def describe(section: str, folder: Path) -> Any:
    """One section of the description, as JSON reads it back."""
    return json.loads(json.dumps(SECTIONS[section](folder), default=str, sort_keys=True))


def find_breaks(old: Any, new: Any, renamed: Mapping[str, str], place: str = "") -> list[str]:
    """What `old` has and `new` lacks or has otherwise; additions to objects and lists are no breaks."""
    if isinstance(old, dict) and isinstance(new, dict):
        breaks = []
        for key, value in old.items():
            name = key if key in new else renamed.get(key, key)
            inside = f"{place} / {name}"
            breaks += find_breaks(value, new[name], renamed, inside) if name in new else [f"{inside} is missing"]
        return breaks
    if isinstance(old, list) and isinstance(new, list):
        return [f"{place} no longer has {item!r}" for item in old if item not in new]
    same = old == new and isinstance(old, bool) == isinstance(new, bool)
    return [] if same else [f"{place} was {old!r} and is {new!r}"]


def _run(*arguments: object) -> str:
    """The standard output of a command that must succeed."""
    from typer.testing import CliRunner

    from unire.cli.main import app

    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if ran.exit_code != 0:
        raise AssertionError(f"unire {' '.join(map(str, arguments))}: {ran.output}") from ran.exception
    return ran.stdout


def _outline(value: Any) -> Any:
    """The keys of JSON data, with types in place of values."""
    if isinstance(value, dict):
        return {key: _outline(each) for key, each in value.items()}
    if isinstance(value, list):
        merged: Any = {}
        for each in value:
            outline = _outline(each)
            merged = {**merged, **outline} if isinstance(outline, dict) else merged
        return {"items": merged}
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _read_files(path: Path, *, mask: bool = False) -> dict[str, str]:
    """The text of a file, or of all files in a folder, by name."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    contents = {}
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else "file"
        data = file.read_bytes()
        try:
            if file.suffix in (*BINARY, *GENERATED) or data.startswith(b"<!doctype html"):
                raise UnicodeDecodeError("utf-8", b"", 0, 0, "not compared")
            contents[name] = _mask(data.decode("utf-8")) if mask else data.decode("utf-8")
        except UnicodeDecodeError:
            contents[name] = "not compared"
    return contents


def _mask(text: str) -> str:
    return re.sub(r"\b([01])\.\d+", r"\1.#", text)


def _outline_files(folder: Path) -> dict[str, Any]:
    """Names of a folder's files, with keys of JSON and names, shapes and types of tensors."""
    described: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_dir():
            continue
        about: Any = "file"
        if file.suffix == ".json":
            about = _outline(json.loads(file.read_text(encoding="utf-8")))
            if file.name == "config.json" and "encoder" in about:
                about["encoder"] = "object"  # written by transformers
        elif file.suffix == ".safetensors":
            with file.open("rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(length))
            about = {
                name: name == "__metadata__" or [each["dtype"], "×".join(map(str, each["shape"]))]
                for name, each in header.items()
            }
        if file.name in ("tokenizer.json", "tokenizer_config.json"):
            about = "file"  # written by the tokenizers library
        described[file.relative_to(folder).as_posix()] = about
    return described


def _json_words(document: dict[str, Any]) -> Iterator[str]:
    for sentence in document.get("sentences", ()):
        yield from sentence


if __name__ == "__main__":
    snapshot = {}
    for section in sys.argv[2:] or SECTIONS:
        with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stderr(sys.stdout):
            snapshot[section] = describe(section, Path(temporary))
        sys.stdout.write(f"{section}\n")
    text = json.dumps(snapshot, indent=1, ensure_ascii=False, sort_keys=True)
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
