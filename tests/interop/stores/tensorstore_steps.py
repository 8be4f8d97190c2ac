"""Uses a key-value store of the real TensorStore as a list of steps says: one argument, a spec, and
steps on standard input. A process of its own, because TensorStore reads the environment once."""

import json
import sys

import tensorstore as ts

TIMEOUT = 40  # seconds


def answer(store, step):
    ((name, given),) = step.items()
    if name == "write":
        return bool(store.write(given[0], given[1].encode()).result(TIMEOUT))
    if name == "read":
        found = store.read(given).result(TIMEOUT)
        return found.value.decode() if found.state == "value" else None
    if name == "remove":
        return bool(store.write(given, None).result(TIMEOUT))
    return sorted(key.decode() for key in store.list().result(TIMEOUT))


def main():
    store = ts.KvStore.open(json.loads(sys.argv[1])).result(TIMEOUT)
    print(json.dumps([answer(store, step) for step in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
