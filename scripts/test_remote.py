#!/usr/bin/env python3
"""Data in object stores, on the Hugging Face hub and on the web, while their servers fail.

    scripts/test_remote.py

The S3 server is moto from PyPI, behind a proxy that fails on purpose: errors 500 and 503, cut and truncated answers,
silence, a token that ends. The hub is `scripts/hub_server.py`, which the hub's own Python client is run against first. In
the end every output must be that of a run on local files, to the byte, and no key may be in anything that is left.
Settings by environment: FAULTS (share of requests that fail, 0.25), SEED (1).
"""
import hashlib
import http.client
import http.server
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import hub_server

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PROGRAM = Path(os.environ.get("GRADUS_PROGRAM", TARGET / "debug/gradus"))
SERVER = Path(os.environ.get("GRADUS_SCRIPTED_SERVER", TARGET / "debug/examples/scripted_server"))
VENV = TARGET / "remote-venv"
PACKAGES = ["moto[server]==5.2.5", "huggingface_hub==2.4.0"]
FAULTS = float(os.environ.get("FAULTS", 0.25))
SEED = int(os.environ.get("SEED", 1))
SECRETS = {"key": "AKIAGRADUSTEST0001", "secret": "s3cr3t-gradus-7c1e", "old": "token-old-55aa", "new": "token-new-91bb",
           "hub": "hf_gradus_secret_31337", "web": "web-password-8080"}
checks = 0


def check(truth, what):
    global checks
    checks += 1
    if not truth:
        sys.exit(f"FAILED: {what}")


def install():
    if not (VENV / "bin/moto_server").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "-q", *PACKAGES], check=True)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Proxy:
    """Hands requests on to moto, or fails in one of several ways."""

    def __init__(self, port):
        self.port, self.draw, self.lock = port, random.Random(SEED), threading.Lock()
        self.share, self.counts, self.requests = 0.0, {}, []
        # Requests with the old token are refused after so many, and what to do then.
        self.old_token_lasts, self.on_expiry = None, None
        proxy = self

        class Handler(Quiet):
            def handle_any(self):
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

        self.server = serve(Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def fault(self, request):
        with self.lock:
            self.requests.append((request.command, request.path))
            if request.headers.get("x-amz-security-token") == SECRETS["old"] and self.old_token_lasts is not None:
                self.old_token_lasts -= 1
                if self.old_token_lasts < 0:
                    if self.on_expiry:
                        self.on_expiry()
                        self.on_expiry = None
                    return "expired"
            if self.draw.random() >= self.share:
                return None
            return self.draw.choice(["500", "503", "cut", "truncated", "silence"])

    def handle(self, request):
        length = int(request.headers.get("content-length") or 0)
        body = request.rfile.read(length) if length else None
        fault = self.fault(request)
        if fault == "silence" and self.draw.random() < 0.7:
            fault = "cut"  # Each silence takes seconds.
        self.counts[fault] = self.counts.get(fault, 0) + 1
        if fault in ("500", "503", "expired"):
            status, code = {"500": (500, "InternalError"), "503": (503, "SlowDown"), "expired": (400, "ExpiredToken")}[fault]
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>".encode()
            if request.command == "HEAD":
                text = b""
            request.send_response(status if request.command != "HEAD" or fault != "expired" else 403)
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)
            return
        if fault == "silence":
            time.sleep(3)
        if fault in ("cut", "silence"):
            request.close_connection = True
            request.connection.close()
            return
        asked = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        asked.request(request.command, request.path, body, headers)
        answer = asked.getresponse()
        content = answer.read()
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                request.send_header(name, value)
        size = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(content))
        request.send_header("Content-Length", size or "0")
        request.end_headers()
        if fault == "truncated" and len(content) > 1:
            request.wfile.write(content[: self.draw.randrange(len(content))])
            request.close_connection = True
            request.connection.close()
        elif request.command != "HEAD":
            request.wfile.write(content)
        asked.close()


