#include <cairn/formats/pytorch/torch_checkpointing/metadata.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pytorch::torch_checkpointing {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

// Bytes of memory for what is parsed: a pickle may share a dict any number of times.
constexpr std::uint64_t kParsedMemory = std::uint64_t{64} << 20U;
constexpr std::uint64_t kParsedMemoryPerByte = 64;
constexpr std::uint64_t kValueMemory = 256;

class MetadataParser {
 public:
  explicit MetadataParser(const Pickle& pickle)
      : p_(pickle), left_(kParsedMemory + kParsedMemoryPerByte * pickle.end()) {}

  SavedMetadata run() {
    const auto version = find_member(p_, p_.root(), "version");
    const auto items = find_member(p_, p_.root(), "metadata");
    const auto layouts = find_member(p_, p_.root(), "rank_to_layout_info_mappings");
    // The first version need not name itself.
    const bool is_known = version ? is_text(p_, *version) : layouts && is_dict(p_, *layouts);
    if (!is_known || !items || !is_dict(p_, *items))
      throw Error(Code::kInvalidArgument, "a pickle, but not the metadata of torch_checkpointing");
    const std::string_view number = version ? p_.text(*version) : "1.0";
    if (number != "1.0" && number != "2.0")
      throw Error(Code::kUnimplemented,
                  fmt::format("metadata of version {}; Cairn reads the versions 1.0 and 2.0",
                              printable_utf8(number.substr(0, 16))));
    SavedMetadata metadata{.world_size = count_field(p_, member(p_.root(), "world_size"))};
    if (number == "1.0") {
      add_items_of_version_1(*items, metadata);
      return metadata;
    }
    for_each_entry(p_, *items, nullptr, [&](Value name, Value value) {
      const std::string text = name_text(name);
      with_context([&] { return text; }, [&] { metadata.items.push_back(item(text, value)); });
    });
    return metadata;
  }

 private:
  void charge(std::uint64_t bytes) {
    if (bytes > left_) data_loss("its tensors take too much memory for a pickle of this size");
    left_ -= bytes;
  }
  [[nodiscard]] Value member(Value dict, std::string_view key) const {
    if (const auto found = find_member(p_, dict, key)) return *found;
    data_loss(fmt::format("a dict has no \"{}\"", key));
  }
  std::string name_text(Value value) {
    if (!is_text(p_, value) || !valid_utf8(p_.text(value))) data_loss("a name is not a text");
    charge(kValueMemory + p_.text(value).size());
    return std::string(p_.text(value));
  }
  [[nodiscard]] std::span<const Value> list(Value value) const {
    if (p_.kind(value) != Kind::kList && p_.kind(value) != Kind::kTuple)
      data_loss("a value is not a list");
    return p_.items(value);
  }
  std::vector<std::uint64_t> counts(Value value) {
    std::vector<std::uint64_t> found;
    for (const Value count : list(value)) {
      charge(sizeof(std::uint64_t));
      found.push_back(count_field(p_, count));
    }
    return found;
  }

  Item item(const std::string& name, Value value) {
    Item item{.name = name};
    for_each_entry(
        p_, member(value, "nested_path_to_metadata"), nullptr, [&](Value path, Value divisions) {
          const std::string json = name_text(path);
          item.tensors.push_back(divided_tensor(
              with_context([&] { return "the path " + json; }, [&] { return nested_path(json); }),
              divisions));
        });
    for_each_entry(p_, member(value, "rank_to_layout_info"), nullptr,
                   [&](Value rank, Value layout) {
                     charge(kValueMemory);
                     item.files.push_back(file(name, rank_field(rank), layout));
                   });
    sort_files(item);
    return item;
  }

  DividedTensor divided_tensor(std::vector<std::string> path, Value divisions) {
    DividedTensor tensor{.path = std::move(path)};
    for (const Value division : list(divisions))
      tensor.divisions.push_back(this->division(division));
    if (tensor.divisions.empty()) data_loss("a tensor has no parts");
    return tensor;
  }

  static void sort_files(Item& item) {
    std::ranges::sort(item.files, {}, &ItemFile::rank);
    const auto twice = std::ranges::adjacent_find(item.files, {}, &ItemFile::rank);
    if (twice != item.files.end()) data_loss(fmt::format("rank {} is there twice", twice->rank));
  }

