"""A prompt continued by an exported model.

Belongs here: opening a model and its tokenizer from a Hugging Face directory. Does not: sampling (`generate`).
"""

from pathlib import Path

from marin_assets.gpt2.generate import generate
from marin_assets.gpt2.hf_export import from_hf
from marin_assets.stages.text_encoder import TextEncoder


def continue_prompt(
    directory: Path, prompt: str, *, max_new_tokens: int, temperature: float, top_k: int, seed: int
) -> str:
    """The continuation alone, up to the end of the text or `max_new_tokens`. An empty prompt starts a new text.

    Raises:
        InputError: the directory is not a GPT-2 with a `tokenizer.json`.
    """
    encoder = TextEncoder.load(directory / "tokenizer.json")
    return generate(
        from_hf(directory),
        encoder.tokenizer,
        prompt,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        seed=seed,
        end_of_text=encoder.vocabulary.eos_id,
    )
