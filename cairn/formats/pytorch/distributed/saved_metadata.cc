#include <cairn/formats/pytorch/distributed/saved_metadata.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/pickle/safe_globals.h>
#include <cairn/formats/pytorch/tensors/fields.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

// Bytes of memory for the chunks of a pickle, and those that one of them takes.
constexpr std::uint64_t kMetadataMemory = std::uint64_t{64} << 20U;
constexpr std::uint64_t kMetadataMemoryPerByte = 32;
constexpr std::uint64_t kChunkMemory = 512;
constexpr std::uint64_t kBoxMemory = 32;
constexpr std::uint64_t kPathStepMemory = 512;
constexpr std::uint64_t kTransformMemory = 64;

// Globals that the metadata of a Distributed Checkpoint names.
bool is_expected(std::string_view module, std::string_view name) {
  return module.starts_with("torch.distributed.checkpoint.") ||
         module.starts_with("torch.distributed._shard.") ||
         module.starts_with("megatron.core.dist_checkpointing.") ||
         (module == "pathlib" && name.ends_with("Path")) || pickle::is_safe_global(module, name);
}

class Parser {
 public:
  explicit Parser(Pickle pickle)
      : p_(std::move(pickle)), left_(kMetadataMemory + kMetadataMemoryPerByte * p_.end()) {}

  DistributedMetadata run() {
    const Value root = p_.root();
    if (class_of(root) != "Metadata" && class_of(root) != "MCoreMetadata")
      throw Error(Code::kInvalidArgument,
                  "a pickle, but not the metadata of a Distributed Checkpoint");
    const auto described = field(root, "state_dict_metadata");
    const auto stored = field(root, "storage_data");
    if (!described || p_.kind(*described) != Kind::kDict)
      data_loss("state_dict_metadata is not a dict");
    if (!stored || p_.kind(*stored) != Kind::kDict) data_loss("storage_data is not a dict");
    add_entries(*stored);
    add_values(*described);
    if (const auto paths = field(root, "planner_data")) add_paths(*paths);
    if (const auto more = field(root, "mcore_data")) add_flattened(*more);
    for (const Value global : p_.globals())
      if (!is_expected(p_.module_of(global), p_.name_of(global)))
        out_.unsafe_globals.push_back(global_text(p_, global));
    return std::move(out_);
  }

 private:
  // Of the chunk at `offset` of the tensor `name`, or of an object: then without an offset.
  using EntryKey = std::pair<std::string_view, std::optional<Shape>>;

  void charge(std::uint64_t bytes) {
    if (bytes > left_) data_loss("its chunks take too much memory for metadata of this size");
    left_ -= bytes;
  }

  // The name of the class of an object, without its module, which has changed over time.
  [[nodiscard]] std::string_view class_of(Value object) const {
    const Kind kind = p_.kind(object);
    if (kind != Kind::kObject && kind != Kind::kCall) return {};
    const Value callee = p_.part(object, pickle::Part::kCallee);
    return p_.kind(callee) == Kind::kGlobal ? p_.name_of(callee) : std::string_view();
  }

  // A member of the state of an object; nullopt if there is none or it is None.
  [[nodiscard]] std::optional<Value> field(Value object, std::string_view name) const {
    if (class_of(object).empty()) return std::nullopt;
    const auto state = state_of(p_, object);
    const auto found = state ? find_member(p_, *state, name) : std::nullopt;
    return found && p_.kind(*found) != Kind::kNone ? found : std::nullopt;
  }
  [[nodiscard]] Value needed(Value object, std::string_view name) const {
    if (const auto found = field(object, name)) return *found;
    data_loss(fmt::format("an object has no \"{}\"", name));
  }
  [[nodiscard]] Shape extents(Value object, std::string_view name) {
    Shape found = extents_field(p_, needed(object, name));
    charge(kBoxMemory * found.size());
    return found;
  }
  [[nodiscard]] std::string_view text(Value value) const {
    if (!is_text(p_, value)) data_loss("a name is not a text");
    const std::string_view found = p_.text(value);
    if (!valid_utf8(found)) data_loss("a name is not valid UTF-8");
    return found;
  }

  // ---- where the bytes are ----

