"""Puts cairn.orbax in the place of orbax.checkpoint for a whole program."""

import sys

from cairn.orbax._impl.base import aliases, flags

_THEIRS = "orbax.checkpoint"
_OURS = "cairn.orbax"


def use_as_orbax() -> None:
    """Makes `import orbax.checkpoint` give cairn.orbax in the rest of this program.

    The same is true of the modules in it, and in libraries that the program imports later. Call it
    before anything imports orbax.checkpoint. A second call changes nothing. Other packages of
    Orbax, such as orbax.export, stay. Processes that the program starts call it themselves. If absl
    is installed, Orbax's flags are defined, too.

    Raises RuntimeError if the real orbax.checkpoint is already imported: its classes are in use.
    """
    loaded = sys.modules.get(_THEIRS)
    if loaded is not None and loaded.__name__ != _OURS:
        raise RuntimeError(
            "orbax.checkpoint is already imported: call cairn.orbax.use_as_orbax() before that, or "
            "run the program with `python -m cairn.orbax`"
        )
    aliases.add(_THEIRS, _OURS)
    if not any(isinstance(finder, aliases.EmptyPackageFinder) for finder in sys.meta_path):
        sys.meta_path.append(aliases.EmptyPackageFinder("orbax"))  # if Orbax is not installed
    flags.define()
