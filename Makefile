# make demo    build, and show the main job on data that the synthetic world writes
# make test    everything that must pass: formatting, lints, docs, all tests
# make check   formatting, lints (warnings denied) and docs only
# make deny    licenses, sources and duplicates of all dependencies; advisories where cargo-deny and a network are there
# make fuzz    60 seconds of fuzzing for each target: grader, checks, steps, containers, readers, model files, pools, journals, jobs;
#              an hour for each: FUZZ_SECONDS=3600 make fuzz; several at a time: FUZZ_JOBS=16
# make models  the two small real models that the demo, some tests and the benchmarks use, into target/gradus-home
# make bench         the table of docs/performance.md beside vLLM, transformers and llama.cpp on a CPU; DEVICE=cuda: beside transformers on a GPU
# make bench-engine  speed of the engine and of its peers (transformers, llama.cpp, sentence-transformers), in one run
# make bench-curves  speed and memory over the length of a text, the number of texts and the size of the model, as pictures; DEVICE=cuda
# make bench-train   speed of LoRA training, ours and that of transformers + PEFT, in one run
# make bench-cuda    times of our CUDA kernels at the shape of a 7B model; needs an NVIDIA GPU and, like every CUDA build, the compiler
# make cuda-toolkit  a CUDA compiler from PyPI; then: . scripts/cuda-toolkit.sh && cargo build --release --features cuda
# make test-models   really pulls the two models (190 MB) into an empty home, from the indexes that are configured here
# make test-browser  every report and page in a real Chromium: no console message, no network, nothing cut off; with pictures
# make test-llm-server  every annotator on real problems, against llama.cpp's server from PyPI and on the local engine
# make test-pipelines   the four pipelines in their small form, from data to a report page; KILLS=3 kills each on the way and compares
# make test-serve  the openai package and made-up requests against gradus serve with real models; CASES=100 for each path
# make test-vllm   a real vLLM (CPU build, gigabytes) beside gradus serve: the same requests, fields and numbers; RECORD=1 keeps its answers
# make test-store   the tests of the job stores and of pools, with a real PostgreSQL server and pgvector from PyPI
# make test-cluster   four workers share a job in PostgreSQL while processes are killed 50 times and the server is disturbed; SOLUTIONS=2000 KILLS=8 is short
# make test-remote    data in S3 (moto), on a hub and on the web, with errors, cut and truncated answers, silence and a token that ends
# make test-deploy   what is in deploy/: Kubernetes manifests against their schemas, Slurm arrays, a Ray job, all really started; SOLUTIONS=4000
# make test-faults   every long command killed, on a full or failing disk, with damage in what it keeps; ROUNDS=200
# make test-train    training really teaches: a real small model on the synthetic world, about ten minutes
# make test-metamorphic  a million pairs of answers that rules keep or break, with SymPy; about ten minutes
# make wheel       the optimized library and program as a Python wheel, into target/wheels; PLATFORM=x86_64 or aarch64
# make test-python the wheel in a fresh virtual environment: its own tests, stubs, abi3audit, twine; nothing that needs torch
# make test-frameworks  TRL, verl, OpenRLHF, Ray, distilabel, lm-evaluation-harness, Inspect, PEFT, Jupyter, trackers: gigabytes; FRAMEWORKS=trl
# make test-torch-export  runs of gradus train against their exports, trained by PyTorch on one and two processes: gigabytes; ONLY=prm,orpo
# make bench-python  calls from Python: overhead, and math-verify and transformers in one run
# make bench-grade   answers graded per second, ours and math-verify's, in one run
# make bench-serve   64 clients on gradus serve against the offline throughput of gradus score, in one run
# make bench-dedup   time and memory of the duplicate index
# make bench-best-of-n  best-of-N of eight real PRMs, ours and numpy's, in one run; fails where a number differs
# make bench-retrieve   references of 400 solutions from a real pool, ours and two peers with sentence-transformers; fails where one differs
# make bench-growth     search among 10 thousand to 10 million vectors, exact and approximate (10 GB of memory, and an hour on two cores)
# make bench-pool       a pool of 100 thousand vectors in a folder and in PostgreSQL, exact and HNSW: time and memory
# make bench-llm        1,000 requests in flight at a scripted server: share of the ideal rate, memory; fails below 95 % or beyond 300 MB
# make bench-store      tasks per second of the job stores, SQLite and PostgreSQL, of a plain queue in PostgreSQL and of Graphile Worker, in one run
# make bench-streaming  five million solutions judged on one machine by a server that answers at once: speed, and memory as a picture (16 GB of disk)
# make default-prm      the default PRM anew: its data, training, ProcessBench; DEVICE=cuda on an NVIDIA GPU (minutes), on two CPU cores a day or two
# make docs          the book, into target/book; make check-docs: widths, links and paths; make test-docs: every command of a guide is run
# make same-outputs OLD=program   do that program and this checkout's write the same bytes?
# make release       the optimized program, its line tables in a file beside it
# make install       the optimized program, into cargo's bin folder

