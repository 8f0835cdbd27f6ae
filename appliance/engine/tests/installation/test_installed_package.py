"""What the wheel gives a user: every command, or a word on what to install.

The environment holds what the wheel says it needs, and nothing else.
"""

import subprocess
import zipfile

import pytest

from kit.house_configurations import DIRECTOR_TEXT, OF_CLIENT_TEXT
from kit.ports import free_port
from strongroom import __version__
from strongroom.base.errors import DirectorError, MissingPartError
from strongroom.cli.main import COMMANDS

WHEEL = f"./wheels/strongroom-{__version__}-py3-none-any.whl"
# Names every module, tries to import it, and says which library was missing for which.
IMPORT_ALL = """
import importlib, pkgutil, strongroom
from strongroom.base.errors import MissingPartError
for module in pkgutil.walk_packages(strongroom.__path__, "strongroom.", print):
    if module.name.endswith("__main__") or ".migrations." in module.name:
        continue
    try:
        importlib.import_module(module.name)
    except (ModuleNotFoundError, MissingPartError) as error:
        print(module.name, error)
"""
ASKING_A_DIRECTOR = [
    "status", "clients", "jobs", "runs", "run some-job", "watch 0a1b", "log 0a1b", "cancel 0a1b",
    "bandwidth 0a1b 1mb/s", "estimate some-job", "reload", "audit", "token list",
    "restore latest --client web1 --target /nowhere",
]  # fmt: skip


def test_nothing_of_the_benchmark_is_installed(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names}
    assert packages <= {"strongroom", *(one for one in packages if one.startswith("strongroom-0"))}
    assert "strongroom/__init__.py" in names
    assert not [name for name in names if "bench" in name or "suites" in name]


def some(quick, names):
    """Each is a start of the program: those that are not quick run at night."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", some(("agent", "backup", "director", "mount"), sorted(COMMANDS)))
def test_every_command_shows_its_help(installed, tmp_path, name):
    done = installed.run(name, "--help", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_director_asks_for_libraries_that_are_not_installed(installed):
    done = subprocess.run(
        [installed.python, "-I", "-c", IMPORT_ALL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    asking = {line.split()[0] for line in done.stdout.splitlines()}
    assert asking
    others = {one for one in asking if not one.startswith("strongroom.director")}
    assert not others


def test_a_bucket_without_an_access_key_names_what_finds_others(installed, tmp_path):
    done = installed.run("snapshots", "--repo", "s3://bucket", home=tmp_path)
    assert done.returncode == MissingPartError.exit_code, done.stderr
    (line,) = done.stderr.splitlines()
    assert "[missing-part]" in line


@pytest.mark.parametrize("command", some(("status", "watch 0a1b"), ASKING_A_DIRECTOR))
def test_a_console_command_gets_as_far_as_the_connection(installed, tmp_path, command):
    address = f"https://127.0.0.1:{free_port()}"
    done = installed.run(*command.split(), "--director", address, home=tmp_path)
    assert done.returncode == DirectorError.exit_code, done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["director --check", "director", "catalog export -"])
def test_what_needs_the_director_says_what_to_install(installed, tmp_path, command):
    configuration = tmp_path / "director.conf"
    configuration.write_text("Director { Name = boss }\n")
    done = installed.run(*command.split(), "--config", str(configuration), home=tmp_path)
    assert done.returncode == MissingPartError.exit_code, done.stderr
    (line,) = done.stderr.splitlines()
    assert "[missing-part]" in line
    assert f"--find-links wheels '{WHEEL}[director]'" in line
    assert "apt-get install strongroom-director" in line
    assert "report" not in line


def test_a_backup_and_a_restore_with_nothing_else_installed(installed, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("content\n")
    (tmp_path / "passphrase").write_text("open sesame\n")
    (tmp_path / "passphrase").chmod(0o600)
    places = (str(tmp_path / "repository"), str(tmp_path / "passphrase"))
    for words in (
        ("init",),
        ("backup", str(tmp_path / "data")),
        ("restore", "latest", "--target", str(tmp_path / "back")),
    ):
        done = installed.run(
            *words, "--repo", places[0], "--password-file", places[1], home=tmp_path
        )
        assert done.returncode == 0, done.stderr
    (restored,) = (tmp_path / "back").rglob("file")
    assert restored.read_text() == "content\n"


def test_the_director_of_a_package_with_its_part_looks_at_its_configuration(
    installed_director, tmp_path
):
    configuration = tmp_path / "director.conf"
    configuration.write_text("Director { Nam = boss }\n")
    done = installed_director.run(
        "director", "--check", "--config", str(configuration), home=tmp_path
    )
    assert "[configuration]" in done.stderr


def test_postgresql_without_its_library_says_what_to_install(installed_director, tmp_path):
    configuration = tmp_path / "director.conf"
    catalog = "Db Name = catalog; Db User = me; Db Address = 127.0.0.1"
    text = DIRECTOR_TEXT.format(
        director="boss",
        port=1,
        link=1,
        folder=tmp_path,
        catalog=catalog,
        further="",
        job_further="",
        messages="",
        pool="",
    )
    text += OF_CLIENT_TEXT.format(name="web1", source=tmp_path, further="")
    configuration.write_text(text)
    done = installed_director.run(
        "catalog", "export", "-", "--config", str(configuration), home=tmp_path
    )
    assert done.returncode == MissingPartError.exit_code, done.stderr
    assert f"--find-links wheels '{WHEEL}[director,postgresql]'" in done.stderr


def test_manual_pages_and_completions_are_installed(installed):
    share = installed.folder / "share"
    pages = {page.name for page in (share / "man" / "man1").iterdir()}
    assert pages == {"strongroom.1", *(f"strongroom-{name}.1" for name in COMMANDS)}
    for path in (
        "bash-completion/completions/strongroom",
        "zsh/site-functions/_strongroom",
        "fish/vendor_completions.d/strongroom.fish",
    ):
        assert "strongroom" in (share / path).read_text("utf-8"), path
