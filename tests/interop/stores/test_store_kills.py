"""Commands that are killed at each of their requests, or lose the store there.

What they leave is the old state, the new one or something unfinished: for Cairn, and on gs:// for
the real Orbax. Steps that stay are as they were. The same command, run again, succeeds.
"""

import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import cairn_cli
import fault_proxy
import numpy as np
import pytest
import store_clients
from test_python import options_of

import cairn

STRIDE = 1 if store_clients.LONG else 3  # every third request, other ones on each server
AT_ONCE = 4  # victims
MOST_REQUESTS = 200
OLD, NEW = 1, 2


def values(number):
    return {"w": np.full((4, 6), number, np.float32), "b": np.arange(number, number + 5)}


def number_of(found):
    """Which of the trees it is."""
    number = int(found["b"][0])
    for name, value in values(number).items():
        np.testing.assert_array_equal(found[name], value, strict=True)
    assert sorted(found) == ["b", "w"]
    return number


class Killer(fault_proxy.FaultProxy):
    """Kills a process when its n-th request comes, or its store is gone from then on."""

    def __init__(self, store, request, gone=False):
        super().__init__(store.port)
        self.request, self.gone = request, gone
        self._known = threading.Event()
        self._process = None

    def watch(self, process):
        self._process = process
        self._known.set()

    def fault_of(self, head):
        if len(self.log) < self.request:
            return None
        if self.gone:
            return fault_proxy.Fault("drop")
        self._known.wait()
        self._process.send_signal(signal.SIGKILL)
        # The store may still get the request.
        return None if self.request % 2 else fault_proxy.Fault("drop")


@dataclasses.dataclass
class Case:
    """What a command does at a name of its own, and what there may be after it was cut off."""

    arguments: Callable  # of the URL
    prepare: Callable | None  # fills the place before
    may_be: Callable  # of (store, name): asserts that nothing half-written looks whole
    done: Callable  # of (store, name): asserts that the command has done its work
    again: tuple = ()  # more options of the second run
    leased: bool = False  # the mark of a killed save counts for two minutes


def reach(store):
    return {"storage_options": options_of(store)}


def look(store, name, **options):
    """The number of the tree at a name; None if there is none that is whole."""
    try:
        found = cairn.load(f"{store.url}/{name}", **reach(store), **options)
    except (FileNotFoundError, RuntimeError, ValueError):
        return None
    return number_of(found)


def one_of(*numbers, **options):
    def check(store, name):
        found = look(store, name, **options)
        assert found in numbers, (name, found)

    return check


def fill_run(store, name, steps=(1, 2, 3)):
    """Steps, as a manager saves them."""
    with cairn.CheckpointManager(f"{store.url}/{name}", **reach(store)) as run:
        for step in steps:
            run.save(step, values(step))


def fill_unfinished_run(store, name):
    """Two steps, and between them what a killed save has left."""
    fill_run(store, name, (1, 3))
    store.put(f"{name}/2/_CHECKPOINT_METADATA", b'{"init_timestamp_nsecs": 5}')
    store.put(f"{name}/2/default/_METADATA", b"{}")
    store.put(f"{name}/2/default/d/{32 * 'a'}", b"data")


def complete_steps(store, name):
    rows = cairn.steps(f"{store.url}/{name}", **reach(store))
    return [row["step"] for row in rows if row["complete"]]


def run_has(must, may=()):
    """The run has these complete steps, and no others; each is as it was."""

    def check(store, name):
        found = complete_steps(store, name)
        assert set(must) <= set(found) <= {*must, *may}, (name, found)
        for step in found:
            assert look(store, f"{name}/{step}", item="default") == step

    return check


def is_clean(store, name):
    run_has([1, 3])(store, name)
    assert cairn.clean(f"{store.url}/{name}", **reach(store)) == []


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for number in (OLD, NEW):
        np.savez(folder / f"{number}.npz", **values(number))
    return folder


