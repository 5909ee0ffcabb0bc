"""Fused attention for encoders whose attention transformers computes step by step."""

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

__all__ = ["attention_kernels", "freeze_position_bias", "use_fast_attention"]


CUDNN_TILE_TOKENS = 128
"""Tokens that an attention kernel of cuDNN processes at a time."""


def use_fast_attention(encoder: nn.Module) -> None:
    """Make `encoder` use PyTorch's fused attention kernels, in place and with equal results.

    Most encoders of transformers use them already, and are not changed. MPNet does not, because its attention adds a
    learned bias by relative position; fused kernels take the bias as a mask. Weights, names and configuration stay the
    same, as do padding masks, dropout and the gradient of the bias. DeBERTa is not fused, but fixed for bf16.

    If an attention mask has two dimensions, transformers reads its values in every forward pass. On a GPU this waits
    for all earlier work. Then it expands the mask to all token pairs. It passes a mask of [B, 1, 1, L] on unchanged, so
    our MPNet and BERT reshape the mask to that.

    `position_ids` also determine MPNet's bias, which transformers takes from the order of the tokens. Then a mask may
    be [B, 1, L, L], true where the token of a row attends to that of a column.
    """
    for module in encoder.modules():
        module.__class__ = _FUSED.get(type(module), type(module))


def freeze_position_bias(encoder: nn.Module) -> None:
    """Exclude MPNet's position bias from training.

    A mask with a gradient rules out the fastest kernels, and the backward pass of each layer writes [B, H, L, L]
    numbers: too much for the few hundred parameters of the bias.
    """
    for module in encoder.modules():
        if isinstance(module, MPNetEncoder):
            module.relative_attention_bias.requires_grad_(False)


def attention_kernels(length: int) -> AbstractContextManager[None]:
    """Restrict the kernels that PyTorch may use for attention between `length` tokens: cuDNN's not for every length.

    PyTorch prefers cuDNN on an H100 or H200. If `length` is not a multiple of 128, its gradients are reported to be
    wrong (https://github.com/pytorch/pytorch/issues/196678). There would be no error, but worse training.
    """
    if length % CUDNN_TILE_TOKENS == 0 or not torch.is_grad_enabled():
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
        fused = self.config._attn_implementation == "sdpa"  # sdpa takes boolean masks
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
        """Turn the mask into a bias here, because transformers would read its values on the host to do so."""
        if attention_mask is not None and attention_mask.ndim == 2:
            attention_mask = attention_mask[:, None, None, :]
        if attention_mask is not None and not attention_mask.is_floating_point():
            attention_mask = (1.0 - attention_mask.float()) * torch.finfo(torch.bfloat16).min
        if position_ids is None:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        embedded = self.embeddings(input_ids=input_ids, position_ids=position_ids)
        return self.encoder.forward_positions(embedded, attention_mask, position_ids)

    def get_extended_attention_mask(self, attention_mask: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Pass a bias on unchanged. Only transformers before 5.9 calls this, and it refuses four dimensions."""
        if attention_mask.ndim == 4:
            return attention_mask
        mask: Tensor = super().get_extended_attention_mask(attention_mask, *args, **kwargs)
        return mask


class _FusedEncoder(MPNetEncoder):  # type: ignore[misc]
    def compute_position_bias(self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Tensor:
        """The bias of each pair of positions, [1, H, L, L]. transformers would copy it for every row of the batch.

        The bias depends only on the distance. So it is looked up once per distance and spread along the diagonals. Then
        2L - 1 gradients, instead of L², go back to the small embedding table.
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

    def forward_positions(self, hidden: Tensor, attention_mask: Tensor | None, position_ids: Tensor) -> BaseModelOutput:
        """Run all layers with given `position_ids` [B, L]; several tokens of a row may have the same position."""
        reach = self.config.max_position_embeddings
        buckets = self.relative_position_bucket(torch.arange(1 - reach, reach, device=hidden.device))
        by_distance = self.relative_attention_bias(buckets).T  # [H, 2 · reach - 1]
        distances = position_ids.unsqueeze(1) - position_ids.unsqueeze(2)  # [B, L, L], from the row's to the column's
        bias = _to_autocast_dtype(by_distance).index_select(1, (distances + (reach - 1)).flatten())
        return self._layers(hidden, bias.view(-1, *distances.shape).transpose(0, 1).contiguous(), attention_mask)

    def _layers(self, hidden: Tensor, bias: Tensor, attention_mask: Tensor | None) -> BaseModelOutput:
        """Run all layers. Their common bias [B, H, L, L] is computed once, in the precision of the kernels."""
        mask = (
            _to_autocast_dtype(bias)
            if attention_mask is None
            else _to_autocast_dtype(bias) + _to_autocast_dtype(attention_mask)
        )
        for layer in self.layer:
            hidden = layer(hidden, None, mask)[0]
        return BaseModelOutput(last_hidden_state=hidden)


def _to_autocast_dtype(numbers: Tensor) -> Tensor:
    """Convert numbers to the precision of autocast, if it is enabled."""
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
    """DeBERTa's attention, fixed for mixed precision.

    In transformers, biases make the queries float32, and the value that masks padding is then out of range for bf16.
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
