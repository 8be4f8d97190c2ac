"""Names of Orbax's emergency managers, so that programs can import them without using them.

These managers keep checkpoints on the local disks of each slice of accelerators, and restore a
slice that has failed from another one. cairn.orbax has no such managers: making one raises a
NotImplementedError. Options can be made, and the modules work that need no manager: devices that
have other numbers after a restart, steps on local disks, the choice of steps.
"""

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__, general="cairn.orbax.CheckpointManager saves to a directory of all")
