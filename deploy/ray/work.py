#!/usr/bin/env python3
"""`gradus work` on a Ray cluster: each worker is an actor with its own CPUs and GPUs that runs the program.

    python deploy/ray/work.py --workers 8 --num-gpus 1 -- --store postgres://gradus@db/jobs --until-done
    ray job submit --working-dir deploy/ray -- python work.py --workers 8 --num-gpus 1 -- --store postgres://gradus@db/jobs

What follows `--` are options of `gradus work`. A program that dies is started again, and so is an actor, on another node
where its own is lost. SIGTERM and Ctrl-C drain: every worker finishes its tasks in flight. With `--until-done` the
script ends when no job has tasks left. `ray job stop` waits as many seconds as RAY_JOB_STOP_WAIT_TIME_S says on the head
node, by default 3: set it to the length of a task.

The program must be installed on every node (pip install the wheel of gradus). Variables named with --env, by default
PGPASSWORD, are handed to the workers as arguments: a runtime environment would be shown on Ray's dashboard.
"""
import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import ray

# Seconds before a program that died is started again: doubled while it dies at once, up to a minute.
FIRST_WAIT, LONGEST_WAIT, SOON = 1.0, 60.0, 10.0
# Seconds until an actor that does not answer is given up when all are drained.
PATIENCE = 15.0
# `wait` of an actor, and the calls beside it.
CALLS_AT_ONCE = 4


def ends_with_its_parent():
    """The kernel sends SIGTERM when the actor dies, however that happens (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=CALLS_AT_ONCE)
class Worker:
    """Runs `gradus work` and starts it again when it dies."""

    def __init__(self, program, options, variables, restarts):
        self.command = [program, "work", *options]
        self.environment = {**os.environ, **variables}
        cores = int(ray.get_runtime_context().get_assigned_resources().get("CPU", 0))
        if cores:
            self.environment.setdefault("RAYON_NUM_THREADS", str(cores))
        self.restarts = restarts
        self.process, self.draining, self.started = None, threading.Event(), 0
        # The signal of a parent's death is that of the thread that started the child: this one lives as long as the actor.
        self.ended, self.status = threading.Event(), None
        threading.Thread(target=self.supervise, daemon=True).start()

    def supervise(self):
        """Runs the program until it has nothing left to do, is drained, or died too often."""
        wait = FIRST_WAIT
        while not self.draining.is_set():
            began = time.monotonic()
            try:
                self.process = subprocess.Popen(
                    self.command, env=self.environment, stdin=subprocess.DEVNULL, preexec_fn=ends_with_its_parent)
            except OSError as error:
                self.status = f"{self.command[0]}: {error}"
                break
            self.started += 1
            if self.draining.is_set():
                self.process.terminate()
            self.status = self.process.wait()
            if self.status == 0 or self.draining.is_set() or self.started > self.restarts:
                break
            wait = FIRST_WAIT if time.monotonic() - began > SOON else min(2 * wait, LONGEST_WAIT)
            print(f"gradus work ended with status {self.status}: it is started again in {wait:.0f} s", flush=True)
            self.draining.wait(wait)
        self.ended.set()

    def wait(self):
        """Waits for the end: the last exit status, or why the program cannot be started."""
        self.ended.wait()
        return self.status

    def drain(self):
        """Lets the program finish its tasks in flight."""
        # A second SIGTERM would end it at once.
        if not self.draining.is_set():
            self.draining.set()
            if self.process is not None:
                self.process.terminate()

    def where(self):
        """The node, and the program's process."""
        return ray.get_runtime_context().get_node_id(), self.process and self.process.pid


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, default=1, help="workers (default: 1)")
    parser.add_argument("--num-cpus", type=float, default=1, help="CPUs of each worker (default: 1)")
    parser.add_argument("--num-gpus", type=float, default=0, help="GPUs of each worker (default: 0)")
    parser.add_argument("--program", default="gradus", help="the program on the nodes (default: gradus on the PATH)")
    parser.add_argument("--restarts", type=int, default=1000, help="starts again per worker (default: 1000)")
    parser.add_argument("--env", action="append", metavar="NAME",
                        help="variable to hand to the workers; repeatable (default: PGPASSWORD)")
    parser.add_argument("--address", help="the Ray cluster (default: that of RAY_ADDRESS, or of this node)")
    parser.add_argument("options", nargs="*", help="options of `gradus work`, after --")
    return parser.parse_args()


def main():
    asked = arguments()
    names = asked.env if asked.env is not None else ["PGPASSWORD"]
    variables = {name: os.environ[name] for name in names if name in os.environ}
    ray.init(address=asked.address, logging_level="warning")
    # Ray installs a handler of its own; this one comes after it.
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    program = shutil.which(asked.program) or asked.program
    make = Worker.options(num_cpus=asked.num_cpus, num_gpus=asked.num_gpus, scheduling_strategy="SPREAD")
    workers = [make.remote(program, asked.options, variables, asked.restarts) for _ in range(asked.workers)]
    left = {worker.wait.remote(): worker for worker in workers}
    answers, patience, failed = {}, None, []
    while left:
        if stop.is_set():
            if patience is None:
                print(f"draining {len(left)} workers", flush=True)
                patience = time.monotonic() + PATIENCE
            for one, worker in left.items():
                # Again and again: an actor that was just started again has not heard of it.
                if one not in answers or ray.wait([answers[one]], timeout=0)[0]:
                    answers[one] = worker.drain.remote()
                elif time.monotonic() > patience:
                    # It waits for a node, and runs nothing.
                    ray.kill(worker)
        for one in ray.wait(list(left), timeout=0.5)[0]:
            left.pop(one)
            try:
                status = ray.get(one)
            except ray.exceptions.RayActorError as error:
                status = 0 if stop.is_set() else str(error)
            failed += [status] if status != 0 else []
    for status in failed:
        print(f"a worker ended with {status}", file=sys.stderr)
    print(f"{asked.workers} workers ended", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
