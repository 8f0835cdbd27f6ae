"""The command line as a whole: finding the command, options, errors, signals, start-up."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys

import pytest

from strongroom.base.errors import (
    EXIT_BUG,
    EXIT_DONE,
    EXIT_OUTPUT_CLOSED,
    EXIT_TERMINATED,
    CancelledError,
    OperatingSystemError,
    UsageError,
)
from strongroom.cli.main import (
    _WORDS_OF_OTHERS,
    COMMANDS,
    command_parser,
    overview,
    split_command,
)

# A command of the tests' own, run by the real frame: it does what its first argument says.
PROBE = """
import sys, time, types
from strongroom.cli import main as frame

def add_arguments(parser):
    actions = parser.add_subparsers(required=True)
    for name in ("wait", "divide", "open", "talk", "settings"):
        action = actions.add_parser(name)
        action.set_defaults(action=name)

def run(arguments, terminal):
    if arguments.action == "wait":
        try:
            terminal.line("waiting")
            terminal.flush()
            time.sleep(30)
        finally:
            terminal.line("cleaned up")
            terminal.flush()
    if arguments.action == "divide":
        1 / 0
    if arguments.action == "open":
        open(b"/no/such\\xff/file")
    if arguments.action == "talk":
        for number in range(100000):
            terminal.line(f"line {number}")
    if arguments.action == "settings":
        import os
        terminal.emit({**arguments.settings._asdict(),
                       "inherited": os.environ.get("STRONGROOM_PASSWORD")})
    return 0