CARGO ?= cargo
# What is built, and the models that tests use: outside the checkout when CARGO_TARGET_DIR says so, as in .ci/run.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
GRADUS := $(TARGET)/debug/gradus
OUT := demo-out
# Real datasets for tests and benchmarks; tests that need them say so when they are absent.
export GRADUS_DATA ?= $(abspath ../shared/data)

export GRADUS_HOME ?= $(TARGET)/gradus-home
export GRADUS_TEST_MODELS ?= $(TARGET)/models
TOKENIZERS := $(GRADUS_TEST_MODELS)/tokenizers

.PHONY: demo release same-outputs test test-build test-llm-server test-pipelines test-serve test-vllm test-python test-frameworks bench-python wheel test-wheel test-models test-train test-store test-cluster test-remote test-deploy test-torch-export bench-pool test-faults test-metamorphic test-browser test-arm deny check build models tokenizers fuzz bench-grade bench-serve bench-dedup bench-best-of-n bench-retrieve bench-growth bench-llm bench-store bench-streaming bench bench-engine bench-train bench-curves bench-cuda cuda-toolkit default-prm install clean

build:
	$(CARGO) build --locked

models: build
	@$(GRADUS) models pull smollm2-135m
	@$(GRADUS) models pull all-minilm-l6-v2

# The program as the tests build it: with their dependencies' features, so that nothing is compiled twice.
test-build:
	$(CARGO) test --locked --workspace --no-run
	@$(GRADUS) models pull smollm2-135m
	@$(GRADUS) models pull all-minilm-l6-v2

# Hours on a CPU, so with the optimized program.
DEVICE := cpu
FEATURES := $(if $(filter cuda%,$(DEVICE)),--features cuda)
default-prm:
	$(CARGO) build --locked --release $(FEATURES)
	GRADUS=$(TARGET)/release/gradus DEVICE=$(DEVICE) sh recipes/default/train.sh

tokenizers:
	sh crates/engine/tests/reference/fetch_tokenizers.sh $(TOKENIZERS)

demo: build
	@GRADUS=$(GRADUS) OUT=$(OUT) sh scripts/demo.sh

test: check deny tokenizers test-build
	$(CARGO) test --locked --workspace
	GRADUS=$(GRADUS) python3 scripts/test_faults.py --rounds 12

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

deny:
	python3 scripts/check_dependencies.py

fuzz:
	fuzz/run.sh

test-metamorphic:
	sh crates/grade/tests/metamorphic/run.sh

bench-grade:
	sh benches/peers/grade.sh

bench-serve:
	$(CARGO) build --release --locked -p gradus
	python3 benches/serve.py $(TARGET)/release/gradus --minutes $(MINUTES)
MINUTES := 1

bench-dedup:
	$(CARGO) bench --locked -q -p gradus-data --bench dedup

bench-best-of-n:
	$(CARGO) build --release --locked -p gradus
	GRADUS=$(TARGET)/release/gradus sh benches/best_of_n.sh

bench-retrieve:
	$(CARGO) build --release --locked -p gradus
	GRADUS=$(TARGET)/release/gradus sh benches/retrieve.sh

bench-growth:
	GRADUS_GROWTH="--json $(TARGET)/growth.json --html $(TARGET)/growth.html" $(CARGO) test --release --locked -p gradus-retrieve --lib tests::growth -- --ignored --nocapture

bench-pool:
	scripts/postgres_server.py -- $(CARGO) test --release --locked -p gradus-retrieve --features postgres --lib pool::postgres::tests::speed -- --ignored --nocapture

# One connection per request in flight needs more open files than many systems allow at first.
bench-llm:
	ulimit -S -n 4096 && $(CARGO) run --release --locked -p gradus-llm --example load

bench-store:
	$(CARGO) build --release --locked -p gradus-store --features postgres --example bench_store
	scripts/postgres_server.py -- sh benches/store.sh $(TARGET)/release/examples/bench_store

bench-streaming:
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked -p gradus-llm --example scripted_server
	benches/streaming.py $(TARGET)/release/gradus $(TARGET)/release/examples/scripted_server $(TARGET)/streaming

