"""Modules as Ansible runs them: arguments in, an object on standard output."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from ansible.module_utils import basic


@pytest.fixture
def run_module(capsys):
    """Run a module's main with arguments; what it returns. `failed` is in it where it failed."""

    def run(module, check=False, diff=False, **arguments):
        given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": diff}
        text = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
        # The oldest ansible-core that we support has neither a profile nor ansible.module_utils.testing.
        profile = mock.patch.object(basic, "_ANSIBLE_PROFILE", "legacy", create=True)
        with mock.patch.object(basic, "_ANSIBLE_ARGS", text), profile, pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run
