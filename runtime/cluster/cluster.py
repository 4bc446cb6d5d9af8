"""Ray for the length of a `with`: started here and taken down again, or somebody else's and only joined.

A Ray that is started here lives on this machine alone, in a folder of its own that goes with it, and says nothing. What runs
on it is the business of `actors`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from drmas_dsl.errors import UserError, first_line
from drmas_dsl.graph.settings import System
from runtime.cluster.support import require_gpus
from runtime.models import is_remote

_PACKAGES = str(Path(__file__).parents[2])  # where `runtime` and `drmas_dsl` are imported from
_LONGEST = 40  # characters of a temp folder: Ray puts sockets 60 deeper, and the system allows 107
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # actors without a GPU see none; saying so silences a warning of change
    "RAY_DISABLE_DASHBOARD_LOG_INFO": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "OMP_WAIT_POLICY": "PASSIVE",  # idle threads must not spin on cores that other actors need
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is to place actors on. `started`: by us, so it is gone afterwards."""

    cpus: float
    gpus: float
    started: bool


@contextlib.contextmanager
def cluster(system: System, address: str | None = None) -> Iterator[Cluster]:
    """A running Ray: at `address` or RAY_ADDRESS where given, else one of our own with the CPUs of the pools (or all).
    None at all where every model is remote.

    Raises:
        UserError: nothing answers at the address, or the GPUs that the pools ask for are not there.
    """
    if all(map(is_remote, system.models.values())):
        yield Cluster(0, 0, started=False)
        return
    import ray

    if ray.is_initialized():
        yield _found(ray, started=False)
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    with _environment(), _started(ray, system) if address == "local" else _joined(ray, address) as found:
        require_gpus(system, int(found.gpus))
        yield found


def _knock(address: str) -> None:
    """An OSError where nobody listens at host:port; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _found(ray: Any, started: bool) -> Cluster:
    resources = ray.cluster_resources()
    return Cluster(resources.get("CPU", 1.0), resources.get("GPU", 0.0), started)


@contextlib.contextmanager
def _joined(ray: Any, address: str) -> Iterator[Cluster]:
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"no Ray answers at {address}: {first_line(error)}",
            "check the address, or unset RAY_ADDRESS to run on this machine alone",
        ) from error
    try:
        with _terminable():
            yield _found(ray, started=False)
    finally:
        with _undisturbed():
            ray.shutdown()


@contextlib.contextmanager
def _started(ray: Any, system: System) -> Iterator[Cluster]:
    folder = _temp_folder()
    try:
        with _lean(), _loopback():
            _start(ray, folder, _cpus(system))
        with _terminable():
            yield _found(ray, started=True)
    finally:
        with _undisturbed():
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def _start(ray: Any, folder: str, cpus: int | None) -> None:
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(num_cpus=cpus, _temp_dir=folder, _node_ip_address="127.0.0.1", **quiet)
    except Exception as error:  # Ray knows no closer word for "it took too long"
        raise UserError(
            f"Ray did not start on this machine: {first_line(error)}",
            "try again when the machine is less busy, or join a Ray that runs with RAY_ADDRESS",
        ) from error


@contextlib.contextmanager
def _lean() -> Iterator[None]:
    """Ray without the processes that nobody asks here (its API server, started also without the dashboard, autoscaler and
    log monitor), which halves its start. Ray has no setting for it; one that has moved these names starts in full.
    """
    from ray._private.node import Node

    def no_server(node: Any, **_: Any) -> None:
        node._webui_url = None

    instead = {"start_api_server": no_server, "start_monitor": _nothing, "start_log_monitor": _nothing}
    with contextlib.ExitStack() as stack:
        if all(hasattr(Node, name) for name in instead):
            for name, method in instead.items():
                stack.enter_context(patch.object(Node, name, method))
        yield


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray know this machine as 127.0.0.1 and listen there alone: whoever reaches a Ray may run code in it."""
    from ray._private import ray_constants

    name = "ENABLE_RAY_CLUSTER"  # what Ray does on macOS and Windows
    with patch.object(ray_constants, name, False) if hasattr(ray_constants, name) else contextlib.nullcontext():
        yield


def _nothing(_: Any) -> None:
    """In place of what is not needed."""


def _cpus(system: System) -> int | None:
    """The pools' CPUs, or None for what Ray detects."""
    named = [pool.cpus for pool in system.pools.values()]
    return sum(cpus for cpus in named if cpus) if named and all(named) else None


def _temp_folder() -> str:
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="drmasc-", dir="/tmp" if len(usual) > _LONGEST and os.name == "posix" else usual)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """What Ray's processes inherit: quiet, and able to import these packages also where nothing is installed."""
    before = dict(os.environ)
    paths = [_PACKAGES, *filter(None, before.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ.update(_QUIET | before | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))})
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():  # Ray leaves settings of its own, which would mark the next one
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the program as Ctrl-C does, and not as Ray would have it: with a dump and all files left behind."""
    with _handling(signal.default_int_handler, signal.SIGTERM):
        yield


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals must not leave processes behind: they are ignored while these are taken down."""
    with _handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM):
        yield


@contextlib.contextmanager
def _handling(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Another handler of these signals; only the main thread may set one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
