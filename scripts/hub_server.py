"""A small Hugging Face hub for tests: repositories of datasets, their files, Git LFS and commits.

It answers what `huggingface_hub` asks (scripts/test_remote.py runs that client against it), keeps everything in a folder,
and fails on purpose for a share of the requests.
"""
import base64
import hashlib
import http.server
import json
import random
import re
import threading
import urllib.parse
from pathlib import Path


class HubServer:
    def __init__(self, folder, token, share=0.0):
        self.blobs = Path(folder)
        self.blobs.mkdir(parents=True)
        self.token, self.share, self.draw, self.faults, self.uploaded = token, share, random.Random(3), 0, 0
        # Repository -> branch -> commits; a commit is its id, its message and its files: path -> (sha256, size, is_lfs).
        self.repos, self.lock = {}, threading.Lock()
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                length = int(self.headers.get("content-length") or 0)
                self.body = self.rfile.read(length) if length else b""
                with hub.lock:
                    fails = hub.draw.random() < hub.share
                    hub.faults += fails
                if fails:
                    return self.answer(hub.draw.choice([500, 502, 503, 429]), {"error": "as asked"})
                hub.answer(self)

            do_GET = do_POST = do_PUT = do_HEAD = handle_any

            def answer(self, status, body, headers=(), begin=0):
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    def commits(self, repo):
        return [message for _, message, _ in self.repos[repo]["main"]]

    def damage(self, repo, path):
        """Changes a file's bytes, so that they are not those that its sum promises."""
        blob = self.blobs / self.repos[repo]["main"][-1][2][path][0]
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 1
        blob.write_bytes(bytes(content))

    def find(self, repo, revision):
        branches = self.repos.get(repo)
        if branches is None:
            return None
        if revision in branches:
            return branches[revision][-1]
        return next((commit for commits in branches.values() for commit in commits if commit[0] == revision), None)

    def add(self, repo, branch, message, files):
        commits = self.repos[repo].setdefault(branch, [])
        name = hashlib.sha1(f"{repo} {branch} {message} {len(commits)}".encode()).hexdigest()
        commits.append((name, message, files))
        return name

    def keep(self, content):
        name = hashlib.sha256(content).hexdigest()
        (self.blobs / name).write_bytes(content)
        return name, len(content)

    def answer(self, request):
        path = urllib.parse.unquote(urllib.parse.urlparse(request.path).path)
        raw = urllib.parse.urlparse(request.path).path
        signed = re.fullmatch(r"/upload/([0-9a-f]{64})(?:/(\d+))?", path)
        if signed:
            return self.take(request, signed[1], signed[2])
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return request.answer(401, {"error": "Invalid username or password."})
        body = json.loads(request.body) if request.body[:1] in (b"{", b"[") and b"\n{" not in request.body else {}
        if path == "/api/repos/create":
            repo = f"{body.get('organization') or 'me'}/{body['name']}"
            with self.lock:
                if repo in self.repos:
                    return request.answer(409, {"error": "You already created this dataset repo", "url": f"{self.url}/datasets/{repo}"})
                self.repos[repo] = {}
                self.add(repo, "main", "initial commit", {})
            return request.answer(200, {"url": f"{self.url}/datasets/{repo}", "name": repo, "id": repo})
        if path == "/api/whoami-v2":
            return request.answer(200, {"type": "user", "name": "team", "auth": {"type": "access_token"}})
        if path == "/api/validate-yaml":
            return request.answer(200, {"errors": [], "warnings": []})
        resolve = re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", raw)
        if resolve:
            return self.resolve(request, resolve[1], *map(urllib.parse.unquote, (resolve[2], resolve[3])))
        batch = re.fullmatch(r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path)
        if batch:
            return self.batch(request, body)
        api = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(.+))?", raw)
        if not api or api[1] not in self.repos:
            return request.answer(404, {"error": "Repository not found"}, [("X-Error-Code", "RepoNotFound")])
        repo, rest = api[1], api[2] or "revision/main"
        what, _, revision = rest.partition("/")
        revision = urllib.parse.unquote(revision)
        if what == "branch":
            with self.lock:
                self.repos[repo][revision] = list(self.repos[repo]["main"])
            return request.answer(200, {})
        if what == "tree":
            revision, _, _ = revision.partition("/")
        found = self.find(repo, revision)
        if found is None:
            return request.answer(404, {"error": f"Invalid rev id: {revision}"}, [("X-Error-Code", "RevisionNotFound")])
        commit, _, files = found
        if what == "revision":
            siblings = [{"rfilename": name, "size": size, "blobId": "b"} for name, (_, size, _) in sorted(files.items())]
            return request.answer(200, {"id": repo, "sha": commit, "siblings": siblings, "private": False, "tags": [],
                                        "downloads": 0, "likes": 0})
        entry = lambda name, file: {
            "type": "file", "path": name, "size": file[1], "oid": hashlib.sha1(file[0].encode()).hexdigest(),
            **({"lfs": {"oid": file[0], "size": file[1], "pointerSize": 134}} if file[2] else {})}
        if what == "tree":
            return request.answer(200, [entry(*file) for file in sorted(files.items())])
        if what == "paths-info":
            asked = body.get("paths") or urllib.parse.parse_qs(request.body.decode()).get("paths", [])
            return request.answer(200, [entry(name, files[name]) for name in asked if name in files])
        if what == "preupload":
            # As the hub's own .gitattributes do.
            large = lambda name, size: name.endswith((".parquet", ".zst", ".gz")) or size > 1_000_000
            return request.answer(200, {"files": [
                {"path": file["path"], "uploadMode": "lfs" if large(file["path"], file["size"]) else "regular",
                 "shouldIgnore": False, "oid": None} for file in body["files"]]})
        if what == "commit":
            return self.commit(request, repo, revision)
        request.answer(404, {"error": f"no such path: {path}"})

    def batch(self, request, body):
        objects = []
        for wanted in body["objects"]:
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if not (self.blobs / wanted["oid"]).exists():
                href = f"{self.url}/upload/{wanted['oid']}"
                header = {}
                if wanted["size"] > 3000 and "multipart" in body.get("transfers", []):
                    chunk = wanted["size"] // 3 + 1
                    parts = -(-wanted["size"] // chunk)
                    header = {"chunk_size": str(chunk), **{f"{at:05}": f"{href}/{at}" for at in range(1, parts + 1)}}
                entry["actions"] = {"upload": {"href": href, "header": header}}
            objects.append(entry)
        request.answer(200, {"transfer": "multipart" if any(
            o.get("actions", {}).get("upload", {}).get("header") for o in objects) else "basic", "objects": objects})

    def take(self, request, oid, part):
        if request.headers.get("authorization", "").startswith("Bearer") and request.command == "PUT":
            return request.answer(400, {"error": "a token was sent to a signed address"})
        parts = self.blobs / f"{oid}.parts"
        with self.lock:
            if request.command == "PUT" and part:
                parts.mkdir(exist_ok=True)
                (parts / f"{int(part):05}").write_bytes(request.body)
                return request.answer(200, {}, [("ETag", f'"{hashlib.md5(request.body).hexdigest()}"')])
            content = request.body
            if request.command == "POST":
                content = b"".join(path.read_bytes() for path in sorted(parts.iterdir()))
            if hashlib.sha256(content).hexdigest() != oid:
                return request.answer(400, {"error": "the content is not what its sum says"})
            self.uploaded += 1
            self.keep(content)
        request.answer(200, {})

    def commit(self, request, repo, branch):
        lines = [json.loads(line) for line in request.body.splitlines() if line.strip()]
        with self.lock:
            last, _, files = self.repos[repo][branch][-1]
            files = dict(files)
            header = lines[0]["value"]
            if header.get("parentCommit") not in (None, last):
                return request.answer(412, {"error": "A commit has happened since. Please refresh and try again."})
            for line in lines[1:]:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = (*self.keep(base64.b64decode(value["content"])), False)
                elif line["key"] == "lfsFile":
                    if not (self.blobs / value["oid"]).exists():
                        return request.answer(400, {"error": f"{value['path']} was not uploaded"})
                    files[value["path"]] = (value["oid"], value["size"], True)
            commit = self.add(repo, branch, header["summary"], files)
        request.answer(200, {"success": True, "commitOid": commit, "commitUrl": f"{self.url}/datasets/{repo}/commit/{commit}",
                             "hookOutput": "", "pullRequestUrl": None})

    def resolve(self, request, repo, revision, path):
        found = self.find(repo, revision)
        if found is None or path not in found[2]:
            return request.answer(404, {"error": "Entry not found"}, [("X-Error-Code", "EntryNotFound")])
        name, size, is_lfs = found[2][path]
        etag = name if is_lfs else hashlib.sha1(name.encode()).hexdigest()
        content = (self.blobs / name).read_bytes()
        begin = int((request.headers.get("range") or "bytes=0-")[6:].split("-")[0])
        headers = [("X-Repo-Commit", found[0]), ("ETag", f'"{etag}"'), ("Accept-Ranges", "bytes")]
        if is_lfs:
            headers += [("X-Linked-ETag", f'"{name}"'), ("X-Linked-Size", str(size))]
        if begin:
            headers.append(("Content-Range", f"bytes {begin}-{size - 1}/{size}"))
        request.answer(206 if begin else 200, content[begin:], headers)
