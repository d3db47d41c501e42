"""Every configuration of the corpus has the outcome that was recorded, byte for byte.

The corpus has the examples, the YAML of the documentation and the configurations of the tests: every key, every old
name, defaults, secrets, variables, and files that are wrong in every way that is told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.config_corpus import editor_schema, outcome, read
from tidegate.config.keys import every_key
from tidegate.config.normal_form import ALIASES
from tidegate.config.work_units import MS_KEYS

CORPUS = read()
ORIGINS = sorted({case["origin"] for case in CORPUS["cases"]})


@pytest.mark.slow
@pytest.mark.parametrize("origin", ORIGINS)
def test_outcomes_are_as_recorded(origin: str, tmp_path: Path) -> None:
    for case in CORPUS["cases"]:
        if case["origin"] == origin:
            assert outcome(case, tmp_path) == case["outcome"], case["text"]


def test_the_editor_schema_is_as_recorded() -> None:
    assert editor_schema() == CORPUS["schema"]


def test_the_corpus_has_accepted_files_wrong_files_and_files_with_notices() -> None:
    outcomes: list[dict[str, Any]] = [case["outcome"] for case in CORPUS["cases"]]
    assert sum("show" in each for each in outcomes) > 500
    assert sum("problems" in each for each in outcomes) > 500
    assert sum(bool(each.get("notices")) for each in outcomes) > 30


def test_every_key_and_every_old_name_occurs_in_an_accepted_file() -> None:
    text = "\n".join(case["text"] for case in CORPUS["cases"] if "show" in case["outcome"])
    words = set(re.findall(r"[\w.]+", text))
    old = {alias.old.rpartition(".")[2] for alias in ALIASES} | set(MS_KEYS)
    assert {key.name for key in every_key()} | old <= words


def parsed(text: str) -> object:
    return yaml.load(text, Loader=yaml.CSafeLoader)


@pytest.mark.slow
def test_the_canonical_form_of_the_corpus_is_yaml_that_means_itself(tmp_path: Path) -> None:
    accepted = [case for case in CORPUS["cases"] if "show" in case["outcome"]]
    for case in accepted[::20]:
        text = case["outcome"]["show"]
        again = outcome({"text": text, "stem": case["stem"], "env": case["env"]}, tmp_path)
        assert parsed(again["show"]) == parsed(text)
