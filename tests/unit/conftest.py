"""Modules as Ansible runs them: arguments in, an object on standard output."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args


@pytest.fixture
def run_module(capsys):
    """Run a module's main with arguments; what it returns. `failed` is in it where it failed."""

    def run(module, check=False, **arguments):
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run
