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

if ! .venv/bin/python -c 'from tidegate.spark.jars import find_java; find_java()' 2>/dev/null; then
  if root; then
    say "installing Java 17"
    apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless
  else
    say "installing Java 17 into ~/.jdk"
    .venv/bin/pip install -q --disable-pip-version-check install-jdk
    .venv/bin/python -c 'import jdk; print(jdk.install("17", jre=True))'
  fi
fi
.venv/bin/python -c 'from tidegate.spark.jars import find_java; print("java:", find_java())'
say "fetching the jars for Delta, for S3 and for the databases of the tests (once, 100 MB)"
.venv/bin/python -m tidegate.spark.jars
touch .venv/.ready
