"""A Ray of our own leaves nothing behind, however the run ends; one that we join stays."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
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
import ray
from runtime.cluster.actors import Worker
from runtime.cluster.cluster import cluster
from tests.cluster.members import Member
from tests.cluster.systems import system

async def main():
    with cluster(system()):
        worker = ray.remote(Worker).options(num_cpus=0).remote()
        await worker.open.remote("member", Member, 1)
        print("folder", ray._private.worker._global_node.get_session_dir_path(), flush=True)
        await worker.call.remote("member", "work", 600)
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
    """Command lines of a session's processes, by id."""
    found = {}
    for process in psutil.process_iter(["status", "cmdline"]):
        with contextlib.suppress(ProcessLookupError):
            if process.info["status"] != psutil.STATUS_ZOMBIE and os.getsid(process.pid) == leader:
                found[process.pid] = " ".join(process.info["cmdline"] or ())
    return found


def gone_within(seconds, leader, kind=""):
    end = time.monotonic() + seconds
    while any(kind in line for line in session(leader).values()):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def child():
    """A run whose worker is at work, in a session of its own; its Ray's folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("folder "), first + process.stdout.read()
    time.sleep(0.3)
    assert any("ray::Worker" in line for line in session(process.pid).values())
    folder = Path(first.split()[1]).parent
    yield process, folder
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def test_nothing_is_left_after_ctrl_c(child):
    """A terminal sends it to every process of the group; only the driver may answer."""
    process, folder = child
    for pid in session(process.pid):
        os.kill(pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "interrupted\n"
    assert gone_within(30, process.pid)
    assert not folder.exists()


def test_nothing_is_left_after_sigterm(child):
    process, folder = child
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert output == "interrupted\n"
    assert gone_within(30, process.pid)
    assert not folder.exists()


def test_workers_end_with_a_driver_that_was_killed(child):
    """Ray's own small agents notice after some minutes."""
    process, _ = child
    process.kill()
    process.wait()
    assert gone_within(60, process.pid, "ray::Worker")


def test_its_own_folder_environment_and_exceptions(monkeypatch):
    import ray  # which sets variables when it is imported

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = dict(os.environ)
    folder = Path()
    with pytest.raises(ZeroDivisionError), cluster(system()) as found:
        assert found.started
        assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
        folder = Path(ray._private.worker._global_node.get_session_dir_path()).parent
        assert folder.exists()
        raise ZeroDivisionError
    assert not folder.exists()
    assert not ray.is_initialized()
    assert dict(os.environ) == before


def test_a_ray_that_is_there_is_joined_and_stays():
    import ray

    folder = tempfile.mkdtemp()  # pytest's are too long for sockets
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
    try:
        address = ray.get_runtime_context().gcs_address
        environment = {**os.environ, "RAY_ADDRESS": address}
        joined = subprocess.run(
            [sys.executable, "-c", JOIN], env=environment, capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert joined.stdout == "joined\n", joined.stderr
        assert ray.cluster_resources()["CPU"] == 2  # it is still there
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def test_an_address_where_nobody_answers():
    with (
        pytest.raises(UserError, match=r"no Ray answers at 127\.0\.0\.1:1") as caught,
        cluster(system(), "127.0.0.1:1"),
    ):
        pass
    assert "RAY_ADDRESS" in caught.value.help


def test_a_ray_that_does_not_start(monkeypatch):
    import ray

    def late(**_):
        raise Exception("The current node timed out.\nSo be it.")

    monkeypatch.setattr(ray, "init", late)
    with (
        pytest.raises(UserError, match="Ray did not start on this machine: The current node timed out") as caught,
        cluster(system()),
    ):
        pass
    assert "RAY_ADDRESS" in caught.value.help
