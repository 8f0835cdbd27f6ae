"""The director's descriptions of jobs: the first line of the input of a job process.

Places are named, never keys: the process reads the passphrase itself.
"""

from __future__ import annotations

import msgspec

from strongroom.director.repositories.access import RepositoryAccess


class OwnJob(msgspec.Struct, frozen=True, kw_only=True, tag_field="job_kind"):
    """Base of all descriptions. host: the name in its leases."""

    place: RepositoryAccess
    host: str
    cache_folder: str = ""


class ReadSnapshot(OwnJob, frozen=True, kw_only=True, tag="read-snapshot"):
    """Read all data of a snapshot; see engine.verify.stored."""

    snapshot: str


class RestoreSample(OwnJob, frozen=True, kw_only=True, tag="restore-sample"):
    """Restore a sample of a snapshot and compare it; see engine.verify.sample."""

    snapshot: str
    scratch: str
    most_files: int
    most_bytes: int


class CopySnapshots(OwnJob, frozen=True, kw_only=True, tag="copy-snapshots"):
    """Copy snapshots to another repository.

    The end's summary has `copies`: [original, copy], also of those that were there already. false:
    those of the target that the catalog knows to be false.
    """

    target: RepositoryAccess
    snapshots: tuple[str, ...]
    false: tuple[str, ...] = ()


class Sharing(msgspec.Struct, frozen=True):
    """What is shared: chunks that so many clients have, of these (name and generation)."""

    least_clients: int
    clients: tuple[tuple[str, int], ...]


class Prune(OwnJob, frozen=True, kw_only=True, tag="prune"):
    """Verify uploads at a storage daemon, share, then remove data that no snapshot needs."""

    sharing: Sharing
    memory_bytes: int


class ShareJob(OwnJob, frozen=True, kw_only=True, tag="share"):
    """Store once what several clients offer; see engine.share."""

    sharing: Sharing


class VerifyUploads(OwnJob, frozen=True, kw_only=True, tag="vouch"):
    """Verify what agents uploaded; see engine.check.vouch."""


class BackUpFolder(OwnJob, frozen=True, kw_only=True, tag="back-up-folder"):
    """Make a snapshot of folders of this machine: the catalog's copy and the configuration."""

    job: str
    folders: tuple[str, ...]
    tags: tuple[str, ...]


OwnJobDescription = (
    ReadSnapshot | RestoreSample | CopySnapshots | Prune | ShareJob | VerifyUploads | BackUpFolder
)
