"""What the variables of the roles `agent` and `appliance` become: each changes its file, and nothing else."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.strongroom.backup.plugins.module_utils.in_force import in_force

PROJECT = Path(__file__).resolve().parents[2]


class Role:
    """A role whose templates are filled in here, with its defaults and other values."""

    def __init__(self, name, **variables):
        self.folder = PROJECT / "roles" / name
        self.options = yaml.safe_load((self.folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
            "options"
        ]
        self.variables = {
            "inventory_hostname": "web1",
            "ansible_host": "192.0.2.41",
            "groups": {"appliance": ["vault"]},
            "hostvars": {"vault": {"ansible_host": "192.0.2.10"}},
            **yaml.safe_load((self.folder / "defaults/main.yml").read_text()),
            **yaml.safe_load((self.folder / "vars/main.yml").read_text()),
            **variables,
        }

    def file(self, template, **variables):
        """The text of a template."""
        values = {name: trusted(value) for name, value in {**self.variables, **variables}.items()}
        templar = Templar(loader=DataLoader(), variables=values)
        return templar.template(trust_as_template((self.folder / "templates" / template).read_text()))


def trusted(value):
    return trust_as_template(value) if isinstance(value, str) else value


def changed_lines(before, after):
    """Lines that are only in one of two texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line[0] + line[1:].strip() for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


AGENT = Role("agent", strongroom_agent_group="servers")
AGENT_FILES = ("myself.conf.j2", "client.conf.j2", "50-inventory.conf.j2")
# Variable, another value, the file, and the lines that differ.
AGENT_CHANGES = [
    ("strongroom_compression", "zstd3", 1, ["-Compression = auto", "+Compression = zstd3"]),
    ("strongroom_signature", "sha256", 1, ["-Signature = none", "+Signature = sha256"]),
    ("strongroom_workers", 4, 1, ["-Maximum Workers Per Job = 0", "+Maximum Workers Per Job = 4"]),
    ("strongroom_scan_threads", 16, 1, ["-Scan Threads = 0", "+Scan Threads = 16"]),
    ("strongroom_shards", 2, 1, ["-Shards = 0", "+Shards = 2"]),
    ("strongroom_upload_queue_size", 32, 1, ["-Upload Queue Size = 128", "+Upload Queue Size = 32"]),
    ("strongroom_lru_size", 262144, 1, ["-Lru Size = 32768", "+Lru Size = 262144"]),
    ("strongroom_nice", 19, 1, ["-Nice = 10", "+Nice = 19"]),
    ("strongroom_acls", False, 1, ["-ACL Support = yes", "+ACL Support = no"]),
    ("strongroom_xattrs", False, 1, ["-XAttr Support = yes", "+XAttr Support = no"]),
    ("strongroom_maximum_workers", 3, 0, ["-Maximum Workers = 0", "+Maximum Workers = 3"]),
    ("strongroom_tls_enable", False, 1, ["-TLS Enable = yes", "+TLS Enable = no"]),
    ("strongroom_ktls", "require", 1, ["-Enable kTLS = auto", "+Enable kTLS = require"]),
    # As YAML reads a bare word.
    ("strongroom_ktls", True, 1, ["-Enable kTLS = auto", "+Enable kTLS = yes"]),
    ("strongroom_ktls", False, 1, ["-Enable kTLS = auto", "+Enable kTLS = no"]),
    (
        "strongroom_tls_cipher_suites",
        "TLS_AES_128_GCM_SHA256",
        1,
        ['+TLS Cipher Suites = "TLS_AES_128_GCM_SHA256"'],
    ),
    ("strongroom_maximum_bandwidth_per_job", "20 mb/s", 1, ["+Maximum Bandwidth Per Job = 20 mb/s"]),
    ("strongroom_maximum_bandwidth", "10 mb/s", 1, ["+Maximum Bandwidth = 10 mb/s"]),
    ("strongroom_metrics_file", "/srv/metrics/agent.prom", 0, ['+Metrics File = "/srv/metrics/agent.prom"']),
    ("strongroom_files", ["/", "/srv"], 1, ['+File = "/srv"']),
    ("strongroom_exclude", ["/proc"], 1, None),
    ("strongroom_one_filesystem", False, 1, ["-OneFS = yes", "+OneFS = no"]),
    ("strongroom_agent_group", "databases", 1, ['-Job Defs = "servers"', '+Job Defs = "databases"']),
    ("strongroom_cpu_weight", 5, 2, ["-CPUWeight=20", "+CPUWeight=5"]),
    ("strongroom_io_weight", 7, 2, ["-IOWeight=20", "+IOWeight=7"]),
    ("strongroom_memory_high", "1G", 2, ["+MemoryHigh=1G"]),
    ("strongroom_memory_max", "20%", 2, ["+MemoryMax=20%"]),
]
# They decide what is done, not what a file says.
NOT_RENDERED = {
    "strongroom_rollout_order",
    "strongroom_agent_state",
    "strongroom_agent_appliance",
    "strongroom_agent_director",
}


