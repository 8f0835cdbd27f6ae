"""What the report shows of values."""

from __future__ import annotations

import pytest
from ansible_collections.strongroom.backup.plugins.action.report_inventory import without_secrets

USERS = "strongroom_monitoring_users"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("strongroom_monitoring_grafana_user_password", "hunter2", "(secret)"),
        ("strongroom_monitoring_grafana_user_password", "", ""),
        # Where it is may be seen.
        ("strongroom_monitoring_grafana_password_file", "/root/password", "/root/password"),
        ("strongroom_hardening_ssh_passwords", False, False),
        (USERS, [{"name": "ann", "password_hash": "$2y$10$x"}], [{"name": "ann", "password_hash": "(secret)"}]),
        ("strongroom_mail", {"SMTP Password File": "/root/mail"}, {"SMTP Password File": "/root/mail"}),
        ("strongroom_nice", 10, 10),
    ],
)
def test_secrets_are_not_shown(name, value, shown):
    assert without_secrets(name, value) == shown
