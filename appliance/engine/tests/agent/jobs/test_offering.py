"""A client offers to share what its director asks for, unless its own configuration says less."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from kit.agent_site import AgentSite
from kit.offering_site import OfferingSite
from strongroom.engine.filesets.spec import FileSetInclude, FileSetSpec


@pytest.mark.parametrize(
    ("own", "asked", "offered"),
    [
        (None, ("usr", "srv"), {"usr/file", "srv/file"}),
        (None, (), set()),
        ("usr", ("usr", "srv"), {"usr/file"}),
        ("usr", ("srv",), set()),
        ("", ("usr", "srv"), set()),
        (".", ("usr",), {"usr/file"}),
        ("usr/", (".",), {"usr/file"}),
    ],
)
def test_an_agent_narrows_what_its_director_shares_and_never_widens_it(
    site: AgentSite, public_folder: Path, own: str | None, asked: tuple[str, ...], offered: set[str]
) -> None:
    def place(name: str) -> str:
        return str(public_folder) if name == "." else f"{public_folder}/{name}"

    for name in ("usr", "srv"):
        (public_folder / name).mkdir()
        (public_folder / name / "file").write_text(name)
        (public_folder / name / "file").chmod(0o644)
    if own is not None:
        site.of_client = f'Share Below = "{place(own) if own else ""}"'
        site.configure()
    site.start_connected()
    fileset = FileSetSpec(name="all", includes=(FileSetInclude(files=(str(public_folder),)),))
    message = site.backup(fileset=fileset, share_below=tuple(place(name) for name in asked))
    site.director.send(message)
    ended = site.director.ended(message.run_id)
    assert ended.status == "done", ended
    with closing(site.open()) as repository:
        found = OfferingSite(repository).offered(ended.snapshot)
    assert found == {os.fsencode(public_folder / name) for name in offered}


def test_a_folder_that_is_none_fails_the_run(agent: AgentSite) -> None:
    message = agent.backup(share_below=("/usr/../etc",))
    agent.director.send(message)
    ended = agent.director.ended(message.run_id)
    assert (ended.status, ended.error_id) == ("failed", "usage")
