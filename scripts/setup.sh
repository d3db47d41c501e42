#!/usr/bin/env bash
# Makes .venv with pinned dependencies, builds the native reader, finds or installs Java, fetches jars. Safe to run again.
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
.venv/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[spark,test,dev]'

native_wheels() { compgen -G 'dist/tidegate_native-*.whl' >/dev/null; }
if command -v cargo >/dev/null; then
  say "building the native reader of JSON (the first time takes a minute)"
  .venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ./native \
    || say "the native reader could not be built: JSON is read by the slower reader"
elif native_wheels; then
  say "installing the native reader of JSON from dist/"
  .venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps --no-index --find-links dist tidegate-native \
    || say "the wheel in dist/ does not fit: JSON is read by the slower reader"
else
  say "without a Rust compiler: JSON is read by the slower reader (with cargo in PATH, run this again)"
fi

say "finding or installing Java, fetching the jars of Delta"
.venv/bin/tidegate setup --yes
say "fetching the jars for S3 and for the databases of the tests (once, 100 MB)"
.venv/bin/python -m tidegate.spark.jars
touch .venv/.ready
