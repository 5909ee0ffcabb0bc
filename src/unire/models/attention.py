"""Fused attention for encoders that transformers computes step by step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bert.modeling_bert import BertModel
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetModel, MPNetSelfAttention

__all__ = ["attention_kernels", "freeze_position_bias", "has_bf16", "use_fast_attention"]


def has_bf16() -> bool:
    """Whether there is a GPU that computes in bf16, and does not just pretend to."""
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


CUDNN_TILE = 128
"""Tokens that a kernel of cuDNN takes at a time."""


def use_fast_attention(encoder: nn.Module) -> None:
    """Have `encoder` compute attention by PyTorch's fused kernels, in place and with equal results.

    Most encoders of transformers do so by themselves and are left as they are. MPNet does not, for its attention adds a
    learned bias by relative position; fused kernels take that as a mask. Weights, names and configuration stay the
    same, as do padding masks, dropout and the gradient of the bias. DeBERTa is not fused, but mended for bf16.

    A two-dimensional attention mask makes transformers look at its values in every forward pass, which on a GPU waits
    for all work before it, and then lay it out for every pair of tokens. One of [B, 1, 1, L] passes unlooked at: MPNet
    and BERT make such a mask of one that has two dimensions.

    Positions that are given (`position_ids`) decide the bias too, which transformers takes from the order of the
    tokens. A mask may then be [B, 1, L, L], true where the token of a row sees that of a column.
    """
    for module in encoder.modules():
        module.__class__ = _FUSED.get(type(module), type(module))


def freeze_position_bias(encoder: nn.Module) -> None:
    """Keep MPNet's position bias as it is while the rest is trained.

    A mask that asks for a gradient rules out the fastest kernels and has each layer's backward pass write [B, H, L, L]
    numbers, all for the few hundred parameters that say how attention fades with distance.
    """
    for module in encoder.modules():
        if isinstance(module, MPNetEncoder):
            module.relative_attention_bias.requires_grad_(False)


def attention_kernels(length: int) -> AbstractContextManager[None]:
    """The kernels by which PyTorch may compute attention between `length` tokens: all, but cuDNN's not always.

    PyTorch prefers those on an H100 or H200. Where tokens are no multiple of 128, their gradients are reported to be
    wrong (https://github.com/pytorch/pytorch/issues/196678): nothing would fail, but less be learnt from a step.
    """
    if length % CUDNN_TILE == 0 or not torch.is_grad_enabled():
        return nullcontext()
    kernels: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )
    return kernels


class _FusedBert(BertModel):  # type: ignore[misc]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        fused = self.config._attn_implementation == "sdpa"  # whose masks may say which tokens are seen
        if fused and attention_mask is not None and attention_mask.ndim == 2:
            attention_mask = attention_mask[:, None, None, :].bool()
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            **kwargs,
        )


class _FusedModel(MPNetModel):  # type: ignore[misc]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """With the mask as what is added to attention: transformers would look at its values to make that."""
        if attention_mask is not None and attention_mask.ndim == 2:
            attention_mask = attention_mask[:, None, None, :]
        if attention_mask is not None and not attention_mask.is_floating_point():
            attention_mask = (1.0 - attention_mask.float()) * torch.finfo(torch.bfloat16).min
        if position_ids is None:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        embedded = self.embeddings(input_ids=input_ids, position_ids=position_ids)
        return self.encoder.at(embedded, attention_mask, position_ids)


class _FusedEncoder(MPNetEncoder):  # type: ignore[misc]
    def compute_position_bias(self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
        """The bias of each pair of positions, [1, H, L, L]: one for all rows, where transformers makes copies.

        It depends on the distance alone, so it is looked up once per distance and laid out along the diagonals: 2L - 1
        gradients go back to the few rows of one small table, and not L².
        """
        length = x.shape[1]
        distances = torch.arange(1 - length, length, device=x.device)
        buckets = self.relative_position_bucket(distances.unsqueeze(0), num_buckets=num_buckets)
        bias = self.relative_attention_bias(buckets).squeeze(0).T  # [H, 2L - 1]
        diagonals: Tensor = bias.unfold(1, length, 1).flip(1).unsqueeze(0)  # row i starts at distance -i
        return diagonals.contiguous()

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        if options.get("output_attentions") or options.get("output_hidden_states"):
            return super().forward(hidden_states, attention_mask, **options)
        return self._layers(hidden_states, self.compute_position_bias(hidden_states), attention_mask)

    def at(self, hidden: Tensor, attention_mask: Tensor | None, position_ids: Tensor) -> BaseModelOutput:
        """All layers, for tokens that stand where `position_ids` `[B, L]` says; several may stand in one place."""
        reach = self.config.max_position_embeddings
        known = self.relative_position_bucket(torch.arange(1 - reach, reach, device=hidden.device))
        by_distance = self.relative_attention_bias(known).T  # [H, 2 · reach - 1]
        distances = position_ids.unsqueeze(1) - position_ids.unsqueeze(2)  # [B, L, L], from the row's to the column's
        bias = _narrow(by_distance).index_select(1, (distances + (reach - 1)).flatten())
        return self._layers(hidden, bias.view(-1, *distances.shape).transpose(0, 1).contiguous(), attention_mask)

    def _layers(self, hidden: Tensor, bias: Tensor, attention_mask: Tensor | None) -> BaseModelOutput:
        """All layers; what they add to attention is laid out once, [B, H, L, L], and as narrow as they want it."""
        mask = _narrow(bias) if attention_mask is None else _narrow(bias) + _narrow(attention_mask)
        for layer in self.layer:
            hidden = layer(hidden, None, mask)[0]
        return BaseModelOutput(last_hidden_state=hidden)


def _narrow(numbers: Tensor) -> Tensor:
    """In the precision that kernels are asked to compute in."""
    kind = numbers.device.type
    return numbers.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else numbers


class _FusedSelfAttention(MPNetSelfAttention):  # type: ignore[misc]
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        position_bias: Tensor,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        if output_attentions:  # fused kernels never hold the attention weights
            outputs: tuple[Tensor, ...] = super().forward(hidden_states, attention_mask, position_bias, True, **kwargs)
            return outputs
        q, k, v = (
            project(hidden_states).unflatten(-1, (self.num_attention_heads, self.attention_head_size)).transpose(1, 2)
            for project in (self.q, self.k, self.v)
        )  # [B, H, L, d]
        mask = position_bias if attention_mask is None else position_bias + attention_mask
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.to(q.dtype), dropout_p=self.dropout.p if self.training else 0.0
        )
        return (self.o(mixed.transpose(1, 2).flatten(2)),)


class _MixedDeberta(DisentangledSelfAttention):  # type: ignore[misc]
    """DeBERTa's attention, as transformers computes it, in mixed precision too.

    There its biases would make queries float32, and what padding is then set to is no number of bf16.
    """

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        kind = x.device.type
        mixed = torch.is_autocast_enabled(kind)
        heads: Tensor = super().transpose_for_scores(x.to(torch.get_autocast_dtype(kind)) if mixed else x)
        return heads


_FUSED: dict[type, type] = {
    BertModel: _FusedBert,
    DisentangledSelfAttention: _MixedDeberta,
    MPNetModel: _FusedModel,
    MPNetEncoder: _FusedEncoder,
    MPNetSelfAttention: _FusedSelfAttention,
}
