"""What is asked for a job is what all its shards have together."""

from __future__ import annotations

import pytest

from strongroom.engine.backup.options import Tuning

COUNTS = range(1, 17)
ASKED = (*range(35), 128, 511, 512, 513)


@pytest.mark.parametrize("shards", COUNTS)
def test_workers_and_queue_are_divided_without_a_rest(shards: int) -> None:
    for asked in ASKED:
        for queue in (1, 3, 128):
            tuning = Tuning(workers=asked, shards=shards, upload_queue_size=queue)
            shares = [tuning.of_shard(number) for number in range(shards)]
            assert sum(share.queued_blocks for share in shares) == queue
            workers = [share.workers for share in shares]
            if queue >= shards:
                assert sum(workers) == asked
                assert max(workers) - min(workers) <= 1
            # None that could never have a block.
            assert all(share.queued_blocks for share in shares if share.workers)
            assert any(workers) == bool(asked)


@pytest.mark.parametrize("shards", COUNTS)
def test_without_workers_every_shard_stores_itself(shards: int) -> None:
    tuning = Tuning(workers=0, shards=shards)
    shares = [tuning.of_shard(number) for number in range(shards)]
    assert {share.workers for share in shares} == {0}
    assert all(share.adapts for share in shares)
    few = Tuning(workers=0, shards=shards, upload_queue_size=1)
    assert sum(few.of_shard(number).adapts for number in range(shards)) == 1
