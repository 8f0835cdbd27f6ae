"""Another process of the same user looks for keys in the memory of ours."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kit.ports import free_port
from kit.user import PASSPHRASE, children_of

PATIENCE_SECONDS = 60.0
# Root may look at everything, so the tests act as somebody else.
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
PREFIX = AS_NOBODY if os.geteuid() == 0 else []
ATTACKER = """
import ctypes, sys
pid = int(sys.argv[1])
found = []
for name in ("mem", "environ"):
    try:
        open(f"/proc/{pid}/{name}", "rb").close()
        found.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
    libc.waitpid(pid, None, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    found.append("ptrace")
print(*found)
"""
STORAGE = """
Storage {{ Name = vault; Address = 127.0.0.1; Port = {port}
  Maintenance Socket = "{folder}/storage.sock"; Identity Directory = "{folder}/none" }}
Director {{ Name = boss; Password = unused }}
Device {{ Name = disk; Media Type = File; Archive Device = "{folder}/served" }}
"""


@pytest.fixture
def folder():
    """Of the user that everything runs as."""
    place = Path(tempfile.mkdtemp(prefix="strongroom-"))
    try:
        if PREFIX:
            os.chown(place, NOBODY, NOBODY)
        yield place
    finally:
        shutil.rmtree(place)


@pytest.fixture
def start(folder):
    """Starts programs as that user, and ends them."""
    started = []

    def begin(*words, **options):
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        environment = {
            **kept,
            "HOME": str(folder),
            "STRONGROOM_REPOSITORY": str(folder / "repository"),
            "STRONGROOM_PASSWORD": PASSPHRASE,
        }
        process = subprocess.Popen(
            [*PREFIX, *map(str, words)],
            cwd=folder,
            env=environment,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def looked_into(pid):
    """What somebody of the same user sees of a process."""
    words = [*PREFIX, sys.executable, "-c", ATTACKER, str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def await_true(is_so):
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def core_limit(pid):
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("Max core file size")]
    return line.split()[4:6]


def all_of(process):
    """A process and all that it forked."""
    found = [process.pid]
    for pid in found:
        found += children_of(pid)
    return found


def assert_closed(process, least=1):
    await_true(lambda: core_limit(process.pid) == ["0", "0"])
    await_true(lambda: len(all_of(process)) >= least)
    for pid in all_of(process):
        assert core_limit(pid) == ["0", "0"]
        assert looked_into(pid) == []


def test_an_ordinary_process_of_the_user_is_open(start):
    """Otherwise the other tests would show nothing."""
    process = start(sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)")
    assert process.stdout.readline()
    assert {"mem", "environ"} <= set(looked_into(process.pid))


def strongroom(*words):
    return (sys.executable, "-m", "strongroom", *words)


def test_a_command_and_the_processes_that_it_forks_are_closed(start, folder):
    assert start(*strongroom("init")).wait(PATIENCE_SECONDS) == 0
    data = folder / "data"
    data.mkdir()
    for number in range(64):
        (data / str(number)).write_bytes(os.urandom(1 << 20))
    if PREFIX:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", data], check=True)
    backup = start(*strongroom("backup", data, "--shards", "2"))
    await_true(lambda: backup.poll() is not None or len(all_of(backup)) >= 3)
    pids = all_of(backup)
    # It stays as it is while it is checked.
    for pid in pids:
        os.kill(pid, 19)
    try:
        assert len(pids) >= 3
        for pid in pids:
            assert core_limit(pid) == ["0", "0"]
            assert looked_into(pid) == []
    finally:
        for pid in pids:
            os.kill(pid, 18)
    assert backup.wait(PATIENCE_SECONDS) == 0
    # What is not root's own in /proc is not needed for any of this.
    restored = start(*strongroom("restore", "latest", "--target", folder / "back", "--verify"))
    # 3: the folder that holds ours is not its user's.
    assert restored.wait(PATIENCE_SECONDS) in (0, 3), restored.stdout.read()
    for number in range(64):
        back = folder / "back" / str(data).lstrip("/") / str(number)
        assert back.read_bytes() == (data / str(number)).read_bytes()


def test_the_storage_daemon_is_closed(start, folder):
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder, port=free_port()))
    daemon = start(*strongroom("storage", "--config", folder / "storage.conf"))
    await_true((folder / "storage.sock").exists)
    assert_closed(daemon)


@pytest.mark.parametrize("module", ["agent.jobs.job", "director.own_jobs.job"])
def test_a_job_process_is_closed(start, module):
    job = start(sys.executable, "-m", f"strongroom.{module}", stdin=subprocess.PIPE)
    # It waits for its description, which will bring the keys.
    assert_closed(job)
