#!/usr/bin/env python3
"""Several machines label one dataset through PostgreSQL while workers are killed and the database is disturbed.

    scripts/postgres_server.py -- scripts/test_cluster.py

Settings by environment: SOLUTIONS (20,000), KILLS (50), CUTS (20), RESTARTS (2), WORKERS (4). A worker is a process group
with a home of its own, as on a machine of its own. In the end the output must be that of one machine without any
disturbance, to the byte, every solution must be labeled once, and no secret may be in anything that is left.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = Path(os.environ.get("GRADUS_PROGRAM", TARGET / "debug/gradus"))
SERVER = Path(os.environ.get("GRADUS_SCRIPTED_SERVER", TARGET / "debug/examples/scripted_server"))
SOLUTIONS = int(os.environ.get("SOLUTIONS", 20_000))
KILLS = int(os.environ.get("KILLS", 50))
CUTS = int(os.environ.get("CUTS", 20))
RESTARTS = int(os.environ.get("RESTARTS", 2))
WORKERS = int(os.environ.get("WORKERS", 4))
PER_PROBLEM = 4
KEY = "sk-cluster-7f3a91c2"


def data(path):
    """Solutions of problems that differ, some of them in rows of their own."""
    draw = random.Random(7)
    with open(path, "w") as out:
        for number in range(SOLUTIONS // PER_PROBLEM):
            one, two = draw.randrange(2, 999), draw.randrange(2, 999)
            problem = {"id": f"p{number}", "text": f"Number {number}: what is {one} + {two}?", "answer": str(one + two)}
            solutions = [
                {"id": f"p{number}/{at}", "problem_id": f"p{number}",
                 "steps": [f"Way {at}: add {one} and {two}.", f"{one} + {two} = {one + two + at}", "That is the answer."]}
                for at in range(PER_PROBLEM)
            ]
            rows = [solutions] if number % 3 else [[solution] for solution in solutions]
            for row in rows:
                out.write(json.dumps({"gradus": 1, "problem": problem, "solutions": row}) + "\n")


class Machine:
    """A process group with a home of its own."""

    def __init__(self, folder, name, words, environment):
        self.home, self.words = folder / name, words
        self.home.mkdir(exist_ok=True)
        self.log = folder / f"{name}.log"
        self.environment = dict(environment, GRADUS_HOME=str(self.home))
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(PROGRAM), *self.words], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)

    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def psql(url, query):
    """Runs a query with PostgreSQL's own client; what it answers."""
    folder = Path(os.environ["GRADUS_TEST_POSTGRES_FOLDER"])
    programs = Path(json.loads((folder / "server.json").read_text())["programs"])
    asked = subprocess.run([programs / "psql", url, "-XAtc", query], capture_output=True, text=True)
    return asked.stdout.strip()


def disturb(url, coordinator, workers, began):
    """Kills, cuts and restarts at random instants until all are spent or the work is done."""
    draw = random.Random(11)
    plan = ["kill"] * KILLS + ["cut"] * CUTS + ["restart"] * RESTARTS
    draw.shuffle(plan)
    spent = {"kill": 0, "cut": 0, "restart": 0}
    for what in plan:
        time.sleep(draw.uniform(0.05, 0.6))
        if not coordinator.is_running() and coordinator.process.returncode == 0:
            break
        if what == "kill":
            victim = draw.choice([coordinator, *workers])
            if victim.is_running():
                victim.kill()
                spent["kill"] += 1
            victim.start()
        elif what == "cut":
            psql(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                      "AND backend_type = 'client backend' ORDER BY random() LIMIT 3")
            spent["cut"] += 1
        else:
            subprocess.run([sys.executable, ROOT / "scripts/postgres_server.py", "--restart",
                            os.environ["GRADUS_TEST_POSTGRES_FOLDER"]], check=True)
            spent["restart"] += 1
    print(f"after {time.monotonic() - began:.0f} s: {spent['kill']} kills, {spent['cut']} cuts, "
          f"{spent['restart']} restarts", flush=True)
    return spent


