"""What the UI shows of a model: its loss curve, what it writes, its card.

Belongs here: small files of the artifact as Dagster metadata. They were made with the model: nothing is computed here,
so a hit shows them too.
"""

import base64
from collections.abc import Callable
from pathlib import Path

import dagster as dg


def model_preview(path: Callable[[str], Path]) -> dict[str, dg.MarkdownMetadataValue]:
    """Metadata from the files of a `gpt2_model` artifact, published or about to be.

    Args:
        path: gives the local path of a file by its name.
    """
    picture = base64.b64encode(path("loss.png").read_bytes()).decode("ascii")
    return {
        "loss_curve": dg.MetadataValue.md(f"![loss by step](data:image/png;base64,{picture})"),
        "text_samples": dg.MetadataValue.md(path("samples.md").read_text(encoding="utf-8")),
        "model_card": dg.MetadataValue.md(_without_head(path("model_card.md").read_text(encoding="utf-8"))),
    }


def _without_head(card: str) -> str:
    """The card without the lines that only Hugging Face reads."""
    return card.partition("\n---\n")[2].lstrip() if card.startswith("---\n") else card
