"""The directories that Orbax writes: named parts (version 1 and before), or one tree (before)."""

import asyncio
import logging
from typing import Any

from cairn.orbax._impl.base import asyncs
from cairn.orbax._impl.paths.checkpoint_paths import (
    STEP_METADATA_FILE,
    TREE_METADATA_FILE,
)
from cairn.orbax._impl.stored.atomicity import Atomicity
from cairn.orbax._impl.stored.step_metadata import StepMetadata, read_step_metadata
from cairn.orbax._impl.v1.context import Context
from cairn.orbax._impl.v1.deletion_record import deleted_name
from cairn.orbax._impl.v1.errors import InvalidLayoutError
from cairn.orbax._impl.v1.handlers.registry import NoEntryError
from cairn.orbax._impl.v1.handlers.resolve import handler_for_load
from cairn.orbax._impl.v1.metadata_types import CheckpointMetadata
from cairn.orbax._impl.v1.names import INDICATOR_FILE, METRICS, RESERVED, STATE

_log = logging.getLogger("cairn.orbax")


class OrbaxLayout:
    """A checkpoint of Orbax. Raises InvalidLayoutError if the path is something else."""

    def __init__(self, context: Context, path: Any) -> None:
        self._registry = context.checkpointables.registry
        self.path = path
        self.is_v1 = (path / INDICATOR_FILE).exists()
        deleted_name(path, ())
        self._check()

    def _check(self) -> None:
        path = self.path
        if not path.exists():
            raise InvalidLayoutError(f"{path} does not exist")
        if not path.is_dir():
            raise InvalidLayoutError(f"{path} is not a directory")
        if Atomicity().at(path).is_left_over(path):
            raise InvalidLayoutError(f"{path}: the save has not been finished")
        has_metadata = (path / STEP_METADATA_FILE).exists()
        if self.is_v1:
            if not has_metadata:
                raise InvalidLayoutError(f"{path} has no {STEP_METADATA_FILE}")
            return
        if (path.parent / STEP_METADATA_FILE).exists():
            raise InvalidLayoutError(
                f"{path} is a part of the checkpoint {path.parent}; give that path"
            )
        if not has_metadata and not _is_tree(path):
            below = [one.name for one in path.iterdir() if (one / STEP_METADATA_FILE).exists()]
            if below:
                raise InvalidLayoutError(
                    f"{path} is not a checkpoint, but has some: {sorted(below)}; give the path of "
                    "one, or use training.Checkpointer"
                )

    # ---- parts ----

    def _names(self, wanted: Any = None) -> "list[str]":
        deleted = deleted_name(self.path, wanted)
        names = [one.name for one in self.path.iterdir() if one.is_dir()]
        return sorted(name for name in names if name != deleted)

    def _stored(self) -> StepMetadata:
        deleted_name(self.path, ())
        return read_step_metadata(self.path)

    def _is_flat(self) -> bool:
        """Whether the checkpoint is one tree without a name."""
        handlers = self._stored().item_handlers
        return not self.is_v1 and (isinstance(handlers, str) or _is_tree(self.path))

    def _handler(self, name: "str | None", target: Any, stored: StepMetadata) -> Any:
        handlers = stored.item_handlers
        if name is None:
            saved_by = handlers if isinstance(handlers, str) else None
            return handler_for_load(self._registry, self.path.name, target, saved_by)
        saved_by = handlers.get(name) if isinstance(handlers, dict) else None
        return handler_for_load(self._registry, name, target, saved_by)

    def find_tree(self) -> "str | None":
        """The name of the tree to load: "state", else the first one; None for a flat checkpoint."""
        names = [name for name in self._names() if name not in RESERVED]
        for name in sorted(names, key=lambda name: (name != STATE, name)):
            if _is_tree(self.path / name):
                return name
        if not self.is_v1 and _is_tree(self.path):
            return None
        raise InvalidLayoutError(f"{self.path}: there is no tree; it has {names}")

    def check_tree(self, name: "str | None") -> None:
        """Raises InvalidLayoutError if there is no tree of this name (None: of the flat kind)."""
        if name is not None:
            deleted_name(self.path, (name,))
        if name is None and self.is_v1:
            raise InvalidLayoutError(
                f"{self.path}: checkpointable_name=None is for checkpoints of older versions; "
                "leave it out"
            )
        if _is_tree(self.path if name is None else self.path / name):
            return
        trees = [other for other in self._names() if _is_tree(self.path / other)]
        hint = f"it has the trees {trees}"
        if not self.is_v1 and _is_tree(self.path):
            hint = "it is one tree without a name: give checkpointable_name=None"
        raise InvalidLayoutError(f"{self.path}: there is no tree {name!r}; {hint}")

    # ---- loads ----

    def load(self, name: "str | None", target: Any) -> Any:
        """The tree of a name; None: the whole checkpoint is one."""
        stored = self._stored()
        if name is None and isinstance(stored.item_handlers, dict):
            raise InvalidLayoutError(
                f"{self.path} has named parts {list(stored.item_handlers)}: give "
                "checkpointable_name, or use load_checkpointables"
            )
        handler = self._handler(name, target, stored)
        directory = self.path if name is None else self.path / name
        return asyncs.run(_load_one(handler, directory, target))

    def load_checkpointables(self, targets: "dict[str, Any] | None") -> "dict[str, Any]":
        """The parts that the targets name; all without targets.

        Raises KeyError for a name that is not stored.
        """
        self._check_named()
        names = self._names(targets or None)
        if not targets:
            targets = {name: None for name in names if name not in RESERVED}
        missing = [name for name in targets if name not in names]
        if missing:
            raise KeyError(
                f"{self.path}: the checkpointables {missing} were not found; there are {names}"
            )
        stored = self._stored()
        handlers = {name: self._handler(name, targets[name], stored) for name in targets}
        return dict(asyncs.run(_load_all(self.path, targets, handlers)))

    def _check_named(self) -> None:
        if self._is_flat():
            raise InvalidLayoutError(
                f"{self.path} is one tree without a name: use load() and metadata() instead"
            )

    # ---- metadata ----

    def metadata(self, name: "str | None") -> CheckpointMetadata[Any]:
        """The metadata of the tree of a name; None: the whole checkpoint is one."""
        stored = self._stored()
        if name is None:
            if not self._is_flat():
                raise InvalidLayoutError(
                    f"{self.path} has named parts: give checkpointable_name, or use "
                    "checkpointables_metadata"
                )
            handler = self._handler(None, None, stored)
            return self._described(asyncs.run(handler.metadata(self.path)))
        return self._described(self._part_metadata(name, stored))

    def checkpointables_metadata(self) -> CheckpointMetadata[Any]:
        """The metadata of all parts, but not of metrics. None where it cannot be read."""
        self._check_named()
        stored = self._stored()
        parts = {name: self._part_metadata(name, stored) for name in self._names()}
        parts.pop(METRICS, None)
        return self._described(parts)

    def _part_metadata(self, name: str, stored: StepMetadata) -> Any:
        try:
            return asyncs.run(self._handler(name, None, stored).metadata(self.path / name))
        except Exception as error:  # of a handler of the user's, of any kind
            _log.warning("%s: the metadata of %r cannot be read: %r", self.path, name, error)
            return None

    def _described(self, metadata: Any) -> CheckpointMetadata[Any]:
        stored = self._stored()
        return CheckpointMetadata(
            self.path,
            metadata=metadata,
            init_timestamp_nsecs=stored.init_timestamp_nsecs,
            commit_timestamp_nsecs=stored.commit_timestamp_nsecs,
            custom_metadata=stored.custom_metadata,
        )


def _is_tree(path: Any) -> bool:
    return bool((path / TREE_METADATA_FILE).exists())


async def _load_one(handler: Any, directory: Any, target: Any) -> Any:
    return await (await handler.load(directory, target))


async def _load_all(path: Any, targets: "dict[str, Any]", handlers: Any) -> "dict[str, Any]":
    started = await asyncio.gather(
        *(handlers[name].load(path / name, target) for name, target in targets.items())
    )
    loaded = {}
    for name, rest in zip(targets, started, strict=True):
        try:
            loaded[name] = await rest
        except Exception as error:  # whatever a handler raises, as in Orbax
            raise NoEntryError(
                f"{path}: checkpointable {name!r} could not be loaded by {type(handlers[name])}: "
                f"{error}"
            ) from error
    return loaded
