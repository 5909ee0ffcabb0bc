"""Check encoders before and after they are built, because their configuration may come from a stranger.

transformers builds what a configuration describes: any number of layers, of any size. So the numbers in it are checked
first (`check_encoder_config`), then the growing model is compared with the weights (`limit_sizes`), and at last the
encoder must read a short text (`check_encoder`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from unire.config import EncoderSpec
from unire.errors import UnireError, describe_error, shorten
from unire.files import is_stream
from unire.model_files import check_tokenizer_file, load_json

__all__ = ["check_encoder", "check_encoder_config", "check_encoder_folder", "limit_sizes"]

MAX_CONFIG_INTEGER = 2**21
"""The largest whole number in the configuration of an encoder. The largest vocabularies have a million tokens."""
UNLIMITED_KEYS = ("theta",)
"""Parts of the keys of numbers that are no sizes."""
CODE_KEYS = ("attn_implementation", "experts_implementation")
"""Parts of the keys that can name a repository on the Hub with code."""
WEIGHT_COPIES = 4
"""A model may have this many times the numbers that its weights have: weights that are shared are built once for each
layer that uses them."""
MAX_BUFFER_NUMBERS = 2**24
"""Numbers that a model may have beside its weights, such as tables of positions."""
MODULES_PER_TENSOR = 10
MAX_MODULES_WITHOUT_TENSORS = 1000


def check_encoder_folder(folder: Path) -> int:
    """Check the files of an encoder before transformers reads them; return the size of its weights in bytes."""
    for file in folder.iterdir():
        if is_stream(file):
            raise UnireError(f"{str(file)!r} is not a regular file")
    if (folder / "config.json").exists():
        check_encoder_config(load_json(folder / "config.json"))
    if (folder / "tokenizer.json").exists():
        check_tokenizer_file(folder / "tokenizer.json")
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def check_encoder_config(config: object, key: str = "") -> None:
    """Refuse a configuration, as in `config.json`, that names impossible sizes, or code from the Hub."""
    if isinstance(config, Mapping):
        for name, value in config.items():
            check_encoder_config(value, f"{key}.{name}" if key else str(name))
    elif isinstance(config, (list, tuple)):
        for value in config:
            check_encoder_config(value, key)
    elif (
        isinstance(config, int) and abs(config) > MAX_CONFIG_INTEGER and not any(part in key for part in UNLIMITED_KEYS)
    ):
        raise UnireError(f"{shorten(key)} of the encoder is {config}, above {MAX_CONFIG_INTEGER:,}")
    elif isinstance(config, str) and "/" in config and any(part in key for part in CODE_KEYS):
        raise UnireError(
            f"{shorten(key)} of the encoder names code on the Hub ({shorten(config)}), which is not loaded"
        )


@contextmanager
def limit_sizes(n_numbers: int, n_tensors: int) -> Iterator[None]:
    """Stop the construction of a model in the body as soon as it has more than its weights can fill.

    Args:
        n_numbers: Numbers in the file of the weights.
        n_tensors: Tensors in this file.
    """
    left = {
        "numbers": WEIGHT_COPIES * n_numbers + MAX_BUFFER_NUMBERS,
        "layers": MODULES_PER_TENSOR * n_tensors + MAX_MODULES_WITHOUT_TENSORS,
    }
    thread = get_ident()

    def count(what: str, number: int) -> None:
        if get_ident() != thread:  # the hooks are called for all models of the process
            return
        left[what] -= number
        if left[what] < 0:
            raise UnireError(f"the configuration describes a model with many more {what} than the weights have")

    def count_tensor(_: nn.Module, __: str, tensor: Tensor | None) -> None:
        count("numbers", 0 if tensor is None else math.prod(tensor.shape))

    hooks = [
        module_hooks.register_module_parameter_registration_hook(count_tensor),
        module_hooks.register_module_buffer_registration_hook(count_tensor),
        module_hooks.register_module_module_registration_hook(lambda *_: count("layers", 1)),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def check_encoder(encoder: Any, tokenizer: Tokenizer, spec: EncoderSpec, max_input_tokens: int) -> None:
    """Let an encoder read its special tokens, and compare its sizes with its tokenizer and its spec.

    Args:
        encoder: The encoder, on the CPU.
        tokenizer: Its tokenizer.
        spec: The special tokens, and the longest input.
        max_input_tokens: The longest input that the encoder can read.
    """
    added = tokenizer.get_added_tokens_decoder()
    readable = [token for token in added if not added[token].special]  # special tokens are read as plain text
    largest = max([0, *tokenizer.get_vocab(with_added_tokens=False).values(), *readable])
    if (n_tokens := getattr(encoder.config, "vocab_size", None)) is not None and largest >= n_tokens:
        raise UnireError(f"its tokenizer has a token {largest}, but the encoder has {n_tokens} tokens")
    if spec.max_pieces > max_input_tokens:
        raise UnireError(f"its inputs have up to {spec.max_pieces} tokens, but the encoder reads {max_input_tokens}")
    ids = torch.tensor([[*spec.prefix, spec.unk_id, *spec.suffix]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if spec.token_types:
        inputs["token_type_ids"] = torch.ones_like(ids)
    was_training = encoder.training
    try:
        hidden: Tensor = encoder.eval()(**inputs).last_hidden_state
    except Exception as error:
        raise UnireError(f"its encoder cannot read a text ({describe_error(error)})") from None
    finally:
        encoder.train(was_training)
    if hidden.shape != (*ids.shape, encoder.config.hidden_size):
        raise UnireError("its encoder does not compute one vector for each token")
