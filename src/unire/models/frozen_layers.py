"""Lower layers of an encoder that training leaves as they are. On a CPU, each window passes through them only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unire.errors import UnireError

__all__ = ["FrozenLayers", "list_layers"]

CACHE_BYTES = 2**30
"""Limit of the memory for the vectors of windows. Further windows pass through the frozen layers each time."""


def list_layers(encoder: nn.Module) -> nn.ModuleList:
    """The layers of an encoder, from the lowest one."""
    config: Any = encoder.config
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers:
            return module
    raise UnireError(f"encoders of the type {config.model_type!r} have no layers that can be frozen; set frozen to 0")


class FrozenLayers:
    """Excludes the embeddings and lower layers of an encoder from training, and from dropout, until `close`.

    On a CPU it also keeps what these layers compute for a window, and skips them when the window comes again. Windows
    are recognised by their tokens, so training, scoring and tuning share the vectors.

    Args:
        encoder: Its inputs are those of `encode_tokens`.
        share: How many of its layers are frozen, from 0 to 1.
        max_bytes: Limit of the memory for vectors.
    """

    def __init__(self, encoder: nn.Module, share: float, max_bytes: int = CACHE_BYTES) -> None:
        layers = list_layers(encoder)
        n_frozen = max(1, round(share * len(layers)))
        self.layers, self.trained = list(layers[:n_frozen]), list(layers[n_frozen:])
        first = next(layers.parameters())
        embeddings = takewhile(lambda parameter: parameter is not first, encoder.parameters())
        parameters = [*embeddings, *(parameter for layer in self.layers for parameter in layer.parameters())]
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in self._parameters:
            parameter.requires_grad_(False)
        self._bytes_left = max_bytes
        self._vectors: dict[bytes, Tensor] = {}
        """What the highest frozen layer returns, by window."""
        self._rows: list[tuple[bytes, int]] = []
        """The windows of the present batch, with their numbers of tokens."""
        self._known: Tensor | None = None
        """The vectors of the present batch, if all of its windows are known."""
        self._returns_tensor = True
        """Whether layers return their vectors as such, and not in a tuple, as before transformers 5."""
        self._hook = encoder.register_forward_pre_hook(self._begin, with_kwargs=True)
        for layer in self.layers:
            layer.forward = partial(self._run, layer, layer.forward)

    def close(self) -> None:
        """Make the layers trainable again."""
        self._hook.remove()
        for layer in self.layers:
            del layer.forward  # which hides the method of the class
        for parameter in self._parameters:
            parameter.requires_grad_(True)

    def _begin(self, encoder: nn.Module, args: tuple[Any, ...], inputs: Mapping[str, Any]) -> None:
        """Look up the windows of a batch, which has one per row unless it is packed."""
        training = any(layer.training for layer in self.trained)
        encoder.eval()  # embeddings have dropout too
        for layer in self.trained:
            layer.train(training)
        ids, mask, types = (inputs.get(name) for name in ("input_ids", "attention_mask", "token_type_ids"))
        self._rows, self._known = [], None
        if ids is None or mask is None or mask.ndim != 2 or ids.is_cuda:
            return
        for row, length in enumerate(mask.sum(1).tolist()):
            parts = [ids[row, :length]] if types is None else [ids[row, :length], types[row, :length]]
            self._rows.append((torch.cat(parts).numpy().tobytes(), length))
        vectors = [self._vectors[window] for window, _ in self._rows if window in self._vectors]
        if len(vectors) == len(self._rows):
            self._known = torch.stack([F.pad(each, (0, 0, 0, ids.shape[1] - len(each))) for each in vectors])

    def _run(self, layer: nn.Module, forward: Callable[..., Any], hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
        """What a frozen layer returns: known or computed."""
        is_last = layer is self.layers[-1]
        if self._known is not None:
            vectors = self._known if is_last else hidden
            return vectors if self._returns_tensor else (vectors,)
        with torch.no_grad():
            output = forward(hidden, *args, **kwargs)
        self._returns_tensor = isinstance(output, Tensor)
        if is_last:
            self._keep(output if self._returns_tensor else output[0])
        return output

    def _keep(self, output: Tensor) -> None:
        for row, (window, length) in enumerate(self._rows):
            vectors = output[row, :length].clone()
            if window not in self._vectors and vectors.nbytes <= self._bytes_left:
                self._vectors[window] = vectors
                self._bytes_left -= vectors.nbytes
