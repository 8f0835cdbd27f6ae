"""Answers as YAML: what the menu keeps, and what the installer puts on a disk."""

from __future__ import annotations

import msgspec
import yaml

from strongroom_appliance.answers.model import AnswerFile


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # the library has no types
    """Texts in quotes, so that none of them means anything else."""

    def ignore_aliases(self, data: object) -> bool:
        """Write equal values out: the reader knows no aliases."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _text)


def yaml_text(answers: AnswerFile) -> str:
    """An answer file that says the same. What was not given is not written."""
    given = _given(msgspec.to_builtins(answers))
    return str(
        yaml.dump(given, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    )


def _given(value: object) -> object:
    if isinstance(value, dict):
        return {name: _given(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_given(one) for one in value]
    return value
