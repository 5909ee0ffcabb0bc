"""The layers of the package."""

LAYERS = (
    ("errors", "utils", "files", "prefetch"),
    ("documents", "document_list", "labels", "segmentation", "calibration", "config", "tables"),
    ("pretrained", "hub"),
    ("formats", "sources"),
    ("windows",),
    ("analysis", "decoding"),
    ("models",),
    ("inference",),
    ("extractor",),
    ("evaluation",),
    ("rendering", "graph"),
    ("writers",),
    ("training", "export"),
    ("serving", "integrations", "studies"),
    ("cli",),
)
"""From the bottom up. A module imports from its own layer and from those below it."""
