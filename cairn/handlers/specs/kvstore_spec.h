// kvstore_spec.h -- TensorStore specs of key-value stores as JSON values, for the specs of arrays
// that contain them.
#pragma once

#include <cairn/array_spec.h>
#include <cairn/base/json.h>

#include <cstdint>

namespace cairn::handlers {

// As build_kvstore_tspec.
Json kvstore_spec(const KvStoreSpecOptions& options);
// The size at which the data files of this OCDBT store end, unless it is told otherwise.
std::int64_t default_data_file_size(const Json& ocdbt_spec);

}  // namespace cairn::handlers
