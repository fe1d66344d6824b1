# SPDX-License-Identifier: BSD-2-Clause
#
#   make              build/perfx-trace
#   make deps         install the packages that make needs (Debian 12), or name them elsewhere
#   make check        unit tests and golden replays; no root
#   make check-bpf    known-answer tests on the running kernel; root
#   make test         the tests of every change; installs their packages first: ten minutes
#   make test-all     each kind of link, other kernels, current PyTorch and JAX, soak: an hour or two
#   make demo         start a PyTorch trainer, attach to it, leave demo-report.md
#   make help         the rest
#
#   V=1 shows commands   DEBUG=1 -O0   SAN=address,undefined   WERROR=1 (CI)   BUILD=build

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
# Virtual environment of check-ml, with PyTorch and JAX.
ML_VENV ?= $(BUILD)/ml-venv
# Virtual environment of check-ml, with TensorFlow.
TF_VENV ?= $(BUILD)/tf-venv
# Folder of check-breadth, with a virtual environment for each group of packages.
BREADTH ?= $(BUILD)/breadth

CC      ?= cc
CXX     ?= c++
CLANG   ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
ARCH    ?= $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s%s\n' '$(1)' '$(2)';)

WARN   := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes \
          $(if $(WERROR),-Werror)
OPT    := $(if $(DEBUG),-O0 -g3,$(if $(SAN),-O1 -g1,-O2 -g))
# Makes packages reproducible: BTF contains the names of source files.
NO_PATHS := -ffile-prefix-map=$(CURDIR)=.
SANFL  := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
PKGS   := libbpf libelf libdw zlib libzstd liblzma jansson ncursesw libmicrohttpd sqlite3 libcurl
CPPFLAGS += -D_GNU_SOURCE -DPERFX_VERSION='"$(VERSION)"' -Iinclude -Iuser -I$(BUILD) $(if $(filter-out $(BUILD),$(BPF_BUILD)),-I$(BPF_BUILD))
CFLAGS   += -std=gnu11 $(OPT) $(WARN) $(SANFL) -fno-strict-aliasing
LDFLAGS  += $(SANFL)
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lZydis -liberty -lm -lpthread

