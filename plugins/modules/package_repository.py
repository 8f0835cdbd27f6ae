#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: package_repository
short_description: Take over a signed apt repository, as a whole or not at all
version_added: 0.9.0
description:
  - Copies an apt repository, such as C(make packages) makes, from a folder of the host or from a web server. Every file
    is compared with what the index says of it, and apt verifies the index with the key that is given. Only then does
    the copy take the place of what was there; clients never see a part of it.
  - Packages that the index does not name any more are removed with the copy before. So the repository that is copied
    says how many versions there are.
  - The copy is in C(PATH/apt), a link to a folder beside it.
author:
  - Strongroom (@strongroom)
options:
  source:
    description: Folder on the host, or an address that begins with C(http://) or C(https://).
    type: str
    required: true
  key:
    description: Text of the public key that must have signed it, ASCII-armored.
    type: str
    required: true
  suites:
    description: Suites to copy. Those that the source does not have are left out, but one must be there.
    type: list
    elements: str
    default: [bookworm, trixie]
  path:
    description: Folder that the copy is put into.
    type: path
    default: /var/lib/strongroom/packages
attributes:
  check_mode:
    description: Can run without changing anything. It says that there is a change where the index is another.
    support: full
  diff_mode:
    description: Shows no files.
    support: none
"""

EXAMPLES = r"""
- name: Serve what the vendor serves
  strongroom.backup.package_repository:
    source: https://packages.example.org/strongroom
    key: "{{ lookup('ansible.builtin.file', 'strongroom.asc') }}"
"""

RETURN = r"""
suites:
  description: The suites that were found.
  returned: success
  type: list
  elements: str
packages:
  description: File names of all packages that are there afterwards.
  returned: success
  type: list
  elements: str
"""

import hashlib
import os
import re
import shutil
import tempfile
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.urls import open_url

LARGEST_INDEX = 64 << 20
LARGEST_PACKAGE = 2 << 30
PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~-]*(/[A-Za-z0-9_][A-Za-z0-9_.+~-]*)*")
SUM = re.compile(r"^ ([0-9a-f]{64}) +([0-9]+) +(\S+)$", re.MULTILINE)
SUITE = re.compile(r"[a-z][a-z0-9-]*")
SECONDS = 60


class RepositoryError(Exception):
    """It cannot be taken over; the message says why."""


class Source:
    """What files are copied from."""

    def __init__(self, name):
        self.name = name.rstrip("/")
        self.is_remote = bool(re.match(r"https?://", name))

    def open(self, place):
        """A file. Raises FileNotFoundError, RepositoryError."""
        try:
            if self.is_remote:
                return open_url("%s/%s" % (self.name, place), timeout=SECONDS)
            return open(os.path.join(self.name, place), "rb")
        except FileNotFoundError:
            raise
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise FileNotFoundError from error
            raise RepositoryError("%s/%s: %s" % (self.name, place, error)) from error
        except (OSError, ValueError) as error:
            raise RepositoryError("%s/%s: %s" % (self.name, place, error)) from error

    def index(self, place):
        """A small file as a whole; None where there is none. Raises RepositoryError."""
        try:
            with self.open(place) as file:
                data = file.read(LARGEST_INDEX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RepositoryError("%s/%s: %s" % (self.name, place, error)) from error
        if len(data) > LARGEST_INDEX:
            raise RepositoryError("%s/%s is larger than an index may be" % (self.name, place))
        return data

    def copy(self, place, target, size, digest):
        """Copy a file that must be as the index says. Raises RepositoryError."""
        found, left = hashlib.sha256(), size
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        try:
            with self.open(place) as file, open(target, "wb") as copy:
                while data := file.read(min(left + 1, 1 << 20)):
                    left -= len(data)
                    if left < 0:
                        break
                    found.update(data)
                    copy.write(data)
                copy.flush()
                os.fsync(copy.fileno())
        except FileNotFoundError:
            raise RepositoryError("%s/%s is named in the index and is not there" % (self.name, place)) from None
        except OSError as error:
            raise RepositoryError("%s/%s: %s" % (self.name, place, error)) from error
        if left != 0 or found.hexdigest() != digest:
            raise RepositoryError("%s/%s does not match the index of it" % (self.name, place))


def place_of(name):
    """A path that stays inside. Raises RepositoryError."""
    if not PLACE.fullmatch(name):
        raise RepositoryError("the index names %r, which is not a path of a repository" % name)
    return name


def copy_suite(source, suite, signed, new, old):
    """Copy a suite into the folder `new`, with files of the folder `old` where they are the same."""
    dist = "dists/" + suite
    write(os.path.join(new, dist, "InRelease"), signed)
    for name in ("Release", "Release.gpg"):
        data = source.index("%s/%s" % (dist, name))
        if data is not None:
            write(os.path.join(new, dist, name), data)
    indexes = [
        (digest, int(size), place_of(name))
        for digest, size, name in SUM.findall(to_text(signed))
        if re.search(r"/Packages(\.[a-z0-9]+)?$", name)
    ]
    packages = {}
    for digest, size, name in indexes:
        if size > LARGEST_INDEX:
            raise RepositoryError("%s of %s is larger than an index may be" % (name, suite))
        target = os.path.join(new, dist, name)
        source.copy("%s/%s" % (dist, name), target, size, digest)
        if name.endswith("/Packages"):
            with open(target, encoding="utf-8") as file:
                packages.update(packages_of(file.read()))
    if not packages:
        raise RepositoryError("%s: the index of %s names no package" % (source.name, suite))
    for name, (size, digest) in packages.items():
        target, there = os.path.join(new, name), os.path.join(old, name)
        if not os.path.exists(target):
            if has(there, size, digest):
                os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
                os.link(there, target)
            else:
                source.copy(name, target, size, digest)
    return packages


def packages_of(index):
    """The packages of an index: place -> size, SHA-256. Raises RepositoryError."""
    found = {}
    for entry in index.split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", entry, re.MULTILINE))
        if not fields:
            continue
        try:
            size = int(fields["Size"])
            found[place_of(fields["Filename"])] = (size, fields["SHA256"])
        except (KeyError, ValueError) as error:
            raise RepositoryError("an entry of the index has no file name, size or SHA-256") from error
        if size > LARGEST_PACKAGE:
            raise RepositoryError("%s is larger than a package may be" % fields["Filename"])
    return found


def has(path, size, digest):
    """Whether a file is there and as the index says."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size == size and hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def write(path, data):
    """Write a file of the copy."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read(path):
    """A file of the copy that is there; None where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def verify(module, folder, suites):
    """Have apt verify the signatures and the indexes, as it does on clients. Raises RepositoryError."""
    # Its user must be able to read what it compares.
    with tempfile.TemporaryDirectory() as work:
        for name in ("lists/partial", "cache/archives/partial", "etc"):
            os.makedirs(os.path.join(work, name))
        sources = os.path.join(work, "etc", "strongroom.sources")
        with open(sources, "w", encoding="utf-8") as file:
            for suite in suites:
                file.write("Types: deb\nURIs: file:%s\nSuites: %s\nComponents: main\n" % (folder, suite))
                file.write("Signed-By: %s/strongroom.asc\n\n" % folder)
        settings = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": os.path.join(work, "lists"),
            "Dir::Cache": os.path.join(work, "cache"),
            "APT::Update::Error-Mode": "any",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        options = ["--option=%s=%s" % pair for pair in settings.items()]
        code, output, error = module.run_command(
            ["apt-get", "--quiet", "update", *options], environ_update={"LC_ALL": "C.UTF-8"}
        )
    if code != 0:
        messages = "; ".join(line for line in (error or output).splitlines() if line.startswith(("E:", "Err:")))
        raise RepositoryError("it is not signed by the key that was given, or not whole: %s" % (messages or error))


def put_in_place(path, new):
    """Let `apt` be a link to the new copy, and remove the others."""
    link = os.path.join(path, ".apt.new")
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(os.path.basename(new), link)
    place = os.path.join(path, "apt")
    if os.path.isdir(place) and not os.path.islink(place):
        # Somebody has copied a repository there by hand.
        os.rename(place, os.path.join(path, ".by-hand"))
    os.rename(link, place)
    for name in os.listdir(path):
        other = os.path.join(path, name)
        if (
            name.startswith(".")
            and name != os.path.basename(new)
            and os.path.isdir(other)
            and not os.path.islink(other)
        ):
            shutil.rmtree(other)


def take_over(module, source, path, suites):
    """The suites that are there, and whether their copy is another than before. Raises RepositoryError."""
    old = os.path.join(path, "apt")
    key = module.params["key"].strip().encode() + b"\n"
    signed = {suite: source.index("dists/%s/InRelease" % suite) for suite in suites}
    signed = {suite: data for suite, data in signed.items() if data is not None}
    if not signed:
        raise RepositoryError("%s has none of the suites %s" % (source.name, ", ".join(suites)))
    before = set(os.listdir(os.path.join(old, "dists"))) if os.path.isdir(os.path.join(old, "dists")) else set()
    same = before == set(signed) and read(os.path.join(old, "strongroom.asc")) == key
    if same and all(read("%s/dists/%s/InRelease" % (old, suite)) == data for suite, data in signed.items()):
        return sorted(signed), False
    if not module.check_mode:
        os.makedirs(path, 0o755, exist_ok=True)
        new = tempfile.mkdtemp(prefix=".", dir=path)
        try:
            write(os.path.join(new, "strongroom.asc"), key)
            for suite, data in signed.items():
                copy_suite(source, suite, data, new, old)
            for folder, _folders, names in os.walk(new):
                os.chmod(folder, 0o755)
                for name in names:
                    os.chmod(os.path.join(folder, name), 0o644)
            verify(module, new, sorted(signed))
            put_in_place(path, new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    return sorted(signed), True


def main():
    """Run as Ansible runs it."""
    # Folders that are missing can be entered by daemons, whatever the host has for its users.
    os.umask(0o022)
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
            "suites": {"type": "list", "elements": "str", "default": ["bookworm", "trixie"]},
            "path": {"type": "path", "default": "/var/lib/strongroom/packages"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"].rstrip("/")
    suites = module.params["suites"]
    wrong = [suite for suite in suites if not SUITE.fullmatch(suite)]
    if wrong or not suites:
        module.fail_json(msg="suites: %s; name suites such as trixie" % (", ".join(wrong) or "there is none"))
    try:
        found, changed = take_over(module, Source(module.params["source"]), path, suites)
    except RepositoryError as error:
        module.fail_json(msg="nothing was changed: %s" % error)
    pool = os.path.join(path, "apt", "pool")
    packages = sorted(name for _folder, _folders, names in os.walk(pool) for name in names)
    module.exit_json(changed=changed, suites=found, packages=packages)


if __name__ == "__main__":
    main()
