# make run    installs what is missing, builds, runs the proxy with the built-in defaults
# make test   installs what is missing, builds, runs every test
# make bench  measures the hop against HAProxy, Squid and tinyproxy
# make fuzz   runs the fuzzers, FUZZ_SECONDS each
# make soak   ten minutes of full load with clients and origins that misbehave
# make install DESTDIR=… PREFIX=…

SHELL := /bin/bash
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
PROXY_ARGUMENTS ?=

# What the Swift toolchain itself leans on, then what the proxy is built with.
BUILD_PACKAGES := binutils g++ git libcurl4 libedit2 liblzma5 libncurses6 libsqlite3-0 libxml2 pkg-config libc-ares-dev libidn2-dev libssl-dev libtomlplusplus-dev \
  libsimdjson-dev libexpat1-dev zlib1g-dev libbrotli-dev libzstd-dev libsystemd-dev
TEST_PACKAGES := python3 python3-venv curl wget busybox git nginx-light fcgiwrap apt-utils dpkg-dev openssl chromium \
  libnss3-tools netcat-openbsd iproute2 procps util-linux gcc libc6-dev openjdk-17-jdk-headless nodejs
BENCH_PACKAGES := nginx-light haproxy squid-openssl tinyproxy wrk gcc libc6-dev libssl-dev openssl util-linux python3
FUZZ_PACKAGES := lld

SWIFT_FLAGS := -c release --static-swift-stdlib
BINARY := .build/release/sallyport
VENV := .build/venv

.PHONY: all build run test unit-test end-to-end-test sanitizer-test bench fuzz soak format lint install clean
.PHONY: build-packages test-packages bench-packages fuzz-packages

all: build

# Asks dpkg first, so that a machine that has everything needs neither network nor root.
define need
	@missing=""; for package in $(1); do \
	  dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'install ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing$$missing"; \
	  $$sudo apt-get update -q && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	fi
endef

build-packages:
	$(call need,$(BUILD_PACKAGES))
test-packages:
	$(call need,$(BUILD_PACKAGES) $(TEST_PACKAGES))
bench-packages:
	$(call need,$(BUILD_PACKAGES) $(BENCH_PACKAGES))
fuzz-packages:
	$(call need,$(BUILD_PACKAGES) $(FUZZ_PACKAGES))

build: build-packages
	swift build $(SWIFT_FLAGS)

run: build
	$(BINARY) run $(PROXY_ARGUMENTS)

test: test-packages unit-test end-to-end-test

unit-test: build-packages
	swift test

$(VENV)/installed: Tests/EndToEndTests/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q -r Tests/EndToEndTests/requirements.txt
	touch $@

end-to-end-test: build $(VENV)/installed
	$(VENV)/bin/pytest -q Tests/EndToEndTests

bench: bench-packages build
	python3 Tests/Bench/bench.py

fuzz: fuzz-packages
	Tests/Fuzz/run $(FUZZ_SECONDS)

soak: test-packages build $(VENV)/installed
	$(VENV)/bin/python Tests/Bench/soak.py --seconds $(SOAK_SECONDS)

# The whole suite once under each sanitizer.
sanitizer-test: test-packages $(VENV)/installed
	for sanitizer in address thread; do \
	  swift test --sanitize=$$sanitizer --scratch-path .build/$$sanitizer || exit 1; \
	  swift build --sanitize=$$sanitizer --scratch-path .build/$$sanitizer --product sallyport || exit 1; \
	  SALLYPORT_SANITIZED=1 SALLYPORT_BINARY=.build/$$sanitizer/debug/sallyport \
	    $(VENV)/bin/pytest -q Tests/EndToEndTests || exit 1; \
	done

format:
	swift format --in-place --recursive Package.swift Sources Tests

lint:
	swift format lint --strict --recursive Package.swift Sources Tests

install:
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/sallyport
	install -d $(DESTDIR)$(SYSCONFDIR)/sallyport/policy.d
	[ -e $(DESTDIR)$(SYSCONFDIR)/sallyport/sallyport.toml ] || \
	  install -m 644 config/sallyport.toml $(DESTDIR)$(SYSCONFDIR)/sallyport/sallyport.toml
	for file in config/policy.d/*.toml; do \
	  target=$(DESTDIR)$(SYSCONFDIR)/sallyport/policy.d/$$(basename $$file); \
	  [ -e $$target ] || install -m 644 $$file $$target; \
	done

clean:
	rm -rf .build
