"""`config check` plans what schedules start within a year, and tells what cannot be started."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kit.prepared_commands import run_for_text
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS

BASE = """\
Director { Name = dir; Password = p; Messages = m }
Catalog { Name = cat; DB Name = a; DB User = b }
Messages { Name = m; Console = all }
Client { Name = c; Address = host; Password = p }
Client { Name = off; Address = host; Password = p; Enabled = no }
Storage { Name = s; Address = host; Password = p; Device = d; Media Type = File
  Repository = /srv/s }
Storage { Name = shut; Address = host; Password = p; Device = d; Media Type = File; Enabled = no }
Pool { Name = p }
FileSet { Name = f; Include { File = /home } }
Schedule { Name = nightly; Run = Incremental daily at 21:00; }
Schedule { Name = plain; Run = daily at 21:00; }
Schedule { Name = stopped; Run = daily at 21:00; Enabled = no }
JobDefs { Name = usual; Type = Backup; Client = c; FileSet = f; Storage = s; Pool = p; Messages = m
}
Job { Name = good; JobDefs = usual; Schedule = nightly }
Job { Name = restores; JobDefs = usual; Type = Verify; Level = Data; Job To Verify = good
  Schedule = plain }
"""
LINE = BASE.count("\n") + 1


@pytest.fixture
def check(config, tmp_path):
    """check(text): the exit code, and the findings as `line: severity: message`."""

    def checked(text: str) -> tuple[int, list[str]]:
        file = tmp_path / "director.conf"
        file.write_text(BASE + text)
        done = config("check", str(file))
        found = re.findall(rf"^{re.escape(str(file))}:(\d+):\d+: (.*)$", done.stdout, re.MULTILINE)
        return done.returncode, [f"{int(line) - LINE}: {said}" for line, said in found]

    return checked


def test_what_can_be_started_is_not_told(check):
    assert check("") == (0, [])


# What is added to the base, the line of the finding in it, and what is found.
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (("Schedule { Name = never; Run = feb on 30 at 1:00; }\n"
          "Job { Name = j; JobDefs = usual\n  Schedule = never }"), 2,
         "error: Backup job j is never started by its Schedule never: no Run of it is ever due"),
        ("Schedule { Name = empty }\nJob { Name = j; JobDefs = usual; Schedule = empty }", 1,
         "error: Backup job j is never started by its Schedule empty: it has no Run"),
        (("Schedule { Name = wrong; Run = Incremental daily at 1:00; }\n"
          "Job { Name = t; JobDefs = usual; Type = Verify; Level = Data; Job To Verify = good\n"
          "  Schedule = wrong }"), 0,
         "error: Run starts Verify job t with a level it cannot have: a verify has no level"),
        (("Schedule { Name = other\n  Run = VolumeToCatalog daily at 1:00; }\n"
          "Job { Name = t; JobDefs = usual; Type = Verify; Level = Data; Job To Verify = good\n"
          "  Schedule = other }"), 1,
         "warning: this Run starts Verify job t with Level VolumeToCatalog in place of its own"),
        ("Job { Name = j; JobDefs = usual; Schedule = stopped }", 0,
         "warning: Backup job j is never started: its Schedule stopped is disabled"),
        ("Job { Name = j; JobDefs = usual; Schedule = nightly; Client = off }", 0,
         "warning: Backup job j is never started: its Client off is disabled"),
        (("Schedule { Name = to\n  Run = Full Storage=shut daily at 1:00; }\n"
          "Job { Name = j; JobDefs = usual; Schedule = to }"), 1,
         "warning: this Run starts job j with Storage shut, which is disabled"),
        ("Job { Name = j; JobDefs = usual; Schedule = nightly; Storage = shut }", 0,
         "warning: Backup job j cannot run: every Storage of it (or of its Pool) is disabled"),
        (("Job { Name = j; JobDefs = usual; Enabled = no }\n"
          "Job { Name = t; JobDefs = usual; Type = Verify; Schedule = plain\n"
          "  Job To Verify = j }"), 2,
         "warning: Verify job t verifies j, which is disabled: there is nothing new to verify"),
        (("Job { Name = j; JobDefs = usual; Schedule = stopped }\n"
          "Job { Name = t; JobDefs = usual; Type = Verify; Schedule = plain\n"
          "  Job To Verify = j }"), 2,
         "warning: Verify job t verifies j, which is never started: there is nothing new to"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_told_where_it_is_said(check, text, line, said):
    exit_code, findings = check(text)
    assert any(one.startswith(f"{line}: {said}") for one in findings), findings
    assert exit_code == (40 if said.startswith("error") else 0)


def test_a_run_that_is_first_due_in_years_is_doubtful(check):
    # The same day of the month is the same day of the week again after five years or more.
    past = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC) - timedelta(days=30)
    day = f"{past:%a} {past:%b} on {past.day}".lower()
    exit_code, findings = check(
        f"Schedule {{ Name = rare\n  Run = {day} at 1:00; }}\n"
        "Job { Name = j; JobDefs = usual; Schedule = rare }\n"
    )
    assert exit_code == 0
    assert [one.partition(", but first on ")[0] for one in findings] == [
        "1: warning: this Run of Schedule rare is not due within a year"
    ]


def test_the_director_refuses_what_the_check_refuses(tmp_path):
    file = tmp_path / "director.conf"
    job = "Job { Name = j; JobDefs = usual; Schedule = no }"
    file.write_text(f"{BASE}Schedule {{ Name = no }}\n{job}\n")
    for words in (("--check",), ("--foreground",)):
        done = run_for_text(["director", "--config", str(file), *words], os.environ)
        assert done.returncode == 40
        assert f"{file}:{LINE + 1}:" in done.stderr
        assert "is never started by its Schedule no" in done.stderr


def test_the_restore_test_of_the_guide_is_a_restore_test(config, tmp_path):
    guide = Path(__file__).parents[4] / "docs" / "guides" / "fleet.md"
    files = re.findall(r"cat > /etc/strongroom/(director\.d/\S+) <<'END'\n(.*?)\nEND\n",
                       guide.read_text("utf-8"), re.DOTALL)  # fmt: skip
    for name, text in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = config("check", str(tmp_path))
    assert "0 errors, 0 warnings" in done.stdout, done.stdout
    jobs = tmp_path / "director.d" / "director" / "vault-dir.conf"
    wrong = jobs.read_text().replace("Run = daily at 21:00", "Run = Incremental daily at 21:00")
    jobs.write_text(wrong)
    done = config("check", str(tmp_path))
    assert done.returncode == 40
    assert "Run starts Verify job restore-test with a level it cannot have" in done.stdout
