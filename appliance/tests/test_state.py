"""What the initial RAM disk lays over the root: done here by the image's programs, on a file system in a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from machine import PROJECT

# The root is read-only, and the state partition has the name that the script looks for.
START = """
mount --bind "$1/root" "$1/root"
mount --bind "$4/usr" "$1/root/usr"
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/dev"
cp -a "$2" /dev/null "$1/root/dev/"
mkdir -p "$1/root/dev/disk/by-partlabel"
ln -s "$2" "$1/root/dev/disk/by-partlabel/strongroom-state"
mount -o remount,bind,ro "$1/root"
chroot "$1/root" /prepare-state
chroot "$1/root" sh -ec "$3"
"""

# An initial RAM disk with the script, over a root that is empty but for what is made in it. Nothing restarts here.
INITIAL = """
mount -t tmpfs tmpfs "$1"
mkdir -p "$1"/usr "$1"/proc "$1"/scripts "$1"/root
for name in bin sbin lib lib64; do ln -s "usr/$name" "$1/$name"; done
mount --bind "$2/usr" "$1/usr"
mount -t tmpfs tmpfs "$1/root"
mkdir "$1/root/dev"
touch "$1/root/dev/console"
echo strongroom.state=none > "$1/proc/cmdline"
echo 'panic() { echo "panic: $*"; exit 1; }' > "$1/scripts/functions"
cp "$3" "$1/scripts/it"
cd "$1/root"
eval "$4"
PATH=$PATH:/usr/lib/klibc/bin rootmnt=/root init=/sbin/init chroot "$1" sh /scripts/it
"""


class Appliance:
    """A root with some files, and a state partition that survives it."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder = folder
        self.image = image
        self.root = folder / "root"
        for name in ("etc", "var/lib", "home", "root", "srv", "state", "proc", "dev", "usr"):
            (self.root / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        partition = folder / "state"
        with partition.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", partition], check=True)
        self.device = subprocess.check_output(["losetup", "--find", "--show", partition], text=True).strip()

    def write(self, **files: str) -> None:
        """Put files into the root; `etc__passwd` is /etc/passwd."""
        for name, text in files.items():
            (self.root / name.replace("__", "/")).write_text(text)

    def start(self, image: str, command: str) -> str:
        """Start it as this image, and run a command in it."""
        script = (
            (self.image / "usr/lib/strongroom/image/prepare-state")
            .read_text()
            .replace("/usr/lib/strongroom/image/id", "/image-id")
        )
        (self.root / "prepare-state").write_text(script)
        (self.root / "prepare-state").chmod(0o755)
        (self.root / "image-id").write_text(image)
        words = ["unshare", "--mount", "--propagation", "private", "bash", "-ec", START, "start"]
        arguments = [self.folder, self.device, f"echo; echo ---; {command}", self.image]
        done = subprocess.run([*words, *arguments], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("\n---\n")[2]


@pytest.fixture
def appliance(tmp_path, root):
    made = Appliance(tmp_path, root)
    made.write(etc__passwd="root:x:0:0\ndaemon:x:1:1\n", etc__issue="one\n", var__lib__seed="one\n")
    yield made
    subprocess.run(["losetup", "--detach", made.device], check=False)


def test_the_root_is_read_only_and_what_may_change_outlasts_a_restart(appliance):
    appliance.start(
        "1", "echo mine > /etc/mine; echo mine > /var/lib/mine; echo mine > /root/mine; ! touch /new 2> /dev/null"
    )
    assert appliance.start("1", "cat /etc/mine /var/lib/mine /root/mine").split() == ["mine"] * 3
    assert not (appliance.root / "etc/mine").exists()


def test_an_update_brings_new_files_and_keeps_changed_ones(appliance):
    appliance.start("1", "echo mine > /etc/changed; echo changed > /var/lib/seed")
    appliance.write(etc__issue="two\n", etc__changed="two\n", var__lib__new="two\n", var__lib__seed="two\n")
    said = appliance.start("2", "cat /etc/issue /etc/changed /var/lib/new /var/lib/seed")
    assert said.split() == ["two", "mine", "two", "changed"]


def test_users_of_an_update_are_added_to_those_of_the_machine(appliance):
    appliance.start("1", "echo admin:x:1000:1000 >> /etc/passwd")
    appliance.write(etc__passwd="root:x:0:0\ndaemon:x:1:1\nnewdaemon:x:120:120\n")
    said = appliance.start("2", "cat /etc/passwd").split()
    assert said == ["root:x:0:0", "daemon:x:1:1", "admin:x:1000:1000", "newdaemon:x:120:120"]
    assert appliance.start("2", "cat /etc/passwd").split() == said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("mkdir -p sbin lib; touch lib/systemd; chmod +x lib/systemd; ln -s ../lib/systemd sbin/init", ""),
        ("mkdir sbin; ln -s ../lib/systemd sbin/init", "panic: The root has no /sbin/init."),
    ],
)
def test_a_root_without_init_starts_the_machine_again(tmp_path, root, made, said):
    """Instead of a shell as root, to which Debian would fall back."""
    script = PROJECT / "appliance/overlay/etc/initramfs-tools/scripts/init-bottom/strongroom-state"
    words = ["unshare", "--mount", "--propagation", "private", "bash", "-ec", INITIAL, "start"]
    done = subprocess.run([*words, tmp_path, root, script, made], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == said, done.stderr
    assert done.returncode == (1 if said else 0)
