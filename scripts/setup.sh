#!/usr/bin/env bash
# Makes .venv with pinned dependencies, finds or installs Java, fetches jars. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

python=""
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
  if [ -n "$candidate" ] && command -v "$candidate" >/dev/null \
    && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "setup: no Python 3.11 or newer found; install one or set PYTHON=/path/to/python" >&2; exit 1; }

if [ ! -x .venv/bin/pip ]; then
  say "creating .venv with $($python --version)"
  rm -rf .venv
  if ! $python -m venv .venv; then
    root || { echo "setup: '$python -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
    apt-get update -qq && apt-get install -y -qq python3-venv && $python -m venv .venv
  fi
fi
say "installing pinned dependencies (the first time takes a minute or two)"
.venv/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[test,dev]'

say "finding or installing Java, fetching the jars of Delta"
.venv/bin/tidegate setup --yes
say "fetching the jars for S3 and for the databases of the tests (once, 100 MB)"
.venv/bin/python -m tidegate.spark.jars
touch .venv/.ready
