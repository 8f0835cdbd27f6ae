"""A pack that a liar stores: it claims to hold chunks that it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.packs import KIND_DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.engine.repository.packs import PackFooter
    from strongroom.engine.repository.repository import Repository


def plant(repository: Repository, claimed: Sequence[bytes], content: bytes) -> PackFooter:
    """A pack that claims to hold `claimed` and holds `content` of the same length."""
    keys = repository.writer.client.own
    lengths = [len(data) for data in claimed]
    ids = b"".join(chunk_id(keys.chunk_key, data) for data in claimed)
    block = block_id(keys.block_key, ids_and_lengths(ids, np.array(lengths, "<u4").tobytes()))
    pack = repository.new_pack(KIND_DATA)
    pack.add(block, ids, lengths, 0, content, sum(lengths))
    return pack.finish()
