"""An Azure blob server for tests: Azurite on a free loopback port, everything in its memory.

``make test-clouds`` fetches it into the folder that ``TIDEGATE_CLOUDS`` names. ``running()`` starts it and makes a
container; ``Server.location`` is what a configuration would say.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import http.client
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from servers.starting import free_ports, process_in, started_in_a_new_directory, wait_until
from tidegate.specs.locations import Location, Options

CLOUDS = os.environ.get("TIDEGATE_CLOUDS")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, and its key; no secret."""

CONTAINER = "tidegate"
START_SECONDS = 90.0
_VERSION = "2021-08-06"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, and the storage options that reach it."""

    port: int

    @property
    def options(self) -> Options:
        return Options(
            {
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
                "AZURE_ALLOW_HTTP": "true",
            }
        )

    def location(self, path: str = "") -> Location:
        """A place that nobody has used, in the one container."""
        return Location(f"az://{CONTAINER}/{uuid.uuid4().hex[:12]}/{path}".rstrip("/"), self.options)

    def make_container(self) -> None:
        """Make the container; ``OSError`` where the server does not answer so."""
        moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        stamp = {"x-ms-date": moment, "x-ms-version": _VERSION}
        resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        text = "\n".join(["PUT", *[""] * 11, f"x-ms-date:{moment}", f"x-ms-version:{_VERSION}", resource])
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()
        headers = {**stamp, "Content-Length": "0", "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
            status = connection.getresponse().status
        if status != 201:
            raise OSError(f"no container was made: {status}")


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server]:
    assert CLOUDS is not None
    (port,) = free_ports(1)
    program = Path(CLOUDS) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--disableTelemetry", "--silent"]
    with process_in(directory, command) as process:
        server = Server(port)
        wait_until(server.make_container, process, directory, START_SECONDS, OSError, http.client.HTTPException)
        yield server


def running() -> AbstractContextManager[Server]:
    """A server that answers, ended with the block; starts anew if another program took its port."""
    return started_in_a_new_directory(_started, "tidegate-azure-")
