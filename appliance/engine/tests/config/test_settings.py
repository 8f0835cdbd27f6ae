"""What a director is told, as typed settings."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config.strategies import blocks

from strongroom.base.errors import ConfigurationError, UnknownNameError, UsageError
from strongroom.config.resolve import resolve
from strongroom.config.settings.admin_commands import AdminCommand, parse_admin_command
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.daemons import parse_quota
from strongroom.config.settings.job import Companion, DuplicateRules, RunScript, parse_companion
from strongroom.config.settings.levels import level_of
from strongroom.config.settings.pool import KeepRules
from strongroom.config.table.schema import schema
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.engine.scan.share_folders import DEFAULT_SHARE_BELOW

DIRECTOR = """
Director { Name = dir; Password = "p"; Messages = m; Port = 9999
  Addresses = { ip = { addr = 192.0.2.1 }; ipv6 = { addr = ::1; port = 7 } }
  Absolute Job Timeout = 60; Time Zone = Europe/Vienna; Maximum Concurrent Jobs = 3 }
Catalog { Name = cat; DB Name = a; DB User = b; DB Address = db; DB Port = 5433; DB Password = "x" }
Catalog { Name = unused; DB Name = a; DB User = b }
Messages { Name = m; Mail Command = "mail %r"; Mail = a = all; Console = all }
Client { Name = c; Address = host; Password = "p"; Hard Quota = 1 k; Enable kTLS = require
  Scan Threads = 3; Maximum Bandwidth Per Job = 1k/s; Share Below = /usr//, "/srv/My Files"
  Share Below = /opt }
Client { Name = dialled; Address = host; Password = "p"; Port = 1
  Connection From Director To Client = yes; Share Below = "" }
Client { Name = shut; Address = host; Password = "p"; Enabled = no; TLS Enable = no
  Connection From Director To Client = yes }
Storage { Name = s; Address = host; Password = "p"; Device = d; Media Type = File; Enabled = no }
Storage { Name = t; Address = host; Password = "p"; Device = e; Device = f; Media Type = File
  Repository = /srv/t; Passphrase File = /etc/t; Share Chunks From = 0; Prune Memory = 2 g }
Pool { Name = p; Next Pool = q; Keep Daily = 7; Keep Within = 1 week; Keep Tag = yearly
  Storage = s, t; Minimum Retention = 1 day }
Pool { Name = q; Volume Retention = 10 days; Auto Prune = no }
Schedule { Name = weekly; Time Zone = UTC
  Run = Full Pool=q Storage=t Priority=5 MaxRunSchedTime="2 h" 1st sun at 2:05
  Run = Incremental mon-fri at 9:10pm
  Run = Incremental mon-fri at 9:10pm
}
FileSet { Name = f; Ignore FileSet Changes = yes
  Include {
    Options { Compression = ZSTD3; Wild = "*.o"; Exclude = yes; Size = 100-200; Xattr Support = no }
    Options { One FS = no }
    File = /home; File = "<list"
    Exclude Dir Containing = .nobackup
  }
  Exclude { File = /home/x }
}
Profile { Name = readers; Job ACL = *all*; Where ACL = /tmp }
Console { Name = ann; Password = "p"; Job ACL = "!secret"; Profile = readers }
JobDefs { Name = base; Type = Backup; Level = Full; Messages = m; Pool = p; Client = c; FileSet = f
  Full Backup Pool = q; Client Run Before Job = "deep"; Max Run Time = 2 hours }
