"""Records events for jax.monitoring.

Nothing is recorded in a program that has not imported JAX: nobody can listen there.
"""

import sys
from typing import Any


def listener() -> Any:
    """The module jax.monitoring, or None."""
    jax = sys.modules.get("jax")
    return getattr(jax, "monitoring", None)


def event(name: str, **attributes: Any) -> None:
    """Records that something has happened."""
    if (to := listener()) is not None:
        to.record_event(name, **attributes)


def duration(name: str, seconds: float, **attributes: Any) -> None:
    """Records how long something took."""
    if (to := listener()) is not None:
        to.record_event_duration_secs(name, seconds, **attributes)


def scalar(name: str, value: float, **attributes: Any) -> None:
    """Records a number."""
    record = getattr(listener(), "record_scalar", None)  # which older versions of JAX lack
    if record is not None:
        record(name, value, **attributes)
