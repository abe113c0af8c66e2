# make run    installs what is missing, builds, runs the proxy with the built-in defaults
# make test   installs what is missing, builds, runs every test
# make bench  measures the hop against HAProxy, Squid and tinyproxy
# make fuzz   runs the fuzzers, FUZZ_SECONDS each
# make soak   ten minutes of full load with clients and origins that misbehave
# make install DESTDIR=… PREFIX=…
# make deb    makes a Debian package, .build/deb/sallyport_VERSION_ARCHITECTURE.deb

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
# Below PREFIX, /usr or /usr/local, systemd, man and the shells look here by themselves.
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/sallyport
BASHCOMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPLETIONDIR ?= $(PREFIX)/share/zsh/site-functions
FISHCOMPLETIONDIR ?= $(PREFIX)/share/fish/vendor_completions.d
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
PROXY_ARGUMENTS ?=

# What the Swift toolchain itself leans on, then what the proxy is built with.
BUILD_PACKAGES := binutils g++ git libcurl4 libedit2 liblzma5 libncurses6 libsqlite3-dev libxml2 pkg-config libc-ares-dev libidn2-dev libnghttp2-dev libssl-dev libtomlplusplus-dev \
  libsimdjson-dev libexpat1-dev libkrb5-dev libncurses-dev zlib1g-dev libbrotli-dev libzstd-dev libsystemd-dev
TEST_PACKAGES := python3 python3-venv curl wget busybox git nginx-light fcgiwrap apt-utils dpkg-dev openssl chromium \
  libnss3-tools netcat-openbsd iproute2 procps util-linux gcc libc6-dev openjdk-17-jdk-headless nodejs \
  tinyproxy squid-openssl haproxy microsocks dante-server prometheus apache2-bin lighttpd node-express libtomcat10-java \
  golang-go golang-google-grpc-dev nghttp2-proxy nghttp2-client nghttp2-server tmux libjetty9-java krb5-kdc krb5-admin-server libgssapi-krb5-2
BENCH_PACKAGES := nginx-light haproxy squid-openssl tinyproxy wrk gcc libc6-dev libssl-dev openssl util-linux python3
FUZZ_PACKAGES := lld
DEB_PACKAGES := build-essential debhelper
SYSTEM_TEST_PACKAGES := $(DEB_PACKAGES) bash debootstrap fish lintian man-db mandoc systemd-container util-linux zsh

# No local rpath: an installed program must not take libraries from the directory that it is in. Bound at the start, so
# that the table of functions is read-only. The interface of a module comes out of the compilation itself: in a run of its
# own it takes a tenth of the CPU of the program's build, a quarter of that of the tests', and nothing is built earlier.
SWIFT_FLAGS := -c release --static-swift-stdlib --disable-local-rpath -Xlinker -z -Xlinker now \
  -Xswiftc -no-emit-module-separately-wmo
BINARY := .build/release/sallyport
# The tests are built a module at a time, and without debug information, which takes six tenths of the CPU. `swift test` alone
# builds a file at a time, below .build/debug: after a small change that is faster.
TEST_FLAGS := --scratch-path .build/tests --disable-xctest -debug-info-format none -Xswiftc -whole-module-optimization \
  -Xswiftc -num-threads -Xswiftc 2 -Xswiftc -no-emit-module-separately-wmo
VENV := .build/venv
# Two workers a processor, for more than half of what a test does is to wait; with three, those that count seconds fail. Each
# has a network namespace of its own. Where so many fail, something is wrong with the machine or with all of them, and the
# rest would only wait for it.
PYTEST = $(VENV)/bin/pytest -q -n $$((2 * $$(nproc))) --dist worksteal --maxfail 30
LOGGED = 2>&1 | tee .build/$@.log
# Of what pytest, Swift Testing and the compiler print: what failed and why, and the closing line.
FAILURES := '^(FAILED|ERROR|E |INTERNALERROR>) |^✘|^=+ .* =+$$|^[0-9]+ (passed|failed|error)|^/[^ ]+: error: |^error: |Fatal error'

.PHONY: all build build-tests run test unit-test end-to-end-test system-test sanitizer-test bench fuzz soak format lint install deb
.PHONY: clean build-packages test-packages bench-packages fuzz-packages deb-packages system-test-packages

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
deb-packages:
	$(call need,$(BUILD_PACKAGES) $(DEB_PACKAGES))
system-test-packages:
	$(call need,$(BUILD_PACKAGES) $(TEST_PACKAGES) $(SYSTEM_TEST_PACKAGES))

build: build-packages
	@mkdir -p .build
	swift build $(SWIFT_FLAGS) $(LOGGED)

run: build
	$(BINARY) run $(PROXY_ARGUMENTS)

