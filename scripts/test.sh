#!/usr/bin/env bash
# Runs lint and every test, or with `unit` the quick tests, as two processes beside each other. Each takes the next job
# of the list as soon as it is done with one, and prints what the job said. Long jobs come first, so that both end together.
set -uo pipefail
set -m # what runs in the background heeds an interrupt, as some tests need
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # else every process that a test starts would compile all modules again
work=$(mktemp -d)

own_java=(tests/spark/test_{ended_workers,sessions,spark_faults,submit,worker_pythons}.py)
pytest=".venv/bin/python -m pytest"
if [ "${1:-}" = unit ]; then
  export TIDEGATE_QUICK=1
  jobs=("$pytest tests/laws tests/unit -m 'not slow and not s3' --beside $work/files "{,})
else
  jobs=(
    "$pytest tests/spark tests/compat tests/docs/test_snippets.py ${own_java[*]/#/--ignore=}"
    "$pytest tests/unit tests/laws"
    "$pytest tests/faults"
    "$pytest tests/e2e"
    "$pytest tests/contract tests/docs tests/model tests/state --ignore=tests/docs/test_snippets.py"
    "make -s lint"
    "$pytest ${own_java[*]}"
  )
fi

trap 'trap - EXIT; kill -- "${workers[@]/#/-}" 2>/dev/null; rm -rf "$work"' EXIT

take_jobs() { # does one job after another that nobody else has taken
  set +m # a job dies with the one who took it
  local number job said began
  for number in "${!jobs[@]}"; do
    mkdir "$work/$number" 2>/dev/null || continue
    job=${jobs[$number]} said="$work/$number/said" began=$SECONDS
    echo "Begun: $job"
    bash -c "$job" >"$said" 2>&1 && touch "$work/$number/passed"
    flock "$work" bash -c 'echo; echo "Done in $1 s: $2"; cat "$3"' - "$((SECONDS - began))" "$job" "$said"
  done
}

workers=()
for _ in 1 2; do
  take_jobs &
  workers+=("$!")
done
wait
for number in "${!jobs[@]}"; do
  [ -e "$work/$number/passed" ] || exit 1
done
