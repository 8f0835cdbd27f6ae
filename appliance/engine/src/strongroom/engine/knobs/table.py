"""Every knob, once. Other places take their texts from here or are checked against it.

Bounds exclude nonsense and excessive memory, not slow values: measure those.
"""

from __future__ import annotations

from typing import Final

from strongroom.engine.knobs.knob import Knob, Option, Value

# Default number of shards of a job, if there are as many cores.
LARGEST_DEFAULT_SHARDS: Final = 8
# Scan threads of a shard that settles their number by itself, at most.
MOST_SCAN_THREADS: Final = 64
# A page of a listing holds about so many entries, which is what the directive Lru Size counts.
ENTRIES_A_PAGE: Final = 8192
# Each is started at once, and costs memory from then on.
_MOST_PROCESSES: Final = 256
_MOST_THREADS: Final = 1024

_CLIENTS: Final = ("director.Client", "agent.Client")
_OPTIONS: Final = ("Options",)

# What one backup is tuned with: fields of `Tuning`, options of `strongroom backup`.
BACKUP_KNOBS: Final = (
    Knob(
        name="compression",
        kind="word",
        default="auto",
        words=(
            "none",
            "gzip",
            *(f"gzip{level}" for level in range(1, 10)),
            "lzo",
            "lzfast",
            "lz4",
            "lz4hc",
            "zstd",
            *(f"zstd{level}" for level in range(1, 20)),
            "auto",
        ),
        words_shown="none, gzip1-9, lzo, lzfast, lz4, lz4hc, zstd1-19, auto",
        summary="Codec and level of the blocks that are stored. A block that does not shrink is "
        "stored as it is, whatever the codec. auto is zstd at a fast setting, chosen for each "
        "block by how the one before it shrank; of data that hardly shrinks it tries a sample "
        "first.",
        seen_in="Bareos",
        option=Option(
            "--compression", "none, gzip1-9, lzo, lzfast, lz4, lz4hc, zstd1-19, auto", "CODEC"
        ),
        directive="Compression",
        places=_OPTIONS,
        candidates=("none", "lz4", "zstd1", "zstd3", "zstd6", "zstd9", "auto"),
        effect="Of kernel sources none stored 1,301 MB in 3.5 s, lz4 377 MB in 5.2 s and "
        "gzip 229 MB in 18.9 s.",
        evidence="performance.md#over-the-network",
    ),
    Knob(
        name="signature",
        kind="word",
        default="none",
        words=("none", "md5", "sha1", "sha256", "sha512", "xxh128", "blake3"),
        summary="The digest that is kept of each file, for verify and for comparing with other "
        "programs. The first backup with another signature reads every file again. Where "
        "Options blocks name several, the strongest is kept of all of these files.",
        seen_in="Bareos",
        option=Option("--signature", "none, md5, sha1, sha256, sha512, xxh128, blake3", "NAME"),
        directive="Signature",
        places=_OPTIONS,
        changes="content",
        effect="Every file that is read is digested once more. Kernel sources took 3.5 s without, "
        "4.7 s with md5 and sha512, 4.2 s with sha1 and sha256, 3.8 s with xxh128 and 3.7 s with "
        "blake3.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="workers",
        kind="number",
        default=0,
        most=_MOST_THREADS,
        unit="threads of one job",
        zero="each shard does it itself, with a thread where the store makes it wait",
        summary="How many threads compress, encrypt and store for one job, over all shards. "
        "0: each shard does it itself; where that mostly waits for the store, as over a link, a "
        "thread stores while the shard continues.",
        seen_in="Bareos",
        option=Option("--workers", "threads that compress and store; 0: in each shard itself", "N"),
        directive="Maximum Workers Per Job",
        places=_CLIENTS,
        candidates=(0, 2, 4, 8),
        effect="No gain, as shards use all cores without them: with any codec 1 to 8 workers took "
        "as long as none, or up to 23% longer.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="scan_threads",
        kind="number",
        default=0,
        most=_MOST_THREADS,
        unit="threads in each shard",
        zero=f"1 to {MOST_SCAN_THREADS}, found while it runs",
        summary="How many files and directories are examined at once in each shard. More than one "
        "hides the latency of NFS and other network file systems within one job. 0 finds out while "
        "it runs: 1 where the file system is fast, as with a local disk; where calls wait, "
        f"as many as make it faster, at most {MOST_SCAN_THREADS}.",
        seen_in="Bacula",
        option=Option(
            "--scan-threads", "files and directories examined at once in each shard", "N"
        ),
        directive="Scan Threads",
        places=_CLIENTS,
        candidates=(1, 4, 16, 32),
        effect="Where each call takes 5 ms, a first backup of 5,000 files took 67.3 s with 1 and "
        "3.5 s with 64, an unchanged one 14.3 s and 1.2 s.",
        evidence="performance.md#bacula",
    ),
    Knob(
        name="shards",
        kind="number",
        default=0,
        most=_MOST_PROCESSES,
        unit="processes of one job",
        zero=f"one a core, at most {LARGEST_DEFAULT_SHARDS}",
        summary="How many processes share the work of one job. Directories, and parts of large "
        "directories and files, are handed to them as they have room for more. 0: one a core, at "
        f"most {LARGEST_DEFAULT_SHARDS}. Maximum Workers of the agent bounds it.",
        seen_in="HashBackup",
        option=Option("--shards", "processes that share the work", "N"),
        directive="Shards",
        places=_CLIENTS,
        candidates=(1, 2, 4, 8),
        effect="A job uses so many cores. For a million empty files 2 shards took 0.59 of the time "
        "of 1 on two cores and 17 MiB more memory; 4 and 8 were no faster.",
        evidence="performance.md#hashbackup",
    ),
    Knob(
        name="upload_queue_size",
        kind="number",
        default=128,
        unit="blocks of one job",
        zero="the default",
        zero_is_default=True,
        summary="How many blocks may wait for the store at once, over all shards, at most: with "
        "workers so many, without them as many as are worth it. A backup continues while they "
        "wait, and each costs memory: about 1 MiB.",
        seen_in="Obnam",
        option=Option("--upload-queue-size", "blocks on their way to the store, at most", "N"),
        directive="Upload Queue Size",
        places=_CLIENTS,
        candidates=(32, 128, 512),
        effect="No gain: at 50 ms latency and 2 workers, 1 and 512 blocks differed by 5%.",
        evidence="performance.md#over-the-network",
    ),
    Knob(
        name="lru_size",
        kind="number",
        default=4,
        unit="pages",
        zero="the default",
        zero_is_default=True,
        summary="How much of the parent's listing is kept decoded in memory. The directive counts "
        f"entries, of which a page holds about {ENTRIES_A_PAGE}; the option counts pages. A "
        "page that is no longer kept is read and decoded again when it is needed again.",
        seen_in="Obnam",
        option=Option("--lru-size", "pages of the last listing kept in memory", "N"),
        directive="Lru Size",
        places=_CLIENTS,
        directive_scale=ENTRIES_A_PAGE,
        directive_unit="entries",
        candidates=(4, 16, 64),
        effect="No gain: 2 to 128 pages differed by no more than noise, for 155,000 files of which "
        "50 had changed.",
        evidence="performance.md#obnam",
    ),
    Knob(
        name="acls",
        kind="switch",
        default=True,
        summary="Whether POSIX ACLs are kept.",
        seen_in="Bareos",
        option=Option("--no-acls", "leave out POSIX ACLs"),
        directive="ACL Support",
        places=_OPTIONS,
        changes="content",
        effect="Off: restores have no ACLs. Backups are not faster.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="xattrs",
        kind="switch",
        default=True,
        summary="Whether extended attributes are kept.",
        seen_in="Bareos",
        option=Option("--no-xattrs", "leave out extended attributes"),
        directive="XAttr Support",
        places=_OPTIONS,
        changes="content",
        effect="Off: restores have no extended attributes. Backups are not faster.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="flags",
        kind="switch",
        default=True,
        summary="Whether the flags of chattr (immutable, append only and so on) are kept.",
        seen_in="Strongroom",
        option=Option("--no-flags", "leave out chattr flags"),
        changes="content",
        effect="Off: a restore has no flags. Asking for them took 6% of a first backup of a "
        "million small files.",
        evidence="performance.md#what-limits-a-backup",
    ),
)

