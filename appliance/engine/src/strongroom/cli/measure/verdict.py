"""What bounds a backup here, from what was measured: a model of three stages that work at once.

    disk       the walk of the tree, and reading it
    processor  listing, opening, cutting, digesting, compressing, encrypting and copying, on all
               cores; at least what one process does in turn for all of them
    network    what is left after compression, at the best rate that was measured

The engine overlaps them, so the slowest decides. The model knows nothing of deduplication, nor of
what else the machine does, a storage daemon on the same one included.

What the engine itself takes is counted in walks: how long a bare loop of listing and lstat needs
for one file of the tree. The figures were fitted by hand to processor times of three trees on one
machine (docs/guides/tune.md says how well they predict others).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from strongroom.cli.measure.profile import Profile, Tree
from strongroom.engine.content.ciphers import AES_256_GCM, CIPHER_NAMES

Stage = Literal["disk", "processor", "network"]
Work = Literal["full", "incremental", "image", "backup"]

# A bare walk takes as long for a directory as for so many files in it.
DIRECTORY_FILES: Final = 6.0
# Starting, connecting and committing, beside which nothing else is done: 0.21 s with a repository
# on disk, 0.29 s with a daemon.
START_SECONDS: Final = 0.25
# Content is copied about so often: from the kernel, into blocks, to a disk or a network.
CONTENT_COPIES: Final = 6.0
# An image is judged by its rate alone; this much means it.
IMAGE_BYTES: Final = 100 << 30
# Below this share of the slowest stage a stage is no bound worth naming beside it.
NEAR: Final = 0.8


class Walks(NamedTuple):
    """Walks of one file that a file and a directory cost."""

    file: float
    directory: float


# Processor time of listing what is read, and of each file that is; of what is unchanged; and of the
# one process that puts both in order.
READ_WALKS: Final = Walks(1.0, 21.0)
OPENING_WALKS: Final = 6.0
UNCHANGED_WALKS: Final = Walks(2.6, 60.0)
ORDERING_WALKS: Final = Walks(0.5, 18.0)


class Part(NamedTuple):
    """What takes a share of a stage's time, and seconds of it."""

    name: str
    seconds: float


