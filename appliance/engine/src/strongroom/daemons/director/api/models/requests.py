"""Request bodies, as OpenAPI shows them; unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from strongroom.daemons.director.served_formats import PathText

Name = Annotated[str, Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
NameNeeded = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
Rate = Annotated[int, Field(ge=0, le=1 << 50, description="Bytes per second; 0 is no limit.")]


class Question(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRun(Question):
    """A run to queue; empty fields are taken from the job."""

    job: NameNeeded
    level: Literal["", "full", "differential", "incremental"] = ""
    client: Name = ""
    fileset: Name = ""
    storage: Name = ""
    pool: Name = ""
    priority: int = Field(0, ge=0, le=10_000, description="0: the job's priority.")


class NewRestore(Question):
    """A restore to queue.

    `client`: where the files go, "" for the one they came from. `target`: a folder on it; either
    that or `in_place`, which puts every path where it was. `paths` keep their whole path below the
    target (`/t/etc/passwd`); what is in `subpath`, of which there is only one, goes right into it
    (`/t/passwd`). `keep_privileges`: restore set-id bits,
    device nodes, file capabilities and trusted attributes also to another client and below a
    target, which needs the command `keep-privileges`; null: as the Restore job says. In place on
    the client that was backed up they always are.
    """

    snapshot: str = Field(min_length=4, max_length=128, pattern=r"^[0-9a-f]+$")
    paths: list[PathText] = Field(default_factory=list, max_length=10_000)
    subpath: PathText | None = None
    client: Name = ""
    job: Name = ""
    target: str = Field("", max_length=4096)
    in_place: bool = False
    overwrite: Literal["", "always", "if-changed", "if-newer", "never"] = Field(
        "", description='"": as Replace of the Restore job says.'
    )
    delete: bool = False
    dry_run: bool = False
    keep_privileges: bool | None = None
    workers: int = Field(0, ge=0, le=256)
    priority: int = Field(0, ge=0, le=10_000)
    maximum_bytes_per_second: Rate = 0


class NewEstimate(Question):
    """Count what a job would back up; with `listing` the paths come in the run's log."""

    job: NameNeeded
    listing: bool = False


class Bandwidth(Question):
    """The bandwidth limit of an active run."""

    maximum_bytes_per_second: Rate


class TokenWanted(Question):
    """A token for the Console `name`, restricted to what `profile` allows when one is named."""

    name: NameNeeded
    profile: Name = ""
    lifetime_seconds: int = Field(
        90 * 86400, ge=0, le=10 * 366 * 86400, description="0: until it is revoked."
    )


class Enrolment(Question):
    """An agent's request for its first certificate: a PKCS #10 request in PEM, a one-time token.

    For a renewal after the end of a certificate the token is a proof of having its key.
    """

    token: str = Field(min_length=8, max_length=4096)
    csr: str = Field(min_length=64, max_length=16_384)
    name: NameNeeded


class Renewal(Question):
    """A request for the next certificate, sent with the current one."""

    csr: str = Field(min_length=64, max_length=16_384)


class TestWanted(Question):
    """A test of a destination of notices: of a Notify block, `MESSAGES/NAME`, "" for all."""

    destination: str = Field("", max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")
