# Bare `make` lists the targets. Every target sets up what it needs first.
.DEFAULT_GOAL := help
PY := .venv/bin/python
PYTEST := $(PY) -m pytest

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: pyproject.toml constraints.txt scripts/setup.sh native/Cargo.toml native/pyproject.toml $(wildcard native/src/*.rs)
	@scripts/setup.sh

setup: .venv/.ready ## create .venv, find or install Java, fetch the jars

demo: setup ## a first run on generated files: ingest, add late and new files, ingest again
	@.venv/bin/tidegate demo

test: setup ## everything CI runs: lint, unit tests, laws, model, Spark, S3, faults, docs
	scripts/test.sh

test-long: setup ## the same tests with every case of the long matrices (hours)
	TIDEGATE_LONG=1 scripts/test.sh

unit: setup ## unit tests and laws in a minute: no Spark, no server, nothing that takes long
	scripts/test.sh unit

dist: setup ## build wheels and source distributions into dist/; with cargo also the native reader (TARGETS="…" for other machines)
	rm -rf dist
	$(PY) -m build --outdir dist .
	if command -v cargo >/dev/null; then $(PY) -m build --sdist --outdir dist native && $(PY) scripts/native_wheels.py dist $(TARGETS); fi

release: setup ## make VERSION a release: version, changelog, commit and tag; NATIVE=x.y.z too if native/ has changed, DRY=1 only shows it
	@$(PY) scripts/release.py $(VERSION) $(if $(NATIVE),--native $(NATIVE)) $(if $(DRY),--dry-run)

test-dist: dist ## install the wheel into empty environments outside the repository and use it (minutes; needs the network)
	TIDEGATE_DIST=$(CURDIR)/dist $(PYTEST) tests/package

test-versions: setup ## Spark, kills, S3 and Connect under each supported Spark, in build/versions (hours; SPARK=4.0 for one)
	$(PY) scripts/test_versions.py $(SPARK)

test-lowest: setup ## unit tests, laws and Spark with the oldest admitted versions of everything, in build/lowest (an hour)
	$(PY) scripts/test_lowest.py

build/clouds/.ready:
	mkdir -p build/clouds
	GOBIN=$(CURDIR)/build/clouds go install github.com/fsouza/fake-gcs-server@v1.56.1
	npm install --prefix build/clouds --no-package-lock --no-audit --no-fund --ignore-scripts azurite@3.37.0
	touch $@

test-clouds: setup build/clouds/.ready ## the store and whole runs against emulated clouds (needs node and go; fetches 400 MB)
	TIDEGATE_CLOUDS=$(CURDIR)/build/clouds $(PYTEST) tests/contract tests/e2e/test_clouds.py -m clouds

build/prometheus/.ready:
	@mkdir -p $(@D)
	@command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "no Debian packages here: put prometheus, promtool, prometheus-pushgateway and prometheus-node-exporter into $(@D)/usr/bin, and touch $@"; exit 1; }
	cd $(@D) && { apt-get download prometheus prometheus-pushgateway prometheus-node-exporter || { echo "run apt-get update first"; exit 1; }; }
	cd $(@D) && for each in *.deb; do dpkg-deb -x $$each . || exit 1; done
	touch $@

test-integrations: setup build/prometheus/.ready ## alerts, dashboard and metrics against a real Prometheus, Pushgateway and node_exporter (fetches 26 MB)
	TIDEGATE_PROMETHEUS=$(CURDIR)/build/prometheus/usr/bin $(PYTEST) tests/integrations

lint: setup ## ruff, mypy --strict, import directions; and how large the house is
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	if command -v cargo >/dev/null; then cd native && cargo fmt --check && cargo clippy -q --release -- -D warnings; fi
	$(PYTEST) tests/unit/test_imports.py
	-@$(PY) scripts/house.py

format: setup ## let ruff rewrite the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: setup ## all benchmarks at full size (well over an hour)
	$(PY) -m benchmarks.all

bench-quick: setup ## a small version of each benchmark (a good minute)
	$(PY) -m benchmarks.all --quick

bench-scale: setup ## what grows with files, commits, sources and partitions, and how (a quarter of an hour; CASE=poll-s3 for the S3 server)
	$(PY) -m benchmarks.scale $(if $(CASE),--case $(CASE))

docs: setup ## the documentation as a site with search, in build/site; a broken link fails it
	$(PY) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(PY) scripts/site.py

pictures: setup ## draw the pictures of README and docs again, also those of the HTML report (needs chromium)
	$(PY) scripts/pictures.py
	$(PY) scripts/screenshots.py

CHAOS ?= --failures 10000 --kills 300 --spark-kills 20 --minutes 75

chaos: setup ## try to lose or double a row (10,000 failures, about an hour), and write docs/chaos-report.md; SEED=n repeats one
	rm -rf build/chaos
	mkdir -p build
	.venv/bin/tidegate chaos build/chaos/tables $(CHAOS) $(if $(SEED),--seed $(SEED)) --json > build/chaos.json || (cat build/chaos.json; exit 1)
	$(PY) scripts/chaos_report.py build/chaos.json "$(CHAOS)" > docs/chaos-report.md

clean: ## remove what builds and tests leave behind
	rm -rf build dist native/target .mypy_cache .ruff_cache .pytest_cache .hypothesis demo spark-warehouse

.PHONY: docs pictures help setup demo test test-long unit dist release test-dist test-versions test-lowest test-clouds test-integrations lint format bench bench-quick bench-scale chaos clean
