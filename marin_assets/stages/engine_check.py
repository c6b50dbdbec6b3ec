"""Which library encodes: gigatoken where it gives the ids of the reference for this tokenizer, else the reference.

Belongs here: the comparison, and the memory of its outcome. It decides time only: both give the same ids, or one is
not used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import random
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from marin_assets.errors import SettingsError
from marin_assets.stages.gigatoken_engine import GigatokenEngine
from marin_assets.stages.huggingface_engine import HuggingFaceEngine
from marin_assets.stages.text_encoder import EngineName
from marin_assets.stages.tokenizer_description import TokenizerDescription
from marin_assets.stages.tokenizer_file import TokenizerFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_log = logging.getLogger(__name__)


class EngineSetting(StrEnum):
    """Which library encodes."""

    auto = "auto"
    huggingface = "huggingface"
    gigatoken = "gigatoken"


def choose_engine(tokenizer: TokenizerFile, setting: EngineSetting, memory: Path | None = None) -> EngineName:
    """The library to use for a tokenizer.

    Args:
        memory: folder in which outcomes are remembered; by default one in the user's cache.

    Raises:
        SettingsError: gigatoken was asked for, and is not installed or gives other ids.
        InputError: the tokenizer cannot be used.
    """
    if setting is EngineSetting.huggingface:
        return EngineName.huggingface
    if importlib.util.find_spec("gigatoken") is None:
        if setting is EngineSetting.auto:
            return EngineName.huggingface
        raise SettingsError(
            "engine: gigatoken is not installed. Install it with `pip install 'marin-assets[fast]'`, or set "
            "`engine: auto`."
        )
    difference = _remembered_difference(tokenizer, memory or _default_memory())
    if difference is None:
        return EngineName.gigatoken
    if setting is EngineSetting.gigatoken:
        raise SettingsError(
            f"engine: gigatoken does not give the reference's ids for {tokenizer.path}: {difference}. "
            "Set `engine: auto` or `engine: huggingface`."
        )
    _log.warning(
        "gigatoken is not used for %s, because it does not give the reference's ids: %s", tokenizer.name, difference
    )
    return EngineName.huggingface


def find_difference(tokenizer: TokenizerFile) -> str | None:
    """Encode texts of many kinds with both libraries, and tell the first of which the ids differ."""
    description = TokenizerDescription.read(tokenizer.path)
    reference = HuggingFaceEngine.load(tokenizer.path, description)
    texts = [*check_texts(), *_texts_of_all_tokens(reference.tokenizer)]
    try:
        rows = GigatokenEngine(description).encode_batch(texts).rows()
    except BaseException as error:
        # What Rust calls a panic comes as a BaseException of no public type.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return " ".join(f"{type(error).__name__}: {error}".split())
        raise
    for text, expected, ids in zip(texts, reference.encode_batch(texts).rows(), rows, strict=True):
        if expected.tolist() != ids.tolist():
            return _first_difference(text, expected.tolist(), ids.tolist())
    return None


def _first_difference(text: str, expected: list[int], ids: list[int]) -> str:
    same = len(os.path.commonprefix([expected, ids]))
    shown = slice(same, same + 5)
    return f"from token {same} of {text[:80]!r} on it makes {ids[shown]}, and the reference {expected[shown]}"


def _texts_of_all_tokens(tokenizer: Tokenizer) -> list[str]:
    """The tokens of the vocabulary in a seeded order, some in each text: so that every merge happens."""
    ids = sorted(tokenizer.get_vocab().values())
    random.Random(5).shuffle(ids)
    groups = [ids[start : start + 64] for start in range(0, len(ids), 64)]
    texts: list[str] = tokenizer.decode_batch(groups, skip_special_tokens=False)
    return texts


_SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "I'm sure they've said it's we'll, you'd, don't, 'S 'T I'LL",
    "Über den Wolken fließt ein Fluß; l’été à Besançon, mañana",
    "Где вода, там и жизнь.",
    "Η θάλασσα είναι κοντά",
    "水は流れる、山は動かない。カタカナ",
    "他们说：“今天很好！”",
    "대한민국은 민주공화국이다",
    "السلام عليكم، كيف الحال؟",
    "שלום עולם",
    "नमस्ते दुनिया क्ष्म",
    "தமிழ் மொழி",
    "ภาษาไทยไม่มีช่องว่าง",
    "ქართული Հայերեն አማርኛ",
    "def main() -> None:\n    return {'key': [1, 2.5e-3]}\n",
    '<a href="https://example.org/a?b=c&d=%20#e">1,000,000</a>',
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
)
_WHITE_SPACE = (" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2009", "\u200b", "\ufeff", "\x1c", "\x85")
_SIGNS = (
    *("'", "'s", "'re", "''", '"', "_", "__init__", "`", "~~", "***", "//", "<>", "…", "—", "→", "€", "§", "\x00"),
    *(
        "🙂",
        "👩‍👩‍👧",
        "🇩🇪",
        "👍🏽",
        "❤️",
        "é",
        "e\u0301",
        "\u0301",
        "ﬁ",
        "İ",
        "ǅ",
        "\ufffd",
        "\ue000",
        "\U0010fffd",
        "\U00010330",
    ),
    *("0", "7", "1234567890", "3.14159", "½", "Ⅷ", "٣", "x²", "10^-3"),
)
_SPECIAL_TOKENS = ("<|endoftext|>", "<|endoftext", "</s>", "<s>", "<unk>", "<pad>", "[EOS]", "<|im_start|>")
_RUNS = tuple(unit * 300 for unit in ("a", "=", " ", "ab", "水", "🙂", "\n", "x9"))
_SAMPLES = (*_SENTENCES, *_WHITE_SPACE, *_SIGNS, *_SPECIAL_TOKENS, *_RUNS)


@cache
def check_texts() -> tuple[str, ...]:
    """The texts of the check: each sample, and seeded mixtures of them and of random characters."""
    chance = random.Random(3)
    characters = [chr(code) for code in (*range(0x3000), *range(0xFE00, 0x10000), *range(0x1F300, 0x1F700))]
    mixtures = []
    for _ in range(600):
        parts = chance.choices(_SAMPLES, k=chance.randint(1, 8)) + chance.choices(characters, k=chance.randint(0, 12))
        chance.shuffle(parts)
        mixtures.append(chance.choice(("", "", " ", "\n")).join(parts))
    return ("", *_SAMPLES, *mixtures)


def _default_memory() -> Path:
    cache_folder = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache_folder) if cache_folder else Path.home() / ".cache") / "marin_assets" / "engine_checks"


def _remembered_difference(tokenizer: TokenizerFile, memory: Path) -> str | None:
    """As `find_difference`, but what was found the same is not compared again.

    A file in `memory` says so for one tokenizer, one version of each library and these texts. Differences are not
    kept: some come and go with the installation, and finding them again takes less than a second.
    """
    versions = [f"{name}-{importlib.metadata.version(name)}" for name in ("gigatoken", "tokenizers")]
    texts = xxhash.xxh3_64_hexdigest("\0".join(check_texts()).encode())
    path = memory / "_".join([tokenizer.digest, *versions, texts])
    if path.exists():
        return None
    difference = find_difference(tokenizer)
    if difference is None:
        try:
            memory.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            _log.info("gigatoken will be compared with the reference again in the next run: %s", error)
    return difference
