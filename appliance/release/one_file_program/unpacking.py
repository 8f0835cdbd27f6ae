"""What strongroom.pyz does before the command runs: it unpacks itself, once for each version and Python.

    python3 strongroom.pyz COMMAND ...              any command of strongroom
    python3 strongroom.pyz --install-into FOLDER    an environment in FOLDER, with FOLDER/bin/strongroom
    python3 strongroom.pyz --install-agent          the agent of this machine, with its systemd units
    python3 strongroom.pyz --remove-agent           remove that; configuration, identity and cache stay

Libraries with machine code cannot be loaded from an archive. So they are unpacked into strongroom-pyz, in
XDG_CACHE_HOME, /var/cache (root) or ~/.cache. It can be deleted whenever nothing runs.

Nothing but Python's own library is used here.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).parent
OPT = Path("/opt/strongroom")
COMMAND = Path("/usr/bin/strongroom")
# Names what --install-agent has written, for an upgrade and for --remove-agent.
WRITTEN = OPT / "installed-files"
UNUSABLE = 51


def main(words: list[str]) -> int:
    """Unpack, then become the command that was meant; the exit code."""
    try:
        with zipfile.ZipFile(ARCHIVE) as archive:
            if words[:1] == ["--install-into"] and len(words) == 2:
                install(archive, Path(words[1]).absolute())
                return 0
            if words == ["--install-agent"]:
                return _say(install_agent(archive))
            if words == ["--remove-agent"]:
                return _say(remove_agent())
            folder = _cached(archive)
    except (InstallationError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"strongroom: {error}\n")
        return UNUSABLE
    python = str(folder / "bin" / "python")
    return os.execv(python, [python, "-I", str(folder / "bin" / "strongroom"), *words])  # noqa: S606


class InstallationError(Exception):
    """It cannot be unpacked or installed; the message says why."""


def install(archive: zipfile.ZipFile, folder: Path) -> None:
    """Make the environment beside its place, then put it there. What runs from it keeps its files open."""
    new, old = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    if folder.exists() and any(folder.iterdir()) and not (folder / "VERSION").exists():
        raise InstallationError(f"{folder} has files of something else: choose another folder")
    _unpack(archive, new, folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        # The copies that daemons run from stay where they are.
        if (folder / ".running").is_dir():
            (folder / ".running").rename(new / ".running")
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def install_agent(archive: zipfile.ZipFile) -> dict[str, bool]:
    """The agent, as its Debian package installs it. Whether anything changed."""
    if os.geteuid() != 0:
        raise InstallationError("installing the agent needs root")
    if Path("/var/lib/dpkg/info/strongroom.list").exists():
        raise InstallationError("the Debian package strongroom is installed: upgrade that with apt")
    if not Path("/run/systemd/system").is_dir():
        raise InstallationError("the agent's units need systemd, which does not run here")
    version = version_of(archive)
    if OPT.is_dir() and (OPT / "VERSION").exists() and (OPT / "VERSION").read_text() == version:
        return {"changed": False}
    upgrade = WRITTEN.exists()
    before = WRITTEN.read_text().splitlines() if upgrade else []
    install(archive, OPT)
    with zipfile.ZipFile(io.BytesIO(archive.read("host.zip"))) as host:
        names = host.namelist()
        for name in names:
            _write(Path("/") / name, host.read(name), 0o755 if "libexec" in name else 0o644)
    for gone in {*before} - {*names}:
        (Path("/") / gone).unlink(missing_ok=True)
    _link(COMMAND, OPT / "bin" / "strongroom")
    WRITTEN.write_text("".join(f"{name}\n" for name in names))
    Path("/etc/strongroom").mkdir(mode=0o755, exist_ok=True)
    Path("/var/lib/strongroom").mkdir(mode=0o755, exist_ok=True)
    _run("systemd-sysusers", "/usr/lib/sysusers.d/strongroom-agent.conf")
    _run("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/strongroom-agent.conf")
    if shutil.which("restorecon"):
        _run("restorecon", "-R", str(OPT), "/usr/lib/systemd/system", "/usr/libexec/strongroom")
    _run("systemctl", "daemon-reload")
    _run("systemctl", "enable", "--quiet", "strongroom-agent.service")
    if upgrade:
        # As with packages: the agent of before continues until its last job has ended.
        _run("systemctl", "restart", "strongroom-restart@agent.service")
    else:
        _run("systemctl", "start", "strongroom-agent.service")
    return {"changed": True}


def remove_agent() -> dict[str, bool]:
    """Remove what install_agent wrote. Whether there was anything."""
    if not WRITTEN.exists():
        return {"changed": False}
    _run("systemctl", "disable", "--quiet", "--now", "strongroom-agent.service")
    _run("systemctl", "stop", "strongroom-agent-restore.socket", "strongroom-restart@agent.service")
    for name in WRITTEN.read_text().splitlines():
        path = Path("/") / name
        path.unlink(missing_ok=True)
        if path.parent.name.startswith("strongroom") and not any(path.parent.iterdir()):
            path.parent.rmdir()
    if COMMAND.is_symlink() and COMMAND.readlink() == OPT / "bin" / "strongroom":
        COMMAND.unlink()
    shutil.rmtree(OPT)
    _run("systemctl", "daemon-reload")
    return {"changed": True}


def version_of(archive: zipfile.ZipFile) -> str:
    """What FOLDER/VERSION has: another one for another file, and for another Python."""
    release = json.loads(archive.read("release.json"))
    return f"{release['version']}+pyz.{release['digest'][:16]}.{_target()}\n"


def _cached(archive: zipfile.ZipFile) -> Path:
    home = "/var/cache" if os.geteuid() == 0 else os.path.expanduser("~/.cache")
    top = Path(os.environ.get("XDG_CACHE_HOME") or home) / "strongroom-pyz"
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = top.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise InstallationError(f"others can write to {top}, so nothing is run from there")
    folder = top / version_of(archive).strip()
    if not folder.exists():
        new = top / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        _unpack(archive, new, folder)
        try:
            new.rename(folder)
        except OSError:
            # Another process was faster.
            shutil.rmtree(new, ignore_errors=True)
            if not folder.exists():
                raise
    return folder


def _target() -> str:
    return f"cp{sys.version_info[0]}{sys.version_info[1]}-{platform.machine()}"


def _unpack(archive: zipfile.ZipFile, folder: Path, final: Path) -> None:
    """Make an environment in `folder` that is going to be `final`."""
    names = {one.removeprefix("environment/") for one in archive.namelist() if "/" in one}
    own = f"{_target()}.zip"
    if own not in names or not platform.libc_ver()[0] or sys.implementation.name != "cpython":
        known = ", ".join(sorted(one.removesuffix(".zip") for one in names - {"common.zip"}))
        libc = "".join(platform.libc_ver()) or "another C library than glibc"
        raise InstallationError(
            f"this file has libraries for {known} with glibc, and this is {_target()} with {libc}. "
            "Use another Python of this machine, or install the wheel with pip"
        )
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "lib" / python / "site-packages"
    packages.mkdir(parents=True)
    for part in ("common.zip", own):
        with zipfile.ZipFile(io.BytesIO(archive.read(f"environment/{part}"))) as some:
            for name in some.namelist():
                top, _, rest = name.partition("/")
                path = packages / rest if top == "site-packages" else folder / name
                if ".." in path.parts:
                    raise InstallationError(f"{name} would be written outside of {folder}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(some.read(name))
    # That of the system, where this one belongs to an environment itself.
    base = Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {platform.python_version()}\n"
    )
    (folder / "VERSION").write_text(version_of(archive))
    script = folder / "bin" / "strongroom"
    script.write_text(
        f"#!{final}/bin/python -I\nimport sys\n\nfrom strongroom.cli.main import main\n\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    # Daemons that cannot write there would compile each module at every start.
    subprocess.run(
        [folder / "bin" / "python", "-I", "-m", "compileall", "-q", "-j", "0", packages],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.chmod(mode)
    new.replace(path)


def _link(path: Path, to: Path) -> None:
    if path.is_symlink() and path.readlink() == to:
        return
    if path.exists() or path.is_symlink():
        raise InstallationError(f"{path} is there already, and not of this installation")
    path.symlink_to(to)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _say(outcome: dict[str, bool]) -> int:
    sys.stdout.write(json.dumps(outcome) + "\n")
    return 0
