# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is wrong with an inventory: each variable by the table meta/variables.yml, then what variables say together.

Nothing here connects to a host. Values are those of the hosts after templates were filled in; one that cannot be known
yet is UNKNOWN and is not checked.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import namedtuple

from ansible_collections.strongroom.backup.plugins.module_utils import forms, notice_checks
from ansible_collections.strongroom.backup.plugins.module_utils.run_directive import run_step_days

# What is wrong, as the end of a sentence that begins with the variable and its value.
Fault = namedtuple("Fault", "host variable text")
UNKNOWN = object()
TRUTHS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
NUMBERS = {"int": int, "float": float}
OWN_SCHEDULES = ("Nightly",)
OWN_FILESETS = ("Machine",)
PREFIX = "strongroom_"
KINDS_OF_DIRECTIVES = {
    "number": {"type": "int", "minimum": 0, "maximum": 2**32 - 1},
    "boolean": {"type": "str", "choices": ["yes", "no", "true", "false", "1", "0"]},
    "duration": {"type": "str", "form": "duration"},
    "speed": {"type": "str", "form": "rate"},
    "text": {"type": "str", "form": "text"},
}
LONGEST_ADVICE = 60
# A text that YAML takes as it is, also in brackets.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/._ -]*(?<! )")


def shown(value):
    """A value as it is in a message."""
    if value is True or value is False:
        return str(value).lower()
    text = value if isinstance(value, str) and value else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word, known):
    """`; did you mean X?` for a misspelt word, or nothing."""
    found = difflib.get_close_matches(word, list(known), 1, 0.75)
    return "; did you mean %s?" % found[0] if found else ""


def truth(value):
    """A switch's value; None for what is none."""
    if value is True or value is False:
        return value
    return TRUTHS.get(str(value).lower()) if isinstance(value, (str, int)) else None


