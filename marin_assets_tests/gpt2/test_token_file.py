"""The flat file that training reads: made once, kept from run to run, whole or absent."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from marin_assets.artifacts.download_cache import DownloadCache
from marin_assets.errors import InputError
from marin_assets.gpt2.token_file import FlatTokens, TokenArray, open_token_file
from marin_assets_tests.gpt2.corpora import TokensInMemory

ENOUGH = 1 << 30


def opened(tokens: FlatTokens, folder: Path, *, vocabulary_size: int = 10, limit: int = ENOUGH) -> TokenArray:
    cache = DownloadCache(folder, limit)
    return open_token_file(tokens, cache, digest="some-digest", vocabulary_size=vocabulary_size, split="train")


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "files").rglob("*") if path.is_file()]


@pytest.mark.parametrize(("vocabulary_size", "bytes_a_token"), [(65_536, 2), (65_537, 4)])
def test_the_flat_file_holds_the_tokens_and_is_made_once(
    tmp_path: Path, vocabulary_size: int, bytes_a_token: int
) -> None:
    ids = np.random.default_rng(0).integers(0, vocabulary_size, 5000).astype(np.int32)

    assert opened(TokensInMemory(ids), tmp_path, vocabulary_size=vocabulary_size).tolist() == ids.tolist()
    (path,) = files(tmp_path)
    assert path.stat().st_size == 5000 * bytes_a_token

    class Unread(TokensInMemory):
        def token_chunks(self) -> Iterator[npt.NDArray[np.int32]]:
            pytest.fail("the tokens were staged a second time")

    assert opened(Unread(ids), tmp_path, vocabulary_size=vocabulary_size).tolist() == ids.tolist()


def test_a_file_that_was_cut_is_made_again(tmp_path: Path) -> None:
    ids = np.arange(10, dtype=np.int32)
    opened(TokensInMemory(ids), tmp_path)
    files(tmp_path)[0].write_bytes(b"half")
    assert opened(TokensInMemory(ids), tmp_path).tolist() == ids.tolist()


def test_an_empty_split_is_an_empty_array(tmp_path: Path) -> None:
    assert len(opened(TokensInMemory(np.empty(0, dtype=np.int32)), tmp_path)) == 0


@pytest.mark.parametrize("wrong", [-1, 10])
def test_an_id_outside_the_vocabulary_is_refused_by_its_place(tmp_path: Path, wrong: int) -> None:
    ids = np.zeros(2500, dtype=np.int32)
    ids[2100] = wrong
    with pytest.raises(InputError) as caught:
        opened(TokensInMemory(ids), tmp_path)
    assert f"token 2100 of the train split is {wrong}, outside the vocabulary of 10" in str(caught.value)
    assert not files(tmp_path)


def test_a_cache_that_holds_less_than_it_says_is_refused(tmp_path: Path) -> None:
    class Short(TokensInMemory):
        @property
        def total_tokens(self) -> int:
            return 7

    with pytest.raises(InputError, match="holds 5 tokens where its ledger says 7"):
        opened(Short(np.zeros(5, dtype=np.int32)), tmp_path)
    assert not files(tmp_path)
