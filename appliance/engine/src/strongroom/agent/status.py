"""What the running agent works with, shown at a Unix socket in its folder: `agent.socket`.

Only root and the agent's own user may ask; the socket lies in a folder of the agent's, and the
kernel says who asks. Anyone who connects gets one JSON object and the end. For each knob it says
the effective value and where that comes from; knobs that directors set are reported each run, for
the director says them with the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

import strongroom
from strongroom.agent.run_status import run_object
from strongroom.agent.settings import AgentSettings
from strongroom.agent.supervisor import Supervisor
from strongroom.base.clock import utc_text
from strongroom.base.errors import NotPermittedError, OperatingSystemError, StrongroomError
from strongroom.engine.knobs.settings import merged
from strongroom.engine.knobs.table import AGENT_KNOBS, JOB_KNOBS
from strongroom.net.channels.local_channel import user_of
from strongroom.net.identities.identity import Identity

_NAME: Final = "agent.socket"
_ANSWER_SECONDS: Final = 10.0
_GREATEST_ANSWER_BYTES: Final = 16 << 20


class StatusSocket:
    """Answers anyone who may ask, until it is closed."""

    def __init__(self, tell: Callable[[], dict[str, object]]) -> None:
        self._tell = tell
        self._server: asyncio.Server | None = None

    async def open(self, folder: str) -> None:
        """Listen in a folder. Raises OSError."""
        with _place(folder) as place:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                listening.bind(place)
                os.chmod(place, 0o600)
            except OSError:
                listening.close()
                raise
        self._server = await asyncio.start_unix_server(self._answer, sock=listening)

    def close(self) -> None:
        """Stop."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            user = user_of(writer.get_extra_info("socket"))
            if user in (0, os.geteuid()):
                writer.write(msgspec.json.encode(self._tell()))
                await asyncio.wait_for(writer.drain(), _ANSWER_SECONDS)
        except (OSError, TimeoutError):
            pass  # anyone who asked has gone away
        finally:
            writer.close()


def ask_status(folder: str) -> dict[str, Any]:
    """What the agent with this working folder tells. Raises NotPermittedError, StrongroomError."""
    data = b""
    try:
        with _place(folder) as place, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(place)
            while piece := connection.recv(1 << 16):
                data += piece
                if len(data) > _GREATEST_ANSWER_BYTES:
                    break
        return dict(msgspec.json.decode(data)) if data else _refused()
    except PermissionError as error:
        raise NotPermittedError(
            f"only root and the agent's own user may ask it (at {folder}): run this as root"
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OperatingSystemError(
            f"no agent answers at {os.path.join(folder, _NAME)} ({reason}); does it run?"
        ) from error


def status(
    settings: AgentSettings,
    supervisor: Supervisor,
    is_welcome: Callable[[str], bool],
    started_ns: int,
    read_ns: int,
) -> dict[str, object]:
    """All that is reported. read_ns: when the configuration in force was read."""
    return {
        "type": "agent",
        "name": settings.name,
        "version": strongroom.__version__,
        "started": utc_text(started_ns),
        "configuration_read": utc_text(read_ns),
        "certificate": _certificate(settings.identity_folder),
        "directors": [
            {
                "name": one.name,
                "address": one.address,
                "port": one.port,
                "dials": one.dials,
                "listens": one.listens,
                "connected": is_welcome(one.name),
                "maximum_bandwidth_per_job": one.maximum_bytes_per_second,
            }
            for one in settings.directors.values()
        ],
        "knobs": _own_knobs(settings),
        "maximum_concurrent_jobs": settings.maximum_concurrent_runs,
        "metrics_file": settings.metrics_file,
        "runs": [
            {**run_object(journal, tuning), "processes": processes}
            for journal, tuning, processes in supervisor.active()
        ],
        "ended": supervisor.ended_runs.shown(),
    }


def _own_knobs(settings: AgentSettings) -> dict[str, dict[str, object]]:
    """What holds where a director says nothing else."""
    values: dict[str, object] = dict(merged(settings.tuning, spelling="directive", knobs=JOB_KNOBS))
    values["maximum_workers"] = settings.processes
    found: dict[str, dict[str, object]] = {}
    for knob in (*JOB_KNOBS, *AGENT_KNOBS):
        found[knob.name] = {
            "value": values[knob.name],
            "default": knob.default,
            "unit": knob.unit,
            "directive": knob.directive,
            "source": settings.origins.get(knob.name, "default"),
        }
    return found


def _certificate(folder: str) -> Mapping[str, str]:
    try:
        identity = Identity.load(folder)
    except (StrongroomError, OSError) as error:
        return {"error": str(error)}
    return {"serial": identity.serial, "not_after": identity.not_after.isoformat()}


@contextlib.contextmanager
def _place(folder: str) -> Any:
    """A path of the socket that is short enough for one, however long that of its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def _refused() -> dict[str, Any]:
    raise NotPermittedError("the agent answers only root and its own user: run this as root")
