"""Stored shardings."""

import dataclasses
import json
from typing import Any

from cairn._jax import axis_types


class ShardingMetadata:
    """A sharding as it is stored; to_jax_sharding() needs its devices."""

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> "ShardingMetadata":
        """Returns the stored form of the sharding."""
        raise NotImplementedError

    @classmethod
    def from_deserialized_dict(cls, deserialized_dict: "dict[str, Any]") -> "ShardingMetadata":
        """A stored sharding of its object of JSON."""
        raise NotImplementedError

    def to_jax_sharding(self) -> Any:
        """The sharding. Raises ValueError if its devices are not here."""
        raise NotImplementedError

    def to_serialized_string(self) -> str:
        """The text of JSON that is stored."""
        raise NotImplementedError


@dataclasses.dataclass
class DeviceMetadata:
    """A device, by its number."""

    id: int


@dataclasses.dataclass
class DeviceMetadataMesh:
    """Nested lists of devices."""

    mesh: Any


@dataclasses.dataclass(eq=False, repr=False)
class NamedShardingMetadata(ShardingMetadata):
    """A stored NamedSharding. shape: of its mesh, an array of NumPy."""

    shape: Any
    axis_names: "list[str]"
    partition_spec: "tuple[Any, ...]"
    axis_types: "tuple[Any, ...] | None" = None
    device_mesh: "DeviceMetadataMesh | None" = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedShardingMetadata) and self._parts() == other._parts()

    def __repr__(self) -> str:
        return (
            f"NamedShardingMetadata(shape={self.shape}, axis_names={self.axis_names},"
            f" axis_types={self.axis_types}, partition_spec={self.partition_spec})"
            f" device_mesh={self.device_mesh}"
        )

    def _parts(self) -> "tuple[Any, ...]":
        shape = [int(extent) for extent in self.shape]
        return shape, self.axis_names, self.partition_spec, self.axis_types, self.device_mesh

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> "NamedShardingMetadata":
        """Returns the stored form of the sharding."""
        import numpy as np

        mesh = jax_sharding.mesh
        return cls(
            shape=np.array(mesh.devices.shape),
            axis_names=list(mesh.axis_names),
            partition_spec=tuple(jax_sharding.spec),
            axis_types=axis_types(mesh),
            device_mesh=DeviceMetadataMesh(_ids(mesh.devices.tolist())),
        )

    @classmethod
    def from_deserialized_dict(cls, deserialized_dict: "dict[str, Any]") -> "NamedShardingMetadata":
        """A stored sharding of its object of JSON. ValueError if a member is missing."""
        import jax
        import numpy as np

        try:
            shape, names, spec = (
                deserialized_dict[key] for key in ("shape", "axis_names", "partition_spec")
            )
        except KeyError as error:
            raise ValueError(f"{deserialized_dict} has no {error.args[0]!r}") from None
        types = deserialized_dict.get("axis_types")
        mesh = deserialized_dict.get("device_mesh")
        kinds = getattr(jax.sharding, "AxisType", None)
        return cls(
            shape=np.array(shape),
            axis_names=list(names),
            partition_spec=tuple(spec),
            axis_types=tuple(getattr(kinds, name.split(".")[-1]) for name in types)
            if types and kinds is not None
            else None,
            device_mesh=DeviceMetadataMesh(_devices(mesh["mesh"])) if mesh else None,
        )

    def to_serialized_string(self) -> str:
        """The text of JSON that is stored."""
        stored: dict[str, Any] = {
            "sharding_type": "NamedSharding",
            "shape": [int(extent) for extent in self.shape],
            "axis_names": self.axis_names,
        }
        if self.axis_types is not None:
            stored["axis_types"] = [str(kind) for kind in self.axis_types]
        stored["partition_spec"] = self.partition_spec
        if self.device_mesh is not None:
            stored["device_mesh"] = dataclasses.asdict(self.device_mesh)
        return json.dumps(stored)

    def to_jax_sharding(self) -> Any:
        """The sharding. Raises ValueError if one of its devices is not here."""
        import jax
        import numpy as np

        devices = list(jax.devices())
        if self.device_mesh is not None:
            known = {device.id: device for device in devices}
            wanted = [device.id for device in _flat(self.device_mesh.mesh)]
            missing = [i for i in wanted if i not in known]
            if missing:
                raise ValueError(f"there are no devices with the ids {missing}")
            devices = [known[i] for i in wanted]
        grid = np.array(devices, dtype=object).reshape(np.asarray(self.shape))
        types = {} if self.axis_types is None else {"axis_types": self.axis_types}
        mesh = jax.sharding.Mesh(grid, tuple(self.axis_names), **types)
        axes = [tuple(a) if isinstance(a, list) else a for a in self.partition_spec]
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))  # type: ignore[no-untyped-call]


