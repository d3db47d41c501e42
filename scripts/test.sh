#!/usr/bin/env bash
# Runs every test, or with `unit` the quick ones, as two processes beside each other. The one that ends first goes on
# with the tests that start Java machines of their own.
set -uo pipefail
set -m # what runs in the background heeds an interrupt, as some tests need
cd "$(dirname "$0")/.."

own_java=(tests/spark/test_{ended_workers,sessions,spark_faults}.py)
with_spark=(tests/spark tests/compat tests/docs/test_snippets.py)
last=()
if [ "${1:-}" = unit ]; then
  quick=(tests/unit tests/laws -m "not slow and not s3")
  first=("${quick[@]}" --share 1/2)
  second=("${quick[@]}" --share 2/2)
else
  first=("${with_spark[@]/#/--ignore=}")
  second=("${with_spark[@]}" "${own_java[@]/#/--ignore=}")
  last=("${own_java[@]}")
fi

logs=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null; rm -rf "$logs"' EXIT

start() { # NAME ARGUMENTS...
  local log="$logs/$1"
  shift
  .venv/bin/python -m pytest "$@" >"$log" 2>&1 &
  running+=("$!")
}

start second "${second[@]}"
.venv/bin/python -m pytest "${first[@]}" &
running+=("$!")
if [ "${#last[@]}" -gt 0 ]; then
  while kill -0 "${running[0]}" 2>/dev/null && kill -0 "${running[1]}" 2>/dev/null; do sleep 1; done
  start last "${last[@]}"
fi
failed=0
for each in "${running[@]}"; do wait "$each" || failed=1; done
echo "Beside it: ${second[*]}"
cat "$logs/second"
if [ "${#last[@]}" -gt 0 ]; then
  echo "Then: ${last[*]}"
  cat "$logs/last"
fi
exit "$failed"
