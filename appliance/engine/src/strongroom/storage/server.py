"""The storage daemon: listens, accepts peers, gives each connection a thread, and ends slow ones.

Threads: one for each listening socket, one for each connection, and the watch thread, which checks
the deadlines of connections every second. `_lock` guards the set of sessions. `stop` may be
called from any thread; objects that were acknowledged are kept, open uploads are dropped.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import OperatingSystemError, PeerRefusedError, StrongroomError
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.servable import ServableStore
from strongroom.net.channels.channel import Channel
from strongroom.net.channels.greeting import send_welcome
from strongroom.net.channels.listening import listen, peer_address, shown_socket
from strongroom.net.channels.local_channel import admit_local
from strongroom.net.channels.unauthenticated import UnauthenticatedConnections
from strongroom.net.identities.peer import LOCAL_ROLE
from strongroom.service.log_lines import LimitedLines
from strongroom.storage.admission import Admission
from strongroom.storage.metrics import Labels
from strongroom.storage.serving import Serving
from strongroom.storage.session import Session
from strongroom.storage.settings import StorageDaemonSettings, StorageLimits

log = logging.getLogger("strongroom.storage")

_HINT: Final = "; see Address, Port and Addresses of the Storage"
_WATCH_SECONDS: Final = 1.0
_WAITING_CONNECTIONS: Final = 256
_STOP_SECONDS: Final = 10.0


class StorageServer:
    """Serves the repositories of `settings` from `start` to `stop`."""

    def __init__(
        self,
        settings: StorageDaemonSettings,
        admit: Callable[[socket.socket], Channel] | None = None,
        read_grant: Callable[[str], dict[str, object]] | None = None,
        open_store: Callable[[bytes], ServableStore] = LocalStore,
    ) -> None:
        """Opens the repositories. Raises StoreError.

        admit: authenticates a connection over TCP and returns a channel. read_grant: the content
        of a statement, once verified. open_store: the store of a repository, by its folder in the
        settings; the owner list is in that folder whatever the store is.
        """
        self.settings = settings
        self._admit = admit
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        limits = settings.limits
        self._unauthenticated = UnauthenticatedConnections(
            limits.handshakes, limits.handshakes_of_an_address
        )
        self._strangers = LimitedLines(log)
        self._threads: list[threading.Thread] = []
        self._listening: list[socket.socket] = []
        self.serving = Serving(settings, open_store, read_grant, self._connection_gauges)
        self._stopped = self.serving.stopped

    @property
    def ports(self) -> list[int]:
        """The TCP ports it listens on, in the order of the addresses."""
        return [one.getsockname()[1] for one in self._listening if one.family != socket.AF_UNIX]

    def start(self) -> None:
        """Listen. Raises OperatingSystemError for an unavailable address, and OSError."""
        for listening in listen(self.settings.addresses, _WAITING_CONNECTIONS, _HINT):
            self._listen(listening, shown_socket(listening), self._admit_remote)
        if self.settings.socket_path:
            self._listen(
                self._local_socket(), os.fsdecode(self.settings.socket_path), self._admit_here
            )
        self._thread(self._watch, "watch")

    def stop(self) -> None:
        """Stop listening, end all connections, wait for their threads."""
        self._stopped.set()
        for listening in self._listening:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with self._lock:
            for session in self._sessions:
                session.channel.shutdown()
            threads = list(self._threads)
        until = clock.elapsed_seconds() + _STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - clock.elapsed_seconds()))
        # Not that of another process, which kept this one from listening there.
        if any(one.family == socket.AF_UNIX for one in self._listening):
            with suppress(FileNotFoundError):
                os.unlink(self.settings.socket_path)
        self.serving.close()

    def set_limits(self, limits: StorageLimits) -> None:
        """Apply a changed configuration; open connections keep their settings except quotas."""
        self._unauthenticated.limit(limits.handshakes, limits.handshakes_of_an_address)
        self.serving.set_limits(limits)

    def set_admission(self, admission: Admission) -> None:
        """Apply a changed configuration; connections of peers that have fewer verbs end."""
        before, self.serving.admission = self.serving.admission, admission
        with self._lock:
            sessions = [one for one in self._sessions if one.peer.role != LOCAL_ROLE]
        for session in sessions:
            if before.verbs(session.peer) - admission.verbs(session.peer):
                log.warning("%s: disconnected: the configuration has changed", session.shown)
                session.channel.shutdown()

    def _connection_gauges(self) -> list[tuple[str, Labels, float]]:
        with self._lock:
            roles = [session.peer.role for session in self._sessions]
        gauges: list[tuple[str, Labels, float]] = [
            ("connections", (("role", role),), float(roles.count(role)))
            for role in ("agent", "director", "operator", "local")
        ]
        gauges.append(("handshakes", (), float(self._unauthenticated.count)))
        return gauges

    def _listen(
        self,
        listening: socket.socket,
        shown: str,
        admit: Callable[[socket.socket], Channel],
    ) -> None:
        self._listening.append(listening)
        self._thread(lambda: self._accept(listening, admit), f"listening on {shown}")
        log.info("listening on %s", shown)

    def _local_socket(self) -> socket.socket:
        path = self.settings.socket_path
        if _is_served(path):
            raise OperatingSystemError(
                f"cannot listen on {os.fsdecode(path)}: another process does, perhaps a storage "
                "daemon; end it first, or change Maintenance Socket"
            )
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # Any local user who may enter the folder can connect; the kernel reports the peer's uid.
        old = os.umask(0o111 if self.settings.maintenance_users else 0o177)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listening.bind(path)
        except OSError as error:
            listening.close()
            shown = os.fsdecode(path)
            raise OperatingSystemError(
                f"cannot listen on {shown}: {error.strerror or error}. Make the folder "
                f"{os.path.dirname(shown)} for the daemon's user, or change Maintenance Socket"
            ) from error
        finally:
            os.umask(old)
        listening.listen(_WAITING_CONNECTIONS)
        return listening

    def _admit_here(self, connection: socket.socket) -> Channel:
        channel = admit_local(connection, self.settings.maintenance_users)
        send_welcome(channel)
        return channel

    def _admit_remote(self, connection: socket.socket) -> Channel:
        if self._admit is None:
            raise PeerRefusedError("this storage daemon has no identity yet")
        return self._admit(connection)

    def _accept(self, listening: socket.socket, admit: Callable[[socket.socket], Channel]) -> None:
        while not self._stopped.is_set():
            try:
                connection, address = listening.accept()
            except OSError as error:
                if self._stopped.is_set():
                    return
                # Too many open files, or the peer is gone: neither ends the daemon.
                log.warning("could not accept a connection: %s", error)
                self._stopped.wait(_WATCH_SECONDS)
                continue
            # Local peers are identified at once; unauthenticated remote ones must not block them.
            stranger = peer_address(address[0]) if isinstance(address, tuple) else ""
            shown = stranger or "the local socket"
            if stranger and (reason := self._unauthenticated.enter(stranger)):
                connection.close()
                self._refuse(shown, "handshakes", reason)
                continue
            try:
                self._thread(partial(self._enter, connection, stranger, admit), f"for {shown}")
            except RuntimeError as error:
                # The machine cannot start more threads now; keep listening.
                if stranger:
                    self._unauthenticated.leave(stranger)
                connection.close()
                self._refuse(shown, "threads", str(error))

    def _enter(
        self,
        connection: socket.socket,
        stranger: str,
        admit: Callable[[socket.socket], Channel],
    ) -> None:
        """A connection from start to end, in its thread. stranger: its address, if over TCP."""
        shown = stranger or "the local socket"
        channel: Channel | None = None
        try:
            connection.settimeout(self.serving.limits.greeting_seconds)
            channel = admit(connection)
        except (StrongroomError, OSError) as error:
            self._refuse(shown, "unproven", str(error))
            connection.close()
        finally:
            if stranger:
                self._unauthenticated.leave(stranger)
        if channel is None:
            return
        share = self.serving.shares.enter(channel.peer)
        if isinstance(share, str):
            self.serving.metrics.count("refused", cause="connections")
            text = "%s: refused: %s"
            self.serving.say(logging.WARNING, channel.peer, text, shown, share)
            channel.close()
            return
        try:
            self._serve(Session(self.serving, channel, share, shown))
        finally:
            self.serving.shares.leave(share)

    def _serve(self, session: Session) -> None:
        with self._lock:
            self._sessions.add(session)
        mode = session.channel.security.mode
        self.serving.metrics.count("connections", role=session.peer.role, mode=mode)
        try:
            session.run()
        finally:
            with self._lock:
                self._sessions.discard(session)

    def _refuse(self, shown: str, cause: str, reason: str) -> None:
        self.serving.metrics.count("refused", cause=cause)
        self._strangers.warn("%s: refused: %s", shown, reason)

    def _watch(self) -> None:
        while not self._stopped.wait(_WATCH_SECONDS):
            now = clock.elapsed_seconds()
            self._strangers.flush()
            self.serving.watch_lines()
            self.serving.watch_repositories()
            self.serving.watch_clocks()
            with self._lock:
                sessions = list(self._sessions)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
            for session in sessions:
                if session.is_of_the_past:
                    session.channel.shutdown()
                elif session.is_late(now):
                    text = "%s: disconnected: too little data arrives"
                    self.serving.say(logging.WARNING, session.peer, text, session.shown)
                    session.channel.shutdown()

    def _thread(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        with self._lock:
            self._threads.append(thread)


def _is_served(path: bytes) -> bool:
    """Whether a process listens at a local socket; no one does at one that a killed one left."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as trying:
        # One whose queue is full does not let us wait.
        trying.setblocking(False)
        try:
            trying.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
