"""Stores of key-value specs: Cairn and the real TensorStore read what the other wrote, and lose no change when both write at once."""

import json
import os
import subprocess
import threading

import numpy as np
import pytest
import tensorstore as ts
from orbax.checkpoint import type_handlers
import cairn_cli

DRIVERS = ["ocdbt", "ocdbt", "ocdbt", "file"]  # a database more often than a folder


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def run(jobs):
    return cairn_cli.answers("spec_tool", jobs)


def text(rng):
    return "".join(rng.choice(list("abcé\n"), int(rng.choice([0, 1, 7, 99, 101, 3000]))))


def key(rng):
    return str(rng.choice(["a", "b/1", "b/2", "b/22", "c", "d/e/f", "z"]))


def random_spec(rng, folder):
    if rng.choice(DRIVERS) == "file":
        return {"driver": "file", "path": f"{folder}/"}
    spec = {"driver": "ocdbt", "base": f"file://{folder}/"}
    if rng.random() < 0.5:
        spec["path"] = str(rng.choice(["p/", "p"]))
    if rng.random() < 0.5:
        spec["config"] = {"max_inline_value_bytes": int(rng.choice([0, 100, 1024])), "max_decoded_node_bytes": int(rng.choice([200, 8 << 20])),
                          "manifest_kind": str(rng.choice(["single", "numbered"]))}
    return spec


def random_step(rng, transaction):
    kind = rng.random()
    if kind < 0.6:
        return {"write": [key(rng), text(rng)]}
    if kind < 0.8:
        return {"remove": key(rng)}
    if kind < 0.9 or transaction:
        return {"remove_range": [str(rng.choice(["", "b", "b/2"])), [None, "c", "b/21"][int(rng.integers(3))]]}
    return {"list": str(rng.choice(["", "b/", "b/2", "x"]))}


def values(store):
    return {name.decode(): store.read(name).result().value.decode() for name in store.list().result()}


def applied(store, step):
    """Does to the real store what the step says; gives what the tool answers."""
    if "write" in step:
        store.write(step["write"][0], step["write"][1].encode()).result()
    elif "remove" in step:
        store.delete_range(ts.KvStore.KeyRange(step["remove"], step["remove"] + "\0")).result()
    elif "remove_range" in step:
        first, last = step["remove_range"]
        store.delete_range(ts.KvStore.KeyRange(first, last or "")).result()
    else:
        return [sorted([name, value] for name, value in values(store).items() if name.startswith(step["list"]))]
    return []


@pytest.mark.covers(
    "tensorstore_utils.open_kv_store",
    note="Drivers: file, memory, ocdbt, and those of [object stores](#object-stores).",
)
def test_stores_hold_what_tensorstore_s_hold(scratch, rng):
    jobs, expected, real = [], [], []
    for i in range(60):
        spec = random_spec(rng, scratch / f"ours{i}")
        other = json.loads(json.dumps(spec).replace(f"ours{i}", f"theirs{i}"))
        steps = [random_step(rng, False) for _ in range(int(rng.integers(1, 8)))]
        store = ts.KvStore.open(other).result()
        jobs.append({"kv": {"spec": spec, "steps": steps}})
        expected.append([answer for step in steps for answer in applied(store, step)])
        real.append((ts.KvStore.open(spec), store))
    for job, got, want in zip(jobs, run(jobs), expected, strict=True):
        assert got == want, (job, got, want)
    for job, (opened, store) in zip(jobs, real, strict=True):
        assert values(opened.result()) == values(store), job


@pytest.mark.covers("tensorstore_utils.open_kv_store")
def test_each_side_goes_on_where_the_other_stopped(scratch, rng):
    stores = {}
    for i in range(12):
        spec = {"driver": "ocdbt", "base": f"file://{scratch}/{i}/"}
        if i % 2:
            spec["config"] = {"manifest_kind": "numbered"}
        stores[i] = (spec, {})
    for _ in range(4):
        jobs = []
        for spec, model in stores.values():
            steps = [random_step(rng, True) for _ in range(5)]
            jobs.append({"transaction": {"spec": spec, "steps": steps}})
            for step in steps:
                change(model, step)
        for job, got, (_, model) in zip(jobs, run(jobs), stores.values(), strict=True):
            assert isinstance(got, list) and got[1] == len(model), (job, got)
        for spec, model in stores.values():
            store = ts.KvStore.open(spec).result()
            assert values(store) == model
            transaction = ts.Transaction()
            for _ in range(3):
                step = random_step(rng, True)
                applied(store.with_transaction(transaction), step)
                change(model, step)
            transaction.commit_sync()
        jobs = [{"kv": {"spec": spec, "steps": [{"list": ""}]}} for spec, _ in stores.values()]
        for got, (_, model) in zip(run(jobs), stores.values(), strict=True):
            assert got == [sorted([name, value] for name, value in model.items())]