  void add_entries(Value dict) {
    const auto items = p_.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const Value index = items[i];
      charge(kChunkMemory);
      EntryKey key(text(needed(index, "fqn")), std::nullopt);
      if (const auto offset = field(index, "offset")) {
        key.second = extents_field(p_, *offset);
        charge(kBoxMemory * key.second->size());
      }
      entries_.insert_or_assign(std::move(key), entry(items[i + 1]));  // as in a dict of Python
    }
  }

  Entry entry(Value info) {
    const std::string_view path = text(needed(info, "relative_path"));
    if (!is_below_folder(path) || path.find('\0') != std::string_view::npos)
      data_loss(fmt::format("the file \"{}\" is not inside the folder of the checkpoint", path));
    Entry entry{.offset = count_field(p_, needed(info, "offset")),
                .length = count_field(p_, needed(info, "length"))};
    const auto [known, is_new] =
        file_numbers_.emplace(path, static_cast<std::uint32_t>(out_.files.size()));
    if (is_new) out_.files.emplace_back(path);
    entry.file = known->second;
    const auto transforms = field(info, "transform_descriptors");
    if (!transforms) return entry;
    if (p_.kind(*transforms) != Kind::kList && p_.kind(*transforms) != Kind::kTuple)
      data_loss("transform_descriptors is not a list");
    for (const Value name : p_.items(*transforms)) {
      entry.transforms.push_back(text_field(p_, name));
      charge(kTransformMemory + entry.transforms.back().size());
    }
    return entry;
  }

  [[nodiscard]] std::optional<Entry> find_entry(const EntryKey& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }

  // ---- what is there ----

  void add_values(Value dict) {
    const auto items = p_.items(dict);
    std::unordered_map<std::string_view, std::size_t> known;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      SavedValue value = with_context([&] { return std::string(text(items[i])); },
                                      [&] { return saved_value(items[i], items[i + 1]); });
      const auto [at, is_new] = known.emplace(text(items[i]), out_.values.size());
      if (is_new)
        out_.values.push_back(std::move(value));
      else
        out_.values[at->second] = std::move(value);
    }
  }

  SavedValue saved_value(Value name, Value described) {
    charge(kChunkMemory + p_.bytes(name).size());
    SavedValue value{.name = std::string(text(name))};
    const std::string_view type = class_of(described);
    if (type == "BytesStorageMetadata") {
      value.entry = find_entry({text(name), std::nullopt});
      return value;
    }
    if (type != "TensorStorageMetadata")
      throw Error(Code::kUnimplemented, fmt::format("metadata of the type \"{}\"", type));
    value.shape = extents(described, "size");
    value.element_name = element_name(needed(described, "properties"));
    value.element = element_of_dtype(value.element_name);
    const Value chunks = needed(described, "chunks");
    if (p_.kind(chunks) != Kind::kList) data_loss("its chunks are not a list");
    for (const Value chunk : p_.items(chunks))
      value.chunks.push_back(saved_chunk(value, name, chunk));
    return value;
  }

  // The first item of the state of TensorProperties: (dtype, layout, requires_grad, memory format,
  // pin_memory).
  [[nodiscard]] std::string element_name(Value properties) const {
    const auto state = class_of(properties).empty() ? std::nullopt : state_of(p_, properties);
    if (!state || p_.kind(*state) != Kind::kTuple || p_.items(*state).empty())
      data_loss("its properties are not those of a tensor");
    return global_text(p_, p_.items(*state)[0]);
  }

  SavedChunk saved_chunk(const SavedValue& value, Value name, Value chunk) {
    charge(kChunkMemory);
    SavedChunk saved{
        .box = {.origin = extents(chunk, "offsets"), .shape = extents(chunk, "sizes")}};
    check_chunk(value, saved.box);
    saved.entry = find_entry({text(name), saved.box.origin});
    return saved;
  }

  static void check_chunk(const SavedValue& value, const Box& box) {
    bool fits = box.origin.size() == value.shape.size() && box.shape.size() == value.shape.size();
    for (std::size_t d = 0; fits && d < value.shape.size(); ++d)
      fits = box.origin[d] <= value.shape[d] && box.shape[d] <= value.shape[d] - box.origin[d];
    if (!fits) data_loss("a chunk lies outside of the tensor");
  }

  // ---- paths ----

  // Planners may store anything here: what is not a path is passed over.
  void add_paths(Value dict) {
    if (p_.kind(dict) != Kind::kDict) return;
    const auto items = p_.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (!is_text(p_, items[i])) continue;
      if (auto path = state_path(items[i + 1]))
        out_.paths.insert_or_assign(std::string(p_.text(items[i])), *std::move(path));
    }
  }

  std::optional<StatePath> state_path(Value value) {
    if (p_.kind(value) != Kind::kTuple || p_.items(value).empty()) return std::nullopt;
    StatePath path;
    for (const Value step : p_.items(value)) {
      charge(kPathStepMemory + (is_text(p_, step) ? p_.bytes(step).size() : 0));
      if (is_text(p_, step) && valid_utf8(p_.text(step)))
        path.push_back({.text = std::string(p_.text(step))});
      else if (p_.kind(step) == Kind::kInt && p_.integer(step) >= 0)
        path.push_back({.text = std::to_string(p_.integer(step)), .is_index = true});
      else
        return std::nullopt;
    }
    return path;
  }

  void add_flattened(Value dict) {
    if (p_.kind(dict) != Kind::kDict) data_loss("mcore_data is not a dict");
    const auto items = p_.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto shape = find_member(p_, items[i + 1], "nd_reformulated_orig_global_shape");
      if (!shape || p_.kind(*shape) == Kind::kNone) continue;
      const Shape extents = extents_field(p_, *shape);
      const std::string_view name = text(items[i]);
      charge(kChunkMemory + kBoxMemory * extents.size() + name.size());
      out_.flattened.push_back(fmt::format("{} [{}]", name, fmt::join(extents, ", ")));
    }
  }

  Pickle p_;
  std::uint64_t left_;  // bytes of memory for what is read
  DistributedMetadata out_;
  std::map<EntryKey, Entry> entries_;
  std::unordered_map<std::string_view, std::uint32_t> file_numbers_;
};