module = types.ModuleType("strongroom.cli.commands.probe")
module.EPILOG, module.add_arguments, module.run = "examples:\\n  none", add_arguments, run
sys.modules["strongroom.cli.commands.probe"] = module
frame.COMMANDS["probe"] = ("probe", "do what the test wants")
sys.exit(frame.main())
"""


@pytest.fixture
def probe(environment):
    """Start the probe with WORDS; its streams are pipes."""

    def start(*words, **additions):
        return subprocess.Popen(
            [sys.executable, "-c", PROBE, *words],
            env={**environment, **additions},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def finished(process):
    output, messages = process.communicate(timeout=30)
    return process.returncode, output, messages


def test_help_names_every_command(strongroom):
    answer = strongroom("--help")
    assert answer.returncode == EXIT_DONE
    assert answer.stderr == ""
    listed = {line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ")}
    assert listed == set(COMMANDS)


def test_help_fits_a_terminal():
    assert max(len(line) for line in overview().splitlines()) <= 100


@pytest.mark.parametrize("words", [("-h",), ("help",), ("--json", "--help")])
def test_help_is_found_however_it_is_asked_for(strongroom, words):
    assert strongroom(*words).stdout == overview()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_with_examples(strongroom, name):
    answer = strongroom(name, "--help")
    assert answer.returncode == EXIT_DONE, answer.stderr
    assert f"usage: strongroom {name}" in answer.stdout
    assert "examples:" in answer.stdout
    assert f"  strongroom {name}" in answer.stdout.split("examples:")[1]
    assert "--json" in answer.stdout


def test_help_of_a_command_reads_the_same_either_way(strongroom):
    assert strongroom("help", "version").stdout == strongroom("version", "--help").stdout


def test_version_is_also_an_option(strongroom):
    assert strongroom("--version").stdout == strongroom("version").stdout.splitlines()[0] + "\n"


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        (["version"], "version", []),
        (["--repo", "version", "ls"], "ls", ["--repo", "version"]),
        (["--repo=version", "ls", "-v"], "ls", ["--repo=version", "-v"]),
        (["-q", "--json", "ls", "latest", "--repo", "x"], "ls", None),
        (["--json"], None, ["--json"]),
        (["--repo"], None, ["--repo"]),
        ([], None, []),
    ],
)
def test_the_command_is_found_among_global_options(words, command, rest):
    found, others = split_command(words)
    assert found == command
    if rest is None:
        rest = [word for word in words if word != command]
    assert others == rest


def test_without_a_command_help_is_offered(strongroom):
    answer = strongroom()
    assert answer.returncode == UsageError.exit_code
    assert "strongroom --help" in answer.stderr


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("bakcup", "did you mean `backup`?"),
        ("frobnicate", "see `strongroom --help`"),
        ("create", "use `strongroom backup`"),
        ("extract", "use `strongroom restore`"),
        ("cat", "use `strongroom dump`"),
        ("list", "use `strongroom snapshots`, or `ls` for files of one"),
        ("expire", "use `strongroom forget`"),
        ("compact", "use `strongroom prune`"),
        ("unlock", "no job locks the repository, and leases end by themselves"),
        ("self-update", "use your package manager, or replace the one file"),
    ],
)
def test_an_unknown_command_is_told_with_what_was_meant(strongroom, typed, hint):
    answer = strongroom(typed)
    assert answer.returncode == UsageError.exit_code
    expected = f"strongroom: error [usage]: unknown command `{typed}`; {hint}\n"
    assert answer.stderr == expected


def test_words_of_other_programs_lead_to_commands_that_exist():
    assert not _WORDS_OF_OTHERS.keys() & COMMANDS.keys()
    named = [text.split()[2].rstrip("`,") for text in _WORDS_OF_OTHERS.values() if "ngroom" in text]
    assert set(named) <= COMMANDS.keys()


def test_an_unknown_option_is_a_usage_error_that_names_the_help(strongroom):
    answer = strongroom("version", "--no-such-option")
    assert answer.returncode == UsageError.exit_code
    assert "--no-such-option" in answer.stderr
    assert "`strongroom version --help`" in answer.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dump", "latest", "--host", "X", "/p"], {"inside": "/p", "host": "X"}),
        (["dump", "--host=X", "latest", "/p", "-v"], {"inside": "/p", "verbose": 1}),
        (["dump", "latest", "-rREPO", "/p"], {"inside": "/p", "repo": "REPO"}),
        (["dump", "latest", "-vr", "REPO", "/p"], {"inside": "/p", "repo": "REPO"}),
        (["ls", "latest", "-R", "/a", "--host", "X", "/b"], {"paths": ["/a", "/b"]}),
        (["backup", "/a", "--tag", "t", "/b", "--", "-c"], {"path": [b"/a", b"/b", b"-c"]}),
        (["backup", "--source", "command", "--", "dump", "-n"], {"path": [b"dump", b"-n"]}),
        (["forget", "11", "-n", "22"], {"snapshots": ["11", "22"], "dry_run": True}),
    ],
)
def test_options_and_other_words_stand_in_any_order(words, expected):
    found = vars(command_parser(words[0]).parse_args(words[1:]))
    assert {name: found[name] for name in expected} == expected


def test_options_are_not_abbreviated(strongroom):
    assert strongroom("version", "--js").returncode == UsageError.exit_code


def test_a_usage_error_is_an_object_with_json(strongroom):
    answer = strongroom("completion", "no-such-shell", "--json")
    report = json.loads(answer.stderr.splitlines()[-1])
    assert (report["type"], report["id"], report["exit_code"]) == ("error", "usage", 2)
    assert answer.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "probe", "settings"),
        ("probe", "--json", "settings"),
        ("probe", "settings", "--json"),
    ],
)
def test_global_options_stand_anywhere(probe, words):
    code, output, _ = finished(probe(*words, "--repo", "/there"))
    assert code == EXIT_DONE
    assert json.loads(output)["repository"] == "/there"


def test_options_win_over_the_environment(probe):
    inherited = {"STRONGROOM_REPOSITORY": "/env", "STRONGROOM_PASSWORD": "secret"}
    words = ("probe", "settings", "--json")
    _, output, _ = finished(probe(*words, **inherited))
    from_environment = json.loads(output)
    assert (from_environment["repository"], from_environment["password"]) == ("/env", "secret")
    _, output, _ = finished(probe(*words, "--repo=/o", "--password-file=/f", **inherited))
    from_options = json.loads(output)
    assert (from_options["repository"], from_options["password"]) == ("/o", None)
    assert from_options["password_file"] == "/f"


@pytest.mark.parametrize("way", ["file", "command"])
def test_the_environment_names_a_file_or_a_command_for_the_passphrase(probe, way):
    inherited = {f"STRONGROOM_PASSWORD_{way.upper()}": "/env"}
    words = ("probe", "settings", "--json")
    _, output, _ = finished(probe(*words, **inherited))
    assert json.loads(output)[f"password_{way}"] == "/env"
    other = {"file": "command", "command": "file"}[way]
    for option, value in ((way, "/o"), (other, "/o"), ("key", None)):
        flag = "--key-file" if option == "key" else f"--password-{option}"
        _, output, _ = finished(probe(*words, flag, "/o", **inherited))
        assert json.loads(output)[f"password_{way}"] == (value if option == way else None)


def test_several_passphrases_in_the_environment_are_refused(probe):
    both = {"STRONGROOM_PASSWORD": "secret", "STRONGROOM_PASSWORD_COMMAND": "pass backup"}
    code, _, messages = finished(probe("probe", "settings", **both))
    assert code == UsageError.exit_code
    assert "$STRONGROOM_PASSWORD and $STRONGROOM_PASSWORD_COMMAND" in messages
    assert "secret" not in messages
    code, _, _ = finished(probe("probe", "settings", "--password-file", "/f", **both))
    assert code == EXIT_DONE


def test_commands_that_we_start_do_not_inherit_the_passphrase(probe):
    _, output, _ = finished(probe("probe", "settings", "--json", STRONGROOM_PASSWORD="secret"))
    assert json.loads(output)["inherited"] is None


def test_limits_are_given_as_other_rates(probe):
    words = ("--limit-upload", "500k", "probe", "settings", "--json", "--limit-download=2mb/s")
    _, output, _ = finished(probe(*words))
    found = json.loads(output)
    assert (found["limit_upload"], found["limit_download"]) == (500 << 10, 2_000_000)
    _, output, _ = finished(probe("probe", "settings", "--json", "--limit-upload", "2 MiB/s"))
    assert json.loads(output)["limit_upload"] == 2 << 20
    code, _, messages = finished(probe("probe", "settings", "--limit-upload", "fast"))
    assert code == UsageError.exit_code
    assert "'fast'" in messages


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--repository", "r1", "probe"), "unknown option `--repository`; did you mean `--repo`?"),
        (("probe", "settings", "--limit-up", "1m"), "`--limit-up`; did you mean `--limit-upload`?"),
        (("probe", "settings", "one too many"), "unexpected `one too many`"),
    ],
)
def test_a_word_that_is_not_known_is_named_alone(probe, words, message):
    code, _, messages = finished(probe(*words))
    assert code == UsageError.exit_code
    assert message in messages


def test_the_cache_has_one_place_and_can_be_left_out(probe, environment):
    def folder(*words, **additions):
        _, output, _ = finished(probe("probe", "settings", "--json", *words, **additions))
        return json.loads(output)["cache_folder"]

    assert folder() == environment["HOME"] + "/.cache/strongroom"
    assert folder(XDG_CACHE_HOME="/var/cache") == "/var/cache/strongroom"
    assert folder(XDG_CACHE_HOME="relative") == environment["HOME"] + "/.cache/strongroom"
    assert folder("--cache-dir", "/c") == "/c"
    assert folder("--no-cache") is None


def test_a_failed_system_call_is_told_without_a_traceback(probe):
    code, _, messages = finished(probe("probe", "open"))
    assert code == OperatingSystemError.exit_code
    assert messages == (
        "strongroom: error [operating-system]: /no/such\\xff/file: No such file or directory\n"
    )


def test_a_fault_of_ours_is_reported_with_its_traceback(probe):
    code, _, messages = finished(probe("probe", "divide"))
    assert code == EXIT_BUG
    assert "Traceback" in messages
    assert messages.splitlines()[-1].startswith("strongroom: error [bug]: internal error in")
    assert messages.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, CancelledError("").exit_code), (signal.SIGTERM, EXIT_TERMINATED)],
)
def test_a_signal_ends_the_work_cleanly(probe, number, expected):
    process = probe("probe", "wait")
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    code, output, messages = finished(process)
    assert code == expected
    assert output == "cleaned up\n"
    assert messages.startswith("strongroom: error [interrupted]: ")


def test_a_reader_that_has_enough_ends_the_command_quietly(probe):
    process = probe("probe", "talk")
    assert process.stdout.readline() == "line 0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == EXIT_OUTPUT_CLOSED


def test_warnings_that_nobody_reads_do_not_stop_the_work(environment):
    reading, writing = os.pipe()
    os.close(reading)
    code = "from strongroom.cli.terminal import Terminal; t = Terminal(); t.warn('a'); t.line('b')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=writing,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"b\n")


def test_output_survives_a_locale_that_cannot_show_it(environment):
    code = "from strongroom.cli import main as m; m._set_up_process(); print('caf\\xe9')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"caf\\xe9\n")


def test_on_a_terminal_no_line_is_lost(environment):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "strongroom", "version"], env=environment, stdout=follower
    )
    os.close(follower)
    seen = b""
    try:
        while block := os.read(leader, 4096):
            seen += block
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(leader)
    assert process.wait(30) == EXIT_DONE
    assert seen.startswith(b"strongroom ")


def test_help_imports_nothing_heavy(environment):
    code = (
        "import sys; from strongroom.cli.main import main; main(['--help']);"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "cryptography", "zstandard", "blake3", "lz4", "rich", "msgspec", "shtab"}
    assert heavy.isdisjoint(done.stderr.split())


def test_no_daily_command_imports_what_is_slow(environment, tmp_path):
    """numpy.ma is 10 ms of each start; many functions of numpy import it. A dataclass takes half
    a millisecond to make, twenty times as long as a struct of msgspec, and a backup has forty such
    records."""
    (tmp_path / "tree").mkdir()
    environment = environment | {
        "STRONGROOM_REPOSITORY": str(tmp_path / "repository"),
        "STRONGROOM_PASSWORD": "of no importance here",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    code = (
        "import sys; from strongroom.cli.main import main; main(sys.argv[1:]);"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    tree, target = str(tmp_path / "tree"), str(tmp_path / "target")
    backup = ("backup", "-q", tree)
    commands = (
        *(("init",), backup, backup, backup, ("snapshots",), ("ls", "latest")),
        *(("restore", "latest", "--target", target), ("check", "--new"), ("find", "0")),
        *(("diff", "latest", "latest"), ("stats",), ("forget", "--keep-last", "1")),
    )
    for number, words in enumerate(commands):
        (tmp_path / "tree" / str(number % 3)).write_bytes(b"content")
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = done.stderr.split()
        assert "numpy" in loaded or words[0] != "backup"
        assert {"numpy.ma", "dataclasses"}.isdisjoint(loaded), words


def test_help_answers_at_once(strongroom):
    times = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        strongroom("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    # What it computes, as a busy machine lets it wait.
    assert min(times) < 0.15
