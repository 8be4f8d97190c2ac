// collected_item.cc -- puts the arrays and strings of type handlers into the order of the tree.
#include <cairn/orbax/save/collected_item.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace cairn::inline v0::orbax {
namespace {

// Whether `name` is the path's parameter name.
bool is_named(const KeyPath& path, std::string_view name) {
  for (const Key& key : path) {
    if (&key != path.data()) {
      if (!name.starts_with('.')) return false;
      name.remove_prefix(1);
    }
    if (!name.starts_with(key.text)) return false;
    name.remove_prefix(key.text.size());
  }
  return name.empty();
}

// Finds the leaf to which a value belongs: the first one of its name that needs a value.
class LeafTable {
 public:
  explicit LeafTable(const std::vector<LeafMetadata>& leaves)
      : leaves_(leaves), has_value_(leaves.size()) {}

  // Returns the position of the leaf to which a value belongs. A value that belongs to no leaf gets
  // the position behind the last leaf.
  std::size_t position(const std::string& name, bool is_array) {
    const std::size_t leaf = find(name, is_array);
    if (leaf < leaves_.size()) has_value_[leaf] = true;
    return leaf;
  }

  // Throws invalid_argument if a leaf has no value.
  void check_values() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (has_value_[i] || !needs_value(leaves_[i])) continue;
      const std::string name = param_name(leaves_[i].path);
      const std::size_t first = by_name().at(name);  // the other leaves of a name share its value
      if (!has_value_[first])
        throw Error(Code::kInvalidArgument,
                    name + ": its type handler stored no value, but its typestr '" +
                        leaves_[first].value_type + "' says there is one");
    }
  }

 private:
  static bool needs_value(const LeafMetadata& leaf) {
    return is_array_kind(leaf.value_type) || leaf.value_type == "string";
  }
  [[nodiscard]] bool takes(std::size_t leaf, bool is_array) const {
    return is_array_kind(leaves_[leaf].value_type) == is_array;
  }

  // The handlers add their values in the order of the leaves, so the next leaf of that kind is
  // usually the right one.
  std::size_t find(const std::string& name, bool is_array) {
    constexpr std::size_t kNear = 8;
    for (std::size_t i = next_; i < std::min(leaves_.size(), next_ + kNear); ++i) {
      if (has_value_[i] || !needs_value(leaves_[i]) || !takes(i, is_array) ||
          !is_named(leaves_[i].path, name))
        continue;
      next_ = i + 1;
      return i;
    }
    const auto found = by_name().find(name);
    if (found == by_name().end() || !takes(found->second, is_array)) return leaves_.size();
    next_ = found->second + 1;
    return found->second;
  }

  const std::unordered_map<std::string, std::size_t>& by_name() {
    if (!by_name_.empty()) return by_name_;
    by_name_.reserve(leaves_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (needs_value(leaves_[i])) by_name_.try_emplace(param_name(leaves_[i].path), i);
    return by_name_;
  }

  const std::vector<LeafMetadata>& leaves_;
  std::vector<bool> has_value_;
  std::size_t next_ = 0;                                  // behind the leaf that was found last
  std::unordered_map<std::string, std::size_t> by_name_;  // made when it is needed
};

// Moves the values into the order of their positions; values of one position keep their order.
template <class Values>
Values sorted(Values values, const std::vector<std::size_t>& positions) {
  if (std::is_sorted(positions.begin(), positions.end())) return values;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  Values out;
  out.reserve(values.size());
  for (const std::size_t i : order) out.push_back(std::move(values[i]));
  return out;
}

}  // namespace

void CollectedItem::reserve(std::size_t arrays) {
  const std::lock_guard lock(mutex_);
  arrays_.reserve(arrays);
}

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
