"""A marked secret in every key of the configuration, by a variable and literally: no text about the file has it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.config_corpus import read
from tidegate.config import load, show
from tidegate.config.keys import every_key
from tidegate.errors import ConfigError
from tidegate.specs.masking import Mask, remember_masks
from tidegate.specs.project import ProjectSpec
from tidegate.specs.units import UnitSource

MARK = "zQ7x9Wk2Vb4Lm8Tn"
ENV = {"PLANTED_TOKEN": MARK}
REPEATED = f"the server refused {MARK} of ours"


def keys_in(node: object) -> Iterator[str]:
    match node:
        case dict():
            for key, below in node.items():
                yield str(key)
                yield from keys_in(below)
        case list():
            for below in node:
                yield from keys_in(below)


BLOCKS = """\
connections:
  db: {type: jdbc, url: "jdbc:postgresql://h/d", properties: {ssl: x}}
pipelines:
  p:
    source: {connection: db, table: t, watermark_columns: [id]}
    sink: {table_uri: lake/p, storage_options: {REGION: x}}
"""
"""Blocks that are empty in the files that cover every key."""


def parsed(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


@cache
def covering() -> list[dict[str, Any]]:
    """A few accepted files of the corpus that together have every key."""
    wanted = {key.name for key in every_key()}
    accepted = [case for case in read()["cases"] if "show" in case["outcome"] and not case["env"]]
    files = [(case, set(keys_in(parsed(case["text"])))) for case in accepted]
    chosen = []
    while wanted and files:
        case, keys = max(files, key=lambda each: len(each[1] & wanted))
        if not keys & wanted:
            break
        chosen.append(case)
        wanted -= keys
    assert len(wanted) < 5, wanted
    return chosen


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a file has a single value."""
    match node:
        case dict():
            for key, below in node.items():
                yield from places(below, (*place, key))
        case list():
            for at, below in enumerate(node):
                yield from places(below, (*place, at))
        case _:
            yield place


def cases() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every place of the covering files, one of each kind."""
    seen = set()
    for text in (BLOCKS, *(case["text"] for case in covering())):
        for place in places(parsed(text)):
            words = tuple(part for part in place if isinstance(part, str))
            kind = words[4:] if words[:1] == ("pipelines",) and words[2:3] == ("sources",) else words[2:] or words
            if kind not in seen:
                seen.add(kind)
                yield text, place


def planted(text: str, place: tuple[Any, ...], value: str) -> str:
    data = parsed(text)
    holder = data
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = value.replace("%s", str(holder[place[-1]] or ""))
    return yaml.safe_dump(data, sort_keys=False)


def recorded(project: ProjectSpec) -> Iterator[str]:
    """What of a project goes into identities, paths and unit values."""
    yield from project.shown_names()
    for pipeline in project.pipelines:
        yield from (unit for each in pipeline.of(UnitSource) if each.unit for unit in each.unit.units)


def said_of(text: str, folder: Path) -> tuple[str, ProjectSpec | None]:
    """All that is said of a file, and what a server that repeats the secret gets to say through the mask."""
    with remember_masks() as known:
        try:
            project = load(text, env=ENV, base=folder)
        except ConfigError as error:
            return f"{error} {error!r} {error.__cause__!r} {known()(REPEATED)}", None
        mask = known() | Mask.around(project)
        return f"{show(project)} {project.notices} {mask(REPEATED)}", project


@pytest.mark.slow
@pytest.mark.parametrize("value", ["${PLANTED_TOKEN}", "%s/${PLANTED_TOKEN}/x"])
def test_a_secret_by_a_variable_shows_in_no_text_and_is_never_recorded(value: str, tmp_path: Path) -> None:
    accepted = refused = 0
    for text, place in cases():
        said, project = said_of(planted(text, place, value), tmp_path)
        assert MARK not in said, (place, text)
        if project is None:
            refused += 1
            continue
        accepted += 1
        assert not [each for each in recorded(project) if MARK in each], place
    assert (accepted > 20, refused > 80) == (True, True), (accepted, refused)


@pytest.mark.slow
def test_a_literal_secret_in_a_key_made_for_one_shows_in_no_text(tmp_path: Path) -> None:
    tried = set()
    for text, place in cases():
        words = [str(part) for part in place if isinstance(part, str)]
        holders = {"storage_options", "properties", "headers", "options"}
        if words[-1] not in {"password", "token", "client_secret"} and not holders & set(words[:-1]):
            continue
        said, project = said_of(planted(text, place, MARK), tmp_path)
        assert MARK not in said, (place, text)
        if project is not None:
            tried.add(words[-2] if holders & set(words) else words[-1])
    assert tried >= {"storage_options", "properties", "headers", "options", "password", "token", "client_secret"}


def test_a_stage_inside_an_address_stays_readable(tmp_path: Path) -> None:
    text = """\
connections:
  api: {type: http, url: "https://${STAGE}.api.example.org", auth: {type: bearer, token: "${API_TOKEN}"}}
pipelines:
  p:
    source: {connection: api, path: "/${STAGE}/orders", watermark_columns: [id]}
    sink: {table_uri: "s3://lake-${STAGE}/orders"}
