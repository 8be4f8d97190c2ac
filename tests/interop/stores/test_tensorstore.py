"""Cairn and the real TensorStore read what the other stored: single values, and OCDBT databases."""

import json
import os
import subprocess
import sys

import cairn_cli
import numpy as np
import pytest
import tensorstore_steps

# `.`, `..` and `//` are names that Cairn refuses, as in a folder.
KEYS = ["a", "b/1", "b/22", "c d", "e+f", "é世", "per%41cent", "q?m=1&n#f", "~t-._*'()!", "=@:,;$"]


def theirs(store, spec, steps):
    command = [sys.executable, tensorstore_steps.__file__, json.dumps(spec)]
    done = subprocess.run(
        command,
        input=json.dumps(steps).encode(),
        capture_output=True,
        env=store.variables(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def ours(store, steps, url=None, **job):
    jobs = [{"url": url or store.url, "steps": steps, **job}]
    return cairn_cli.answers("store_tool", jobs, env=store.variables())[0]


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def random_values(rng):
    sizes = [0, 1, 99, 101, 3000, 70_000]
    return {key: "".join(rng.choice(list("abcé\n"), rng.choice(sizes))) for key in KEYS}


def reads(values):
    return [*({"read": key} for key in values), {"read": "missing"}]


@pytest.mark.covers("stores.KvStore")
def test_they_read_what_we_wrote(store, rng):
    values = random_values(rng)
    assert ours(store, [{"write": [key, value]} for key, value in values.items()]) == [None] * 10
    found = theirs(store, store.tensorstore(), [*reads(values), {"list": ""}])
    assert found == [*values.values(), None, sorted(values)]


@pytest.mark.covers(
    "stores.KvStore",
    note="Drivers `s3`, `gcs` and `http`: reads of an opened value are pinned to one version.",
)
def test_we_read_what_they_wrote(store, rng):
    values = random_values(rng)
    theirs(store, store.tensorstore(), [{"write": [key, value]} for key, value in values.items()])
    found = ours(store, [*reads(values), {"list": ""}])
    sizes = sorted(([key, len(value.encode())] for key, value in values.items()), key=by_key)
    assert found == [*values.values(), None, sizes]


def by_key(entry):
    return entry[0].encode()


def database(store):
    return {"driver": "ocdbt", "base": store.tensorstore("db/")}


def commit(store, values):
    url = f"{store.url}/db"
    return ours(store, [{"commit": list(values.items())}], url, ocdbt=True)[0]


def test_they_read_our_databases(store, rng):
    values = random_values(rng)
    assert commit(store, values) == len(values)
    assert commit(store, {"a": "again"}) == len(values)
    values["a"] = "again"
    assert theirs(store, database(store), reads(values)) == [*values.values(), None]


@pytest.mark.covers("stores.KvStore")
def test_databases_both_ways(replacing_store, rng):
    store = replacing_store
    first, second = random_values(rng), {"b/1": "new", "z": "last"}
    theirs(store, database(store), [{"write": [key, value]} for key, value in second.items()])
    assert commit(store, first) == len(first) + 1
    theirs(store, database(store), [{"write": [key, value]} for key, value in second.items()])
    both = {**first, **second}
    assert ours(store, reads(both), f"{store.url}/db", ocdbt=True) == [*both.values(), None]
    assert commit(store, {"a": "again"}) == len(both)
    assert theirs(store, database(store), [{"read": "a"}, {"read": "z"}]) == ["again", "last"]
