#!/usr/bin/env bash
# Runs every test, as two processes beside each other: those that share one Spark session, and all others.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
.venv/bin/python -m pytest tests/spark >"$log" 2>&1 &
spark=$!
trap 'kill "$spark" 2>/dev/null; rm -f "$log"' EXIT
.venv/bin/python -m pytest --ignore=tests/spark
others=$?
wait "$spark"
with_spark=$?
echo "tests/spark:"
cat "$log"
[ "$others" -eq 0 ] && [ "$with_spark" -eq 0 ]
