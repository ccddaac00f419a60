#!/usr/bin/env python3
"""What is in deploy/: manifests checked against their schemas, and every entry point really started.

    scripts/postgres_server.py -- scripts/slurm_cluster.py -- scripts/test_deploy.py [kubernetes] [slurm] [ray]

- **kubernetes**: no Kubernetes runs here. The manifests are checked with the JSON schemas of PyPI's kubernetes-validate and
  with rules of our own. Then each container's command runs as a process group with the environment and the volumes that
  its manifest gives it, and nothing else of this machine's environment.
- **slurm**: the batch scripts are submitted with sbatch to a real cluster of one node, with arrays, a time limit that
  really comes, and requeued tasks. Without Slurm they are process groups with SLURM_… variables and a scontrol of ours.
- **ray**: `ray job submit` runs deploy/ray/work.py on a cluster of two nodes; a program, an actor and a node are killed.

Workers and the command that begins the job are killed on the way. Each time the output must be that of one machine, to the
byte, and no secret may be in anything that is left. SOLUTIONS (4,000) sets the size.
"""
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("SOLUTIONS", "4000")
from test_cluster import KEY, PROGRAM, ROOT, SERVER, SOLUTIONS, TARGET, data, psql, secrets_in  # noqa: E402

DEPLOY = ROOT / "deploy"
VENV = TARGET.resolve() / "deploy-venv"
PACKAGES = ["kubernetes-validate==1.37.0", "PyYAML==6.0.3", "ray[default]==2.60.0"]
# The newest version that the schemas have, and the oldest that its makers still support.
KUBERNETES = ["1.37", "1.34"]
SHARDS = 6