class Web(Quiet):
    """Files below a folder, with ranges, behind a password; every second answer is cut short."""

    folder, count = None, 0

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        import base64
        path = self.folder / self.path.lstrip("/").split("?")[0]
        if self.path.startswith("/private") and self.headers.get("authorization") != "Basic " + base64.b64encode(
                f"me:{SECRETS['web']}".encode()).decode():
            self.send_error(403)
            return
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        begin = int((self.headers.get("range") or "bytes=0-")[6:].split("-")[0])
        self.send_response(206 if begin else 200)
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        rest = content[begin:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.command == "HEAD":
            return
        Web.count += 1
        if Web.count % 2 and len(rest) > 100:
            self.wfile.write(rest[: len(rest) // 2])
            self.close_connection = True
            self.connection.close()
        else:
            self.wfile.write(rest)

    def do_PUT(self):
        (self.folder / self.path.lstrip("/")).write_bytes(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Test:
    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.log = []
        port = free_port()
        self.moto = subprocess.Popen([VENV / "bin/moto_server", "-H", "127.0.0.1", "-p", str(port)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.direct = f"http://127.0.0.1:{port}"
        for _ in range(100):
            try:
                self.ask("data", "PUT")
                break
            except OSError:
                time.sleep(0.2)
        self.proxy = Proxy(port)
        self.hub = hub_server.HubServer(folder / "hub", SECRETS["hub"])
        self.credentials = folder / "credentials"
        self.write_credentials("old")
        Web.folder = folder / "web"
        Web.folder.mkdir()
        self.web = serve(Web).server_address[1]
        self.environment = {
            **os.environ, "GRADUS_HOME": str(self.home), "HF_HOME": str(folder / "hf"), "NO_COLOR": "1",
            "AWS_ENDPOINT_URL": self.proxy.url, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials), "HF_ENDPOINT": self.hub.url,
            "HF_TOKEN": SECRETS["hub"], "GRADUS_REMOTE_TIMEOUT": "2", "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()

    def write_credentials(self, token):
        text = (f"[default]\naws_access_key_id = {SECRETS['key']}\naws_secret_access_key = {SECRETS['secret']}\n"
                f"aws_session_token = {SECRETS[token]}\n")
        new = self.credentials.with_suffix(".new")
        new.write_text(text)
        new.rename(self.credentials)

    def run(self, *words, fails=False, environment=None, stdin=None):
        done = subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, env={**self.environment, **(environment or {})},
                              input=stdin, capture_output=True, text=True, timeout=300)
        self.log.append(done.stdout + done.stderr)
        if (done.returncode != 0) != fails:
            sys.exit(f"FAILED: gradus {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr if fails else done.stdout

    def ask(self, path, method="GET", data=None):
        """Asks the store itself, past the proxy. It wants to know who asks, and checks nothing."""
        who = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        request = urllib.request.Request(f"{self.direct}/{path}", data=data, method=method, 
                                         headers={"Authorization": who, "Content-Type": "application/octet-stream"})
        return urllib.request.urlopen(request).read()

    def objects(self, prefix):
        text = self.ask(f"data?list-type=2&prefix={prefix}").decode()
        return dict(re.findall(r"<Key>(.*?)</Key>.*?<ETag>(.*?)</ETag>", text, re.S))

    def object(self, key):
        return self.ask(f"data/{key}")


def same_as_local(test):
    """Every container there and back, and folders and patterns, with faults."""
    local = test.folder / "local"
    local.mkdir()
    test.run("synth", "-n", 300, "--seed", 3, "-o", local / "a.jsonl")
    test.proxy.share = FAULTS
    for name in ("a.jsonl.zst", "a.jsonl.gz", "a.parquet", "a.json", "a.csv"):
        test.run("data", "convert", local / "a.jsonl", "-o", local / name)
        test.run("data", "convert", local / "a.jsonl", "-o", f"s3://data/one/{name}")
        check(test.object(f"one/{name}") == (local / name).read_bytes(), f"{name} differs from the local file")
        back = test.folder / "back.jsonl"
        test.run("data", "convert", f"s3://data/one/{name}", "-o", back)
        again = test.folder / "again.jsonl"
        test.run("data", "convert", local / name, "-o", again)
        check(back.read_bytes() == again.read_bytes(), f"{name} is not read as the local file is")
    # Over the same object again: it is replaced.
    test.run("data", "convert", local / "a.jsonl", "-o", "s3://data/one/a.json")
    check(test.object("one/a.json") == (local / "a.json").read_bytes(), "a replaced object differs")
    test.run("data", "split", local / "a.jsonl", "-o", "s3://data/parts", "--splits", "train=0.8,test=0.2")
    check(set(test.objects("parts")) == {"parts/train.jsonl", "parts/test.jsonl"}, "splits are missing")
    for inputs in (["s3://data/parts"], ["s3://data/parts/t*.jsonl"], ["s3://data/parts/test.jsonl", "s3://data/parts/train.jsonl"]):
        stats = json.loads(test.run("data", "stats", *inputs, "--json"))
        check(stats["records"] == 300 or stats.get("problems") == 300, f"{inputs}: not all records were read: {stats}")
    test.proxy.share = 0
    for address, words in [
        ("s3://data/none.jsonl", "no such object"), ("s3://nobucket/a.jsonl", "no such bucket"), ("s3:///a.jsonl", "names no bucket"),
        ("s3://data/none/*.jsonl", "no object matches"),
    ]:
        said = test.run("data", "check", address, fails=True)
        check(words in said, f"{address}: {said}")
    said = test.run("data", "check", "s3://data/one/a.jsonl.gz", fails=True,
                    environment={"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "HOME": "/nonexistent"})
    check("no credentials are set" in said, said)
    said = test.run("train", "prm", "recipe.toml", "-o", "s3://data/run", fails=True)
    check("gradus push" in said, said)


def expiry(test):
    """A token that ends in the middle is taken anew from the credentials file; without a new one, a sentence."""
    test.write_credentials("old")
    test.proxy.old_token_lasts = 2
    test.proxy.on_expiry = lambda: threading.Timer(0.4, test.write_credentials, ["new"]).start()
    test.run("data", "convert", "s3://data/parts", "-o", "s3://data/late.jsonl")
    check(test.proxy.counts.get("expired"), "no token has ended")
    test.write_credentials("old")
    test.proxy.old_token_lasts = 0
    said = test.run("data", "convert", "s3://data/parts/train.jsonl", "-o", test.folder / "x.jsonl", fails=True)
    check("refuses the credentials" in said, said)
    test.proxy.old_token_lasts = None


def large(test):
    """More than one request takes, in parts, with faults."""
    path = test.folder / "large.bin"
    draw = random.Random(5)
    path.write_bytes(draw.randbytes(80 << 20))
    test.proxy.share = FAULTS / 2
    test.run("push", path, "s3://data/large/")
    test.proxy.share = 0
    check(hashlib.sha256(test.object("large/large.bin")).digest() == hashlib.sha256(path.read_bytes()).digest(), "parts differ")
    check(any("uploadId" in path for _, path in test.proxy.requests), "it was not sent in parts")


def second_writer(test):
    """An object that somebody else wrote meanwhile is left alone, and the output is kept."""
    rows = (test.folder / "local/a.jsonl").read_text()
    process = subprocess.Popen([PROGRAM, "data", "convert", "-", "-o", "s3://data/contested.jsonl"], env=test.environment,
                               cwd=test.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write(rows[: len(rows) // 2])
    process.stdin.flush()
    for _ in range(200):
        if any(path.endswith("contested.jsonl") for _, path in test.proxy.requests):
            break
        time.sleep(0.05)
    time.sleep(0.3)
    test.ask("data/contested.jsonl", "PUT", b"theirs\n")
    said = process.communicate(rows[len(rows) // 2:])[1]
    test.log.append(said)
    check(process.returncode != 0 and "another writer" in said, said)
    check(test.object("contested.jsonl") == b"theirs\n", "the other writer's object was replaced")
    kept = re.search(r"kept in (\S+):", said)
    check(kept and len(Path(kept[1]).read_text().splitlines()) == 300, f"the output was not kept: {said}")
    test.run("push", kept[1], "s3://data/contested.jsonl")
    check(test.object("contested.jsonl") == Path(kept[1]).read_bytes(), "the kept output was not sent")


def sharded_job(test):
    """A job that writes shards to the store, killed in the middle, and run again."""
    server = subprocess.Popen([SERVER, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    endpoint = server.stdout.readline().strip()
    test.run("data", "convert", test.folder / "local/a.jsonl", "-o", "s3://data/in/a.jsonl.zst")
    job = ["annotate", "judge", "s3://data/in", "--endpoint", endpoint, "--model", "scripted", "--shard-size", "20"]
    local = test.folder / "shards"
    test.run(*job[:2], test.folder / "local/a.jsonl", *job[3:], "-o", local / "labels.jsonl.zst", "--jobs",
             test.folder / "one.sqlite")
    test.proxy.share = FAULTS / 2
    words = [*job, "-o", "s3://data/out/labels.jsonl.zst", "--concurrency", "1"]
    process = subprocess.Popen([PROGRAM, *words], env=test.environment, cwd=test.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    for _ in range(600):
        if process.poll() is not None or len(test.objects("out")) > 3:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    test.log.append(process.communicate()[0])
    before = test.objects("out")
    check(2 < len(before), f"no shard was written before the end: {before}")
    if len(before) < 16:
        said = test.run("data", "stats", "s3://data/out", fails=True)
        check("run the command that writes them to its end" in said, said)
    written = [path for command, path in test.proxy.requests if command == "PUT"]
    test.run(*words)
    test.proxy.share = 0
    after = test.objects("out")
    for shard in sorted(local.glob("*.zst")):
        check(test.object(f"out/{shard.name}") == shard.read_bytes(), f"{shard.name} differs from the local run")
    check(len(after) == len(list(local.iterdir())), f"files differ: {sorted(after)}")
    again = [path for command, path in test.proxy.requests if command == "PUT"][len(written):]
    listed = json.loads(test.object("out/labels.manifest.json"))
    check(listed["complete"] and len(listed["shards"]) == len(after) - 1, "the manifest is not complete")
    whole = [name for name in before if name.endswith(".zst")]
    rewritten = [name for name in whole[:-1] if any(path.endswith(name) for path in again)]
    check(not rewritten, f"shards that were whole were written again: {rewritten}")
    test.run("data", "stats", "s3://data/out")
    # Scoring keeps its journal here.
    test.run("data", "check", "s3://data/out/labels-00000-of-00015.jsonl.zst")
    server.kill()


def hub(test):
    """The hub's own client speaks with our server first; then we do."""
    script = """
import os, sys
from huggingface_hub import HfApi, hf_hub_download
api = HfApi(endpoint=os.environ["HF_ENDPOINT"], token=os.environ["HF_TOKEN"])
api.create_repo("team/py", repo_type="dataset", exist_ok=True)
api.upload_file(path_or_fileobj=sys.argv[1], path_in_repo="data/train.jsonl", repo_id="team/py", repo_type="dataset")
api.upload_file(path_or_fileobj=sys.argv[2], path_in_repo="data/big.parquet", repo_id="team/py", repo_type="dataset")
print(open(hf_hub_download("team/py", "data/train.jsonl", repo_type="dataset", endpoint=os.environ["HF_ENDPOINT"],
                           cache_dir=sys.argv[3])).read() == open(sys.argv[1]).read())
print(sorted(api.list_repo_files("team/py", repo_type="dataset")))
"""
    local = test.folder / "local"
    done = subprocess.run([VENV / "bin/python", "-c", script, local / "a.jsonl", local / "a.parquet", test.folder / "pycache"],
                          env={**test.environment, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                          capture_output=True, text=True)
    check(done.returncode == 0 and done.stdout.startswith("True"), f"the hub's own client: {done.stdout}{done.stderr}")
    test.hub.share = FAULTS / 2
    back = test.folder / "hub.jsonl"
    for address, file in [
        ("hf://datasets/team/py/data/train.jsonl", "a.jsonl"), ("hf://datasets/team/py@main/data/big.parquet", "a.parquet"),
        ("hf://datasets/team/py/data/*.parquet", "a.parquet"), ("hf://datasets/team/py/data/train.jsonl@main", "a.jsonl"),
    ]:
        test.run("data", "convert", address, "-o", back)
        again = test.folder / "again.jsonl"
        test.run("data", "convert", local / file, "-o", again)
        check(back.read_bytes() == again.read_bytes(), f"{address} is not read as the local file is")
    test.run("push", test.folder / "shards", "hf://datasets/team/labels/data", "--private", "-m", "Labels")
    test.run("data", "stats", "hf://datasets/team/labels")
    commits = test.hub.commits("team/labels")
    check(commits[-1] == "Labels" and len(commits) == 2, f"commits: {commits}")
    test.run("data", "convert", local / "a.jsonl", "-o", "hf://datasets/team/labels/out/a.parquet")
    test.run("push", local / "a.jsonl", "hf://datasets/team/labels/a.jsonl@v2")
    test.run("data", "check", "hf://datasets/team/labels@v2/a.jsonl")
    test.hub.share = 0
    sent = test.hub.uploaded
    test.run("push", local / "a.parquet", "hf://datasets/team/labels/again.parquet")
    check(test.hub.uploaded == sent, "a file that the hub has was sent again")
    test.run("data", "stats", "hf://datasets/team/py", environment={"HF_HUB_OFFLINE": "1"})
    test.hub.damage("team/py", "data/big.parquet")
    shutil.rmtree(test.folder / "hf")
    said = test.run("data", "check", "hf://datasets/team/py/data/big.parquet", fails=True)
    check("sha256" in said, said)
    for address, words in [
        ("hf://datasets/team/none", "has no dataset"), ("hf://datasets/team/py/none.jsonl", "no such file"), ("hf://team/py", "no address"),
        ("hf://datasets/team/../x", "no address"),
    ]:
        said = test.run("data", "check", address, fails=True)
        check(words in said, f"{address}: {said}")
    said = test.run("push", local / "a.jsonl", "hf://datasets/team/labels", fails=True, environment={"HF_TOKEN": "hf_wrong"})
    check("does not let this token write" in said or "refuses" in said, said)


def web(test):
    """Ranges, a password, a signed address."""
    shutil.copy(test.folder / "local/a.jsonl.gz", Web.folder / "a.jsonl.gz")
    shutil.copy(test.folder / "local/a.parquet", Web.folder / "private.parquet")
    back, again = test.folder / "web.jsonl", test.folder / "again.jsonl"
    for address, file in [
        (f"http://127.0.0.1:{test.web}/a.jsonl.gz?X-Amz-Signature={SECRETS['web']}", "a.jsonl.gz"),
        (f"http://me:{SECRETS['web']}@127.0.0.1:{test.web}/private.parquet", "a.parquet"),
    ]:
        test.run("data", "convert", address, "-o", back)
        test.run("data", "convert", test.folder / "local" / file, "-o", again)
        check(back.read_bytes() == again.read_bytes(), f"{file} is not read as the local file is")
    test.run("data", "convert", again, "-o", f"http://127.0.0.1:{test.web}/sent.jsonl?sig={SECRETS['web']}")
    said = test.run("data", "check", f"http://me:{SECRETS['web']}x@127.0.0.1:{test.web}/private.parquet", fails=True)
    check("refuses" in said and SECRETS["web"] not in said, said)
    said = test.run("data", "check", f"http://127.0.0.1:{test.web}/none.jsonl", fails=True)
    check("no such file" in said, said)


def no_secrets(test):
    """Keys are in nothing that was printed, kept or sent."""
    text = "\n".join(test.log)
    for name, secret in SECRETS.items():
        check(secret not in text, f"the {name} was printed")
    for path in [*test.home.rglob("*"), *(test.folder / "tmp").rglob("*"), *(test.folder / "hf").rglob("*"),
                 *test.folder.glob("*.sqlite*")]:
        if path.is_file():
            content = path.read_bytes()
            for name, secret in SECRETS.items():
                check(secret.encode() not in content, f"the {name} is in {path}")
    for key in test.objects(""):
        content = test.object(key)
        check(not any(secret.encode() in content for secret in SECRETS.values()), f"a secret is in {key}")
    # What the refused and the killed command kept.
    left = [path for path in (test.folder / "tmp").iterdir() if "contested" not in path.name]
    check(len(left) <= 1, f"temporary files are left: {left}")


def main():
    install()
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(Path(folder))
        try:
            for part in (same_as_local, expiry, large, second_writer, sharded_job, hub, web, no_secrets):
                at = time.time()
                part(test)
                print(f"{part.__name__}: {time.time() - at:.1f} s", flush=True)
        finally:
            test.moto.kill()
    faults = ", ".join(f"{name} {count}" for name, count in sorted(test.proxy.counts.items(), key=str) if name)
    print(f"faults of the object store: {faults} of {len(test.proxy.requests)} requests; of the hub: {test.hub.faults}")
    print(f"{checks} checks in {time.time() - began:.0f} s")
    print(f"{checks} passed, 0 failed")


if __name__ == "__main__":
    main()
