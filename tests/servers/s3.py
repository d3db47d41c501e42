"""A real S3 server for tests: SeaweedFS on free loopback ports, in a directory of its own.

``running()`` starts it and waits until it can write; ``Server.location`` is what a configuration would say.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import sys
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from servers.starting import free_ports, process_in, started_in_a_new_directory, wait_until
from tidegate.specs.locations import Location, Options

ACCESS_KEY = "tidegate-test"
SECRET_KEY = "tidegate-test-secret"
BUCKET = "tidegate"
START_SECONDS = 90.0

_IDENTITIES = {
    "identities": [
        {
            "name": "writer",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        },
        {
            "name": "reader",
            "credentials": [{"accessKey": "tidegate-reader", "secretKey": "tidegate-reader-secret"}],
            "actions": ["Read", "List"],
        },
    ]
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, its process id, and the storage options that reach it."""

    endpoint: str
    pid: int

    @property
    def options(self) -> Options:
        return Options(
            {
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_ALLOW_HTTP": "true",
            }
        )

    @property
    def reader_options(self) -> Options:
        """Options of a user who may read and list but not write."""
        keys = {"AWS_ACCESS_KEY_ID": "tidegate-reader", "AWS_SECRET_ACCESS_KEY": "tidegate-reader-secret"}
        return Options({**self.options, **keys})

    def location(self, path: str = "") -> Location:
        """A place that nobody has used, in the one bucket (the server keeps few buckets with data)."""
        return Location(f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}/{path}".rstrip("/"), self.options)

    def make_bucket(self, bucket: str) -> None:
        """Make an empty bucket, unless there is one."""
        with contextlib.suppress(FileExistsError):
            self.request("PUT", f"/{bucket}")

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One signed request for a raw ``/bucket/key``: also for keys that no client library would make."""
        host = self.endpoint.removeprefix("http://")
        headers = _signed(method, path, host, body)
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request(method, _quoted(path), body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status == 409:
            raise FileExistsError(path)
        if response.status >= 300:
            raise OSError(f"{method} {path!r}: {response.status} {content[:300]!r}")
        return content


def _quoted(path: str) -> str:
    return urllib.parse.quote(path, safe="/-_.~")


def _signed(method: str, path: str, host: str, body: bytes) -> dict[str, str]:
    """The headers of AWS signature version 4 for a request without a query."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = hashlib.sha256(body).hexdigest()
    scope = f"{moment[:8]}/us-east-1/s3/aws4_request"
    names = "host;x-amz-content-sha256;x-amz-date"
    lines = [
        method,
        _quoted(path),
        "",
        f"host:{host}",
        f"x-amz-content-sha256:{digest}",
        f"x-amz-date:{moment}",
    ]
    canonical = "\n".join([*lines, "", names, digest])
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
    stamp = {"x-amz-date": moment, "x-amz-content-sha256": digest}
    return {**stamp, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def _command(directory: Path) -> tuple[list[str], str]:
    names = ("master", "volume", "filer", "s3")
    ports = free_ports(2 * len(names))
    flags = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
    flags += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[len(names) :], strict=True)]
    weed = Path(sys.executable).with_name("weed")
    command = [str(weed), "server", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *flags]
    command += [
        "-s3",
        f"-s3.config={directory / 'identities.json'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    command += [f"-s3.localSocket={directory / 's3.sock'}", f"-filer.localSocket={directory / 'filer.sock'}"]
    command += ["-volume.max=60", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]
    return command, f"http://127.0.0.1:{ports[3]}"


@contextlib.contextmanager
def _started(directory: Path) -> Iterator[Server]:
    (directory / "identities.json").write_text(json.dumps(_IDENTITIES))
    command, endpoint = _command(directory)
    with process_in(directory, command, env={**os.environ, "HOME": str(directory)}) as process:
        server = Server(endpoint, process.pid)

        def answers() -> None:
            server.make_bucket(BUCKET)
            server.request("PUT", f"/{BUCKET}/probe", b"x")

        wait_until(answers, process, directory, START_SECONDS, OSError, http.client.HTTPException)
        yield server


def running() -> AbstractContextManager[Server]:
    """A server that answers, ended with the block; starts anew if another program took its port."""
    return started_in_a_new_directory(_started, "tidegate-s3-")
