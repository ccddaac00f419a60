#!/usr/bin/env python3
"""Long commands, disturbed: killed, hanging, on a full or failing disk, with damage in what they keep.

    GRADUS=target/debug/gradus python3 scripts/test_faults.py --rounds 200

Each round takes a command, a fault and its instant from a seed, which it prints; `--seed N --rounds 1` runs one again.
After the fault, the output is absent or whole. The same command again, undisturbed, ends with the bytes of a run that
was never disturbed, and leaves nothing else behind. Nothing panics and nothing hangs.

Faults: SIGKILL, SIGTERM and SIGINT at a random instant; ENOSPC, EIO and a short write at a random write, by fault.c;
one damaged byte in a journal, job database or cached answer after a kill; a server that fails and hangs.
"""
import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "crates/engine/tests/reference/models"
PATIENCE = 120  # seconds after which a run counts as hanging
SERVER = "--endpoint {url} --model scripted --timeout 1 --retries 20 --concurrency 4"

# Name, command, and what is compared: everything in out/ but the paths that hold times.
COMMANDS = {
    "synth": "synth -n 40 --solutions 2 -o out/x.jsonl",
    "convert": "data convert world.jsonl --to trl -o out/x.jsonl.gz",
    "parquet": "data convert world.jsonl --to trl -o out/x.parquet",
    "dedup": "data dedup world.jsonl -o out/x.jsonl",
    "merge": "data merge world.jsonl other.jsonl -o out/x.jsonl",
    "corrupt": "data corrupt world.jsonl -o out/x.jsonl",
    "split": "data split world.jsonl -o out/split",
    "grade": "grade --data world.jsonl -o out/x.jsonl",
    "steps": "steps --data world.jsonl -o out/x.jsonl",
    "score": "score world.jsonl --model {models}/qwen2 --name tiny -o out/x.jsonl",
    "solve": "solve --data world.jsonl --strategy majority -n 2 --max-tokens 8 --model {models}/qwen2 -o out/x.jsonl",
    "perplexity": "perplexity --data world.jsonl --model {models}/qwen2 -o out/x.jsonl",
    "embed": "embed --data world.jsonl --model {models}/bert-mean -o out/v.npy",
    "pool-build": "pool build world.jsonl -o out/world.pool --encoder {models}/bert-mean --dimensions 4",
    "pool-add": "pool add other.jsonl --pool out/world.pool",
    "processbench": "bench processbench world.jsonl --model {models}/qwen2 -o out/run",
    "drift": "bench drift world.jsonl --model {models}/qwen2 -o out/run",
    "critic": "bench processbench world.jsonl --critic --votes 2 -o out/run " + SERVER,
    "sample": "sample world.jsonl -n 3 -o out/x.jsonl " + SERVER,
    "monte-carlo": "annotate monte-carlo world.jsonl --samples 3 -o out/x.jsonl " + SERVER,
    "judge": "annotate judge world.jsonl --votes 2 -o out/x.jsonl " + SERVER,
    "reference": "annotate reference world.jsonl -o out/x.jsonl " + SERVER,
    "train-sft": "train sft sft.toml -o out/run",
    "train-prm": "train prm prm.toml -o out/run",
    "train-orm": "train orm orm.toml -o out/run",
    "train-orpo": "train orpo orpo.toml -o out/run",
    "train-grpo": "train grpo grpo.toml -o out/run",
    "critic-data": "train critic-data world.jsonl --model {models}/llama -o out/x.jsonl",
}
# Beside a run's results: times and speeds, and what the interrupted run left for the next.
UNCOMPARED = ("run/run.json", "run/metrics.jsonl", "run/README.md", "run/checkpoints", "run/judged.jsonl",
              "run/report", "run/tensorboard", "run/events")
# Files of a pool have the number of its changes in their names; an addition that was complete is made again, with nothing.
GENERATION = re.compile(r"\.\d+\.(?=f32|u32|u64|utf8)")
IN_MANIFEST = re.compile(rb"\.\d+\.(?=f32|u32|u64|utf8)|\"checksum\": \"\w+\"")
FAULTS = ["SIGKILL", "SIGTERM", "SIGINT", "enospc", "eio", "short", "damage"]

RECIPE = """objective = "{objective}"
seed = 3
[model]
base = "{models}/llama"
precision = "f32"
[lora]
rank = 4
alpha = 8
dropout = 0.1
targets = ["q_proj", "v_proj"]
[data]
train = ["{data}"]
max_tokens = {max_tokens}
[optimizer]
learning_rate = 1e-3
warmup = 2
[batch]
tokens = {max_tokens}
examples = 4
[steps]
total = 6
checkpoint_every = 2
[{objective}]
{settings}
"""
SETTINGS = {
    "sft": "answer_only = true",
    "prm": 'profile = "brief"',
    "orm": "",
    "orpo": 'lambda = 0.2\npairs = "outcome_and_steps"\nmax_pairs_per_problem = 2',
    "grpo": "group = 2\nmax_new_tokens = 8",
}