def main(parts):
    url = os.environ.get("GRADUS_TEST_POSTGRES")
    if not url:
        print("skipped: GRADUS_TEST_POSTGRES is not set")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="gradus-deploy-"))
    server = subprocess.Popen([SERVER], stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        bench = Bench(folder, url, server.stdout.readline().strip())
        for name, part in (("kubernetes", kubernetes), ("slurm", slurm), ("ray", on_ray)):
            if not parts or name in parts:
                began = time.monotonic()
                print(f"{name}: {part(bench)}; {time.monotonic() - began:.0f} s", flush=True)
        left = secrets_in(folder, [bench.password, KEY])
        assert not left, f"secrets are left in {left}"
        return 0
    finally:
        server.kill()
        Group.end_all()
        if "KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


class Bench:
    """What all parts share: the input, the database, the server, and the output of one machine."""

    def __init__(self, folder, url, endpoint):
        self.folder, self.url, self.endpoint = folder, url, endpoint
        self.password = url.split("://", 1)[1].split("@")[0].split(":", 1)[1]
        self.bare = url.replace(f":{self.password}@", "@")
        data(folder / "solutions.jsonl")
        self.server = ["--endpoint", endpoint, "--key-env", "API_KEY", "--concurrency", "4", "--no-cache"]
        self.alone = folder / "alone"
        self.run(*self.judge("alone"))

    def judge(self, output):
        """The command that begins the job, and its one-machine twin."""
        target = self.folder / output / "judged.jsonl.zst"
        words = ["annotate", "judge", self.folder / "solutions.jsonl", "-o", target, "--shard-size=100", "--model=scripted"]
        return [*map(str, words), *self.server]

    def environment(self, home):
        """The environment of a machine: nothing of this one's but the PATH."""
        home.mkdir(parents=True, exist_ok=True)
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(home), "GRADUS_HOME": str(home), "API_KEY": KEY, "PGPASSWORD": self.password}

    def run(self, *words):
        """Runs the program here, and fails with what it said."""
        ended = subprocess.run([PROGRAM, *words], cwd=self.folder, env=self.environment(self.folder / "home"),
                               capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def store(self, schema):
        """The address of the job store, in a schema of its own."""
        return f"{self.bare}{'&' if '?' in self.bare else '?'}schema={schema}"

    def results(self, schema):
        found = psql(self.url, f"SELECT count(*) FROM {schema}.gradus_results")
        return int(found or 0)

    def same(self, folder):
        """The output of a part is that of one machine, to the byte."""
        names = sorted(path.name for path in self.alone.iterdir())
        found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        assert names == found, (names, found)
        for name in names:
            assert (self.alone / name).read_bytes() == (folder / name).read_bytes(), f"{name} differs"
        return f"the same {len(names)} files to the byte"


class Group:
    """A process group, as a machine of its own."""

    all = []

    def __init__(self, name, command, environment, folder):
        self.name, self.command, self.environment, self.folder = name, command, environment, folder
        self.log = folder / f"{name}.log"
        self.start()
        Group.all.append(self)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def kill_and_restart(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def drain(self, seconds):
        """SIGTERM to the first process, as a container gets it."""
        self.process.terminate()
        return self.process.wait(timeout=seconds)

    @classmethod
    def end_all(cls):
        for group in cls.all:
            try:
                group.signal(signal.SIGKILL)
            except ProcessLookupError:
                pass


def until(what, seconds=120.0, every=0.1):
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(every)
    logs = "".join(f"\n{group.log.name}: {group.log.read_text()[-600:]}" for group in Group.all)
    raise AssertionError(f"not so after {seconds:.0f} s{logs}")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


# Kubernetes.


def kubernetes(bench):
    import yaml

    manifests = {}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        if path.name != "kustomization.yaml":
            manifests[path.stem] = yaml.safe_load(path.read_text())
            check_manifest(path.name, manifests[path.stem])
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    missing = [name for name in kustomization["resources"] if not (DEPLOY / "kubernetes" / name).is_file()]
    assert not missing, f"kustomization.yaml names {missing}"

    literals = dict(line.split("=", 1) for line in kustomization["configMapGenerator"][0]["literals"])
    assert literals.keys() == {"GRADUS_JOBS", "ENDPOINT"}
    cluster = Pods(bench, {"GRADUS_JOBS": bench.store("kubernetes"), "ENDPOINT": bench.endpoint})
    shutil.copy(bench.folder / "solutions.jsonl", cluster.data)
    changes = {"--shard-size=10000": "--shard-size=100", "--concurrency=64": "--concurrency=4",
               "--model=Qwen/Qwen2.5-72B-Instruct": "--model=scripted"}
    begin = cluster.start("begin", manifests["begin"], changes)
    workers = [cluster.start(f"work{number}", manifests["work"], changes) for number in range(2)]
    until(lambda: bench.results("kubernetes") > SOLUTIONS // 20)
    ending = [cluster.start(f"work-job{number}", manifests["work-job"], changes) for number in range(2)]
    cluster.probe(workers[0], manifests["work"])
    for victim in (workers[0], begin, ending[0]):
        victim.kill_and_restart()
        time.sleep(0.3)
    assert workers[1].drain(grace(manifests["work"])) == 0, "a drained worker ends with 0"
    workers[1].start()
    kills = 3
    while begin.process.poll() is None and kills < 12:
        time.sleep(0.5)
        victim = (begin, *workers)[kills % 3]
        if victim.process.poll() is None:
            victim.kill_and_restart()
            kills += 1
    assert begin.process.wait(timeout=300) == 0, begin.log.read_text()[-2000:]
    for worker in ending:
        # Their own end, when no job has tasks left.
        assert worker.process.wait(timeout=120) == 0, worker.log.read_text()[-2000:]
    assert [worker.drain(grace(manifests["work"])) for worker in workers] == [0, 0]
    same = bench.same(cluster.data / "labels")
    valid = f"{len(manifests)} manifests valid for {' and '.join(KUBERNETES)}"
    return f"{valid}; {same} with {kills} kills; {score_job(cluster, manifests['score-job'])}"


def grace(manifest):
    return manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def check_manifest(name, manifest):
    """Schemas, and what a cluster that cares asks for."""
    import kubernetes_validate

    for version in KUBERNETES:
        kubernetes_validate.validate(manifest, version, strict=True)
    if manifest["kind"] == "PersistentVolumeClaim":
        return
    pod = manifest["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 60 and pod["automountServiceAccountToken"] is False, name
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0, name
    for container in pod["containers"]:
        guard = container["securityContext"]
        assert not guard["allowPrivilegeEscalation"] and guard["readOnlyRootFilesystem"], name
        assert guard["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"], name
        for variable in container["env"]:
            is_secret = re.search("KEY|PASSWORD|TOKEN|SECRET", variable["name"])
            assert bool(is_secret) == ("secretKeyRef" in variable.get("valueFrom", {})), f"{name}: {variable['name']}"
        if manifest["kind"] == "Deployment":
            assert container["readinessProbe"], name


class Pods:
    """Containers as process groups: a volume claim is a shared folder, an emptyDir one of the pod's own."""

    def __init__(self, bench, settings):
        self.bench, self.settings = bench, settings
        self.folder = bench.folder / "kubernetes"
        self.data = self.folder / "data"
        self.data.mkdir(parents=True)

    def start(self, name, manifest, changes=(), more=()):
        command, environment = self.container(name, manifest, dict(changes), dict(more))
        return Group(name, command, environment, self.folder)

    def container(self, name, manifest, changes, more):
        pod = manifest["spec"]["template"]["spec"]
        container = pod["containers"][0]
        claims = {volume["name"]: "persistentVolumeClaim" in volume for volume in pod["volumes"]}
        mounts = {}
        for mount in container["volumeMounts"]:
            place = self.data if claims[mount["name"]] else self.folder / name / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            mounts[mount["mountPath"]] = str(place)
        environment = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        for source in container.get("envFrom", ()):
            assert source == {"configMapRef": {"name": "gradus-settings"}}
            environment.update(self.settings)
        secrets = {"PGPASSWORD": self.bench.password, "API_KEY": KEY}
        for variable in container["env"]:
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            value = secrets[reference["key"]] if reference else self.mounted(variable["value"], mounts)
            environment[variable["name"]] = value
        environment.update(more)
        words = container.get("command", ["gradus"]) + container["args"]
        words = [self.mounted(changes.get(word, word), mounts) for word in words]
        # As Kubernetes expands $(NAME).
        return [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], word) for word in words], environment

    @staticmethod
    def mounted(text, mounts):
        paths = "|".join(re.escape(path) for path in mounts)
        return re.sub(rf"(^|=)({paths})(?=/|$)", lambda found: found[1] + mounts[found[2]], text)

    def probe(self, group, manifest):
        """The readiness probe, in the container's environment."""
        probe = manifest["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
        asked = subprocess.run(probe["exec"]["command"], env=group.environment, capture_output=True, text=True,
                               timeout=probe["timeoutSeconds"])
        assert asked.returncode == 0, asked.stderr
        away = dict(group.environment, PGPASSWORD="wrong")
        refused = subprocess.run(probe["exec"]["command"], env=away, capture_output=True, text=True, timeout=180)
        assert refused.returncode != 0, "the probe fails where the store does"


def score_job(cluster, manifest):
    """The indexed Job that scores shards, with the default PRM where its base is here."""
    home = Path(os.environ.get("GRADUS_HOME", TARGET / "gradus-home"))
    if not any(home.glob("**/*.safetensors")):
        return f"score-job.yaml was not run: {home} has no models"
    shards = cluster.data / "sampled"
    shards.mkdir()
    lines = (cluster.data / "solutions.jsonl").read_text().splitlines()[: 2 * SHARDS]
    for number in range(SHARDS):
        part = "\n".join(lines[2 * number : 2 * number + 2]) + "\n"
        (shards / f"sampled-{number:05}-of-{SHARDS:05}.jsonl").write_text(part)
    more = {"MODEL": "gradus-prm", "DEVICE": "cpu", "SHARDS_OF": "2", "GRADUS_HOME": str(home),
            "GRADUS_JOBS": str(cluster.folder / "score-jobs.sqlite")}
    pods = []
    for index in range(2):
        pods.append(cluster.start(f"score{index}", manifest, (), {**more, "JOB_COMPLETION_INDEX": str(index)}))
    scored = cluster.data / "scored"
    until(lambda: scored.is_dir() and any(scored.glob("*.jsonl")), 300)
    pods[0].kill_and_restart()
    pods[1].drain(grace(manifest))
    pods[1].start()
    assert [pod.process.wait(timeout=400) for pod in pods] == [0, 0], [pod.log.read_text()[-1000:] for pod in pods]
    environment = cluster.bench.environment(cluster.folder / "home")
    environment.update(GRADUS_HOME=str(home), GRADUS_JOBS=str(cluster.folder / "expected.sqlite"))
    for shard in sorted(shards.iterdir()):
        target = cluster.folder / "expected" / shard.name
        line = [PROGRAM, "score", shard, "-o", target, "--show", "0"]
        subprocess.run(line, env=environment, check=True, capture_output=True)
        assert target.read_bytes() == (scored / shard.name).read_bytes(), f"{shard.name} differs"
    return f"{SHARDS} scored shards by 2 pods, the same to the byte"


# Slurm.


def slurm(bench):
    folder = bench.folder / "slurm"
    folder.mkdir()
    for script in sorted((DEPLOY / "slurm").glob("*.sbatch")):
        subprocess.run(["bash", "-n", script], check=True)
    cluster = (Slurm if "SLURM_CONF" in os.environ else NoSlurm)(bench, folder)
    store = {"GRADUS_JOBS": bench.store("slurm")}
    begin = cluster.submit("gradus.sbatch", bench.judge("slurm/labels"), store)
    # A limit that comes while there is nothing left to do: the workers wait, drain, and are requeued.
    workers = cluster.submit("gradus.sbatch", ["work", *bench.server], store, array=2, limit=True)
    until(lambda: bench.results("slurm") > SOLUTIONS // 20)
    cluster.warn(begin)
    cluster.kill(workers, 1)
    cluster.wait(begin)
    same = bench.same(folder / "labels")
    turns = cluster.requeued(workers)
    cluster.cancel(workers)

    shards = folder / "problems"
    shards.mkdir()
    lines = (bench.folder / "solutions.jsonl").read_text().splitlines()
    for number in range(SHARDS):
        part = "\n".join(lines[number * 40 : number * 40 + 40]) + "\n"
        (shards / f"problems-{number:05}-of-{SHARDS:05}.jsonl").write_text(part)
    # One solution each: the scripted server knows no `n`, and another request has another answer.
    sample = ["sample", "-n", "1", "--model", "scripted", *bench.server]
    array = cluster.submit("shards.sbatch", [shards, folder / "sampled", *sample], {}, array=3)
    until(lambda: (folder / "sampled").is_dir() and any((folder / "sampled").glob("*.jsonl")))
    cluster.warn(array, 0)
    cluster.wait(array)
    written = {path.name: path.stat().st_mtime_ns for path in (folder / "sampled").glob("*.jsonl")}
    assert len(written) == SHARDS, written
    cluster.wait(cluster.submit("shards.sbatch", [shards, folder / "sampled", *sample], {}, array=2))
    assert written == {path.name: path.stat().st_mtime_ns for path in (folder / "sampled").glob("*.jsonl")}, "left alone"
    for shard in sorted(shards.iterdir()):
        bench.run(*sample, str(shard), "-o", f"slurm-expected/{shard.name}")
        assert (bench.folder / "slurm-expected" / shard.name).read_bytes() == (folder / "sampled" / shard.name).read_bytes()
    return f"{cluster}; {same}; workers requeued: {turns}; {SHARDS} shards by an array of 3, the same to the byte"


class Slurm:
    """A real cluster."""

    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder

    def __str__(self):
        return subprocess.run(["sinfo", "--version"], capture_output=True, text=True).stdout.strip()

    def submit(self, script, words, environment, array=None, limit=False):
        """Submits a script; the job's number."""
        command = ["sbatch", "--parsable", f"--chdir={self.folder}"]
        command += [f"--array=0-{array - 1}"] if array else []
        # Slurm counts in minutes; the signal may come up to a minute early.
        command += ["--time=1", "--signal=B:USR1@10"] if limit else ["--time=10"]
        home = self.bench.environment(self.folder / f"home-{script}-{array}")
        home = dict(home, SLURM_CONF=os.environ["SLURM_CONF"], **environment)
        submitted = subprocess.run([*command, DEPLOY / "slurm" / script, *words], env=home, capture_output=True, text=True)
        assert submitted.returncode == 0, submitted.stderr
        return submitted.stdout.strip()

    def tasks(self, job):
        """For each task of a job its fields, as scontrol shows them."""
        shown = subprocess.run(["scontrol", "show", "job", "-o", job], capture_output=True, text=True).stdout
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown.splitlines() if "JobId=" in line]

    def task(self, job, number):
        return next((one for one in self.tasks(job) if one.get("ArrayTaskId") == str(number)), None)

    def warn(self, job, number=None):
        """USR1 to the script, as before the limit; until the task was started again, or had ended before."""
        name = job if number is None else f"{job}_{number}"
        subprocess.run(["scancel", "--batch", "--signal=USR1", name], check=True)

        def turned():
            task = self.tasks(job)[0] if number is None else self.task(job, number)
            return task is None or int(task["Restarts"]) > 0 or task["JobState"] == "COMPLETED"

        until(turned)

    def kill(self, job, number):
        """Ends a task as a preemption does: it is requeued."""
        subprocess.run(["scontrol", "requeue", f"{job}_{number}"], check=True)

    def wait(self, job):
        """Waits until all tasks have ended well."""
        def over():
            states = [task["JobState"] for task in self.tasks(job)]
            bad = [state for state in states if state in ("FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")]
            assert not bad, f"{states}: " + "\n".join(path.read_text()[-1500:] for path in self.folder.glob("*.log"))
            return all(state == "COMPLETED" for state in states)

        until(over, 240, 0.5)

    def requeued(self, job):
        """How often each task was requeued, by its limit at the latest."""
        until(lambda: all(int(task["Restarts"]) > 0 for task in self.tasks(job)), 200, 1)
        return sorted(int(task["Restarts"]) for task in self.tasks(job))

    def cancel(self, job):
        subprocess.run(["scancel", job], check=True)
        until(lambda: all(task["JobState"] == "CANCELLED" for task in self.tasks(job)), 60, 0.5)


class NoSlurm:
    """The scripts as process groups; scontrol is one of ours, and a task that asks for it is started again."""

    def __init__(self, bench, folder):
        self.bench, self.folder, self.jobs = bench, folder, {}
        self.numbers = itertools.count(100)
        control = folder / "bin/scontrol"
        control.parent.mkdir()
        control.write_text(f'#!/bin/sh\ntouch "{folder}/$2.requeue"\n')
        control.chmod(0o755)

    def __str__(self):
        return "process groups in place of Slurm"

    def submit(self, script, words, environment, array=None, limit=False):
        job = str(next(self.numbers))
        self.jobs[job] = []
        for number in range(array or 1):
            home = self.bench.environment(self.folder / f"home-{job}-{number}")
            home = dict(home, SLURM_JOB_ID=str(int(job) * 1000 + number), **environment)
            home["PATH"] = f"{self.folder}/bin:{home['PATH']}"
            if array:
                home.update(SLURM_ARRAY_JOB_ID=job, SLURM_ARRAY_TASK_ID=str(number))
                home.update(SLURM_ARRAY_TASK_MIN="0", SLURM_ARRAY_TASK_COUNT=str(array))
            command = ["bash", str(DEPLOY / "slurm" / script), *map(str, words)]
            group = Group(f"slurm-{job}-{number}", command, home, self.folder)
            group.task = f"{job}_{number}" if array else home["SLURM_JOB_ID"]
            group.turns = 0
            self.jobs[job].append(group)
        return job

    def warn(self, job, number=None):
        group = self.jobs[job][number or 0]
        if group.process.poll() is None:
            group.process.send_signal(signal.SIGUSR1)
            group.process.wait(timeout=60)
            assert (self.folder / f"{group.task}.requeue").exists()
            group.turns += 1
            group.start()

    def kill(self, job, number):
        self.jobs[job][number].kill_and_restart()

    def wait(self, job):
        ended = [group.process.wait(timeout=240) for group in self.jobs[job]]
        assert not any(ended), [group.log.read_text()[-1500:] for group in self.jobs[job]]

    def requeued(self, job):
        for number in range(len(self.jobs[job])):
            self.warn(job, number)
        return [group.turns for group in self.jobs[job]]

    def cancel(self, job):
        assert not any(group.drain(60) for group in self.jobs[job])


# Ray.


def on_ray(bench):
    from ray.cluster_utils import Cluster

    folder = bench.folder / "ray"
    environment = dict(bench.environment(folder / "home"), RAY_JOB_STOP_WAIT_TIME_S="60", RAY_USAGE_STATS_ENABLED="0",
                       GRADUS_JOBS=bench.store("ray"))
    environment["PATH"] = f"{VENV}/bin:{environment['PATH']}"
    # The nodes are children of this process, with its environment.
    os.environ.update(environment)
    port = free_port()
    node = {"num_cpus": 1, "object_store_memory": 100 * 1024**2}
    dashboard = {"include_dashboard": True, "dashboard_host": "127.0.0.1", "dashboard_port": port}
    cluster = Cluster(initialize_head=True, head_node_args={**node, **dashboard})
    try:
        second = cluster.add_node(**node)
        os.environ["RAY_ADDRESS"] = f"http://127.0.0.1:{port}"

        def ray(*words):
            return subprocess.run([f"{VENV}/bin/ray", "job", *words], capture_output=True, text=True)

        until(lambda: ray("list").returncode == 0, 120, 1)
        submitted = ray("submit", "--no-wait", "--submission-id", "gradus-work", "--working-dir", str(DEPLOY / "ray"), "--",
                        "python", "work.py", "--workers", "2", "--env", "PGPASSWORD", "--env", "API_KEY", "--",
                        *bench.server)
        assert submitted.returncode == 0, submitted.stderr
        programs = until(lambda: found if len(found := workers(environment)) == 2 else None, 180)
        begin = Group("begin", [str(PROGRAM), *bench.judge("ray/labels")],
                      dict(environment, GRADUS_HOME=str(folder / "begin-home")), folder)
        until(lambda: bench.results("ray") > 0)
        # A program alone, then an actor with its program.
        os.kill(programs[0], signal.SIGKILL)
        os.kill(parent_of(programs[1]), signal.SIGKILL)
        until(lambda: len(found := workers(environment)) == 2 and not set(found) & set(programs), 180)
        assert begin.process.wait(timeout=300) == 0, begin.log.read_text()[-2000:]
        same = bench.same(folder / "labels")
        # A node: its worker waits for room on the other, which has none, and is given up when all are drained.
        cluster.remove_node(second)
        until(lambda: len(workers(environment)) == 1, 60)
        stopped = ray("stop", "gradus-work")
        assert stopped.returncode == 0, stopped.stderr
        log = ray("logs", "gradus-work").stdout
        assert "draining 2 workers" in log and "2 workers ended" in log, log
        assert not workers(environment)
        told = ray("list").stdout + log
        assert bench.password not in told and KEY not in told, "a secret is on the dashboard"
        return f"{same}; a program, an actor and a node were killed, the rest was drained"
    finally:
        cluster.shutdown()


def workers(environment):
    """The processes of `gradus work` of this test: those with its home."""
    mine = f"GRADUS_HOME={environment['GRADUS_HOME']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_worker = words[0].endswith(b"/gradus") and words[1] == b"work"
            if is_worker and mine in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except (OSError, IndexError):
            pass
    return sorted(found)


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def in_virtual_environment():
    """Starts this script again where its packages are."""
    if importlib.util.find_spec("kubernetes_validate") and importlib.util.find_spec("ray"):
        return
    if not (VENV / "bin/ray").exists():
        for command in ([sys.executable, "-m", "venv", VENV], [VENV / "bin/pip", "install", "-q", *PACKAGES]):
            if subprocess.run(command).returncode != 0:
                sys.exit("skipped: the packages of this test cannot be installed here")
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])


if __name__ == "__main__":
    in_virtual_environment()
    sys.exit(main(sys.argv[1:]))
