"""Shardings and layouts of leaves, under the names of Orbax's private modules."""

import logging
from typing import Any

from cairn.orbax._impl.leaves.shardings import (
    NamedShardingMetadata,
    ShardingMetadata,
    SingleDeviceShardingMetadata,
    from_serialized_string,
    has_layout,
)


def get_device_local_layout(arr: Any) -> Any:
    """The layout of an array in the memory of its devices."""
    return arr.format.layout


def get_sharding_or_format(value: Any, *, support_format: bool = False) -> Any:
    """Where a leaf lies, with its layout if `support_format`; None if it does not say."""
    if support_format and has_layout(getattr(value, "format", None)):
        return value.format
    return getattr(value, "sharding", None)


def from_jax_sharding(jax_sharding: Any) -> "ShardingMetadata | None":
    """Returns the stored form of a sharding; None, with a warning, for an unsupported type."""
    import jax

    kinds: dict[type, type[ShardingMetadata]] = {
        jax.sharding.NamedSharding: NamedShardingMetadata,
        jax.sharding.SingleDeviceSharding: SingleDeviceShardingMetadata,
    }
    for kind, stored in kinds.items():
        if isinstance(jax_sharding, kind):
            return stored.from_jax_sharding(jax_sharding)
    logging.getLogger("absl").warning("no sharding is stored of %s", type(jax_sharding))
    return None


def get_sharding_or_none(serialized_string: Any) -> Any:
    """The sharding of JAX of an array with its stored text; None if its devices are not here."""
    try:
        return from_serialized_string(serialized_string.item()).to_jax_sharding()
    except ValueError as error:
        logging.getLogger("absl").error(error)
        return None
