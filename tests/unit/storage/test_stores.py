"""From what people write to a store."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from support.canary import CANARY
from support.errors import raises
from tidegate.errors import StorageError, StorageUnavailable
from tidegate.specs.locations import Location, Options
from tidegate.storage import memory
from tidegate.storage.options import (
    absolute_uri,
    client_settings,
    pick_option,
    retries,
    retry_options,
    secrets,
    split_uri,
)
from tidegate.storage.stores import open_store

CLOSED = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("data/x/", "file:///srv/conf/data/x"),
        ("../x", "file:///srv/x"),
        ("/abs/x/", "file:///abs/x"),
        ("a b/100%/c#d?", "file:///srv/conf/a%20b/100%25/c%23d%3F"),
        ("date=1/é", "file:///srv/conf/date=1/%C3%A9"),
        ("file:///abs/x/", "file:///abs/x"),
        ("file:/abs/x", "file:///abs/x"),
        ("file://localhost/abs/x", "file:///abs/x"),
        ("s3://lake/raw/", "s3://lake/raw"),
        ("s3a://lake/raw", "s3://lake/raw"),
        ("S3://Lake/Raw", "s3://Lake/Raw"),
        ("gs://lake/raw//", "gs://lake/raw"),
        ("memory://name", "memory://name"),
        (".", "file:///srv/conf"),
    ],
)
def test_what_people_write_becomes_an_absolute_uri(written: str, uri: str) -> None:
    assert absolute_uri(written, Path("/srv/conf")) == uri


def test_a_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert absolute_uri("~/x", Path("/srv")) == "file:///home/ada/x"


def test_an_absolute_uri_stays_as_it_is() -> None:
    for uri in ("file:///a%20b/c%25", "s3://lake/a%20b", "memory://m/x"):
        assert absolute_uri(uri, Path("/srv")) == uri


def test_a_path_on_disk_is_found_again_through_its_uri(tmp_path: Path) -> None:
    place = tmp_path / "a b%20#?+=:é"
    place.mkdir()
    (place / "x.json").write_bytes(b"1")
    store = open_store(Location(absolute_uri(str(place), tmp_path)))
    assert store.get("x.json") == b"1"


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("s3://lake/raw/a%20b", ("s3", "lake", "raw/a b")),
        ("s3a://lake", ("s3", "lake", "")),
        ("file:///a/b%25", ("file", "", "a/b%")),
        ("abfss://box@account.dfs.core.windows.net/x", ("az", "box@account.dfs.core.windows.net", "x")),
    ],
)
def test_a_uri_is_split(uri: str, parts: tuple[str, str, str]) -> None:
    assert split_uri(uri) == parts


@pytest.mark.parametrize("uri", ["ftp://host/x", "plain/path", "s3:///x", "s3://b/x?y", "s3://b/x#y", "file:///a%00b"])
def test_a_uri_that_names_no_place_is_refused_with_a_remedy(uri: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(Location(uri))
    assert uri in str(caught.value)
    assert caught.value.remedy


def test_stores_of_one_memory_name_share_their_objects() -> None:
    open_store(Location("memory://shared/a")).put("b/c", b"1")
    assert open_store(Location("memory://shared")).get("a/b/c") == b"1"
    assert open_store(Location("memory://shared/a/b")).get("c") == b"1"
    memory.forget("shared")
    assert list(open_store(Location("memory://shared")).list()) == []


def test_options_of_another_scheme_are_ignored(tmp_path: Path) -> None:
    options = Options({"AWS_REGION": "eu-west-1", "GOOGLE_SERVICE_ACCOUNT": "/no/such.json", "AZURE_X": "y"})
    open_store(Location(absolute_uri("x", tmp_path), options)).put("a", b"1")
    open_store(Location("s3://lake/x", options))


@pytest.mark.parametrize("upper", [True, False])
def test_option_names_may_be_upper_or_lower_case(upper: bool) -> None:
    names = ("aws_region", "aws_endpoint_url", "aws_access_key_id", "aws_secret_access_key", "aws_allow_http")
    values = ("eu-west-1", "http://127.0.0.1:1", "key", "secret", "true")
    options = {name.upper() if upper else name: value for name, value in zip(names, values, strict=True)}
    open_store(Location("s3://lake/x", Options(options)))


def test_options_that_only_other_readers_know_are_ignored() -> None:
    open_store(Location("s3://lake", Options({"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "timeout": "20s"})))


def test_a_misspelt_option_is_named_with_the_nearest_one() -> None:
    with raises(StorageError, "AWS_ACESS_KEY_ID", "AWS_ACCESS_KEY_ID"):
        open_store(Location("s3://lake", Options({"AWS_ACESS_KEY_ID": "CANARY"})))


def test_an_unusable_value_is_refused_without_showing_it() -> None:
    with raises(StorageError, "AWS_ALLOW_HTTP") as caught:
        open_store(Location("s3://lake", Options({"AWS_ALLOW_HTTP": "CANARY"})))
    assert "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "options", [{"max_retries": "often"}, {"max_retries": "-1"}, {"retry_timeout": "90"}, {"RETRY_TIMEOUT": "1 hour"}]
)
def test_an_unusable_retry_setting_is_refused_by_name(options: dict[str, str]) -> None:
    with raises(StorageError, *(f"{name.lower()}: {value!r}" for name, value in options.items())):
        open_store(Location("s3://lake", Options(options)))


def test_retry_settings_reach_both_clients() -> None:
    options = Options({"MAX_RETRIES": "2", "retry_timeout": "500ms"})
    assert retries(options) | {"backoff": {}} == {
        "max_retries": 2,
        "retry_timeout": timedelta(milliseconds=500),
        "backoff": {},
    }
    assert retry_options(options) == {"max_retries": "2", "retry_timeout": "500ms"}
    assert retry_options(Options({})) == {"max_retries": "7", "retry_timeout": "90s"}


@pytest.mark.parametrize(
    ("uri", "endpoint", "remedy"),
    [
        ("az://box/x", "AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
        ("gs://lake/x", "GOOGLE_BASE_URL", "GOOGLE_ALLOW_HTTP"),
    ],
)
def test_plain_http_must_be_allowed_by_the_option_of_that_cloud(uri: str, endpoint: str, remedy: str) -> None:
    named = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_SKIP_SIGNATURE": "true", "GOOGLE_SKIP_SIGNATURE": "true"}
    store = open_store(Location(uri, Options({**named, endpoint: "http://127.0.0.1:1", "max_retries": "0"})))
    with raises(StorageError, uri, "http", remedy):
        store.head("a # of a name")
    allowed = open_store(Location(uri, Options({**store.location.options, remedy: "true"})))
    with raises(StorageUnavailable, "x/a", "network"):
        allowed.head("a")


@pytest.mark.parametrize(
    ("uri", "around"),
    [
        ("s3://lake/x", {"AWS_ENDPOINT_URL": CLOSED, "AWS_SKIP_SIGNATURE": "true", "AWS_ALLOW_HTTP": "true"}),
        (
            "az://box/x",
            {
                "AZURE_STORAGE_ENDPOINT": CLOSED,
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
                "AZURE_ALLOW_HTTP": "true",
            },
        ),
        (
            "gs://lake/x",
            {
                "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(
                    {"gcs_base_url": CLOSED, "disable_oauth": True}
                    | dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
                ),
                "GOOGLE_ALLOW_HTTP": "true",
            },
        ),
    ],
)
def test_every_option_may_come_from_the_environment(
    uri: str, around: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    with raises(StorageUnavailable, f"{uri}/a", "network"):
        open_store(Location(uri, Options({"max_retries": "0"}))).head("a")
    (allows,) = (name for name in around if name.endswith("ALLOW_HTTP"))
    monkeypatch.setenv(allows, "perhaps")
    with raises(StorageError, uri, allows):
        open_store(Location(uri))


def test_options_precede_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_TIMEOUT", "7s")
    monkeypatch.setenv("AZURE_TIMEOUT", "8s")
    assert client_settings(Options({}), "s3")["timeout"] == "7s"
    assert client_settings(Options({"aws_timeout": "9s"}), "s3")["timeout"] == "9s"
    assert pick_option(("aws_endpoint_url", "aws_endpoint"), {"AWS_ENDPOINT": "a"}, {"AWS_ENDPOINT_URL": "b"}) == "a"


def test_credentials_of_the_environment_are_secrets_and_names_of_files_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/etc/key.json")
    found = secrets(Options({"AWS_SESSION_TOKEN": "given"}))
    assert {CANARY, "given"} <= set(found)
    assert not {"/run/token", "/etc/key.json"} & set(found)


def test_other_clouds_open_without_a_request() -> None:
    key = Options({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5", "AZURE_STORAGE_ACCOUNT_NAME": "account"})
    open_store(Location("az://box/x", key))
    open_store(Location("abfss://box@account.dfs.core.windows.net/x", key))
    open_store(Location("gs://lake/x", Options({"GOOGLE_BEARER_TOKEN": "token"})))


@pytest.mark.slow
@pytest.mark.parametrize("uri", ["file:///tmp/x", "s3://lake/x"])
def test_storage_loads_neither_arrow_nor_spark(uri: str) -> None:
    code = (
        "import sys; from tidegate.specs.locations import Location; from tidegate.storage.stores import open_store;"
        f"open_store(Location({uri!r}));"
        "print(sorted({'pyarrow', 'pandas', 'pyspark', 'deltalake', 'pydantic'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_process_makes_the_client_of_a_location_once(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Location("s3://lake/raw", Options({"AWS_REGION": "eu-west-1"}))

    def client(location: Location = place) -> object:
        return vars(open_store(location))["_client"]

    first = client()
    assert client() is first
    assert client(Location(place.uri, Options({"AWS_REGION": "us-east-1"}))) is not first
    assert client(Location("s3://lake/other", place.options)) is not first
    # The client takes settings from the environment too, and does not survive a fork.
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        assert client() is not first
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert client() is not first
