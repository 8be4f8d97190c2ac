"""The flags of absl that Orbax defines. absl is optional: without it, all flags are off."""

import sys

_PROCESS_ID = "experimental_orbax_use_distributed_process_id"
_HELP = {
    _PROCESS_ID: "Number the processes as jax.distributed does, not as jax.process_index() does.",
    "experimental_orbax_use_distributed_barrier": (
        "No effect: the processes always wait for each other through jax.distributed."
    ),
}


def define() -> None:
    """Defines the flags with Orbax's names and defaults, if absl is installed.

    Only a program in which cairn.orbax replaces Orbax may call it: Orbax fails to import when its
    flags are defined already.
    """
    try:
        from absl import flags
    except ImportError:
        return
    for name, text in _HELP.items():
        if name not in flags.FLAGS:
            flags.DEFINE_bool(name, False, text)


def use_distributed_process_id() -> bool:
    """Whether the flag is on. It is off while it is not defined or not parsed, as in Orbax."""
    flags = sys.modules.get("absl.flags")
    if flags is None:
        return False
    try:
        return bool(getattr(flags.FLAGS, _PROCESS_ID))
    except (AttributeError, flags.UnparsedFlagAccessError):
        return False