def cases(sources):
    new = sources / f"{NEW}.npz"

    def converting(*options, ending=""):
        return lambda url: ["convert", new, f"{url}{ending}", *options]

    def fill(*options, ending=""):
        def prepare(store, name):
            url = f"{store.url}/{name}{ending}"
            done = cairn_cli.call(
                "convert", sources / f"{OLD}.npz", url, *options, env=store.variables()
            )
            assert done.returncode == cairn_cli.GOOD, done.stderr

        return prepare

    step = ["--to", "orbax", "--as-item", "default"]
    tensors = ["--shard-bytes", "60"]
    bundle = ["--to", "tensorflow", "--names", "--shard-bytes", "60"]
    item = {"item": "default"}

    def at(ending, check):
        return lambda store, name: check(store, f"{name}{ending}")

    def file_case(ending, index, options, replaces):
        numbers = (OLD, NEW, None) if replaces else (NEW, None)
        force = ["--force"] if replaces else []
        return Case(
            converting(*options, *force, ending=ending),
            fill(*options, ending=ending) if replaces else None,
            at(index, one_of(*numbers)),
            at(index, one_of(NEW)),
            again=("--force",),
            leased=True,
        )

    return {
        "save": Case(converting(*step), None, one_of(NEW, None, **item), one_of(NEW, **item)),
        "replace": Case(
            converting(*step, "--force"),
            fill(*step),
            one_of(OLD, NEW, None, **item),
            one_of(NEW, **item),
        ),
        "prune": Case(
            lambda url: ["prune", url, "--keep-last", "1"],
            fill_run,
            run_has([3], may=[1, 2]),
            run_has([3]),
        ),
        "clean": Case(lambda url: ["clean", url], fill_unfinished_run, run_has([1, 3]), is_clean),
        "safetensors": file_case(
            ".safetensors", ".safetensors.index.json", tensors, replaces=False
        ),
        "replace-safetensors": file_case(
            ".safetensors", ".safetensors.index.json", tensors, replaces=True
        ),
        "tensorflow": file_case("/t", "/t", bundle, replaces=False),
        "replace-tensorflow": file_case("/t", "/t", bundle, replaces=True),
    }


NAMES = ["save", "replace", "prune", "clean", "safetensors", "replace-safetensors", "tensorflow",
         "replace-tensorflow"]  # fmt: skip


def run_victim(store, case, name, request):
    """Runs the command, which is killed at a request. Returns whether it was."""
    with Killer(store, request) as proxy:
        through = store.through(proxy)
        command = [cairn_cli.CAIRN, *map(str, case.arguments(f"{store.url}/{name}"))]
        process = subprocess.Popen(
            command, env=through.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        proxy.watch(process)
        _, message = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGKILL), message.decode()
        return process.returncode != 0


def run_again(store, case, name, killed):
    command = case.arguments(f"{store.url}/{name}")
    done = cairn_cli.call(*command, env=store.variables())
    if done.returncode != 0 and case.again:
        command = [*command, *(option for option in case.again if option not in command)]
        done = cairn_cli.call(*command, env=store.variables())
    if case.leased and killed and done.returncode != 0:
        # Nobody knows yet whether the save has ended: nothing may take its place.
        assert b"unfinished" in done.stderr or b"another save" in done.stderr, done.stderr
        case.may_be(store, name)
        return
    # The first run may have come to its end.
    assert done.returncode == 0 or b"already exists" in done.stderr, done.stderr.decode()
    case.done(store, name)


def kill_one(store, case, name, request):
    if case.prepare:
        case.prepare(store, name)
    killed = run_victim(store, case, name, request)
    case.may_be(store, name)
    return killed


def count_requests(store, case, name):
    if case.prepare:
        case.prepare(store, name)
    with Killer(store, MOST_REQUESTS) as proxy:
        done = cairn_cli.call(
            *case.arguments(f"{store.url}/{name}"), env=store.through(proxy).variables()
        )
        assert done.returncode == 0, done.stderr.decode()
        return len(proxy.log)


