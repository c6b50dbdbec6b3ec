"""One competitor of the tokenization benchmark, as a process of its own: `COMPETITOR CORPUS TOKENIZER OUTPUT CORES`.

Each reads the corpus' Parquet files and writes all token ids, an end of sequence after each document.
"""

import os
import sys
from pathlib import Path


def ours(engine: str, corpus: Path, tokenizer: Path, output: Path, cores: int) -> None:
    from marin_assets.stages.engine_check import EngineSetting
    from marin_assets.stages.tokenize import TokenizeConfig, tokenize
    from marin_assets.stages.tokenizer_file import tokenizer_file
    from marin_assets_tests.artifacts.in_memory import published, writer

    documents = writer(corpus)
    for path in sorted(corpus.glob("*.parquet")):
        documents.add(path.name)
    config = TokenizeConfig(engine=EngineSetting(engine), workers=cores)
    tokenize(published(documents), tokenizer_file(str(tokenizer)), config, writer(output))


def plain_tokenizers(corpus: Path, tokenizer: Path, output: Path, cores: int) -> None:
    """The library as its documentation shows it: batches of 1,000 texts, its own threads, ids to a flat file."""
    os.environ["RAYON_NUM_THREADS"] = str(cores)
    import numpy as np
    import polars as pl
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.encode_special_tokens = True
    eos = loaded.token_to_id("<|endoftext|>")
    output.mkdir()
    with (output / "ids.bin").open("wb") as file:
        for path in sorted(corpus.glob("*.parquet")):
            texts = pl.read_parquet(path, columns=["text"])["text"].to_list()
            for start in range(0, len(texts), 1000):
                for encoding in loaded.encode_batch_fast(texts[start : start + 1000]):
                    np.array([*encoding.ids, eos], dtype=np.int32).tofile(file)


def datatrove(corpus: Path, tokenizer: Path, output: Path, cores: int) -> None:
    """Its own tokens pipeline, one task a file, without the shuffling that we do not do either."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false" if cores == 1 else "true")
    steps = [
        ParquetReader(str(corpus), glob_pattern="*.parquet", text_key="text"),
        DocumentTokenizer(str(output), str(tokenizer), eos_token="<|endoftext|>", shuffle_documents=False),
    ]
    tasks = len(list(corpus.glob("*.parquet")))
    logs = str(output.with_name(f"{output.name}-logs"))
    LocalPipelineExecutor(steps, tasks=tasks, workers=cores, logging_dir=logs).run()


def main(competitor: str, corpus: Path, tokenizer: Path, output: Path, cores: int) -> None:
    if competitor.startswith("ours-"):
        ours(competitor.removeprefix("ours-"), corpus, tokenizer, output, cores)
    else:
        {"tokenizers": plain_tokenizers, "datatrove": datatrove}[competitor](corpus, tokenizer, output, cores)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
