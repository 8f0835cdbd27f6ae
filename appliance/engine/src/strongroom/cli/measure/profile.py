"""What was measured of a machine, as typed values; JSON is one object with the same names.

Rates are per second, sizes in bytes, durations in the unit of their name. A part that was not
measured is None, and `notes` says why.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from strongroom.base.errors import UsageError

PROFILE_VERSION = 1


class Machine(msgspec.Struct, frozen=True):
    """What the machine is. `accelerations`: processor flags that speed up ciphers and digests."""

    host: str
    processor: str
    cores: int
    accelerations: tuple[str, ...]
    memory_bytes: int
    available_bytes: int
    kernel: str
    python: str


class Speed(msgspec.Struct, frozen=True):
    """A digest, cipher or codec: input bytes a second on one core, and on all at once.

    `ratio`: of a codec, input bytes for each byte of output; 0 for all others.
    """

    name: str
    kind: Literal["digest", "cipher", "codec", "chunker", "copy"]
    one_core: float
    all_cores: float
    ratio: float = 0.0


class RandomReads(msgspec.Struct, frozen=True):
    """Random reads of 4 KiB with `depth` of them under way; latencies in microseconds."""

    depth: int
    reads_per_second: float
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float


class Streaming(msgspec.Struct, frozen=True):
    """One stream of reads or writes in blocks of a size, past the page cache."""

    direction: Literal["read", "write"]
    block_bytes: int
    bytes_per_second: float


class DiskProfile(msgspec.Struct, frozen=True):
    """The disk below a folder. `is_direct`: past the page cache, as the figures should be."""

    folder: str
    device: str
    file_system: str
    rotates: bool | None
    test_file_bytes: int
    is_direct: bool
    random_reads: tuple[RandomReads, ...]
    streaming: tuple[Streaming, ...]


class Walk(msgspec.Struct, frozen=True):
    """One walk of a tree: names listed, an lstat of each; `first`: with caches as they were.

    `read_ios` and `read_bytes`: what the kernel's counter of the device rose by meanwhile, so other
    programs' reads are in it; None where there is no counter (see `Tree.reads_uncounted`).
    `processor_seconds`: of the seconds those that it did not wait; 0 where that was not measured.
    """

    state: Literal["cold", "first", "warm"]
    entries: int
    seconds: float
    read_ios: int | None
    read_bytes: int | None
    processor_seconds: float = 0.0

    @property
    def entries_per_second(self) -> float:
        """Entries a second."""
        return self.entries / self.seconds if self.seconds else 0.0


class AttributeKind(msgspec.Struct, frozen=True):
    """ACLs, or all other extended attributes, of the entries that were examined.

    `entries`: how many have some; `values`: how many they have together; `read_us`: what reading
    one value takes, 0 where there are none.
    """

    entries: int
    values: int
    read_us: float


class Attributes(msgspec.Struct, frozen=True):
    """Extended attributes of a sample of files and folders. `list_us`: listing the names of one.

    `is_supported`: False where the file system of the tree has no extended attributes at all.
    """

    sampled: int
    is_supported: bool
    list_us: float
    acls: AttributeKind
    others: AttributeKind


class Tree(msgspec.Struct, frozen=True):
    """A folder that is to be backed up.

    `attributes_us`: what listing and reading extended attributes and ACLs adds for an entry, those
    without any included; `attributes`: the same in detail.
    `open_us`: open, fstat, read and close of a small file, of which `sampled` were read, warm.
    `content_*`: files read one after the other, cold where that was possible. `folder`: its path,
    escaped where it does not print. `ratio`: what zstd1 makes of a sample of the content, at
    `codec_bytes_per_second` on one core. `reads_uncounted`: why the kernel counts no reads of the
    walks, "" where it does.
    """

    folder: str
    files: int
    directories: int
    size_bytes: int
    largest_bytes: int
    walks: tuple[Walk, ...]
    attributes_us: float
    open_us: float
    sampled: int
    content_bytes_per_second: float
    content_is_cold: bool
    ratio: float
    codec_bytes_per_second: float
    attributes: Attributes | None = None
    reads_uncounted: str = ""

    @property
    def entries(self) -> int:
        """Everything in it, itself included."""
        return self.files + self.directories


class Transfer(msgspec.Struct, frozen=True):
    """Bytes a second over a number of connections at once."""

    direction: Literal["send", "receive"]
    streams: int
    bytes_per_second: float


class Iperf3Profile(msgspec.Struct, frozen=True):
    """The way to a server of iperf3, without TLS. `retransmitted`: segments, by the sending side.

    None where iperf3 could not tell it.
    """

    server: str
    retransmitted: int | None
    transfers: tuple[Transfer, ...]


class NetworkProfile(msgspec.Struct, frozen=True):
    """The way to a storage daemon.

    `retransmitted`: segments, of the `sent_segments` with data that this machine sent to the daemon
    over the connections that were measured; what the daemon sent again is not known here.
    """

    server: str
    mode: str
    rtt_us: float
    rtt_variation_us: float
    segment_bytes: int
    path_mtu_bytes: int
    congestion_control: str
    retransmitted: int
    sent_segments: int
    transfers: tuple[Transfer, ...]


class Profile(msgspec.Struct, frozen=True):
    """All that was measured of one machine at one time. `notes`: what was not, and why."""

    taken_at: str
    machine: Machine
    speeds: tuple[Speed, ...] = ()
    disk: DiskProfile | None = None
    tree: Tree | None = None
    network: NetworkProfile | None = None
    notes: tuple[str, ...] = ()
    version: int = PROFILE_VERSION
    iperf3: Iperf3Profile | None = None

    def speed(self, name: str) -> Speed | None:
        """The figures of a digest, cipher or codec."""
        return next((speed for speed in self.speeds if speed.name == name), None)


class TransferRow(NamedTuple):
    """Bytes a second to the storage daemon and to the server of iperf3; None: not measured."""

    direction: Literal["send", "receive"]
    streams: int
    daemon: float | None
    iperf3: float | None


def transfer_rows(profile: Profile) -> list[TransferRow]:
    """The rates of the network by direction and number of connections, side by side."""
    daemon, iperf3 = (
        {(one.direction, one.streams): one.bytes_per_second for one in part.transfers}
        if part is not None
        else {}
        for part in (profile.network, profile.iperf3)
    )
    # "send" first, as both are measured.
    places = sorted({*daemon, *iperf3}, key=lambda place: (place[0] != "send", place[1]))
    return [TransferRow(*place, daemon.get(place), iperf3.get(place)) for place in places]


def profile_json(profile: Profile) -> bytes:
    """The profile as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"


def parse_profile(text: bytes) -> Profile:
    """The profile in a JSON file. Raises UsageError."""
    try:
        profile = msgspec.json.decode(text, type=Profile)
    except msgspec.DecodeError as error:
        raise UsageError(f"not a profile of `strongroom baseline`: {error}") from error
    if profile.version != PROFILE_VERSION:
        raise UsageError(
            f"the profile is of version {profile.version}, this program reads {PROFILE_VERSION}: "
            "measure again"
        )
    return profile
