// memory_checkpoint.h -- a checkpoint whose tensors are arrays in memory, so that the tools can be
// tested without files.
#pragma once

#include <cairn/array/box.h>
#include <cairn/checkpoint.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::testing {

// "a.0.b" as a path: decimal keys are list indices.
inline KeyPath dotted_path(std::string_view name) {
  KeyPath path;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string key(name.substr(0, dot));
    const bool index =
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    path.push_back({key, index ? KeyType::kSequence : KeyType::kDict});
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return path;
}

template <class T>
Array make_array(DType dtype, Shape shape, const std::vector<T>& values) {
  Array array = Array::allocate(dtype, std::move(shape));
  if (!values.empty())
    std::memcpy(array.mutable_view().data, values.data(), values.size() * sizeof(T));
  return array;
}

class MemoryCheckpoint : public Checkpoint {
 public:
  MemoryCheckpoint() {
    info_.format = "memory";
    info_.layout = "in memory";
    info_.path = "/memory";
  }
  TensorInfo& add(const std::string& name, Array array, const std::string& kind = "jax.Array") {
    TensorInfo t;
    t.name = name;
    t.path = dotted_path(name);
    t.typestr = kind;
    t.dtype = array.dtype();
    t.dtype_name = std::string(dtype_name(array.dtype()));
    t.element_size = array.element_size();
    t.shape = array.shape();
    t.chunk_shape = array.shape();
    t.nbytes = t.stored_nbytes = array.bytes().size();
    arrays_[tensors_.size()] = std::move(array);
    return tensors_.emplace_back(std::move(t));
  }
  TensorInfo& add_string(const std::string& name, std::string value) {
    TensorInfo& t = add_node(name, "string");
    t.kind = LeafKind::kString;
    t.dtype_name = "string";
    t.nbytes = value.size();
    strings_[tensors_.size() - 1] = std::move(value);
    return t;
  }
  TensorInfo& add_node(const std::string& name, const std::string& kind) {
    TensorInfo t;
    t.name = name;
    t.path = dotted_path(name);
    t.kind = LeafKind::kEmpty;
    t.typestr = kind;
    return tensors_.emplace_back(std::move(t));
  }

  using Checkpoint::info;
  using Checkpoint::read;
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  CheckpointInfo& mutable_info() { return info_; }
  [[nodiscard]] TensorList tensors() const override { return TensorList(list_); }
  void read(std::span<const ReadRequest> requests, const ProgressFn&) const override {
    ++reads;
    for (const auto& r : requests) {
      const ArrayView from = arrays_.at(r.tensor).view();
      check_inside(r.box, from.shape);
      copy_elements(subview(from, r.box), r.out);
      elements_read += static_cast<std::uint64_t>(element_count(r.box.shape));
    }
  }
  [[nodiscard]] std::string read_string(std::size_t index) const override {
    return strings_.at(index);
  }

  mutable std::atomic<std::uint64_t> reads{0};
  mutable std::atomic<std::uint64_t> elements_read{0};

 private:
  CheckpointInfo info_;
  std::shared_ptr<std::vector<TensorInfo>> list_ = std::make_shared<std::vector<TensorInfo>>();
  std::vector<TensorInfo>& tensors_ = *list_;
  std::map<std::size_t, Array> arrays_;
  std::map<std::size_t, std::string> strings_;
};

}  // namespace cairn::testing
