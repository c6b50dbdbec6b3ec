"""The forward pass for one more token, without computing the earlier ones again.

Belongs here: keys and values of what was read, kept for every block. Does not: which token comes next (`generate`).
The arithmetic is that of `model`, from the same layers.
"""

import torch
from torch import Tensor
from torch.nn import functional

from marin_assets.gpt2.model import Attention, Block, Gpt2


class KeyValueCache:
    """What a model in evaluation mode has read of one text, at most `model.positions` tokens."""

    def __init__(self, model: Gpt2) -> None:
        self._model = model
        self._past: list[tuple[Tensor, Tensor] | None] = [None] * len(model.blocks)  # keys, values: 1, H, T, C/H
        self.length = 0
        """Tokens read so far."""

    @torch.no_grad()
    def read(self, token_ids: Tensor) -> Tensor:
        """Read more tokens, T of them. Returns the scores of the next token: V.

        Several tokens can be read at once only at the start of a text.

        Raises:
            ValueError: they do not fit the model's positions, or several come after the first.
        """
        count = len(token_ids)
        if self.length + count > self._model.positions or (self.length and count > 1):
            raise ValueError(f"cannot read {count} tokens after {self.length} of {self._model.positions}")
        places = torch.arange(self.length, self.length + count, device=token_ids.device)  # T
        embedded = self._model.token_embedding(token_ids) + self._model.position_embedding(places)
        hidden = embedded[None]  # 1, T, C
        for number, block in enumerate(self._model.blocks):
            assert isinstance(block, Block)
            hidden, self._past[number] = _read_in_block(block, hidden, self._past[number])
        self.length += count
        return self._model.logits(self._model.final_norm(hidden[0, -1]))


def _read_in_block(
    block: Block, hidden: Tensor, past: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The block's output for the new tokens (1, T, C), and the keys and values of all."""
    attended, seen = _attend(block.attention, block.attention_norm(hidden), past)
    hidden = hidden + attended
    widened: Tensor = block.feed_forward(block.feed_forward_norm(hidden))
    return hidden + widened, seen


def _attend(
    attention: Attention, hidden: Tensor, past: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    batch, length, width = hidden.shape  # 1, T, C
    projected = attention.query_key_value(hidden).view(batch, length, 3, attention.heads, width // attention.heads)
    query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)  # each 1, H, T, C/H
    if past is not None:
        key, value = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
    attended = functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)  # 1, H, T, C/H
    merged = attended.transpose(1, 2).reshape(batch, length, width)  # 1, T, C
    return attention.output(merged), (key, value)
