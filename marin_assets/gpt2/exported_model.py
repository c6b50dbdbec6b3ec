"""An exported model, opened to be used.

Belongs here: a model and its tokenizer from a Hugging Face directory. Does not: sampling (`generate`), evaluation
(`text_evaluation`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from marin_assets.errors import InputError
from marin_assets.gpt2.generate import Sampling, generate
from marin_assets.gpt2.hf_export import from_hf
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.model import Gpt2
from marin_assets.stages.text_encoder import TextEncoder


@dataclass(frozen=True)
class ExportedModel:
    """A GPT-2 and the tokenizer that it was trained with."""

    model: Gpt2
    encoder: TextEncoder
    tokenizer_path: Path

    @classmethod
    def open(cls, directory: Path) -> "ExportedModel":
        """Open a Hugging Face directory, or the artifact that holds one as `hf/`.

        Raises:
            InputError: the directory is not a GPT-2 with a `tokenizer.json`.
        """
        if not (directory / "config.json").exists() and (directory / "hf").is_dir():
            directory = directory / "hf"
        model = from_hf(directory)
        tokenizer = directory / "tokenizer.json"
        if not tokenizer.exists():
            raise InputError(f"{directory} has no tokenizer.json; save the model's tokenizer there")
        encoder = TextEncoder.load(tokenizer)
        if encoder.vocabulary.vocabulary_size > model.vocabulary_size:
            raise InputError(
                f"{tokenizer} has {encoder.vocabulary.vocabulary_size} tokens and the model {model.vocabulary_size}; "
                "take both from one model"
            )
        return cls(model.eval(), encoder, tokenizer)

    @contextmanager
    def on(self, device: str) -> Iterator[None]:
        """Compute on a device (`auto`, `cpu`, `cuda`) within the block.

        Raises:
            SettingsError: the device is not there.
        """
        operations = 6.0 * self.model.parameter_count * self.model.positions
        with Machine(device).use(operations) as there:
            self.model.to(there)
            yield

    def continue_prompt(self, prompt: str, sampling: Sampling, *, max_new_tokens: int) -> str:
        """The continuation alone, up to the end of the text or `max_new_tokens`. An empty prompt starts a new text."""
        return generate(
            self.model,
            self.encoder.tokenizer,
            prompt,
            sampling,
            max_new_tokens=max_new_tokens,
            end_of_text=self.encoder.vocabulary.eos_id,
        )
