"""Random pytrees over Orbax's whole option matrix: names, paths, kinds, types, shapes and bytes of every leaf."""

import os

import pytest

import cairn_cli
import leaves
import random_trees

FIXED = random_trees.Plan.matrix(first_seed=1000, rounds=4)
FRESH = random_trees.Plan.matrix(first_seed=int(os.environ["CAIRN_SEED"]), rounds=1)


@pytest.mark.parametrize("plan", FIXED + FRESH, ids=str)
def test_random_tree(plan, scratch):
    tree = random_trees.random_tree(plan)
    wanted = leaves.leaves(tree)
    chosen = random_trees.save(scratch / "ckpt", tree, plan)
    cairn_cli.check(scratch / "ckpt", wanted, **chosen)
    cairn_cli.check_npz(scratch / "ckpt", wanted, scratch / "all.npz", **chosen)
