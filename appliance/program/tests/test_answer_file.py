"""Answer files: what is said comes out again, and each fault is named with its line and fix."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from appliance_kit.answers_for_tests import PASSWORD_HASH, SSH_KEY
from appliance_kit.private_machine import SCRIPTS
from strongroom_appliance.answers.model import AnswerFile
from strongroom_appliance.answers.nodes import Fault
from strongroom_appliance.answers.reading import examine
from strongroom_appliance.answers.schema import EXAMPLE, schema_text
from strongroom_appliance.answers.writing import yaml_text


def faults_of(text: str) -> list[Fault]:
    answers, faults = examine(text.encode())
    assert (answers is None) == bool(faults)
    return faults


def the_fault(text: str) -> Fault:
    (fault,) = faults_of(text)
    assert fault.what
    assert fault.remedy
    return fault


def installer(*words: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [SCRIPTS / "strongroom-appliance", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, (words, done.stderr)
    return done


octets = st.integers(1, 254)
plain_names = st.from_regex(r"[a-z][a-z0-9]{0,12}", fullmatch=True)
host_names = st.lists(
    st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True), min_size=1, max_size=3
).map(".".join)
texts = st.text(
    st.characters(
        blacklist_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn"),
        whitelist_characters=" ",
    ),
    max_size=40,
)


@st.composite
def links(draw: st.DrawFn) -> dict[str, object]:
    """Addressing of one link, right by itself."""
    if draw(st.booleans()):
        return {"dhcp": draw(st.sampled_from(["yes", "ipv4", "ipv6"]))}
    net = f"10.{draw(octets)}.{draw(octets)}"
    own, router = draw(st.lists(octets, min_size=2, max_size=2, unique=True))
    found: dict[str, object] = {"addresses": [f"{net}.{own}/24"]}
    if draw(st.booleans()):
        found["gateway"] = f"{net}.{router}"
    if draw(st.booleans()):
        found["mtu"] = draw(st.integers(1280, 9216))
    return found


@st.composite
def networks(draw: st.DrawFn) -> dict[str, object]:
    names = draw(st.lists(plain_names, min_size=4, max_size=6, unique=True))
    first, second, bond, vlan, *more = names
    found: dict[str, object] = {"interfaces": [{"name": one, **draw(links())} for one in more]}
    if draw(st.booleans()):
        found["bonds"] = [{"name": bond, "members": [first, second], **draw(links())}]
        found["vlans"] = [
            {"name": vlan, "parent": bond, "id": draw(st.integers(1, 4094)), **draw(links())}
        ]
    elif not more:
        found["interfaces"] = [{"name": first, **draw(links())}]
    found["dns"] = draw(st.lists(st.sampled_from(["192.0.2.1", "2001:db8::1"]), unique=True))
    return found


@st.composite
def answer_files(draw: st.DrawFn) -> dict[str, object]:
    parts: dict[str, object] = {
        "hostname": draw(host_names),
        "network": draw(networks()),
        "time": {"zone": draw(st.sampled_from(["Etc/UTC", "Asia/Tokyo"])),
                 "ntp": [draw(host_names)]},
        "data_disk": {"device": "/dev/disk/by-id/wwn-0x5", "encryption": "passphrase",
                      "passphrase": "x" * 12 + draw(texts)},
        "admin": {"name": "ann", "ssh_keys": [SSH_KEY], "password_hash": PASSWORD_HASH},
        "repository_key": {"mode": "import", "passphrase": "y" + draw(texts)},
        "appliance": {"address": draw(host_names), "groups": ["no", "1"],
                      "keep_daily": draw(st.integers(0, 9999)), "backup_time": "21:00"},
        "agents": {"tokens": [{"group": "no", "names": "web*",
                               "uses": draw(st.integers(1, 10_000))}]},
        "updates": {"security": draw(st.booleans()), "reboot": "03:30"},
        "installation": draw(st.sampled_from([
            {"disk": "first", "min_size": "20 GB", "max_size": "1 TB", "erase": "first"},
            {"disk": "/dev/disk/by-id/ata-X", "erase": "ata-X", "finish": "reboot"},
        ])),
    }  # fmt: skip
    left_out = draw(st.sets(st.sampled_from(sorted(parts.keys() - {"appliance"}))))
    return {"version": 1, **{name: one for name, one in parts.items() if name not in left_out}}


@given(answer_files())
def test_what_an_answer_file_says_comes_out_again(said):
    answers, faults = examine(yaml.safe_dump(said, allow_unicode=True).encode())
    assert faults == []
    assert isinstance(answers, AnswerFile)
    for name, part in said.items():
        found = getattr(answers, name)
        if isinstance(part, dict) and not isinstance(found, dict):
            assert {key: _plain(getattr(found, key)) for key in part} == _filled(found, part)
        else:
            assert found == part
    assert examine(yaml_text(answers).encode()) == (answers, [])


def _plain(value):
    from msgspec import to_builtins

    return to_builtins(value)


def _filled(found, part):
    """A part, with defaults in its lists of parts."""
    from msgspec import convert, to_builtins

    return {name: getattr(convert(to_builtins(part), type(found)), name) for name in part} | {
        name: to_builtins(getattr(convert(part, type(found)), name)) for name in part
    }


@given(answer_files())
def test_the_schema_takes_what_the_reader_takes(said):
    jsonschema_rs.validator_for(json.loads(schema_text())).validate(said)


@given(st.binary(max_size=300))
def test_whatever_a_file_holds_its_faults_are_told(data):
    answers, faults = examine(data)
    assert (answers is None) == bool(faults)
    assert all(fault.text("f").isprintable() for fault in faults)


@given(answer_files(), st.data())
def test_a_name_that_is_not_known_is_found_at_its_line_wherever_it_stands(said, data):
    lines = yaml.safe_dump(said, allow_unicode=True, width=10_000).splitlines()
    places = [
        number
        for number, line in enumerate(lines)
        if re.match(r"( *)[a-z_]+:( |$)", line)
    ]  # fmt: skip
    at = data.draw(st.sampled_from(places))
    indent = re.match(r" *", lines[at]).group()
    lines.insert(at, f"{indent}unheard_of: 1")
    fault = the_fault("\n".join(lines))
    assert fault.line == at + 1
    assert "there is no `unheard_of`" in fault.what


@given(texts.filter(lambda text: text not in ("", "no", "yes") and len(text) < 12))
def test_a_secret_is_never_part_of_a_message(secret):
    text = yaml.safe_dump(
        {"version": 1, "data_disk": {"device": "/dev/vdb", "encryption": "passphrase",
                                     "passphrase": f"\x07{secret}QQQQ"},
         "admin": {"password_hash": f"{secret}QQQQ"}}, allow_unicode=True)  # fmt: skip
    for fault in faults_of(text):
        assert "QQQQ" not in fault.text("f")


@pytest.mark.parametrize(
    ("line", "what", "remedy"),
    [
        ("hostname: Vault_1", "this cannot be: Vault_1", "DNS name such as"),
        ("keyboard: deu:sche", "this cannot be: deu:sche", "layout such as us"),
        ("hostname: [vault]", "a single value is expected", "one value"),
        ("hostname:", "there is no value", "remove the line"),
        ("time: Europe/Berlin", "needs its own parts", "zone"),
        ("time: {zone: Mars/Olympus}", "this cannot be: Mars/Olympus", "Europe/Berlin"),
        ("network: {}", "there is no interface", "remove the part"),
        ("network: {interfaces: [{dhcp: yes}]}", "which card?", "`name` or `mac`"),
        ("network: {interfaces: [{name: eth0, addresses: [192.0.2.0/24]}]}", "own address", "host"),
        ("network: {interfaces: [{name: eth0, addresses: [192.0.2.1]}]}", "cannot be", "prefix"),
        ("network: {interfaces: [{name: eth0, gateway: 192.0.2.1}]}", "in no network", "prefix"),
        ("network: {interfaces: [{name: a, dhcp: yes}], bonds: [{name: b, members: [a]}]}",
         "a card of a bond", "to the bond"),
        ("network: {vlans: [{name: v, parent: eth9, id: 3}]}", "there is no eth9", "interfaces"),
        ("network: {interfaces: [{name: a}], vlans: [{name: v, parent: a, id: 4095}]}",
         "cannot be: 4095", "1 to 4094"),
        ("data_disk: {device: /dev/vdb, erase: vdc}", "does not name the disk", "vdb"),
        ("data_disk: {device: /dev/vdb, encryption: passphrase}", "needs a passphrase", "add"),
        ("data_disk: {device: /dev/vdb, encryption: tpm2}", "needs a passphrase", "add"),
        ("data_disk: {device: /dev/vdb, passphrase: correct horse}", "not to be encrypted", "tpm2"),
        ("data_disk: {device: /dev/../etc/passwd}", "cannot be", "/dev/disk/by-id"),
        ("admin: {name: root}", "cannot be: root", "none of the system's own"),
        ("admin: {ssh_keys: [ssh-ed25519 AAAA]}", "cannot be", "id_ed25519.pub"),
        ("admin: {password_hash: secret}", "this cannot be", "mkpasswd"),
        ("repository_key: {mode: import}\nappliance: {address: a}", "needs the passphrase", "add"),
        ("agents: {tokens: [{group: web}]}\nappliance: {address: a}", "no group web", "servers"),
        ("appliance: {keep_daily: many, address: a}", "this cannot be: many", "number"),
        ("appliance: {}", "`address` is missing", "hostname"),
        ("updates: {security: perhaps}", "neither yes nor no: perhaps", "write yes or no"),
        ("updates: {reboot: 3}", "this cannot be: 3", "03:30"),
        ("installation: {}", "`disk` is missing", "disk"),
        ("installation: {disk: second}", "this cannot be: second", "`first`, or a path in /dev"),
        ("installation: {disk: first, min_size: big}", "this cannot be: big", "100 GB"),
        ("installation: {disk: first, min_size: 2 GB, max_size: 1 GB}", "no disk has a size",
         "2 GB at least"),
        ("installation: {disk: /dev/vda, max_size: 1 TB}", "names one disk", "`disk: first`"),
        ("installation: {disk: first, erase: vda}", "does not name the disk", "write first"),
        ("installation: {disk: /dev/vda, erase: yes}", "does not name the disk", "write vda"),
        ("installation: {disk: first, finish: later}", "no such choice: later", "poweroff"),
        ("installation: {disk: /dev/vda}\ndata_disk: {device: /dev/vda}", "disk of the system",
         "their own disk"),
        ("hostname: &a vault", "anchors", "quotes"),
        ("hostname: !!python/name:os.system vault", "the tag", "quotes"),
        ("hostname: a\nhostname: b", "appears twice", "line 2"),
        ("hostname: a\n---\nversion: 1", "a second document", "keep one"),
        ("hostname: 'a", "not YAML", "quotes"),
    ],
)  # fmt: skip
def test_a_fault_says_what_is_wrong_and_what_to_do(line, what, remedy):
    fault = the_fault(f"version: 1\n{line}\n")
    assert what in fault.what
    assert remedy in fault.remedy
    assert fault.line >= 2


def test_all_faults_of_a_file_are_told_at_once_in_order(tmp_path):
    file = tmp_path / "answers.yml"
    file.write_text("version: 2\nhostnam: vault\ntime: {zone: Berlin}\nupdates: {reboot: soon}\n")
    done = installer("validate", str(file), exit_code=40)
    lines = done.stderr.splitlines()
    assert [re.search(r"answers\.yml:(\d):", line)[1] for line in lines] == ["1", "2", "3", "4"]
    assert all(line.startswith("strongroom-appliance: error [configuration]: ") for line in lines)
    told = installer("validate", "--json", str(file), exit_code=40).stdout.splitlines()
    assert [json.loads(line)["line"] for line in told] == [1, 2, 3, 4]


def test_a_right_file_is_told_to_be_right(tmp_path):
    file = tmp_path / "answers.yml"
    file.write_text(EXAMPLE)
    assert installer("validate", str(file)).stdout == f"{file} is valid\n"
    assert installer("example").stdout == EXAMPLE
    assert json.loads(installer("schema").stdout)["$ref"]


def test_a_file_that_is_not_there_is_an_error_of_the_command_line(tmp_path):
    done = installer("validate", str(tmp_path / "none"), exit_code=2)
    assert "cannot read" in done.stderr


def test_the_files_of_the_network_can_be_looked_at(tmp_path):
    file = tmp_path / "answers.yml"
    file.write_text(EXAMPLE)
    installer("render", str(file), "--into", str(tmp_path / "network"))
    files = {path.name: path.read_text() for path in (tmp_path / "network").iterdir()}
    assert set(files) == {
        f"50-strongroom-{name}"
        for name in ("eth0.network", "eth1.network", "bond0.netdev", "bond0.network",
                     "backup.netdev", "backup.network")
    }  # fmt: skip
    assert "[Network]\nBond=bond0\n" in files["50-strongroom-eth0.network"]
    assert "Mode=802.3ad\n" in files["50-strongroom-bond0.netdev"]
    assert "VLAN=backup\n" in files["50-strongroom-bond0.network"]
    assert "[Address]\nAddress=192.0.2.10/24\n" in files["50-strongroom-backup.network"]
    assert "[Route]\nGateway=192.0.2.1\n" in files["50-strongroom-backup.network"]


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
@pytest.mark.parametrize("action", ["disks", "apply", "state", "unlock", "paper"])
def test_what_needs_root_says_so(action, tmp_path):
    words = [str(tmp_path / "f")] if action == "apply" else []
    assert "only root can" in installer(action, *words, exit_code=2).stderr


def test_the_reference_is_what_the_model_says():
    from kit.project import DOCUMENTS

    words = [sys.executable, "-m", "strongroom_appliance.answers", "--check"]
    pages = Path(DOCUMENTS) / "reference"
    done = subprocess.run([*words, pages], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
