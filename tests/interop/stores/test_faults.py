"""Stores that fail on purpose: every answer is right, or is an error that names its reason."""

import os

import numpy as np
import pytest
import store_clients
from contract_steps import check, random_step, run
from fault_proxy import Fault
from test_python import options_of

import cairn

OPERATIONS = 1000 if store_clients.LONG else 100
EVERY = 11  # requests from one fault to the next
REPEATED = ["503", "429", "500", "drop", "lost", "reset", "cut"]


def mixed_faults():
    """Every 11th request fails, each time in another way."""
    period = EVERY * len(REPEATED)
    return [Fault(kind, every=period, phase=EVERY * n) for n, kind in enumerate(REPEATED)]


def test_random_operations(store, proxy):
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    through = proxy(store, mixed_faults())
    check(store.through(through), [random_step(rng) for _ in range(OPERATIONS)])
    assert {request.fault for request in through.log} >= set(REPEATED)


@pytest.mark.parametrize("kind", ["drop", "lost", "503"])
@pytest.mark.parametrize("replaced", [None, "old"])
def test_a_conditional_write_whose_answer_is_lost(store, proxy, kind, replaced):
    """It tells its own value from that of another writer."""
    if replaced:
        run(store.url, [{"write": ["a", replaced]}], store.variables())
    through = proxy(store, [Fault(kind, nth=1, match="^(PUT|POST) ")])
    environment = store.through(through).variables()
    steps = [{"replace": ["a", replaced, "new"]}, {"replace": ["a", replaced, "newer"]}]
    assert run(store.url, [*steps, {"read": "a"}], environment) == [True, False, "new"]


@pytest.mark.parametrize("kind", ["drop", "lost", "cut", "reset", "500", "503"])
def test_a_large_upload_survives_faults(store, proxy, kind):
    """Parts that are sent at the same time fail alone."""
    size = (36 << 20) + 1
    uploads = "partNumber|upload_id|uploadId"
    through = proxy(store, [Fault(kind, nth=nth, match=uploads) for nth in (1, 2, 5)])
    steps = [{"append": ["large", size, 1 << 20]}, {"size": "large"}, {"range": ["large", 251, 9]}]
    found = run(store.url, steps, store.through(through).variables())
    assert found == [None, size, "\x00\x01\x02\x03\x04\x05\x06\x07\x08"]
    assert sum(bool(request.fault) for request in through.log) >= 1


def test_an_error_in_a_200_is_an_error(s3, proxy):
    """CompleteMultipartUpload answers before it is done."""
    through = proxy(s3, [Fault("error200", nth=1, match="^POST .*uploadId")])
    size = 20 << 20
    steps = [{"append": ["large", size, 1 << 20]}, {"size": "large"}]
    assert run(s3.url, steps, s3.through(through).variables()) == [None, size]
    assert through.faults[0].made == 1


def test_a_wrong_range_is_not_taken(store, proxy):
    run(store.url, [{"write": ["a", "0123456789"]}], store.variables())
    once = proxy(store, [Fault("range", nth=1, match="^GET")])
    steps = [{"range": ["a", 2, 3]}]
    assert run(store.url, steps, store.through(once).variables()) == ["234"]
    always = proxy(store, [Fault("range", every=1, match="^GET")])
    (answer,) = run(store.url, steps, store.through(always).variables())
    assert answer["code"] == "io", answer


def test_a_step_is_complete_whatever_the_store_answers(store, proxy):
    """An answer that is wrong says nothing of what is stored."""
    url = f"{store.url}/run"
    with cairn.CheckpointManager(url, storage_options=options_of(store)) as run:
        for step in (1, 2):
            run.save(step, {"w": np.arange(4)})
    (row,) = cairn.steps(url, storage_options=options_of(store))[1:]
    assert row["complete"] and row["step"] == 2
    through = proxy(store, [Fault("range", every=1, match="^GET .*(run/2/|run%2F2%2F).*manifest")])
    faulty = options_of(store.through(through))
    with pytest.raises(OSError, match="run/2/default/manifest.ocdbt") as raised:
        cairn.steps(url, storage_options=faulty)
    assert not isinstance(raised.value, cairn.CorruptionError)
    with cairn.CheckpointManager(url, storage_options=faulty) as run:
        assert run.latest_step() == 2
        with pytest.raises(OSError, match="run/2/default/manifest.ocdbt"):
            run.restore()
    assert through.faults[0].made


def test_expired_keys_are_an_error_with_a_name(s3, proxy):
    s3.put("a", b"value")
    through = proxy(s3, [Fault("expired", every=1)])
    (answer,) = run(s3.url, [{"read": "a"}], s3.through(through).variables())
    assert answer["code"] == "io" and "ExpiredToken" in answer["error"]
    assert len(through.log) <= 2  # static keys are not tried for two minutes