class Prediction(NamedTuple):
    """Seconds of each stage for one backup; those that were not measured are missing."""

    work: Work
    files: int
    size_bytes: int
    stages: dict[Stage, tuple[Part, ...]]

    def seconds_of(self, stage: Stage) -> float:
        """Seconds that a stage takes."""
        return sum(part.seconds for part in self.stages[stage])

    @property
    def seconds(self) -> float:
        """Seconds of the whole: those of the slowest stage, and the start."""
        if not self.stages:
            return 0.0
        return START_SECONDS + max(self.seconds_of(stage) for stage in self.stages)

    @property
    def bound(self) -> Stage:
        """The slowest stage."""
        return max(self.stages, key=self.seconds_of)

    @property
    def files_per_second(self) -> float:
        """Files a second."""
        return self.files / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes of source a second."""
        return self.size_bytes / self.seconds if self.seconds else 0.0


def predictions(profile: Profile) -> list[Prediction]:
    """What can be predicted from a profile: a full and an incremental of its tree, an image."""
    found = []
    if profile.tree is not None and profile.tree.entries:
        found.append(_full(profile, profile.tree))
        found.append(_incremental(profile, profile.tree))
    if profile.disk is not None and profile.disk.streaming:
        found.append(_image(profile))
    return [one for one in found if one.stages]


def sentences(prediction: Prediction) -> Iterator[str]:
    """The verdict in plain words."""
    bound = prediction.bound
    parts = sorted(prediction.stages[bound], key=lambda part: -part.seconds)
    whole = prediction.seconds_of(bound)
    share = parts[0].seconds / whole if whole else 0.0
    yield f"The {bound} is the bottleneck: {parts[0].name} takes {share:.0%} of its time."
    near = [
        stage
        for stage in prediction.stages
        if stage != bound and prediction.seconds_of(stage) >= NEAR * whole
    ]
    if near:
        yield f"The {' and the '.join(near)} is hardly faster, so relieving one gains little."
    elif len(prediction.stages) > 1:
        others = [stage for stage in prediction.stages if stage != bound]
        second = max(others, key=prediction.seconds_of)
        gain = prediction.seconds / (START_SECONDS + prediction.seconds_of(second))
        yield f"Without that bound it would be {gain:.1f} times as fast, then the {second}."
    yield from _advice(bound, parts[0].name)


def _advice(bound: Stage, part: str) -> Iterator[str]:
    if bound == "network":
        yield "A stronger compression (zstd3 and above) sends less; see the ratios above."
    elif part == "compression":
        yield "A faster codec (lz4, or none for media) relieves the processor and sends more."
    elif part == "the walk":
        yield "More scan threads hide latency: the knob `scan_threads`; faster disks for metadata."
    elif part == "reading":
        yield "Only a faster disk, or less to read, helps a full backup here."
    elif part == "ordering by one process":
        yield "More cores or shards do not help: one process puts all directories in order."
    elif part == "opening files":
        yield "Small files: more shards use more cores (`shards`)."


def backup_prediction(
    profile: Profile, entries: int, files_read: int, bytes_read: int
) -> Prediction | None:
    """One backup of so many entries, of which files with so many bytes are read.

    It takes the measured tree for one like it; None without a tree, or with nothing measured.
    """
    if profile.tree is None or not profile.tree.entries:
        return None
    stages = _backup_stages(profile, profile.tree, entries, files_read, bytes_read)
    return Prediction("backup", entries, bytes_read, stages) if stages else None


def _full(profile: Profile, tree: Tree) -> Prediction:
    stages = _backup_stages(profile, tree, tree.entries, tree.files, tree.size_bytes)
    return Prediction("full", tree.files, tree.size_bytes, stages)


def _incremental(profile: Profile, tree: Tree) -> Prediction:
    """Nothing has changed: the walk, and comparing."""
    stages = _backup_stages(profile, tree, tree.entries, 0, 0)
    stages.pop("network", None)
    return Prediction("incremental", tree.files, tree.size_bytes, stages)


def _backup_stages(
    profile: Profile, tree: Tree, entries: int, files_read: int, bytes_read: int
) -> dict[Stage, tuple[Part, ...]]:
    share = entries / tree.entries
    stages: dict[Stage, tuple[Part, ...]] = {
        "disk": (
            # What it computes is the processor's.
            Part("the walk", (tree.walks[0].seconds - tree.walks[0].processor_seconds) * share),
            Part("reading", _reading(profile, tree, bytes_read)),
        )
    }
    # What did not change is compared with the rows of the last backup.
    read = min(1.0, files_read / (tree.files * share)) if tree.files and share else 0.0
    listing = share * (
        read * _walks_seconds(tree, READ_WALKS) + (1 - read) * _walks_seconds(tree, UNCHANGED_WALKS)
    )
    if profile.speeds or not files_read:
        stages["processor"] = _processor(profile, tree, listing, files_read, bytes_read, share)
    _add_network(stages, profile, bytes_read / tree.ratio)
    return stages


def _walks_seconds(tree: Tree, walks: Walks) -> float:
    """Seconds that such walks of the whole tree take, from its warm one."""
    return _file_seconds(tree) * (walks.file * tree.files + walks.directory * tree.directories)


def _file_seconds(tree: Tree) -> float:
    """Seconds that a walk takes for one file."""
    warm = tree.walks[-1]
    # A file system that makes wait takes no more of the processor.
    return (warm.processor_seconds or warm.seconds) / (
        tree.files + DIRECTORY_FILES * tree.directories
    )


def _processor(
    profile: Profile,
    tree: Tree,
    listing_seconds: float,
    files_read: int,
    bytes_read: int,
    share: float,
) -> tuple[Part, ...]:
    cores = profile.machine.cores
    opening = files_read * (
        (tree.open_us + tree.attributes_us) / 1e6 + OPENING_WALKS * _file_seconds(tree)
    )
    parts = [
        Part("listing", listing_seconds / cores),
        Part("opening files", opening / cores),
        *(
            Part(part.name, part.seconds / cores)
            for part in _content_parts(profile, bytes_read, tree.ratio, tree.codec_bytes_per_second)
        ),
    ]
    ordering = share * _walks_seconds(tree, ORDERING_WALKS)
    if ordering > sum(part.seconds for part in parts):
        return (Part("ordering by one process", ordering),)
    return tuple(parts)


def _image(profile: Profile) -> Prediction:
    assert profile.disk is not None
    best = max(one.bytes_per_second for one in profile.disk.streaming if one.direction == "read")
    stages: dict[Stage, tuple[Part, ...]] = {"disk": (Part("reading", IMAGE_BYTES / best),)}
    ratio, rate = 1.0, 0.0
    if profile.tree is not None:
        ratio, rate = profile.tree.ratio, profile.tree.codec_bytes_per_second
    if profile.speeds:
        stages["processor"] = tuple(
            Part(part.name, part.seconds / profile.machine.cores)
            for part in _content_parts(profile, IMAGE_BYTES, ratio, rate)
        )
    _add_network(stages, profile, IMAGE_BYTES / ratio)
    return Prediction("image", 1, IMAGE_BYTES, stages)


def _reading(profile: Profile, tree: Tree, size_bytes: int) -> float:
    """Seconds of reading the content: as files are read here, at most as the disk streams."""
    rate = tree.content_bytes_per_second * profile.machine.cores
    if profile.disk is not None:
        streams = [
            one.bytes_per_second for one in profile.disk.streaming if one.direction == "read"
        ]
        rate = min(rate, max(streams, default=rate))
    return size_bytes / rate if rate else 0.0


def _content_parts(
    profile: Profile, size_bytes: int, ratio: float, codec_rate: float
) -> Iterator[Part]:
    """Seconds of one core for so many bytes of content."""
    for name, speed_name, handled in (
        ("cutting", "chunker", float(size_bytes)),
        ("digesting", "chunk id", float(size_bytes)),
        ("encryption", CIPHER_NAMES[AES_256_GCM], size_bytes / ratio),
    ):
        if (speed := profile.speed(speed_name)) is not None:
            yield Part(name, handled / speed.one_core)
    if (copying := profile.speed("memory copy")) is not None:
        yield Part("copying", CONTENT_COPIES * size_bytes / copying.one_core)
    codec = profile.speed("zstd1")
    rate = codec_rate or (codec.one_core if codec is not None else 0.0)
    if rate:
        yield Part("compression", size_bytes / rate)


def _add_network(
    stages: dict[Stage, tuple[Part, ...]], profile: Profile, stored_bytes: float
) -> None:
    if profile.network is None:
        return
    best = max(
        (one.bytes_per_second for one in profile.network.transfers if one.direction == "send"),
        default=0.0,
    )
    if best:
        stages["network"] = (Part("sending", stored_bytes / best),)