# Together, because none of it keeps two processors busy by itself. The program is built first. Then the tests of the system,
# which mostly wait for it to boot, and after them those that run the program. The modules' tests are built and run with
# what these leave of the processors. Whoever ends last, what failed is said once more after it.
test: test-packages system-test-packages
	@rm -f .build/*.log
	$(MAKE) --no-print-directory -j 3 --output-sync=target AFTER=system-test $(VENV)/installed end-to-end-test unit-test || \
	  { status=$$?; echo 'What failed:'; grep -ahsE $(FAILURES) .build/*.log | tail -n 60; exit $$status; }

build-tests: build-packages
	@mkdir -p .build
	$$(chrt --idle 0 true 2>/dev/null && echo chrt --idle 0) swift build --build-tests $(TEST_FLAGS) $(LOGGED)

unit-test: build-tests
	nice swift test --skip-build $(TEST_FLAGS) $(LOGGED)

$(VENV)/installed: Tests/EndToEndTests/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q -r Tests/EndToEndTests/requirements.txt
	touch $@

end-to-end-test: build $(VENV)/installed $(AFTER)
	$(PYTEST) Tests/EndToEndTests $(LOGGED)

system-test: system-test-packages build $(VENV)/installed
	$(VENV)/bin/pytest -q Tests/SystemTests $(LOGGED)

bench: bench-packages build
	python3 Tests/Bench/bench.py

fuzz: fuzz-packages
	Tests/Fuzz/run $(FUZZ_SECONDS)

soak: test-packages build $(VENV)/installed
	$(VENV)/bin/python Tests/Bench/soak.py --seconds $(SOAK_SECONDS)

# The whole suite once under each sanitizer: the modules as they are debugged, the program as it is shipped; and ten thousand
# streams, five thousand with each kind of origin.
sanitizer-test: export LSAN_OPTIONS = suppressions=$(CURDIR)/Tests/Fuzz/leaks.supp:print_suppressions=0
sanitizer-test: export TSAN_OPTIONS = suppressions=$(CURDIR)/Tests/Fuzz/races.supp
sanitizer-test: test-packages $(VENV)/installed
	for sanitizer in address thread; do \
	  swift test --sanitize=$$sanitizer --scratch-path .build/$$sanitizer || exit 1; \
	  swift build -c release --sanitize=$$sanitizer --scratch-path .build/$$sanitizer --product sallyport || exit 1; \
	  SALLYPORT_SANITIZED=1 SALLYPORT_STREAMS=5000 SALLYPORT_BINARY=$(CURDIR)/.build/$$sanitizer/release/sallyport \
	    $(PYTEST) Tests/EndToEndTests || exit 1; \
	done

format: build-packages
	swift format --in-place --recursive Package.swift Sources Tests

lint: build-packages
	swift format lint --strict --recursive Package.swift Sources Tests

# Files of the configuration that are there already stay as they are.
install:
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/sallyport
	install -d $(DESTDIR)$(SYSCONFDIR)/sallyport/policy.d
	for file in sallyport.toml $$(cd config && echo policy.d/*.toml); do \
	  target=$(DESTDIR)$(SYSCONFDIR)/sallyport/$$file; \
	  [ -e $$target ] || install -m 644 config/$$file $$target || exit 1; \
	done
	install -d $(DESTDIR)$(UNITDIR)
	install -m 644 systemd/sallyport.socket systemd/sallyport-admin.socket $(DESTDIR)$(UNITDIR)
	sed -e 's|/usr/bin/sallyport|$(PREFIX)/bin/sallyport|' -e 's|--config /etc|--config $(SYSCONFDIR)|' \
	  systemd/sallyport.service >$(DESTDIR)$(UNITDIR)/sallyport.service
	chmod 644 $(DESTDIR)$(UNITDIR)/sallyport.service
	install -D -m 644 systemd/sysusers.d/sallyport.conf $(DESTDIR)$(SYSUSERSDIR)/sallyport.conf
	install -D -m 644 systemd/tmpfiles.d/sallyport.conf $(DESTDIR)$(TMPFILESDIR)/sallyport.conf
	for page in systemd/man/*; do \
	  install -D -m 644 -t $(DESTDIR)$(MANDIR)/man$${page##*.} $$page || exit 1; \
	done
	install -D -m 644 -t $(DESTDIR)$(DATADIR)/prometheus config/prometheus/sallyport.rules.yml
	install -D -m 644 -t $(DESTDIR)$(DATADIR)/grafana config/grafana/sallyport.json
	install -D -m 644 systemd/completions/sallyport.bash $(DESTDIR)$(BASHCOMPLETIONDIR)/sallyport
	install -D -m 644 systemd/completions/sallyport.zsh $(DESTDIR)$(ZSHCOMPLETIONDIR)/_sallyport
	install -D -m 644 systemd/completions/sallyport.fish $(DESTDIR)$(FISHCOMPLETIONDIR)/sallyport.fish
	@[ -n "$(DESTDIR)" ] || printf '%s\n' 'To run the proxy now and at each boot:' '  systemd-sysusers' \
	  '  systemd-tmpfiles --create' '  systemctl daemon-reload' \
	  '  systemctl enable --now sallyport.socket sallyport-admin.socket sallyport.service'

deb: deb-packages build
	systemd/debian/build-package $(BINARY) .build/deb

clean:
	rm -rf .build
