# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What comes from a director, an agent or a command is text, and never a template that the controller evaluates.

An agent says its own version, and more, so a stolen agent key can put any text into what the API tells. Before
ansible-core 2.19 each text of a plugin that is not marked is a template.
"""

from __future__ import annotations

from ansible.utils.unsafe_proxy import wrap_var


def untrusted(value):
    """The same value, every text in it marked as no template."""
    return wrap_var(value)
