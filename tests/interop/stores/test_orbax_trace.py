"""The recorded trace of Orbax on gs:// (tests/golden/stores) is what the real Orbax does."""

import json
import sys

import pytest
import store_clients

sys.path.append(str(store_clients.ROOT / "tests/golden/stores"))
import make_orbax_gs_step


def order(trace):
    """Pairs of names, without data files: the first was complete before the second began."""
    writes = [each for each in trace["writes"] if not each["name"].endswith("/d/*")]
    return {
        (first["name"], second["name"])
        for first in writes
        for second in writes
        if first["name"] != second["name"] and first["ended"] < second["began"]
    }


# What the commit stands on. Other pairs may come either way: they are written in parallel.
ALWAYS = [
    ("run/1/_CHECKPOINT_METADATA", "run/1/meta/metadata"),
    ("run/1/state/_METADATA", "run/1/state/commit_success.txt"),
    ("run/1/state/manifest.ocdbt", "run/1/state/commit_success.txt"),
    ("run/1/meta/metadata", "run/1/meta/commit_success.txt"),
    ("run/1/state/commit_success.txt", "run/1/commit_success.txt"),
    ("run/1/meta/commit_success.txt", "run/1/commit_success.txt"),
    ("run/1/_CHECKPOINT_METADATA", "run/1/commit_success.txt"),
]


def recorded():
    return json.loads(make_orbax_gs_step.TRACE.read_text())


def test_the_record_has_the_order_of_a_commit():
    trace = recorded()
    assert set(ALWAYS) <= order(trace)
    assert trace["writes"][0]["name"] == "run/1/_CHECKPOINT_METADATA"
    assert trace["writes"][-1]["name"] == "run/1/commit_success.txt"
    assert trace["writes"][-1]["began"] == 2 * len(trace["writes"]) - 2  # nothing beside it


@pytest.mark.skipif(not store_clients.LONG, reason="takes long: CAIRN_LONG=1 runs it")
def test_orbax_still_does_the_same(gcs):
    now, then = make_orbax_gs_step.record(gcs), recorded()
    assert now["objects"] == then["objects"]
    assert set(ALWAYS) <= order(now)
    assert sorted(each["name"] for each in now["writes"]) == sorted(
        each["name"] for each in then["writes"]
    )
