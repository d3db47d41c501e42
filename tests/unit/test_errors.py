"""Errors travel: to and from workers by pickle, from tasks as JSON."""

from __future__ import annotations

import pickle

import pytest

from tidegate import errors

SAMPLES = [
    errors.TidegateError("it broke", "mend it"),
    errors.ConfigError(("one", "two")),
    errors.BadRecord("d=1/a.ndjson", 7, "not an object"),
    errors.AccessDenied("s3://lake/x: denied", "check the keys"),
    errors.WatermarkError("1 and 'a' cannot be compared", "give the column its former type"),
    errors.CommitLost("somebody was first"),
    errors.UnreadPages("https://api/x", "next", "/b", "there is a next page", "pagination: {type: next_link}", "less"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: errors.TidegateError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.remedy) == (type(error), str(error), error.remedy)


@pytest.mark.parametrize("error", [each for each in SAMPLES if not isinstance(each, errors.ConfigError)])
def test_an_error_survives_json(error: errors.TidegateError) -> None:
    back = errors.from_json(errors.to_json(error))
    assert (type(back), str(back), back.exit_code) == (type(error), str(error), error.exit_code)


def test_an_error_of_an_unknown_class_is_a_plain_one() -> None:
    back = errors.from_json({"error": "FromTheFuture", "arguments": ["what", "remedy"]})
    assert (type(back), str(back)) == (errors.TidegateError, "what - remedy")