@pytest.mark.parametrize(
    ("variable", "value", "file", "lines"), AGENT_CHANGES, ids=[f"{one[0]}={one[1]}" for one in AGENT_CHANGES]
)
def test_a_variable_of_the_agent_changes_its_file_and_nothing_else(variable, value, file, lines):
    for number, template in enumerate(AGENT_FILES):
        changed = changed_lines(AGENT.file(template), AGENT.file(template, **{variable: value}))
        if number != file:
            assert not changed, template
        elif lines is None:
            assert changed
        else:
            assert changed == lines


def test_every_variable_of_the_agent_is_tried():
    assert {one[0] for one in AGENT_CHANGES} | NOT_RENDERED | {"strongroom_agent_name"} == set(AGENT.options)


# Writes host_vars/HOST/strongroom_tuning.yml for each value that `strongroom tune` can find: of each knob the nth one,
# or its last, into host_vars/valueN.
TUNED = """
import sys
from pathlib import Path
from strongroom.cli.measure.tuning.axes import axes, changeable_names, searched_names
from strongroom.cli.tune_report import inventory_text, write_inventory
from strongroom.cli.measure.tuning.search import DEFAULTS
found = axes(searched_names(over_link=True), changeable_names(over_link=True), cores=8,
             available_bytes=16 << 30, is_far=True, over_link=True)
values = {one: (*one.downward, *one.upward, *one.others) for one in found}
for number in range(max(map(len, values.values()))):
    best = DEFAULTS
    for one, tried in values.items():
        best = best.with_value(one.name, tried[min(number, len(tried) - 1)], one.default)
    write_inventory(Path(sys.argv[1]), f"value{number}", inventory_text(best, ["why: 'so', {{ no }}"]))
"""
# The directive of each variable that tune writes, and the file of the role that has it.
TUNED_DIRECTIVES = {
    "strongroom_compression": (1, "Compression"),
    "strongroom_signature": (1, "Signature"),
    "strongroom_workers": (1, "Maximum Workers Per Job"),
    "strongroom_scan_threads": (1, "Scan Threads"),
    "strongroom_shards": (1, "Shards"),
    "strongroom_upload_queue_size": (1, "Upload Queue Size"),
    "strongroom_lru_size": (1, "Lru Size"),
    "strongroom_acls": (1, "ACL Support"),
    "strongroom_xattrs": (1, "XAttr Support"),
    "strongroom_tls_enable": (1, "TLS Enable"),
    "strongroom_ktls": (1, "Enable kTLS"),
}


@pytest.fixture(scope="module")
def tuned_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    python = Path(shutil.which("strongroom")).parent / "python"
    subprocess.run([python, "-c", TUNED, folder], check=True)
    return sorted(folder.glob("host_vars/*/strongroom_tuning.yml"))


def test_each_value_that_tune_writes_is_in_the_configuration_of_the_client(tuned_files):
    codecs = set()
    for path in tuned_files:
        variables = DataLoader().load_from_file(str(path))
        assert set(variables) == set(TUNED_DIRECTIVES)
        codecs.add(variables["strongroom_compression"])
        role = Role("agent", strongroom_agent_group="servers", **variables)
        files = [role.file(template) for template in AGENT_FILES]
        for variable, (number, directive) in TUNED_DIRECTIVES.items():
            value = variables[variable]
            shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            lines = [line.strip() for line in files[number].splitlines()]
            assert lines.count(f"{directive} = {shown}") == 1, (variable, value)
    assert codecs == {"none", "lz4", "zstd1", "zstd3", "zstd6", "zstd9"}


