#!/usr/bin/env python3
"""A real Slurm cluster of one node for tests: `apt-get install slurmctld slurmd slurm-client munge` beforehand.

    scripts/slurm_cluster.py -- COMMAND…    runs a command beside a cluster of its own, which goes with it

The command finds SLURM_CONF in its environment, so `sbatch` and `squeue` talk to this cluster. All daemons listen on the
loopback address and keep their state in a folder of their own. Four CPUs are declared, whatever the machine has. Where
Slurm is not installed, or this is not root, the command runs without SLURM_CONF.
"""
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """
ClusterName=gradus
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
# A job that is requeued may start again after cred_expire.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
JobRequeue=1
KillWait=30
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NoCluster(Exception):
    """Slurm cannot be had here."""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Cluster:
    """Three daemons in the foreground, children of this process."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []

    def start(self):
        missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)]
        if missing:
            raise NoCluster(f"{', '.join(missing)} not found")
        if os.geteuid() != 0:
            raise NoCluster("slurmd starts jobs as root only")
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge/key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        config = self.folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        config.write_text(CONFIG.format(
            host=host, folder=self.folder, controller_port=free_port(), node_port=free_port()))
        os.environ["SLURM_CONF"] = str(config)
        munge = self.folder / "munge"
        self.run("munged", "-F", f"--key-file={key}", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                 f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.run("slurmctld", "-D", "-c")
        self.run("slurmd", "-D")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True)
            if state.stdout.strip() == "idle":
                return config
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.2)
        logs = [path.read_text(errors="replace")[-800:] for path in self.folder.glob("*.log")]
        raise NoCluster("it did not start:\n" + "\n".join(logs))

    def run(self, *command):
        with open(self.folder / f"{command[0]}.out", "wb") as out:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def beside(command):
    """Runs a command beside a cluster; its exit status."""
    folder = Path(tempfile.mkdtemp(prefix="gradus-slurm-"))
    cluster = Cluster(folder)
    environment = dict(os.environ)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            environment["SLURM_CONF"] = str(cluster.start())
        except NoCluster as error:
            print(f"no Slurm: {error}", file=sys.stderr)
        return subprocess.run(command, env=environment).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        subprocess.run(["scancel", "--full", "-u", "root"], capture_output=True) if cluster.daemons else None
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--", *command] if command:
            sys.exit(beside(command))
        case _:
            sys.exit(__doc__)
