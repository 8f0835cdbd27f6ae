# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The certificate authority on this host, through the engine's command (C(strongroom ca)) and its JSON."""

from __future__ import annotations

import json

DEFAULT_FOLDER = "/var/lib/strongroom/ca"


class AuthorityError(Exception):
    """The command cannot be run, or refuses. error_id: as the reference of exit codes has it."""

    def __init__(self, message, error_id="general"):
        super().__init__(message)
        self.error_id = error_id


class Authority:
    """The authority in a folder.

    run: runs a list of words and returns exit code, output and messages. command: the words that the engine's command
    begins with.
    """

    def __init__(self, run, command, folder=DEFAULT_FOLDER, password_file=None):
        self._run = run
        self._command = list(command)
        self._place = ["--ca", folder]
        if password_file:
            self._place += ["--password-file", password_file]

    def list(self):
        """Certificates that are good, and unused tokens, as `ca list` tells them."""
        return self._answer("list")

    def revoke(self, name):
        """Revoke all certificates of a name."""
        self._answer("revoke", name)

    def withdraw(self, token_id):
        """End an unused token."""
        self._answer("token", "--withdraw", token_id)

    def token(self, options, out="-"):
        """Make a token; what `ca token` tells of it, with its text if `out` is not a file."""
        return self._answer("token", *options, "--out", out)[-1]

    def _answer(self, *words):
        code, output, messages = self._run([*self._command, "--json", "ca", *words, *self._place])
        if code:
            raise refusal(self._command, code, messages)
        try:
            if output.lstrip().startswith("["):
                return json.loads(output)
            return [json.loads(line) for line in output.splitlines() if line.strip()]
        except ValueError as error:
            # Not its output: it may have a token in it.
            raise AuthorityError("%s gave no JSON; is it the engine's command?" % " ".join(self._command)) from error


def refusal(command, code, messages):
    """The error of a command that has failed, from what it wrote to standard error."""
    for line in reversed(messages.splitlines()):
        if not line.startswith("{"):
            continue
        try:
            fault = json.loads(line)
        except ValueError:
            continue
        if fault.get("type") == "error":
            return AuthorityError(fault["message"], fault["id"])
    return AuthorityError("%s ended with %d: %s" % (" ".join(command), code, messages.strip()[-500:]))


def token_options(name=None, names=None, any_name=False, group=None, uses=1, lifetime=None, new_client=False):
    """The words of `ca token` that say whom a token is for."""
    words = [name] if name else []
    for option, value in (("--names", names), ("--group", group), ("--lifetime", lifetime)):
        words += [option, value] if value else []
    words += ["--any-name"] if any_name else []
    words += ["--uses", str(uses)] if uses != 1 else []
    return words + (["--new-client"] if new_client else [])
