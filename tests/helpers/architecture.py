"""The layers of the package."""

LAYERS = (
    ("errors", "utils", "limits", "files", "output_files", "model_files"),
    (
        "annotations",
        "documents",
        "document_list",
        "labels",
        "result_filter",
        "segmentation",
        "calibration",
        "config",
        "tables",
    ),
    ("pretrained", "hub"),
    ("formats", "sources"),
    ("windows",),
    ("analysis", "decoding"),
    ("models",),
    ("inference",),
    ("extractor",),
    ("evaluation", "model_package", "suggestions"),
    ("rendering", "graph"),
    ("writers",),
    ("training", "export"),
    ("serving", "integrations", "studies"),
    ("cli",),
)
"""From the bottom up. A module imports from its own layer and from those below it."""

MAX_MODULE_LINES = 450
MIN_MODULE_LINES = 60

LARGE_MODULES: set[str] = set()
"""Modules that may be longer, until they are shortened."""

SMALL_MODULES = {
    "serving/limits.py",
}
"""Modules that deserve a page of their own although it is short."""

FORBIDDEN_WORDS = {
    *("box", "boxes", "finding", "findings", "house", "lesson", "lessons", "room", "rooms"),
    *("said", "stretch", "stretches", "told"),
}
"""Words of our own that no name in the code has; the field has better ones."""

NAMES_OPTIONS = {
    "rendering/terminal.py",  # its note is read by those who use the command
    "studies/ablations.py",  # it runs the command in other processes
}
"""Modules of the library that name options of the command line."""

OTHER_TEST_FOLDERS = {"docs", "examples", "fixtures", "helpers", "recipes"}
"""Folders of tests/ that belong to no package."""