"""
    env = {"STAGE": "prod", "API_TOKEN": "tok"}
    project = load(text, env=env, base=tmp_path)
    (source,) = project.pipelines[0].sources
    assert source.uri == "https://prod.api.example.org/prod/orders"
    assert (
        Mask.around(project)("GET https://prod.api.example.org refused") == "GET https://prod.api.example.org refused"
    )
    shown = yaml.safe_load(show(project))
    assert shown["pipelines"]["p"]["sink"]["table_uri"] == "s3://lake-${STAGE}/orders"
    assert shown["connections"]["api"]["auth"]["token"] == "${API_TOKEN}"
    assert load(show(project), env=env, base=tmp_path).pipelines == project.pipelines


@pytest.mark.parametrize(
    ("source", "place", "remedy"),
    [
        ('path: "/bot${API_TOKEN}/x"', "source.path", "place: path"),
        ("type: files, source_uri: 's3://${API_TOKEN}/x'", "source.source_uri", "storage_options"),
        ("type: files, source_uri: in, pattern: '*${API_TOKEN}*'", "source.pattern", ""),
    ],
)
def test_a_secret_in_an_identity_is_refused_with_its_place_and_a_way_that_works(
    source: str, place: str, remedy: str, tmp_path: Path
) -> None:
    connection = "" if "files" in source else "connection: api, watermark_columns: [id], "
    text = f"""\
connections:
  api: {{type: http, url: "https://h"}}
pipelines:
  p:
    source: {{{connection}{source}}}
    sink: {{table_uri: lake/p}}
"""
    with pytest.raises(ConfigError) as caught:
        load(text, env={"API_TOKEN": MARK}, base=tmp_path)
    problems = [each for each in caught.value.problems if f"{place}: holds ${{API_TOKEN}}" in each]
    assert problems
    assert MARK not in str(caught.value)
    assert remedy in str(caught.value)


def test_a_random_run_id_is_accepted_where_its_variable_says_what_it_is(tmp_path: Path) -> None:
    text = "source: {path: 'in/${RUN_ID}'}\nsink: {path: lake}\n"
    project = load(text, env={"RUN_ID": "a1b2c3d4e5f6"}, base=tmp_path)
    assert project.pipelines[0].sources[0].uri.endswith("/in/a1b2c3d4e5f6")


POSTGRES = """\
connections:
  db: {type: jdbc, url: "jdbc:postgresql://localhost/postgres", user: postgres, password: "${PGPASSWORD}"}
pipelines:
  orders:
    source: {connection: db, table: public.orders, watermark_columns: [id]}
    sink: {table_uri: "data/${STAGE}/${B}/orders", storage_options: {AWS_REGION: eu-west-1, X_TOKEN: "${B:-abc}"}}
"""


@pytest.mark.parametrize("password", ["postgres", "orders", "append", "public", "a", "$", "${STAGE}", "pa$$w${ord"])
@pytest.mark.parametrize("b", ["A", "S", "$x", "eu-west-1", "prod"])
def test_what_show_prints_loads_to_the_same_in_the_same_environment(password: str, b: str, tmp_path: Path) -> None:
    env = {"PGPASSWORD": password, "STAGE": "prod", "B": b}
    project = load(POSTGRES, env=env, base=tmp_path)
    text = show(project)
    masked = text.replace("AWS_REGION: '***'", "AWS_REGION: eu-west-1")
    assert load(masked, env=env, base=tmp_path).pipelines == project.pipelines, text
    assert "data/${STAGE}/${B}/orders" in text or "$" in b  # which a path has as %24
    assert "jdbc:postgresql://localhost/postgres" in text


def test_ordinary_settings_garble_nothing(tmp_path: Path) -> None:
    text = """\
connections:
  api: {type: http, url: "https://h.example/eu-west-1", headers: {X-Region: eu-west-1, X-Version: "2022-11-28"}}
pipelines:
  orders:
    source: {connection: api, path: /2022-11-28/x, params: {region: eu-west-1}, watermark_columns: [id]}
    sink: {table_uri: "s3://data-eu-west-1/orders", storage_options: {AWS_REGION: eu-west-1}}
"""
    project = load(text, env={}, base=tmp_path)
    shown = yaml.safe_load(show(project))
    assert shown["connections"]["api"]["url"] == "https://h.example/eu-west-1"
    assert shown["pipelines"]["orders"]["sources"]["default"]["path"] == "/2022-11-28/x"
    assert shown["pipelines"]["orders"]["sources"]["default"]["params"] == {"region": "eu-west-1"}
    said = "2022-11-28T10:00:00Z read s3://data-eu-west-1/orders in eu-west-1"
    assert Mask.around(project)(said) == said


@pytest.mark.parametrize("name", ["state", "params", "config", "options", "auth", "body", "headers", "orders"])
def test_no_name_of_a_pipeline_or_connection_lets_a_secret_into_an_identity(name: str, tmp_path: Path) -> None:
    for path, url in (("/bot${API_TOKEN}/x", "https://h"), ("/x", "https://h/${API_TOKEN}")):
        text = f"""\
connections: {{{name}: {{type: http, url: "{url}"}}}}
pipelines:
  {name}:
    source: {{connection: {name}, path: "{path}", watermark_columns: [id]}}
    sink: {{table_uri: lake/p}}
"""
        for env, written in (({"API_TOKEN": MARK}, text), ({}, text.replace("API_TOKEN", f"API_TOKEN:-{MARK}"))):
            with pytest.raises(ConfigError) as caught:
                load(written, env=env, base=tmp_path)
            assert MARK not in str(caught.value)


def test_a_default_in_a_place_for_secrets_is_not_shown(tmp_path: Path) -> None:
    text = POSTGRES.replace("${PGPASSWORD}", f"${{PGPASSWORD:-{MARK}}}")
    for env in ({"STAGE": "a", "B": "b"}, {"STAGE": "a", "B": "b", "PGPASSWORD": "othervalue9"}):
        assert MARK not in show(load(text, env=env, base=tmp_path))


def test_a_secret_without_a_space_before_it_is_not_repeated(tmp_path: Path) -> None:
    text = POSTGRES.replace('password: "${PGPASSWORD}"', f"password:{MARK}")
    with pytest.raises(ConfigError) as caught:
        load(text, env={"STAGE": "a", "B": "b"}, base=tmp_path)
    assert MARK not in str(caught.value)
