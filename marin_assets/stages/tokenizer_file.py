"""Which tokenizer to use: from a setting to a `tokenizer.json` on local disk.

Belongs here: finding the file and its digest. Does not: encoding with it (`text_encoder`), nor the library that
does so, since the digest is asked for by every run, also by those that compute nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import SettingsError

TOKENIZER_JSON = "tokenizer.json"

_HUGGING_FACE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True)
class TokenizerFile:
    """A `tokenizer.json` of the Hugging Face `tokenizers` library."""

    path: Path
    digest: str
    """xxh3-128 of the file's bytes, 32 hex digits: two files with one digest give the same tokens."""
    name: str
    """For people: the Hugging Face name, or the name of the file or its folder."""


def tokenizer_file(setting: str) -> TokenizerFile:
    """Find the tokenizer that a setting names.

    Args:
        setting: path to a `tokenizer.json`, or to a folder that holds one, or a Hugging Face name such as `gpt2`.
            What exists on disk goes before a name.

    Raises:
        SettingsError: there is no such file, or the name cannot be resolved: unknown, or no network.
    """
    path = Path(setting).expanduser()
    if setting and path.is_file():
        return _local(path)
    if setting and (path / TOKENIZER_JSON).is_file():
        return _local(path / TOKENIZER_JSON)
    if path.suffix == ".json" or not _HUGGING_FACE_NAME.fullmatch(setting):
        raise SettingsError(
            f"MARIN_TOKENIZER: there is no file {setting!r}, and no folder of that name with a {TOKENIZER_JSON}. "
            f"Set it to the path of a {TOKENIZER_JSON}, or to a Hugging Face name such as 'gpt2'."
        )
    path = _download(setting)
    return TokenizerFile(path, file_digest(path), setting)


def _local(path: Path) -> TokenizerFile:
    named = path.resolve()
    name = named.parent.name if named.name == TOKENIZER_JSON else named.stem
    return TokenizerFile(path, file_digest(path), name)


def _download(name: str) -> Path:
    """Find the tokenizer in the Hugging Face cache, or fetch it there.

    What is in the cache is taken as it is: runs that come later need no network, and get the same tokens.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        try:
            return Path(hf_hub_download(name, TOKENIZER_JSON, local_files_only=True))
        except LocalEntryNotFoundError:
            return Path(hf_hub_download(name, TOKENIZER_JSON))
    except (OSError, ValueError, HfHubHTTPError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SettingsError(
            f"MARIN_TOKENIZER: cannot get {TOKENIZER_JSON} of {name!r} from Hugging Face: {reason} "
            f"Check the name and the network, or set it to the path of a {TOKENIZER_JSON} on this machine."
        ) from error
