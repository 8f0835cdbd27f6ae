"""`python -m strongroom_bench`: the command line behind `make bench`."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module
from typing import Final

from strongroom.base.errors import StrongroomError, UsageError
from strongroom.cli.measure.testbed.command import CommandError
from strongroom.cli.measure.testbed.daemons import DaemonError
from strongroom.cli.terminal import Terminal
from strongroom_bench.testbed.bacula import BaculaError

# Command -> what it does in one line; the module `command` of the package of its name does it.
COMMANDS: Final = {
    "rows": "measure Strongroom against its peers, in turns, on this machine",
    "suites": "reproduce a published text on the speed of backups",
    "network": "measure backups over the network, fleets and daemons on this machine",
}


def _end(number: int, _: object) -> None:
    """As with ctrl-C, what runs and what is mounted is tidied up; once."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main(words: list[str] | None = None) -> int:
    """Run the command that `words` (else the command line) begin with; the exit code.

    Only its module is imported: what the runner holds would be in memory beside what it measures.
    """
    words = sys.argv[1:] if words is None else words
    if not words or words[0] not in COMMANDS:
        commands = "\n".join(f"  {name:<9}{summary}" for name, summary in COMMANDS.items())
        sys.exit(f"usage: python -m strongroom_bench COMMAND [OPTION ...]\n\n{commands}")
    module = import_module(f"strongroom_bench.{words[0]}.command")
    summary = COMMANDS[words[0]]
    parser = argparse.ArgumentParser(
        prog=f"strongroom_bench {words[0]}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    arguments = parser.parse_args(words[1:])
    signal.signal(signal.SIGTERM, _end)
    try:
        return int(module.run(arguments))
    except UsageError as error:
        parser.error(str(error))
    except (CommandError, DaemonError, BaculaError, OSError) as error:
        parser.error(f"nothing can be measured: {error}")
    except StrongroomError as error:
        Terminal().report_error(error.error_id, str(error), error.exit_code)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
