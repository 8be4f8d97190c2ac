"""Warnings and events of saves and restores: the same situations with both packages give the same ones.

Compared are the names and attributes of events of jax.monitoring, how often each comes, and the text
of warnings. docs/reference/observer.md has the table of all names, which is checked, too.
"""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
import reported_cases
from monitored import heard

import cairn.orbax as ours

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "observer.md"
# TensorStore has read nothing where its cache has everything; Cairn reports the files' bytes always.
RAW_READS = re.compile("/jax/orbax/read/worker/io/(raw|compression)")
SEEN = set()


def tree():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    place = lambda *spec: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    return {"a": jax.device_put(jnp.arange(8.0), place("x")), "r": jax.device_put(jnp.ones(4), place()), "n": np.arange(4), "s": 3}


class Situations(reported_cases.Situations):
    """Those of one process, too."""

    def save_raw(self, ocp, root):
        yield lambda: self.saved(ocp, root, use_compression=False)

    def save_three_items(self, ocp, root):
        yield from self.save_an_item_at_once(ocp, root, note=ocp.args.JsonSave({"a": 1}))

    def save_small_chunks(self, ocp, root):
        args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=100), tree())
        yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree(), args)

    def restore_by_old_arguments(self, ocp, root):
        self.saved(ocp, root)
        yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", item=tree(), restore_args=self.placed(ocp))

    def restore_without_metadata(self, ocp, root):
        (self.saved(ocp, root) / "_METADATA").unlink()
        yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", item=tree(), restore_args=self.placed(ocp))

    def handlers(self, ocp, root):
        th = ocp.type_handlers

        def run():
            ocp.PyTreeCheckpointHandler(type_handler_registry=th.create_type_handler_registry((np.ndarray, th.NumpyHandler())))
            ocp.PyTreeCheckpointHandler(is_prioritized_key_fn=lambda key: True)

        yield run


SITUATIONS = Situations(tree)


@pytest.mark.covers(
    "events.record_event_duration_secs",
    note="`save.metadata_written`, `save.merged`.",
)
@pytest.mark.covers(
    "events.record_event_duration_secs",
    note=(
        "C++ events have bytes and duration in place of rates. `cairn.orbax` records Orbax's own "
        "names."
    ),
)
@pytest.mark.parametrize("situation", Situations.names())
def test_the_same_is_said(tmp_path, situation):
    found = []
    for name, ocp in (("ours", ours), ("theirs", real)):
        (tmp_path / name).mkdir()
        steps = getattr(SITUATIONS, situation)(ocp, tmp_path / name)
        run = next(steps)
        with heard(tmp_path) as said:
            run()
        next(steps, None)
        found.append({one: count for one, count in said if not RAW_READS.search(one[1])})
    missing = {one: count for one, count in found[1].items() if found[0].get(one) != count}
    added = {one: count for one, count in found[0].items() if found[1].get(one) != count}
    assert (missing, added) == ({}, {})
    SEEN.update(one[1] for one in found[1] if one[0] in ("event", "duration", "scalar"))


def test_aggregate(monkeypatch):
    from cairn.orbax._impl.base import monitoring

    monkeypatch.setattr(monitoring, "_warned_of_aggregate", -float("inf"))
    with heard("") as said:
        ours.SaveArgs(aggregate=True)
        ours.SaveArgs(aggregate=True)
    assert dict(said) == {("event", "/jax/orbax/deprecation/aggregate", ()): 2,
                          ("warning", "The `aggregate` option is deprecated and will be ignored."): 1}


def test_rates_are_those_of_the_values(tmp_path):
    """The numbers, where both measure the same thing."""
    values = []
    for name, ocp in (("ours", ours), ("theirs", real)):
        numbers = {}
        listen = lambda metric, value, numbers=numbers, **more: numbers.setdefault(metric, []).append(value)
        jax.monitoring.register_scalar_listener(listen)
        (tmp_path / name).mkdir()
        SITUATIONS.saved(ocp, tmp_path / name)
        ocp.PyTreeCheckpointer().restore(tmp_path / name / "c", item=tree(), restore_args=SITUATIONS.placed(ocp))
        jax.monitoring.unregister_scalar_listener(listen)
        values.append({metric: sorted(numbers[metric]) for metric in ("/jax/orbax/write/gbytes", "/jax/orbax/write/sharded_array_gb",
                                                                      "/jax/orbax/write/replicated_array_gb", "/jax/checkpoint/read/gbytes")})
        ratio = numbers["/jax/orbax/write/worker/io/compression_ratio"]
        assert 0 < ratio[0] < 10
    assert values[0] == values[1]


def test_the_page_lists_them():
    """Every name that a situation gives has a row in docs/reference/observer.md."""
    page = PAGE.read_text()
    listed = set(re.findall(r"`(/jax/[a-z0-9_/]+)`", page[page.index("## In Python") :]))
    assert len(listed) > 60 and listed >= SEEN, SEEN - listed
