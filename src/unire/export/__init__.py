"""Trained models → folders that run without torch. Whoever comes in without the extra `train` is told so."""

from importlib.util import find_spec

from unire.errors import UnireError

if any(find_spec(name) is None for name in ("onnx", "onnxscript", "torch", "transformers")):
    raise UnireError('exporting needs PyTorch, transformers and onnx: pip install "unire[train]"')
