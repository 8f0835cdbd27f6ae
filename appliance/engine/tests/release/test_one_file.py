"""The one-file program: what it unpacks where, and what it refuses."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile

import one_file
from libraries import Target

from kit.project import ENGINE

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
HERE = Target(PYTHON, platform.machine())
TIME = 1_700_000_000
MAIN = "import sys\n\ndef main():\n    print('ran', *sys.argv[1:], sys.prefix)\n    return 7\n"


def wheel(folder, name, files):
    path = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, content in files.items():
            archive.writestr(place, content)
    return path


def make(tmp_path, targets, text=MAIN):
    (tmp_path / "wheels").mkdir(exist_ok=True)
    engine = wheel(
        tmp_path / "wheels",
        "strongroom",
        {
            "strongroom/__init__.py": "",
            "strongroom/cli/__init__.py": "",
            "strongroom/cli/main.py": text,
            "strongroom-1.data/data/share/man/man1/strongroom.1": "page",
            "strongroom-1.data/scripts/other": "not taken",
        },
    )
    library = wheel(tmp_path / "wheels", "only_one", {"only_one/__init__.py": ""})
    wheels = {target: [engine] for target in targets}
    wheels[targets[0]].append(library)
    path = tmp_path / "strongroom.pyz"
    one_file.make(path, "9.0", wheels, ENGINE.parent, TIME)
    return path


def run(path, tmp_path, *words):
    return subprocess.run(
        [sys.executable, path, *words],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_unpacks_itself_once_and_becomes_the_command(tmp_path):
    path = make(tmp_path, [HERE, Target("3.99", "x86_64")])
    first = run(path, tmp_path, "backup", "--all")
    assert (first.returncode, first.stderr) == (7, "")
    (folder,) = (tmp_path / "cache" / "strongroom-pyz").iterdir()
    assert first.stdout == f"ran backup --all {folder}\n"
    assert (folder / "share/man/man1/strongroom.1").read_text() == "page"
    assert list(folder.glob("lib/*/site-packages/only_one"))
    assert not list(folder.rglob("other"))
    before = folder.stat().st_mtime_ns
    assert run(path, tmp_path).returncode == 7
    assert folder.stat().st_mtime_ns == before


def test_another_file_of_the_same_version_is_unpacked_beside_it(tmp_path):
    run(make(tmp_path, [HERE]), tmp_path)
    second = run(make(tmp_path, [HERE], MAIN.replace("ran", "ran anew")), tmp_path)
    assert second.stdout.startswith("ran anew")
    assert len(list((tmp_path / "cache" / "strongroom-pyz").iterdir())) == 2


def test_a_python_that_it_has_no_libraries_for_is_told_which_it_has(tmp_path):
    done = run(make(tmp_path, [Target("3.99", "x86_64")]), tmp_path)
    assert done.returncode == 51
    assert "cp399-x86_64" in done.stderr
    assert HERE.name in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_run_from_a_folder_that_others_can_write_to(tmp_path):
    path = make(tmp_path, [HERE])
    (tmp_path / "cache" / "strongroom-pyz").mkdir(parents=True)
    (tmp_path / "cache" / "strongroom-pyz").chmod(0o777)
    done = run(path, tmp_path)
    assert done.returncode == 51
    assert "ran" not in done.stdout


def test_it_installs_into_a_folder_and_replaces_what_it_installed(tmp_path):
    path, folder = make(tmp_path, [HERE]), tmp_path / "opt" / "strongroom"
    folder.parent.mkdir()
    for text in (MAIN, MAIN.replace("ran", "ran anew")):
        path = make(tmp_path, [HERE], text)
        done = run(path, tmp_path, "--install-into", str(folder))
        assert (done.returncode, done.stderr) == (0, "")
        own = subprocess.run(
            [folder / "bin" / "strongroom"], capture_output=True, text=True, check=False
        )
        assert own.stdout == f"{'ran anew' if 'anew' in text else 'ran'} {folder}\n"
    assert [one.name for one in folder.parent.iterdir()] == ["strongroom"]


def test_it_installs_into_no_folder_of_something_else(tmp_path):
    path, folder = make(tmp_path, [HERE]), tmp_path / "home"
    folder.mkdir()
    (folder / "file").write_text("mine")
    done = run(path, tmp_path, "--install-into", str(folder))
    assert done.returncode == 51
    assert [one.name for one in folder.iterdir()] == ["file"]


def test_the_same_wheels_give_the_same_file(tmp_path):
    assert make(tmp_path, [HERE]).read_bytes() == make(tmp_path, [HERE]).read_bytes()
    assert one_file.release_of(tmp_path / "strongroom.pyz")["version"] == "9.0"


def test_the_units_are_those_of_the_debian_packages():
    for name in one_file.HOST_FILES:
        assert (ENGINE.parent / name).is_file(), name