def test_a_file_in_which_tune_found_nothing_faster_changes_nothing(tmp_path):
    path = tmp_path / "strongroom_tuning.yml"
    path.write_text("# Written by `strongroom tune`.\n---\n{}\n")
    role = Role("agent", strongroom_agent_group="servers", **DataLoader().load_from_file(str(path)))
    assert [role.file(one) for one in AGENT_FILES] == [AGENT.file(one) for one in AGENT_FILES]


def test_the_name_is_in_both_files_of_the_client():
    for template in AGENT_FILES[:2]:
        assert '"db1"' in AGENT.file(template, strongroom_agent_name="db1")


APPLIANCE = Role("appliance")
APPLIANCE_FILES = {
    "appliance.toml.j2": None,
    "50-inventory.conf.j2": None,
    "schedules.conf.j2": "schedule",
    "retention.conf.j2": "pool",
    "filesets.conf.j2": "fileset",
    "groups.conf.j2": "jobdefs",
    "notices.conf.j2": "messages",
}
DATABASES = {"name": "databases", "schedule": "Hourly", "retention": "Long", "directives": {"Priority": 5}}
MAIL = {"name": "mail", "type": "Mail", "directives": {"To": "ann@example.org", "Digest At": "7:30"}}
APPLIANCE_CHANGES = [
    ("strongroom_appliance_address", "vault.lan", {"appliance.toml.j2"}, 'address = "vault.lan"'),
    ("strongroom_appliance_further_addresses", ["vault"], {"appliance.toml.j2"}, 'further_addresses = ["vault"]'),
    ("strongroom_appliance_organisation", "Müller", {"appliance.toml.j2"}, 'organisation = "Müller"'),
    (
        "strongroom_appliance_repository",
        "/srv/backup",
        {"appliance.toml.j2", "50-inventory.conf.j2"},
        "/srv/backup",
    ),
    (
        "strongroom_appliance_minimum_retention",
        "30 days",
        {"appliance.toml.j2", "retention.conf.j2"},
        "30 days",
    ),
    ("strongroom_appliance_plain_clients", ["web1"], {"appliance.toml.j2"}, 'plain_clients = ["web1"]'),
    ("strongroom_appliance_backup_time", "23:30", {"appliance.toml.j2"}, 'backup_time = "23:30"'),
    (
        "strongroom_schedules",
        [{"name": "Hourly", "runs": ["Incremental hourly"]}],
        {"schedules.conf.j2"},
        "Run = Incremental hourly",
    ),
    ("strongroom_retention", [{"name": "Long", "monthly": 84}], {"retention.conf.j2"}, "Keep Monthly = 84"),
    (
        "strongroom_filesets",
        [{"name": "Etc", "files": ["/etc"], "exclude": ["/etc/x"], "options": {"OneFS": True}}],
        {"filesets.conf.j2"},
        "OneFS = yes",
    ),
    ("strongroom_groups", [DATABASES], {"groups.conf.j2"}, "Priority = 5"),
    ("strongroom_notices", [MAIL], {"notices.conf.j2"}, "Digest At = 7:30"),
    ("strongroom_mail", {"SMTP Server": "mail.example.org"}, {"notices.conf.j2"}, "SMTP Server = mail.example.org"),
]


@pytest.mark.parametrize(
    ("variable", "value", "files", "text"), APPLIANCE_CHANGES, ids=[one[0] for one in APPLIANCE_CHANGES]
)
def test_a_variable_of_the_appliance_changes_its_file_and_nothing_else(variable, value, files, text):
    for template in APPLIANCE_FILES:
        before, after = APPLIANCE.file(template), APPLIANCE.file(template, **{variable: value})
        assert (before != after) == (template in files), template
        assert (text in after) == (template in files)


def test_with_a_repository_in_a_bucket_the_storage_daemon_writes_to_no_folder_more():
    place = "s3://backups/fleet?endpoint=https://s3.example.com"
    assert f'repository = "{place}"' in APPLIANCE.file("appliance.toml.j2", strongroom_appliance_repository=place)
    sandbox = APPLIANCE.file("50-inventory.conf.j2", strongroom_appliance_repository=place)
    assert "=" not in "".join(line for line in sandbox.splitlines() if not line.startswith("#"))


