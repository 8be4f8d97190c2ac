"""Snapshots of a training's state in the pinned memory of hosts, which outlive lost replicas."""

import dataclasses
import logging
import queue
import threading
from typing import Any

from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.v1.steps.step_types import CheckpointMetadata

_log = logging.getLogger("cairn.orbax")

_HOST = "pinned_host"


@dataclasses.dataclass(frozen=True)
class _Split:
    """An array in host memory. parts: one for each replica, of random keys their data."""

    parts: "list[Any]"
    key_dtype: Any  # None: these are no random keys


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """A state. leaves: a _Split for each array, anything else as it is."""

    step: int
    structure: Any
    leaves: "list[Any]"

    def arrays(self) -> "list[_Split]":
        return [leaf for leaf in self.leaves if isinstance(leaf, _Split)]


class Snapshotter:
    """Keeps the last state of a training in host memory, each replica on its own hosts.

    replica_axis_index: the axis of the arrays' meshes along which the replicas are. Raises
    ImportError without the package pathwaysutils, whose functions split and join the arrays.
    """

    def __init__(self, *, replica_axis_index: int = 0) -> None:
        self._split, self._join = _functions_of_pathways()
        self.replica_axis_index = replica_axis_index
        self._lock = threading.Lock()
        self._latest: _Snapshot | None = None
        self._waiting: queue.Queue[_Snapshot] = queue.Queue(maxsize=1)
        threading.Thread(target=self._work, daemon=True, name="cairn-snapshotter").start()

    def save(self, step: int, state: Any) -> None:
        """Starts to copy the arrays of a state to host memory. Other leaves are kept as they are.

        Does nothing but warn if another snapshot still waits for the copies of the one before.
        Raises ValueError for arrays that differ in the number of replicas.
        """
        if self._waiting.full():
            _log.warning("the snapshot of step %d is left out: an earlier one is not done", step)
            return
        self._waiting.put(self._snapshot(step, state))

    def load(self, abstract_state: Any, *, reset_snapshot_state: bool = True) -> Any:
        """The state of the last snapshot, from the replicas that are still there.

        Args:
          abstract_state: a tree of the same structure, with the shardings of the arrays.
          reset_snapshot_state: whether the snapshot becomes that of the result, on its devices.

        Raises RuntimeError if there is no snapshot, or no replica is left.
        """
        import jax

        with self._lock:
            snapshot = self._latest
        if snapshot is None:
            raise RuntimeError("there is no snapshot: none has been saved, or all have failed")
        shardings = [
            getattr(leaf, "sharding", None)
            for leaf in snapshot.structure.flatten_up_to(abstract_state)
        ]
        alive = _alive(snapshot)
        on_hosts = [
            self._joined(leaf, alive, sharding) if isinstance(leaf, _Split) else leaf
            for leaf, sharding in zip(snapshot.leaves, shardings, strict=True)
        ]
        restored = [
            _placed(leaf, sharding, None) if isinstance(old, _Split) else leaf
            for leaf, old, sharding in zip(on_hosts, snapshot.leaves, shardings, strict=True)
        ]
        build = snapshot.structure.unflatten
        jax.block_until_ready([_data(leaf) for leaf in restored])  # type: ignore[no-untyped-call]
        if reset_snapshot_state:
            again = self._snapshot(snapshot.step, build(on_hosts))
            with self._lock:
                self._latest = again
        return build(restored)

    def join(self) -> None:
        """Waits until all snapshots are done."""
        self._waiting.join()

    @property
    def latest(self) -> "CheckpointMetadata[None] | None":
        """The step of the last snapshot; None if there is none. It has no path."""
        with self._lock:
            snapshot = self._latest
        if snapshot is None:
            return None
        return CheckpointMetadata(snapshot.step, as_path(""), metadata=None)

    def _work(self) -> None:
        """Waits for copies, in a thread of its own."""
        import jax

        while True:
            snapshot = self._waiting.get()
            parts = [leaf.parts for leaf in snapshot.arrays()]
            try:
                jax.block_until_ready(parts)  # type: ignore[no-untyped-call]
            except RuntimeError:  # a lost replica, say; errors of JAX are such
                _log.exception("the snapshot of step %d has failed", snapshot.step)
            else:
                with self._lock:
                    self._latest = snapshot
            finally:
                del snapshot, parts  # the memory is free while the thread waits
                self._waiting.task_done()

    def _snapshot(self, step: int, state: Any) -> _Snapshot:
        import jax

        leaves, structure = jax.tree_util.tree_flatten(state)
        snapshot = _Snapshot(step, structure, list(map(self._split_on_hosts, leaves)))
        counts = {len(one.parts) for one in snapshot.arrays()}
        if len(counts) > 1:
            raise ValueError(f"the arrays have different numbers of replicas: {sorted(counts)}")
        return snapshot

    def _split_on_hosts(self, leaf: Any) -> Any:
        import jax

        if not isinstance(leaf, jax.Array):
            return leaf
        data = _data(leaf)
        on_hosts = jax.device_put(data, data.sharding.with_memory_kind(_HOST))
        parts = self._split(on_hosts, self._axis(leaf.sharding))
        return _Split(list(parts), leaf.dtype if data is not leaf else None)

    def _joined(self, leaf: _Split, alive: "list[int]", sharding: Any) -> Any:
        import jax

        parts = [leaf.parts[replica] for replica in alive]
        array = self._join(parts, self._axis(sharding))
        if leaf.key_dtype is not None:
            array = jax.random.wrap_key_data(array, dtype=leaf.key_dtype)
        return _placed(array, sharding, _HOST)

    def _axis(self, sharding: Any) -> Any:
        return sharding.mesh.axis_names[self.replica_axis_index]


def _functions_of_pathways() -> "tuple[Any, Any]":
    """Returns the functions that split an array into its replicas and join them."""
    try:
        from pathwaysutils.experimental import concatenate_by_mesh_axis, split_by_mesh_axis
    except ImportError as error:
        raise ImportError(
            "Snapshotter requires pathwaysutils, which is for runs with Pathways: install it, or "
            "use cairn.orbax.v1.training.Checkpointer"
        ) from error
    return (
        split_by_mesh_axis.split_by_mesh_axis,
        concatenate_by_mesh_axis.concatenate_by_mesh_axis,
    )


def _data(leaf: Any) -> Any:
    """The data of an array of random keys; anything else as it is."""
    import jax

    is_keys = isinstance(leaf, jax.Array) and is_key_dtype(leaf.dtype)
    return jax.random.key_data(leaf) if is_keys else leaf


def _placed(array: Any, sharding: Any, memory_kind: "str | None") -> Any:
    """The array on the devices of a sharding, in a memory of theirs; None: the default one."""
    import jax

    data = _data(array)
    placed = jax.device_put(data, sharding.with_memory_kind(memory_kind))
    return placed if data is array else jax.random.wrap_key_data(placed, dtype=array.dtype)


def _alive(snapshot: _Snapshot) -> "list[int]":
    """The replicas whose arrays can all be read. Raises RuntimeError if there are none."""
    count = max([len(one.parts) for one in snapshot.arrays()], default=1)
    alive = [replica for replica in range(count) if _is_alive(snapshot, replica)]
    if not alive:
        raise RuntimeError("no replica of the snapshot is left")
    return alive


def _is_alive(snapshot: _Snapshot, replica: int) -> bool:
    import jax

    try:
        read = [one.parts[replica][...] for one in snapshot.arrays()]
        jax.block_until_ready(read)  # type: ignore[no-untyped-call]
    except RuntimeError:  # errors of JAX are such
        return False
    return True