# What comes with each job of an agent, too.
JOB_KNOBS: Final = (
    *BACKUP_KNOBS,
    Knob(
        name="nice",
        kind="number",
        default=10,
        most=19,
        unit="nice levels",
        is_limit=True,
        summary="How far a job gives way to other programs where the processor is short: 0 not at "
        "all, 19 most. Of what the agent says, what the director says and the Nice of the agent's "
        "unit the highest counts, so the director cannot lift a limit of the host's owner.",
        seen_in="systemd",
        directive="Nice",
        places=_CLIENTS,
        effect="Other programs go first where the processor is short.",
    ),
)

# Knobs of an agent, for all its jobs.
AGENT_KNOBS: Final = (
    Knob(
        name="maximum_workers",
        kind="number",
        default=0,
        most=(1 << 32) - 1,
        unit="processes of all jobs",
        zero=f"one a core, at most {LARGEST_DEFAULT_SHARDS}",
        summary="How many processes all jobs of this agent may start together to share their work. "
        "A job gets what is left when it begins, at least one. 0 means one a core, at most "
        f"{LARGEST_DEFAULT_SHARDS}.",
        seen_in="Strongroom",
        directive="Maximum Workers",
        places=("agent.Client",),
        effect="Jobs that run together take fewer cores of the machine.",
    ),
)

