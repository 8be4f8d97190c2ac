"""Loads the parameters alone, as bfloat16, from a training checkpoint: python serve.py CHECKPOINT.

The checkpoint may hold the state of the optimizer, too; nothing of it is read.
"""

import sys

import cairn


def main(path: str) -> None:
    checkpoint = cairn.open(path)
    params = cairn.load(checkpoint, include="*params*", dtype="bfloat16")
    total = sum(tensor.nbytes for tensor in checkpoint.tensors.values())

    def nbytes(tree) -> int:
        if isinstance(tree, dict | list | tuple):
            return sum(map(nbytes, tree.values() if isinstance(tree, dict) else tree))
        return tree.nbytes

    print(f"{nbytes(params)} bytes in memory of {total} in the checkpoint")


if __name__ == "__main__":
    main(sys.argv[1])
