"""What a daemon could not carry out is found when its configuration is read, at its place."""

from __future__ import annotations

import os

import pytest

from strongroom.config.resolve import resolve
from strongroom.config.trees.loader import LoadOptions, load_text, load_trees

BASE = """
Director { Name = dir; Password = "p"; Messages = m }
Catalog { Name = cat; DB Name = a; DB User = b }
Messages { Name = m; Console = all }
Client { Name = c; Address = host; Password = "p" }
Storage { Name = s; Address = host; Password = "p"; Device = d; Media Type = File
  Repository = /srv/s }
Storage { Name = other; Address = host; Password = "p"; Device = d; Media Type = File
  Repository = "unix:/run/other.sock" }
Storage { Name = bare; Address = host; Password = "p"; Device = d; Media Type = File }
Storage { Name = shut; Address = host; Password = "p"; Device = d; Media Type = File; Enabled = no }
Pool { Name = p; Next Pool = offsite }
Pool { Name = offsite; Storage = other }
Pool { Name = lonely }
Schedule { Name = weekly; Run = Full sat at 21:00; }
Schedule { Name = checking; Run = VolumeToCatalog sun at 9:00; }
FileSet { Name = f; Include { File = /home } }
JobDefs { Name = usual; Type = Backup; Client = c; FileSet = f; Storage = s; Pool = p; Messages = m
}
Job { Name = nightly; JobDefs = usual; Schedule = weekly }
"""
FIRST_LINE = BASE.count("\n") + 1


def findings(text: str, component: str = "director", **options) -> list[str]:
    """Each as `line:column: severity: message`."""
    loaded = load_text(text, component, LoadOptions(**options), "t.conf")
    resolve(loaded)
    return [one.head().removeprefix("t.conf:") for one in loaded.diagnostics.sorted()]


def test_nothing_is_wrong_with_the_base():
    assert findings(BASE) == []


