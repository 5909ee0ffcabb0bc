"""The rules of the house: who may import whom, where torch may be, and what no file may do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "unire"
FILES = sorted(SOURCE.rglob("*.py"))

ROOMS = (
    "exceptions",
    "checks",
    "files",
    "resumable",
    "prefetch",
    "runs",
    "documents",
    "treebank",
    "segment",
    "texts",
    "labels",
    "tables",
    "windows",
    "calibration",
    "settings",
    "decoding",
    "oracle",
    "scoring",
    "formats",
    "inputs",
    "statistics",
    "inspection",
    "splits",
    "pretrained",
    "card",
    "hub",
    "folders",
    "modeling",
    "engines",
    "flow",
    "extractor",
    "confidence",
    "tuning",
    "graph",
    "rendering",
    "outputs",
    "cluster",
    "spacy_pipe",
    "exporting",
    "training",
    "marking",
    "studies",
    "serving",
    "cli",
)
"""From the ground up: a room imports from itself and from those before it."""

SHORTCUTS = {("documents", "graph"), ("documents", "rendering")}
"""Methods that only call a room further up, which is imported when they are called: `document.to_networkx()`."""

DOORS = ("__init__", "__main__")
"""The package itself, which names everything and imports it when it is used; and the command."""

HEAVY = {"accelerate", "onnx", "onnxscript", "safetensors", "torch", "transformers"}
"""What `unire[train]` brings."""
HEAVY_ROOMS = ("modeling", "exporting", "training", "marking", "studies", "engines/torch_engine.py")
"""Where a module may import it; anywhere else only a function may, when it is called."""


def place(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def room(file: Path) -> str:
    return place(file).split("/")[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere in `tree`, by its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name the whole module"
            module = node.module or ""
            # `from unire import formats` names a room; `from unire import __version__` does not
            yield from (f"unire.{alias.name}" for alias in node.names) if module == "unire" else (module,)


def at_module_level(tree: ast.Module) -> ast.Module:
    """The tree without the bodies of functions, nor what only a type checker reads."""

    class Pruner(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return Pruner().visit(tree)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_every_room_has_its_place_in_the_order():
    assert {room(file) for file in FILES} == {*ROOMS, *DOORS}


def test_a_room_imports_only_from_rooms_below_it():
    wrong = []
    for file in FILES:
        if room(file) in DOORS:
            continue
        reachable = {*ROOMS[: ROOMS.index(room(file)) + 1], *(to for here, to in SHORTCUTS if here == room(file))}
        for module in imports(parsed(file)):
            package, _, inside = module.partition(".")
            target = inside.split(".")[0]
            if package == "unire" and target in ROOMS and target not in reachable:
                wrong.append(f"{place(file)} imports {module}")
    assert not wrong


def test_a_shortcut_is_imported_when_it_is_taken():
    for here, target in SHORTCUTS:
        tree = parsed(SOURCE / f"{here}.py")
        assert any(module.startswith(f"unire.{target}") for module in imports(tree))
        assert not any(module.startswith(f"unire.{target}") for module in imports(at_module_level(tree)))


def test_nothing_but_the_doors_imports_a_door():
    """`unire` itself is imported for its version alone: names are imported from where they live."""
    wrong = [
        f"{place(file)} imports {module}"
        for file in FILES
        if room(file) not in DOORS
        for module in imports(parsed(file))
        if module.startswith("unire.") and module.split(".")[1] not in (*ROOMS, "__version__")
    ]
    assert not wrong


def test_torch_and_its_kin_are_imported_where_they_are_at_home():
    found = {
        place(file)
        for file in FILES
        for module in imports(at_module_level(parsed(file)))
        if module.split(".")[0] in HEAVY
    }
    assert "modeling/model.py" in found
    assert {name for name in found if not name.startswith(HEAVY_ROOMS)} == set()


def test_the_package_its_extractor_and_its_command_start_without_torch():
    code = f"import sys, unire.cli.main, unire.extractor; print(sorted({HEAVY!r} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_no_file_runs_what_it_reads():
    """No pickle, no `eval` or `exec`, no code from the Hub."""
    wrong = []
    for file in FILES:
        tree = parsed(file)
        wrong += [
            f"{place(file)} imports {module}"
            for module in imports(tree)
            if module.split(".")[0] in {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
        ]
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            trusting = [keyword for keyword in node.keywords if keyword.arg == "trust_remote_code"]
            if called in {"eval", "exec", "torch.load", "torch.save"} or trusting:
                wrong.append(f"{place(file)}, line {node.lineno}: {ast.unparse(node)}")
    assert not wrong


def test_commands_print_texts_as_they_stand():
    """By `printing.say`: Rich's own `print` of a string would read markup, and emoji, out of a user's file names."""
    wrong = [
        f"{place(file)}, line {node.lineno}: {ast.unparse(node)}"
        for file in FILES
        if room(file) == "cli" and file.name != "printing.py"
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "print"
        if node.args and not ast.unparse(node.args[0]).startswith(("View(", "terminal.View("))
    ]
    assert not wrong
