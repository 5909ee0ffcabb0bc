"""Export of trained models to ONNX. Without the extra `train`, importing this package raises an error that names it."""

from importlib.util import find_spec

from unire.errors import UnireError

if any(find_spec(name) is None for name in ("onnx", "onnxscript", "torch", "transformers")):
    raise UnireError('exporting needs PyTorch, transformers and onnx: pip install "unire[train]"')
