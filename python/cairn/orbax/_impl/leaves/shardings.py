"""Stored shardings."""

import dataclasses
import json
from typing import Any


class ShardingMetadata:
    """A sharding as it is stored; to_jax_sharding() needs its devices."""

    def to_jax_sharding(self) -> Any:
        """The sharding. Raises ValueError if its devices are not here."""
        raise NotImplementedError


@dataclasses.dataclass
class DeviceMetadata:
    """A device, by its number."""

    id: int


@dataclasses.dataclass
class DeviceMetadataMesh:
    """Nested lists of devices."""

    mesh: Any


@dataclasses.dataclass
class NamedShardingMetadata(ShardingMetadata):
    """A stored NamedSharding."""

    shape: Any
    axis_names: "list[str]"
    partition_spec: "tuple[Any, ...]"
    axis_types: "tuple[Any, ...] | None" = None
    device_mesh: "DeviceMetadataMesh | None" = None

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> "NamedShardingMetadata":
        """What is stored of a sharding."""
        mesh = jax_sharding.mesh
        return cls(
            shape=list(mesh.devices.shape),
            axis_names=list(mesh.axis_names),
            partition_spec=tuple(jax_sharding.spec),
            axis_types=tuple(mesh.axis_types),
            device_mesh=DeviceMetadataMesh(_ids(mesh.devices.tolist())),
        )

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
        mesh = jax.sharding.Mesh(grid, tuple(self.axis_names), axis_types=self.axis_types)
        axes = [tuple(a) if isinstance(a, list) else a for a in self.partition_spec]
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))  # type: ignore[no-untyped-call]


@dataclasses.dataclass
class SingleDeviceShardingMetadata(ShardingMetadata):
    """A stored SingleDeviceSharding."""

    device_str: str

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> "SingleDeviceShardingMetadata":
        """What is stored of a sharding."""
        (device,) = jax_sharding.device_set
        return cls(str(device))

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
    import jax

    stored = json.loads(text)
    kind = stored.get("sharding_type")
    if kind == "SingleDeviceSharding":
        return SingleDeviceShardingMetadata(stored["device_str"])
    if kind != "NamedSharding":
        raise NotImplementedError(f"Conversion for {kind} has not been implemented.")
    types = stored.get("axis_types")
    mesh = stored.get("device_mesh")
    return NamedShardingMetadata(
        shape=stored["shape"],
        axis_names=list(stored["axis_names"]),
        partition_spec=tuple(stored["partition_spec"]),
        axis_types=tuple(getattr(jax.sharding.AxisType, name.split(".")[-1]) for name in types)
        if types
        else None,
        device_mesh=DeviceMetadataMesh(_devices(mesh["mesh"])) if mesh else None,
    )


def concrete_sharding(sharding: Any) -> Any:
    """A sharding of JAX for one, or for a stored one."""
    if isinstance(sharding, ShardingMetadata):
        return sharding.to_jax_sharding()
    if type(sharding).__name__ in ("Format", "Layout"):
        if getattr(sharding, "layout", None) is not None:
            raise NotImplementedError("a Format with a layout: give its sharding instead")
        return sharding.sharding
    return sharding