# What is added to the base, and what is found: the column, whether it is an error, the message.
@pytest.mark.parametrize(
    ("text", "column", "severity", "message"),
    [
        ("Job { Name = v; JobDefs = usual; Type = Verify }", 1, "error",
         "Verify job v needs Job To Verify, the backup whose snapshots it verifies"),
        ("Job { Name = v; JobDefs = usual; Type = Verify; Enabled = no }", 1, "warning",
         "Verify job v needs Job To Verify, the backup whose snapshots it verifies"),
        ("Job { Name = v; JobDefs = usual; Type = Verify; Job To Verify = v }", 49, "error",
         "Verify job v verifies v, a job of Type Verify, which has no snapshots"),
        (("Job { Name = v; JobDefs = usual; Type = Verify; Job To Verify = n2 }\n"
         "Job { Name = n2; JobDefs = usual; Storage = bare }"), 1, "warning",
         "Verify job v cannot run: Storage bare needs Repository, the director's way to it"),
        ("Job { Name = v; JobDefs = usual; Type = Verify; Job To Verify = nightly; Level = Full }",
         74, "error", "Verify job v cannot have its level: a verify has no level 'Full'"),
        ("Job { Name = k; JobDefs = usual; Type = Consolidate }", 34, "error",
         "Consolidate job k has nothing to consolidate: every snapshot is complete"),
        ("Job { Name = k; JobDefs = usual; Type = Consolidate; Enabled = no }", 34, "warning",
         "Consolidate job k has nothing to consolidate"),
        ("Job { Name = k; JobDefs = usual; Type = Archive }", 34, "error",
         "Archive job k does nothing: jobs of Type Archive do not exist here. Remove the job"),
        ("Job { Name = k; JobDefs = usual; Type = Migrate; Selection Type = PoolUncopiedJobs }", 34,
         "warning", "Migrate job k copies, and removes nothing"),
        ("Job { Name = k; JobDefs = usual; Protocol = NDMP_NATIVE }", 34, "error",
         "Backup job k speaks NDMP, which is not supported"),
        ("Job { Name = k; JobDefs = usual; Type = Restore; Protocol = NDMP }", 50, "warning",
         "Restore job k speaks NDMP, which is not supported"),
        ("Job { Name = b; JobDefs = usual; Level = Data }", 34, "error",
         "Backup job b cannot have its level: a backup has no level 'Data'"),
        ("Job { Name = b; JobDefs = usual; Storage = shut }", 34, "warning",
         "Backup job b cannot run: every Storage of it (or of its Pool) is disabled"),
        ("Job { Name = b; JobDefs = usual; Maximum Concurrent Jobs = 0 }", 34, "warning",
         "Backup job b never starts: its Maximum Concurrent Jobs is 0"),
        ("Job { Name = r; JobDefs = usual; Type = Restore; Schedule = weekly }", 50, "warning",
         "Restore job r is not started by its Schedule weekly: a restore needs a snapshot"),
        ("Job { Name = r; JobDefs = usual; Type = Restore; Where = tmp }", 50, "warning",
         "Restore job r cannot restore to tmp: Where is an absolute path without `..`"),
        ("Job { Name = k; JobDefs = usual; Type = Copy; Pool = lonely }", 47, "error",
         "Copy job k needs a Next Pool (its own or its Pool's) to copy to"),
        ("Job { Name = k; JobDefs = usual; Type = Copy; Next Pool = lonely }", 47, "error",
         "Copy job k cannot copy to its Next Pool lonely, which has no Storage"),
        ("Job { Name = k; JobDefs = usual; Type = Copy; Storage = other }", None, "error",
         "Copy job k would copy Storage other to itself: its Next Pool needs another Storage"),
        ("Job { Name = k; Type = Copy; Messages = m; Pool = p }", 44, "error",
         "Copy job k needs a Storage (its own or its Pool's) to copy from"),
        ("Job { Name = k; JobDefs = usual; Type = Copy; Storage = bare }", 1, "warning",
         "Copy job k cannot run: Storage bare needs Repository, the director's way to it"),
        ("Job { Name = k; JobDefs = usual; Type = Migrate; Selection Type = SqlQuery }", 50,
         "error", "Migrate job k cannot select by SqlQuery: there are PoolUncopiedJobs, Job"),
        ('Job { Name = k; JobDefs = usual; Type = Copy; Selection Pattern = "(" }', 47, "error",
         "Copy job k has a Selection Pattern that is not a regular expression"),
        (("Job { Name = a; JobDefs = usual; Type = Admin\n"
         '  RunScript { Runs On Client = no; Console = "label volume" } }'), 36, "error",
         "there is no console command 'label volume' for admin jobs; there are vouch, share"),
        (("Job { Name = a; JobDefs = usual; Type = Admin\n"
         '  RunScript { Runs On Client = no; Console = "expire runs" } }'), 36, "error",
         "write `expire runs DAYS`"),
        (("Job { Name = a; JobDefs = usual; Type = Admin\n"
         '  RunScript { Runs On Client = no; Console = "prune vault" } }'), 36, "error",
         "`prune vault` names the Storage vault, which is not defined"),
        (("Job { Name = a; JobDefs = usual; Type = Admin\n"
         '  RunScript { Runs On Client = no; Console = "vouch bare" } }'), 1, "warning",
         "Admin job a cannot run: Storage bare needs Repository, the director's way to it"),
        ("Job { Name = a; JobDefs = usual; Type = Admin; Client Run Before Job = sync }", 48,
         "warning", "a Admin job runs no scripts on a client; set Runs On Client = no"),
        ("Job { Name = b; JobDefs = usual; RunScript { Console = prune } }", 46, "warning",
         "Console commands are only for jobs of Type Admin"),
        ("Job { Name = b; JobDefs = usual; RunScript { Command = sync } }", 34, "warning",
         "a RunScript without Runs When is never run"),
        ("Job { Name = b; JobDefs = usual; Run Before Job = \"echo 'no\" }", 34, "error",
         "the command \"echo 'no\" cannot be split into words: No closing quotation"),
        ("Job { Name = b; JobDefs = usual; Run After Job = \"echo 'no\" }", 34, "warning",
         "the command \"echo 'no\" cannot be split into words: No closing quotation"),
        ('Job { Name = b; JobDefs = usual; Run = "nightly since=1" }', 34, "error",
         "Run of job b: 'since=1' is none of level, client, fileset, storage, pool, priority"),
        ('Job { Name = b; JobDefs = usual; Run = "nightli level=%l" }', 34, "error",
         "Run of job b: the director's configuration has no Job 'nightli'"),
        ('Job { Name = b; JobDefs = usual; Run = "nightly pool=q" }', 34, "error",
         "Run of job b: the director's configuration has no Pool 'q'"),
        ('Job { Name = b; JobDefs = usual; Run = "nightly level=Data" }', 34, "error",
         "Run of job b: a backup has no level 'Data'"),
        ("Job { Name = b; JobDefs = usual; Schedule = checking }", None, "error",
         "Run starts Backup job b with a level it cannot have: a backup has no level"),
        (("Job { Name = v; JobDefs = usual; Type = Verify; Job To Verify = nightly\n"
         "  Schedule = weekly }"), None, "error",
         "Run starts Verify job v with a level it cannot have: a verify has no level 'Full'"),
        ("Schedule { Name = n; Run = Full feb on 30 at 1:00; }", 22, "warning",
         "this Run of Schedule n is never due: no day matches all of it"),
        ("Schedule { Name = n; Run = Full at 1:00; Time Zone = Europe/Wien }", 42, "warning",
         "there is no time zone 'Europe/Wien', so the system's own is used"),
        (('Storage { Name = t; Address = h; Password = "p"; Device = d; Media Type = File\n'
         "  Repository = vault }"), 3, "error",
         ("vault: a Repository is the absolute path of a folder, or unix:PATH of the storage "
          "daemon's socket")),
        (('Storage { Name = t; Address = h; Password = "p"; Device = d; Media Type = File\n'
         '  Repository = "unix:vault" }'), 3, "error", "unix:vault: the socket's path is absolute"),
        ('Client { Name = t; Address = h; Password = "p"; Maximum Concurrent Jobs = 0 }', 49,
         "warning", "no job of Client t ever starts: Maximum Concurrent Jobs is 0"),
        ('Client { Name = t; Address = h; Password = "p"; Share Below = /usr, srv }', 69, "error",
         "Share Below: 'srv' is not a folder to share: write an absolute path such as /usr"),
        ('Client { Name = t; Address = h; Password = "p"; Share Below = "/usr/../etc" }', 64,
         "error", "Share Below: '/usr/../etc' is not a folder to share"),
        ('Client { Name = t; Address = h; Password = "p"; Share Below = "", /usr }', 64, "error",
         'Share Below: "" means no folder, so name no others'),
        (('Storage { Name = t; Address = h; Password = "p"; Device = d; Media Type = File\n'
         "  Share Chunks From = 2 }"), 3, "warning",
         "Storage t never shares a chunk: Share Chunks From is 2, and the configuration has 1"),
        (("Job { Name = b; JobDefs = usual; FileSet = t }\n"
         'FileSet { Name = t; Include { File = "|list" } }'), 31, "error",
         "FileSet t runs a command on the director for a list of files, which is not allowed"),
        (("Job { Name = b; JobDefs = usual; FileSet = t }\n"
         "FileSet { Name = t; Include { Exclude Dir Containing = .no } }"), 21, "warning",
         "FileSet t has no File and no Plugin, so nothing is backed up"),
        ("Messages { Name = t; Mail Command = \"mail 'to\"; Mail = a = all }", 22, "warning",
         "reports of Messages t are not sent: the command \"mail 'to\" cannot be split"),
        ('Messages { Name = t; Mail Command = "/usr/sbin/sendmail -t"; Mail = a = all }', 22,
         "warning", "sendmail cannot deliver from within the sandbox of the director's unit"),
        ("Messages { Name = t; Mail = a = all }", 22, "warning",
         "without a command before it the mail goes to sendmail, which cannot deliver"),
        ("Messages { Name = t; SMTP User = a }", 22, "error",
         "Messages t: SMTP User has no effect without an SMTP Server"),
        ("Messages { Name = t; SMTP Server = mx }", None, "error",
         "Messages t: an SMTP Server needs a Mail From"),
        ("Messages { Name = t; SMTP Server = mx; Mail From = a@b; SMTP User = a }", 57, "error",
         "Messages t: SMTP User and SMTP Password File go together"),
        (("Messages { Name = t; SMTP Server = mx; Mail From = a@b; SMTP User = a\n"
          "  SMTP Password File = /p; SMTP Security = None }"), 28, "error",
         "Messages t: the password would be sent in clear text"),
        ("Messages { Name = t; Notify { Type = Slack; URL File = /u } }", None, "error",
         "a Notify block: it needs a Name"),
        ("Messages { Name = t; Notify { Name = n } }", None, "error",
         "Notify n of Messages t: it needs a Type"),
        ("Messages { Name = t; Notify { Name = n; Type = Slack } }", None, "error",
         "Notify n of Messages t: Type Slack needs URL File"),
        ("Messages { Name = t; Notify { Name = n; Type = Mail; To = a@b.c } }", 41, "error",
         "Notify n of Messages t: mail needs an SMTP Server in the Messages resource"),
        (("Messages { Name = t; Notify { Name = n; Type = Webhook; URL = https://h/x\n"
          "  Room = r } }"), 3, "error",
         "Notify n of Messages t: Room has no effect with Type Webhook"),
        ("Messages { Name = t; Notify { Name = n; Type = Webhook; URL = http://h/x } }", 57,
         "error", "Notify n of Messages t: what is sent to h could be read in transit; use https"),
        (('Messages { Name = t; Notify { Name = n; Type = Webhook\n'
          '  URL = "https://h/x?token=1" } }'), 3, "error",
         "Notify n of Messages t: an address with a secret in it is in a URL File"),
        (("Messages { Name = t; Notify { Name = n; Type = Webhook; URL = https://h/x\n"
          "  Digest At = 24:00 } }"), 3, "error",
         "Notify n of Messages t: Digest At takes a time of day such as 7:30"),
        (("Messages { Name = t; Notify { Name = n; Type = Slack; URL File = /u }\n"
          "  Notify { Name = n; Type = Slack; URL File = /u } }"), 12, "error",
         "Notify n of Messages t: there is one of this name already"),
        ("Messages { Name = t; Notify { Name = n; Type = Slack; URL File = u } }", 55, "error",
         "URL File takes an absolute path, not 'u'"),
        (("Messages { Name = t; SMTP Server = mx; Mail From = a@b; SMTP Security = None }"), 57,
         "error", "Messages t: mail to mx could be read on the way; use StartTLS or TLS"),
        (("Messages { Name = t; SMTP Server = mx; Mail From = a@b\n"
          '  Mail = "a(b" = all }'), 3, "error", "'a(b' is not a mail address"),
        (('Messages { Name = t; SMTP Server = mx; Mail From = a@b\n'
          '  Notify { Name = n; Type = Mail; To = "a(b@c" } }'), 35, "error",
         "Notify n of Messages t: 'a(b@c' is not a mail address"),
        (("Messages { Name = t; Notify { Name = n; Type = Command\n"
          '  Command = "/usr/sbin/sendmail ann" } }'), 3, "warning",
         "Notify n of Messages t: sendmail cannot deliver from within the sandbox"),
        (("Messages { Name = t; Notify { Name = n; Type = Command\n"
          '  Command = "sudo tell ann" } }'), 3, "warning",
         "Notify n of Messages t: sudo gets no other rights within the sandbox"),
        (("Messages { Name = t; Notify { Name = n; Type = Slack\n"
          "  URL File = /root/url } }"), 3, "warning",
         "/root/url is not seen within the sandbox of the director's unit, which has no /root/"),
        (("Storage { Name = t; Address = h; Password = p; Device = d; Media Type = File\n"
          "  Nearly Full At = 90; Full At = 80 }"), 3, "error",
         "Nearly Full At (90 percent) is above Full At (80 percent)"),
        ("Pool { Name = t; Storage = s; Copy To = othre }", 31, "error",
         "Copy To names othre, which is neither a Storage nor a Pool"),
        ("Pool { Name = t; Storage = s; Copy To = s }", 31, "error",
         "Copy To would copy Storage s to itself"),
        ("Pool { Name = t; Storage = other; Copy To = offsite }", 35, "error",
         "Copy To would copy Storage other to itself"),
        (("Pool { Name = t; Copy To = other }\n"
         "Job { Name = k; JobDefs = usual; Storage = other; Pool = t }"), 18, "error",
         "Copy To would copy Storage other to itself"),
        ("Pool { Name = t; Storage = s; Copy To = lonely }", 31, "error",
         "Copy To names the Pool lonely, which has no Storage"),
        ("Pool { Name = t; Storage = s; Copy To = bare }", 31, "error",
         "Copy To needs Repository in Storage bare"),
        (("Pool { Name = t; Storage = s; Copy To = t2 }\n"
          "Pool { Name = t2; Storage = other; Copy To = t }"), 31, "error",
         "Copy To leads back: t -> t2 -> t"),
        ("Pool { Name = t; Storage = s; Copy To = t }", 31, "error", "Copy To leads back: t -> t"),
        (("Pool { Name = t; Storage = s; Copy To = other }\n"
          "Job { Name = copy-t; JobDefs = usual }"), 31, "error",
         "its copy job would have the name of the Job copy-t"),
    ],
)  # fmt: skip
def test_a_director_says_what_it_could_not_do(text, column, severity, message):
    found = findings(BASE + text)
    fitting = [one for one in found if one.split(" ", 1)[1].startswith(f"{severity}: {message}")]
    assert len(fitting) == 1, found
    if column is not None:
        line, found_column = fitting[0].split(":")[:2]
        assert (int(line) >= FIRST_LINE, int(found_column)) == (True, column)