def number(value, kind):
    """A number's value; None for what is none. Templates give texts of digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        read = NUMBERS[kind](value)
    except ValueError:
        return None
    return read if kind == "float" or float(read) == float(value) else None


def wrong_value(value, option, name):
    """What is wrong with one value: pairs of a place in it (empty: all of it) and text."""
    kind = option["type"]
    if value is UNKNOWN:
        return
    if value is None:
        may_be_empty = kind in ("str", "path") and _fits("", option, name)
        yield "", "has no value" + ('; write "" for an empty one' if may_be_empty else "")
    elif kind == "list":
        yield from _wrong_list(value, {**option, "type": option["elements"]}, name)
    elif kind == "dict":
        yield from _wrong_dictionary(value, option, name)
    elif kind == "bool":
        if truth(value) is None:
            yield "", "is neither yes nor no"
    elif kind in NUMBERS:
        yield from _wrong_number(value, option)
    else:
        yield from _wrong_text(value, option)


def _fits(value, option, name):
    """Whether nothing is wrong with it, so that a message may tell to write it."""
    return not any(True for _one in wrong_value(value, option, name))


def _wrong_list(value, element, name):
    if isinstance(value, (list, tuple)):
        for place, one in enumerate(value, 1):
            for where, text in wrong_value(one, element, name):
                yield ("[%d]" % place) + where, text
        return
    advice = "[]" if value == "" else "[%s]" % _as_yaml(value)
    if (value == "" or _fits(value, element, name)) and len(advice) <= LONGEST_ADVICE:
        yield "", "is not a list; write %s" % advice
    elif element["type"] == "dict":
        yield "", "is not a list; write [%s]" % _dictionary(element)
    elif isinstance(element.get("default"), (list, tuple)) and element["default"]:
        yield "", "is not a list such as [%s]" % ", ".join(map(_as_yaml, element["default"][:2]))
    else:
        yield "", "is not a list of texts"


def _as_yaml(value):
    """A value as it is written in an inventory, on one line."""
    plain = isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in (*TRUTHS, "null")
    return value if plain else json.dumps(value, ensure_ascii=False, default=str)


def _dictionary(option):
    """What a dictionary looks like."""
    options = option.get("options") or {}
    keys = [key for key, inner in options.items() if inner.get("required")] or list(options)[:2]
    return "{%s}" % ", ".join("%s: ..." % key for key in keys or ["NAME"])


def _wrong_number(value, option):
    read = number(value, option["type"])
    least, most = option.get("minimum"), option.get("maximum")
    if read is None:
        yield "", "is not a whole number" if option["type"] == "int" else "is not a number"
    elif (least is not None and read < least) or (most is not None and read > most):
        yield "", "is not between %s and %s" % (least, most)


def _wrong_text(value, option):
    if isinstance(value, (list, dict, tuple)):
        yield "", "is not a text"
        return
    text = str(value)
    if "choices" in option:
        # In YAML a bare yes or no is a truth.
        if value is True or value is False:
            text = "yes" if value else "no"
        choices = [str(one) for one in option["choices"]]
        if text not in choices:
            known = ", ".join(choices) if len(choices) <= 12 else "see docs/reference/inventory"
            yield "", "is not one of its values (%s)%s" % (known, nearest(text, choices))
    elif isinstance(value, bool):
        quoted = "true" if value else "false"
        yield "", "is not a text" + ("; put it in quotes" if _fits(quoted, option, "") else "")
    elif "form" in option and not (text == "" and option.get("default") == ""):
        problem = forms.FORMS[option["form"]](text)
        if problem:
            yield "", problem


def _wrong_dictionary(value, option, name):
    if not isinstance(value, dict):
        yield "", "is not a dictionary; write %s" % _dictionary(option)
        return
    options = option.get("options")
    if "directives" in option:
        yield from _wrong_directives(value, option, name)
        return
    if options is None:
        for key, one in value.items():
            problem = forms.FORMS[option["form"]](str(key)) if "form" in option else ""
            if not problem and (isinstance(one, (list, dict, tuple, bool)) or one is None or str(one).strip() == ""):
                problem = "is neither a number nor a text"
            if not problem:
                problem = forms.text(str(one))
            if problem:
                yield "." + str(key), problem
        return
    for key in value:
        if key not in options:
            yield "." + str(key), "is not known in %s%s" % (name, nearest(str(key), options))
    for key, inner in options.items():
        if key in value:
            for place, text in wrong_value(value[key], inner, name):
                yield "." + key + place, text
        elif inner.get("required"):
            yield "", "has no %s" % key


def _wrong_directives(value, option, name):
    """Names are in any case and with any blanks, words in any case, as in a configuration."""
    known = {_key(shown): inner for shown, inner in option["directives"].items()}
    for key, one in value.items():
        inner = known.get(_key(key))
        if inner is None:
            yield (
                "." + str(key),
                "is not a directive of %s%s" % (option["holds"], nearest(str(key), option["directives"])),
            )
            continue
        given = one.lower() if "choices" in inner and isinstance(one, str) else one
        for place, text in wrong_value(given, inner, name):
            yield "." + str(key) + place, text


def _key(name):
    return "".join(str(name).split()).lower()


def know_directives(options, table):
    """Say in options that hold directives which, and what each takes; table: meta/directives.yml."""
    for option in options.values():
        if "holds" in option:
            kinds = table[option["holds"]]
            words = {name: [str(one).lower() for one in words] for name, words in kinds.get("words", {}).items()}
            option["directives"] = {
                **{name: inner for kind, inner in KINDS_OF_DIRECTIVES.items() for name in kinds.get(kind, ())},
                **{name: {"type": "str", "choices": choices} for name, choices in words.items()},
            }
        know_directives(option.get("options", {}), table)


class Inventory:
    """The hosts of an inventory with their variables, and the table.

    hosts: name -> variable -> value; groups: name -> hosts; roles: the table's part of that name; directives: those of
    meta/directives.yml.
    """

    def __init__(self, roles, directives, hosts, groups):
        self.hosts = hosts
        self.groups = groups
        self.directives = directives
        self.options = {name: option for role in roles.values() for name, option in role["options"].items()}
        know_directives(self.options, directives)
        self.exports = {name for role in roles.values() for name in role.get("exports", ())}
        self.faults = []

    def get(self, host, name):
        """A value that counts: the host's, or the default. UNKNOWN where only a run can tell, or it is faulty."""
        variables = self.hosts[host]
        if name in variables:
            value = variables[name]
            option = self.options[name]
            return UNKNOWN if any(True for _one in wrong_value(value, option, name)) else value
        default = self.options[name].get("default")
        return UNKNOWN if isinstance(default, str) and "{{" in default else default

    def add(self, host, name, text, value=None, place=""):
        """A fault of a variable."""
        shown_value = "" if value is None else ": " + shown(value)
        self.faults.append(Fault(host, name, "%s%s%s %s" % (name, place, shown_value, text)))

    def members(self, group):
        """Hosts of a group whose role is not to leave."""
        state = {"agents": "strongroom_agent_state", "appliance": "strongroom_appliance_state"}[group]
        return [host for host in self.groups.get(group, ()) if host in self.hosts and self.get(host, state) != "absent"]

    def appliance_of(self, host):
        """The inventory's name of a client's appliance, or nothing."""
        found = self.hosts[host].get("strongroom_agent_appliance")
        first = (self.groups.get("appliance") or [None])[0]
        return found if isinstance(found, str) else None if found is UNKNOWN else first

    def name_of(self, host):
        """The name of a client."""
        found = self.hosts[host].get("strongroom_agent_name", host)
        return found if isinstance(found, str) else host

    def check(self):
        """All faults, by host."""
        for host in self.hosts:
            self._each_variable(host)
        for host in self.members("appliance"):
            self._appliance(host)
        for host in self.members("agents"):
            self._client(host)
        self._names_of_clients()
        return self.faults

    def _each_variable(self, host):
        for name, value in self.hosts[host].items():
            if name in self.exports:
                continue
            if name not in self.options:
                self.add(host, name, "is not a variable of any role%s" % nearest(name, self.options))
                continue
            if isinstance(value, Exception):
                self.add(host, name, "cannot be computed: %s" % " ".join(str(value).split()))
                continue
            for place, text in wrong_value(value, self.options[name], name):
                self.add(host, name, text, _within(value, place), place)

    def _appliance(self, host):
        lists = ("strongroom_schedules", "strongroom_retention", "strongroom_filesets", "strongroom_groups")
        named = {name: self._named(host, name) for name in lists}
        for name in (*lists, "strongroom_notices"):
            self._unique(host, name, [one["name"] for one in self._named(host, name) or ()])
        self._groups(host, named)
        self._retention(host, named)
        self._notices(host)
        self._reachable(host)

    def _named(self, host, variable):
        """Entries of a list by name, each without its faulty keys; None where one has no good name."""
        entries, option = self.hosts[host].get(variable, self.options[variable]["default"]), self.options[variable]
        if not isinstance(entries, (list, tuple)) or not all(isinstance(one, dict) for one in entries):
            return None
        inner = option["options"]
        fits = [{key for key in one if key in inner and _fits(one[key], inner[key], key)} for one in entries]
        good = [
            {key: one[key] for key in keys if one[key] is not UNKNOWN} for one, keys in zip(entries, fits, strict=True)
        ]
        return good if all("name" in one for one in good) else None

    def _unique(self, host, variable, names):
        seen = set()
        for name in names:
            if name.lower() in seen:
                self.add(host, variable, "has the name %s twice" % name)
            seen.add(name.lower())

    def sources(self, roles, is_there):
        """Add faults of where packages and files come from: what these roles read on the machine that runs Ansible.

        roles: role -> options. is_there: whether a path is there, as a "file" or a "folder".
        """
        users = {"engine": ("appliance", "agents")}
        for role, options in roles.items():
            for host in dict.fromkeys(one for group in users.get(role, ("appliance",)) for one in self.members(group)):
                unused = self._packages(host) if role == "engine" else self._served(host) if role == "appliance" else ()
                for name, option in options.items():
                    value = self.get(host, name)
                    if "local" not in option or name in unused or value in (UNKNOWN, "") or "://" in value:
                        continue
                    if not is_there(value, option["local"]):
                        self.add(host, name, "is not a %s of the machine that runs Ansible" % option["local"], value)

    def _packages(self, host):
        """Check where a host's packages come from; the variables that are not used there."""
        pyz, repository, files, key = (
            "strongroom_engine_" + name for name in ("pyz", "repository", "files", "repository_key")
        )
        given = {name: self.get(host, name) for name in (pyz, repository, files, key)}
        if self.get(host, "strongroom_install_method") == "pyz":
            if given[pyz] == "":
                self.add(host, pyz, "is not set: strongroom_install_method is pyz, so name the file strongroom.pyz")
            return (files, key)
        if given[files] not in (UNKNOWN, ""):
            if given[repository] not in (UNKNOWN, ""):
                self.add(host, files, "and strongroom_engine_repository are both set; keep one", given[files])
            return (pyz, key)
        if given[key] == "" and given[files] == "":
            self.add(host, key, "is not set: name the file of the public key that must have signed the packages")
        return (pyz,)

    def _served(self, host):
        served, key = self.get(host, "strongroom_appliance_packages"), "strongroom_appliance_packages_key"
        if served is not UNKNOWN and re.match("https?://", served) and self.get(host, key) == "":
            self.add(host, key, "is not set: strongroom_appliance_packages is an address, which needs it")
        return ()

    def _groups(self, host, named):
        kinds = (
            ("schedule", "strongroom_schedules", OWN_SCHEDULES),
            ("retention", "strongroom_retention", ()),
            ("fileset", "strongroom_filesets", OWN_FILESETS),
        )
        for group in named["strongroom_groups"] or ():
            for key, variable, own in kinds:
                if named[variable] is None or key not in group:
                    continue
                known = [*own, *(one["name"] for one in named[variable])]
                if group[key] not in known:
                    text = "of the group %s is not in %s (%s)" % (group["name"], variable, ", ".join(known))
                    self.add(host, "strongroom_groups", text + nearest(group[key], known), group[key], "." + key)

    def _retention(self, host, named):
        schedules = {one["name"]: one.get("runs", ()) for one in named["strongroom_schedules"] or ()}
        for rules in named["strongroom_retention"] or ():
            kept = {"daily": 14, "weekly": 8, "monthly": 12, **rules}
            days = max(int(kept["daily"]), 7 * int(kept["weekly"]), 30 * int(kept["monthly"]))
            if not days:
                self.add(host, "strongroom_retention", "keeps nothing: daily, weekly and monthly are 0", rules["name"])
                continue
            for group in named["strongroom_groups"] or ():
                runs = schedules.get(group.get("schedule"), ["daily"])
                step = min((run_step_days(run) for run in runs), default=1)
                if group.get("retention") == rules["name"] and days < step:
                    text = "keeps %d days, and the schedule %s of the group %s backs up every %d days"
                    values = (days, group["schedule"], group["name"], step)
                    self.add(host, "strongroom_retention", text % values, rules["name"])

    def _notices(self, host):
        mail, notices = self.get(host, "strongroom_mail"), self._named(host, "strongroom_notices")
        if mail is not UNKNOWN:
            for place, value, text in notice_checks.wrong_mail(mail):
                self.add(host, "strongroom_mail", text, value, place)
        if mail is UNKNOWN or notices is None:
            return
        has_server = notice_checks.Directives(mail).has("SMTP Server")
        for number, one in enumerate(notices, 1):
            if "type" not in one:
                continue
            given = (one["type"], one.get("directives", {}), self.directives["Notify"], has_server)
            for place, value, text in notice_checks.wrong_notice(*given):
                self.add(host, "strongroom_notices", text, value, "[%d]%s" % (number, place and ".directives" + place))

    def _reachable(self, host):
        """An address of the appliance that clients on other hosts can use."""
        others = [one for one in self.members("agents") if one != host and self.appliance_of(one) == host]
        if not others or self.get(host, "strongroom_appliance_address"):
            return
        address = self.hosts[host].get("ansible_host")
        problem = forms.address(address) if isinstance(address, str) else ""
        if problem and not all(self.get(one, "strongroom_agent_director") for one in others):
            text = "%s; clients need another one: set strongroom_appliance_address" % problem
            self.add(host, "ansible_host", text, address)

    def _client(self, host):
        if "strongroom_agent_group" not in self.hosts[host]:
            self.add(host, "strongroom_agent_group", "is not set: each client needs a group of strongroom_groups")
        appliance = self.appliance_of(host)
        if appliance is not None and appliance not in self.hosts:
            self.add(host, "strongroom_agent_appliance", "is not a host of the inventory", appliance)
            appliance = None
        self._transport(host, appliance)
        self._shares(host)
        if appliance in self.members("appliance"):
            self._joined_group(host, appliance)

    def _joined_group(self, host, appliance):
        group = self.get(host, "strongroom_agent_group")
        groups = self._named(appliance, "strongroom_groups")
        if group in (UNKNOWN, None) or groups is None:
            return
        known = [one["name"] for one in groups]
        if group not in known:
            text = "is not one of strongroom_groups of %s (%s)" % (appliance, ", ".join(known))
            self.add(host, "strongroom_agent_group", text + nearest(group, known), group)

    def _transport(self, host, appliance):
        tls = truth(self.get(host, "strongroom_tls_enable"))
        ktls = self.get(host, "strongroom_ktls")
        if tls is False:
            if appliance in self.members("appliance"):
                plain = self.get(appliance, "strongroom_appliance_plain_clients")
                if plain is not UNKNOWN and self.name_of(host) not in plain:
                    text = "needs the client's name in strongroom_appliance_plain_clients of %s, which permits it"
                    self.add(host, "strongroom_tls_enable", text % appliance, False)
            if ktls == "require":
                self.add(host, "strongroom_ktls", "needs TLS, which strongroom_tls_enable turns off", ktls)
        if ktls == "require":
            self._kernel_tls(host, ktls)

    def _kernel_tls(self, host, ktls):
        suites = self.get(host, "strongroom_tls_cipher_suites")
        if suites not in (UNKNOWN, "") and not set(suites.split(":")) & forms.KERNEL_CIPHER_SUITES:
            self.add(
                host,
                "strongroom_tls_cipher_suites",
                "has no cipher of the kernel, which strongroom_ktls requires",
                suites,
            )
        if self.get(host, "strongroom_ktls_state") == "absent":
            self.add(
                host, "strongroom_ktls", "needs the module that strongroom_ktls_state: absent no longer loads", ktls
            )

    def _shares(self, host):
        high, most = (self.get(host, "strongroom_memory_" + name) for name in ("high", "max"))
        if UNKNOWN not in (high, most) and high and most:
            one, other = forms.unit_bytes(str(high)), forms.unit_bytes(str(most))
            if one is not None and other is not None and one > other:
                self.add(host, "strongroom_memory_high", "is more than strongroom_memory_max, %s" % most, high)
        shards, processes = self.get(host, "strongroom_shards"), self.get(host, "strongroom_maximum_workers")
        if UNKNOWN not in (shards, processes) and int(shards) > int(processes) > 0:
            self.add(host, "strongroom_shards", "is more than strongroom_maximum_workers, %s" % processes, shards)

    def _names_of_clients(self):
        seen = {}
        for host in self.members("agents"):
            key = (self.appliance_of(host), self.name_of(host).lower())
            if key in seen:
                text = "is the name of %s too; backups are found by it" % seen[key]
                self.add(host, "strongroom_agent_name", text, self.name_of(host))
            seen.setdefault(key, host)


def _within(value, place):
    """The part of a value that a place such as `[2].name` names; None where it is not there."""
    found = value
    for step in place.replace("[", ".[").split(".")[1:]:
        try:
            found = found[int(step[1:-1]) - 1] if step.startswith("[") else found[step]
        except (KeyError, IndexError, TypeError):
            return None
    return found if not isinstance(found, (list, dict)) else None
