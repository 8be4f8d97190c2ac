// rows.cc -- the columns of names, modules, shapes and sizes. Names are cut where they begin as the
// one before, and what many leaves share is listed once, so that 10,000 leaves take little room.
#include <cairn/tools/page/rows.h>

#include <cairn/inspect.h>
#include <cairn/tools/page/page_text.h>
#include <cairn/tools/page/shard_parts.h>
#include <cairn/tools/report/capped_sum.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace cairn::inline v0::page {
namespace {

constexpr std::size_t kMostRows = 20'000;

std::string dtype_text(const TensorInfo& leaf) {
  return leaf.dtype_name.empty() || !leaf.is_described() ? leaf.typestr : leaf.dtype_name;
}

// The length of what two texts begin with, in UTF-16 code units of whole characters, as a browser
// counts.
std::pair<std::size_t, std::size_t> shared_start(std::string_view a, std::string_view b) {
  std::size_t bytes = 0;
  while (bytes < std::min(a.size(), b.size()) && a[bytes] == b[bytes]) ++bytes;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; };
  while (bytes > 0 && bytes < b.size() && continues(b[bytes])) --bytes;
  std::size_t units = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (continues(b[i])) continue;
    units += static_cast<unsigned char>(b[i]) >= 0xf0 ? 2 : 1;
  }
  return {bytes, units};
}

// What many leaves have in common, each listed once.
class SharedLayouts {
 public:
  std::uint64_t number_of(const TensorInfo& leaf) {
    const auto key = std::tuple(dtype_text(leaf), leaf.typestr, leaf.shape, leaf.chunk_shape,
                                sharding_of(leaf), leaf.is_array() && leaf.is_described());
    const auto [place, added] = numbers_.try_emplace(key, layouts_.size());
    if (added) layouts_.push_back(layout_json(leaf, std::get<4>(key)));
    return place->second;
  }
  void move_to(JsonObject& data) {
    data.emplace_back("layouts", std::move(layouts_));
    data.emplace_back("shardings", std::move(shardings_));
  }

 private:
  std::int64_t sharding_of(const TensorInfo& leaf) {
    if (leaf.sharding.empty()) return -1;
    const auto [place, added] =
        sharding_numbers_.try_emplace(leaf.sharding, static_cast<std::int64_t>(shardings_.size()));
    if (added) {
      shardings_.push_back(shown_text(sharding_text(leaf.sharding)));
      parts_.emplace_back(leaf.sharding);
    }
    return place->second;
  }
  Json layout_json(const TensorInfo& leaf, std::int64_t sharding) const {
    const bool has_shape =
        (leaf.is_array() && leaf.is_described()) || (leaf.is_string() && !leaf.shape.empty());
    const bool has_chunks = has_shape && !leaf.chunk_shape.empty() &&
                            leaf.chunk_shape.size() == leaf.shape.size() &&
                            std::ranges::all_of(leaf.chunk_shape, [](auto n) { return n > 0; });
    std::optional<Shape> parts;
    if (has_shape && sharding >= 0)
      parts = parts_[static_cast<std::size_t>(sharding)].of(leaf.shape);
    return JsonObject{{"dtype", shown_text(dtype_text(leaf))},
                      {"kind", shown_text(leaf.typestr)},
                      {"shape", has_shape ? shape_json(leaf.shape) : Json()},
                      {"chunk", has_chunks ? shape_json(leaf.chunk_shape) : Json()},
                      {"parts", parts ? shape_json(*parts) : Json()},
                      {"sharding", sharding}};
  }

  std::map<std::tuple<std::string, std::string, Shape, Shape, std::int64_t, bool>, std::uint64_t>
      numbers_;
  std::unordered_map<std::string, std::int64_t> sharding_numbers_;
  std::vector<ShardParts> parts_;
  JsonArray layouts_, shardings_;
};

}  // namespace

bool has_numbers(const TensorInfo& leaf) {
  return leaf.kind == LeafKind::kArray && leaf.dtype != DType::kOpaque && leaf.error.empty();
}

Rows::Rows(TensorList leaves, std::vector<std::size_t> selected)
    : leaves_(std::move(leaves)), indices_(std::move(selected)) {
  if (indices_.size() > kMostRows) {
    std::ranges::stable_sort(indices_,
                             [&](auto a, auto b) { return leaves_[a].nbytes > leaves_[b].nbytes; });
    indices_.resize(kMostRows);
    std::ranges::sort(indices_);
  }
  for (std::size_t row = 0; row < size(); ++row) by_name_.try_emplace(leaf(row).full_name(), row);
  for (std::size_t row = 0; row < size(); ++row) by_name_.try_emplace(leaf(row).name, row);
}

std::optional<std::size_t> Rows::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t Rows::value_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < size(); ++row)
    if (has_numbers(leaf(row))) add_capped(bytes, leaf(row).nbytes);
  return bytes;
}

void Rows::add_json(const ModuleList& modules, JsonObject& data) const {
  SharedLayouts shared_layouts;
  JsonArray shared, rest, module, layout, bytes, stored;
  JsonObject errors;
  std::string before;
  for (std::size_t row = 0; row < size(); ++row) {
    const TensorInfo& t = leaf(row);
    std::string name = *shown_text(t.full_name()).as_string();
    const auto [length, units] = shared_start(before, name);
    shared.emplace_back(std::uint64_t{units});
    rest.emplace_back(name.substr(length));
    module.emplace_back(std::uint64_t{modules.module_of(t)});
    layout.emplace_back(shared_layouts.number_of(t));
    bytes.emplace_back(t.nbytes);
    stored.emplace_back(t.stored_nbytes);
    if (!t.error.empty()) errors.emplace_back(std::to_string(row), shown_text(t.error));
    before = std::move(name);
  }
  data.emplace_back("rows", JsonObject{{"shared", std::move(shared)},
                                       {"rest", std::move(rest)},
                                       {"module", std::move(module)},
                                       {"layout", std::move(layout)},
                                       {"bytes", std::move(bytes)},
                                       {"stored", std::move(stored)},
                                       {"errors", std::move(errors)}});
  shared_layouts.move_to(data);
}

}  // namespace cairn::inline v0::page
