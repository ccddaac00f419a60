#!/usr/bin/env python3
"""Checks the dependencies by deny.toml: licenses, sources, duplicates, yanked versions, and advisories where they can
be had.

    python3 scripts/check_dependencies.py

With cargo-deny installed (`cargo install cargo-deny --locked`), that does everything, and fetches the RustSec advisory
database; without a network it checks all but the advisories. Without cargo-deny this script applies the same deny.toml
to `cargo metadata` and says that advisories were not checked. Compiling cargo-deny takes longer than compiling Gradus,
and its package on PyPI is too old for today's cargo.
"""
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def is_allowed(expression, allowed):
    """Whether an SPDX expression is satisfied by licenses of the list; `/` is the old way to write OR."""
    tokens = re.findall(r"\(|\)|\bAND\b|\bOR\b|[\w.+-]+(?: WITH [\w.-]+)?", expression.replace("/", " OR "))
    words = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    return eval(" ".join(words.get(token) or str(token in allowed) for token in tokens))  # only the words above


def is_yanked(package):
    """Whether the registry's index, as cargo keeps it, says so; None where it is not kept."""
    name, length = package["name"].lower(), len(package["name"])
    folder = {1: "1", 2: "2", 3: f"3/{name[0]}"}.get(length, f"{name[:2]}/{name[2:4]}")
    for path in Path.home().glob(f".cargo/registry/index/*/.cache/{folder}/{name}"):
        for line in path.read_bytes().split(b"\0"):
            if line.startswith(b"{") and (entry := json.loads(line))["vers"] == package["version"]:
                return entry["yanked"]
    return None


def by_hand(config):
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    allowed, faults, unknown = set(config["licenses"]["allow"]), [], 0
    skipped = {entry["crate"] for entry in config["bans"]["skip"]}
    versions = {}
    for package in metadata["packages"]:
        name = f"{package['name']}@{package['version']}"
        versions.setdefault(package["name"], []).append(package["version"])
        if package["source"] is None:
            continue  # our own
        if package["source"] != CRATES_IO:
            faults.append(f"{name}: from {package['source']}, not from crates.io")
        if not package["license"] or not is_allowed(package["license"], allowed):
            faults.append(f"{name}: license {package['license']} is not in deny.toml")
        yanked = is_yanked(package)
        unknown += yanked is None
        if yanked:
            faults.append(f"{name}: yanked")
    for name, found in versions.items():
        unexplained = [version for version in found if f"{name}@{version}" not in skipped]
        if len(unexplained) > 1:
            faults.append(f"{name}: several versions, {', '.join(found)}, of which deny.toml explains none")
    for entry in sorted(skipped):
        name, version = entry.split("@")
        if version not in versions.get(name, []):
            faults.append(f"{entry}: in deny.toml, and no longer a dependency")
    print(f"{len(metadata['packages'])} packages: licenses, sources, duplicates and yanked versions checked", end="")
    print(f" ({unknown} not in cargo's copy of the index)" if unknown else "")
    print("advisories: not checked, as cargo-deny is not installed here")
    return faults


def main():
    config = tomllib.loads((ROOT / "deny.toml").read_text())
    if shutil.which("cargo-deny"):
        checks = ["bans", "licenses", "sources"]
        fetched = subprocess.run(["cargo", "deny", "fetch", "db"], cwd=ROOT, capture_output=True).returncode == 0
        if fetched:
            checks.append("advisories")
        else:
            print("advisories: not checked, as the RustSec database cannot be fetched")
        return subprocess.run(["cargo", "deny", "check", *checks], cwd=ROOT).returncode
    faults = by_hand(config)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
