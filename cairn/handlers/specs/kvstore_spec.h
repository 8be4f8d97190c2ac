// kvstore_spec.h -- builds TensorStore specs of key-value stores as JSON values. Array specs
// contain them.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/orbax/array_spec.h>

#include <cstdint>

namespace cairn::inline v0::handlers {

// Builds the spec; see build_kvstore_tspec for the contract.
Json kvstore_spec(const KvStoreSpecOptions& options);
// The default size limit of the data files of an OCDBT store with this spec.
std::int64_t default_data_file_size(const Json& ocdbt_spec);

}  // namespace cairn::inline v0::handlers