test-models:
	$(CARGO) test --locked --workspace --test cli -- --ignored models

test-llm-server: test-build
	GRADUS=$(GRADUS) sh scripts/test_llm_server.sh

test-pipelines: test-build
	GRADUS=$(GRADUS) sh scripts/test_pipelines.sh

test-serve: test-build
	GRADUS=$(GRADUS) sh scripts/test_serve.sh

test-vllm: test-build
	GRADUS=$(GRADUS) sh scripts/test_vllm.sh

PLATFORM ?= $(shell uname -m)
wheel:
	PLATFORM=$(PLATFORM) OUT=target/wheels/$(PLATFORM) sh scripts/wheel.sh

# Without optimization, which the tests do not need: the program is theirs, the library is built beside it.
TEST_WHEELS := target/test-wheels
test-wheel: test-build
	PROGRAM=$(GRADUS) PROFILE=dev OUT=$(TEST_WHEELS) sh scripts/wheel.sh

test-python: test-wheel
	WHEELS=$(TEST_WHEELS) sh scripts/test_python.sh

test-frameworks: test-wheel
	WHEELS=$(TEST_WHEELS) sh scripts/test_frameworks.sh

# Losses, scores and kills, on CPUs.
TORCH_VENV := target/torch-export
test-torch-export: test-wheel
	[ -x $(TORCH_VENV)/bin/python ] || python3 -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/pip install -q -r assets/export/torch/requirements.txt -r assets/export/torch/requirements_critic.txt
	$(TORCH_VENV)/bin/pip install -q --force-reinstall --no-deps $(TEST_WHEELS)/*.whl
	GRADUS=$(GRADUS) PYTHON=$(TORCH_VENV)/bin/python python3 scripts/test_torch_export.py $(if $(ONLY),--only $(ONLY))

bench-python: wheel
	sh benches/python.sh

test-store:
	scripts/postgres_server.py -- sh -c '$(CARGO) test --locked -p gradus-postgres -p gradus-store -p gradus-retrieve \
		--features gradus-store/postgres,gradus-retrieve/postgres && \
		$(CARGO) test --locked --workspace --test cli -- pool_postgres'

test-cluster: test-build
	scripts/postgres_server.py -- scripts/test_cluster.py

test-remote: test-build
	GRADUS_PROGRAM=$(GRADUS) python3 scripts/test_remote.py

test-deploy: test-build
	scripts/postgres_server.py -- scripts/slurm_cluster.py -- scripts/test_deploy.py

ROUNDS := 200
test-faults: test-build
	GRADUS=$(GRADUS) python3 scripts/test_faults.py --rounds $(ROUNDS)

# The kernels on a 64-bit ARM processor, emulated: that they are right, not how fast they are.
ARM := aarch64-unknown-linux-gnu
test-arm:
	sh scripts/arm_tools.sh
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu" \
		$(CARGO) test --release --locked -p gradus-kernels --lib --target $(ARM)

test-browser: test-build
	GRADUS=$(GRADUS) sh scripts/test_browser.sh

test-train: test-build
	$(CARGO) test --locked --workspace --test learns -- --ignored --nocapture --test-threads=1

bench:
	sh benches/$(if $(filter cuda%,$(DEVICE)),gpu.sh,bench.sh)

bench-engine:
	sh benches/engine.sh

bench-train: models
	sh benches/train.sh

bench-curves:
	DEVICE=$(DEVICE) sh benches/curves.sh

bench-cuda:
	GRADUS_TEST_DEVICE=cuda $(CARGO) test --release --locked --features cuda -p gradus-engine --lib cuda::tests::speed -- --ignored --nocapture --test-threads=1

cuda-toolkit:
	bash scripts/cuda-toolkit.sh

same-outputs: build
	scripts/same_outputs.sh $(OLD) $(GRADUS)

# Stack traces find gradus.debug beside the program.
release:
	$(CARGO) build --locked --profile profiling
	cd $(TARGET)/profiling && objcopy --only-keep-debug gradus gradus.debug && objcopy --strip-debug --add-gnu-debuglink=gradus.debug gradus

install:
	$(CARGO) install --locked --path crates/cli

clean:
	$(CARGO) clean
	rm -rf $(OUT)

# Documentation. check-docs is fast and needs no program; test-docs also runs every command that the guides show.
.PHONY: docs check-docs test-docs
docs: build
	GRADUS=$(GRADUS) sh scripts/docs.sh

check-docs:
	python3 scripts/check_docs.py

test-docs: check-docs test-build
	GRADUS=$(GRADUS) python3 scripts/test_docs.py