# Everything from decode on needs no root, libbpf or globals. The unit tests link it as one archive,
# from which a test takes only the objects that it needs.
USER_SRC := $(filter-out user/cmd/main.c user/libperfx/% user/agent/%,$(wildcard user/*/*.c user/*/*/*.c))
USER_OBJ := $(USER_SRC:%.c=$(BUILD)/%.o)
BPF_SRC  := $(wildcard bpf/*.bpf.c)
# A build with sanitizers uses the BPF programs of the ordinary build.
BPF_BUILD ?= $(BUILD)
BPF_OBJ  := $(BPF_SRC:bpf/%.bpf.c=$(BPF_BUILD)/bpf/$(ARCH)/%.bpf.o)
SKEL     := $(BPF_BUILD)/perfx.skel.h
LIB      := $(BUILD)/libperfx-core.a
BIN      := $(BUILD)/perfx-trace
LIBPERFX := $(BUILD)/libperfx.so.1
# Files that `perfx-trace run` loads into programs; lib/perfx in an installation.
AGENT    := $(BUILD)/lib/perfx/libperfx-gpu.so
HOOKS    := $(AGENT) $(addprefix $(BUILD)/lib/perfx/,libperfx-nvtx.so libperfx-python.so \
              python/sitecustomize.py python/perfx_functions.py)
# The program writes the options of the man page.
MAN      := $(BUILD)/perfx-trace.1
HTML     := user/report/html/report.css user/report/html/report.js
PAGE     := user/serve/page.css user/serve/page.js
HTML_H   := $(BUILD)/report_html.h $(BUILD)/page_html.h
# Sources of the JSON report's names: its columns, its other members, and the words of enumerations
# that are members.
NAMED    := $(wildcard user/report/table/columns*.c) $(wildcard user/report/json/*.c) user/decode/names.c \
            include/perfx_record.h $(wildcard user/aggregate/profile*.h) user/counters/counters.c
NAMES_H  := $(BUILD)/report_names.h
OPERATORS_H := $(BUILD)/operators_text.h
TEXTS_H  := $(BUILD)/finding_texts.h $(BUILD)/remedy_texts.h $(BUILD)/loss_texts.h \
            $(BUILD)/verb_texts.h $(BUILD)/option_texts.h
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/unit/%)
E2E_BIN  := $(BUILD)/e2e/cost $(BUILD)/e2e/samples $(BUILD)/e2e/dwfl_stacks $(BUILD)/e2e/inject \
	    $(BUILD)/e2e/shift

# These goals build nothing or install their tools first; all others need the tools now.
ifneq ($(filter-out help deps demo test test-all ci soak deb dist wheel uninstall clean,$(or $(MAKECMDGOALS),all)),)
MISSING := $(shell CC='$(CC)' CLANG='$(CLANG)' BPFTOOL='$(BPFTOOL)' .ci/deps --missing build)
ifneq ($(MISSING),)
$(error $(MISSING) $(if $(word 2,$(MISSING)),are,is) missing: sudo make deps)
endif
endif

.DELETE_ON_ERROR:
.PHONY: all help deps
all: $(BIN) $(LIBPERFX) $(HOOKS) $(MAN)

help:
	@sed -n '3,10p;12p' Makefile | sed 's/^# \{0,1\}//'
	@echo '  make check-kernels          known-answer tests on Debian 6.1 and 6.12 kernels, in qemu'
	@echo '  make soak                   an hour over processes that come and go (SOAK=seconds); 100 times'
	@echo '                              attach and detach on a live trainer (ROUNDS=)'
	@echo '  make check-ml               tests against current PyTorch, JAX, TensorFlow (ML_VENV=, TF_VENV=)'
	@echo '  make check-gpu              reports of an NVIDIA GPU at work beside what is known (PART=known,torch,…)'
	@echo '  make check-breadth          reports of real packages of PyPI beside what they know themselves (BREADTH=)'
	@echo '  make check-san              unit tests under ASan and UBSan'
	@echo '  make fuzz                   damaged files by coverage, a minute for each kind (FUZZ=seconds FUZZ_DOOR=)'
	@echo '  make bench                  what tracing costs, beside peers; BENCH=calls|cnn|small|memory|ring|…'
	@echo '  make workloads golden-update lint format'
	@echo '  make install uninstall      PREFIX=$(PREFIX) DESTDIR='
	@echo '  make deb dist wheel         packages for machines without a compiler, in $(BUILD)'
	@echo '  make check-packages         installs them in fresh systems of Debian 12 and 13 (ROOTS=)'
	@echo '  make check-fresh            make demo and make test in a fresh Debian 12'
	@echo '  make clean'

deps:
	@.ci/deps build

# The build settings of a file: written only if they have changed, so that SAN=, DEBUG= and a removed
# source file cause a rebuild.
FLAGS_user = $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
FLAGS_bpf  = $(CLANG) $(call BPF_CFLAGS,ARCH) $(BPF_SRC)
FLAGS_wl   = $(CC) $(CXX) $(WL_FLAGS)
FLAGS_core = $(USER_OBJ)
.PHONY: FORCE
$(sort $(addprefix $(BUILD)/,user.flags wl.flags core.flags) $(BPF_BUILD)/bpf.flags): %.flags: FORCE
	+@mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(FLAGS_$(*F)))' > $@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(BIN): $(BUILD)/user/cmd/main.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(MAN): docs/perfx-trace.1.in $(BIN)
	$(call say,GEN,$@)
	$(Q)$(BIN) generate-man < $< > $@

$(LIB): $(USER_OBJ) $(BUILD)/core.flags
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsP $@ $(USER_OBJ)

# The library of annotated programs: an ordinary build despite SAN and DEBUG, without the C library.
# python/build_wheel.py does the same.
LIB_FLAGS := -std=c11 -O2 -g -fPIC -fvisibility=hidden -shared -nostdlib $(NO_PATHS) \
             -Wl,-soname,libperfx.so.1
$(LIBPERFX): user/libperfx/perfx.c include/perfx.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LIB_FLAGS) $(WARN) -Iinclude -o $@ $<

$(BUILD)/lib/perfx/libperfx-nvtx.so: user/libperfx/nvtx.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -shared $(NO_PATHS) -Wl,-soname,$(@F) $(WARN) \
		-o $@ $<

# The agent in a process that uses a GPU: an ordinary build that needs only functions of glibc 2.17
# (user/agent/libc.h). It is also embedded in perfx-trace, for injection into running programs.
AGENT_LIBS := -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0
$(AGENT): $(wildcard user/agent/*.[ch]) include/perfx_agent.h $(wildcard include/perfx_record*.h)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -D_GNU_SOURCE -fPIC -fvisibility=hidden -shared $(NO_PATHS) \
		-Wl,-soname,$(@F),-z,nodelete,-z,relro $(WARN) -Iinclude -o $@ $(filter %.c,$^) $(AGENT_LIBS)

$(BUILD)/user/gpu/agent_image.o: $(AGENT)

# A separate file that no other process maps, so its probes affect none.
$(BUILD)/lib/perfx/libperfx-python.so: $(LIBPERFX)
	$(Q)mkdir -p $(@D) && cp $< $@

$(BUILD)/lib/perfx/python/%.py: python/level/%.py
	$(Q)mkdir -p $(@D) && cp $< $@

# An object that includes the generated skeleton must wait for it in the first build; later the
# dependency files ensure that.
$(BUILD)/user/%.o: user/%.c $(BUILD)/user.flags | $(SKEL) $(HTML_H) $(NAMES_H) $(OPERATORS_H) $(TEXTS_H)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Style and script of the HTML report and of the live page as C, with the hashes for their content
# security policy.
$(BUILD)/report_html.h: $(HTML)
$(BUILD)/page_html.h: $(PAGE)
$(HTML_H):
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)for file in $^; do \
		name=$$(basename $$file | tr . _); \
		hash=$$(sha256sum $$file | cut -c1-64 | xxd -r -p | base64); \
		printf '#define %s_hash "sha256-%s"\nstatic const unsigned char %s[] = {\n' \
			$$name $$hash $$name; \
		xxd -i < $$file; echo '};'; \
	done > $@

# All words that may name a member: any other name in a template is an error.
$(NAMES_H): $(NAMED)
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ echo 'static const char *const report_names[] = {'; \
		sed -E '/ (CSV|SQL)}/d' $(NAMED) | grep -o '"[a-z][a-z0-9_-]*"' | sort -u | sed 's/$$/,/'; \
		echo '};'; } > $@

# The built-in rules of --operators, as a string.
$(OPERATORS_H): user/plan/operators.txt
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ echo 'static const char operators_text[] ='; \
		sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $<; echo ';'; } > $@

# Texts of findings, verbs and options.
$(BUILD)/finding_texts.h: $(wildcard user/analyze/findings/*.md)
$(BUILD)/finding_texts.h: MEMBERS := key=kind first=says rest=judges code=example prefix=FINDING
$(BUILD)/remedy_texts.h: user/analyze/remedies.md
$(BUILD)/remedy_texts.h: MEMBERS := prefix=TRY
$(BUILD)/loss_texts.h: user/analyze/losses.md
$(BUILD)/loss_texts.h: MEMBERS := first=what rest=remedy prefix=LOSS
$(BUILD)/verb_texts.h: user/cmd/verbs.md
$(BUILD)/verb_texts.h: MEMBERS := first=help rest=man prefix=VERB_TEXTS
$(BUILD)/option_texts.h: user/cmd/options.md
$(BUILD)/option_texts.h: MEMBERS := first=help rest=man prefix=OPTION_TEXTS
$(TEXTS_H): user/texts.awk
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk -f $< $(MEMBERS) $(filter %.md,$^) > $@

# --- BPF ------------------------------------------------------------------------------------
BPF_CFLAGS = -g -O2 -target bpf -mcpu=v3 -std=gnu11 -Wall -Wextra -Wno-unused-parameter \
             -Wno-missing-declarations $(if $(WERROR),-Werror) -D__TARGET_ARCH_$(1) \
             $(NO_PATHS) -Iinclude -Ibpf -Ivmlinux \
             $(addprefix -idirafter ,$(wildcard /usr/include/$(shell $(CC) -print-multiarch)))

# Kernel types come from vmlinux/, so that builds are equal everywhere: accesses are relocated when the
# programs are loaded (CO-RE).
define bpf_rules
$(BPF_BUILD)/bpf/$(1)/%.bpf.o: bpf/%.bpf.c $(BPF_BUILD)/bpf.flags
	$$(call say,BPF,$$<)
	$(Q)mkdir -p $$(@D)
	$(Q)$(CLANG) $$(call BPF_CFLAGS,$(1)) -MMD -MP -c -o $$@ $$<

# Linking drops the debug information and keeps the BTF.
$(BPF_BUILD)/bpf/$(1)/perfx.bpf.o: $(BPF_SRC:bpf/%.bpf.c=$(BPF_BUILD)/bpf/$(1)/%.bpf.o)
	$$(call say,GEN,$$@)
	$(Q)$(BPFTOOL) gen object $$@ $$^
endef
$(eval $(call bpf_rules,x86))
$(eval $(call bpf_rules,arm64))

$(SKEL): $(BPF_BUILD)/bpf/$(ARCH)/perfx.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name perfx_bpf > $@

.PHONY: bpf-arm64
bpf-arm64: $(BPF_BUILD)/bpf/arm64/perfx.bpf.o

# --- tests ----------------------------------------------------------------------------------
# Links a hundred programs in a third of the time that GNU ld needs.
LLD := $(if $(shell command -v ld.lld),-fuse-ld=lld)
# The tested code is optimized; its tests are compiled without -O, which takes half the time.
$(BUILD)/unit/%: tests/unit/%.c $(LIB) $(BUILD)/user.flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -O0 -MMD -MP $(LDFLAGS) $(LLD) -o $@ $< $(LIB) -lcriterion $(LDLIBS)

# These two first install missing packages, then run another make on all processors. Files that root
# has built are given to the user who called sudo.
AGAIN     = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
GIVE_BACK = [ -z "$$SUDO_UID" ] || chown -hR "$$SUDO_UID:$$SUDO_GID" $(BUILD)
RUN_TESTS = @UNIT='$(UNIT_BIN)' SAN_UNIT='$(SAN_UNIT)' FUZZ='$(FUZZ)' FUZZ_DOOR='$(FUZZ_DOOR)' \
            BUILD=$(BUILD) ML_VENV=$(abspath $(ML_VENV)) TF_VENV=$(abspath $(TF_VENV)) \
            BREADTH=$(BREADTH) tests/run

.PHONY: test test-all tests demo check check-bpf check-kernels check-packages check-fresh check-ml \
        check-breadth check-gpu soak
test:
	@.ci/deps build test
	$(AGAIN) tests
	$(RUN_TESTS) unit python bpf; code=$$?; $(GIVE_BACK); exit $$code

# make test with each kind of link, and long tests: an hour or two.
test-all:
	@.ci/deps build test long kernels chroot
	$(AGAIN) tests deb dist wheel $(ML_VENV)/.done $(TF_VENV)/.done
	$(SAN_MAKE) $(SAN_UNIT) $(FUZZ_BIN)
	@export PERFX_TESTS=all PERFX_FLAKY=fail; $(RUN_TESTS:@%=%) unit san python bpf ml breadth soak kernels packages fresh fuzz; \
		code=$$?; $(GIVE_BACK); exit $$code

tests: $(BIN) $(LIBPERFX) $(HOOKS) $(MAN) $(UNIT_BIN) workloads $(E2E_BIN)

demo:
	@.ci/deps build demo
	$(AGAIN) $(BIN)
	@BUILD=$(BUILD) tests/demo; code=$$?; $(GIVE_BACK); exit $$code

check: $(BIN) $(LIBPERFX) $(UNIT_BIN)
	$(RUN_TESTS) unit python

check-bpf: $(BIN) $(LIBPERFX) $(HOOKS) $(MAN) workloads $(E2E_BIN)
	$(RUN_TESTS) bpf

check-kernels: $(BIN) workloads $(E2E_BIN)
	@.ci/deps kernels
	@BUILD=$(BUILD) tests/kernels/check

# ROOTS='noble=/srv/noble fedora=…' names folders with other systems for the tarball.
check-packages: deb dist wheel $(BIN) $(addprefix $(BUILD)/workloads/,calls gpu_agent)
	@.ci/deps chroot
	$(RUN_TESTS) packages; code=$$?; $(GIVE_BACK); exit $$code

# Runs make demo and make test in a fresh Debian 12: 20 minutes.
check-fresh: $(BIN) $(BUILD)/workloads/calls
	@.ci/deps chroot
	$(RUN_TESTS) fresh; code=$$?; $(GIVE_BACK); exit $$code

check-ml: $(BIN) $(LIBPERFX) $(ML_VENV)/.done $(TF_VENV)/.done
	$(RUN_TESTS) ml

PART ?= known,torch,verdicts,cycles,cost,memory,nvml
check-gpu: $(BIN)
	tests/gpu/check --only $(PART)

# Traces eighteen programs of pinned packages, and prints a table: half an hour, 6 GB at a time.
check-breadth: $(BIN)
	@.ci/deps ml
	$(RUN_TESTS) breadth

# Half an hour of each endless recording while processes come and go (SOAK=1800), and a hundred rounds
# on a live PyTorch trainer (ROUNDS=100). Not part of test; test-all runs minutes of the first.
soak: $(BIN) workloads
	@.ci/deps build test
	$(RUN_TESTS) soak

$(ML_VENV)/.done: tests/e2e/ml/requirements.txt
	@.ci/deps ml
	/usr/bin/python3 -m venv $(@D)
	$(@D)/bin/pip install -r $<
	@touch $@

$(TF_VENV)/.done: tests/e2e/ml/requirements-tf.txt
	@.ci/deps ml
	/usr/bin/python3 -m venv $(@D)
	$(@D)/bin/pip install -r $< && touch $@ || echo 'no TensorFlow here: its tests are skipped'

# One build with ASan and UBSan, by clang, for the unit tests and the fuzzers.
SAN_BUILD := $(BUILD)/san
SAN_MAKE   = +$(Q)$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) \
             BUILD=$(SAN_BUILD) BPF_BUILD=$(BUILD) CC='$(CLANG)' WARN=-Wall \
             SAN=address,undefined,fuzzer-no-link
# These two start compilers, and run little or nothing of perfx-trace.
SAN_UNIT  := $(filter-out %/test_perfx_h %/test_markers,$(UNIT_SRC:tests/unit/%.c=$(SAN_BUILD)/unit/%))

# Coverage-guided fuzzers (clang's libFuzzer) for each entry of untrusted bytes. FUZZ= seconds for each,
# FUZZ_DOOR='elf notes'; useful inputs stay in the build folder.
FUZZ      ?= 60
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_DOOR ?= $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%)
FUZZ_BIN   = $(FUZZ_DOOR:%=$(SAN_BUILD)/fuzz_%) $(SAN_BUILD)/seeds

.PHONY: check-san fuzz ci
check-san:
	$(SAN_MAKE) $(SAN_UNIT)
	$(RUN_TESTS) san

fuzz:
	$(SAN_MAKE) $(FUZZ_BIN)
	$(RUN_TESTS) fuzz

# make test and make lint with the unit tests under ASan and UBSan, and the fuzzers: .ci/run. While the
# end-to-end tests wait, lint runs and the sanitizer build is made. Six fuzzers at a time, each for five
# seconds; make test-all gives each a minute.
MORE = env -u MAKEFLAGS $(MAKE) -j$(shell nproc) $(MAKEOVERRIDES) san-programs
.PHONY: san-programs
san-programs:
	$(SAN_MAKE) $(SAN_UNIT) $(FUZZ_BIN)

ci: FUZZ = 5
ci:
	@.ci/deps build test lint
	$(AGAIN) $(BIN) $(LIBPERFX) $(HOOKS) $(MAN) workloads $(E2E_BIN)
	@export FUZZ_JOBS=6 BESIDE='lint build' BUILD_MORE='$(MORE)'; $(RUN_TESTS:@%=%) python bpf san fuzz; \
		code=$$?; $(GIVE_BACK); exit $$code

FUZZ_OBJ := $(patsubst tests/%.c,$(BUILD)/%.o,$(wildcard tests/fuzz/*.c))
$(FUZZ_OBJ): $(BUILD)/fuzz/%.o: tests/fuzz/%.c $(BUILD)/user.flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP -c -o $@ $<

# Compiled with the tests, so that they follow changes of the code that they call; linked by clang.
tests: $(FUZZ_OBJ)

# ASan does not know the ends of mapped files, so fuzz_image.h reads them to the heap. Linked by GNU ld:
# lld also wraps the calls in the file that defines a function.
$(BUILD)/fuzz_%: FUZZ_MAIN := -fsanitize=fuzzer
define fuzz_link
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(FUZZ_MAIN) -Wl,--wrap=elf_view__map,--wrap=elf_view__unmap,--wrap=elf_view__release_pages -o $@ $< $(LIB) $(LDLIBS)
endef
$(BUILD)/fuzz_%: $(BUILD)/fuzz/fuzz_%.o $(LIB)
	$(fuzz_link)
$(BUILD)/seeds: $(BUILD)/fuzz/seeds.o $(LIB)
	$(fuzz_link)

# Writes the golden reports again; read the difference before committing it.
.PHONY: golden-update
golden-update: $(addprefix $(BUILD)/unit/test_,golden export difference top)
	-for test in $^; do PERFX_GOLDEN_UPDATE=1 $$test --quiet; done
	git --no-pager diff --stat -- tests/golden

# Attaches the cost programs of e2e/test_cost.py to itself.
COST_OBJ := $(patsubst tests/e2e/%.c,$(BUILD)/e2e/%.o,$(wildcard tests/e2e/cost*.c))

$(BUILD)/e2e/%.o: tests/e2e/%.c $(BUILD)/user.flags | $(SKEL)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/e2e -Itests/workloads $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/e2e/cost: $(COST_OBJ) $(LIB)
# Print the samples of a capture for e2e/test_samples.py, and libdw's stacks to compare.
$(BUILD)/e2e/samples: $(BUILD)/e2e/samples.o $(LIB)
$(BUILD)/e2e/dwfl_stacks: $(BUILD)/e2e/dwfl_stacks.o
# Moves the clock of a capture, for e2e/test_merge.py.
$(BUILD)/e2e/shift: $(BUILD)/e2e/shift.o $(LIB)
# Injects a library into a process, for e2e/test_inject.py.
$(BUILD)/e2e/inject: $(BUILD)/e2e/inject.o $(LIB)
$(E2E_BIN):
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/bench/%: tests/bench/%.c $(LIB) $(BUILD)/user.flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(LIB) $(BENCH_LDLIBS) $(LDLIBS)

$(BUILD)/bench/bench_peaks: BENCH_LDLIBS := -lopenblas

# --- workloads ------------------------------------------------------------------------------
# The programs that tests and benchmarks trace: ordinary builds, -O2 without frame pointers, never
# with SAN; the functions whose calls are counted carry noipa (known.h). tests/workloads/lib/x.c is
# build/workloads/x.so. After the dash comes the variant.
WL       := $(BUILD)/workloads
WL_SRC   := $(wildcard tests/workloads/*.c tests/workloads/*.cc)
WL_LIB   := $(patsubst tests/workloads/lib/%.c,$(WL)/%.so,$(wildcard tests/workloads/lib/*.c))
WL_BIN   := $(patsubst tests/workloads/%,$(WL)/%,$(basename $(WL_SRC))) $(WL_LIB) \
            $(addprefix $(WL)/,calls-static calls-stripped calls-mini calls-bare calls-split execs-other \
                               exceptions-static exceptions-stripped tracked-stripped annotations-stripped \
                               tracked-static stripped/tracked.so calls-nopie early-static \
                               memory-static memory_chain-fp shares-fp nvml/libnvidia-ml.so.1)
WL_FLAGS := -O2 -g -fstack-protector-strong $(WARN) -Wno-missing-prototypes -D_GNU_SOURCE \
            -Iinclude -Itests/workloads -pthread
WL_CC    = $(CC) -std=gnu11 $(WL_FLAGS) -MMD -MP -MF $@.d
WL_CXX   = $(CXX) -std=c++17 $(filter-out -Wmissing-prototypes -Wno-missing-prototypes \
                                          -Wstrict-prototypes,$(WL_FLAGS)) -MMD -MP -MF $@.d

.PHONY: workloads
workloads: $(WL_BIN)
ifneq ($(shell command -v rustc),)
workloads: $(WL)/panic
else
	@echo 'no rustc here: panic.rs is left out'
endif

ifneq ($(shell command -v go),)
workloads: $(WL)/goroutines
else
	@echo 'no go here: goroutines.go is left out'
endif

$(WL)/%: tests/workloads/%.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -o $@ $< $(WL_LDLIBS)

$(WL)/%: tests/workloads/%.cc $(BUILD)/wl.flags
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CXX) -o $@ $< $(WL_LDLIBS)

$(WL)/%: tests/workloads/%.rs
	$(call say,RUSTC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)env -u MAKEFLAGS -u MFLAGS rustc -O -o $@ $<

$(WL)/%: tests/workloads/%.go
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D)
	$(Q)GOCACHE=$(abspath $(BUILD))/go-cache GOFLAGS=-trimpath go build -o $@ $<

$(WL)/%.so: tests/workloads/lib/%.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -fPIC -shared -Wl,-soname,$(@F) -o $@ $<

$(WL)/trainer: WL_LDLIBS := -lopenblas -lm
$(WL)/blas_calls: WL_LDLIBS := -lopenblas
# Has the driver's own name, for LD_LIBRARY_PATH.
$(WL)/nvml/libnvidia-ml.so.1: $(WL)/libnvidia-ml.so
	$(Q)mkdir -p $(@D) && cp $< $@
CUDA_LIBS := $(addprefix $(WL)/,libcublas.so libcublasLt.so libnccl.so)
# Its functions are not called: without a driver CUDA's libraries are skipped.
$(WL)/cuda_calls: WL_LDLIBS := $(CUDA_LIBS) -Wl,--no-as-needed $(WL)/libcuda.so -Wl,-rpath,'$$ORIGIN'
$(WL)/cuda_calls: $(CUDA_LIBS) $(WL)/libcuda.so
$(WL)/libcudart.so: $(WL)/libcuda.so
$(WL)/ranks_mpi: WL_LDLIBS := $(WL)/libmpi.so -Wl,-rpath,'$$ORIGIN'
$(WL)/ranks_mpi: $(WL)/libmpi.so
GPU_PROGRAMS := $(WL)/memory_gpu $(WL)/gpu_calls
$(GPU_PROGRAMS): WL_LDLIBS := $(WL)/libcudart.so $(WL)/libcuda.so -Wl,-rpath,'$$ORIGIN'
$(GPU_PROGRAMS): $(WL)/libcudart.so $(WL)/libcuda.so
$(WL)/gpu_driver: WL_LDLIBS := $(WL)/libcuda.so -Wl,-rpath,'$$ORIGIN'
$(WL)/gpu_driver: $(WL)/libcuda.so
# Have the names that the agent searches.
GPU_LIBS := $(addprefix $(WL)/gpu/,libcuda.so.1 libcupti.so.13)
$(WL)/gpu/libcuda.so.1: tests/workloads/gpu/libcuda.c
$(WL)/gpu/libcupti.so.13: tests/workloads/gpu/libcupti.c
$(GPU_LIBS): tests/workloads/gpu/stub.h $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WL_FLAGS) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)
$(WL)/gpu_agent: WL_LDLIBS := $(GPU_LIBS) -Wl,-rpath,'$$ORIGIN/gpu'
$(WL)/gpu_agent: $(GPU_LIBS)
# Runs it with the agent in it.
$(BUILD)/unit/test_agents: | $(AGENT) $(WL)/gpu_agent
MARK_LIBS := $(addprefix $(WL)/,libnvToolsExt.so libroctx64.so libtorch_cpu.so)
$(WL)/ranges: WL_LDLIBS := $(MARK_LIBS) -Wl,-rpath,'$$ORIGIN'
$(WL)/ranges: $(MARK_LIBS)
$(WL)/tracked: WL_LDLIBS := $(WL)/tracked.so -Wl,-rpath,'$$ORIGIN'
$(WL)/tracked: $(WL)/tracked.so
# With NVTX's own headers if installed (NVTX, below), otherwise with the workload's declarations.
$(WL)/nvtx3: WL_LDLIBS = $(NVTX_FLAGS) -ldl
$(WL)/often: WL_LDLIBS := $(WL)/tinyblas.so -Wl,-rpath,'$$ORIGIN'
$(WL)/often: $(WL)/tinyblas.so
$(WL)/memory_reused: WL_LDLIBS := $(WL)/libc10.so -Wl,-rpath,'$$ORIGIN'
$(WL)/memory_reused: $(WL)/libc10.so
$(WL)/stacks: WL_LDLIBS := $(WL)/stacks_far.so -Wl,-rpath,'$$ORIGIN'
$(WL)/stacks: $(WL)/stacks_far.so
# The linker would omit a library without called functions.
$(WL)/early: WL_LDLIBS := -Wl,--no-as-needed $(WL)/early.so -Wl,-rpath,'$$ORIGIN'
$(WL)/early: $(WL)/early.so

$(WL)/%-static: tests/workloads/%.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -static -o $@ $(filter %.c,$^)

$(WL)/%-static: tests/workloads/%.cc $(BUILD)/wl.flags
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CXX) -static -o $@ $<

$(WL)/tracked-static: tests/workloads/lib/tracked.c
$(WL)/early-static: WL_FLAGS += -DEARLY_STATIC

# At fixed addresses.
$(WL)/%-nopie: tests/workloads/%.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -fno-pie -no-pie -o $@ $<

$(WL)/%-fp: tests/workloads/%.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -o $@ $<

# Stripped, but with the names that a library would export; bare has no names.
$(WL)/%-stripped: tests/workloads/%.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -rdynamic -s -o $@ $<

$(WL)/%-stripped: tests/workloads/%.cc $(BUILD)/wl.flags
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CXX) -rdynamic -s -o $@ $<

$(WL)/%-bare: $(WL)/%
	$(call say,STRIP,$@)
	$(Q)strip -o $@ $<

# Names in a separate file beside it, found by .gnu_debuglink.
$(WL)/%-split: $(WL)/%
	$(call say,STRIP,$@)
	$(Q)objcopy --only-keep-debug $< $@.debug
	$(Q)strip -o $@ $< && objcopy --add-gnu-debuglink=$@.debug $@

# Names compressed into .gnu_debugdata, as in programs of rpm packages.
$(WL)/%-mini: $(WL)/%
	$(call say,STRIP,$@)
	$(Q)objcopy --only-keep-debug --strip-debug $< $@.symbols && xz -f $@.symbols
	$(Q)strip -o $@ $< && objcopy --add-section .gnu_debugdata=$@.symbols.xz $@

$(WL)/stripped/tracked.so: $(WL)/tracked.so
	$(Q)mkdir -p $(@D) && strip -o $@ $<

$(WL)/tracked-stripped: $(WL)/tracked $(WL)/stripped/tracked.so
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 $(WL_FLAGS) -s -o $@ tests/workloads/tracked.c $(WL)/stripped/tracked.so \
		-Wl,-rpath,'$$ORIGIN/stripped'

$(WL)/execs-other: tests/workloads/execs.c $(BUILD)/wl.flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) -DOTHER -o $@ $<

# --- the source ------------------------------------------------------------------------------
C_FILES  := $(wildcard user/*/*.[ch] user/*/*/*.[ch] include/*.h bpf/*.[ch] tests/*/*.[ch] tests/*/*.cc tests/*/*/*.[ch])
SCRIPTS  := .ci/deps .ci/package .ci/run .ci/debian/prerm tests/run tests/demo tests/fuzz/run \
            tests/kernels/check tests/kernels/in-guest tests/kernels/init tests/kernels/vm-run

.PHONY: lint lint-tools lint-format lint-code lint-includes lint-scripts lint-docs format
lint: lint-format lint-code lint-includes lint-scripts lint-docs

lint-tools:
	@.ci/deps lint

lint-format: lint-tools
	clang-format --dry-run -Werror $(C_FILES)

lint-code: lint-tools
	cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability \
		--suppress=memleakOnRealloc:user/base/grow.c '-DLIBBPF_OPTS(type,name,...)=struct type name' \
		-D_GNU_SOURCE -DPERFX_VERSION='""' -Iinclude -Iuser user

lint-includes:
	tests/include-order

lint-scripts: lint-tools
	shellcheck $(SCRIPTS) docs/completions/perfx-trace.bash docs/examples/slurm/*.sh

lint-docs: lint-tools $(MAN)
	mandoc -T lint -W warning $(MAN)
	tests/docs-options $(MAN)
	tests/doc-links $(BIN)

format:
	@clang-format -i $(C_FILES)

# --- install ---------------------------------------------------------------------------------
BINDIR   = $(DESTDIR)$(PREFIX)/bin
INCDIR   = $(DESTDIR)$(PREFIX)/include
SHAREDIR = $(DESTDIR)$(PREFIX)/share
LIBDIR   = $(DESTDIR)$(PREFIX)/lib
# Folder in which the installed python3 searches packages under PREFIX; PYTHONDIR= overrides it.
PYTHON    ?= /usr/bin/python3
PYTHONDIR ?= $(shell $(PYTHON) -c 'import sysconfig; path = sysconfig.get_path("purelib"); \
		print("$(PREFIX)/" + path[path.rindex("lib/python"):])' 2>/dev/null)
PYDIR     = $(DESTDIR)$(PYTHONDIR)/perfx
INSTALLED = $(BINDIR)/perfx-trace $(INCDIR)/perfx.h $(LIBDIR)/libperfx.so.1 $(LIBDIR)/libperfx.so \
            $(LIBDIR)/pkgconfig/perfx.pc $(SHAREDIR)/man/man1/perfx-trace.1 \
            $(SHAREDIR)/bash-completion/completions/perfx-trace \
            $(SHAREDIR)/zsh/site-functions/_perfx-trace \
            $(SHAREDIR)/fish/vendor_completions.d/perfx-trace.fish \
            $(addprefix $(LIBDIR)/systemd/system/,$(UNITS)) $(SHAREDIR)/perfx-trace/grafana.json

UNITS     = perfx-trace.service perfx-trace@.service

.PHONY: install uninstall clean
install: all
	install -D -m 755 $(BIN) $(BINDIR)/perfx-trace
	install -D -m 644 include/perfx.h $(INCDIR)/perfx.h
	install -D -m 644 $(LIBPERFX) $(LIBDIR)/libperfx.so.1
	ln -sf libperfx.so.1 $(LIBDIR)/libperfx.so
	mkdir -p $(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' user/libperfx/perfx.pc.in > $(LIBDIR)/pkgconfig/perfx.pc
	chmod 644 $(LIBDIR)/pkgconfig/perfx.pc
	$(if $(PYTHONDIR),install -D -m 644 -t $(PYDIR) python/perfx/*.py,@echo 'no $(PYTHON): its package is left out')
	install -D -m 644 -t $(LIBDIR)/perfx $(filter %.so,$(HOOKS))
	install -D -m 644 -t $(LIBDIR)/perfx/python python/level/*.py
	install -D -m 644 $(MAN) $(SHAREDIR)/man/man1/perfx-trace.1
	install -D -m 644 docs/completions/perfx-trace.bash $(SHAREDIR)/bash-completion/completions/perfx-trace
	install -D -m 644 docs/completions/_perfx-trace $(SHAREDIR)/zsh/site-functions/_perfx-trace
	install -D -m 644 docs/completions/perfx-trace.fish $(SHAREDIR)/fish/vendor_completions.d/perfx-trace.fish
	mkdir -p $(LIBDIR)/systemd/system
	for unit in $(UNITS); do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|' docs/examples/$$unit > $(LIBDIR)/systemd/system/$$unit && \
		chmod 644 $(LIBDIR)/systemd/system/$$unit || exit 1; \
	done
	install -D -m 644 docs/examples/grafana.json $(SHAREDIR)/perfx-trace/grafana.json
	@# the dynamic linker looks into its cache for libperfx.so.1
	@[ -n '$(DESTDIR)' ] || PATH=$$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null || :

uninstall:
	rm -f $(INSTALLED)
	rm -rf $(LIBDIR)/perfx
	$(if $(PYTHONDIR),rm -rf $(PYDIR))

# For machines without a compiler: a package for Debian 12, a tarball for other systems, a package for pip.
.PHONY: deb dist wheel
deb dist wheel:
	@BUILD=$(BUILD) .ci/package $@; code=$$?; $(GIVE_BACK); exit $$code

# --- benchmarks -----------------------------------------------------------------------------
# Interleaved, medians with spread; nothing is asserted. BENCH=calls|cnn|small|attach|rate|memory|flops|
# peaks|capture|annotations|stacks|estimate is one table. A current PyTorch in ML_VENV is measured too.
BENCH     ?= all
BENCH_BIN := $(addprefix $(BUILD)/bench/,calls_per_second empty_probe bench_capture bench_peaks markers \
                                  stack_depths)

.PHONY: bench
bench: $(BIN) $(LIBPERFX) $(BENCH_BIN) $(BUILD)/workloads/memory_many
	@/usr/bin/python3 -B tests/bench/bench.py --build $(BUILD) --venv $(ML_VENV) $(BENCH)

# Traced programs are ordinary builds, like the workloads.
$(BUILD)/bench/calls_per_second $(BUILD)/bench/markers: $(BUILD)/bench/%: tests/bench/%.c
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CC) $(BENCH_FLAGS) -o $@ $<

# Static, so that a probe on malloc affects only this program.
$(BUILD)/bench/stack_depths: tests/bench/stack_depths.cc
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(WL_CXX) -static -o $@ $<

# NVTX is a header that comes with CUDA, for example in PyTorch's packages.
NVTX := $(firstword $(wildcard $(addsuffix /nvtx3/nvToolsExt.h,/usr/include /usr/local/cuda*/include \
                    $(ML_VENV)/lib/python3*/site-packages/nvidia/*/include)))
NVTX_FLAGS = $(if $(NVTX),-DNVTX -isystem $(dir $(patsubst %/,%,$(dir $(NVTX)))) -ldl)
$(BUILD)/bench/markers: BENCH_FLAGS = $(NVTX_FLAGS)

.PHONY: clean
clean:
	rm -rf $(BUILD)

# (unpacked systems for package tests, and sources of libraries, have files of that name, too)
-include $(shell find $(BUILD) \( -name roots -o -name 'tmp*' -o -path '*/package/*/*-[0-9]*' \) -prune -o -name '*.d' -type f -print 2>/dev/null)