def test_what_nobody_would_be_told_is_named():
    blocks = "Messages { Name = t; Notify { Name = n; Type = Slack; URL File = /u } }\n"
    (found,) = findings(BASE + blocks)
    assert "warning: problems of no single job" in found
    assert findings(BASE.replace("Messages = m }", "Messages = t }", 1) + blocks) == []


@pytest.mark.parametrize(
    "text",
    [
        "Pool { Name = t; Storage = s; Copy To = other; Keep Last = 3 }",
        "Pool { Name = t; Storage = s; Copy To = offsite }",
        # Where all that starts a job says what the job itself does not.
        (
            "Job { Name = k; JobDefs = usual; Type = Copy; Pool = lonely; Schedule = copying }\n"
            "Schedule { Name = copying; Run = NextPool=offsite daily at 3:00; }"
        ),
        (
            "Job { Name = b; JobDefs = usual; Storage = shut; Schedule = elsewhere }\n"
            "Schedule { Name = elsewhere; Run = Storage=other daily at 3:00; }"
        ),
        # Jobs without levels take what their JobDefs and schedules say for others.
        "Job { Name = a; JobDefs = usual; Type = Admin; Level = Full; Schedule = weekly }",
        "Job { Name = k; JobDefs = usual; Type = Copy; Level = Full; Schedule = weekly }",
        # A Schedule that is for starting by hand.
        "Schedule { Name = by-hand }",
        'Job { Name = b; JobDefs = usual; Run = "nightly level=%l priority=5" }',
        'Job { Name = b; JobDefs = usual; Client Run Before Job = "sh -c \\"ls | wc\\"" }',
        "Job { Name = r; JobDefs = usual; Type = Restore; Where = /tmp/r; Storage = bare }",
        "Schedule { Name = leap; Run = feb on 29 at 1:00; }",
        'FileSet { Name = unused; Include { File = "|list" } }',
    ],
)
def test_what_can_be_done_is_not_told(text):
    assert findings(BASE + text) == []


