// mesh.h -- validates meshes.
#pragma once

#include <cairn/orbax/sharding.h>

#include <cstdint>
#include <span>

namespace cairn::inline v0::distributed {

// Returns the number of devices. Throws invalid_argument unless the mesh passes the checks that
// check_sharding documents.
std::int64_t check_mesh(const Mesh& mesh);

// Throws invalid_argument, naming the device, if a device id occurs twice.
void check_unique_ids(std::span<const std::int64_t> ids);

// Returns "mesh axis 'x' (4 devices)".
std::string axis_text(const Mesh& mesh, std::size_t axis);

}  // namespace cairn::inline v0::distributed
