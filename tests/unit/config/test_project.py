"""State providers and places for metrics: relative to the file, and never shown with what is secret in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support.errors import check_names
from tidegate.config import load, show
from tidegate.specs.locations import Options, Secret
from tidegate.specs.masking import Mask
from tidegate.specs.project import ProjectSpec, ProviderKind, StateSpec

Loaded = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
PIPELINE = "source: {type: delta, path: in, watermark_columns: [at]}\nsink: {path: lake}\n"
CANARY = "hunter2"


def file(state: str) -> str:
    return f"{PIPELINE}state: {{{state}}}\n"


@pytest.mark.parametrize(
    ("state", "provider", "url"),
    [
        ("provider: sql, url: 'sqlite:///state.db'", ProviderKind.SQL, "sqlite:///{base}/state.db"),
        ("provider: sql, url: 'sqlite+pysqlite:///a b.db'", ProviderKind.SQL, "sqlite+pysqlite:///{base}/a b.db"),
        ("provider: sql, url: 'sqlite:////srv/state.db'", ProviderKind.SQL, "sqlite:////srv/state.db"),
        ("provider: sql, url: 'postgresql://u:p@h/d'", ProviderKind.SQL, "postgresql://u:p@h/d"),
        ("provider: sql, url: 'postgresql+psycopg://h/d'", ProviderKind.SQL, "postgresql+psycopg://h/d"),
        ("provider: file, url: state/here", ProviderKind.FILE, "file://{base}/state/here"),
        ("provider: file, url: 's3://bucket/state'", ProviderKind.FILE, "s3://bucket/state"),
    ],
)
def test_addresses(loaded: Loaded, tmp_path: Path, state: str, provider: ProviderKind, url: str) -> None:
    assert loaded(file(state)).state == StateSpec(provider, Secret(url.format(base=tmp_path)))


def test_the_log_of_the_table_is_the_default(loaded: Loaded) -> None:
    assert loaded(PIPELINE).state == loaded(file("provider: delta")).state == StateSpec()


def test_settings_of_the_folder(loaded: Loaded) -> None:
    state = loaded(file(f"provider: file, url: 's3://b/s', storage_options: {{KEY: {CANARY}}}")).state
    assert state.options == Options({"KEY": CANARY})


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("provider: sql", "state.url … provider"),
        ("provider: file", "state.url … folder"),
        ("url: state", "state.url … provider"),
        (f"provider: sql, url: 'jdbc:x://{CANARY}'", "state.url … JDBC"),
        (f"provider: sql, url: {CANARY}", "state.url … sqlite"),
        (
            f"provider: sql, url: 'postgre://u:{CANARY}@h/d'",
            "database",
        ),
        ("provider: sql, url: 'sqlite://'", "anew"),
        ("provider: sql, url: 'sqlite:///:memory:'", "anew"),
        (
            f"provider: sql, url: 'sqlite:///s', storage_options: {{a: {CANARY}}}",
            "provider",
        ),
        (f"provider: file, url: [{CANARY}]", "state.url … single"),
        ("provider: file, url: 'ftp://x/y'", "state.url … kind"),
        ("provider: file, url: x, urll: y", "state.urll … 'url'"),
    ],
)
def test_a_provider_that_cannot_be_is_one_problem(problems: Problems, state: str, words: str) -> None:
    (line,) = problems(file(state))
    check_names(line, words)
    assert CANARY not in line


@pytest.mark.parametrize(
    "url",
    [f"postgresql://me:{CANARY}@host/state", f"postgresql://me:a@{CANARY}@host/state?password={CANARY}"],
)
def test_no_secret_of_the_address_shows(loaded: Loaded, url: str) -> None:
    project = loaded(file(f"provider: sql, url: '{url}'"))
    assert project.state.url == Secret(url)
    assert CANARY not in repr(project) + show(project) + str(project.state.url)
    assert yaml.safe_load(show(project))["state"]["url"].startswith("postgresql://***@host/state")


def test_an_address_without_secrets_survives_show(loaded: Loaded) -> None:
    for state in ("provider: sql, url: 'sqlite:///state.db'", "provider: file, url: state"):
        project = loaded(file(state))
        assert load(show(project), env={}).state == project.state


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("textfile: metrics.txt", "metrics.textfile … .prom"),
        ("textfile: 's3://b/m.prom'", "metrics.textfile … local"),
        (f"push_url: '{CANARY}@gateway:9091'", "metrics.push_url … Pushgateway"),
        (f"push_url: 'http://me:{CANARY}@gateway:99999'", "metrics.push_url … Pushgateway"),
        (f"push_url: 'http://gateway:9091/?token={CANARY}'", "metrics.push_url … Pushgateway"),
    ],
)
def test_a_place_for_metrics_that_cannot_be_is_one_problem(problems: Problems, metrics: str, words: str) -> None:
    (line,) = problems(f"{PIPELINE}\nmetrics: {{{metrics}}}\n")
    check_names(line, words)
    assert CANARY not in line


def test_the_credentials_of_a_pushgateway_do_not_show(loaded: Loaded) -> None:
    project = loaded(f"{PIPELINE}\nmetrics: {{push_url: 'https://me:{CANARY}@gateway:9091/push'}}\n")
    assert CANARY not in repr(project) + show(project) + str(project.metrics.push_url)
    assert yaml.safe_load(show(project))["metrics"]["push_url"] == "https://***@gateway:9091/push"
    assert Mask.around(project)(f"refused: {CANARY} at gateway:9091") == "refused: *** at gateway:9091"
