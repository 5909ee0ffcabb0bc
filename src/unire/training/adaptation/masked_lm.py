"""Masked-language modelling: whole-word masking, the model, and its task for the trainer."""

from __future__ import annotations

import itertools
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor, nn

from unire.errors import UnireError
from unire.models.fused_attention import attention_kernels
from unire.training.adaptation.packed_corpus import PackedCorpus
from unire.training.config import AdaptationConfig
from unire.training.optimizer import Schedule
from unire.training.trainer import Task, Trainer
from unire.utils import copy_to_device, has_bf16

__all__ = ["MaskedLM", "MaskedLMTask", "WholeWordMasking"]

log = logging.getLogger(__name__)

MAX_NORM = 1.0
"""Gradients with a larger norm are scaled down to it."""
HEAD_RATE_FACTOR = 10
"""The head is new, so its learning rate is this many times that of the encoder."""
MAX_CPU_TOKENS = 512
"""Tokens that a CPU computes at once: more are no faster, take memory, and delay the check of the time."""
START_STEPS = 10
"""Steps in the mean loss at the start: by then the head knows little more than the frequencies of tokens."""
MEAN_STEPS = 50
"""Steps in later means of loss and accuracy, but no more than half of all."""


class WholeWordMasking(nn.Module):
    """Masks whole words, as many tokens in every row, so that all shapes are fixed.

    Of the masked tokens 80% become the mask token, 10% a random token, and 10% stay. All tokens of a word are masked
    together. One word of a row may be masked in part, so that the number is exact.

    Args:
        tokenizer: Decides which tokens continue a word.
        mask_id: The mask token.
        special_ids: Tokens that are never masked.
        rate: The fraction of tokens to mask.
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
        """Mask tokens of `ids`, [B, L].

        Returns:
            The tokens with some of them masked, [B, L]; their positions, [B, M]; and their original ids, [B, M].
        """
        rows, length = ids.shape
        word = (~self.continues[ids]).cumsum(1)  # [B, L], from 0 (the row starts inside a word) to L
        draw = torch.rand(rows, length + 1, device=ids.device).gather(1, word).masked_fill(self.special[ids], -1)
        positions = draw.topk(round(self.rate * length), sorted=False).indices
        hidden = ids.gather(1, positions)
        roll = torch.rand(hidden.shape, device=ids.device)
        shown = torch.where(roll < 0.9, torch.randint_like(hidden, len(self.special)), hidden)
        shown = torch.where(roll < 0.8, self.mask_id, shown)
        return ids.scatter(1, positions, shown), positions, hidden


class _Head(nn.Module):
    """Predicts masked tokens, with the encoder's embeddings as the output layer."""

    def __init__(self, n_in: int, n_embedding: int, n_tokens: int) -> None:
        super().__init__()
        self.dense = nn.Linear(n_in, n_embedding)
        self.norm = nn.LayerNorm(n_embedding)
        self.bias = nn.Parameter(torch.zeros(n_tokens))
        # the encoder's output for a token is close to its embedding, so start with the identity
        nn.init.eye_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: Tensor, positions: Tensor, tokens: Tensor, embeddings: Tensor) -> Tensor:
        """Mean loss and accuracy over the masked tokens, [2].

        Args:
            vectors: Output of the encoder, [B, L, d].
            positions: Positions of the masked tokens, [B, M].
            tokens: Their original ids, [B, M].
            embeddings: One for each token of the vocabulary, [V, e].
        """
        vectors = vectors.gather(1, positions.unsqueeze(-1).expand(-1, -1, vectors.shape[-1]))  # [B, M, d]
        vectors = self.norm(F.gelu(self.dense(vectors)))
        # matrix units need sizes that are multiples of 64; padded tokens have probability 0
        padding = -len(embeddings) % 64
        weight = F.pad(embeddings, (0, 0, 0, padding))
        logits = F.linear(vectors, weight, F.pad(self.bias, (0, padding), value=-torch.inf))  # [B, M, V]
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        right = logits.detach().gather(2, tokens.unsqueeze(-1)).squeeze(-1) >= logits.detach().amax(-1)
        return torch.stack([loss, right.float().mean()])


