"""Which image is tested: the results of `make image`, or the folder that STRONGROOM_IMAGE names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from life import Life
from machine import PROJECT, QEMU_IMG, Machine
from xdist.scheduler import LoadScopeScheduling

MIB = 1 << 20
# Where the boot partition and root a begin, see packer/base/make_disk.py.
BOOT_OFFSET, ROOT_OFFSET = 2 * MIB, 66 * MIB
RESULTS = Path(os.environ.get("STRONGROOM_IMAGE", PROJECT / "build/image/results"))


@pytest.fixture(scope="session")
def image() -> Path:
    """The image as it is released."""
    found = sorted(RESULTS.glob("*.qcow2"))
    if not found:
        pytest.fail(f"{RESULTS} has no image: make image")
    return found[0]


def in_tools(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool in the folder of images."""
    return subprocess.run([PROJECT / "packer/in_tools.sh", *command], check=True, capture_output=True, text=True)


# Files of tests that share a machine, or a copy of the image's files, run one after the other; the others beside them.
# Those that take longest begin: of `make test-image`, then of `make test-image-long`.
TOGETHER = (
    ("test_iso",),
    ("test_fleet",),
    ("test_content", "test_state", "test_start", "test_boot"),
    ("test_life",),
    ("test_formats",),
    ("test_updates",),
    ("test_openscap", "test_hardening"),
    ("test_tpm",),
)


def place_of(nodeid: str) -> tuple[int, int]:
    """The group of a test, and its file's place in there."""
    file = nodeid.split("::")[0].rpartition("/")[2].removesuffix(".py")
    found = ((group, names.index(file)) for group, names in enumerate(TOGETHER) if file in names)
    return next(found, (len(TOGETHER), 0))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into this order."""
    items.sort(key=lambda item: place_of(item.nodeid))


class ByGroup(LoadScopeScheduling):
    """Anyone who has nothing to do takes the next group."""

    def _split_scope(self, nodeid: str) -> str:
        return str(place_of(nodeid)[0])


def pytest_xdist_make_scheduler(config, log):
    """Run groups beside each other (`-n 2`)."""
    return ByGroup(config, log)


@pytest.fixture
def tell(request):
    """Have a figure printed at the end, also of a test that passes."""
    return lambda text: request.node.user_properties.append(("figure", text))


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the figures."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    for report in reports:
        if getattr(report, "when", "") == "call":
            for name, text in report.user_properties:
                if name == "figure":
                    terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def raw():
    """The disk of the image, as a name among the tools."""
    return f"test-{os.getpid()}.raw"


@pytest.fixture(scope="session")
def root(image, raw):
    """The files of root a, copied out of the image."""
    build = PROJECT / "build/image"
    subprocess.run([QEMU_IMG, "convert", "-O", "raw", image, build / raw], check=True)
    folder = f"{raw}.root"
    in_tools("mkdir", folder)
    in_tools("debugfs", "-R", f"rdump / {folder}", f"{raw}?offset={ROOT_OFFSET}")
    yield build / folder
    in_tools("rm", "-rf", folder, raw)


@pytest.fixture(scope="session")
def kernel(root, tmp_path_factory) -> Path:
    """The kernel of the image; its initial RAM disk lies beside it, with the end .initrd."""
    folder = tmp_path_factory.mktemp("kernel")
    for pattern, name in (("vmlinuz-*", "kernel"), ("initrd.img-*", "kernel.initrd")):
        shutil.copy(next((root / "boot").glob(pattern)), folder / name)
    return folder / "kernel"


@pytest.fixture(scope="session")
def accelerator(request) -> str:
    """The accelerator that works here."""
    if said := os.environ.get("ACCELERATOR"):
        return said
    command = [PROJECT / "packer/accelerator.sh", request.getfixturevalue("kernel")]
    return subprocess.check_output(command, text=True).strip()


@pytest.fixture(scope="session")
def key(tmp_path_factory) -> Path:
    """An administrator's key."""
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="session")
def new_update(image, tmp_path_factory):
    """Updates from the root of the image, each with changes by debugfs, signed by the key of the image."""
    build = PROJECT / "build/image"
    folder = tmp_path_factory.mktemp("updates")
    key = Path(os.environ.get("STRONGROOM_UPDATE_KEY", build / "update-key.pem"))
    with tarfile.open(next(image.parent.glob("*.update"))) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))
        with archive.extractfile("root.zst") as source, (folder / "root.zst").open("wb") as target:
            shutil.copyfileobj(source, target)
    work = build / f"test-{os.getpid()}.update"
    work.mkdir()
    subprocess.run(["zstd", "--quiet", "-d", "--sparse", folder / "root.zst", "-o", work / "whole"], check=True)

    def make(name: str, *, seconds: int, files: dict[str, str] | None = None, remove: tuple[str, ...] = ()) -> Path:
        """One that is this much newer than the image."""
        subprocess.run(["cp", "--sparse=always", work / "whole", work / "root"], check=True)
        made, _, rest = manifest["image"].partition("-")
        identity = f"{int(made) + seconds}-{rest}"
        said = [f"rm {path}" for path in remove]
        for number, (path, text) in enumerate(
            {"/usr/lib/strongroom/image/id": f"{identity}\n", **(files or {})}.items()
        ):
            (work / f"file{number}").write_text(text)
            said += [f"rm {path}", f"write /work/{work.name}/file{number} {path}"]
        (work / "said").write_text("\n".join(said) + "\n")
        in_tools("debugfs", "-w", "-f", f"/work/{work.name}/said", f"/work/{work.name}/root")
        words = [sys.executable, PROJECT / "packer/update_file.py", work / "root", key, folder / name]
        subprocess.run([*words, "--image", identity, "--version", "9.9", "--level", "1"], check=True)
        return folder / name

    yield make
    shutil.rmtree(work)


@pytest.fixture(scope="session")
def new_machine(image, accelerator, tmp_path_factory):
    """A machine that has never been started, as often as asked; each is ended at the end."""
    made = []

    def make(*, is_empty: bool = False, **options):
        disk = None if is_empty else image
        one = Machine(disk, tmp_path_factory.mktemp("machine") / "it", accelerator, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        one.__exit__()


@pytest.fixture(scope="session")
def life(new_machine, key):
    """The one appliance that is set up."""
    return Life(new_machine(data_gib=4), key)
