"""Compiled blocks: an option, since compiling costs half a minute and needs a compiler on the machine.

Belongs here: trying it on one block, and going on without where it fails.
"""

import logging

import torch

from marin_assets.gpt2.batches import Batch
from marin_assets.gpt2.config import Precision
from marin_assets.gpt2.model import Block, Gpt2, document_mask

logger = logging.getLogger(__name__)


def compile_blocks(model: Gpt2, example: Batch, precision: Precision) -> None:
    """Compile the blocks of a model in place; they share one compiled form. Warns and returns where that fails.

    Args:
        model: on the device of the example.
        example: a micro-batch of the shape that is trained.
    """
    block = model.blocks[0]
    assert isinstance(block, Block)
    device = example.token_ids.device
    hidden = torch.zeros(*example.token_ids.shape, model.size.hidden_size, device=device)  # B, T, C
    mask = None if example.positions is None else document_mask(example.positions)
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision is Precision.bfloat16):
            tried = torch.compile(block)(hidden, mask)
        tried.sum().backward()
    except Exception as error:  # noqa: BLE001 - compilers fail in many ways, and none should end a run
        logger.warning("training without compile, which failed here: %s", f"{error}".strip().split("\n")[0])
        return
    finally:
        model.zero_grad(set_to_none=True)
    for one in model.blocks:
        one.compile()