JobDefs { Name = day; JobDefs = base; Level = Incremental; Schedule = weekly; Keep Last = 0 }
Job { Name = nightly; JobDefs = day; Full Max Runtime = 3 hours; Allow Duplicate Jobs = no
  Cancel Queued Duplicates = yes; Run = "other level=%l storage=t priority=4"
  RunScript { Command = one; Command = "two"; Runs When = After; Runs On Client = no
    Runs On Failure = yes; Fail Job On Error = no }
}
Job { Name = copies; JobDefs = base; Type = Migrate; Next Pool = p; Selection Type = client }
"""


def configuration(text: str = DIRECTOR, *, is_complete: bool = True) -> DirectorConfiguration:
    loaded = load_text(text, "director", LoadOptions(), "t.conf")
    found = resolve(loaded, whole=False).director
    if is_complete:
        assert [one.head() for one in loaded.diagnostics.sorted("error")] == []
    assert found is not None
    return DirectorConfiguration.of(found)


def test_the_director_and_its_catalog():
    found = configuration()
    assert found.director.name == "dir"
    assert found.director.addresses == (("192.0.2.1", 9999), ("::1", 7))
    assert found.director.working_folder == "/var/lib/strongroom/director"
    assert found.director.authority_folder == ""
    assert found.director.time_zone == "Europe/Vienna"
    assert found.director.maximum_concurrent_jobs == 3
    assert found.director.absolute_job_timeout_seconds == 60
    assert found.catalog is not None
    assert (found.catalog.name, found.catalog.db_port) == ("cat", 5433)
    assert found.catalog.db_password == "x"
    assert "x" not in repr(found.catalog).partition("db_port")[2]
    plain = configuration('Director { Name = dir; Password = "p"; Messages = m }')
    # "" is every address, of IPv4 and IPv6.
    assert plain.director.addresses == (("", 9101),)
    families = "ip = { port = 1 } ipv4 = { port = 2 } ipv6 = { port = 3 }"
    wide = configuration(
        f'Director {{ Name = dir; Password = "p"; Messages = m; Addresses = {{ {families} }} }}'
    )
    assert wide.director.addresses == (("", 1), ("0.0.0.0", 2), ("::", 3))
    assert plain.catalog is None


def test_minimum_retention_is_on_unless_it_is_switched_off():
    head = 'Director { Name = dir; Password = "p"; Messages = m }\n'
    for text, seconds in (
        ("", 7 * 86400),
        ("Keep Last = 1", 7 * 86400),
        ("Volume Retention = 30 days", 7 * 86400),
        ("Volume Retention = 1 day", 86400),
        ("Volume Retention = 1 day; Minimum Retention = 3 days", 3 * 86400),
        ("Minimum Retention = 0", 0),
    ):
        found = configuration(f"{head}Pool {{ Name = p; {text} }}", is_complete=False)
        assert found.pools["p"].minimum_retention_seconds == seconds, text


def test_clients_and_storages():
    found = configuration()
    client = found.client("c")
    assert (client.port, client.is_dialled, client.ktls) == (9102, False, "require")
    assert (client.hard_quota_bytes, client.maximum_bandwidth_per_job_bytes_per_second) == (
        1024,
        1024,
    )
    assert (client.knobs.scan_threads, client.knobs.shards) == (3, None)
    assert (found.client("dialled").is_dialled, found.client("dialled").ktls) == (True, "auto")
    assert (found.client("shut").is_dialled, found.client("shut").tls_enable) == (False, False)
    assert client.share_below == ("/usr", "/srv/My Files", "/opt")
    assert found.client("dialled").share_below == ()
    assert found.client("shut").share_below == DEFAULT_SHARE_BELOW
    assert (found.storage("t").share_chunks_from, found.storage("s").share_chunks_from) == (0, 3)
    assert (found.storage("t").prune_memory_bytes, found.storage("s").prune_memory_bytes) == (
        2 << 30,
        1 << 30,
    )
    assert found.storage("t").devices == ("e", "f")
    assert (found.storage("t").repository, found.storage("s").repository) == ("/srv/t", "")


def test_pools_and_what_they_keep():
    found = configuration()
    assert found.pool("p").keep == KeepRules(daily=7, within_seconds=604800, tags=("yearly",))
    assert not found.pool("p").is_retention_set
    assert found.pool("p").volume_retention_seconds == 365 * 86400
    assert found.pool("p").minimum_retention_seconds == 86400
    assert (found.pool("q").keep, found.pool("q").auto_prune) == (None, False)
    assert found.pool("q").is_retention_set


def test_a_schedule_has_each_run_once_and_names_what_it_overrides():
    schedule = configuration().schedules["weekly"]
    first, second = schedule.runs
    assert (first.level, first.pool, first.storage, first.priority) == ("Full", "q", "t", 5)
    assert first.max_run_sched_time_seconds == 7200
    assert (second.level, second.pool) == ("Incremental", None)
    assert (schedule.time_zone, schedule.enabled) == ("UTC", True)


def test_a_job_has_all_that_it_inherits():
    found = configuration()
    job = found.job("nightly")
    assert (job.kind, job.type, job.level, job.enabled) == ("backup", "Backup", "Incremental", True)
    assert (job.client, job.fileset, job.schedule, job.messages) == ("c", "f", "weekly", "m")
    assert (job.pool_of_level("full"), job.pool_of_level("incremental")) == ("q", "p")
    assert (job.longest_run_seconds("full"), job.longest_run_seconds("incremental")) == (
        10800,
        7200,
    )
    assert job.keep == KeepRules(last=0)
    assert job.duplicates == DuplicateRules(allow=False, cancel_queued=True)
    assert (job.priority, job.reschedule_times, job.max_wait_time_seconds) == (10, 5, 0)
    assert (job.where, job.job_to_verify, job.next_pool) == ("", "", "")
    assert found.storage_of(job) == "t"
    assert [parse_companion(text).at_level("full") for text in job.companions] == [
        Companion("other", level="full", storage="t", priority=4)
    ]
    after = RunScript(("one", "two"), (), "After", False, True, True, False)
    before = RunScript(("deep",), (), "Before", True, True, False, True)
    assert job.run_scripts == (after, before)
    assert job.scripts(("After",), on_client=False) == (after,)
    assert job.scripts(("After",), on_client=True) == ()


def test_a_copy_job_finds_its_next_pool():
    found = configuration()
    copies, nightly = found.job("copies"), found.job("nightly")
    assert (copies.kind, copies.selection_type) == ("copy", "Client")
    for job, pool, said, expected in (
        (copies, "p", "", "p"),
        (copies, "p", "q", "q"),
        (nightly, "p", "", "q"),
        (nightly, "q", "", None),
    ):
        next_pool = found.next_pool_of(job, pool, said)
        assert (next_pool and next_pool.name) == expected


def test_a_fileset_keeps_lists_as_they_are_written():
    fileset = configuration().fileset("f")
    (include,) = fileset.includes
    assert include.files == ("/home", "<list")
    assert include.exclude_dir_containing == (".nobackup",)
    first, second = include.options
    assert (first.compression, first.wild, first.exclude) == ("zstd3", ("*.o",), True)
    assert (first.smallest_bytes, first.largest_bytes) == (100, 200)
    assert (first.xattrs, first.acls, first.one_file_system) == (False, None, True)
    assert not second.one_file_system
    assert fileset.excludes == ("/home/x",)
    assert fileset.ignores_changes


def test_permissions_name_their_profiles():
    found = configuration()
    assert found.consoles["ann"].profiles == ("readers",)
    assert found.consoles["ann"].entries("job") == ("!secret",)
    assert found.profiles["readers"].entries("where") == ("/tmp",)


def test_what_there_is_not_is_told_by_its_name():
    found = configuration()
    for lookup, kind in (
        (found.job, "Job"),
        (found.client, "Client"),
        (found.fileset, "FileSet"),
        (found.pool, "Pool"),
        (found.storage, "Storage"),
    ):
        with pytest.raises(UnknownNameError, match=f"{kind} 'nobody'"):
            lookup("nobody")
    with pytest.raises(ConfigurationError, match="Director"):
        configuration("Pool { Name = p }")


def test_all_of_it_is_frozen():
    found = configuration()
    for frozen, name in (
        (found, "jobs"),
        (found.director, "name"),
        (found.job("nightly"), "level"),
        (found.job("nightly").duplicates, "allow"),
    ):
        with pytest.raises(AttributeError):
            setattr(frozen, name, "other")
    with pytest.raises(TypeError):
        found.jobs["more"] = found.job("nightly")  # type: ignore[index]


def test_the_same_text_gives_equal_settings_and_another_does_not():
    assert configuration() == configuration()
    assert configuration() != configuration(DIRECTOR.replace("Keep Daily = 7", "Keep Daily = 8"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_the_language_allows_has_settings(data):
    resources = schema().components["director"].resources
    key = data.draw(st.sampled_from(sorted(set(resources) - {"director", "jobdefs", "counter"})))
    text = 'Director { Name = dir; Password = "p"; Messages = m }\n'
    text += data.draw(blocks(resources[key], resources[key].name))
    assert configuration(text, is_complete=False) == configuration(text, is_complete=False)


@pytest.mark.parametrize(
    ("kind", "text", "level"),
    [
        ("backup", "", "incremental"),
        ("backup", "Base", "full"),
        ("backup", "VirtualFull", "incremental"),
        ("verify", "", "client"),
        ("verify", "VolumeToCatalog", "content"),
        ("copy", "Full", ""),
    ],
)
def test_levels_of_the_language_stand_for_those_of_the_engine(kind, text, level):
    assert level_of(kind, text) == level


@pytest.mark.parametrize(("kind", "text"), [("backup", "Data"), ("verify", "Full")])
def test_a_level_of_another_kind_of_job_is_refused(kind, text):
    with pytest.raises(UsageError, match=f"{kind} .*'{text}'; "):
        level_of(kind, text)


def test_console_commands():
    assert parse_admin_command("prune") == AdminCommand("prune")
    assert parse_admin_command(" backup  catalog main") == AdminCommand("backup catalog", "main")
    assert parse_admin_command("expire runs 40") == AdminCommand("expire runs", days=40)
    for text in ("", "backup", "purge", "expire runs", "expire runs -1", "expire runs ten"):
        with pytest.raises(UsageError):
            parse_admin_command(text)


@pytest.mark.parametrize("text", ["", "'one", "one level", "one since=1", "one priority=high"])
def test_a_companion_that_makes_no_sense_is_refused(text):
    with pytest.raises(UsageError):
        parse_companion(text)


def test_quotas():
    assert parse_quota("web1 500 GB") == ("web1", 500 * 1000**3)
    with pytest.raises(UsageError, match="size"):
        parse_quota("web1")
