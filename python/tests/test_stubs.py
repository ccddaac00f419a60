"""The type stubs name what is there, and nothing else."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import gradus
from gradus import _gradus

STUB = Path(gradus.__file__).with_name("_gradus.pyi")
# Names for type checkers only.
TYPES = {"StrPath", "Aggregation", "OnError", "SplitStrategy", "LocalOptions", "EndpointOptions"}
TYPES |= {"RetrievalOptions", "ScorerOptions", "EmbedderOptions", "PoolOptions"}
TYPES |= {"GeneratorOptions", "SampleOptions", "MonteCarloOptions"}


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


def options_of(*types: str) -> set[str]:
    stub = ast.parse(STUB.read_text(encoding="utf-8"))
    return {
        item.target.id
        for node in stub.body
        if isinstance(node, ast.ClassDef) and node.name in types
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def known_to(call: Callable[..., object], *arguments: object) -> set[str]:
    with pytest.raises(TypeError) as refused:
        call(*arguments, nothing=1)
    return set(str(refused.value).split("it has ")[1].split(", "))


def test_options_are_those_of_the_command_line(tmp_path: Path) -> None:
    shared = "LocalOptions", "EndpointOptions"
    named = {"model", "adapter", "profile", "pool", "device"}
    assert known_to(gradus.Scorer) - named == options_of(*shared, "RetrievalOptions", "ScorerOptions")
    assert known_to(gradus.Generator) - {"model", "device"} == options_of(*shared, "GeneratorOptions")
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"prompt": "2 + 3?", "completions": ["5"]}\n', encoding="utf-8")
    generator, nothing = gradus.Generator(recorded=recorded), gradus.Dataset.from_rows([])
    assert known_to(generator.sample, nothing) == options_of("SampleOptions")
    assert known_to(generator.monte_carlo, nothing) == options_of("MonteCarloOptions")


def test_all_is_there() -> None:
    for name in gradus.__all__:
        assert getattr(gradus, name) is not None
