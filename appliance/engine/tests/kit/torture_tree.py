"""Make a tree of everything Linux keeps, as far as the place and one's rights allow.

    PYTHONPATH=appliance/engine/tests python -m kit.torture_tree make DIR
    PYTHONPATH=appliance/engine/tests python -m kit.torture_tree remove DIR

Every feature gets a directory of its name. What the kernel, the file system or the lack of root
refuses is left out whole and told with its reason; any other failure is an error. `remove` takes
away what plain rm cannot: immutable and append-only inodes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kit import torture_attributes, torture_contents, torture_metadata, torture_names
from kit.directory_descriptors import new_directory, open_directory
from kit.torture_feature import REFUSALS, FeatureRefusedError
from kit.tree_removal import remove_tree

FEATURES = {
    feature.name: feature
    for module in (torture_names, torture_contents, torture_metadata, torture_attributes)
    for feature in module.FEATURES
}
FIRST_DIRECTORY_TIME_NS = 1_000_000_000_000_000_001


@dataclass
class Made:
    """The tree at `root`: which features it holds, and why others are not in it."""

    root: bytes
    features: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def _try_feature(name: str, top: int, made: Made) -> None:
    encoded = name.encode()
    try:
        with new_directory(encoded, top) as directory:
            FEATURES[name].fill(directory)
    except (FeatureRefusedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in REFUSALS:
            raise
        made.refused[name] = str(error)
        remove_tree(made.root + b"/" + encoded)
    else:
        made.features.append(name)


def make_tree(root: bytes, wanted: Collection[str] = tuple(FEATURES)) -> Made:
    """Make the `wanted` features (names of FEATURES) in the new directory `root`.

    Runs with umask 0 and puts the process's own umask back. Raises OSError when something
    fails for another reason than being refused.
    """
    made = Made(root)
    previous_umask = os.umask(0)
    try:
        os.mkdir(root, 0o755)
        top = open_directory(root)
        try:
            for name in wanted:
                _try_feature(name, top, made)
            # Last of all, since making children touched them: directory times of their own.
            for number, name in enumerate(made.features):
                time_ns = FIRST_DIRECTORY_TIME_NS + number * 86_400_000_000_001
                os.utime(name.encode(), ns=(time_ns, time_ns), dir_fd=top)
            os.utime(top, ns=(FIRST_DIRECTORY_TIME_NS, FIRST_DIRECTORY_TIME_NS - 1))
        finally:
            os.close(top)
    finally:
        os.umask(previous_umask)
    return made


@contextmanager
def torture_tree(root: bytes, wanted: Collection[str] = tuple(FEATURES)) -> Iterator[Made]:
    """The tree for the length of the block; removed after it, whatever happened."""
    try:
        yield make_tree(root, wanted)
    finally:
        remove_tree(root)


def main() -> int:
    """Command line: make or remove a tree, telling what was refused."""
    parser = argparse.ArgumentParser(description="Make a tree of everything Linux keeps.")
    parser.add_argument("action", choices=["make", "remove"])
    parser.add_argument("directory", type=os.fsencode)
    parser.add_argument("--feature", action="append", choices=sorted(FEATURES))
    arguments = parser.parse_args()
    if arguments.action == "remove":
        remove_tree(arguments.directory)
        return 0
    made = make_tree(arguments.directory, arguments.feature or tuple(FEATURES))
    print(f"{len(made.features)} features made")
    for name, reason in made.refused.items():
        print(f"refused: {name}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
