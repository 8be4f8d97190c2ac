"""Trees for tests, and comparisons that look at types and bits."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np


def mixed_tree():
    """Leaves of all kinds that Orbax stores."""
    return {
        "numpy": np.arange(6.0).reshape(2, 3),
        "half": np.arange(4).astype(ml_dtypes.bfloat16),
        "jax": [jnp.arange(8, dtype=jnp.int32), jnp.ones((2, 2), jnp.bfloat16)],
        "int": 3,
        "float": 2.5,
        "bool": True,
        "text": "word",
        "pair": (1, np.float32(0.5)),
        "none": None,
        "empty": {},
        "key": jax.random.key(7),
    }


def arrays_tree():
    """Leaves that StandardSave takes."""
    return {"w": jnp.arange(12.0).reshape(3, 4), "b": np.arange(3, dtype=np.int16), "step": 5}


def described(tree):
    """Types, dtypes, shapes, bits and shardings of the leaves, for comparisons."""

    def one(leaf):
        kind = "jax" if isinstance(leaf, jax.Array) else type(leaf).__name__
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return (kind, str(leaf.dtype), np.asarray(jax.random.key_data(leaf)).tobytes())
        if isinstance(leaf, jax.Array | np.ndarray):
            values = np.asarray(leaf)
            place = str(leaf.sharding) if kind == "jax" else ""
            return (kind, values.dtype.name, values.shape, values.tobytes(), place)
        return (kind, leaf)

    is_leaf = lambda node: node is None or node == {} or node == []  # noqa: E731
    return jax.tree.map(
        one, tree, is_leaf=lambda node: not hasattr(node, "shape") and is_leaf(node)
    )


def plain(tree):
    """The structure, types, dtypes and values of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    return str(structure), [
        (type(leaf), getattr(leaf, "dtype", None), np.asarray(leaf).tolist()) for leaf in leaves
    ]


def outcome(work):
    """The result, or the class of the error. Those of JAX and Orbax may be subclasses."""
    try:
        return plain(work())
    except Exception as error:
        kinds = (KeyError, FileNotFoundError, ValueError, TypeError)
        return next((kind for kind in kinds if isinstance(error, kind)), error)
