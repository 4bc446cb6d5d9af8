"""A Ray of our own leaves nothing behind, however the run ends; one that we join stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from drmas_dsl.errors import UserError
from runtime.cluster.cluster import cluster
from tests.cluster.systems import system

ROOT = Path(__file__).parents[2]
RUN = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
from runtime.cluster.cluster import cluster
from runtime.cluster.handles import actors
from tests.cluster.systems import system
from tests.engines.tiny import request

async def main():
    with cluster(system()) as found:
        async with actors(system(), found) as crew:
            import ray
            print("folder", ray._private.worker._global_node.get_session_dir_path(), flush=True)
            await crew.engines["small"].generate([request(b"hi", n, policy="Solver", max_tokens=4000) for n in range(256)])
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""
JOIN = """
from runtime.cluster.cluster import cluster
from tests.cluster.systems import system
with cluster(system()) as found:
    print("started" if found.started else "joined")
"""

pytestmark = pytest.mark.ray


def session(leader):
    """Processes of a session that are no zombies."""
    return [
        process
        for process in psutil.process_iter(["status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and _session(process.pid) == leader
    ]


def _session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def gone_within(seconds, leader):
    end = time.monotonic() + seconds
    while time.monotonic() < end and session(leader):
        time.sleep(0.1)
    return not session(leader)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_is_left_after(number):
    """The signal comes in the middle of a generation; a terminal sends Ctrl-C to everybody in the group."""
    child = subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    first = child.stdout.readline()
    assert first.startswith("folder "), first + child.stdout.read()
    time.sleep(0.3)
    assert len(session(child.pid)) > 3
    for process in session(child.pid) if number == signal.SIGINT else [child]:
        os.kill(process.pid, number)
    output, _ = child.communicate(timeout=60)
    assert gone_within(30, child.pid)
    if number == signal.SIGINT:
        assert output == "interrupted\n"
        assert not Path(first.split()[1]).parent.exists()


def test_its_own_folder_environment_and_exceptions(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = dict(os.environ)
    folder = Path()
    with pytest.raises(ZeroDivisionError), cluster(system()) as found:
        import ray

        assert found.started
        folder = Path(ray._private.worker._global_node.get_session_dir_path()).parent
        assert folder.exists()
        joined = subprocess.run(
            [sys.executable, "-c", JOIN],
            env={**before, "RAY_ADDRESS": ray.get_runtime_context().gcs_address},
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert (joined.stdout, joined.stderr) == ("joined\n", "")
        assert ray.cluster_resources()["CPU"] == found.cpus  # it is still there
        raise ZeroDivisionError
    assert not folder.exists()
    assert not ray.is_initialized()
    assert dict(os.environ) == before


def test_an_address_where_nobody_answers():
    with (
        pytest.raises(UserError, match=r"no Ray answers at 127\.0\.0\.1:1") as caught,
        cluster(system(), "127.0.0.1:1"),
    ):
        pass
    assert "RAY_ADDRESS" in caught.value.help
