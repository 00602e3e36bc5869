import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from corpus_assets.errors import LeaseError
from corpus_assets.shards.lease import LeaseHeldError, clear_stale, held_leases, lease, lease_folder
from corpus_assets.shards.publish import publish_bytes

HOLD = """
import sys
from pathlib import Path
from corpus_assets.shards.lease import lease
with lease(Path(sys.argv[1]), "k"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lease of `k` until its input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def age(folder: Path, seconds: float) -> None:
    stamp = (folder / "owner.json").stat().st_mtime - seconds
    os.utime(folder / "owner.json", (stamp, stamp))


def test_a_held_partition_is_refused_and_the_holder_named(tmp_path, holder):
    with (
        pytest.raises(LeaseHeldError, match=f"k: being built by process {holder.pid} on "),
        lease(tmp_path, "k"),
    ):
        raise AssertionError("never here")
    (held,) = held_leases(tmp_path)
    assert (held.key, held.owner.pid, held.stale) == ("k", holder.pid, False)


def test_a_released_partition_can_be_taken(tmp_path, holder):
    holder.communicate()
    with lease(tmp_path, "k") as drafts:
        assert drafts.is_dir()
    assert held_leases(tmp_path) == []


def test_a_lease_of_a_killed_process_is_taken_over_at_once(tmp_path, holder):
    holder.kill()
    holder.wait()
    with lease(tmp_path, "k") as drafts:
        assert drafts.is_dir()


def test_a_silent_holder_is_taken_over_after_stale_after_and_cannot_publish(tmp_path):
    """The paused builder comes back late: its drafts are gone, its successor's result stays."""
    target = tmp_path / "shards" / "k.json"

    def paused_builder() -> None:
        with lease(tmp_path, "k", stale_after=3600) as drafts:
            age(lease_folder(tmp_path, "k"), 7200)
            with lease(tmp_path, "k", stale_after=3600) as successor:
                publish_bytes(target, b"successor", scratch=successor)
                publish_bytes(target, b"late", scratch=drafts)

    with pytest.raises(LeaseError, match="taken over"):
        paused_builder()
    assert target.read_bytes() == b"successor"


def test_a_lease_that_is_refreshed_does_not_grow_old(tmp_path):
    with lease(tmp_path, "k", stale_after=0.5):
        age(lease_folder(tmp_path, "k"), 100)
        refreshed = threading.Event()
        while not refreshed.wait(0.05):
            if held_leases(tmp_path, stale_after=0.5)[0].age < 1:
                refreshed.set()
        assert not held_leases(tmp_path, stale_after=0.5)[0].stale


def test_only_one_of_many_contenders_gets_a_stale_lease(tmp_path, holder):
    holder.kill()
    holder.wait()
    inside, most, lock = 0, 0, threading.Lock()
    barrier = threading.Barrier(8)

    def contend() -> None:
        nonlocal inside, most
        barrier.wait()
        try:
            with lease(tmp_path, "k"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1
        except LeaseHeldError:
            pass

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_leftovers_of_the_dead_are_cleared_and_live_leases_kept(tmp_path, holder):
    scratch = tmp_path / ".building"
    (scratch / "old.draft").touch()
    os.utime(scratch / "old.draft", (1, 1))
    (scratch / "fresh.draft").touch()
    assert clear_stale(tmp_path) == [scratch / "old.draft"]
    assert sorted(path.name for path in scratch.iterdir()) == ["fresh.draft", "k.lease"]
