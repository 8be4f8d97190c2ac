// int_bundle.h -- small TensorFlow checkpoints of integers, written and read whole.
#pragma once

#include <cairn/array/box.h>
#include <cairn/tensorflow.h>

#include <cstring>
#include <map>

#include "tests/formats/golden.h"

namespace cairn::testing {

inline TensorFlowSource whole(const std::string& key, std::int64_t count,
                              const std::string& device = "") {
  TensorFlowSource source{.key = key, .dtype = DType::kInt32, .shape = {count}};
  source.device = device;
  return source;
}
inline TensorFlowSource slice(const std::string& key, std::int64_t full, std::int64_t begin,
                              std::int64_t count) {
  TensorFlowSource source = whole(key, count);
  source.slice = TensorFlowSource::Slice{{full}, {begin}};
  return source;
}

// Every element is `value`.
inline void write_ints(const std::string& prefix, const std::vector<TensorFlowSource>& sources,
                       std::int32_t value) {
  const std::vector<std::int32_t> values(1000, value);
  std::vector<ArrayView> views;
  for (const TensorFlowSource& source : sources)
    views.push_back(make_view(as_bytes({reinterpret_cast<const char*>(values.data()),
                                        4 * static_cast<std::size_t>(element_count(source.shape))}),
                              DType::kInt32, source.shape));
  write_tensorflow(prefix, sources, fetch_from(views),
                   {.like = TensorFlowWriteOptions::Like::kWrite,
                    .object_graph = false,
                    .if_exists = IfExists::kReplace});
}

// Each tensor's elements; "" if nothing is there. Throws for what cannot be read.
using Contents = std::map<std::string, std::vector<std::int32_t>>;
inline Contents contents(const std::string& prefix) {
  if (!file_exists(prefix + ".index")) return {};
  Contents found;
  const auto checkpoint = open_tensorflow(prefix);
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const Bytes bytes = read_whole(*checkpoint, i);
    auto& values = found[checkpoint->tensors()[i].name];
    values.resize(bytes.size() / 4);
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return found;
}

}  // namespace cairn::testing
