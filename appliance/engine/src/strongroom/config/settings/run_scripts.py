"""Commands around a job: RunScript blocks and the short forms of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.config.trees.tree import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.config.model import Resource
    from strongroom.config.trees.tree import Directive

# Short form -> when, on the client, on success, on failure.
_SHORT_FORMS: Final = {
    "RunBeforeJob": ("Before", False, True, False),
    "RunAfterJob": ("After", False, True, False),
    "RunAfterFailedJob": ("After", False, False, True),
    "ClientRunBeforeJob": ("Before", True, True, False),
    "ClientRunAfterJob": ("After", True, True, False),
}


@dataclass(frozen=True, slots=True)
class RunScript:
    """Commands, and when they run. `when`: Before, After, AfterVSS, Always or Never."""

    commands: tuple[str, ...]
    console_commands: tuple[str, ...]
    when: str
    on_client: bool
    on_success: bool
    on_failure: bool
    fail_job_on_error: bool


@dataclass(frozen=True, slots=True)
class ScriptPlace:
    """Where a script stands: its short form, or its block."""

    directive: Directive

    def of(self, key: str = "", value: str = "") -> Directive:
        """The directive of this key (and value) within a block, else the script itself."""
        block = self.directive.value
        inner = block.directives if isinstance(block, Block) else ()
        fitting = (one for one in inner if one.spec.key == key and value in ("", one.value))
        return next(fitting, self.directive)


def placed_run_scripts(job: Resource) -> Iterator[tuple[RunScript, ScriptPlace]]:
    """The scripts of a Job and of its JobDefs, short forms among them, each with its place."""
    for owner in job.lineage():
        for directive in owner.block.directives:
            if directive.spec.type == "SHRTRUNSCRIPT":
                when, on_client, success, failure = _SHORT_FORMS[directive.spec.name]
                commands = (str(directive.value),)
                script = RunScript(commands, (), when, on_client, success, failure, True)
                yield script, ScriptPlace(directive)
            elif directive.spec.type == "RUNSCRIPT":
                yield _of_block(owner.within(directive.value)), ScriptPlace(directive)


def run_scripts(job: Resource) -> tuple[RunScript, ...]:
    """The scripts of a Job and of its JobDefs, in order."""
    return tuple(script for script, _ in placed_run_scripts(job))


def _of_block(block: Resource) -> RunScript:
    def switch(name: str, usual: bool) -> bool:
        return block.switch(name) if block.is_set(name) else usual

    fails = switch("fail_job_on_error", True)
    return RunScript(
        commands=block.texts("command"),
        console_commands=block.texts("console"),
        when=block.text("runs_when") or "Never",
        on_client=block.value("runs_on_client") is not False,
        on_success=switch("runs_on_success", True),
        on_failure=switch("runs_on_failure", False),
        fail_job_on_error=switch("abort_job_on_error", fails),
    )
