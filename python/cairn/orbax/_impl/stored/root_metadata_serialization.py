"""The metadata of a run as a dict and back, under the names of Orbax's private module."""

from cairn.orbax._impl.stored.step_metadata import deserialize_root_metadata as deserialize
from cairn.orbax._impl.stored.step_metadata import serialize_root_metadata as serialize

__all__ = ["deserialize", "serialize"]
