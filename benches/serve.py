"""Load on `gradus serve`: 64 clients against the offline throughput of `gradus score`, on the same solutions and the same program.

    python3 benches/serve.py GRADUS [--clients 64] [--minutes 0]

Prints tokens per second and their ratios: offline; one solution per request; all candidates of a problem per request. Then what
happens past the queue, whether clients that leave free their work, and with --minutes the memory over time. Standard library only.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("gradus")
arguments.add_argument("--clients", type=int, default=64)
arguments.add_argument("--problems", type=int, default=24)
arguments.add_argument("--solutions", type=int, default=16)
arguments.add_argument("--minutes", type=float, default=0)
options = arguments.parse_args()
folder = pathlib.Path(tempfile.mkdtemp())
world = folder / "world.jsonl"
subprocess.run([options.gradus, "synth", "-n", str(options.problems), "--solutions", str(options.solutions), "--seed", "3", "-o", world],
               check=True, capture_output=True)
records = [json.loads(line) for line in world.read_text().splitlines()]
local = threading.local()


def offline():
    shown = subprocess.run([options.gradus, "score", world, "--json", "--show", "0"], check=True, capture_output=True, text=True)
    summary = json.loads(shown.stdout)
    return summary["tokens"], summary["seconds"]


class Server:
    def __init__(self, *more):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [options.gradus, "serve", "--listen", f"127.0.0.1:{self.port}", *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**__import__("os").environ, "GRADUS_LOG": "error"})
        self.process.stderr.readline()

    def post(self, body, keep=True):
        known = getattr(local, "connections", {}).get(self.port) if keep else None
        connection = known or http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/v1/steps/score", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        if keep:
            local.connections = {**getattr(local, "connections", {}), self.port: connection}
        return response.status, json.loads(data) if response.status == 200 else None

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{") or line.startswith(name + " "))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def load(server, bodies):
    """Tokens per second of all requests, by so many clients."""
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.clients) as clients:
        answers = list(clients.map(server.post, bodies))
    seconds = time.monotonic() - started
    assert all(status == 200 for status, _ in answers), {status for status, _ in answers}
    return sum(answer["usage"]["prompt_tokens"] for _, answer in answers), seconds


single = [{"problem": record["problem"]["text"], "steps": solution["steps"]} for record in records for solution in record["solutions"]]
grouped = [{"problem": record["problem"]["text"], "solutions": [{"steps": solution["steps"]} for solution in record["solutions"]]} for record in records]
server = Server()
load(server, single[:8])
rounds = {"offline": [], "one solution per request": [], "all candidates of a problem per request": []}
for _ in range(3):
    rounds["offline"].append(offline())
    rounds["one solution per request"].append(load(server, single))
    rounds["all candidates of a problem per request"].append(load(server, grouped))
print(f"{len(single)} solutions of {len(records)} problems, {options.clients} clients, three rounds, the best of each")
solutions = len(single)
best = {name: min(seconds for _, seconds in found) for name, found in rounds.items()}
for name, found in rounds.items():
    tokens, _ = found[0]
    rate = tokens / best[name]
    print(f"{name:42} {tokens:8} tokens {best[name]:7.2f} s {solutions / best[name]:7.1f} solutions/s {rate:7.0f} tokens/s   {best['offline'] / best[name]:5.2f} of offline by solutions")

if options.minutes:
    began, ends = server.memory(), time.monotonic() + 60 * options.minutes
    seen = [began]
    while time.monotonic() < ends:
        load(server, single)
        seen.append(server.memory())
    print(f"memory over {options.minutes:g} minutes: {began:.0f} MB before, {seen[len(seen) // 2]:.0f} MB in the middle, {seen[-1]:.0f} MB at the end, most {max(seen):.0f} MB")
# Clients that leave: their work is dropped.
for body in grouped:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/steps/score", json.dumps(body), {"Content-Type": "application/json"})
    connection.close()
started = time.monotonic()
status, _ = server.post(single[0], keep=False)
print(f"{len(grouped)} requests whose clients left: the next one was answered with {status} after {time.monotonic() - started:.2f} s; {server.metric('gradus_cancelled'):.0f} pieces of work dropped")
server.stop()

short = Server("--max-queue", "8")
with concurrent.futures.ThreadPoolExecutor(options.clients) as clients:
    # A refused request is answered before its body is read, and its connection is closed.
    statuses = [status for status, _ in clients.map(lambda body: short.post(body, keep=False), single[:256])]
print(f"a queue of 8 and {options.clients} clients: " + ", ".join(f"{statuses.count(status)} × {status}" for status in sorted(set(statuses))))
short.stop()