class MaskedLM(nn.Module):
    """An encoder with a new head that predicts masked tokens."""

    def __init__(self, encoder: Any, masking: WholeWordMasking) -> None:
        super().__init__()
        embeddings = encoder.get_input_embeddings().weight
        self.encoder = encoder
        self.masking = masking
        self.head = _Head(encoder.config.hidden_size, embeddings.shape[1], embeddings.shape[0])

    def forward(self, shown: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
        """Loss and accuracy, [2], on the output of `masking`."""
        with attention_kernels(shown.shape[1]):
            vectors = self.encoder(input_ids=shown).last_hidden_state
        outcome: Tensor = self.head(vectors, positions, tokens, self.encoder.get_input_embeddings().weight)
        return outcome


class MaskedLMTask(Task):
    """Masked-language modelling as a task of the trainer. Steps never wait for the device.

    On a GPU, parameters stay in float32, activations are bfloat16, and the parts of the model are compiled. There is no
    dropout: a few passes over a corpus do not overfit, and attention is faster without.

    Args:
        model: What to train; moved to `device`.
        config: With a number of tokens per step.
        device: Where to train.
        corpus: Rows of packed tokens.
        settings: What a resumed training must share.
        compiled: Whether to compile; by default on a GPU.
        max_tokens: Tokens that are computed at once, if that is a row or more; by default all on a GPU.
    """

    clip = MAX_NORM
    model: MaskedLM

    def __init__(
        self,
        model: MaskedLM,
        config: AdaptationConfig,
        device: torch.device,
        corpus: PackedCorpus | None = None,
        *,
        settings: dict[str, Any] | None = None,
        compiled: bool | None = None,
        max_tokens: int | None = None,
    ) -> None:
        on_gpu = device.type == "cuda"
        self.model = model.to(device).eval()
        self.config = config
        self.device = device
        self.corpus = corpus
        self.settings = settings or {}
        self.max_tokens = max_tokens or (None if on_gpu else MAX_CPU_TOKENS)
        self.bf16 = on_gpu and has_bf16()
        if self.bf16:
            _narrow_norms(self.model)
        self.optimizer = _adamw(self.model, config.lr)
        self.schedule = Schedule(self.optimizer, config.warmup)
        self.loss_sums = torch.zeros(2, device=device)  # an endless epoch has no mean; see `metrics`
        self.loss_start: float | None = None
        self.rows_read = self._rows_before = 0
        self._outcomes: deque[Tensor] = deque(maxlen=MEAN_STEPS)
        """Loss and accuracy of the last steps, on the device."""
        self._compiled = _compile(self.model) if (on_gpu if compiled is None else compiled) else []

    def warm_up(self, rows: int, length: int) -> None:
        """Compile for batches of this shape. If that fails, train without compiling."""
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

    def steps(self, epoch: int, start: int) -> tuple[None, Iterator[tuple[int, NDArray[np.int32]]]]:
        """The number and the rows of every step, without end."""
        if self.corpus is None:
            raise UnireError("there is no corpus to train on")
        rows, corpus = self.config.rows, self.corpus
        return None, ((step, corpus.rows(step * rows, rows)) for step in itertools.count(start))

    def backward(self, step: tuple[int, NDArray[np.int32]], out_of_time: Callable[[], bool]) -> None:
        number, rows = step
        outcome, read = self.find_gradients(rows, self.config.seed + number, out_of_time)
        self._outcomes.append(outcome)
        self.rows_read += read
        if number + 1 == START_STEPS:
            self.loss_start = _mean(self._outcomes)[0]

    def find_gradients(
        self, rows: NDArray[np.int32], seed: int, out_of_time: Callable[[], bool] = lambda: False
    ) -> tuple[Tensor, int]:
        """Add the gradients of a step on `rows`, [B, L], to the parameters'; part by part, or at once.

        Args:
            rows: Tokens.
            seed: Decides which tokens are masked.
            out_of_time: Called between two parts; if true, the gradients are those of the rows that were read.

        Returns:
            Loss and accuracy, [2], on the device; and how many rows were read.
        """
        torch.manual_seed(seed)
        ids = torch.from_numpy(rows)
        ids = copy_to_device(ids, self.device)
        masked = self.model.masking(ids.long())
        at_once = max(1, self.max_tokens // rows.shape[1]) if self.max_tokens else len(rows)
        if len(rows) <= at_once:
            return self._backward(masked, None), len(rows)
        total, read = torch.zeros(2, device=self.device), 0
        for part in zip(*(tensor.split(at_once) for tensor in masked), strict=True):
            if read and out_of_time():
                break
            # every row has the same number of masked tokens, so a mean over tokens is a mean over rows
            share = torch.tensor(len(part[0]) / len(rows), device=self.device)
            total += self._backward(part, share) * share
            read += len(part[0])
        if read < len(rows):
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad *= len(rows) / read
        return total * (len(rows) / read), read

    def _backward(self, masked: tuple[Tensor, ...], weight: Tensor | None) -> Tensor:
        """Add the gradients of the loss, times `weight` if there is one; return loss and accuracy."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            outcome: Tensor = self.model(*masked)
        outcome[0].backward(weight)  # type: ignore[no-untyped-call]
        return outcome.detach()

    def metrics(self, trainer: Trainer) -> dict[str, float]:
        """Progress, speed, and means over the last steps; waits for the device.

        Raises:
            UnireError: The training has diverged.
        """
        if not self._outcomes:
            return {}
        state, length = trainer.state, self.config.length
        loss, accuracy = _mean([*self._outcomes][-max(1, state.step // 2) :])
        if not math.isfinite(loss):
            raise UnireError(f"the training diverged at step {state.step}; lower the learning rate")
        new = self.rows_read - self._rows_before
        return {
            "fraction": state.fraction,
            "steps": state.step,
            "tokens": self.rows_read * length,
            "tokens_per_second": new * length / trainer.budget.training_seconds if new else 0.0,
            "loss": loss,
            "accuracy": accuracy,
        }

    def mean_loss_start(self, n_steps: int) -> float:
        """The mean loss over the first steps; over the first half if there were only `n_steps`."""
        if self.loss_start is not None:
            return self.loss_start
        return _mean([*self._outcomes][: max(1, n_steps // 2)])[0]

    def run_info(self) -> dict[str, Any]:
        return {"parameters": sum(p.numel() for p in self.model.parameters()), "device": str(self.device)}

    def state_dict(self) -> dict[str, Any]:
        outcomes = torch.stack([*self._outcomes]).tolist() if self._outcomes else []
        return {"loss_start": self.loss_start, "rows_read": self.rows_read, "outcomes": outcomes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss_start = state["loss_start"]
        self.rows_read = self._rows_before = state["rows_read"]
        self._outcomes.clear()
        self._outcomes.extend(torch.tensor(outcome, device=self.device) for outcome in state["outcomes"])


def _mean(outcomes: Iterable[Tensor]) -> list[float]:
    """Mean loss and accuracy; waits for the device."""
    mean: list[float] = torch.stack([*outcomes]).mean(0).tolist()
    return mean


def _continues(token: str, tokenizer: Tokenizer) -> bool:
    """Whether `token` continues a word: WordPiece marks such tokens, all others mark the first token of a word."""
    if isinstance(tokenizer.model, WordPiece):
        return token.startswith(tokenizer.model.continuing_subword_prefix)
    return not token.startswith(("Ġ", "▁"))


def _narrow_norms(model: nn.Module) -> None:
    """Cast the output of layer norms to bfloat16. By default, autocast keeps it, and all sums with it, in float32."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_hook(lambda _module, _inputs, output: output.to(torch.bfloat16))


def _compile(model: MaskedLM) -> list[Any]:
    """Compile the model part by part and return the parts.

    All layers share one compilation, because they are equal. That takes a fraction of the time of compiling the model
    as a whole, and gives the same kernels. Deleting the attribute `forward` of a part undoes it.
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
    for part, peak in ((model.encoder, lr), (model.head, lr * HEAD_RATE_FACTOR)):
        for parameter in part.parameters():
            if parameter.requires_grad:
                groups.setdefault((peak, 0.01 if parameter.dim() > 1 else 0.0), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": p, "lr": peak, "peak": peak, "weight_decay": decay} for (peak, decay), p in groups.items()],
        betas=(0.9, 0.98),
        eps=1e-6,
        fused=model.head.bias.is_cuda,
    )
