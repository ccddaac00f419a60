"""The command line as a function: `gradus.run("bench", "processbench", "math.json", model="gradus-prm").f1`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradus._gradus import GradusError
from gradus.notebook import frame, table
from gradus.progress import ProgressBar

__all__ = ["Report", "program_path", "run"]


def program_path() -> str:
    """The program that was installed with this package, or else the one on the PATH."""
    name = "gradus.exe" if os.name == "nt" else "gradus"
    schemes = [scheme for scheme in sysconfig.get_scheme_names() if scheme.endswith("user")]
    folders = [sysconfig.get_path("scripts"), *(sysconfig.get_path("scripts", scheme) for scheme in schemes)]
    for folder in [*folders, os.path.dirname(sys.executable)]:
        program = Path(folder) / name
        if program.is_file():
            return str(program)
    found = shutil.which(name)
    if found is None:
        raise GradusError("the program gradus is not installed: reinstall the package, or put it on the PATH")
    return found


class Report(Mapping[str, Any]):
    """What a command prints with --json: its fields are keys and attributes."""

    def __init__(self, fields: dict[str, Any], command: str = "", page: Path | None = None) -> None:
        self._fields = fields
        self._command = command
        self._page = page

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            known = ", ".join(self._fields)
            raise AttributeError(f"the report of `gradus {self._command}` has no {name}: it has {known}") from None

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Report({self._command}: {', '.join(self._fields)})"

    def _repr_html_(self) -> str:
        """How Jupyter shows it: the page of a benchmark, or else a table."""
        if self._page is not None and self._page.is_file():
            return frame(self._page.read_text(encoding="utf-8"))
        return table(f"gradus {self._command}", self._fields)


def run(
    *arguments: str | os.PathLike[str],
    progress: bool = True,
    **options: Any,
) -> Report:
    """Runs a command and returns what it reports. Keyword arguments are options: `max_tokens=64` is `--max-tokens 64`.

    A command that is refused raises GradusError with its sentence; Ctrl-C stops it where it can be resumed.
    """
    words = [os.fspath(argument) for argument in arguments]
    if not words:
        raise GradusError("name a command, such as gradus.run(\"data\", \"stats\", \"data.jsonl\")")
    line = [*words, *_as_options(options), "--json"]
    status, output, said = _Child([program_path(), *line], progress).finish()
    if status == 130:
        raise KeyboardInterrupt
    if status not in (_DONE, _FOUND):
        raise GradusError(said or f"`gradus {' '.join(words)}` ended with status {status}")
    try:
        fields = json.loads(output)
    except ValueError:
        raise GradusError(f"`gradus {' '.join(words)}` printed no report") from None
    if not isinstance(fields, dict):
        fields = {"rows": fields}
    page = Path(options["output"]) / "report.html" if words[:1] == ["bench"] and "output" in options else None
    return Report(fields, " ".join(words[: 2 if words[0] in _GROUPS else 1]), page)


# Commands that have commands of their own.
_GROUPS = {"annotate", "bench", "data", "jobs", "label", "models", "pool", "train"}
# Done; done, and the data has problems.
_DONE, _FOUND = 0, 1


def _as_options(options: Mapping[str, Any]) -> list[str]:
    line: list[str] = []
    for name, value in options.items():
        option = f"-{name}" if len(name) == 1 else "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(option)
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        line.extend(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in values)
    return line


class _Child:
    """A running program: its output, its progress as a bar, and its notes."""

    def __init__(self, command: list[str], progress: bool) -> None:
        # Jupyter asks every program for colors, and what is read here is plain text.
        environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
        environment |= {"GRADUS_PROGRESS": "json", "NO_COLOR": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        self._bar = ProgressBar() if progress else None
        self._last = ""

    def finish(self) -> tuple[int, str, str]:
        """The exit status, what was printed, and the last note, which is the reason where it failed."""
        printed: list[str] = []
        assert self._process.stdout is not None
        reader = threading.Thread(target=lambda out: printed.append(out.read()), args=[self._process.stdout])
        reader.start()
        try:
            self._listen()
            status = self._process.wait()
        except BaseException:
            # A run that is interrupted keeps what it has, and resumes from there.
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            raise
        finally:
            reader.join()
            if self._bar is not None:
                self._bar.close()
        return status, "".join(printed), self._last.removeprefix("error: ")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            told = _progress_of(line)
            if told is None:
                if line.strip() and not self._last.startswith("error: "):
                    self._last = line.strip().removeprefix("gradus: ")
                if self._bar is not None:
                    self._bar.note(line.rstrip())
            elif self._bar is not None:
                self._bar.show(**told)


def _progress_of(line: str) -> dict[str, Any] | None:
    if not line.startswith('{"progress":'):
        return None
    told: dict[str, Any] = json.loads(line)["progress"]
    return told
