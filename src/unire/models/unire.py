"""UniRE on one page (section 3.1 of the paper): encoder, two MLPs, and a biaffine model that scores every word pair.

    h_1 … h_n = PLM(x_1 … x_n)                            `UniRE.encode`
    h_i^head = MLP_head(h_i), h_i^tail = MLP_tail(h_i)    `UniRE.project`
    g_ij = Biaff(h_i^head, h_j^tail)                      `UniRE.forward`
    P(y_ij | s) = softmax(g_ij)                           `TorchEngine.predict_tables`
    L_entry + L_sym + L_imp                               `losses.compute_losses`

Shapes: B windows of L tokens, T tables of N words, |Y| labels; vectors have n_hidden numbers behind the encoder, and d
behind the MLPs. `TensorBatch` says which tokens are the words of which tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from unire.config import ModelConfig
from unire.decoding.coreference import CoreferenceScorer
from unire.hub.model_dir import push_to_hub
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch
from unire.models.encoder import build_encoder, first_position
from unire.models.fused_attention import attention_kernels

__all__ = ["MLP", "Biaffine", "UniRE", "encode_tokens"]

Slices = Sequence[tuple[slice, int]]
"""Windows to encode together, and the number of tokens to cut them to."""


class MLP(nn.Module):
    """Linear → GELU → LayerNorm → dropout, from n_hidden to d."""

    def __init__(self, n_in: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, h: Tensor) -> Tensor:
        """[T, N, n_hidden] → [T, N, d]"""
        projected: Tensor = self.dropout(self.norm(F.gelu(self.linear(h))))
        return projected


class Biaffine(nn.Module):
    """Biaff(h₁, h₂) = h₁ᵀ U₁ h₂ + U₂ (h₁ ⊕ h₂) + b.

    U₁, U₂ and b are blocks of one tensor U [|Y|, d + 1, d + 1], which multiplies both vectors with a 1 appended. U is
    initialised with zeros, so that all labels are equally probable before training.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.U = nn.Parameter(torch.zeros(n_out, n_in + 1, n_in + 1))

    def forward(self, head: Tensor, tail: Tensor) -> Tensor:
        """Score all word pairs: [T, N, d] and [T, N, d] → g [T, N, N, |Y|]."""
        head, tail = (F.pad(x, (0, 1), value=1.0) for x in (head, tail))  # [T, N, d + 1]
        return self.products(head, tail)

    def products(self, head: Tensor, tail: Tensor) -> Tensor:
        """h_iᵀ U h_j of all pairs: [T, N, d + 1] and [T, N, d + 1] → [T, N, N, |Y|]."""
        T, N, _ = head.shape
        left = torch.einsum("tnx,yxz->tnyz", head, self.U)  # [T, N, |Y|, d + 1]
        scores = left.flatten(1, 2) @ tail.transpose(1, 2)  # [T, N * |Y|, N]
        return scores.view(T, N, -1, N).transpose(2, 3)


def encode_tokens(encoder: nn.Module, batch: TensorBatch) -> Tensor:
    """Run the encoder: the vectors of all tokens of all windows, [B * L, n_hidden]."""
    kwargs = {} if batch.token_type_ids is None else {"token_type_ids": batch.token_type_ids}
    n_tokens, starts = batch.input_ids.shape[1], batch.window_starts
    if starts is None:
        kwargs["attention_mask"] = batch.attention_mask
    else:  # packed windows: a token attends to its own window, and its position counts from the start of that window
        kwargs["attention_mask"] = (starts.unsqueeze(1) == starts.unsqueeze(2)).unsqueeze(1)  # [B, 1, L, L]
        kwargs["position_ids"] = torch.arange(n_tokens, device=starts.device) - starts + first_position(encoder)
    with attention_kernels(n_tokens):
        output = encoder(input_ids=batch.input_ids, **kwargs)
    tokens: Tensor = output.last_hidden_state.flatten(0, 1)
    return tokens


class UniRE(nn.Module):
    """The table-filling model of the paper, as a PyTorch module. `Extractor` is the class for using it.

    >>> model = UniRE.from_pretrained("models/mine")  # doctest: +SKIP
    >>> model.push_to_hub("USER/MODEL")  # doctest: +SKIP

    Args:
        config: Sizes of the head, windows, decoding; what `config.json` holds.
        labels: The label space Y.
        tokenizer: The encoder's tokenizer.
        encoder: A pretrained encoder. [default: one with random weights, built from `config`]
    """

    def __init__(
        self, config: ModelConfig, labels: LabelSpace, tokenizer: Tokenizer, encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.labels = labels
        self.tokenizer = tokenizer
        pretrained: Any = encoder if encoder is not None else build_encoder(config.encoder)
        n_hidden, head = pretrained.config.hidden_size, config.head
        self.encoder = pretrained
        self.head_mlp = MLP(n_hidden, head.d, head.mlp_dropout)
        self.tail_mlp = MLP(n_hidden, head.d, head.mlp_dropout)
        self.biaffine = Biaffine(head.d, len(labels))
        self.coreference: CoreferenceScorer | None = None
        """Trained on top of the finished model; see `unire.training.coreference`."""

    def forward(self, batch: TensorBatch) -> Tensor:
        """The scores g of every cell: [T, N, N, |Y|]. Padding holds arbitrary values.

        The paper's dropout of g serves L_entry alone, so it is in `losses.compute_losses`.
        """
        logits: Tensor = self.biaffine(*self.project(self.encode(batch)))
        return logits

    def project(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """h^head and h^tail of every word: [T, N, n_hidden] → twice [T, N, d]."""
        return self.head_mlp(h), self.tail_mlp(h)

    def encode(self, batch: TensorBatch, slices: Slices = ()) -> Tensor:
        """h of every word, which is the vector of its first token: [T, N, n_hidden].

        The encoder reads all windows at once, or slice by slice.
        """
        parts = [batch.select_windows(*windows) for windows in slices] or [batch]
        vectors = [encode_tokens(self.encoder, part) for part in parts]
        tokens = torch.cat(vectors) if len(vectors) > 1 else vectors[0]  # [tokens of all slices, n_hidden]
        # All padding reads token 0. The backward pass of index_select adds up such repeats without sorting them first.
        return tokens.index_select(0, batch.words.flatten()).view(*batch.words.shape, -1)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.biaffine.U.device

    @classmethod
    def from_pretrained(cls, source: str | Path) -> UniRE:
        """Load a trained model, also to train it further.

        Args:
            source: The name of a bundled model, a folder, or a name on the Hub.

        Returns:
            The model, on the CPU.

        Raises:
            UnireError: There is no such model, or its folder is incomplete.
        """
        from unire.models.checkpoint import load_checkpoint

        return load_checkpoint(source)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as a folder, atomically. An earlier model in it is replaced.

        Raises:
            UnireError: The folder holds something other than a model, or cannot be written.
        """
        from unire.models.checkpoint import save_checkpoint

        save_checkpoint(self, Path(folder))

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Publish the model on the Hugging Face Hub. The options are those of `unire.push_to_hub`."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_to_hub(folder, name, **options)
