"""Masked language modelling: which tokens are hidden, and an encoder that learns to name them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor, nn

from unire.models.attention import attention_kernels
from unire.utils import has_bf16

__all__ = ["MaskedLM", "MaskedTrainer", "WholeWordMasking"]

log = logging.getLogger(__name__)

CLIP = 1.0
"""Gradients longer than this are shortened to it."""
HEAD_RATE = 10
"""The head starts from nothing, so it learns this much faster than the encoder."""
PART = 512
"""Tokens that a CPU computes at once: more are no faster, take memory, and keep whoever looks at the clock waiting."""


class WholeWordMasking(nn.Module):
    """Hides words: every row loses the same number of tokens, so that all shapes are known before.

    Of the hidden tokens 80% become the mask, 10% a random token, and 10% stay. All tokens of a word are hidden
    together, but for one word of a row, which may be hidden in part to make the number come out.

    Args:
        tokenizer: Says which tokens go on with the word before them.
        mask_id: The token that hides others.
        special_ids: Tokens that are never hidden.
        rate: The share of the tokens that is hidden.
    """

    continues: Tensor
    special: Tensor

    def __init__(self, tokenizer: Tokenizer, *, mask_id: int, special_ids: Iterable[int], rate: float) -> None:
        super().__init__()
        self.mask_id = mask_id
        self.rate = rate
        vocabulary = tokenizer.get_vocab()
        size = max(vocabulary.values()) + 1
        continues = torch.zeros(size, dtype=torch.bool)
        continues[[place for token, place in vocabulary.items() if _continues(token, tokenizer)]] = True
        special = torch.zeros(size, dtype=torch.bool)
        special[list(special_ids)] = True
        self.register_buffer("continues", continues & ~special, persistent=False)
        self.register_buffer("special", special, persistent=False)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hide tokens of `ids`, [B, L].

        Returns:
            The tokens with some of them hidden, [B, L]; where these are, [B, M]; and what they were, [B, M].
        """
        rows, length = ids.shape
        word = (~self.continues[ids]).cumsum(1)  # [B, L], from 0 (the row starts inside a word) to L
        lot = torch.rand(rows, length + 1, device=ids.device).gather(1, word).masked_fill(self.special[ids], -1)
        positions = lot.topk(round(self.rate * length), sorted=False).indices
        hidden = ids.gather(1, positions)
        fate = torch.rand(hidden.shape, device=ids.device)
        shown = torch.where(fate < 0.9, torch.randint_like(hidden, len(self.special)), hidden)
        shown = torch.where(fate < 0.8, self.mask_id, shown)
        return ids.scatter(1, positions, shown), positions, hidden


class _Head(nn.Module):
    """Names hidden tokens, with the encoder's own embeddings as the output layer."""

    def __init__(self, n_in: int, n_embedding: int, n_tokens: int) -> None:
        super().__init__()
        self.dense = nn.Linear(n_in, n_embedding)
        self.norm = nn.LayerNorm(n_embedding)
        self.bias = nn.Parameter(torch.zeros(n_tokens))
        # what an encoder says of a token is not far from the token's embedding, so begin with that
        nn.init.eye_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: Tensor, positions: Tensor, tokens: Tensor, embeddings: Tensor) -> Tensor:
        """The mean loss over the hidden tokens and the share of them that is named right, [2].

        Args:
            vectors: Of the encoder, [B, L, d].
            positions: Of the hidden tokens, [B, M].
            tokens: The hidden tokens, [B, M].
            embeddings: One for each token, [V, e].
        """
        vectors = vectors.gather(1, positions.unsqueeze(-1).expand(-1, -1, vectors.shape[-1]))  # [B, M, d]
        vectors = self.norm(F.gelu(self.dense(vectors)))
        # matrix units want sizes that they can divide; tokens that do not exist have probability 0
        spare = -len(embeddings) % 64
        weight = F.pad(embeddings, (0, 0, 0, spare))
        logits = F.linear(vectors, weight, F.pad(self.bias, (0, spare), value=-torch.inf))  # [B, M, V]
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        right = logits.detach().gather(2, tokens.unsqueeze(-1)).squeeze(-1) >= logits.detach().amax(-1)
        return torch.stack([loss, right.float().mean()])


