// collected_item.cc -- puts the arrays and strings of type handlers into the order of the tree.
#include <cairn/orbax/save/collected_item.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace cairn::inline v0::orbax {
namespace {

// The leaves that need a value, by name.
class LeafTable {
 public:
  explicit LeafTable(const std::vector<LeafMetadata>& leaves) : leaves_(leaves) {
    by_name_.reserve(leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (is_array_kind(leaves[i].value_type) || leaves[i].value_type == "string")
        by_name_.try_emplace(param_name(leaves[i].path), Entry{i});
  }

  // Returns the position of the leaf to which a value belongs. A value that belongs to no leaf gets
  // the position behind the last leaf.
  std::size_t position(const std::string& name, bool is_array) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end() ||
        is_array_kind(leaves_[found->second.leaf].value_type) != is_array)
      return leaves_.size();
    found->second.has_value = true;
    return found->second.leaf;
  }

  // Throws invalid_argument if a leaf has no value.
  void check_values() const {
    for (const auto& [name, entry] : by_name_)
      if (!entry.has_value)
        throw Error(Code::kInvalidArgument, name +
                                                ": its type handler stored no value, but its "
                                                "typestr '" +
                                                leaves_[entry.leaf].value_type +
                                                "' says there is one");
  }

 private:
  struct Entry {
    std::size_t leaf = 0;
    bool has_value = false;
  };
  const std::vector<LeafMetadata>& leaves_;
  std::unordered_map<std::string, Entry> by_name_;
};

// Moves the values into the order of their positions; values of one position keep their order.
template <class Value>
std::vector<Value> sorted(std::vector<Value> values, const std::vector<std::size_t>& positions) {
  if (std::is_sorted(positions.begin(), positions.end())) return values;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  std::vector<Value> out;
  out.reserve(values.size());
  for (const std::size_t i : order) out.push_back(std::move(values[i]));
  return out;
}

}  // namespace

void CollectedItem::add_array(StoreArray array) {
  if (process_.count > 1 && array.device_array && !array.parts)
    throw Error(Code::kInvalidArgument,
                array.name + ": its type handler stores the whole array in each of " +
                    std::to_string(process_.count) +
                    " processes; it must declare the parts of this process");
  if (array.data == nullptr && !array.copy && !array.parts && element_count(array.shape) != 0)
    throw Error(Code::kInvalidArgument,
                array.name + ": its type handler gave no elements; set data, copy or parts");
  const std::lock_guard lock(mutex_);
  arrays_.push_back(std::move(array));
}

void CollectedItem::add_string_in(std::string file, std::string name, std::string text) {
  const std::lock_guard lock(mutex_);
  strings_.push_back({std::move(name), std::move(text), std::move(file)});
}

void CollectedItem::move_to(SaveItem& item) {
  const std::lock_guard lock(mutex_);
  std::vector<LeafMetadata>& leaves = item.tree.leaves;
  LeafTable table(leaves);
  std::vector<std::size_t> positions;
  positions.reserve(arrays_.size());
  for (StoreArray& array : arrays_) {
    positions.push_back(table.position(array.name, true));
    if (positions.back() < leaves.size()) link(leaves[positions.back()], array);
  }
  item.arrays = sorted(std::exchange(arrays_, {}), positions);
  positions.clear();
  for (const SaveString& string : strings_) positions.push_back(table.position(string.name, false));
  item.strings = sorted(std::exchange(strings_, {}), positions);
  table.check_values();
}

void CollectedItem::set_written() {
  done_ = true;
  promise_.set_value();
}

void CollectedItem::fail(std::exception_ptr error) {
  if (!std::exchange(done_, true)) promise_.set_exception(std::move(error));
}

}  // namespace cairn::inline v0::orbax
