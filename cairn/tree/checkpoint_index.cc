// checkpoint_index.cc -- finds a leaf by the name that a user typed.
#include <cairn/checkpoint.h>

#include <cairn/base/text.h>
#include <cairn/base/visible_text.h>
#include <cairn/tree/name_table.h>
#include <cairn/tree/names.h>
#include <cairn/tree/suggest.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0 {
namespace {

std::string suggestions(std::string_view wanted, const TensorList& tensors) {
  return suggestion_text(wanted, tensors.size(),
                         [&](std::size_t i) { return std::string_view(tensors[i].name); });
}

std::string hex_text(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_hex(out, "", static_cast<unsigned char>(c), 2);
  return out;
}

// The leaf whose escaped name was given. Throws if leaves of different names are shown alike.
std::size_t only_one(std::string_view shown, const std::vector<std::size_t>& found,
                     const TensorList& tensors) {
  const auto other = std::find_if(found.begin(), found.end(), [&](std::size_t i) {
    return tensors[i].full_name() != tensors[found[0]].full_name();
  });
  if (other == found.end()) return found[0];
  std::string names;
  for (const std::size_t i : found)
    names.append(names.empty() ? "'" : ", '")
        .append(visible_text(tensors[i].full_name()))
        .append("' (bytes ")
        .append(hex_text(tensors[i].full_name()))
        .append(")");
  throw Error(Code::kInvalidArgument, "'" + std::string(shown) +
                                          "' is how several names are shown: give one of them "
                                          "unescaped: " +
                                          names);
}

// The leaf of a typed name; nullopt if none was found. Two leaves of one item may have the same
// name ({"a.b": x} and {"a": {"b": y}}). Then they share the array, too. Throws if several were
// found.
std::optional<std::size_t> only_leaf(std::string_view typed, const TensorList& all,
                                     const std::vector<std::size_t>& found) {
  if (found.empty()) return std::nullopt;
  const TensorInfo& first = all[found[0]];
  const auto differs = [&](auto member) {
    return std::any_of(found.begin(), found.end(),
                       [&](std::size_t i) { return all[i].*member != first.*member; });
  };
  const bool items = differs(&TensorInfo::item);
  if (!items && !differs(&TensorInfo::name)) return found[0];
  std::string names;
  for (const auto i : found) names += (names.empty() ? "'" : ", '") + all[i].full_name() + "'";
  throw Error(Code::kInvalidArgument,
              "'" + std::string(typed) +
                  (items ? "' is in several items" : "' stands for several names") +
                  ": name one of " + names);
}

}  // namespace

struct Checkpoint::Names {
  std::once_flag made;
  std::optional<NameTable> by_name;
  // Maps the first leaf of a name that occurs more than once to the later ones.
  std::unordered_map<std::size_t, std::vector<std::size_t>> later;
  // The escaped forms, with and without the item, of the names that are shown escaped.
  std::unordered_map<std::string, std::vector<std::size_t>> by_visible;

  void add(std::string_view name, std::size_t index) {
    if (std::string shown = visible_text(name); shown != name)
      by_visible[std::move(shown)].push_back(index);
  }

  // By the name with '.' in place of '/', for typed names with '/'.
  std::once_flag dotted_made;
  std::unordered_map<std::string, std::vector<std::size_t>> by_dotted;

  // The leaves of a typed name. `found` returns those of a name without an item.
  template <class Found>
  static std::vector<std::size_t> with_item(const TensorList& all, std::string_view typed,
                                            const Found& found);
  void fill(const TensorList& all);
  // The leaves of a name without an item.
  [[nodiscard]] std::vector<std::size_t> leaves_of(std::string_view name) const;
  // The leaf of a name or of "item/name"; nullopt if there is none.
  [[nodiscard]] std::optional<std::size_t> find(const TensorList& all,
                                                std::string_view typed) const;
  // The leaf of a name or of "item/name" in which '/' stands for '.', too.
  [[nodiscard]] std::optional<std::size_t> find_spelled(const TensorList& all,
                                                        std::string_view typed);
};

void Checkpoint::Names::fill(const TensorList& all) {
  by_name.emplace(all);
  for (const auto& [leaf, first] : by_name->repeated()) later[first].push_back(leaf);
  for (std::size_t i = 0; i < all.size(); ++i) {
    add(all[i].name, i);
    if (all[i].item) add(all[i].full_name(), i);
  }
}

std::vector<std::size_t> Checkpoint::Names::leaves_of(std::string_view name) const {
  const auto first = by_name->find(name);
  if (!first) return {};
  std::vector<std::size_t> leaves{*first};
  if (const auto more = later.find(*first); more != later.end())
    leaves.insert(leaves.end(), more->second.begin(), more->second.end());
  return leaves;
}

template <class Found>
std::vector<std::size_t> Checkpoint::Names::with_item(const TensorList& all, std::string_view typed,
                                                      const Found& found) {
  std::vector<std::size_t> leaves = found(typed);
  if (!leaves.empty()) return leaves;
  any_parent(typed, [&](std::string_view item) {
    for (const auto i : found(typed.substr(item.size() + 1)))
      if (all[i].item == item) leaves.push_back(i);
    return !leaves.empty();
  });
  return leaves;
}

std::optional<std::size_t> Checkpoint::Names::find(const TensorList& all,
                                                   std::string_view typed) const {
  return only_leaf(typed, all,
                   with_item(all, typed, [&](std::string_view name) { return leaves_of(name); }));
}

std::optional<std::size_t> Checkpoint::Names::find_spelled(const TensorList& all,
                                                           std::string_view typed) {
  if (typed.find('/') == std::string_view::npos) return std::nullopt;
  std::call_once(dotted_made, [&] {
    for (std::size_t i = 0; i < all.size(); ++i) by_dotted[with_dots(all[i].name)].push_back(i);
  });
  return only_leaf(typed, all, with_item(all, typed, [&](std::string_view name) {
                     std::vector<std::size_t> leaves;
                     if (const auto it = by_dotted.find(with_dots(name)); it != by_dotted.end())
                       std::copy_if(it->second.begin(), it->second.end(),
                                    std::back_inserter(leaves),
                                    [&](std::size_t i) { return is_typed_as(name, all[i].name); });
                     return leaves;
                   }));
}

TensorList::TensorList(std::shared_ptr<const std::vector<TensorInfo>> leaves)
    : leaves_(std::move(leaves)) {}
TensorList::TensorList(std::vector<TensorInfo> leaves)
    : leaves_(std::make_shared<const std::vector<TensorInfo>>(std::move(leaves))) {}

Checkpoint::Checkpoint() : names_(std::make_unique<Names>()) {}
Checkpoint::~Checkpoint() = default;

std::size_t Checkpoint::index(std::string_view name) const {
  const auto& all = tensors();
  std::call_once(names_->made, [&] { names_->fill(all); });
  if (const auto found = names_->find(all, name)) return *found;
  if (const auto other = find_other(name)) return *other;
  if (const auto found = names_->find_spelled(all, name)) return *found;
  // JSON shows a name partly escaped; escaping the rest gives the form that people see.
  if (const auto shown = names_->by_visible.find(visible_text(name));
      shown != names_->by_visible.end())
    return only_one(name, shown->second, all);
  throw Error(Code::kNotFound,
              "no tensor is named '" + std::string(name) + "'" + suggestions(name, all));
}

}  // namespace cairn::inline v0
