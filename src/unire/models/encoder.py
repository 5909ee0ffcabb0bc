"""Pretrained encoders from Hugging Face, and what windows must know of them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import nn

from unire.config import EncoderSpec
from unire.errors import UnireError
from unire.hub.client import is_reachable, quiet_client
from unire.hub.model_dir import ModelDir, is_model_dir
from unire.models.attention import freeze_position_bias, use_fast_attention
from unire.pretrained import list_bundled

__all__ = ["build_encoder", "digest_of", "first_position", "load_encoder", "load_tokenizer", "quiet", "takes_positions"]

POSITIONED = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
"""Kinds of encoders, beside MPNet, that know the order of tokens from the positions that are given and nothing else."""

MAX_TOKENS = 512
"""Longest encoder input, even where an encoder could read more: tables are made of sentences, not of books."""


def load_encoder(name: str | Path, *, case_marks: bool = False) -> tuple[nn.Module, Tokenizer, EncoderSpec]:
    """An encoder by Hub name or folder, with its fast tokenizer; of a model of ours, in the box too, its own.

    Args:
        name: Of the encoder.
        case_marks: Whether it is to be told of capitals.
    """
    encoder, tokenizer, spec = _load(name)
    return encoder, tokenizer, spec.with_case_marks(tokenizer) if case_marks else spec


def _load(name: str | Path) -> tuple[nn.Module, Tokenizer, EncoderSpec]:
    if is_model_dir(name):
        from unire.models.checkpoint import load

        model = load(name)
        return model.encoder, model.tokenizer, model.config.spec
    try:
        with quiet(), quiet_client():
            here = _only_here(name)
            model = transformers.AutoModel.from_pretrained(
                name, use_safetensors=True, dtype="float32", local_files_only=here
            )
            slow_or_fast = transformers.AutoTokenizer.from_pretrained(name, local_files_only=here)
    except (OSError, ValueError, ImportError) as error:
        raise UnireError(
            f"encoder {str(name)!r} cannot be loaded; give a Hub name, a folder with config.json, model.safetensors "
            f"and tokenizer.json, or a model of ours, and {list_bundled()} ({_reason(error)})"
        ) from None
    if not getattr(slow_or_fast, "is_fast", False):
        raise UnireError(f"encoder {str(name)!r} has no fast tokenizer (tokenizer.json)")
    encoder = _tidy(model)
    tokenizer: Tokenizer = slow_or_fast.backend_tokenizer
    spec = EncoderSpec.probe(
        tokenizer,
        max_pieces=longest_input(encoder),
        token_types=reads_token_types(encoder),
        pad_id=slow_or_fast.pad_token_id or 0,
        unk_id=slow_or_fast.unk_token_id if slow_or_fast.unk_token_id is not None else slow_or_fast.pad_token_id or 0,
    )
    return encoder, tokenizer, spec


def _only_here(name: str | Path) -> bool:
    """Whether a name is looked for on this machine alone, since the Hub cannot be reached."""
    return not Path(name).is_dir() and not is_reachable(str(name), "config.json")


def load_tokenizer(name: str | Path) -> Any:
    """The tokenizer of an encoder as transformers knows it, with names for its special tokens.

    A model of ours keeps `tokenizer.json` alone: which of the tokens is which is in its `EncoderSpec`, but for the
    mask, for which it has no use and which is told by its name.
    """
    if not is_model_dir(name):
        return transformers.AutoTokenizer.from_pretrained(name, local_files_only=_only_here(name))
    model = ModelDir.open(name)
    spec, tokenizer = model.config.spec, model.tokenizer
    frame = spec.prefix + spec.suffix
    ids = {"pad": spec.pad_id, "unk": spec.unk_id, "cls": frame[0], "sep": frame[-1]}
    special = (added.content for added in tokenizer.get_added_tokens_decoder().values() if added.special)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        mask_token=next((token for token in special if "mask" in token.lower()), None),
        **{f"{role}_token": tokenizer.id_to_token(place) for role, place in ids.items()},
    )


def digest_of(encoder: nn.Module) -> str:
    """A short name for an encoder's weights, wherever they come from: other weights, another name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().flatten().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def build_encoder(config: Mapping[str, Any]) -> nn.Module:
    """An encoder of this configuration with random weights, to be filled from a checkpoint."""
    try:
        return _tidy(transformers.AutoModel.from_config(transformers.AutoConfig.for_model(**dict(config))))
    except Exception as error:  # a size below zero, or of nothing, fails wherever it is first used
        raise UnireError(
            f"the encoder in the checkpoint is not one that transformers knows ({_reason(error)})"
        ) from None


def longest_input(encoder: Any) -> int:
    """How many tokens the encoder can read at once, special ones included."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or MAX_TOKENS
    return min(positions - first_position(encoder), MAX_TOKENS)


def first_position(encoder: Any) -> int:
    """The position id of the first token: RoBERTa and its kin (MPNet too) count from behind the padding id."""
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def reads_token_types(encoder: Any) -> bool:
    takes_them = "token_type_ids" in inspect.signature(encoder.forward).parameters
    return takes_them and (getattr(encoder.config, "type_vocab_size", 0) or 0) > 1


def takes_positions(encoder: Any) -> bool:
    """Whether an encoder can be told where its tokens stand and which of them see each other, and goes by that alone.

    Others take the same arguments, but add up a mask that says yes and no, or have convolutions: nothing would fail. So
    only those do that were looked at, with kernels to which such a mask means what it says.
    """
    config = encoder.config
    if config.model_type == "mpnet":  # whose attention is ours
        return True
    return config.model_type in POSITIONED and config._attn_implementation == "sdpa"


def _reason(error: Exception) -> str:
    """The first line of an error, which may have many or none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars of transformers, and its warning that the pooler, which we leave out, is not there."""
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


def _tidy(encoder: Any) -> nn.Module:
    """Leave out the pooler, which nothing reads, and use the fastest exact attention, with or without gradients."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    use_fast_attention(encoder)
    freeze_position_bias(encoder)
    module: nn.Module = encoder
    return module