def requests_to_hit(store, count):
    first = store_clients.SERVERS.index(store.name) % STRIDE
    return range(1 + first, count + 1, STRIDE)


ORBAX = textwrap.dedent(
    """
    import json, sys, numpy as np, orbax.checkpoint as ocp
    manager = ocp.CheckpointManager(sys.argv[1], item_names=("default",))
    args = ocp.args.Composite(default=ocp.args.PyTreeRestore())
    print(json.dumps({
        step: {name: np.asarray(value).tolist()
               for name, value in manager.restore(step, args=args)["default"].items()}
        for step in manager.all_steps()}))
    """
)


def steps_of_orbax(gcs, name):
    """The steps of a run that the real Orbax finds, with the numbers of their trees."""
    done = subprocess.run(
        [sys.executable, "-c", ORBAX, f"{gcs.url}/{name}"],
        env={**os.environ, **gcs.variables()},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for step, tree in json.loads(done.stdout.splitlines()[-1]).items():
        number = int(tree["b"][0])
        assert tree == {key: value.tolist() for key, value in values(number).items()}
        found[int(step)] = number
    return found


@pytest.mark.parametrize("command", NAMES)
def test_a_kill_at_any_request(store, sources, command):
    case = cases(sources)[command]
    # Steps of one run, so that one process of Orbax sees all of them.
    is_step = command in ("save", "replace")
    names = "all/{}" if is_step else "at-{}"
    count = count_requests(store, case, names.format(0))
    assert 3 <= count < MOST_REQUESTS
    hit = requests_to_hit(store, count)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        killed = list(pool.map(lambda n: kill_one(store, case, names.format(n), n), hit))
        assert sum(killed) >= len(hit) - 2  # the order of requests differs a little
        if is_step and store.name == "GCS":
            found = {n: look(store, f"all/{n}", item="default") for n in (0, *hit)}
            whole = {n: number for n, number in found.items() if number is not None}
            assert steps_of_orbax(store, "all") == whole
        again = pool.map(
            lambda n, was_killed: run_again(store, case, names.format(n), was_killed), hit, killed
        )
        list(again)


def without_store(store, command, request, name, sources):
    """Runs a command in this process, whose store is gone from a request on: whether it failed."""
    with Killer(store, request, gone=True) as proxy:
        through = store.through(proxy)
        options = {"storage_options": options_of(through) | {"retry_time": 0.01}}
        url, new = f"{store.url}/{name}", sources / f"{NEW}.npz"
        try:
            if command == "prune":
                report = cairn.prune(url, keep_last=1, **options)
                return any(row["outcome"] == "refused" for row in report)
            if command == "clean":
                report = cairn.clean(url, **options)
                return any(row["outcome"] == "refused" for row in report)
            if "safetensors" in command:
                more = {"shard_bytes": 60}
                url += ".safetensors"
            elif "tensorflow" in command:
                more = {"shard_bytes": 60, "to": "tensorflow", "object_graph": False}
                url += "/t"
            else:
                more = {"to": "orbax", "as_item": "default"}
            cairn.convert(new, url, overwrite=command.startswith("replace"), **more, **options)
        except OSError:
            return True
        return False


def lose_store(store, case, command, name, request, sources):
    if case.prepare:
        case.prepare(store, name)
    failed = without_store(store, command, request, name, sources)
    case.may_be(store, name)
    run_again(store, case, name, failed)
    return failed


@pytest.mark.parametrize("command", NAMES)
def test_a_store_that_is_gone_at_any_request(store, sources, command):
    case = cases(sources)[command]
    count = count_requests(store, case, "at-0")
    hit = requests_to_hit(store, count)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        failed = list(
            pool.map(lambda n: lose_store(store, case, command, f"at-{n}", n, sources), hit)
        )
    assert sum(failed) >= len(hit) - 3
