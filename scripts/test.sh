#!/usr/bin/env bash
# Runs every test, or with `unit` the quick ones, as two processes beside each other that take about as long.
set -uo pipefail
cd "$(dirname "$0")/.."

with_spark=(tests/spark tests/compat tests/docs/test_snippets.py)
if [ "${1:-}" = unit ]; then
  quick=(tests/unit tests/laws -m "not slow and not s3")
  first=("${quick[@]}" --share 1/2)
  second=("${quick[@]}" --share 2/2)
else
  first=("${with_spark[@]/#/--ignore=}")
  second=("${with_spark[@]}")
fi

log=$(mktemp)
.venv/bin/python -m pytest "${second[@]}" >"$log" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null; rm -f "$log"' EXIT
.venv/bin/python -m pytest "${first[@]}"
of_first=$?
wait "$beside"
of_second=$?
echo "Beside it: ${second[*]}"
cat "$log"
[ "$of_first" -eq 0 ] && [ "$of_second" -eq 0 ]
