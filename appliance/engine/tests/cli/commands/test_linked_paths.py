"""Paths are understood as they are typed, also where a link leads to what was backed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.command import Command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A link: data/home, where everything is, is known as `people`."""
    real = tmp_path.resolve() / "data" / "home"
    for name in ("ann/keep", "ann/cache/file", "ann/notes.tmp", "bob/file"):
        (real / name).parent.mkdir(parents=True, exist_ok=True)
        (real / name).write_text(name)
    link = tmp_path.resolve() / "people"
    link.symlink_to("data/home")
    return link


def names(command: Command, home: Path) -> set[str]:
    beginning = f"{home.resolve()}/ann/"
    listed = command("ls", "-R", f"latest:{home.resolve()}/ann")
    return {line.removeprefix(beginning) for line in listed if line.startswith(beginning)}


@pytest.mark.parametrize("source", ["typed", "resolved"])
@pytest.mark.parametrize("pattern", ["typed", "resolved"])
def test_excluded_is_what_is_meant(command, home, tmp_path, source, pattern):
    ways = {"typed": home, "resolved": home.resolve()}
    place = ways[pattern]
    excluded = tmp_path / "patterns"
    excluded.write_text(f"{place}/ann/*.tmp\n")
    words = ("--exclude", f"{place}/ann/cache/", "--exclude-file", str(excluded))
    command("backup", f"{ways[source]}/ann", *words)
    assert names(command, home) == {"keep"}
    again = ("--exclude", f"{place}/ann/*", "--exclude", f"!{place}/ann/keep")
    command("backup", f"{ways[source]}/ann", *again)
    assert names(command, home) == {"keep"}


@pytest.mark.parametrize("named", ["typed", "resolved"])
@pytest.mark.parametrize("pattern", ["typed", "resolved"])
def test_a_fileset_means_the_same(command, home, tmp_path, named, pattern):
    ways = {"typed": home, "resolved": home.resolve()}
    place = ways[pattern]
    fileset = tmp_path / "fileset.conf"
    fileset.write_text(
        f"""FileSet {{
          Name = Home
          Include {{
            Options {{ Exclude = yes; WildFile = "{place}/ann/*.tmp" }}
            File = {ways[named]}/ann
          }}
          Exclude {{ File = {place}/ann/cache }}
        }}"""
    )
    command("backup", "--fileset-config", str(fileset))
    assert names(command, home) == {"keep"}


@pytest.mark.parametrize("named", ["typed", "resolved"])
@pytest.mark.parametrize("pattern", ["typed", "resolved"])
def test_regexes_and_patterns_from_above_mean_the_same(command, home, tmp_path, named, pattern):
    ways = {"typed": home, "resolved": home.resolve()}
    place = ways[pattern]
    fileset = tmp_path / "fileset.conf"
    fileset.write_text(
        f"""FileSet {{
          Name = Home
          Include {{
            Options {{
              Exclude = yes
              RegexDir = "^/nowhere$|^{place}/ann/cac.e$"
              WildFile = "{place}/*.tmp"
            }}
            File = {ways[named]}/ann
          }}
        }}"""
    )
    command("backup", "--fileset-config", str(fileset))
    assert names(command, home) == {"keep"}


def test_links_within_a_snapshot_are_followed(command, tmp_path):
    """As /var/run leads to /run in a snapshot of another machine."""
    root = tmp_path.resolve() / "machine"
    (root / "run/app").mkdir(parents=True)
    (root / "run/app/state").write_text("state")
    (root / "var").mkdir()
    (root / "var/run").symlink_to("../run")
    (root / "var/round").symlink_to("round")
    command("backup", str(root))
    (root / "var/run").unlink()
    inside = f"latest:{root}/var/run/app"
    assert command("ls", inside) == ["state"]
    assert command("ls", f"latest:{root}/var/run/") == ["app"]
    assert command("ls", f"latest:{root}/var/run") == [f"{root}/var/run"]
    assert command("dump", f"{inside}/state") == ["state"]
    assert command("find", "state", "--below", f"{root}/var/run/app")
    target = tmp_path / "out"
    command("restore", inside, "--target", str(target))
    assert (target / "state").read_text() == "state"
    command("verify", inside, "--against", str(target))
    command("ls", f"latest:{root}/var/round/file", exit_code=15)
    command("restore", f"latest:{root}/var/round/file", "--target", str(target), exit_code=15)


def test_snapshots_and_what_is_in_them_are_found(command, home, tmp_path):
    command("backup", f"{home}/ann")
    command("backup", f"{home}/bob")
    for way in (home, home.resolve()):
        only = ("--path", f"{way}/ann")
        assert len(command.objects("snapshots", *only)) == 1
        inside = f"latest:{way}/ann"
        assert {"keep", "cache"} <= {
            line.rpartition("/")[2] for line in command("ls", inside, *only)
        }
        assert command("dump", f"{inside}/keep", *only) == ["ann/keep"]
        assert command("find", "keep", "--below", f"{way}/ann")
        command("verify", inside, *only)
        target = tmp_path / f"out{way.is_symlink()}"
        words = ("--target", str(target), "--exclude", f"{way}/ann/cache")
        command("restore", inside, *only, *words)
        assert {one.name for one in target.iterdir()} == {"keep", "notes.tmp"}
    command("ls", f"latest:{home}/nothing", exit_code=15)


def test_a_path_that_the_snapshot_has_as_typed_is_that(command, home, tmp_path):
    """The link may be one of now, and a folder then."""
    target = home.readlink()
    home.unlink()
    (home / "ann").mkdir(parents=True)
    (home / "ann" / "then").write_text("then")
    command("backup", f"{home}/ann")
    (home / "ann" / "then").unlink()
    (home / "ann").rmdir()
    home.rmdir()
    home.symlink_to(target)
    assert command("ls", f"latest:{home}/ann") == ["then"]
