"""Creates, writes and reads arrays with the real TensorStore as jobs on standard input say. A
process of its own, because TensorStore reads the environment once. A job: {"spec": ...,
"write": file, or "read": file}; files hold raw elements. The answer is the spec as TensorStore
writes it."""

import json
import pathlib
import sys

import ml_dtypes  # noqa: F401  registers the names of NumPy's missing types
import numpy as np
import tensorstore as ts

TIMEOUT = 40  # seconds


def answer(job):
    array = ts.open(job["spec"], create="write" in job, open=True).result(TIMEOUT)
    if "write" in job:
        elements = np.fromfile(job["write"], np.uint8).view(array.dtype.numpy_dtype)
        array.write(elements.reshape(array.shape)).result(TIMEOUT)
    else:
        pathlib.Path(job["read"]).write_bytes(array.read().result(TIMEOUT).tobytes())
    return array.spec(retain_context=True).to_json()


def main():
    print(json.dumps([answer(job) for job in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