# How data travels between agent and storage daemon.
TLS_OPTION: Final = Option(
    "--tls",
    "how the way to a storage daemon is protected; off authenticates only",
    "MODE",
    command="",
)
TLS_MODES: Final = ("off", "tls", "ktls", "ktls-required")
TLS_MODE_DEFAULT: Final = "tls"
CONNECTION_KNOBS: Final = (
    Knob(
        name="tls_enable",
        kind="switch",
        default=True,
        summary="Whether the connection is encrypted with TLS. Without it peers are still "
        "authenticated and data is still encrypted by the engine.",
        seen_in="Bareos",
        option=TLS_OPTION,
        directive="TLS Enable",
        places=("director.Client",),
        changes="protection",
        effect="Off took 7% less time for kernel sources, and 28% less for data that does "
        "not shrink.",
        evidence="performance.md#over-the-network",
    ),
    Knob(
        name="ktls",
        kind="word",
        default="auto",
        words=("no", "auto", "yes", "require"),
        summary="Whether TLS records are handed to the kernel: no, auto (where the kernel can), "
        "yes (as auto, with a warning where it cannot), require (fail where it cannot).",
        seen_in="Bareos",
        option=TLS_OPTION,
        directive="Enable kTLS",
        places=("director.Client",),
        candidates=("no", "auto"),
        effect="Daemons send files without copying them; without sendfile nothing is gained. No "
        "gain was seen in a backup: an emulated machine did not tell the kernel's TLS from "
        "OpenSSL's.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="tls_cipher_suites",
        kind="text",
        default="",
        summary="Cipher suites of TLS 1.3, in OpenSSL's notation; without it OpenSSL's own "
        "choice. The Client's go before those of the Storage.",
        seen_in="Bareos",
        directive="TLS Cipher Suites",
        places=("director.Client", "director.Storage"),
        changes="protection",
        effect="AES is fastest where the processor computes it, else ChaCha20. In backups here no "
        "cipher could be distinguished from another.",
        evidence="performance.md#bareos",
    ),
    Knob(
        name="maximum_bandwidth_per_job",
        kind="rate",
        default=0,
        unit="bytes per second",
        zero="no limit",
        summary="The most bytes per second that a job may send. Of all limits that hold for a job "
        "the lowest counts; `strongroom bandwidth` changes it for a run under way.",
        seen_in="Bareos",
        directive="Maximum Bandwidth Per Job",
        places=("director.Client", "director.Storage", "agent.Client", "agent.Director"),
        effect="The link stays free for others; a backup takes longer.",
    ),
    Knob(
        name="maximum_bandwidth",
        kind="rate",
        default=0,
        unit="bytes per second",
        zero="no limit",
        summary="The most bytes per second that this job may send. Of all limits that hold for a "
        "job the lowest counts.",
        seen_in="Bareos",
        directive="Maximum Bandwidth",
        places=("director.Job", "director.JobDefs"),
        effect="The link stays free for others; a backup takes longer.",
    ),
)

KNOBS: Final = (*JOB_KNOBS, *AGENT_KNOBS, *CONNECTION_KNOBS)

_BY_NAME: Final = {knob.name: knob for knob in KNOBS}
_BY_DIRECTIVE: Final = {
    knob.directive.replace(" ", "").lower(): knob for knob in KNOBS if knob.directive
}


def knob_named(name: str) -> Knob:
    """The knob of this name."""
    return _BY_NAME[name]


def knob_of_directive(key: str) -> Knob | None:
    """The knob whose directive has this key (lower case, without blanks), wherever it stands."""
    return _BY_DIRECTIVE.get(key)


def knob_at(place: str, key: str) -> Knob | None:
    """The knob that a directive of a resource (`director.Client`, `Options`) sets."""
    knob = _BY_DIRECTIVE.get(key)
    return knob if knob is not None and place in knob.places else None


def default_number(name: str) -> int:
    """The default of a number or a rate."""
    return int(_BY_NAME[name].default)


def default_switch(name: str) -> bool:
    """The default of a switch."""
    return bool(_BY_NAME[name].default)


def default_word(name: str) -> str:
    """The default of a word or a text."""
    return str(_BY_NAME[name].default)


def search_space() -> dict[str, tuple[Value, ...]]:
    """Name -> values worth measuring, of the knobs that change speed or size and nothing else."""
    return {
        knob.name: knob.candidates for knob in KNOBS if knob.candidates and knob.changes == "speed"
    }