def test_a_next_pool_that_only_some_runs_have_is_a_warning():
    text = (
        "Job { Name = k; JobDefs = usual; Type = Copy; Pool = lonely; Schedule = copying }\n"
        "Schedule { Name = copying; Run = NextPool=offsite sat at 3:00\n  Run = sun at 3:00; }"
    )
    (found,) = findings(BASE + text)
    assert "warning: Copy job k as its Schedule has it needs a Next Pool" in found


def test_who_asks_what_the_original_takes_is_not_told_what_we_could_not_do():
    text = BASE.replace("Repository = /srv/s", "").replace(
        'Repository = "unix:/run/other.sock"', ""
    )
    text += "Job { Name = v; JobDefs = usual; Type = Verify }"
    assert findings(text, strict=True) == []
    assert len(findings(text)) == 1


def test_what_follows_from_an_error_is_not_told():
    text = BASE + "Job { Name = v; JobDefs = usual; Type = Verify; Job To Verify = nightli }"
    (found,) = findings(text)
    assert "did you mean nightly?" in found


def test_ports_may_be_services():
    known = BASE.replace("Messages = m }", "Messages = m; Port = https }")
    assert findings(known) == []
    unknown = BASE.replace("Messages = m }", "Messages = m; Port = no-such-service }")
    (found,) = findings(unknown)
    assert "there is no TCP service 'no-such-service'; write its port" in found