// Whether two processes describe the same tensor or object.
bool is_same(const SavedValue& a, const SavedValue& b) {
  return a.element_name == b.element_name && a.shape == b.shape;
}

}  // namespace

DistributedMetadata parse_distributed_metadata(Pickle pickle) {
  return Parser(std::move(pickle)).run();
}

void add_metadata(DistributedMetadata& all, DistributedMetadata more) {
  std::unordered_map<std::string_view, std::uint32_t> files;
  for (std::uint32_t i = 0; i < all.files.size(); ++i) files.emplace(all.files[i], i);
  std::vector<std::uint32_t> number;  // by the file's number in `more`
  std::vector<std::string> added;
  for (std::string& file : more.files) {
    const auto known = files.find(file);
    number.push_back(known != files.end()
                         ? known->second
                         : static_cast<std::uint32_t>(all.files.size() + added.size()));
    if (known == files.end()) added.push_back(std::move(file));
  }
  std::move(added.begin(), added.end(), std::back_inserter(all.files));

  std::unordered_map<std::string, std::size_t> values;
  for (std::size_t i = 0; i < all.values.size(); ++i) values.emplace(all.values[i].name, i);
  for (SavedValue& value : more.values) {
    if (value.entry) value.entry->file = number[value.entry->file];
    for (SavedChunk& chunk : value.chunks)
      if (chunk.entry) chunk.entry->file = number[chunk.entry->file];
    const auto known = values.find(value.name);
    if (known == values.end()) {
      all.values.push_back(std::move(value));
      continue;
    }
    SavedValue& first = all.values[known->second];
    if (!is_same(first, value))
      data_loss(value.name + ": the processes of the save describe it differently");
    first.chunks.insert(first.chunks.begin(), std::make_move_iterator(value.chunks.begin()),
                        std::make_move_iterator(value.chunks.end()));
  }
  all.paths.merge(more.paths);
  for (std::string& global : more.unsafe_globals)
    if (std::ranges::find(all.unsafe_globals, global) == all.unsafe_globals.end())
      all.unsafe_globals.push_back(std::move(global));
}

}  // namespace cairn::inline v0::pytorch
