"""A cluster of two nodes, and a model that is small enough to be killed often."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from tiny_model import write_tiny_model


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[Cluster]:
    # One GPU is declared, for what is asked for; no model runs on it.
    node = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 128 * 1024**2}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    nodes.add_node(**node)
    # Workers import the test modules: they need their folder.
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    ray.init(address=nodes.address, runtime_env={"env_vars": {"PYTHONPATH": paths}}, logging_level="warning")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))