def test_a_catalog_has_one_password():
    text = BASE.replace("DB User = b", 'DB User = b; DB Password = "x"; Password File = /etc/x')
    (found,) = findings(text)
    assert "error: Catalog cat has both a DB Password and a Password File" in found


STORAGE = """
Storage { Name = %s; Maintenance Socket = /run/x.sock }
Director { Name = dir; Password = "p" }
Device { Name = d; Media Type = File; Archive Device = %s }
"""


@pytest.fixture
def tree(tmp_path):
    def write(director: str, storage: str) -> list[str]:
        (tmp_path / "director.conf").write_text(director)
        (tmp_path / "storage.conf").write_text(storage)
        loaded = load_trees(str(tmp_path), LoadOptions())
        resolve(loaded)
        return [one.head().rpartition("/")[2] for one in loaded.diagnostics.sorted()]

    return write


def test_a_device_that_the_storage_daemon_does_not_serve_is_told(tree):
    daemon = STORAGE % ("sd", "/srv/d")
    assert tree(BASE, daemon) == []
    (found,) = tree(BASE.replace("Device = d", "Device = e", 1), daemon)
    assert found == (
        "director.conf:6:53: warning: the storage daemon sd serves no Device e; it has d"
    )


def test_storages_elsewhere_are_not_compared_with_the_daemon_here(tree):
    director = BASE.replace("Device = d", "Device = e")
    director += (
        'Storage { Name = sd; Address = here; Password = "p"; Device = d; Media Type = File }\n'
    )
    assert tree(director, STORAGE % ("sd", "/srv/d")) == []


