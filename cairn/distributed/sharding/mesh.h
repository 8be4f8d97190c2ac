// mesh.h -- what makes a mesh sound.
#pragma once

#include <cairn/sharding.h>

#include <cstdint>
#include <span>

namespace cairn::distributed {

// Throws invalid_argument unless the mesh is sound, as check_sharding says; returns how many
// devices it has.
std::int64_t check_mesh(const Mesh& mesh);

// Throws invalid_argument, naming it, for a device that is there twice.
void check_unique_ids(std::span<const std::int64_t> ids);

// "mesh axis 'x' (4 devices)".
std::string axis_text(const Mesh& mesh, std::size_t axis);

}  // namespace cairn::distributed