class MaskedLM(nn.Module):
    """An encoder with a fresh head that names hidden tokens."""

    def __init__(self, encoder: Any, masking: WholeWordMasking) -> None:
        super().__init__()
        embeddings = encoder.get_input_embeddings().weight
        self.encoder = encoder
        self.masking = masking
        self.head = _Head(encoder.config.hidden_size, embeddings.shape[1], embeddings.shape[0])

    def forward(self, shown: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
        """Loss and accuracy, [2], on what `masking` made of rows."""
        with attention_kernels(shown.shape[1]):
            vectors = self.encoder(input_ids=shown).last_hidden_state
        outcome: Tensor = self.head(vectors, positions, tokens, self.encoder.get_input_embeddings().weight)
        return outcome


class MaskedTrainer:
    """Takes optimiser steps, without ever waiting for the device.

    On a GPU the parameters stay in float32, what flows between them is bfloat16, and the model's parts are compiled.
    Dropout stays off: a few passes over a corpus do not overfit, and attention is faster without.

    Args:
        model: What to train; moved to `device`.
        lr: The peak rate of the encoder.
        device: Where to train.
        compiled: Whether to compile; by default on a GPU.
        part: Tokens that are computed at once, if it is a row or more; by default some on a CPU, and all on a GPU.
    """

    def __init__(
        self,
        model: MaskedLM,
        *,
        lr: float,
        device: torch.device,
        compiled: bool | None = None,
        part: int | None = None,
    ) -> None:
        on_gpu = device.type == "cuda"
        self.model = model.to(device).eval()
        self.device = device
        self.part = part or (None if on_gpu else PART)
        self.bf16 = on_gpu and has_bf16()
        if self.bf16:
            _narrow_norms(self.model)
        self.optimizer = _adamw(self.model, lr)
        self._compiled = _compile(self.model) if (on_gpu if compiled is None else compiled) else []

    def warm_up(self, rows: int, length: int) -> None:
        """Compile for batches of this shape; where that fails, go on without. What is not compiled needs none."""
        if self.device.type != "cuda" and not self._compiled:
            return
        ids = np.random.default_rng(0).integers(len(self.model.masking.special), size=(rows, length), dtype=np.int32)
        try:
            self.find_gradients(ids, seed=0)
        except Exception as error:
            if not self._compiled:
                raise
            log.warning("the model is trained without compiling it, which failed: %s", str(error).splitlines()[0])
            for module in self._compiled:
                del module.forward
            self._compiled = []
            self.find_gradients(ids, seed=0)
        self.optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def find_gradients(
        self, rows: NDArray[np.int32], seed: int, enough: Callable[[], bool] = lambda: False
    ) -> tuple[Tensor, int]:
        """Find the gradients for a step on `rows`, [B, L]: the same, part by part or at once.

        Args:
            rows: Tokens.
            seed: Decides what is hidden.
            enough: Asked between two parts; where it holds, the gradients are those of the rows that were read.

        Returns:
            Loss and accuracy, [2], on the device; and how many rows were read.
        """
        torch.manual_seed(seed)
        ids = torch.from_numpy(rows)
        if self.device.type == "cuda":
            ids = ids.pin_memory().to(self.device, non_blocking=True)
        masked = self.model.masking(ids.long())
        at_once = max(1, self.part // rows.shape[1]) if self.part else len(rows)
        if len(rows) <= at_once:
            return self._backward(masked, None), len(rows)
        total, read = torch.zeros(2, device=self.device), 0
        for part in zip(*(tensor.split(at_once) for tensor in masked), strict=True):
            if read and enough():
                break
            # all rows have as many hidden tokens, so a mean over these is one over rows
            share = torch.tensor(len(part[0]) / len(rows), device=self.device)
            total += self._backward(part, share) * share
            read += len(part[0])
        if read < len(rows):
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad *= len(rows) / read
        return total * (len(rows) / read), read

    def step(self, rate: float) -> None:
        """Take the step whose gradients were found, at the share `rate` (0 to 1) of the peak rates."""
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * rate
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _backward(self, masked: tuple[Tensor, ...], weight: Tensor | None) -> Tensor:
        """Add to the gradients those of the loss, times `weight` if there is one; loss and accuracy."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            outcome: Tensor = self.model(*masked)
        outcome[0].backward(weight)  # type: ignore[no-untyped-call]
        return outcome.detach()


def _continues(token: str, tokenizer: Tokenizer) -> bool:
    """Whether `token` goes on with a word: WordPiece marks these, all others mark the beginning."""
    if isinstance(tokenizer.model, WordPiece):
        return token.startswith(tokenizer.model.continuing_subword_prefix)
    return not token.startswith(("Ġ", "▁"))


def _narrow_norms(model: nn.Module) -> None:
    """Have layer norms hand on bfloat16: by default autocast leaves them, and all that is added to them, in float32."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_hook(lambda _module, _inputs, output: output.to(torch.bfloat16))


def _compile(model: MaskedLM) -> list[Any]:
    """Compile the model part by part and return the parts.

    The layers are alike, so all of them are compiled as one: a fraction of the time that the whole would take, for
    the same kernels. Deleting a part's attribute `forward` undoes it.
    """
    stacks = [list(module) for module in model.encoder.modules() if isinstance(module, nn.ModuleList)]
    layers = max(stacks, key=len, default=[model.encoder])
    embeddings = [model.encoder.embeddings] if hasattr(model.encoder, "embeddings") else []
    parts: list[Any] = [*embeddings, *layers, model.head]
    for part in parts:
        part.forward = torch.compile(part.forward, dynamic=False)
    return parts


def _adamw(model: MaskedLM, lr: float) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices alone."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for part, peak in ((model.encoder, lr), (model.head, lr * HEAD_RATE)):
        for parameter in part.parameters():
            if parameter.requires_grad:
                groups.setdefault((peak, 0.01 if parameter.dim() > 1 else 0.0), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": p, "lr": peak, "peak": peak, "weight_decay": decay} for (peak, decay), p in groups.items()],
        betas=(0.9, 0.98),
        eps=1e-6,
        fused=model.head.bias.is_cuda,
    )
