"""Notebooks in a real Jupyter kernel: what objects show, progress bars, and the stop button."""

import asyncio
import html
import os
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import gradus

pytestmark = pytest.mark.skipif("GRADUS_HOME" not in os.environ, reason="GRADUS_HOME does not name a folder with smollm2-135m")

WIDGET = "application/vnd.jupyter.widget-view+json"
MODEL = 'model="smollm2-135m", profile="plain"'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with data.jsonl: 20 problems with two solutions each."""
    gradus.run("synth", output=tmp_path / "data.jsonl", n=20, solutions=2, seed=1)
    return tmp_path


def notebook(folder: Path, *cells: str) -> NotebookClient:
    """A notebook with these cells, that runs in the folder."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in ["import gradus", *cells]])
    return NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}})


def shown(client: NotebookClient) -> list[list[dict[str, Any]]]:
    """What each cell after the import shows, by type."""
    client.execute()
    cells = client.nb.cells[1:]
    return [[output["data"] for output in cell.outputs if "data" in output] for cell in cells]


def test_objects_show_their_pages(data: Path) -> None:
    cells = [
        f'gradus.Scorer({MODEL}).score("What is 2 + 3?", ["2 + 3 = 5.", "So 5."])',
        'gradus.Dataset.read("data.jsonl")',
        f'gradus.run("bench", "processbench", "data.jsonl", output="bench", {MODEL}, progress=False)',
        'gradus.run("data", "stats", "data.jsonl", progress=False)',
    ]
    outputs = shown(notebook(data, *cells))
    for [page] in outputs[:3]:
        assert html.unescape(page["text/html"]).startswith('<iframe srcdoc="<!doctype html>')
        assert 'sandbox="allow-scripts"' in page["text/html"]
    [table] = outputs[3]
    assert "<caption>gradus data stats</caption>" in table["text/html"]
    assert table["text/plain"].startswith("Report(")


def test_a_progress_bar_is_a_widget_that_reaches_its_end(data: Path) -> None:
    client = notebook(data, f'report = gradus.run("score", "data.jsonl", output="scored.jsonl", {MODEL})', "report.solutions")
    bar, [solutions] = shown(client)
    assert solutions["text/plain"] == "40"
    [view] = [output[WIDGET] for output in bar if WIDGET in output]
    widgets = client.widget_state
    [label, progress, numbers] = [widgets[child.removeprefix("IPY_MODEL_")] for child in widgets[view["model_id"]]["children"]]
    assert progress["value"] == progress["max"] > 0
    assert progress["bar_style"] == "success"
    assert f"{progress['max']:.0f}/{progress['max']:.0f}" in numbers["value"]
    assert label["value"]


def test_a_refusal_is_one_plain_sentence(data: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"GradusError.*: unexpected argument '--colour' found"):
        notebook(data, 'gradus.run("score", "data.jsonl", colour="red")').execute()


def test_the_stop_button_stops_the_program_and_the_rest_resumes(data: Path) -> None:
    score = f'report = gradus.run("score", "data.jsonl", output="scored.jsonl", {MODEL}, progress=False)'
    client = notebook(data, score)
    journal = data / "scored.jsonl.journal"

    def stop() -> None:
        while not (journal.exists() and journal.stat().st_size > 1000):
            time.sleep(0.1)
        asyncio.run(client.km.interrupt_kernel())

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        client.execute()
    stopping.join()
    assert journal.exists()
    _, [resumed] = shown(notebook(data, score, "report.resumed > 0, report.solutions"))
    assert resumed["text/plain"] == "(True, 40)"
