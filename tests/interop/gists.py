"""Which error of the real package is which of Cairn's: words of both messages, and Cairn's code."""

import re

# Orbax's message -> (the code, words of Cairn's message), or several of them.
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
    r"^NOT_FOUND: (?!chunk|.*_sharding\")|\"driver\":\"zarr": [("not_found", "no array of this name is stored"), ("not_found", "which is not stored")],
}


def gists_of(table, error):
    return [gist for real, gists in table.items() if re.search(real, str(error), re.DOTALL) for gist in gists]


def is_one(ours, gists):
    return any(ours["code"] == code and words in ours["error"] for code, words in gists)


def check_error(error, ours):
    """`ours`: what a tool says of Cairn's failure. Fails for an error of the real package that is not in the tables."""
    of_tree, of_leaf = gists_of(OF_TREES, error), gists_of(OF_LEAVES, error)
    assert of_tree or of_leaf, ("an error of the real package that gists.py does not know", type(error), str(error)[:1000], ours)
    any_leaf = [gist for gists in OF_LEAVES.values() for gist in gists] if of_leaf else []
    assert is_one(ours, [*of_tree, *of_leaf, *any_leaf]), (error, ours)
    return is_one(ours, [*of_tree, *of_leaf])
