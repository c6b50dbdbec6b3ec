"""Text from a trained model.

Belongs here: choosing one token after another. Does not: the order or form in which samples are shown (`report`).
"""

import torch
from tokenizers import Tokenizer
from torch import Tensor

from marin_assets.gpt2.model import Gpt2


@torch.no_grad()
def generate(
    model: Gpt2,
    tokenizer: Tokenizer,
    prompt: str,
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
    end_of_text: int | None = None,
) -> str:
    """Continue a prompt until the text ends or `max_new_tokens` are made. Returns the continuation alone.

    Args:
        temperature: 0 always takes the likeliest token.
        top_k: chooses among this many of the likeliest tokens; 0 among all.
        seed: decides the choices; the process's random state is neither read nor changed.
        end_of_text: the token that ends a text. An empty prompt starts from it.

    Raises:
        ValueError: the prompt has no tokens and there is no `end_of_text`.
    """
    start = tokenizer.encode(prompt, add_special_tokens=False).ids
    if not start and end_of_text is None:
        raise ValueError("the prompt is empty and no end_of_text was given to start from; give a prompt")
    ids = start or [int(end_of_text or 0)]
    made: list[int] = []
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    while len(made) < max_new_tokens:
        context = torch.tensor([(ids + made)[-model.positions :]], device=device)  # 1, T
        logits = model.logits(model(context)[0, -1]).float().cpu()  # V
        token = _choose(logits, temperature, top_k, generator)
        if token == end_of_text:
            break
        made.append(token)
    model.train(training)
    return str(tokenizer.decode(made, skip_special_tokens=False))


def _choose(logits: Tensor, temperature: float, top_k: int, generator: torch.Generator) -> int:
    """One token id from the scores of all: V."""
    if temperature == 0:
        return int(logits.argmax())
    if top_k:
        smallest = logits.topk(min(top_k, len(logits))).values[-1]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    return int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator))
