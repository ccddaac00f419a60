"""The type stubs name what is there, and nothing else."""

import ast
from pathlib import Path

import gradus
from gradus import _gradus

STUB = Path(gradus.__file__).with_name("_gradus.pyi")
# Names for type checkers only.
TYPES = {"StrPath", "Aggregation", "OnError", "SplitStrategy", "LocalOptions", "EndpointOptions"}
TYPES |= {"RetrievalOptions", "ScorerOptions", "EmbedderOptions", "PoolOptions"}


def test_every_name_and_method() -> None:
    stub = ast.parse(STUB.read_text(encoding="utf-8"))
    named: dict[str, set[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            named[node.name] = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            named[node.name] = set()
    there = {name for name in dir(_gradus) if not name.startswith("_")}
    assert there == set(named) - TYPES
    for name in there:
        thing = getattr(_gradus, name)
        if isinstance(thing, type) and not issubclass(thing, Exception):
            own = {item for item in vars(thing) if not item.startswith("__") or item in named[name]}
            assert own == named[name], name


def test_options_are_those_of_the_command_line() -> None:
    stub = ast.parse(STUB.read_text(encoding="utf-8"))
    options = {
        item.target.id
        for node in stub.body
        if isinstance(node, ast.ClassDef) and node.name in TYPES
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    try:
        gradus.Scorer(nothing=1)  # type: ignore[call-arg]
    except TypeError as error:
        known = set(str(error).split("it has ")[1].split(", "))
    named = {"model", "adapter", "profile", "pool", "device"}
    assert known - named == options - {"recorded"}


def test_all_is_there() -> None:
    for name in gradus.__all__:
        assert getattr(gradus, name) is not None
