"""Python trees as JSON, the way tests/interop/tools/tree_json.h reads and writes them."""

import json
import struct

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint._src.metadata import sharding as sharding_metadata

import leaves


def sharding_text(sharding):
    return sharding_metadata.from_jax_sharding(sharding).to_serialized_string()


def array_json(array):
    array = np.asarray(array)
    if array.dtype.kind in "USO":  # the elements of an object array have no bytes
        size = array.dtype.itemsize
        return {"element_size": size, "shape": list(array.shape), "hex": "00" * array.size * size if array.dtype.hasobject else array.tobytes().hex()}
    return {"dtype": array.dtype.name, "shape": list(array.shape), "hex": leaves.raw_bytes(array).hex()}


def sharded_json(array):
    key, sharding = "", array.sharding
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        key = str(jax.random.key_impl(array))
        array = jax.random.key_data(array)
        sharding = array.sharding
    return array_json(array) | placement(array, sharding) | {"key": key, "shards": len(array.addressable_shards)}


def placement(array, sharding):
    """The sharding as it is stored, or the parts of one that has no stored form."""
    if sharding_metadata.from_jax_sharding(sharding) is not None:
        return {"sharding": sharding_text(sharding)}
    bounds = [(shard.device.id, [part.indices(extent)[:2] for part, extent in zip(shard.index, array.shape)]) for shard in array.addressable_shards]
    return {"parts": [[device, [low for low, _ in box], [high - low for low, high in box]] for device, box in bounds]}


def zarr_json(zarr):
    """What Orbax says of an array's metadata file."""
    out = {"zarr_format": zarr.zarr_format, "shape": list(zarr.shape), "dtype": zarr.dtype, "chunk_shape": list(zarr.chunk_shape)}
    if zarr.compression is not None:
        out["compression"] = [zarr.compression.algorithm, zarr.compression.level]
    if zarr.zarr_format == 2:
        return out | {"order": zarr.order, "dimension_separator": zarr.dimension_separator}
    return out | ({"inner_chunk_shape": list(zarr.inner_chunk_shape)} if zarr.inner_chunk_shape is not None else {})


def type_name(restore_type):
    return {int: "int", float: "float", bool: "bool", str: "str", complex: "complex", np.ndarray: "np.ndarray", jax.Array: "jax.Array"}.get(restore_type, restore_type)


def args_json(args):
    out = {"restore_type": type_name(args.restore_type), "dtype": args.dtype and np.dtype(args.dtype).name}
    if not isinstance(args, ocp.ArrayRestoreArgs):
        return {"restore_args": out}
    out |= {"global_shape": args.global_shape and list(args.global_shape), "shape": args.shape and list(args.shape), "strict": args.strict}
    if args.global_shape == ():
        out["global_shape"] = []
    if isinstance(args.sharding, sharding_metadata.ShardingMetadata):
        out["sharding"] = args.sharding.to_serialized_string()
    elif args.sharding is not None:
        out["sharding"] = sharding_text(args.sharding)
    if args.mesh is not None:
        out["mesh"] = sharding_text(jax.sharding.NamedSharding(args.mesh, jax.sharding.PartitionSpec()))
    if args.mesh_axes is not None:
        out["mesh_axes"] = [[] if axes is None else [axes] if isinstance(axes, str) else list(axes) for axes in args.mesh_axes]
    if not isinstance(args, ocp.type_handlers.SingleReplicaArrayRestoreArgs):
        return {"array_restore_args": out}
    if args.single_replica_sharding is not None:
        out["single_replica_sharding"] = sharding_text(args.single_replica_sharding)
    return {"single_replica_restore_args": out}


def to_json(tree):
    """What the tool reads; also what it must return for this tree."""
    if tree is None:
        return {"empty": "None"}
    if tree is ...:
        return {"placeholder": True}
    if isinstance(tree, ocp.SaveArgs):
        return {"save_args": {"dtype": tree.dtype and np.dtype(tree.dtype).name, "chunk_byte_size": tree.chunk_byte_size, "shard_axes": list(tree.shard_axes)} | ({"aggregate": True} if tree.aggregate else {})}
    if isinstance(tree, ocp.RestoreArgs):
        return args_json(tree)
    if isinstance(tree, jax.ShapeDtypeStruct):
        return {"abstract": {"dtype": np.dtype(tree.dtype).name, "shape": list(tree.shape), "sharding": tree.sharding and sharding_text(tree.sharding)}}
    if isinstance(tree, np.generic):
        array = np.asarray(tree)
        return {"numpy": {"dtype": array.dtype.name, "hex": leaves.raw_bytes(array).hex()}}
    if isinstance(tree, bool):
        return {"bool": tree}
    if isinstance(tree, int):
        return {"int": tree}
    if isinstance(tree, float):
        return {"float": struct.pack("<d", tree).hex()}
    if isinstance(tree, complex):
        return {"complex": struct.pack("<dd", tree.real, tree.imag).hex()}
    if isinstance(tree, str):
        return {"str": tree}
    if isinstance(tree, bytes):
        return {"bytes": tree.hex()}
    if isinstance(tree, np.ndarray):
        return {"array": array_json(tree)}
    if isinstance(tree, jax.Array):
        return {"sharded": sharded_json(tree)}
    if isinstance(tree, dict):
        return {"dict": [[str(key), to_json(child)] for key, child in tree.items()]}
    if isinstance(tree, list):
        return {"list": [to_json(child) for child in tree]}
    if hasattr(tree, "_fields"):
        return {"named": {"module": type(tree).__module__, "name": type(tree).__qualname__, "fields": [[name, to_json(getattr(tree, name))] for name in tree._fields]}}
    if isinstance(tree, tuple):
        return {"tuple": [to_json(child) for child in tree]}
    raise TypeError(type(tree))


EMPTY = {'{"dict": []}': "Dict", '{"list": []}': "List", '{"tuple": []}': "Tuple"}


def normal(node):
    """One spelling for what is the same: members sorted, containers without children as empty nodes."""
    if json.dumps(node) in EMPTY:
        return {"empty": EMPTY[json.dumps(node)]}
    [(kind, value)] = node.items()
    if kind == "dict":
        return {"dict": sorted([key, normal(child)] for key, child in value)}
    if kind in ("list", "tuple"):
        return {kind: [normal(child) for child in value]}
    if kind == "named":
        if not value["fields"]:
            return {"empty": "NamedTuple"}
        return {"named": value | {"fields": [[key, normal(child)] for key, child in value["fields"]]}}
    return node
