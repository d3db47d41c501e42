#!/usr/bin/env bash
# Runs every test, as two processes beside each other that take about as long: one with all that need Spark.
set -uo pipefail
cd "$(dirname "$0")/.."

beside=(tests/spark tests/model tests/laws tests/contract tests/state)
log=$(mktemp)
.venv/bin/python -m pytest "${beside[@]}" >"$log" 2>&1 &
spark=$!
trap 'kill "$spark" 2>/dev/null; rm -f "$log"' EXIT
.venv/bin/python -m pytest "${beside[@]/#/--ignore=}"
others=$?
wait "$spark"
with_spark=$?
echo "${beside[*]}:"
cat "$log"
[ "$others" -eq 0 ] && [ "$with_spark" -eq 0 ]