def test_a_storage_daemon_says_what_it_could_not_serve():
    (found,) = findings(STORAGE % ("sd", "srv"), "storage")
    assert found == (
        "4:39: error: Archive Device of d is srv: other machines and protocols are not supported; "
        "write the absolute path of its own folder or s3://BUCKET/PREFIX, or remove the Device"
    )
    text = (STORAGE % ("sd", "/srv")).replace("/run/x.sock", '/run/x.sock; Quota Of = "web1 many"')
    (found,) = findings(text, "storage")
    assert found == '2:56: error: Quota Of = "web1 many" has no size such as 500 GB'
    text = (STORAGE % ("sd", "/srv")).replace("/run/x.sock", '/run/x.sock; Operators = "ann add"')
    (found,) = findings(text, "storage")
    assert (
        "error: Operators = \"ann add\" has the unknown word 'add'; write the name and any of list"
        in found
    )


@pytest.mark.parametrize(
    ("device", "fault"),
    [
        ("Archive Device = /srv/e; Device Type = Tape", "its Device Type is Tape, and only File"),
        ("Archive Device = /dev/nst0", "/dev/nst0 lies below /dev"),
        ("Archive Device = /dev/null", "/dev/null lies below /dev"),
        ("Archive Device = /srv/../dev/disk/by-id/x", "lies below /dev"),
        ("Archive Device = /proc/1", "lies below /proc"),
        ("Archive Device = /etc/hostname", "is a file, not a folder"),
        ("Archive Device = /srv/d", "Device d has the same folder"),
        ("Archive Device = /srv/d/inside", "or one lies in the other: /srv/d"),
        ("Archive Device = /srv", "or one lies in the other: /srv/d"),
        ('Archive Device = "s3://bucket/one"', ""),
        ('Archive Device = "s3:https://s3.example.com/bucket/one"', ""),
        ('Archive Device = "s3://key:secret@bucket/one"', "e is s3:...: a place of s3: has no"),
        ('Archive Device = "sftp://host/r"', "other machines and protocols are not supported"),
        ("Archive Device = /srv/d2; Device Type = File", ""),
        ("Archive Device = /srv/d2; Device Type = file", ""),
    ],
)
def test_a_device_that_would_do_harm_is_refused(device, fault):
    text = STORAGE % ("sd", "/srv/d") + f"Device {{ Name = e; Media Type = F; {device} }}\n"
    found = findings(text, "storage")
    assert bool(found) == bool(fault)
    for one in found:
        assert " error: Archive Device of e is " in one
        assert fault in one


