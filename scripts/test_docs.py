#!/usr/bin/env python3
"""Runs every command that the guides show; Python's standard library only.

    GRADUS=target/debug/gradus python3 scripts/test_docs.py [GUIDE.md …]
    python3 scripts/test_docs.py --update     write docs/reference/schemas/ anew from real output

A guide is run from top to bottom in an empty folder of its own. In Markdown, a comment before a
fenced block says what the block is:

    <!-- file: NAME -->               the block is written to NAME
    <!-- not run: REASON -->          its commands are only checked: --help must know their options
    <!-- schema: schemas/X.json -->   the JSON that its commands print must satisfy the schema

Of a ```console block the lines that begin with `$ gradus` are run; a status other than 0 is a
fault. Models are those in GRADUS_HOME. Also checked: docs/reference/commands.md lists every
command, and README.md uses only options that exist.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
GRADUS = os.path.abspath(os.environ.get("GRADUS", os.path.join(TARGET, "debug/gradus")))
RUN = ["docs/guide", "docs/reference/json.md"]
CHECKED = ["README.md"]
COMMANDS = "docs/reference/commands.md"
SECONDS_PER_COMMAND = 120
UPDATE = "--update" in sys.argv[1:]

faults = []
printing = threading.Lock()
help_texts = {}
schemas = {}


def main() -> int:
    os.chdir(ROOT)
    if not os.access(GRADUS, os.X_OK):
        print(f"{GRADUS} is not there: build it, or name it in GRADUS")
        return 1
    begun = time.time()
    chosen = [a for a in sys.argv[1:] if not a.startswith("--")]
    pages = chosen or [p for place in RUN for p in pages_in(place)]
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        list(workers.map(run_page, pages))
    for page in CHECKED:
        for block in blocks(page):
            for command in block.commands:
                check_options(page, block, command)
    if not chosen:
        check_command_list()
    if UPDATE:
        write_schemas()
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(pages)} pages in {time.time() - begun:.0f} s, faults: {len(faults)}")
    return 1 if faults else 0


def pages_in(place: str) -> list:
    if place.endswith(".md"):
        return [place]
    return sorted(os.path.join(place, name) for name in os.listdir(place) if name.endswith(".md"))


class Block:
    """A fenced block: where it begins, its language, its text, the comments before it."""

    def __init__(self, line: int, language: str, text: str, comments: dict):
        self.line, self.language, self.text, self.comments = line, language, text, comments

    @property
    def commands(self) -> list:
        if self.language != "console":
            return []
        joined = self.text.replace("\\\n", " ")
        lines = [line[2:] for line in joined.split("\n") if line.startswith("$ ")]
        return [re.sub(r"\s{2,}# .*$", "", line) for line in lines]


def blocks(page: str) -> list:
    found, comments, fence = [], {}, None
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        if fence is not None:
            if line.strip() == "```":
                start, language, text = fence
                found.append(Block(start, language, "\n".join(text) + "\n", comments))
                fence, comments = None, {}
            else:
                fence[2].append(line)
        elif line.startswith("```"):
            fence = (number, line[3:].strip(), [])
        elif re.match(r"<!-- [a-z ]+:", line):
            key, _, value = line.strip()[5:-4].partition(":")
            comments[key] = value.strip()
        elif line.strip():
            comments = {}
    return found


def run_page(page: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gradus-docs-") as folder:
        programs = os.path.join(folder, ".bin")
        os.mkdir(programs)
        os.symlink(GRADUS, os.path.join(programs, "gradus"))
        environment = dict(os.environ)
        environment["PATH"] = programs + os.pathsep + environment["PATH"]
        environment["GRADUS_JOBS"] = os.path.join(folder, ".jobs.sqlite")
        for block in blocks(page):
            if "file" in block.comments:
                write_file(os.path.join(folder, block.comments["file"]), block.text)
            for command in block.commands:
                if not command.startswith("gradus "):
                    faults.append(f"{page}:{block.line}: not a gradus command: {command}")
                elif "not run" in block.comments:
                    check_options(page, block, command)
                elif not run_command(page, block, command, folder, environment):
                    return  # What follows would fail for the same reason.


def write_file(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run_command(page, block, command, folder, environment) -> bool:
    begun = time.time()
    try:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=SECONDS_PER_COMMAND,
        )
        status, said = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        status, said, done = "time-out", f"longer than {SECONDS_PER_COMMAND} s", None
    with printing:
        print(f"{time.time() - begun:6.1f} s  {status}  {os.path.basename(page)}: {command}", flush=True)
    if status != 0:
        faults.append(f"{page}:{block.line}: {command}\n  status {status}: {said.strip()[-600:]}")
        return False
    if "schema" in block.comments:
        check_schema(page, block, command, done.stdout.decode())
    return True


def help_of(path: tuple) -> str:
    if path not in help_texts:
        done = subprocess.run([GRADUS, *path, "--help"], capture_output=True, text=True)
        help_texts[path] = done.stdout if done.returncode == 0 else ""
    return help_texts[path]


def subcommands(path: tuple) -> list:
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", help_of(path), re.MULTILINE)
    names = re.findall(r"^  ([a-z][\w-]*)", listed.group(1), re.MULTILINE) if listed else []
    return [name for name in names if name != "help"]


def check_options(page: str, block: Block, command: str) -> None:
    """Every option of the command is in the help of its subcommand."""
    words = shlex.split(command)
    if not words or words[0] != "gradus":
        return
    path, rest = (), words[1:]
    while rest and not rest[0].startswith("-") and help_of(path + (rest[0],)):
        if not subcommands(path):
            break
        path, rest = path + (rest[0],), rest[1:]
    text = help_of(path)
    if not path or not text:
        faults.append(f"{page}:{block.line}: no such command: {command}")
        return
    for word in rest:
        if re.match(r"--?[a-z]", word):
            option = word.split("=")[0]
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
                name = " ".join(path)
                faults.append(f"{page}:{block.line}: gradus {name} has no option {option}")


def check_command_list() -> None:
    """The table of commands names every command, and none that does not exist."""
    with open(COMMANDS, encoding="utf-8") as file:
        listed = set(re.findall(r"^\| `gradus ([\w -]+)` \|", file.read(), re.MULTILINE))

    def leaves(path: tuple) -> list:
        below = subcommands(path)
        own = [" ".join(path)] if path and (not below or "[OPTIONS]" in help_of(path)) else []
        return own + [leaf for name in below for leaf in leaves(path + (name,))]

    there = set(leaves(()))
    for name in sorted(there - listed):
        faults.append(f"{COMMANDS}: gradus {name} is missing")
    for name in sorted(listed - there):
        faults.append(f"{COMMANDS}: there is no gradus {name}")


def check_schema(page: str, block: Block, command: str, printed: str) -> None:
    path = os.path.join(os.path.dirname(page), block.comments["schema"])
    try:
        values = [json.loads(printed)]
    except ValueError:
        values = [json.loads(line) for line in printed.strip().split("\n")]
    if UPDATE:
        old = read_schema(path)
        for value in values:
            found = infer(value, schemas.get(path) or old)
            schemas[path] = merge(schemas[path], found) if path in schemas else found
        return
    schema = read_schema(path)
    if schema is None:
        faults.append(f"{page}:{block.line}: {path} is not there; --update writes it")
        return
    for value in values:
        for fault in violations(value, schema, "$"):
            faults.append(f"{page}:{block.line}: {command}: {fault} ({path}; --update writes it anew)")


def read_schema(path: str):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_schemas() -> None:
    for path, schema in schemas.items():
        old = read_schema(path) or {}
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        head.update({key: old[key] for key in ("title", "description") if key in old})
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**head, **schema}, file, indent=1, ensure_ascii=False)
            file.write("\n")


TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def infer(value, old=None) -> dict:
    """The schema of a value. What the old schema knows beyond it stays: keys that are data or optional, other types."""
    old = old or {}
    if isinstance(value, list):
        schema = {"type": "array"}
        for item in value:
            found = infer(item, old.get("items"))
            schema["items"] = merge(schema["items"], found) if "items" in schema else found
        return schema
    if isinstance(value, dict):
        if isinstance(old.get("additionalProperties"), dict):
            schema = {"type": "object", "additionalProperties": {}}
            for item in value.values():
                found = infer(item, old["additionalProperties"])
                schema["additionalProperties"] = merge(schema["additionalProperties"], found)
            return schema
        known = old.get("properties", {})
        optional = [key for key in known if key not in old.get("required", [])]
        properties = {key: infer(item, known.get(key)) for key, item in value.items()}
        properties.update({key: known[key] for key in optional if key not in value})
        return {
            "type": "object", "properties": properties, "required": sorted(set(value) - set(optional)),
            "additionalProperties": False,
        }
    kind, known = TYPES[type(value)], as_list(old.get("type", []))
    if kind in known or (kind == "integer" and "number" in known):
        return {key: item for key, item in old.items() if key != "$schema"}
    return {"type": kind}


def merge(one: dict, other: dict) -> dict:
    """What satisfies either schema satisfies the result."""
    if not one or not other:
        return one or other
    types = sorted(set(as_list(one["type"])) | set(as_list(other["type"])))
    if "number" in types and "integer" in types:
        types.remove("integer")
    schema = {"type": types[0] if len(types) == 1 else types}
    if "items" in one or "items" in other:
        schema["items"] = merge(one.get("items", {}), other.get("items", {}))
    if "properties" in one or "properties" in other:
        left, right = one.get("properties", {}), other.get("properties", {})
        keys = list(left) + [key for key in right if key not in left]
        schema["properties"] = {key: merge(left.get(key, {}), right.get(key, {})) for key in keys}
        needed = [set(s["required"]) for s in (one, other) if "required" in s]
        schema["required"] = sorted(set.intersection(*needed))
        schema["additionalProperties"] = False
    for side in (one, other):
        if isinstance(side.get("additionalProperties"), dict):
            held = schema.get("additionalProperties") or {}
            schema["additionalProperties"] = merge(held, side["additionalProperties"])
    return schema


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def violations(value, schema: dict, where: str):
    """The faults of a value under the part of JSON Schema that `infer` writes."""
    if not schema:
        return
    kinds = as_list(schema["type"])
    if isinstance(value, list):
        kind = "array"
    elif isinstance(value, dict):
        kind = "object"
    else:
        kind = TYPES[type(value)]
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        yield f"{where} is {kind}, not {' or '.join(kinds)}"
    elif kind == "array":
        for number, item in enumerate(value):
            yield from violations(item, schema.get("items", {}), f"{where}[{number}]")
    elif kind == "object":
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}.{key} is missing"
        for key, item in value.items():
            if key in known:
                yield from violations(item, known[key], f"{where}.{key}")
            elif others is False:
                yield f"{where}.{key} is not in the schema"
            else:
                yield from violations(item, others, f"{where}.{key}")


if __name__ == "__main__":
    sys.exit(main())