def secrets_in(folder, words):
    """Files below a folder that hold one of these words."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            found += [f"{path.relative_to(folder)}: {word}" for word in words if word.encode() in content]
    return found


def secrets_in_store(url, words):
    """Tables that hold one of these words, as text or as bytes."""
    tables = psql(url, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'gradus_%' ORDER BY 1").split()
    assert len(tables) > 5, tables
    found = []
    for table in tables:
        for word in words:
            like = f"t::text LIKE '%{word}%' OR t::text LIKE '%{word.encode().hex()}%'"
            if psql(url, f"SELECT count(*) FROM {table} t WHERE {like}") != "0":
                found.append(f"{table}: {word}")
    return found


def main():
    url = os.environ.get("GRADUS_TEST_POSTGRES")
    if not url:
        print("skipped: GRADUS_TEST_POSTGRES is not set")
        return 0
    password = url.split("://", 1)[1].split("@")[0].split(":", 1)[1]
    bare = url.replace(f":{password}@", "@")
    folder = Path(tempfile.mkdtemp(prefix="gradus-cluster-"))
    server = subprocess.Popen([SERVER], stdout=subprocess.PIPE, text=True)
    machines = []
    try:
        address = server.stdout.readline().strip()
        data(folder / "solutions.jsonl")
        usual = {name: value for name, value in os.environ.items()
                 if not name.startswith("GRADUS_") or name == "GRADUS_TEST_POSTGRES_FOLDER"}
        # The password comes from the environment, the servers' key from a file: both are looked for afterwards.
        usual.update(PGPASSWORD=password, CLUSTER_KEY=KEY)
        asked = ["--endpoint", address, "--model", "scripted", "--key-env", "CLUSTER_KEY", "--concurrency", "16",
                 "--no-cache"]
        judge = ["annotate", "judge", str(folder / "solutions.jsonl"), "--shard-size", "500", *asked]

        began = time.monotonic()
        alone = subprocess.run([PROGRAM, *judge, "-o", folder / "alone/labels.jsonl", "--json"], cwd=folder,
                               env=dict(usual, GRADUS_HOME=str(folder / "alone-home")), capture_output=True, text=True)
        assert alone.returncode == 0, alone.stderr
        expected = json.loads(alone.stdout)
        print(f"one machine: {expected['labeled']} of {expected['solutions']} solutions labeled in "
              f"{time.monotonic() - began:.1f} s", flush=True)

        began = time.monotonic()
        words = [*judge, "-o", str(folder / "together/labels.jsonl"), "--store", bare, "--json"]
        coordinator = Machine(folder, "coordinator", words, usual)
        machines.append(coordinator)
        work = ["work", "--store", bare, "--endpoint", address, "--key-env", "CLUSTER_KEY", "--concurrency", "16",
                "--no-cache"]
        workers = [Machine(folder, f"worker{number}", work, usual) for number in range(WORKERS)]
        machines += workers
        spent = disturb(url, coordinator, workers, began)
        for machine in machines:
            if not machine.is_running():
                machine.start()
        status = coordinator.process.wait(timeout=900)
        assert status == 0, coordinator.log.read_text()[-3000:]
        print(f"together: done after {time.monotonic() - began:.1f} s", flush=True)

        counts = psql(url, "SELECT count(*), count(DISTINCT number) FROM gradus_results")
        assert counts == f"{SOLUTIONS}|{SOLUTIONS}", f"results in the store: {counts}"
        for worker in workers:
            os.killpg(worker.process.pid, signal.SIGTERM)
        ended = [worker.process.wait(timeout=60) for worker in workers]
        assert ended == [0] * len(workers), f"workers ended with {ended}"

        shards = sorted(path.name for path in (folder / "alone").iterdir())
        assert shards == sorted(path.name for path in (folder / "together").iterdir())
        for name in shards:
            one, other = ((folder / kind / name).read_bytes() for kind in ("alone", "together"))
            assert one == other, f"{name} differs"
        labeled = sum(len(json.loads(line)["solutions"]) for name in shards if name.endswith(".jsonl")
                      for line in open(folder / "together" / name))
        assert labeled == SOLUTIONS, labeled
        helped = [worker.log.name for worker in workers if "done here" in worker.log.read_text()]
        left = secrets_in(folder, [password, KEY])
        left += secrets_in_store(url, [password, KEY])
        assert not left, f"secrets are left in {left}"
        print(f"the same {len(shards)} files to the byte, {labeled} solutions labeled once, no secret left; "
              f"{len(helped)} of {len(workers)} workers finished a turn")
        assert spent["kill"] >= KILLS or SOLUTIONS < 20_000, f"only {spent}: the work was done too soon"
        return 0
    finally:
        server.kill()
        for machine in machines:
            if machine.is_running():
                machine.kill()
        if "KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
