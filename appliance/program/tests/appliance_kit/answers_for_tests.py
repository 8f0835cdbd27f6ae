"""Answers for a private machine, whose daemons' users are anyone who runs the tests."""

from __future__ import annotations

SSH_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJXZ2hB6Q1n0ZrZt0Wc5H0c1vD0s2m8b7L0n3q9J4k5X "
    "ann@example.org"
)
# Of the password `correct horse`.
PASSWORD = "correct horse"
PASSWORD_HASH = (
    "$6$strongroom$MyIpuOfBl4afvWdsKRWyp6HspGloEhG3A1oJc0T6pKU1jWYSaXwBB7if9UddWUWWtPTFgRLoJ3"
    "fui0bz2Jxoo."
)
OF_NOBODY = 'director_user: "", storage_user: "", group: ""'


def whole_answers(disk: str, more_of_disk: str = "", key: str = "{mode: generate}") -> str:
    """An answer file with every part."""
    return f"""\
version: 1
hostname: vault.example.org
time: {{zone: Europe/Berlin, ntp: [ntp.example.org]}}
network:
  interfaces: [{{name: eth0, addresses: [192.0.2.10/24], gateway: 192.0.2.1}}]
  dns: [192.0.2.1]
data_disk: {{device: {disk}{more_of_disk}}}
admin:
  ssh_keys: [{SSH_KEY}]
  password_hash: "{PASSWORD_HASH}"
repository_key: {key}
appliance: {{{OF_NOBODY}}}
agents: {{tokens: [{{group: servers}}, {{group: servers, names: "web*"}}]}}
updates: {{reboot: "03:30"}}
"""