def test_a_device_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        (found,) = findings(STORAGE % ("sd", tmp_path / name), "storage")
        assert "pipe is a pipe, not a folder" in found


def test_an_agent_says_what_it_could_not_do():
    text = "Client { Name = c; Metrics File = x.prom }\nDirector { Name = d; Password = p }\n"
    (found,) = findings(text, "agent")
    assert found.startswith("1:20: error: Metrics File is an absolute path that ends with .prom")
    text = (
        "Client { Name = c }\nDirector { Name = d; Password = p\n"
        " Connection From Client To Director = yes }\n"
    )
    (found,) = findings(text, "agent")
    assert found.startswith("3:2: error: Director d: set its Address, or Connection From Director")


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("/srv/r", ""),
        ("unix:/run/x.sock", ""),
        ("ssh://backup@vault/srv/r", ""),
        ("sftp:u1@box:/r", ""),
        ("s3://bucket/web1?region=eu-central-1", ""),
        ("srv/r", "neither an absolute path"),
        ("strongroom://vault", "a storage daemon over the network needs an agent"),
        ("ftp://vault/r", "not supported"),
    ],
)
def test_the_repository_of_a_machine_is_a_place_that_needs_no_options(place, fault):
    text = (
        f'Machine {{ Name = m; Repository = "{place}"; Passphrase File = /p; FileSet = f\n'
        "  Run = daily at 2:00; Keep Daily = 3 }\n"
        "FileSet { Name = f; Include { File = /home } }\n"
    )
    found = findings(text, "machine")
    assert [fault in one for one in found] == ([True] if fault else []), found
