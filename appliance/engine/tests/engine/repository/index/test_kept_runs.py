"""The runs of a client's cache: what making one anew writes."""

import numpy as np

from strongroom.engine.repository.index.kept_runs import (
    BLOCK_ENTRY,
    PACK,
    IndexedObject,
    NewRun,
    RunFolder,
)
from strongroom.engine.repository.index.sorted_file import KeyMix


def test_a_cache_that_is_made_anew_is_not_written_again_with_each_run(monkeypatch):
    written = []
    write = RunFolder._write  # noqa: SLF001

    def counted(self, parts, most, about):
        written.append(most)
        write(self, parts, most, about)

    monkeypatch.setattr(RunFolder, "_write", counted)
    count = 600
    ids = np.arange(1, 3 * count + 1, dtype=np.uint64).reshape(-1, 3)
    folder = RunFolder(None, "blocks", KeyMix(b"k" * 32))
    for number in range(count):
        run = NewRun(BLOCK_ENTRY)
        entries = np.zeros(1, BLOCK_ENTRY)
        entries["id"] = ids[number]
        run.add(IndexedObject(number.to_bytes(32, "big")), np.zeros(1, PACK), entries)
        folder.write(run)
    # Each entry once, and again as often as the runs have doubled.
    assert sum(written) < count * (1 + np.log2(count))
    assert len(folder.runs) < 18
    assert sum(map(len, folder.runs)) == count
    folder.close()
