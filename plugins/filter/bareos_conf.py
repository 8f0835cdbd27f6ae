# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Resources of the Bareos language as data, and back. The grammar is the engine's: it is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile

from ansible.errors import AnsibleFilterError
from ansible_collections.strongroom.backup.plugins.plugin_utils.untrusted import untrusted

COMPONENTS = ("director", "storage", "agent", "console", "monitor")


class Text:
    """A text that is written line by line.

    Values are in quotes, which the engine refuses for some: sizes and durations. A block has no equals sign, which
    the engine wants for some: addresses. Such a line has a second form.
    """

    def __init__(self):
        self.lines = []
        self.second = {}

    def add(self, depth, name, value):
        """A directive, or a block."""
        indent = "  " * depth
        if isinstance(value, (list, tuple)):
            for one in value:
                self.add(depth, name, one)
        elif isinstance(value, dict):
            self.open(depth, name)
            for key, inner in value.items():
                self.add(depth + 1, key, inner)
            self.lines.append(indent + "}")
        else:
            word, quoted = written(name, value)
            if quoted:
                self.second[len(self.lines) + 1] = "%s%s = %s" % (indent, name, word)
                word = '"%s"' % word.replace("\\", "\\\\").replace('"', '\\"')
            self.lines.append("%s%s = %s" % (indent, name, word))

    def open(self, depth, name):
        """The first line of a block or resource."""
        self.second[len(self.lines) + 1] = "%s%s = {" % ("  " * depth, name)
        self.lines.append("%s%s {" % ("  " * depth, name))

    def rewrite(self, findings):
        """Write the lines of these findings in their second form; whether any had one."""
        found = False
        for finding in findings:
            line = self.second.pop(finding.get("line"), None)
            if line is not None:
                self.lines[finding["line"] - 1] = line
                found = True
        return found

    def __str__(self):
        return "\n".join(self.lines) + "\n"


def written(name, value):
    """A value as it is written, and whether it is in quotes."""
    if isinstance(value, bool):
        return ("yes" if value else "no"), False
    if isinstance(value, (int, float)):
        return str(value), False
    if value is None:
        raise AnsibleFilterError("to_bareos_conf: %s has no value; leave the line out" % name)
    text = str(value)
    if "\n" in text or "\0" in text:
        raise AnsibleFilterError("to_bareos_conf: the value of %s has a line break" % name)
    return text, True


def strongroom(program, *arguments):
    """Run the engine's command; its exit code, output and errors."""
    path = shutil.which(program)
    if path is None:
        raise AnsibleFilterError(
            "%s is not in PATH here, and its grammar is needed: install the package strongroom on this machine, "
            "or say where the command is with command=" % program
        )
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def parse(text, component, command, *options):
    """What the engine reads in a text."""
    if component not in COMPONENTS:
        raise AnsibleFilterError("%r is not a component; one of %s" % (component, ", ".join(COMPONENTS)))
    with tempfile.TemporaryDirectory(prefix="strongroom-") as folder:
        path = os.path.join(folder, "resources.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, output, error = strongroom(command, "config", "parse", "--component", component, "--json", *options, path)
        try:
            return json.loads(output)
        except ValueError as wrong:
            raise AnsibleFilterError(
                "strongroom config parse ended with %d: %s" % (code, error.strip() or output.strip())
            ) from wrong


def refuse(findings):
    """Raise what the engine found."""
    messages = ["line %s: %s" % (finding.get("line", "?"), finding.get("message", "")) for finding in findings]
    raise AnsibleFilterError("this is not right in the Bareos language: " + "; ".join(messages))


def to_bareos_conf(resources, component="director", command="strongroom"):
    """Resources as text."""
    text = Text()
    for resource in [resources] if isinstance(resources, dict) else resources:
        if not isinstance(resource, dict):
            raise AnsibleFilterError(
                "to_bareos_conf wants resources such as {Client: {Name: web1}}, not %r" % (resource,)
            )
        for kind, directives in resource.items():
            text.add(0, kind, directives)
    errors = first = parse(str(text), component, command, "--werror")["errors"]
    while errors and text.rewrite(errors):
        errors = parse(str(text), component, command, "--werror")["errors"]
    if errors:
        refuse(first)
    return untrusted(str(text))


def from_bareos_conf(text, component="director", command="strongroom"):
    """Text as resources."""
    parsed = parse(text, component, command)
    if parsed["errors"]:
        refuse(parsed["errors"])
    found = []
    for resource in parsed["resources"]:
        kind, directives = resource["type"], [one[:2] for one in resource["directives"]]
        found.append({kind: block(directives, kind)})
    return untrusted(found)


def block(directives, kind=""):
    """Directives as a dictionary; what is given several times is a list."""
    found = {}
    for name, value in directives:
        name = "File" if name == "file" else name
        found.setdefault(name, []).extend(values_of(value, kind))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def values_of(value, kind):
    """A parsed value as the values of one directive; kind is the resource that it is in."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [run(value)]
    if all(isinstance(one, str) for one in value):
        return value
    # Only Messages have destinations: a list of places, and one of kinds of messages.
    return [destination(value) if kind == "Messages" else block(value)]


def destination(value):
    """A destination of messages."""
    places, kinds = value
    if places and places[0]:
        shown = ['"%s"' % place if " " in place else place for place in places]
        return "%s = %s" % (", ".join(shown), ", ".join(kinds))
    return ", ".join(kinds)


def run(value):
    """A Run of a schedule."""
    words = [
        '%s="%s"' % (name, setting) if " " in str(setting) else "%s=%s" % (name, setting)
        for name, setting in value.items()
        if name != "when"
    ]
    return " ".join(words + list(value["when"]))


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """Name to function."""
        return {"to_bareos_conf": to_bareos_conf, "from_bareos_conf": from_bareos_conf}
