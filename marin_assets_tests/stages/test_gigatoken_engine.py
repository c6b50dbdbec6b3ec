import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages import gigatoken_engine
from marin_assets.stages.gigatoken_engine import GigatokenEngine
from marin_assets.stages.tokenizer_description import TokenizerDescription
from marin_assets_tests.stages import small_tokenizer
from marin_assets_tests.stages.small_tokenizer import EOS, plain_ids

AWKWARD = ["'re", "don't", " ", "  ", "\n", "\u00a0", "é", "e\u0301", "7", "_", "水", "🙂", EOS, "<|note|>", "\x00"]


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> TokenizerDescription:
    path: Path = small_tokenizer.save(tmp_path_factory.mktemp("tokenizer") / "small.json").path
    return TokenizerDescription.read(path)


@pytest.fixture(scope="module")
def engine(description: TokenizerDescription) -> GigatokenEngine:
    return GigatokenEngine(description)


@settings(deadline=None, max_examples=150)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(AWKWARD) | st.text(max_size=4), max_size=12).map("".join), min_size=1, max_size=4
    )
)
def test_its_ids_are_those_of_the_reference(engine: GigatokenEngine, texts: list[str]) -> None:
    assert [row.tolist() for row in engine.encode_batch(texts).rows()] == list(map(plain_ids, texts))


def test_no_texts_have_no_ids(engine: GigatokenEngine) -> None:
    assert engine.encode_batch([]).rows() == []


def test_an_instance_is_replaced_before_what_it_remembers_grows(
    description: TokenizerDescription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gigatoken_engine, "_RENEW_AFTER_CHARACTERS", 100)
    engine = GigatokenEngine(description)
    made = []

    def make() -> gigatoken_engine._Instance:
        made.append(new())
        return made[-1]

    new = engine._new_instance
    monkeypatch.setattr(engine, "_new_instance", make)
    for _ in range(10):
        assert engine.encode_batch(["x" * 30]).token_ids.tolist() == plain_ids("x" * 30)
    assert len(made) == 2
    assert max(instance.characters for instance in made) == 120


def test_threads_do_not_share_an_instance(engine: GigatokenEngine) -> None:
    texts = [f"{sentence} {n}" for n in range(300) for sentence in small_tokenizer.SENTENCES]
    expected = list(map(plain_ids, texts))
    failures: list[list[list[int]]] = []

    def encode() -> None:
        rounds = ([row.tolist() for row in engine.encode_batch(texts).rows()] for _ in range(5))
        failures.extend(rows for rows in rounds if rows != expected)

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
