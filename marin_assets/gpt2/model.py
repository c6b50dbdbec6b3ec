"""GPT-2 as published (Radford et al. 2019), from token ids to the last hidden state.

Belongs here: the network, its first weights, its logits. Does not: the loss (`loss`), which never lets all logits
stand in memory at once, nor how the weights are stored (`checkpoints`, `hf_export`).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from marin_assets.gpt2.config import Gpt2Size

NORM_EPSILON = 1e-5
INITIAL_DEVIATION = 0.02


class _Linear(nn.Linear):
    """Left without values, since `Gpt2` draws them all: drawing twice costs many seconds at the largest size."""

    def reset_parameters(self) -> None:
        pass


class _Embedding(nn.Embedding):
    """Left without values, as `_Linear`."""

    def reset_parameters(self) -> None:
        pass


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, size: Gpt2Size, dropout: float) -> None:
        super().__init__()
        self.heads = size.heads
        self.dropout = dropout
        self.query_key_value = _Linear(size.hidden_size, 3 * size.hidden_size)
        self.output = _Linear(size.hidden_size, size.hidden_size)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape  # B, T, C
        projected = self.query_key_value(hidden)  # B, T, 3C
        split = projected.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)  # each B, H, T, C/H
        attended = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            dropout_p=self.dropout if self.training else 0.0,
        )  # B, H, T, C/H
        merged = attended.transpose(1, 2).reshape(batch, length, width)  # B, T, C
        return functional.dropout(self.output(merged), self.dropout, self.training)


class FeedForward(nn.Module):
    """Two layers, four times as wide inside, with the tanh form of GELU that GPT-2 was trained with."""

    def __init__(self, size: Gpt2Size, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.inner = _Linear(size.hidden_size, 4 * size.hidden_size)
        self.output = _Linear(4 * size.hidden_size, size.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = functional.gelu(self.inner(hidden), approximate="tanh")  # B, T, 4C
        return functional.dropout(self.output(inner), self.dropout, self.training)  # B, T, C


class Block(nn.Module):
    """Pre-norm: each half adds to the residual stream what it computes from the normed stream."""

    def __init__(self, size: Gpt2Size, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size.hidden_size, eps=NORM_EPSILON)
        self.attention = Attention(size, dropout)
        self.feed_forward_norm = nn.LayerNorm(size.hidden_size, eps=NORM_EPSILON)
        self.feed_forward = FeedForward(size, dropout)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), mask)
        widened: Tensor = self.feed_forward(self.feed_forward_norm(hidden))
        return hidden + widened


class Gpt2(nn.Module):
    """A GPT-2 whose head is its token embedding.

    Args:
        size: layers, heads and width.
        vocabulary_size: rows of the token embedding; token ids are below it.
        positions: the longest sequence it can read.
        dropout: share of activations dropped while training.
        seed: decides the first weights, which are drawn on the CPU and so the same for every device.
    """

    def __init__(
        self, size: Gpt2Size, *, vocabulary_size: int, positions: int, dropout: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__()
        self.size = size
        self.vocabulary_size = vocabulary_size
        self.positions = positions
        self.dropout = dropout
        self.checkpoint_activations = False
        """Whether the backward pass computes what is inside a block anew, in place of keeping it in memory."""
        self.token_embedding = _Embedding(vocabulary_size, size.hidden_size)
        self.position_embedding = _Embedding(positions, size.hidden_size)
        self.blocks = nn.ModuleList(Block(size, dropout) for _ in range(size.layers))
        self.final_norm = nn.LayerNorm(size.hidden_size, eps=NORM_EPSILON)
        self._draw_weights(torch.Generator().manual_seed(seed))

    def forward(self, token_ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """The hidden state after the final norm: B, T, C.

        Args:
            token_ids: B, T.
            positions: B, T, each token's place in its own document. Given, no token sees beyond the start of its
                document; None takes each row for one document.
        """
        length = token_ids.shape[1]
        mask = None
        if positions is None:
            places = torch.arange(length, device=token_ids.device)  # T
        else:
            places = positions  # B, T
            mask = document_mask(positions)  # B, 1, T, T
        hidden = self.token_embedding(token_ids) + self.position_embedding(places)  # B, T, C
        hidden = functional.dropout(hidden, self.dropout, self.training)
        for block in self.blocks:
            if self.checkpoint_activations and self.training:
                hidden = checkpoint(block, hidden, mask, use_reentrant=False)
            else:
                hidden = block(hidden, mask)
        normed: Tensor = self.final_norm(hidden)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every next token, from the hidden state: ..., C → ..., V."""
        return functional.linear(hidden, self.token_embedding.weight)

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    @torch.no_grad()
    def _draw_weights(self, generator: torch.Generator) -> None:
        """GPT-2's initialisation: normal with deviation 0.02, biases zero, norms one.

        What adds to the residual stream is scaled by one over the square root of the number of additions.
        """
        residual_deviation = INITIAL_DEVIATION / math.sqrt(2 * self.size.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deviation = residual_deviation if name.endswith(".output.weight") else INITIAL_DEVIATION
                parameter.normal_(0.0, deviation, generator=generator)
            elif name.endswith("norm.weight"):
                parameter.fill_(1.0)
            else:
                parameter.zero_()


def document_mask(positions: Tensor) -> Tensor:
    """Which token (row) may see which (column): those of its own document up to itself. B, T → B, 1, T, T, bool."""
    index = torch.arange(positions.shape[1], device=positions.device)  # T
    document_start = (index - positions)[:, :, None]  # B, T, 1
    visible = (index[None, None, :] <= index[None, :, None]) & (index[None, None, :] >= document_start)  # B, T, T
    return visible[:, None]
