"""The model, in torch. Whoever comes in without the extra `train` is told so."""

from importlib.util import find_spec

from unire.errors import EXTRA, NEEDS_EXTRA, UnireError

if any(find_spec(name) is None for name in EXTRA):
    raise UnireError(NEEDS_EXTRA)
