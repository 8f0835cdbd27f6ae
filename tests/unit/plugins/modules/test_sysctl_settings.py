from __future__ import annotations

import pytest
from ansible_collections.strongroom.backup.plugins.modules import sysctl_settings

NAME = "95-strongroom-tuning"


class Host:
    """A system below a folder: some settings of a kernel, and sysctl.d."""

    def __init__(self, folder, run_module):
        self.folder = folder
        self._run = run_module
        for name, value in {
            "net.ipv4.tcp_rmem": "4096\t131072\t6291456",
            "net.ipv4.tcp_mtu_probing": "0",
            "vm.dirty_bytes": "0",
            "vm.dirty_ratio": "20",
        }.items():
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).write_text(value + "\n")

    def path(self, name):
        return self.folder / "proc/sys" / name.replace(".", "/")

    def value(self, name):
        return " ".join(self.path(name).read_text().split())

    @property
    def file(self):
        return self.folder / "etc/sysctl.d" / (NAME + ".conf")

    def other_file(self, place, text):
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, settings=None, **arguments):
        return self._run(sysctl_settings, root=str(self.folder), name=NAME, settings=settings or {}, **arguments)


@pytest.fixture
def host(tmp_path, run_module):
    return Host(tmp_path, run_module)


def test_values_are_in_the_file_and_in_the_kernel_and_a_second_run_changes_nothing(host):
    wanted = {"net.ipv4.tcp_rmem": "4096  131072 16777216", "net.ipv4.tcp_mtu_probing": 1}
    assert host.run(wanted)["changed"]
    assert host.value("net.ipv4.tcp_rmem") == "4096 131072 16777216"
    assert host.value("net.ipv4.tcp_mtu_probing") == "1"
    assert "net.ipv4.tcp_mtu_probing = 1\n" in host.file.read_text()
    again = host.run(wanted)
    assert not again["changed"]
    assert {entry["state"] for entry in again["report"]} == {"as wanted"}


def test_check_mode_says_what_would_change_and_changes_nothing(host):
    told = host.run({"net.ipv4.tcp_mtu_probing": 1}, check=True)
    assert told["changed"]
    assert told["report"] == [
        {
            "setting": "net.ipv4.tcp_mtu_probing",
            "wanted": "1",
            "effective": "0",
            "state": "to change",
            "note": "",
        }
    ]
    assert "net.ipv4.tcp_mtu_probing = 1" in told["diff"][0]["after"]
    assert "net.ipv4.tcp_mtu_probing = 0" in told["diff"][1]["before"]
    assert host.value("net.ipv4.tcp_mtu_probing") == "0"
    assert not host.file.exists()
    assert not (host.folder / "var").exists()


def test_what_is_no_longer_wanted_gets_its_earlier_value_back(host):
    host.run({"net.ipv4.tcp_mtu_probing": 1, "net.ipv4.tcp_rmem": "4096 131072 16777216"})
    host.run({"net.ipv4.tcp_mtu_probing": 2})
    assert host.value("net.ipv4.tcp_rmem") == "4096 131072 6291456"
    assert host.run(state="absent")["changed"]
    assert host.value("net.ipv4.tcp_mtu_probing") == "0"
    assert not host.file.exists()
    assert not host.run(state="absent")["changed"]


def test_a_bound_in_bytes_is_given_back_as_the_share_that_it_replaced(host):
    host.run({"vm.dirty_bytes": 1000000})
    # The kernel clears the other of the pair.
    host.path("vm.dirty_ratio").write_text("0\n")
    host.run(state="absent")
    assert host.value("vm.dirty_ratio") == "20"


def test_a_value_that_somebody_else_changed_is_mended(host):
    host.run({"net.ipv4.tcp_mtu_probing": 1})
    host.path("net.ipv4.tcp_mtu_probing").write_text("0\n")
    assert host.run({"net.ipv4.tcp_mtu_probing": 1})["changed"]
    assert host.value("net.ipv4.tcp_mtu_probing") == "1"


@pytest.mark.parametrize(
    ("place", "wins"),
    [
        ("etc/sysctl.d/99-site.conf", True),
        ("usr/lib/sysctl.d/99-site.conf", True),
        ("etc/sysctl.d/90-hardening.conf", False),
    ],
)
def test_only_a_file_that_is_read_later_wins(host, place, wins):
    host.other_file(place, "net/ipv4/tcp_mtu_probing=0\n")
    told = host.run({"net.ipv4.tcp_mtu_probing": 1})
    assert told["report"][0]["state"] == ("overridden" if wins else "as wanted")
    assert host.value("net.ipv4.tcp_mtu_probing") == ("0" if wins else "1")
    if wins:
        assert told["report"][0]["note"].endswith(place)
    assert not host.run({"net.ipv4.tcp_mtu_probing": 1})["changed"]


def test_a_setting_that_the_kernel_lacks_is_reported_and_kept_in_the_file(host):
    told = host.run({"net.core.default_qdisc": "fq"})
    assert told["report"][0]["state"] == "unknown"
    assert "net.core.default_qdisc = fq" in host.file.read_text()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"swappiness": 10}, "swappiness"),
        ({"../../etc/passwd": 1}, "../../etc/passwd"),
        ({"vm.swappiness": "1\nkernel.panic = 1"}, "vm.swappiness"),
        ({"vm.swappiness": True}, "vm.swappiness"),
        ({"vm.swappiness": {"a": 1}}, "vm.swappiness"),
    ],
)
def test_what_is_no_setting_is_refused_by_name(host, settings, named):
    told = host.run(settings)
    assert told["failed"]
    assert named in told["msg"]
    assert not host.file.exists()