class Server:
    """Answers what a hash of the request says; a stormy one also fails, and hangs longer than its client waits."""

    def __init__(self, stormy):
        count = [0]

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                count[0] += 1
                if stormy and count[0] % 13 == 0:
                    time.sleep(1.5)  # the client has gone by then
                    return
                status, answer = (500, {"error": {"message": "scripted"}}) if stormy and count[0] % 7 == 0 else (
                    200, reply(self.path, json.loads(body)))
                data = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client was killed

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients are killed in the middle
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def reply(path, body):
    prompt = json.dumps(body.get("messages") or body.get("prompt"))
    choices = []
    for index in range(body.get("n") or 1):
        seed = (body.get("seed") or 0) + index
        number = hashlib.sha256(f"{seed} {prompt}".encode()).digest()[0]
        if "<paragraph_0>" in prompt:
            text = f"\\boxed{{{number % 3 - 1}}}"
        else:
            text = f"Let us think.\n\nThe answer is \\boxed{{{number % 7}}}."
        content = {"message": {"role": "assistant", "content": text}} if "chat" in path else {"text": text}
        choices.append({"index": index, "finish_reason": "stop", **content})
    return {"id": "scripted", "choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}


class Bench:
    """The program, the servers, the library that makes writes fail, and the undisturbed runs."""

    def __init__(self, program, root):
        self.program, self.root = program, root
        self.calm, self.stormy = Server(False), Server(True)
        self.library = root / "fault.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.library, ROOT / "scripts/fault.c", "-ldl"], check=True)
        self.template = root / "template"
        (self.template / "out").mkdir(parents=True)
        for name, seed in (("world", 7), ("other", 8)):
            line = f"synth -n 8 --solutions 2 --seed {seed} --difficulty 1-2 -o {name}.jsonl"
            self.run(self.template, line, check=True)
        self.run(self.template, "train critic-data world.jsonl --model {models}/llama -o critic.jsonl", check=True)
        shutil.rmtree(self.template / "home", ignore_errors=True)
        for objective, settings in SETTINGS.items():
            data = "critic.jsonl" if objective == "grpo" else "world.jsonl"
            recipe = RECIPE.format(objective=objective, settings=settings, models=MODELS, data=data,
                                   max_tokens=2048 if objective == "grpo" else 512)
            (self.template / f"{objective}.toml").write_text(recipe)
        self.undisturbed = {}

    def folder(self, name, command):
        folder = self.root / name
        shutil.copytree(self.template, folder)
        if command == "pool-add":
            self.run(folder, COMMANDS["pool-build"], check=True)
        return folder

    def start(self, folder, line, url=None, fault=None):
        home = folder / "home"
        environment = dict(os.environ, GRADUS_HOME=str(home), GRADUS_JOBS=str(home / "jobs.sqlite"), RUST_BACKTRACE="0")
        if fault:
            kind, at, under = fault
            environment.update(LD_PRELOAD=str(self.library), FAULT_KIND=kind, FAULT_AT=str(at),
                               FAULT_UNDER=str((folder / under).resolve()))
            if kind == "count":
                environment["FAULT_COUNT"] = str(self.root / "count")
        words = line.format(url=url or self.calm.url, models=MODELS).split()
        return subprocess.Popen([self.program, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, folder, line, check=False, **options):
        """The exit status and standard error of a run that ends in time and does not panic."""
        child = self.start(folder, line, **options)
        return self.ended(child, line, check)

    def ended(self, child, line, check=False):
        try:
            _, said = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Failure(f"hangs: gradus {line}") from None
        if "panicked" in said:
            raise Failure(f"panics: gradus {line}\n{said}")
        if check and child.returncode:
            raise Failure(f"gradus {line}\n{said}")
        return child.returncode, said

    def expected(self, command):
        """The files of an undisturbed run, the seconds that it took, and its writes below out/."""
        if command not in self.undisturbed:
            folder = self.folder(f"undisturbed-{command}", command)
            began = time.monotonic()
            self.run(folder, COMMANDS[command], check=True, fault=("count", 0, "out"))
            seconds = time.monotonic() - began
            self.undisturbed[command] = contents(folder / "out"), seconds, int((self.root / "count").read_text())
            shutil.rmtree(folder)
        return self.undisturbed[command]


class Failure(Exception):
    pass


def contents(folder):
    """Every file by its path; what holds times, by its path only."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        uncompared = next((part for part in UNCOMPARED if name.startswith(part)), None)
        if uncompared:
            files[uncompared] = None
        elif path.is_file():
            data = path.read_bytes()
            if ".pool/" in name:
                name, data = GENERATION.sub(".N.", name), IN_MANIFEST.sub(b".N.", data)
            files[name + " (old)" if name in files else name] = data
    return files


def kept(folder):
    """Files from which a command goes on, where a byte can be damaged."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    names = (".journal", ".embedded", "judged.jsonl", "metrics.jsonl", ".sqlite", ".sqlite-wal", ".answer")
    return sorted(path for path in found if path.name.endswith(names))


def disturb(bench, folder, command, fault, pick, seconds, writes):
    """Runs the command with the fault and says how it ended; the instant is in the words."""
    line = COMMANDS[command]
    url = bench.stormy.url if pick.random() < 0.5 else bench.calm.url
    if fault in ("enospc", "eio", "short"):
        under = pick.choice(["out", "out", "home"])
        at = pick.randint(1, max(writes, 1)) if under == "out" else int(2 ** pick.uniform(0, 6))
        code, said = bench.run(folder, line, url=url, fault=(fault, at, under))
        return f"at write {at} under {under}/", code, said
    instant = pick.uniform(0, 1.05) * seconds
    child = bench.start(folder, line, url=url)
    time.sleep(instant)
    number = signal.SIGKILL if fault == "damage" else signal.Signals[fault]
    if child.poll() is None:
        child.send_signal(number)
    code, said = bench.ended(child, line)
    instant = f"after {instant:.3f} s"
    files = kept(folder)
    if fault == "damage" and files:
        journals = [path for path in files if "sqlite" not in path.name]
        path = pick.choice(journals if journals and pick.random() < 0.8 else files)
        data = bytearray(path.read_bytes())
        place = pick.randrange(len(data))
        data[place] ^= pick.randrange(1, 256)
        path.write_bytes(data)
        instant += f", byte {place} of {path.relative_to(folder)}"
    return instant, code, said


def check_half(folder, expected, before):
    """What has its final name is whole."""
    for name, data in contents(folder / "out").items():
        final = name in expected and expected[name] is not None
        if final and data != expected[name] and data != before.get(name):
            raise Failure(f"out/{name} is neither absent nor whole")


def round_of(bench, seed, chosen):
    pick = random.Random(seed)
    command, fault = pick.choice(chosen), pick.choice(FAULTS)
    expected, seconds, writes = bench.expected(command)
    folder = bench.folder(f"round-{seed}", command)
    before = contents(folder / "out")
    title = f"seed {seed}: {command}, {fault}"
    try:
        instant, code, said = disturb(bench, folder, command, fault, pick, seconds, writes)
        title += f" {instant}, exit {code}"
        if fault in ("enospc", "eio") and code not in (0, 3):
            raise Failure(f"not exit 3 but {code}: {said}")
        if fault == "short" and code != 0:
            raise Failure(f"a short write is not an error: {said}")
        check_half(folder, expected, before)
        if code != 0 or fault == "damage":
            go_on(bench, folder, command, fault, code)
        found = contents(folder / "out")
        if found != expected:
            differ = [name for name in found.keys() | expected.keys() if found.get(name, 0) != expected.get(name, 0)]
            raise Failure(f"the resumed run differs in {sorted(differ)}")
        left = [path.name for path in folder.rglob("*") if "gradus-unfinished" in path.name or "gradus-probe" in path.name]
        if left:
            raise Failure(f"left behind: {left}")
    except Failure as failure:
        print(f"{title}\nFAILED {failure}\nkept in {folder}", flush=True)
        return False
    print(title, flush=True)
    shutil.rmtree(folder)
    return True


def go_on(bench, folder, command, fault, code):
    """The same command again, until it ends well."""
    line = COMMANDS[command]
    again, said = bench.run(folder, line)
    if again and "is there already" in said:
        return  # it was complete when it was disturbed
    if again and fault == "damage" and ("is damaged" in said or "cannot be used" in said):
        # A jobs database whose pages are damaged: the sentence says to move it away.
        for path in (folder / "home").glob("jobs.sqlite*"):
            path.unlink()
        again, said = bench.run(folder, line)
    if again:
        raise Failure(f"the next run ends with {again}: {said}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--rounds", type=int, default=200)
    parse.add_argument("--seed", type=int, default=0, help="seed of the first round")
    parse.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    options = parse.parse_args()
    program = str(Path(os.environ.get("GRADUS", ROOT / "target/debug/gradus")).resolve())
    if sys.platform != "linux":
        print("skipped: the faults of writes need Linux")
        return 0
    root = Path(tempfile.mkdtemp(prefix="gradus-faults-"))
    bench = Bench(program, root)
    seeds = range(options.seed, options.seed + options.rounds)
    passed = sum(round_of(bench, seed, options.commands) for seed in seeds)
    failed = options.rounds - passed
    print(f"{passed} passed, {failed} failed")
    if not failed:
        shutil.rmtree(root)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
