"""Addresses that cannot be read are errors of configuration, and show nothing of a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.cli.main import cli
from tidegate.errors import ConfigError, StorageError
from tidegate.specs.locations import Location, Options, split_address
from tidegate.storage.stores import open_store

PASSWORD = "zanzibar-20261118"
BROKEN = (
    f"postgresql://me:{PASSWORD}@[::1/db",
    f"postgresql://me:{PASSWORD}@host:5432x/db",
    f"postgresql://me:{PASSWORD}@host:99999/db",
    f"mysql://me:{PASSWORD[:4]}/{PASSWORD[4:]}@[::1]x/db",
    f"https://me:{PASSWORD}@ho\u2100st/x",
    f"https://me:{PASSWORD}@[::1/x",
    f"https://me:{PASSWORD}@[not an address]/x",
)


@pytest.mark.parametrize("address", BROKEN)
def test_an_address_that_cannot_be_read_shows_its_scheme_only(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        split_address(address)
    told = f"{caught.value}"
    assert address.partition("://")[0] in told
    assert PASSWORD[:4] not in told
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("address", [*BROKEN, f"jdbc:{BROKEN[0]}"])
def test_ingest_names_the_problem_and_not_the_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = ["--table", "t"] if "sql:" in address else []
    done = CliRunner().invoke(cli, ["ingest", address, "lake", "--dry-run", "--debug", *table])
    assert done.exit_code == ConfigError.exit_code, done.output
    assert "cannot be read" in done.output
    assert PASSWORD[:4] not in done.output
    assert not list(tmp_path.iterdir())


def test_an_address_that_can_be_read_comes_in_its_parts() -> None:
    parts = split_address("postgresql://me:pw@[::1]:5432/db")
    assert (parts.hostname, parts.port, parts.path) == ("::1", 5432, "/db")


@pytest.mark.parametrize("endpoint", ["http://[::1", "minio:9000", "http://host:port", "//host", "http://", "ftp://x"])
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "aws_endpoint"])
def test_an_endpoint_that_is_no_address_is_refused_before_the_client_breaks(name: str, endpoint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(Location("s3://lake/raw", Options({name: endpoint})))
    assert name.upper() in str(caught.value)


def test_an_endpoint_of_the_environment_that_is_no_address(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio:9000")
    keys = Options({"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": PASSWORD})
    with pytest.raises(StorageError) as caught:
        list(open_store(Location("s3://lake/raw", keys)).list_directory().directories)
    assert "endpoint" in caught.value.remedy
    assert PASSWORD not in capfd.readouterr().err
