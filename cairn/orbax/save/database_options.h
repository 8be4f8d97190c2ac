// database_options.h -- the parameters of every OCDBT database that Cairn writes for Orbax.
#pragma once

#include <cairn/ocdbt/write/writer.h>

#include <cstddef>
#include <cstdint>

namespace cairn::inline v0::orbax {

// `threads` as in Resources. `data_file_bytes` is the size at which a data file ends; 0: no limit.
inline ocdbt::WriterOptions database_options(
    std::size_t threads,
    std::uint64_t data_file_bytes = ocdbt::WriterOptions().target_data_file_size) {
  ocdbt::WriterOptions options;
  options.threads = threads;
  options.target_data_file_size = data_file_bytes;
  options.config.emplace();
  options.config->max_inline_value_bytes = 1024;
  options.config->max_decoded_node_bytes = 100'000'000;
  return options;
}

}  // namespace cairn::inline v0::orbax
