"""Runs the real reader, `cairn.verify` and `cairn.load` on a mutation, and says where they disagree.

The three rules:
    refused   where the real reader refuses, `verify` does not say "good"
    restored  where the real reader returns the values of the whole checkpoint, `verify` does not say "damaged"
    loaded    where the real reader returns values, `cairn.load` returns the same ones, or an error
"""

import dataclasses
import re
import warnings

import jax
import numpy as np

import cairn


def value_of(leaf):
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return *value_of(jax.random.key_data(leaf)), str(jax.random.key_impl(leaf))
    if hasattr(leaf, "dtype"):
        array = np.asarray(leaf)
        array = array.astype(array.dtype.newbyteorder("="))
        return array.dtype.name, array.shape, [*array.flat] if array.dtype == object else array.tobytes()
    return type(leaf).__name__, repr(leaf)


def values_of(tree, path=()):
    """The leaves by path. Keys are compared as text, as Cairn has them."""
    if isinstance(tree, (dict, list, tuple)) and tree:
        members = tree.items() if isinstance(tree, dict) else enumerate(tree)
        text = lambda key: key.decode() if isinstance(key, bytes) else str(key)
        return {name: value for key, child in members for name, value in values_of(child, (*path, text(key))).items()}
    return {path: value_of(tree)}


def without_key_types(values):
    """As `cairn.load` returns them: it returns the numbers of typed PRNG keys."""
    return {path: value[:3] for path, value in values.items()}


def attempt(function, *args):
    """The values, or the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return values_of(function(*args))
    except Exception as e:
        return e


def short(result):
    return f"{type(result).__name__}: {str(result)[:160]}" if isinstance(result, BaseException) else "values"


@dataclasses.dataclass
class Outcome:
    real: list  # of each real reader: values or exception
    verdict: str  # "good", "damaged", "not_checked" or "refused"
    why: str
    loaded: object

    def problems(self, whole):
        restored = [result for result in self.real if not isinstance(result, Exception)]
        values = [without_key_types(result) for result in restored]
        if not values and self.verdict == "good":
            yield "refused", f"verify is good; {'; '.join(map(short, self.real))}"
        if whole in restored and self.verdict == "damaged":
            yield "restored", f"the real values are as before; verify: {self.why}"
        if values and not isinstance(self.loaded, Exception) and self.loaded not in values:
            yield "loaded", f"cairn.load returns other values than the real reader: {differing(self.loaded, values[0])}"


def differing(ours, theirs):
    return {key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}


def verdict(path):
    try:
        report = cairn.verify(path)
    except Exception as e:
        return "refused", short(e)
    return report.data["verdict"], str([f"{f['severity']}: {f['message']}" for f in report.findings])[:300]


def outcome(readers, path):
    said, why = verdict(path)
    return Outcome([attempt(reader, path) for reader in readers], said, why, attempt(cairn.load, path))


class Table:
    """The rows of one document: a checkpoint, the file in it that is mutated, and the real readers."""

    def __init__(self, checkpoint, file, readers, mutations):
        self.checkpoint, self.file, self.readers = checkpoint, file, readers
        self.rows = dict(mutations)
        self.whole = attempt(readers[0], checkpoint)
        assert not isinstance(self.whole, Exception), self.whole
        assert verdict(checkpoint)[0] == "good"

    def write(self, content):
        self.file.write_bytes(content)

    def contents(self):
        """What `write` restores after the rows."""
        return self.file.read_bytes()

    def run(self):
        """Triples of row, rule and text for everything that is wrong."""
        contents = self.contents()
        try:
            for name, mutated in self.rows.items():
                self.write(mutated)
                for rule, text in outcome(self.readers, self.checkpoint).problems(self.whole):
                    yield name, rule, text
        finally:
            self.write(contents)

    def check(self, exceptions, least):
        """Asserts that every problem is one of the exceptions: triples of a rule, an expression for rows, and the reason."""
        excepted = lambda name, rule: any(rule == known and re.search(row, name) for known, row, _ in exceptions)
        wrong = [f"{name} | {rule} | {text}" for name, rule, text in self.run() if not excepted(name, rule)]
        assert not wrong, f"{len(wrong)} of {len(self.rows)} rows\n" + "\n".join(wrong)
        assert len(self.rows) >= least