  // In version 1.0, the first key of a path is the item, and the files are listed by rank.
  void add_items_of_version_1(Value tensors, SavedMetadata& metadata) {
    std::unordered_map<std::string, std::size_t> known;
    for_each_entry(p_, tensors, nullptr, [&](Value path, Value divisions) {
      const std::string json = name_text(path);
      with_context([&] { return "the path " + json; },
                   [&] {
                     std::vector<std::string> keys = nested_path(json);
                     if (keys.size() < 2) data_loss("it has an item, but no key in it");
                     const auto [item, is_new] = known.emplace(keys.front(), metadata.items.size());
                     if (is_new) metadata.items.push_back({.name = keys.front()});
                     keys.erase(keys.begin());
                     metadata.items[item->second].tensors.push_back(
                         divided_tensor(std::move(keys), divisions));
                   });
    });
    const Value layouts = member(p_.root(), "rank_to_layout_info_mappings");
    for (Item& item : metadata.items) {
      with_context([&] { return item.name; },
                   [&] {
                     for_each_entry(p_, layouts, nullptr, [&](Value rank, Value of_rank) {
                       charge(kValueMemory);
                       item.files.push_back(
                           file(item.name, rank_field(rank), find_member(p_, of_rank, item.name)));
                     });
                     sort_files(item);
                   });
    }
  }

  // A number, or its text.
  [[nodiscard]] std::uint64_t rank_field(Value value) const {
    if (!is_text(p_, value)) return count_field(p_, value);
    const std::string_view text = p_.text(value);
    std::uint64_t rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc() || end != text.data() + text.size())
      data_loss("a rank is not a number");
    return rank;
  }

  // '["a",0]': the keys from the root of the item, as JSON.
  static std::vector<std::string> nested_path(const std::string& json) {
    const Json parsed = parse_json(json);
    const auto* keys = parsed.as_array();
    if (keys == nullptr || keys->empty()) data_loss("it is not a list");
    std::vector<std::string> path;
    for (const Json& key : *keys) {
      if (const std::string* text = key.as_string())
        path.push_back(*text);
      else if (const auto index = key.as_int64())
        path.push_back(std::to_string(*index));
      else
        data_loss("it has a key that is neither a text nor a number");
    }
    return path;
  }

  ItemFile file(const std::string& item, std::uint64_t rank, std::optional<Value> layout) {
    ItemFile file{.rank = rank, .path = fmt::format("{}_{}.pt", item, rank)};
    if (layout && p_.kind(*layout) != Kind::kNone) {
      file.path = name_text(member(*layout, "file_path"));
      const std::string type = name_text(member(member(*layout, "serialization_format"), "type"));
      if (type == "SafetensorsSerialization")
        file.format = ItemFormat::kSafetensors;
      else if (type != "TorchSerialization")
        throw Error(Code::kUnimplemented,
                    fmt::format("its parts are in the format {}, which Cairn does not read", type));
    }
    if (!is_below_folder(file.path) || file.path.find('\0') != std::string::npos)
      data_loss(fmt::format("the file \"{}\" is not inside the folder of the checkpoint",
                            printable_utf8(file.path)));
    return file;
  }

  Division division(Value value) {
    charge(kValueMemory);
    const Value sharding = member(value, "sharding_metadata");
    const std::string type = name_text(member(sharding, "type"));
    const Value data = member(sharding, "data");
    if (type == "default_tensor_v1") return listed_division(data, member(value, "ranks"));
    if (type != "DTensorShardingMetadata")
      throw Error(Code::kUnimplemented,
                  fmt::format("its parts are described by {}, which Cairn does not read", type));
    const Value mesh = member(data, "mesh_spec");
    Division division{.shape = extents_field(p_, member(data, "global_shape")),
                      .dtype = name_text(member(data, "dtype")),
                      .mesh = extents_field(p_, member(mesh, "mesh_shape"))};
    charge(sizeof(std::int64_t) * (division.shape.size() + division.mesh.size()));
    division.mesh_ranks = counts(member(mesh, "mesh_data"));
    for (const Value placement : list(member(data, "placements")))
      division.placements.push_back(this->placement(placement, division.shape.size()));
    division.ranks = counts(member(value, "ranks"));
    std::uint64_t places = 1;
    for (const std::int64_t extent : division.mesh) {
      if (extent < 1 || places > division.mesh_ranks.size()) data_loss("its mesh is not a mesh");
      places *= static_cast<std::uint64_t>(extent);
    }
    if (places != division.mesh_ranks.size() || division.placements.size() != division.mesh.size())
      data_loss("its mesh has another shape than its ranks and placements");
    return division;
  }

  // The parts of the tensors that the ranks have.
  Division listed_division(Value data, Value ranks) {
    Division division{.shape = extents_field(p_, member(data, "global_shape")),
                      .dtype = name_text(member(data, "dtype")),
                      .ranks = counts(ranks)};
    charge(sizeof(std::int64_t) * division.shape.size());
    const auto origins = list(member(data, "global_offsets"));
    const auto locals = list(member(data, "local_offsets"));
    const auto sizes = list(member(data, "local_sizes"));
    if (locals.size() != origins.size() || sizes.size() != origins.size())
      data_loss("its lists of parts have different lengths");
    division.parts.emplace();
    for (std::size_t i = 0; i < origins.size(); ++i) {
      charge(kValueMemory + 3 * sizeof(std::int64_t) * division.shape.size());
      LocalPart part{
          .box = {.origin = extents_field(p_, origins[i]), .shape = extents_field(p_, sizes[i])},
          .local = extents_field(p_, locals[i])};
      check_part(part, division.shape);
      division.parts->push_back(std::move(part));
    }
    return division;
  }

  static void check_part(const LocalPart& part, const Shape& whole) {
    bool fits = part.box.origin.size() == whole.size() && part.box.shape.size() == whole.size() &&
                part.local.size() == whole.size();
    for (std::size_t d = 0; fits && d < whole.size(); ++d)
      fits = part.box.origin[d] <= whole[d] && part.box.shape[d] <= whole[d] - part.box.origin[d];
    if (!fits) data_loss("a part lies outside of the tensor");
  }

  Placement placement(Value value, std::size_t rank_of_tensor) {
    charge(kValueMemory);
    const std::string type = name_text(member(value, "type"));
    if (type == "Replicate") return {};
    if (type != "Shard" && type != "StridedShard")
      throw Error(Code::kUnimplemented, fmt::format("it has the placement {}", type));
    const std::uint64_t axis = count_field(p_, member(value, "dim"));
    if (axis >= rank_of_tensor) data_loss("it is divided along an axis that it has not");
    return {type == "Shard" ? PlacementKind::kShard : PlacementKind::kStridedShard, axis};
  }

  const Pickle& p_;
  std::uint64_t left_;  // bytes of memory for what is parsed
};