def change(model, step):
    if "write" in step:
        model[step["write"][0]] = step["write"][1]
        return
    first, last = step.get("remove_range", [step.get("remove"), step.get("remove", "") + "\0"])
    for name in [name for name in model if name >= first and (last is None or name < last)]:
        del model[name]


@pytest.mark.covers("tensorstore_utils.open_kv_store")
def test_writers_of_both_libraries_lose_nothing(scratch):
    """Two processes of Cairn and two threads of TensorStore commit to one database."""
    spec = {"driver": "ocdbt", "base": f"file://{scratch}/db/"}
    rounds = 25
    jobs = [[{"transaction": {"spec": spec, "times": 1, "steps": [{"write": [f"cairn/{who}/{i}", "x" * (i * 17)]}]}} for i in range(rounds)] for who in range(2)]
    tools = [subprocess.Popen([cairn_cli.TOOLS / "spec_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in jobs]

    def write(who):
        store = ts.KvStore.open(spec, context=ts.Context()).result()
        for i in range(rounds):
            store.write(f"ts/{who}/{i}", b"y" * (i * 17)).result()

    threads = [threading.Thread(target=write, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    for tool, own in zip(tools, jobs, strict=True):
        tool.stdin.write(json.dumps(own))
        tool.stdin.close()
    answers = [json.loads(tool.stdout.read()) for tool in tools]
    for tool in tools:
        assert tool.wait(timeout=300) == 0
    for thread in threads:
        thread.join()
    assert all(isinstance(answer, list) for answer in answers[0] + answers[1]), answers
    generations = [answer[0] for answer in answers[0] + answers[1]]
    assert len(set(generations)) == 2 * rounds  # each commit is a version of its own
    want = {f"{side}/{who}/{i}": letter * (i * 17) for side, letter in (("cairn", "x"), ("ts", "y")) for who in range(2) for i in range(rounds)}
    assert values(ts.KvStore.open(spec, context=ts.Context()).result()) == want
    assert run([{"kv": {"spec": spec, "steps": [{"list": ""}]}}]) == [[sorted([name, value] for name, value in want.items())]]


@pytest.mark.covers("tensorstore_utils.open_kv_store")
def test_conditions(scratch):
    spec = {"driver": "ocdbt", "base": f"file://{scratch}/db/"}
    store = ts.KvStore.open(spec).result()
    store.write("a", b"1").result()
    requires = [(["a", "1"], None), (["a", "2"], "another value"), (["a", None], "exists"), (["b", None], None), (["b", ""], "another value")]
    jobs = [{"transaction": {"spec": spec, "steps": [{"require": pair}, {"write": ["out", "x"]}]}} for pair, _ in requires]
    for (pair, why), got in zip(requires, run(jobs), strict=True):
        assert isinstance(got, list) if why is None else got["error"].startswith("failed_precondition: ") and why in got["error"], (pair, got)
    swaps = [["a", "2", "3"], ["a", "1", "3"], ["b", None, "4"], ["b", None, "5"]]
    [ours] = run([{"kv": {"spec": spec, "steps": [{"replace": swap} for swap in swaps]}}])
    # TensorStore names the expected value by its generation; the result of a write that did not happen has none.
    theirs = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{scratch}/theirs/"}).result()
    generations = {value: theirs.write("a", value.encode()).result().generation for value in ("2", "1")} | {None: theirs.read("b").result().stamp.generation}
    assert ours == [bool(theirs.write(key, new.encode(), if_equal=generations[old]).result().generation) for key, old, new in swaps] == [False, True, True, False]
    assert values(theirs) == {"a": "3", "b": "4"}
    assert values(ts.KvStore.open(spec, context=ts.Context()).result()) == {"a": "3", "b": "4", "out": "x"}


@pytest.mark.covers("type_handlers.is_ocdbt_checkpoint")
def test_which_folders_hold_a_database(scratch):
    database = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{scratch}/db/"}).result()
    database.write("a", b"1").result()
    (scratch / "empty").mkdir()
    (scratch / "file").write_text("x")
    (scratch / "dangling").mkdir()
    (scratch / "dangling" / "manifest.ocdbt").symlink_to("nowhere")
    (scratch / "linked").symlink_to("db")
    paths = [str(scratch / name) for name in ("db", "db/", "empty", "file", "dangling", "linked", "missing", "missing/below")]
    want = [type_handlers.is_ocdbt_checkpoint(path) for path in paths]
    assert run([{"is_ocdbt": path} for path in paths]) == want
    assert True in want and False in want
