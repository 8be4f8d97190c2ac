"""Writes the JSON texts of this folder: one value as Python's json and as TensorStore's json driver spell it."""
import json
import pathlib

import tensorstore as ts

HERE = pathlib.Path(__file__).parent
VALUE = {
    "floats": [0.0, -0.0, 1.0, 0.1, 1 / 3, 100.0, 123456.5, 1e14, 1e15, 9999999999999998.0, 1e16, 1e22, 1e300, 0.0001, 0.00012345, 1e-05,
               1.5e-07, 5e-324, 1.7976931348623157e308],
    "ints": [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1],
    "text": ["", "a", "h\u00e9llo", "\u2028", "\U0001f600", "\"\\/", "\b\f\n\r\t", "\x00\x1f\x7f\x80", "\ufffd"],
    "\u00e9 key": {"": None, "nested": {"a": [], "b": {}, "c": [[], [[]]]}},
    "yes": True,
    "no": False,
}
PYTHON_ONLY = {"special": [float("nan"), float("inf"), float("-inf")], "big": [2**64, -(2**63) - 1, 10**40]}


def main() -> None:
    (HERE / "python.json").write_text(json.dumps({**VALUE, **PYTHON_ONLY}), encoding="ascii")
    store = ts.open({"driver": "json", "kvstore": {"driver": "file", "path": str(HERE / "tensorstore.json")}}, open=True).result()
    store.write(VALUE).result()


if __name__ == "__main__":
    main()
