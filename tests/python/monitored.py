"""Collects what a package reports: the events of jax.monitoring, and warnings."""

import collections
import contextlib
import logging
import re
import warnings

import jax


class Records(logging.Handler):
    def __init__(self, said):
        super().__init__(logging.WARNING)
        self.said = said

    def emit(self, record):
        self.said.append(("warning", record.getMessage()))


@contextlib.contextmanager
def heard(root):
    """Everything that is reported, with the path of the test left out."""
    said, found = [], []

    def watch(kind):
        def listen(name, *value, **more):
            if name.startswith(("/jax/orbax/", "/jax/checkpoint/")):
                said.append((kind, name, tuple(sorted(more.items()))))

        return listen

    event, duration, scalar = watch("event"), watch("duration"), watch("scalar")
    jax.monitoring.register_event_listener(event)
    jax.monitoring.register_event_duration_secs_listener(duration)
    jax.monitoring.register_scalar_listener(scalar)
    loggers = [logging.getLogger(name) for name in ("absl", "cairn.orbax")]
    levels, handler = [one.level for one in loggers], Records(said)
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield found
        texts = [str(one.message) for one in warned]
        said += [("warnings.warn", text) for text in texts if "harding info" in text]
        found += collections.Counter(map(without_paths, said)).items()
    finally:
        jax.monitoring.unregister_event_listener(event)
        jax.monitoring.unregister_event_duration_listener(duration)
        jax.monitoring.unregister_scalar_listener(scalar)
        for one, level in zip(loggers, levels, strict=True):
            one.removeHandler(handler)
            one.setLevel(level)


def without_paths(report):
    return tuple(
        re.sub(r"/\S*/(theirs|ours)", "/PATH", part) if isinstance(part, str) else part
        for part in report
    )