def test_every_variable_of_the_appliance_is_tried():
    # Of packages that it serves no file is rendered (the scenario `upgrade` tries them), nor of keys, which are copied.
    others = {"state", "packages", "packages_key", "store_keys"}
    tried = {one[0] for one in APPLIANCE_CHANGES} | {f"strongroom_appliance_{name}" for name in others}
    assert tried == set(APPLIANCE.options)


def check(folder):
    """What `strongroom config check` says of a tree."""
    done = subprocess.run(
        ["strongroom", "config", "check", "--werror", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def inventory_of(host):
    """The variables of a host of the example."""
    done = subprocess.run(
        ["ansible-inventory", "--host", host], cwd=PROJECT / "ansible", capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    """The tree of the example's appliance, as setup and the role make it."""
    folder = tmp_path_factory.mktemp("vault")
    variables = inventory_of("vault")
    role = Role("appliance", **variables)
    text = role.file("appliance.toml.j2")
    text += f'configuration = "{folder}/etc"\nstate = "{folder}/state"\noperator_home = "{folder}"\n'
    text = text.replace("/srv/strongroom", str(folder))
    text += f'storage_socket = "{folder}/s.sock"\ndirector_user = ""\nstorage_user = ""\ngroup = ""\n'
    answers = folder / "appliance.toml"
    answers.write_text(text)
    subprocess.run(
        ["strongroom", "setup", "appliance", "--no-start", "--answers", str(answers)], check=True, capture_output=True
    )
    for template, kind in APPLIANCE_FILES.items():
        if kind:
            name = "standard" if kind == "messages" else "inventory"
            path = folder / "etc/director.d" / kind / f"{name}.conf"
            path.parent.mkdir(exist_ok=True)
            path.write_text(role.file(template))
    return folder / "etc"


@pytest.mark.parametrize("host", ["db1", "files-lisbon", "web2"])
def test_the_example_inventory_makes_a_configuration_that_is_right(vault, tmp_path, host):
    role = Role("agent", **{**inventory_of(host), "inventory_hostname": host})
    client = vault / "director.d/client" / f"{host}.conf"
    client.parent.mkdir(exist_ok=True)
    client.write_text(role.file("client.conf.j2"))
    check(vault)
    for folder, text in (
        ("client", role.file("myself.conf.j2")),
        ("director", "Director { Name = vault-dir; Password = unused; Address = vault }\n"),
    ):
        (tmp_path / "agent.d" / folder).mkdir(parents=True)
        (tmp_path / "agent.d" / folder / "one.conf").write_text(text)
    check(tmp_path)


IPV6 = {"ansible_host": "2001:db8::41", "hostvars": {"vault": {"ansible_host": "2001:db8::10"}}}


@pytest.mark.parametrize(
    ("role", "expression", "expected"),
    [
        ("agent", "{{ __agent_director }}", "https://[2001:db8::10]:9101"),
        ("engine", "{{ __engine_repository }}", "http://[2001:db8::10]:9105/apt"),
        ("monitoring", "{{ __monitoring_node }}", "[2001:db8::41]:9100"),
        ("monitoring", "{{ strongroom_monitoring_director }}", "[2001:db8::41]:9101"),
    ],
)
def test_an_ipv6_address_with_a_port_has_brackets(role, expression, expected):
    one = Role(role, strongroom_agent_group="servers", strongroom_engine_appliance="vault", **IPV6)
    templar = Templar(loader=DataLoader(), variables={name: trusted(value) for name, value in one.variables.items()})
    assert templar.template(trust_as_template(expression)) == expected


def monitoring_in_force(root, parts, made=("prometheus", "node"), **variables):
    """What report.yml finds of the role's files of a host, below this folder; `made`: what the role has set up."""
    role = Role("monitoring", strongroom_monitoring_parts=parts, **variables)
    for template, path in (
        ("prometheus.j2", "etc/default/prometheus"),
        ("node-exporter.j2", "etc/default/prometheus-node-exporter"),
        ("grafana.conf.j2", "etc/systemd/system/grafana-server.service.d/50-strongroom.conf"),
        ("grafana.sources.j2", "etc/apt/sources.list.d/strongroom-grafana.sources"),
        ("grafana-datasource.yml.j2", "etc/grafana/provisioning/datasources/strongroom.yml"),
    ):
        if "grafana" in template and "grafana" not in parts:
            continue
        if "sources" in template and not variables.get("strongroom_monitoring_grafana_repository"):
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(role.file(template))
    (root / "etc/prometheus").mkdir()
    (root / "etc/prometheus/prometheus.yml").write_text(
        "global:\n  scrape_interval: %s\n" % role.variables["strongroom_monitoring_interval"]
    )
    asked = yaml.safe_load((role.folder / "tasks/report.yml").read_text())[0]["ansible.builtin.shell"]["cmd"]
    done = subprocess.run(
        ["sh", "-c", asked.replace(" /etc/", f" {root}/etc/")],
        env={"PATH": "/usr/bin:/bin", "UNITS": "", "PLACES": "", **{one.upper(): str(root) for one in made}},
        capture_output=True,
        text=True,
        check=True,
    )
    found = {"units": ["prometheus"], "wanted": ["prometheus"], "lines": done.stdout.splitlines(), "exported": {}}
    return in_force("monitoring", {"strongroom_monitoring_in_force": found}, role.options)


def test_the_report_tells_what_prometheus_and_grafana_work_with(tmp_path):
    wanted = {
        "strongroom_monitoring_listen": "127.0.0.1:9091",
        "strongroom_monitoring_retention": "90d",
        "strongroom_monitoring_retention_size": "20GB",
        "strongroom_monitoring_interval": "1m",
        "strongroom_monitoring_node_address": "192.0.2.41:9101",
        "strongroom_monitoring_grafana_source": "repository",
        "strongroom_monitoring_grafana_repository": "https://apt.example.org",
        "strongroom_monitoring_grafana_listen": "[2001:db8::41]:3001",
        "strongroom_monitoring_grafana_password_file": "/root/grafana.password",
        "strongroom_monitoring_grafana_user": "grafana",
    }
    told = monitoring_in_force(tmp_path, ["node", "prometheus", "grafana"], **wanted)
    assert {name: told[name] for name in wanted} == wanted
    assert "strongroom_monitoring_grafana_user_password" not in told


def test_the_report_tells_defaults_of_grafana_as_they_are_wanted(tmp_path):
    told = monitoring_in_force(tmp_path, ["node", "prometheus", "grafana"])
    defaults = Role("monitoring").options
    for name in ("grafana_source", "grafana_listen", "grafana_repository", "grafana_password_file", "grafana_user"):
        name = "strongroom_monitoring_" + name
        assert told[name] == defaults[name]["default"], name


def test_the_report_tells_nothing_of_a_prometheus_that_somebody_else_keeps(tmp_path):
    told = monitoring_in_force(tmp_path, ["node", "prometheus"], made=[])
    assert set(told) == {"strongroom_monitoring_state", "strongroom_monitoring_parts"}


def test_the_report_tells_nothing_of_a_grafana_that_is_not_there(tmp_path):
    assert not [name for name in monitoring_in_force(tmp_path, ["node", "prometheus"]) if "grafana" in name]


@pytest.mark.parametrize(
    ("is_there", "told"), [(True, "/srv/export"), (False, "differs: nothing was written to /srv/export")]
)
def test_the_report_tells_whether_files_for_a_prometheus_elsewhere_were_written(is_there, told):
    exported = {"folder": "/srv/export", "there": is_there}
    found = {"units": [], "wanted": [], "lines": [], "exported": exported}
    options = Role("monitoring").options
    assert (
        in_force("monitoring", {"strongroom_monitoring_in_force": found}, options)["strongroom_monitoring_export"]
        == told
    )


@pytest.mark.parametrize(
    ("asked", "own", "source", "told"), [(3, 10, "default", 3), (3, 12, "myself.conf:4", 12), (15, 12, "unit", 15)]
)
def test_the_report_tells_the_niceness_that_jobs_have(asked, own, source, told):
    found = {
        "name": "web1",
        "agent": {"name": "web1", "knobs": {"nice": {"value": own, "source": source}}},
        "unit": [],
        "director": {"Client": {"web1": {"Nice": asked}}},
    }
    assert in_force("agent", {"strongroom_agent_in_force": found}, AGENT.options)["strongroom_nice"] == told