// The piece `index` of `count`. All have the same length, except at the end.
void take_piece(Box& box, std::size_t axis, std::int64_t index, std::int64_t count) {
  const std::int64_t size = box.shape[axis];
  const std::int64_t piece = size / count + (size % count == 0 ? 0 : 1);
  const std::int64_t begin = piece == 0 || index > size / piece ? size : index * piece;
  box.origin[axis] += std::min(begin, size);
  box.shape[axis] = std::min(piece, size - std::min(begin, size));
}

}  // namespace

SavedMetadata parse_metadata(const Pickle& pickle) { return MetadataParser(pickle).run(); }

Box box_of_rank(const Division& division, std::uint64_t rank) {
  const auto found = std::ranges::find(division.mesh_ranks, rank);
  if (found == division.mesh_ranks.end())
    data_loss(fmt::format("rank {} is not in its mesh", rank));
  std::int64_t rest = found - division.mesh_ranks.begin();
  Shape place(division.mesh.size());
  for (std::size_t i = place.size(); i-- > 0; rest /= division.mesh[i])
    place[i] = rest % division.mesh[i];
  Box box{.origin = Shape(division.shape.size(), 0), .shape = division.shape};
  const auto take = [&](std::size_t i, PlacementKind kind) {
    if (division.placements[i].kind == kind)
      take_piece(box, division.placements[i].axis, place[i], division.mesh[i]);
  };
  // The axes of the mesh that divide what others have divided come last, the first of them last.
  for (std::size_t i = 0; i < place.size(); ++i) take(i, PlacementKind::kShard);
  for (std::size_t i = place.size(); i-- > 0;) take(i, PlacementKind::kStridedShard);
  return box;
}

}  // namespace cairn::inline v0::pytorch::torch_checkpointing