@dataclasses.dataclass(repr=False)
class SingleDeviceShardingMetadata(ShardingMetadata):
    """A stored SingleDeviceSharding."""

    device_str: str

    def __repr__(self) -> str:
        return f"SingleDeviceShardingMetadata(device_str={self.device_str})"

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> "SingleDeviceShardingMetadata":
        """Returns the stored form of the sharding."""
        (device,) = jax_sharding.device_set
        return cls(str(device))

    @classmethod
    def from_deserialized_dict(
        cls, deserialized_dict: "dict[str, Any]"
    ) -> "SingleDeviceShardingMetadata":
        """A stored sharding of its object of JSON. ValueError if it has no device."""
        if deserialized_dict.get("device_str") is None:
            raise ValueError(f"{deserialized_dict} has no 'device_str'")
        return cls(deserialized_dict["device_str"])

    def to_serialized_string(self) -> str:
        """The text of JSON that is stored."""
        return json.dumps({"sharding_type": "SingleDeviceSharding", "device_str": self.device_str})

    def to_jax_sharding(self) -> Any:
        """The sharding. Raises ValueError if the device is not here."""
        import jax

        # JAX before 0.10 names the devices of the CPU TFRT_CPU_0.
        wanted = self.device_str.replace("TFRT_CPU_", "cpu:")
        for device in jax.local_devices():
            if str(device).replace("TFRT_CPU_", "cpu:") == wanted:
                return jax.sharding.SingleDeviceSharding(device)
        raise ValueError(f"Device {wanted} was not found in jax.local_devices().")


def _flat(mesh: Any) -> "list[DeviceMetadata]":
    if isinstance(mesh, list | tuple):
        return [device for part in mesh for device in _flat(part)]
    return [mesh if isinstance(mesh, DeviceMetadata) else DeviceMetadata(int(mesh["id"]))]


def _ids(devices: Any) -> Any:
    if isinstance(devices, list):
        return [_ids(part) for part in devices]
    return DeviceMetadata(devices.id)


def _devices(mesh: Any) -> Any:
    if isinstance(mesh, list | tuple):
        return [_devices(part) for part in mesh]
    return DeviceMetadata(int(mesh["id"]))


def from_serialized_string(text: str) -> ShardingMetadata:
    """A stored sharding of its JSON text. Raises NotImplementedError for an unknown type."""
    stored = json.loads(text)
    kind = stored.get("sharding_type")
    if kind == "SingleDeviceSharding":
        return SingleDeviceShardingMetadata.from_deserialized_dict(stored)
    if kind != "NamedSharding":
        raise NotImplementedError(f"Conversion for {kind} has not been implemented.")
    return NamedShardingMetadata.from_deserialized_dict(stored)


def concrete_sharding(sharding: Any) -> Any:
    """A sharding of JAX for one, for a stored one, or for a jax.experimental.layout.Format."""
    if isinstance(sharding, ShardingMetadata):
        return sharding.to_jax_sharding()
    return sharding.sharding if is_format(sharding) else sharding


def is_format(sharding: Any) -> bool:
    """Whether it is a Format of JAX: a sharding and the layout in each device's memory."""
    return hasattr(sharding, "layout") and hasattr(sharding, "sharding")


def has_layout(sharding: Any) -> bool:
    """Whether it is a Format of JAX that says what the layout is."""
    return is_format(sharding) and sharding.layout is not None
