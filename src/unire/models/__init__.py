"""The model in PyTorch. Without the extra `train`, importing this package raises an error that names the extra."""

from importlib.util import find_spec

from unire.errors import EXTRA, NEEDS_EXTRA, UnireError

if any(find_spec(name) is None for name in EXTRA):
    raise UnireError(NEEDS_EXTRA)
