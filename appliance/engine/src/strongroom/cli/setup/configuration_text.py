"""The configuration of an appliance, in the Bareos language, from its answers."""

from __future__ import annotations

import os

from strongroom.cli.setup.answer_file import Answers
from strongroom.config.trees.printer import quoted

_HEAD = """\
# Written by `strongroom setup appliance`. What you change here stays: a later setup then writes
# what it would have written beside it, as {name}.new.
"""
_MESSAGES = "Messages { Name = Standard; Console = all }\n"
# The client of jobs that the director does itself.
APPLIANCE_CLIENT = "appliance"


def configuration_files(answers: Answers) -> dict[str, str]:
    """Path -> text, of every file of the configuration."""
    top = answers.configuration
    texts = {
        f"storage.d/storage/{answers.storage_name}.conf": _storage(answers),
        f"director.d/director/{answers.director_name}.conf": _director(answers),
        "director.d/messages/standard.conf": _MESSAGES,
        "director.d/jobdefs/groups.conf": _groups(answers),
        "director.d/console/operators.conf": _operators(answers),
        "director.d/job/housekeeping.conf": _housekeeping(answers),
    }
    return {
        os.path.join(top, name): _HEAD.format(name=os.path.basename(name)) + text
        for name, text in texts.items()
    }


def console_text(answers: Answers) -> str:
    """The operator's console.toml."""
    return f'director = "{answers.director_url}"\nidentity = {quoted(operator_folder(answers))}\n'


def console_folder(answers: Answers) -> str:
    """Where the operator's commands look for their settings."""
    return os.path.join(answers.operator_home, ".config", "strongroom")


def operator_folder(answers: Answers) -> str:
    """The folder of the operator's certificate."""
    return os.path.join(console_folder(answers), answers.operator)


def _storage(answers: Answers) -> str:
    maintenance = ""
    if answers.director_user:
        maintenance = f"  Maintenance Users = {quoted(answers.director_user)}\n"
    plain = ""
    if answers.plain_clients:
        plain = f"  Plain Clients = {', '.join(map(quoted, answers.plain_clients))}\n"
    return f"""\
Storage {{
  Name = {answers.storage_name}
  Port = {answers.storage_port}
  Working Directory = {quoted(answers.below_state("storage"))}
  Identity Directory = {quoted(answers.below_state("storage", "identity"))}
  Maintenance Socket = {quoted(answers.storage_socket)}
{maintenance}  Minimum Retention = {answers.minimum_retention}
  Clients = "*all*"
{plain}}}
Director {{ Name = {answers.director_name}; Password = unused }}
Device {{ Name = main; Media Type = File; Archive Device = {quoted(answers.repository)} }}
"""


def _director(answers: Answers) -> str:
    folder = answers.below_state("director")
    return f"""\
Director {{
  Name = {answers.director_name}; Password = unused; Messages = Standard
  Port = {answers.director_port}
  Maximum Concurrent Jobs = 20
  Working Directory = {quoted(folder)}
  Identity Directory = {quoted(os.path.join(folder, "identity"))}
  Authority Directory = {quoted(answers.below_state("ca"))}
  Appliance Key File = {quoted(os.path.join(folder, "appliance.key"))}
}}
Catalog {{ Name = Main; Db Name = catalog; Db User = unused; Db Password = unused }}
Storage {{
  Name = {answers.storage_name}; Address = {quoted(answers.address)}; Port = {answers.storage_port}
  Password = unused; Device = main; Media Type = File
  Maximum Concurrent Jobs = 20
  Repository = {quoted(f"unix:{answers.storage_socket}")}
  Passphrase File = {quoted(os.path.join(folder, "passphrase"))}
}}
Pool {{
  Name = Default; Pool Type = Backup
  Keep Daily = {answers.keep_daily}
  Keep Weekly = {answers.keep_weekly}
  Keep Monthly = {answers.keep_monthly}
  Minimum Retention = {answers.minimum_retention}
}}
"""


def _groups(answers: Answers) -> str:
    jobdefs = "".join(
        f"JobDefs {{ Name = {group}; Job Defs = Usual; Client Group = {group} }}\n"
        for group in answers.groups
    )
    return f"""\
Schedule {{ Name = Nightly; Run = Incremental daily at {answers.backup_time}; }}
FileSet {{
  Name = Machine
  Include {{
    Options {{ Compression = ZSTD1; OneFS = yes }}
    File = /
  }}
  Exclude {{ File = /proc; File = /sys; File = /tmp; File = /var/cache }}
}}
JobDefs {{
  Name = Usual; Type = Backup; Level = Incremental; FileSet = Machine; Schedule = Nightly
  Storage = {answers.storage_name}; Pool = Default; Messages = Standard
}}
# A client that joins a group gets a job of its JobDefs, in client/NAME.conf.
{jobdefs}"""


def _operators(answers: Answers) -> str:
    return f"""\
Profile {{
  Name = all; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*; Storage ACL = *all*
  Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*; Where ACL = *all*
}}
Profile {{
  Name = monitoring; Command ACL = metrics; Job ACL = *all*; Client ACL = *all*; Storage ACL = *all*
}}
Console {{ Name = {answers.operator}; Password = unused; Profile = all }}
"""


def _housekeeping(answers: Answers) -> str:
    defaults = f"FileSet = Machine; Storage = {answers.storage_name}; Pool = Default"
    return f"""\
# The client of the jobs that the director does itself.
Client {{ Name = {APPLIANCE_CLIENT}; Address = {quoted(answers.address)}; Password = unused }}
Job {{
  Name = restore; Type = Restore; Client = {APPLIANCE_CLIENT}; Where = /
  {defaults}; Messages = Standard
}}
Job {{
  Name = housekeeping; Type = Admin; Client = {APPLIANCE_CLIENT}; Schedule = Nightly; Priority = 40
  {defaults}; Messages = Standard
  RunScript {{
    RunsWhen = Before
    RunsOnClient = no
    Console = "backup catalog"
    Console = "prune"
  }}
}}
"""
