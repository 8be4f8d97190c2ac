// sharded.h -- arrays of JAX, described by cairn._jax, as the library's ShardedArray.
#pragma once

#include <cairn/orbax/sharding.h>

#include <nanobind/nanobind.h>

namespace cairn::python {

// The sharding that a tuple describes:
//   ("named", mesh shape, axis names, axis types or None, device ids, spec); the spec has a list of
//             axis names for each dimension
//   ("single", device)
//   ("explicit", [(device id, origin, shape), ...])
// Throws invalid_argument for any other.
Sharding sharding_from(nanobind::handle description);

// Defines ShardedArray: made of a shape, a dtype's name, a sharding, the name of a random key's
// implementation, and the shards [(device id, origin, shape, replica, array), ...].
void define_sharded(nanobind::module_& module);

}  // namespace cairn::python
