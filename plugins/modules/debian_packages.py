#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: debian_packages
short_description: Install or remove packages of Debian on a host that has nothing but apt-get
version_added: 0.9.0
description:
  - Does what M(ansible.builtin.apt) does, with C(apt-get) and C(dpkg-query) alone. That module needs python3-apt, which
    a minimal Debian lacks, so a check of such a host fails.
author:
  - Strongroom (@strongroom)
options:
  names:
    description: Packages, each as C(NAME) or C(NAME=VERSION). With a version an older one may replace a newer one.
    type: list
    elements: str
    required: true
  state:
    description: Whether they are there, are the newest that apt knows, or are not there.
    type: str
    choices: [present, latest, absent]
    default: present
  recommends:
    description: Whether packages that they recommend come with them.
    type: bool
    default: true
  refresh:
    description: Read the lists of packages anew, if something cannot be installed from those that are there.
    type: bool
    default: false
attributes:
  check_mode:
    description: >-
      Can run without changing anything, and says what would change; also of packages that no list on the host has yet.
    support: full
  diff_mode:
    description: Shows the packages before and after.
    support: full
"""

EXAMPLES = r"""
- name: Install the tools of XFS
  strongroom.backup.debian_packages:
    names: [xfsprogs]
"""

RETURN = r"""
packages:
  description: Packages that were installed, replaced or removed.
  returned: always
  type: list
  elements: str
"""

import re

from ansible.module_utils.basic import AnsibleModule

LOCK_SECONDS = 120
INSTALLED = re.compile(r"^Inst (\S+)", re.MULTILINE)


def versions_of(module, names):
    """The versions of packages that are installed, by name."""
    command = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status} ${Version}\\n", *names]
    _code, output, _error = module.run_command(command)
    lines = [line.split(" ") for line in output.splitlines()]
    return {line[0]: line[2] for line in lines if len(line) == 3 and line[1] == "installed"}


def apt_get(module, *words):
    """Give a command; exit code, output, and its errors on one line."""
    command = ["apt-get", "--yes", "--quiet", "--option=DPkg::Lock::Timeout=%d" % LOCK_SECONDS]
    command += ["--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold", *words]
    code, output, error = module.run_command(
        command, environ_update={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    )
    lines = [line[3:] for line in error.splitlines() if line.startswith("E: ")]
    return code, output, "; ".join(lines) or " ".join((error or output).split())[-400:]


def install_words(module):
    """The command that installs them."""
    words = ["install"] + ([] if module.params["recommends"] else ["--no-install-recommends"])
    if any("=" in name for name in module.params["names"]):
        words.append("--allow-downgrades")
    return [*words, *module.params["names"]]


def lacking(module, found):
    """Which of the packages are to be installed or replaced, as far as apt knows."""
    wanted = [name.partition("=") for name in module.params["names"]]
    missing = [name for name, _is, version in wanted if name not in found or (version and found[name] != version)]
    if module.params["state"] == "latest" and not missing:
        _code, output, _error = apt_get(module, "--simulate", *install_words(module))
        own = [name for name, _is, _version in wanted]
        missing = [name for name in INSTALLED.findall(output) if name in own]
    return missing


def change(module, words):
    """Give the command that changes packages, with new lists if that is wanted and helps; fail if it does."""
    code, _output, error = apt_get(module, *words)
    if code != 0 and module.params["refresh"] and words[0] == "install":
        code, _output, error = apt_get(module, "update")
        if code == 0:
            code, _output, error = apt_get(module, *words)
    if code != 0:
        module.fail_json(msg="`apt-get %s` failed: %s" % (" ".join(words), error))


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "latest", "absent"], "default": "present"},
            "recommends": {"type": "bool", "default": True},
            "refresh": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    names = [name.partition("=")[0] for name in module.params["names"]]
    before = versions_of(module, names) if names else {}
    if module.params["state"] == "absent":
        touched, words = sorted(before), ["remove", *sorted(before)]
    else:
        touched, words = lacking(module, before), install_words(module)
    after = before
    if touched and not module.check_mode:
        change(module, words)
        after = versions_of(module, names)
    elif touched:
        wanted = dict(name.partition("=")[::2] for name in module.params["names"])
        after = {name: version for name, version in before.items() if name not in touched}
        if module.params["state"] != "absent":
            after.update({name: wanted[name] or "newest" for name in touched})
    module.exit_json(
        changed=after != before,
        packages=[name for name in touched if after.get(name) != before.get(name)],
        diff={
            "before_header": "packages",
            "after_header": "packages",
            "before": "".join("%s %s\n" % one for one in sorted(before.items())),
            "after": "".join("%s %s\n" % one for one in sorted(after.items())),
        },
    )


if __name__ == "__main__":
    main()
