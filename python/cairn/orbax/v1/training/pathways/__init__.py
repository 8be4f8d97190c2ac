"""Snapshots in the memory of hosts, for runs with Pathways."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.snapshotter import Snapshotter

__getattr__ = _hints(__name__)

__all__ = ["Snapshotter"]
