"""Text from a trained model.

Belongs here: choosing one token after another. Does not: the order or form in which samples are shown (`report`), or
what is kept between two tokens (`incremental`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from marin_assets.errors import SettingsError
from marin_assets.gpt2.incremental import KeyValueCache
from marin_assets.gpt2.model import Gpt2


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen among those that may come next.

    Raises:
        SettingsError: a value that chooses nothing.
    """

    temperature: float = 1.0
    """0 always takes the likeliest token; above 1 the choice is flatter than the model's."""
    top_k: int = 0
    """Chooses among this many of the likeliest tokens; 0 among all."""
    top_p: float = 1.0
    """Chooses among the likeliest tokens that together have this probability (Holtzman et al. 2020); 1 among all."""
    seed: int = 0
    """Decides the choices; the process's random state is neither read nor changed."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise SettingsError(f"temperature is {self.temperature}; give 0 for the likeliest token, or more")
        if self.top_k < 0:
            raise SettingsError(f"top_k is {self.top_k}; give the number of tokens to choose among, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"top_p is {self.top_p}; give a probability above 0, or 1 for all tokens")

    def choose(self, logits: Tensor, generator: torch.Generator) -> int:
        """One token id from the scores of all: V. `top_k` cuts first, then the temperature, then `top_p`."""
        if self.temperature == 0:
            return int(logits.argmax())
        among = min(self.top_k or len(logits), len(logits))
        scores, token_ids = logits.float().cpu().topk(among)  # likeliest first
        probabilities = (scores / self.temperature).softmax(-1)
        before = probabilities.cumsum(-1) - probabilities  # what the likelier tokens have together
        probabilities = probabilities.where(before < self.top_p, 0.0)
        return int(token_ids[torch.multinomial(probabilities, 1, generator=generator)])


def generate(
    model: Gpt2,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    *,
    max_new_tokens: int,
    end_of_text: int | None = None,
) -> str:
    """Continue a prompt until the text ends or `max_new_tokens` are made. Returns the continuation alone.

    Args:
        end_of_text: the token that ends a text. An empty prompt starts from it.

    Raises:
        SettingsError: the prompt has no tokens and there is no `end_of_text`.
    """
    start = tokenizer.encode(prompt, add_special_tokens=False).ids or ([] if end_of_text is None else [end_of_text])
    if not start:
        raise SettingsError("the prompt is empty and the tokenizer has no end of text to start from; give a prompt")
    made = []
    for token in _continuation(model, start, sampling, max_new_tokens):
        if token == end_of_text:
            break
        made.append(token)
    return str(tokenizer.decode(made, skip_special_tokens=False))


def _continuation(model: Gpt2, start: list[int], sampling: Sampling, count: int) -> Iterator[int]:
    """`count` tokens, one by one. The model is left in the mode that it was in."""
    generator = torch.Generator().manual_seed(sampling.seed)
    ids = list(start)
    cache, cache_start = KeyValueCache(model), 0
    training = model.training
    model.eval()
    try:
        for _ in range(count):
            first = context_start(len(ids), model.positions)
            if first != cache_start:
                cache, cache_start = KeyValueCache(model), first
            unread = torch.tensor(ids[first + cache.length :], device=model.token_embedding.weight.device)
            ids.append(sampling.choose(cache.read(unread), generator))
            yield ids[-1]
    finally:
        model.train(training)


def context_start(length: int, positions: int) -> int:
    """First of `length` tokens that the model looks at to make the next one.

    A text that outgrows the model's positions loses half a window at a time. Dropping one token at a time would move
    every other one to a new position, and all would be read again for each new token.
    """
    if length <= positions:
        return 0
    half = max(1, positions // 2)
    return -(-(length - positions) // half) * half
