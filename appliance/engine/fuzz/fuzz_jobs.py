"""Coverage-guided fuzzing of every job over what a hostile client sealed with its own keys.

    python fuzz/fuzz_jobs.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_jobs.py DIRECTORY [libFuzzer options]

The first byte of the input is the kind of object, the rest the text that is sealed as one. It is
stored beside sound objects of two clients; then check, vouch, share, prune, repair, copy, stats,
find, diff, dump, a preview of a restore and a mount read all of it. Whatever it is, no job over all
clients fails, the other client loses nothing, and what reads a single snapshot raises a
StrongroomError.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
with atheris.instrument_imports(include=["strongroom"]):
    from kit.hostile_house import KINDS, HostileHouse, mutated

# Not much is learned from changing the same byte of a long text again.
_MUTATED = 3


def seed_inputs(house: HostileHouse) -> list[bytes]:
    """Texts of sound objects of every kind, and some that were changed."""
    seeds = []
    for number, kind in enumerate(KINDS):
        text = house.text(kind)
        seeds.append(bytes([number]) + text)
        seeds += [bytes([number]) + mutated(text, seed) for seed in range(_MUTATED)]
    return seeds


def main() -> None:
    house = HostileHouse()
    if sys.argv[1:2] == ["--seeds"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seed_inputs(house):
            (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        return
    atheris.Setup(sys.argv, house.run_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
