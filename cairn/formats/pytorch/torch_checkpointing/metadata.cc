#include <cairn/formats/pytorch/torch_checkpointing/metadata.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
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
    if (!version || !is_text(p_, *version) || !items || !is_dict(p_, *items))
      throw Error(Code::kInvalidArgument, "a pickle, but not the metadata of torch_checkpointing");
    if (p_.text(*version) != "2.0")
      throw Error(Code::kUnimplemented,
                  fmt::format("metadata of version {}; Cairn reads version 2.0",
                              printable_utf8(p_.text(*version).substr(0, 16))));
    SavedMetadata metadata{.world_size = count_field(p_, member(p_.root(), "world_size"))};
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
    for_each_entry(p_, member(value, "nested_path_to_metadata"), nullptr,
                   [&](Value path, Value divisions) {
                     const std::string json = name_text(path);
                     DividedTensor tensor{.path = with_context([&] { return "the path " + json; },
                                                               [&] { return nested_path(json); })};
                     for (const Value division : list(divisions))
                       tensor.divisions.push_back(this->division(division));
                     if (tensor.divisions.empty()) data_loss("a tensor has no parts");
                     item.tensors.push_back(std::move(tensor));
                   });
    for_each_entry(p_, member(value, "rank_to_layout_info"), nullptr,
                   [&](Value rank, Value layout) {
                     charge(kValueMemory);
                     item.files.push_back(file(name, count_field(p_, rank), layout));
                   });
    std::ranges::sort(item.files, {}, &ItemFile::rank);
    const auto twice = std::ranges::adjacent_find(item.files, {}, &ItemFile::rank);
    if (twice != item.files.end()) data_loss(fmt::format("rank {} is there twice", twice->rank));
    return item;
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

  ItemFile file(const std::string& item, std::uint64_t rank, Value layout) {
    ItemFile file{.rank = rank, .path = fmt::format("{}_{}.pt", item, rank)};
    if (p_.kind(layout) != Kind::kNone) {
      file.path = name_text(member(layout, "file_path"));
      const std::string type = name_text(member(member(layout, "serialization_format"), "type"));
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
    if (type != "DTensorShardingMetadata")
      throw Error(Code::kUnimplemented,
                  fmt::format("its parts are described by {}, which Cairn does not read", type));
    const Value data = member(sharding, "data");
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
