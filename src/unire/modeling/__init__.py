"""The model, in torch. Whoever comes in without the extra `train` is told so."""

from importlib.util import find_spec

from unire.exceptions import UnireError

if any(find_spec(name) is None for name in ("accelerate", "safetensors", "torch", "transformers")):
    raise UnireError('this needs PyTorch and transformers: pip install "unire[train]"')
