"""`strongroom snapshots` lists, filters and groups; at once, and with any key."""

import pytest

from strongroom.base.errors import SnapshotNotFoundError, UsageError


def listed(site, *words):
    return [found["id"] for found in site.command.objects("snapshots", *words)]


def test_the_oldest_comes_first(site):
    assert listed(site) == [site.before, site.after, site.other]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--host", "mail"), ["other"]),
        (("--host", "nobody"), []),
        (("--tag", "daily"), ["before", "after"]),
        (("--tag", "daily,first"), ["before"]),
        (("--tag", "daily", "--tag", "first"), ["before"]),
        (("--job", "nightly"), ["after"]),
        (("--latest", "1"), ["other"]),
        (("--latest", "2"), ["after", "other"]),
        (("--before", "1d"), []),
        (("--before", "@99999999999"), ["before", "after", "other"]),
        (("--group-by", "host", "--latest", "1"), ["other", "after"]),
        (("--group-by", "host,paths,tags,job"), ["other", "after", "before"]),
    ],
)
def test_filters_and_groups(site, words, expected):
    found = listed(site, *words)
    assert sorted(found) == sorted(getattr(site, name) for name in expected)


def test_a_path_selects_snapshots_made_of_it(site):
    assert listed(site, "--path", str(site.tree)) == [site.before, site.after]
    assert listed(site, "--path", f"{site.tree}/../tree/etc/") == [site.other]


def test_one_snapshot_is_shown_by_its_id_or_as_the_latest(site):
    assert listed(site, site.before[:12]) == [site.before]
    assert listed(site, "latest", "--host", "web1") == [site.after]
    heading, row = site.command("snapshots", "latest", "--host", "mail")
    assert (heading.split()[0], row.split()[0]) == ("ID", site.other[:8])


def test_one_snapshot_is_refused_as_elsewhere(site):
    code = SnapshotNotFoundError.exit_code
    site.command("snapshots", "fffffff", exit_code=code)
    site.command("snapshots", "latest", "--host", "nobody", exit_code=code)
    several = site.command.run(
        "snapshots", "latest", key_file=site.command.restore_key, exit_code=UsageError.exit_code
    )
    assert "--host NAME" in several.stderr


def test_the_table_shows_what_there_is(site):
    heading, *rows, total = site.command("snapshots")
    assert heading.split() == [
        "ID", "TIME", "HOST", "JOB", "LEVEL", "FILES", "SIZE", "TAGS", "PATHS"
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == [
        snapshot[:8] for snapshot in (site.before, site.after, site.other)
    ]
    assert "daily,first" in rows[0]
    assert rows[2].endswith(str(site.tree / "etc"))
    assert total == "3 snapshots"


def test_a_put_key_lists_the_snapshots_of_its_client(site, tmp_path):
    site.command("key", "export-put", "--client", "web1", str(tmp_path / "web1.key"))
    answer = site.command.run("snapshots", key_file=tmp_path / "web1.key")
    assert answer.stdout.endswith("2 snapshots\n")


def test_the_environment_states_a_passphrase_file_or_command(site):
    command = site.command
    file = {"STRONGROOM_PASSWORD_FILE": str(command.passphrase_file)}
    assert command.run("snapshots", **file).stdout.endswith("3 snapshots\n")
    given = {"STRONGROOM_PASSWORD_COMMAND": f"cat '{command.passphrase_file}'"}
    assert command.run("snapshots", **given).stdout.endswith("3 snapshots\n")
    failed = command.run(
        "snapshots", exit_code=UsageError.exit_code, STRONGROOM_PASSWORD_COMMAND="false"
    )
    assert failed.stderr == (
        "strongroom: error [usage]: the passphrase command `false` failed (status 1)\n"
    )


@pytest.mark.parametrize(
    "words",
    [("--group-by", "size"), ("--latest", "0"), ("--before", "noon"), ("latest", "--latest", "1")],
)
def test_nonsense_is_refused(site, words):
    site.command("snapshots", *words, exit_code=UsageError.exit_code)


def test_nothing_heavy_is_imported(site):
    command = site.command
    answer = command.run("snapshots", key_file=command.restore_key, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rsplit("|", 1)[-1].strip() for line in answer.stderr.splitlines()}
    assert "strongroom.engine.repository.snapshots" in imported
    assert imported.isdisjoint(
        {
            "numpy",
            "lz4",
            "pyparsing",
            "strongroom.engine.repository.index.index",
            "strongroom.engine.repository.packs",
        }
    )
