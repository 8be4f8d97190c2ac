"""Which error of the real package is which of Cairn's: words of both messages, and Cairn's code."""

import collections
import re

ENOUGH = 20  # errors, of which a share says something

# Orbax's message -> (the code, words of Cairn's message), or several of them. The words may refer to groups of the message.
OF_TREES = {
    r"^'.*'$|^list index out of range$|Key \w+Key\(.* not found in": [("not_found", "which is not stored")],
    r"tree structures do not match|(Length|Type) mismatch at key path|truth value of an array": [("invalid_argument", "does not have the structure of the target")],
    r"No structure could be identified": [("not_found", "no structure could be identified")],
}
# Of one leaf. Where several leaves are at fault, each in its way, threads decide which one Orbax meets first.
OF_LEAVES = {
    r"_sharding\".* refers to non-existent object member": [("invalid_argument", "the sharding file has no sharding of this array")],
    r"is not compatible with the stored shape": [("invalid_argument", "was requested; strict = false truncates")],
    r"incompatible function arguments|Sharding of jax.Array cannot be None": [("invalid_argument", "the sharding of a jax.Array cannot be None")],
    r"implies that array axis": [("invalid_argument", "cannot split into")],
    r"Ranks do not match": [("invalid_argument", "ranks do not match")],
    r"cannot reshape array": [("invalid_argument", "which cannot be reshaped")],
    r"Restored result is not a scalar": [("invalid_argument", "is not a scalar")],
    r"chunk .* is missing|'fill_missing_data_reads': False": [("data_loss", "the chunk is missing")],
    r"Individual parameter subdirectory not found|^File not found: ": [
        ("not_found", "no array of this name is stored"), ("not_found", "there is no database"), ("not_found", "no structure could be identified")],
    r"^NOT_FOUND: .*/_strings\.json": [("not_found", "no string of this name is stored")],
    r"^NOT_FOUND: (?!chunk|.*_sharding\")|\"driver\":\"zarr": [("not_found", "no array of this name is stored"), ("not_found", "which is not stored")],
}

OF_TRANSFORMS = {
    r'^Transformation key "(.*)" not found in origin tree': [("invalid_argument", r"the checkpoint has no '\1', which a transform needs")],
    r"^(.*) not found in origin tree \(`use_fallback` requested\)": [("invalid_argument", r"the checkpoint has no '\1', which use_fallback needs")],
    r"`multi_value_fn_input_args` were not|^RestoreTransform with multi_value_fn needs": [("invalid_argument", "multi_value_fn needs multi_value_fn_input_args")],
    r"^(unknown group name '\w+'|.* at position \d+)$": [("invalid_argument", r"\1")],  # of Python's re
}
OF_SPECS = {
    r"^Bad string '(.*)' for Orbax/OCDBT process spec": [
        ("invalid_argument", r'"\1" is not a process folder'), ("invalid_argument", r'folder "\1": OCDBT process id')],
    r"^Invalid OCDBT process id: (.*)\. Must conform": [("invalid_argument", r'OCDBT process id "\1": expected letters and digits')],
    r"^target_byte_size=(-?\d+) must be >= (\d+)": [("invalid_argument", r"chunks of at most \1 bytes cannot hold elements of \2")],
    r"^global_shape=(\(.*\)) and write_shape=(\(.*\)) must have": [("invalid_argument", r"the shape \1 and the write shape \2 differ in rank")],
    r"^All shard_axes=.* less than rank=(\d+)": [("invalid_argument", r"is out of range for an array of rank \1")],
    r"OCDBT target_data_file_size must be >= 0.* got (-\d+)": [("invalid_argument", r"the OCDBT data file size is \1 bytes; it must not be negative")],
    r"commit mode requires temporary metadata": [("invalid_argument", "to commit temporary OCDBT metadata, give its location in temporary_metadata")],
    r"merge mode does not support temporary metadata": [("invalid_argument", "databases cannot be merged into temporary OCDBT metadata")],
    r"^Checkpoint path should be absolute. Got (.*)$": [("invalid_argument", r'must be absolute (or gs://), not "\1"')],
    r"^Invalid IPv6 URL$": [("invalid_argument", "no bucket in it; expected gs://bucket/path")],
    r"^Unsupported scheme for GCS": [("invalid_argument", "expected gs://bucket/path")],
    r'^Error parsing object member "limit": .* received: (-?\d+)$': [("invalid_argument", r"concurrency: \1 threads; expected at least 1")],
}


def gists_of(table, error):
    found = [(re.search(real, str(error), re.DOTALL), gists) for real, gists in table.items()]
    return [(code, match.expand(words)) for match, gists in found if match for code, words in gists]


def is_one(ours, gists):
    return any(ours["code"] == code and words in ours["error"] for code, words in gists)


# The codes of the classes of Orbax's errors. It wraps some failures in a bare Exception: these may have any.
CODES = {FileNotFoundError: {"not_found"}, NotImplementedError: {"unimplemented"}, KeyError: {"not_found", "invalid_argument"},
         TypeError: {"invalid_argument"}, ValueError: {"invalid_argument", "not_found", "data_loss", "unimplemented"}}


class Tally:
    """How the errors of the fixed seeds compared: most must be in the tables, so that these cannot rot."""

    def __init__(self):
        self.counts = collections.Counter()
        self.unknown = []
        self.fixed = False

    def count(self, how, error):
        if self.fixed:
            self.counts[how] += 1
            if how == "unknown":
                self.unknown.append((type(error), str(error)[:300]))

    def require_most(self):
        total = sum(self.counts.values())
        if total < ENOUGH:
            return
        assert self.counts["unknown"] <= total / 20, ("the tables of gists.py do not know", self.unknown)
        assert self.counts["other leaf"] <= total / 5, self.counts


tally = Tally()


def check_known(table, error, ours):
    """Cairn fails for the reason that Orbax has; an error that the table does not have is a failure."""
    known = gists_of(table, error)
    assert known, ("gists.py does not know", type(error), str(error), ours)
    assert is_one(ours, known), (error, ours)


def check_error(error, ours):
    """`ours`: what a tool says of Cairn's failure. Only the codes of an error are compared that the tables do not have: a fresh seed may find a new one."""
    of_tree, of_leaf = gists_of(OF_TREES, error), gists_of(OF_LEAVES, error)
    if not of_tree and not of_leaf:
        codes = next((codes for kind, codes in CODES.items() if isinstance(error, kind)), None)
        assert codes is None or ours["code"] in codes, (error, ours)
        tally.count("unknown", error)
    elif is_one(ours, [*of_tree, *of_leaf]):
        tally.count("exact", error)
    else:
        any_leaf = [gist for gists in OF_LEAVES.values() for gist in gists] if of_leaf else []
        assert is_one(ours, any_leaf), (error, ours)
        tally.count("other leaf", error)
