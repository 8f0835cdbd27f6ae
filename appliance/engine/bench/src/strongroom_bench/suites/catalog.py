"""All suites by name: what each is called, what it is compared with, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Literal, NamedTuple

from strongroom_bench.suites.result import Row


class Suite(NamedTuple):
    """A suite. `needed_bytes` on the disk at scale 1; the other names are of its module.

    `readers`: for whom its page is written.
    `choice`: what may be given to what measures it after the others, as an option of this name.
    """

    title: str
    summary: str
    readers: str
    axis: str
    needed_bytes: int
    module: str
    measure: str
    seed: str
    reference: str
    choice: Literal["", "delays", "shards"] = ""

    def load(self) -> tuple[Callable[..., tuple[str, list[Row]]], str, str]:
        """What measures it, its seed, and the condition that others are compared with."""
        module = import_module(f"strongroom_bench.suites.{self.module}")
        found = (getattr(module, name) for name in (self.measure, self.seed, self.reference))
        measure, seed, reference = found
        return measure, seed, reference


SUITES: Final = {
    "bacula-latency": Suite(
        "Scan threads on a slow file server",
        "one job with scan threads against nine jobs, on a file system that answers late",
        "administrators who back up network file systems, and for developers",
        "scan threads", 100 << 20, "bacula_latency", "measure_latency", "SEED", "NINE",
        choice="delays",
    ),
    "bacula-nfs": Suite(
        "Scan threads over NFS",
        "the same by the kernel's NFSv4 over a link that delays; as root, with its server running",
        "administrators who back up NFS servers, and for developers",
        "scan threads", 100 << 20, "bacula_latency", "measure_nfs", "NFS_SEED", "NINE",
        choice="delays",
    ),
    "bareos-compression": Suite(
        "Codecs and workers",
        "codecs by workers, on recordings, a root file system and sources; backup and restore",
        "administrators who move from Bareos, and for developers",
        "workers", 20 << 30, "bareos", "measure_compression", "SEED", "INLINE",
    ),
    "bareos-tls": Suite(
        "TLS, ciphers and kTLS",
        "no TLS, TLS by cipher and in the kernel, with and without compression",
        "administrators who move from Bareos, and for developers",
        "", 12 << 30, "bareos_tls", "measure_tls", "SEED", "TLS",
    ),
    "bareos-acl-xattr": Suite(
        "ACLs and extended attributes",
        "with and without them, on sources, a root file system and files that have some",
        "administrators who move from Bareos, and for developers",
        "", 14 << 30, "bareos_acl", "measure_acl_xattr", "SEED", "KEPT",
    ),
    "bareos-signature": Suite(
        "Signatures",
        "each digest, on recordings and sources",
        "administrators who move from Bareos, and for developers",
        "", 14 << 30, "bareos_signature", "measure_signature", "SEED", "UNSIGNED",
    ),
    "by-itself": Suite(
        "What a backup finds by itself",
        "no setting against fixed ones: local disk, slow disk, file server, WAN",
        "administrators who ask whether they have to tune, and for developers",
        "", 4 << 30, "by_itself", "measure_by_itself", "SEED", "ITSELF",
    ),
    "hashbackup": Suite(
        "A million empty files",
        "by 1, 2, 4 and 8 shards: time, memory, catalog",
        "administrators with mail or object stores of small files, and for developers",
        "shards", 2 << 30, "hashbackup", "measure_hashbackup", "SEED", "ONE",
        choice="shards",
    ),
    "object-store": Suite(
        "An object store at a distance",
        "a repository in SeaweedFS with 0, 10 and 50 ms of round trip, beside restic",
        "administrators who keep repositories in object stores, and for developers",
        "", 24 << 30, "object_store", "measure_object_store", "SEED", "OURS",
        choice="delays",
    ),
    "obnam": Suite(
        "Upload queue and LRU over a thin link",
        "upload queue and LRU, a tree that hardly changes, a link of 1 ms and 3 MB/s",
        "administrators of small links, and for developers",
        "blocks in the upload queue", 12 << 30, "obnam", "measure_obnam", "SEED", "DEFAULTS",
    ),
    "tsm-baseline": Suite(
        "What bounds a client, step by step",
        "stat rate, content, disk, network, and the backups that they predict",
        "administrators who ask what bounds their backups, and for developers",
        "reads at once", 8 << 30, "tsm_baseline", "measure_tsm", "SEED", "WARM",
    ),
}  # fmt: skip
