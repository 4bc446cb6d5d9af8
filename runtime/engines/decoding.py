"""What makes one step of generation cheap with transformers' own models: a KV cache that grows in place, and attention that
does not copy the keys for every query head.

Both plug into transformers' interfaces, so the models stay the standard ones. Measured on one core, 64 rows of 600 tokens in
the shape of a 135M model: a layer's attention takes 10 ms in place of 100, its cache 0.1 ms in place of 38.

Axes: B rows, H heads, G query heads per key head, T tokens so far, D size of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "drmas_grouped"
_ROOM = 64  # tokens added to a full buffer, at least


def use_grouped_attention(net: Any) -> None:
    """Let the model use the attention of this module, where it has a choice."""
    if net.config._attn_implementation == "sdpa":
        net.set_attn_implementation(NAME)


def growing_cache(net: Any) -> DynamicCache:
    """The model's cache, its full-attention layers exchanged for those that grow in place."""
    cache = DynamicCache(config=net.config)
    cache.layers = [_GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def sees_everything(cache: DynamicCache) -> bool:
    """Whether all layers of a cache of ours are of full attention; sliding windows and the like are left to transformers."""
    return all(isinstance(layer, _GrowingLayer) for layer in cache.layers)


class _GrowingLayer(DynamicLayer):
    """Keys and values [B, H, T, D] are views into buffers with room for more tokens."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self.buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens [B, H, new, D]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        end = length + key_states.shape[-2]
        if self.buffers is None or end > self.buffers[0].shape[-2]:
            self._grow(key_states, value_states, end + max(_ROOM, end // 8))
        assert self.buffers is not None
        self.buffers[0][:, :, length:end] = key_states
        self.buffers[1][:, :, length:end] = value_states
        self._view(end)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep (or repeat) the rows that `indices` names."""
        if self.buffers is not None:
            length = self.get_seq_length()
            self.buffers = (self.buffers[0].index_select(0, indices), self.buffers[1].index_select(0, indices))
            self._view(length)

    def _grow(self, keys: torch.Tensor, values: torch.Tensor, capacity: int) -> None:
        length = self.get_seq_length()
        grown = (
            keys.new_empty((*keys.shape[:2], capacity, keys.shape[-1])),
            values.new_empty((*values.shape[:2], capacity, values.shape[-1])),
        )
        if length:
            grown[0][:, :, :length] = self.keys
            grown[1][:, :, :length] = self.values
        self.buffers = grown

    def _view(self, length: int) -> None:
        assert self.buffers is not None
        self.keys = self.buffers[0][:, :, :length]
        self.values = self.buffers[1][:, :, :length]


def _grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """SDPA; for one new token, the G query heads of a key head [B, H * G, 1, D] become G queries of it [B, H, G, D]."""
    rows, heads, length, size = query.shape
    groups = heads // key.shape[1]
    if length > 1 or groups == 1 or kwargs.get("position_bias") is not None:
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return plain
    folded = query.reshape(rows, key.shape[1], groups, size)
    out = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(rows, 1, heads, out.shape[-1]), None


AttentionInterface.register(NAME, _grouped_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
