// checkpoint.h -- Orbax checkpoints: a directory that is complete or absent.
#pragma once

#include <cairn/reader.h>

#include <memory>
#include <string>

namespace cairn {

// Whether `path` is a directory in which an Orbax checkpoint, step root, item, or bare OCDBT database can be seen.
bool is_orbax(const std::string& path);

// Opens an Orbax checkpoint of any layout. Errors as cairn::open.
std::unique_ptr<Checkpoint> open_orbax(const std::string& path, const OpenOptions& options = {});

}  // namespace cairn
