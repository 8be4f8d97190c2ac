"""Random operations on checkpoints, files and a run, through a proxy that makes random faults.

A model knows what must be there. An operation has the right result, or it raises an error that
says where. Then the store, seen without faults, has the old state, the new one, or an unfinished
save; and the next save needs no help.
"""

import os

import numpy as np
import pytest
import store_clients
from random_faults import RandomFaults
from test_python import comparable, options_of

import cairn

OPERATIONS = 2000 if store_clients.LONG else 350  # of each store: 1,050 in all
SLOTS = ["a", "b/c", "d"]
FILES = ["one.npz", "one.msgpack", "one.safetensors"]
ABSENT = None
# What a failed operation raises. None says that the data is damaged: the proxy damages none.
ERRORS = (OSError, RuntimeError, ValueError)
LAYOUTS = [
    {},
    {"use_ocdbt": False},
    {"use_zarr3": True},
    {"use_ocdbt": False, "use_zarr3": True, "compression": "none"},
]


def tree_of(seed):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((24, 30)).astype(np.float32)
    return {"w": w, "n": np.arange(seed % 7 + 1), "seed": np.array([seed])}


def is_tree(found, seed):
    return comparable(found) == comparable(tree_of(seed))


class World:
    """The store, what must be in it, and the ways to it."""

    def __init__(self, store, proxy, rng):
        self.store, self.proxy, self.rng = store, proxy, rng
        through = store.through(proxy)
        limits = {"retry_time": 0.3, "connect_timeout": 2, "stall_timeout": 1}
        self.direct = {"storage_options": options_of(store)}
        self.faulty = {"storage_options": {**options_of(through), **limits}}
        self.slots = dict.fromkeys(SLOTS, ABSENT)
        self.files = dict.fromkeys(FILES, ABSENT)
        self.steps = {}  # of the run: step -> seed
        self.seed = 0
        self.seen = ""  # why the last look found nothing
        self.failures = 0
        self.successes = 0

    def url(self, name):
        return f"{self.store.url}/{name}"

    def fresh(self):
        self.seed += 1
        return self.seed

    def attempt(self, call):
        """(result, error) of a call, one of which is None, or both."""
        try:
            found = call()
        except ERRORS as error:
            assert self.store.bucket in str(error), error
            assert not isinstance(error, cairn.CorruptionError) or "unfinished" in str(error), error
            self.failures += 1
            return None, error
        self.successes += 1
        return found, None

    def look(self, name, **options):
        """The seed of the tree at a name, without faults; ABSENT if there is none that is whole."""
        try:
            found = cairn.load(self.url(name), **self.direct, **options)
        except (FileNotFoundError, RuntimeError, ValueError) as error:
            assert not isinstance(error, cairn.CorruptionError) or "unfinished" in str(error), error
            self.seen = str(error)
            return ABSENT
        seed = int(found["seed"][0])
        assert is_tree(found, seed), f"{name} has wrong bytes"
        return seed

    # ---- checkpoints ----

    def slot(self):
        return str(self.rng.choice(SLOTS))

    def save(self):
        name, seed = self.slot(), self.fresh()
        layout = LAYOUTS[self.rng.integers(len(LAYOUTS))]
        overwrite = bool(self.rng.random() < 0.8)
        call = [cairn.save, self.save_in_background][self.rng.random() < 0.3]
        old = self.slots[name]
        _, error = self.attempt(
            lambda: call(
                self.url(name), tree_of(seed), overwrite=overwrite, **layout, **self.faulty
            )
        )
        if error is None:
            assert old is ABSENT or overwrite
            self.slots[name] = seed
        else:
            self.slots[name] = self.look(name)
            assert self.slots[name] in (old, seed, ABSENT if overwrite or old is ABSENT else old)
        if error is not None and self.rng.random() < 0.5:
            self.save_without_faults(name)

    def save_in_background(self, *arguments, **options):
        cairn.save_async(*arguments, **options).wait()

    def save_without_faults(self, name):
        seed = self.fresh()
        cairn.save(self.url(name), tree_of(seed), overwrite=True, **self.direct)
        self.slots[name] = seed
        assert self.look(name) == seed
        assert cairn.verify(self.url(name), **self.direct)

    def read(self, read):
        """What a reader returns for a slot is what is there."""
        name = self.slot()
        found, error = self.attempt(lambda: read(self.url(name)))
        if self.slots[name] is ABSENT:
            assert error is not None
        return self.slots[name], found, error

    def load(self):
        seed, found, error = self.read(lambda url: cairn.load(url, **self.faulty))
        assert error is not None or is_tree(found, seed)

    def read_slice(self):
        begin = int(self.rng.integers(24))
        seed, found, error = self.read(
            lambda url: np.asarray(cairn.open(url, **self.faulty).tensors["w"][begin:])
        )
        assert error is not None or np.array_equal(found, tree_of(seed)["w"][begin:])

    def names(self):
        _, found, error = self.read(lambda url: sorted(cairn.open(url, **self.faulty).tensors))
        assert error is not None or found == ["n", "seed", "w"]

    def verify(self):
        _, found, error = self.read(lambda url: cairn.verify(url, **self.faulty))
        assert error is not None or found or "not all checked" in repr(found), found

    # ---- files of other formats ----

    def convert(self):
        slot, file = self.slot(), str(self.rng.choice(FILES))
        seed, old = self.slots[slot], self.files[file]
        target = {"target_storage_options": self.faulty["storage_options"]}
        _, error = self.attempt(
            lambda: cairn.convert(
                self.url(slot), self.url(file), overwrite=True, **self.faulty, **target
            )
        )
        assert error is not None or seed is not ABSENT
        self.files[file] = seed if error is None else self.look(file)
        assert self.files[file] in (old, seed), (error, self.seen)

    def load_file(self):
        name = str(self.rng.choice(FILES))
        found, error = self.attempt(lambda: cairn.load(self.url(name), **self.faulty))
        assert error is not None or is_tree(found, self.files[name])

    # ---- a run ----

    def look_at_run(self):
        try:
            rows = cairn.steps(self.url("run"), **self.direct)
        except FileNotFoundError:
            return {}
        complete = [row["step"] for row in rows if row["complete"]]
        return {step: self.look(f"run/{step}", item="default") for step in complete}

    def check_run(self, must, may):
        """The complete steps: those that must be there, and none but those that may."""
        found = self.look_at_run()
        assert must.items() <= found.items() <= {**must, **may}.items(), (must, may, found)
        self.steps = found

    def save_step(self):
        keep = int(self.rng.integers(2, 4))
        step, seed = max(self.steps, default=0) + 1, self.fresh()
        before = dict(self.steps)

        def save():
            with cairn.CheckpointManager(self.url("run"), max_to_keep=keep, **self.faulty) as run:
                run.save(step, tree_of(seed))
                run.wait_until_finished()

        _, error = self.attempt(save)
        everything = {**before, step: seed}
        kept = {number: everything[number] for number in sorted(everything)[-keep:]}
        if error is None:
            self.check_run(kept, {})
        else:
            kept.pop(step)
            self.check_run(kept, everything)

    def remove_step(self):
        if not self.steps:
            return
        step = int(self.rng.choice(sorted(self.steps)))

        def remove():
            with cairn.CheckpointManager(self.url("run"), **self.faulty) as run:
                run.delete(step)

        self.after_removal({step}, self.attempt(remove)[1])

    def after_removal(self, steps, error):
        left = {number: seed for number, seed in self.steps.items() if number not in steps}
        self.check_run(left, {} if error is None else self.steps)

    def prune(self):
        if not self.steps:
            return
        gone = set(sorted(self.steps)[:-2])
        report, error = self.attempt(
            lambda: cairn.prune(self.url("run"), keep_last=2, **self.faulty)
        )
        refused = {row["step"] for row in report or () if row["outcome"] == "refused"}
        self.check_run(
            {step: seed for step, seed in self.steps.items() if step not in gone},
            self.steps if error else {step: self.steps[step] for step in refused},
        )

    def list_steps(self):
        rows, error = self.attempt(lambda: cairn.steps(self.url("run"), **self.faulty))
        if error is None:
            assert {row["step"] for row in rows if row["complete"]} == set(self.steps)

    def clean(self):
        self.attempt(lambda: cairn.clean(self.url("run"), **self.faulty))
        self.check_run(self.steps, {})

    def restore(self):
        def restore():
            with cairn.CheckpointManager(self.url("run"), **self.faulty) as run:
                return run.latest_step(), run.restore()

        found, error = self.attempt(restore)
        if error is None:
            latest = max(self.steps)
            assert found[0] == latest and is_tree(found[1], self.steps[latest])

    OPERATIONS = (
        [save] * 4
        + [load, read_slice, names, verify, convert, convert, load_file]
        + [save_step] * 3
        + [remove_step, prune, list_steps, clean, restore]
    )

    def draw_faults(self):
        drawn = self.rng.random()
        if drawn < 0.4:
            self.proxy.calm()
        elif drawn < 0.85:
            self.proxy.set(float(self.rng.choice([0.03, 0.1, 0.25])), None)
        else:
            self.proxy.set(0.0, int(self.rng.integers(40)))

    def step(self):
        self.draw_faults()
        operation = self.OPERATIONS[self.rng.integers(len(self.OPERATIONS))]
        operation(self)
        self.proxy.calm()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_results_are_right_or_errors_are_clear(store):
    rng = np.random.default_rng([int(os.environ["CAIRN_SEED"]), 71])
    with RandomFaults(store, np.random.default_rng([int(os.environ["CAIRN_SEED"]), 72])) as proxy:
        world = World(store, proxy, rng)
        for _ in range(OPERATIONS):
            world.step()
        for name in SLOTS:
            world.save_without_faults(name)
        assert set(world.look_at_run()) == set(world.steps)
    assert world.failures > OPERATIONS / 20 and world.successes > OPERATIONS / 3
    assert len(proxy.counts) >= 8, proxy.counts
