"""Pretrained encoders from Hugging Face, with their tokenizers and `EncoderSpec`.

An encoder may come from a stranger, and transformers builds what a configuration describes: any number of layers, of
any size. So the numbers in it are checked first (`check_encoder_config`), then the growing model is compared with the
weights (`limit_sizes`), and at last the encoder must read a short text (`check_encoder`).
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from unire.config import EncoderSpec
from unire.errors import UnireError, describe_error, shorten
from unire.files import is_stream
from unire.hub.client import is_reachable, quiet_client
from unire.hub.model_dir import ModelDir, is_model_dir
from unire.model_files import check_tokenizer_file, is_panic, load_json
from unire.models.fused_attention import freeze_position_bias, use_fast_attention
from unire.pretrained import describe_available

__all__ = [
    "build_encoder",
    "check_encoder",
    "check_encoder_config",
    "check_encoder_folder",
    "digest_weights",
    "first_position",
    "limit_sizes",
    "load_encoder",
    "load_tokenizer",
    "quiet_transformers",
    "supports_position_ids",
]

POSITION_ID_MODELS = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
"""Model types, besides MPNet, that know the order of tokens from `position_ids` alone."""

MAX_INPUT_TOKENS = 512
"""Limit of encoder inputs, even if an encoder can read more: tables are of sentences, not of whole texts."""
MAX_DOWNLOADED_BYTES = 2**35
"""Size of the weights of the largest encoder on the Hub."""


def load_encoder(name: str | Path, *, case_marks: bool = False) -> tuple[nn.Module, Tokenizer, EncoderSpec]:
    """Load an encoder, its fast tokenizer and its spec.

    Args:
        name: Hub name or folder of an encoder, or of a UniRE model (also a bundled one), whose encoder is used.
        case_marks: Whether to mark words with capitals, for encoders that are uncased.
    """
    encoder, tokenizer, spec = _load(name)
    return encoder, tokenizer, spec.with_case_marks(tokenizer) if case_marks else spec


def _load(name: str | Path) -> tuple[nn.Module, Tokenizer, EncoderSpec]:
    if is_model_dir(name):
        from unire.models.checkpoint import load_checkpoint

        model = load_checkpoint(name)
        return model.encoder, model.tokenizer, model.config.spec
    with _explain_load_errors(name), quiet_transformers(), quiet_client():
        options = {"local_files_only": _is_local_only(name), "trust_remote_code": False}
        n_bytes = check_encoder_folder(Path(name)) if Path(name).is_dir() else MAX_DOWNLOADED_BYTES
        check_encoder_config(transformers.PretrainedConfig.get_config_dict(name, **options)[0])
        with limit_sizes(n_bytes, n_bytes):
            model = transformers.AutoModel.from_pretrained(name, use_safetensors=True, dtype="float32", **options)
        slow_or_fast = transformers.AutoTokenizer.from_pretrained(name, **options)
        if not getattr(slow_or_fast, "is_fast", False):
            raise UnireError("it has no fast tokenizer, tokenizer.json")
        encoder = _prepare(model)
        tokenizer: Tokenizer = slow_or_fast.backend_tokenizer
        pad_id, unk_id = slow_or_fast.pad_token_id or 0, slow_or_fast.unk_token_id
        spec = EncoderSpec.probe(
            tokenizer,
            max_pieces=max_input_tokens(encoder),
            token_types=has_token_types(encoder),
            pad_id=pad_id,
            unk_id=pad_id if unk_id is None else unk_id,
        )
        check_encoder(encoder, tokenizer, spec, max_input_tokens(encoder))
    return encoder, tokenizer, spec


@contextmanager
def _explain_load_errors(name: str | Path) -> Iterator[None]:
    """Turn the errors of transformers, which may be of any type, into a `UnireError`."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise UnireError(
            f"encoder {str(name)!r} cannot be loaded; give a Hub name, a folder with config.json, model.safetensors "
            f"and tokenizer.json, or a unire model; {describe_available()} ({describe_error(error)})"
        ) from None


def _is_local_only(name: str | Path) -> bool:
    """Whether to look for a name only on this machine, because the Hub cannot be reached."""
    return not Path(name).is_dir() and not is_reachable(str(name), "config.json")


def load_tokenizer(name: str | Path) -> Any:
    """Load the tokenizer of an encoder as a `transformers` tokenizer, which knows its special tokens.

    A UniRE model has only `tokenizer.json`. Its special tokens are taken from its `EncoderSpec`. The mask token, which
    the spec lacks, is recognised by its name.
    """
    if not is_model_dir(name):
        with _explain_load_errors(name):
            if Path(name).is_dir():
                check_encoder_folder(Path(name))
            return transformers.AutoTokenizer.from_pretrained(
                name, local_files_only=_is_local_only(name), trust_remote_code=False
            )
    model = ModelDir.open(name)
    spec, tokenizer = model.config.spec, model.tokenizer
    framing = spec.prefix + spec.suffix
    ids = {"pad": spec.pad_id, "unk": spec.unk_id, "cls": framing[0], "sep": framing[-1]}
    special = (added.content for added in tokenizer.get_added_tokens_decoder().values() if added.special)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        mask_token=next((token for token in special if "mask" in token.lower()), None),
        **{f"{role}_token": tokenizer.id_to_token(token_id) for role, token_id in ids.items()},
    )


def digest_weights(encoder: nn.Module) -> str:
    """A short hash of an encoder's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().flatten().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def build_encoder(config: Mapping[str, Any]) -> nn.Module:
    """Build an encoder with random weights from its configuration."""
    try:
        check_encoder_config(config)
        settings = transformers.AutoConfig.for_model(**dict(config))
        settings.return_dict, settings.chunk_size_feed_forward = True, 0  # what we read, whatever the model says
        return _prepare(
            transformers.AutoModel.from_config(settings, dtype=torch.float32, trust_remote_code=False)  # no code
        )
    except UnireError:
        raise
    except Exception as error:  # an impossible size fails wherever it is first used
        raise UnireError(
            f"the encoder in the checkpoint is not one that transformers knows ({describe_error(error)})"
        ) from None


def max_input_tokens(encoder: Any) -> int:
    """The longest input of an encoder, including special tokens."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or MAX_INPUT_TOKENS
    return min(positions - first_position(encoder), MAX_INPUT_TOKENS)


def first_position(encoder: Any) -> int:
    """The position id of the first token. RoBERTa and similar models (MPNet too) count from behind the padding id."""
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def has_token_types(encoder: Any) -> bool:
    """Whether an encoder distinguishes two segments by token types."""
    accepts = "token_type_ids" in inspect.signature(encoder.forward).parameters
    return accepts and (getattr(encoder.config, "type_vocab_size", 0) or 0) > 1


def supports_position_ids(encoder: Any) -> bool:
    """Whether windows can be packed for an encoder: it uses `position_ids` and a mask of token pairs, and nothing else.

    Other encoders accept these arguments too, but add a boolean mask to the scores, or have convolutions, so that they
    would compute something else without an error. So this is true only for model types that were checked.
    """
    config = encoder.config
    if config.model_type == "mpnet":  # its attention is our own, see fused_attention.py
        return True
    return config.model_type in POSITION_ID_MODELS and config._attn_implementation == "sdpa"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the progress bars of transformers, and its warning about the missing pooler, which is not used."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _prepare(encoder: Any) -> nn.Module:
    """Remove the pooler, which is not used, and use the fastest exact attention."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    use_fast_attention(encoder)
    freeze_position_bias(encoder)
    module: nn.Module = encoder
    return module


# Checks

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
"""Numbers that a model may have in addition to its weights, such as tables of positions."""
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
