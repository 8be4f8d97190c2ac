"""A fault proxy that draws its faults: any request may get any of them."""

import re
import threading

import fault_proxy
from fault_proxy import Fault

ANYWHERE = ["503", "429", "500", "drop", "lost", "reset", "cut"]
# Faults that only some requests can have.
ONLY = {
    "error200": r"^POST .*(uploadId|delete)",  # the store answers before it is done
    "range": r"^GET ",
    "stall": r"^GET ",
}
# Static keys are not tried again, so these end an operation.
FINAL = {"s3": "expired", "gs": "unauthorized"}


class RandomFaults(fault_proxy.FaultProxy):
    """Requests fail with a probability, until the store is gone for good."""

    def __init__(self, store, rng):
        super().__init__(store.port)
        self.rng = rng
        self.final = FINAL[store.url.split(":")[0]]
        self.probability = 0.0
        self.gone_after = None  # requests
        self.counts = {}
        self._lock = threading.Lock()

    def calm(self):
        self.set(0.0, None)

    def set(self, probability, gone_after):
        with self._lock:
            self.probability, self.gone_after = probability, gone_after

    def fault_of(self, head):
        with self._lock:
            kind = self._draw(f"{head.method} {head.target}")
            if kind is None:
                return None
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return Fault(kind, stall_seconds=3)

    def _draw(self, request):
        if self.gone_after is not None:
            self.gone_after -= 1
            if self.gone_after < 0:
                return "drop"
        if self.rng.random() >= self.probability:
            return None
        drawn = self.rng.random()
        if drawn < 0.01:
            return self.final
        if drawn < 0.02 and re.search(ONLY["stall"], request):
            return "stall"  # takes a second
        able = [kind for kind in ("error200", "range") if re.search(ONLY[kind], request)]
        return str(self.rng.choice([*ANYWHERE, *able]))
