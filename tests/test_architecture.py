"""The rules of the architecture that a test can enforce: layers, torch, safety, sizes and names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from helpers.architecture import (
    FORBIDDEN_WORDS,
    LARGE_MODULES,
    LAYERS,
    MAX_MODULE_LINES,
    MIN_MODULE_LINES,
    NAMES_OPTIONS,
    OTHER_TEST_FOLDERS,
    SMALL_MODULES,
)
from helpers.paths import ROOT, SOURCE

FILES = sorted(SOURCE.rglob("*.py"))

LAZY_UPWARD = {(module, target) for module in ("documents", "document_list") for target in ("graph", "rendering")}
"""Convenience methods such as `document.to_networkx()`; the import runs when the method is called."""

ENTRY_POINTS = ("__init__", "__main__")
"""The package itself, which imports its public names on first use, and the command."""

HEAVY = {"accelerate", "onnx", "onnxscript", "safetensors", "torch", "transformers"}
"""The packages of the extra `train`."""
HEAVY_MODULES = ("models", "export", "training", "studies", "inference/torch_engine.py")
"""Where a module may import them at the top; elsewhere only a function may."""


def place(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def package(file: Path) -> str:
    return place(file).split("/")[0].removesuffix(".py")


def layer_of(name: str) -> int:
    return next(k for k, layer in enumerate(LAYERS) if name in layer)


def imports(tree: ast.AST) -> Iterator[str]:
    """The full name of every module that is imported anywhere in `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: use absolute imports"
            module = node.module or ""
            # `from unire import formats` names a package; `from unire import __version__` does not
            yield from (f"unire.{alias.name}" for alias in node.names) if module == "unire" else (module,)


def at_module_level(tree: ast.Module) -> ast.Module:
    """The tree without function bodies and without what only a type checker reads."""

    class Pruner(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return Pruner().visit(tree)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_every_package_belongs_to_one_layer():
    names = [name for layer in LAYERS for name in layer]
    assert len(names) == len(set(names))
    assert {package(file) for file in FILES} == {*names, *ENTRY_POINTS}


def test_no_module_imports_from_a_higher_layer():
    wrong = []
    for file in FILES:
        here = package(file)
        if here in ENTRY_POINTS:
            continue
        for module in imports(parsed(file)):
            root, _, inside = module.partition(".")
            target = inside.split(".")[0]
            if root != "unire" or target in ("", "__version__") or (here, target) in LAZY_UPWARD:
                continue
            if layer_of(target) > layer_of(here):
                wrong.append(f"{place(file)} imports {module}")
    assert not wrong


def test_the_upward_imports_of_convenience_methods_are_lazy():
    for here, target in LAZY_UPWARD:
        tree = parsed(SOURCE / f"{here}.py")
        assert any(module.startswith(f"unire.{target}") for module in imports(tree))
        assert not any(module.startswith(f"unire.{target}") for module in imports(at_module_level(tree)))


def test_torch_is_imported_only_where_it_is_needed():
    found = {
        place(file)
        for file in FILES
        for module in imports(at_module_level(parsed(file)))
        if module.split(".")[0] in HEAVY
    }
    assert "models/unire.py" in found
    assert {name for name in found if not name.startswith(HEAVY_MODULES)} == set()


def test_the_package_its_extractor_and_its_command_start_without_torch():
    code = (
        "import sys, unire.extractor; from unire.cli.main import build_app; build_app(); "
        f"print(sorted({HEAVY!r} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_class_names_are_unique():
    homes = defaultdict(list)
    for file in FILES:
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(place(file))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


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
            trusting = [
                keyword
                for keyword in node.keywords
                if keyword.arg == "trust_remote_code" and ast.unparse(keyword.value) != "False"
            ]
            if called in {"eval", "exec", "torch.load", "torch.save"} or trusting:
                wrong.append(f"{place(file)}, line {node.lineno}: {ast.unparse(node)}")
    assert not wrong


def test_commands_print_user_text_without_markup():
    """By `console.say`: Rich's own `print` would read markup and emoji in the file names of users."""
    wrong = [
        f"{place(file)}, line {node.lineno}: {ast.unparse(node)}"
        for file in FILES
        if package(file) == "cli" and file.name != "console.py"
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "print"
        if node.args and not ast.unparse(node.args[0]).startswith(("TerminalView(", "terminal.TerminalView("))
    ]
    assert not wrong


def test_modules_are_neither_long_nor_tiny():
    wrong = []
    for file in FILES:
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MAX_MODULE_LINES and place(file) not in LARGE_MODULES:
            wrong.append(f"{place(file)} has {lines} lines; split it")
        if lines < MIN_MODULE_LINES and file.stem not in ENTRY_POINTS and place(file) not in SMALL_MODULES:
            wrong.append(f"{place(file)} has {lines} lines; merge it with its neighbour")
    assert not wrong


def test_no_module_only_passes_on_names():
    """A package may collect the names of its modules; a module defines something."""
    wrong = []
    for file in FILES:
        body = [node for node in parsed(file).body if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)]
        defines = [node for node in body if not ast.unparse(node).startswith("__all__")]
        if file.stem not in ENTRY_POINTS and not defines:
            wrong.append(place(file))
    assert not wrong


def words_of(name: str) -> set[str]:
    """The words of `snake_case`, `CamelCase` and `CONSTANT_CASE`, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def defined_names(file: Path) -> Iterator[str]:
    """Names of the module, its packages, classes, functions and constants."""
    yield from file.relative_to(ROOT).with_suffix("").parts
    tree = parsed(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def variable_names(file: Path) -> Iterator[str]:
    """Names of variables, attributes and arguments."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_names_use_the_words_of_the_field():
    assert words_of("_OldBox_rooms_HTMLPage") == {"old", "box", "rooms", "html", "page"}
    wrong = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in [*FILES, *sorted((ROOT / "tests").rglob("*.py"))]
        for name in (*defined_names(file), *variable_names(file))
        if words_of(name) & (FORBIDDEN_WORDS if file in FILES else FORBIDDEN_WORDS - {"box", "boxes"})  # of browsers
    ]
    assert not wrong


def test_the_library_names_no_option_of_the_command_line():
    """Errors of the library name arguments, such as `resume=True`; the command translates where it must."""
    wrong = []
    for file in FILES:
        if package(file) == "cli" or place(file) in NAMES_OPTIONS:
            continue
        tree = parsed(file)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        wrong += [
            f"{place(file)}, line {node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if re.search(r"(?<![\w-])--[a-z]", node.value)
        ]
    assert not wrong


def test_tests_mirror_the_package():
    folders = {file.parent.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("test_*.py")}
    packages = {file.parent.relative_to(SOURCE) for file in FILES}
    assert {
        folder for folder in folders if folder.parts[:1] not in [(name,) for name in OTHER_TEST_FOLDERS]
    } <= packages
