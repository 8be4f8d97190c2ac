// safetensors_writer.cc -- one file, byte for byte as the reference writes the same tensors, or a set of shards with the
// index that Hugging Face's libraries write: <stem>-00001-of-00003.safetensors, ..., <stem>.safetensors.index.json.
#include <cairn/base/directory.h>
#include <cairn/base/file.h>
#include <cairn/base/json.h>
#include <cairn/base/utf8.h>
#include <cairn/checkpoint_sharding.h>
#include <cairn/formats.h>
#include <cairn/formats/joint_files.h>
#include <cairn/formats/safetensors_header.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

namespace cairn {
namespace {

constexpr std::string_view kExtension = ".safetensors";

// A source, checked: what the format makes of it.
struct Planned {
  std::size_t source;
  std::size_t type;
  std::uint64_t stored;  // bytes in the file
};
using FilePlan = std::vector<Planned>;

std::size_t type_index(const TensorSource& source) {
  const auto types = safetensors_types();
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i].dtype == source.dtype) return i;
  throw Error(Code::kInvalidArgument,
              fmt::format("safetensors has no element type for {}; cast it, or leave the tensor out", dtype_name(source.dtype)));
}

Planned plan_tensor(const TensorSource& source, std::size_t index) {
  if (source.name == "__metadata__") throw Error(Code::kInvalidArgument, "the name is reserved by the format; rename the tensor");
  if (!valid_utf8(source.name)) throw Error(Code::kInvalidArgument, "the name is not UTF-8, which the format demands; rename the tensor");
  const std::size_t type = type_index(source);
  const auto stored = safetensors_nbytes(safetensors_types()[type], source.shape);
  if (!stored)
    throw Error(Code::kInvalidArgument, fmt::format("{} of shape {} has an odd number of elements, and the format packs two in a byte",
                                                    dtype_name(source.dtype), shape_text(source.shape)));
  return {index, type, *stored};
}

std::vector<Planned> plan_tensors(std::span<const TensorSource> sources) {
  std::vector<Planned> planned;
  std::vector<std::string_view> names;
  planned.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    planned.push_back(in([&] { return sources[i].name; }, [&] { return plan_tensor(sources[i], i); }));
    names.emplace_back(sources[i].name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error(Code::kInvalidArgument, fmt::format("two tensors are named \"{}\"", *twice));
  return planned;
}

void check_metadata(const SafetensorsWriteOptions& options) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : options.metadata) {
    if (!valid_utf8(key) || !valid_utf8(value)) throw Error(Code::kInvalidArgument, fmt::format("metadata \"{}\" is not UTF-8", key));
    keys.emplace_back(key);
  }
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    throw Error(Code::kInvalidArgument, fmt::format("metadata \"{}\" is given twice", *twice));
}

// Tensors in the order given, a new shard where the next one would not fit; one too large for any gets its own.
std::vector<FilePlan> split(const std::vector<Planned>& tensors, std::optional<std::uint64_t> max_bytes) {
  std::vector<FilePlan> shards;
  FilePlan current;
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) {
    if (max_bytes && tensor.stored > *max_bytes) {
      shards.push_back({tensor});
      continue;
    }
    if (max_bytes && bytes + tensor.stored > *max_bytes) {
      shards.push_back(std::exchange(current, {}));
      bytes = 0;
    }
    current.push_back(tensor);
    bytes += tensor.stored;
  }
  if (!current.empty() || shards.empty()) shards.push_back(std::move(current));
  return shards;
}

// A callback's shards, each a file.
std::vector<FilePlan> split_by(const ShardingCallback& callback, const std::vector<Planned>& planned,
                               std::span<const TensorSource> sources) {
  std::vector<ShardableTensor> tensors;
  tensors.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    tensors.push_back({.tensor = ShardTensor(std::make_shared<const SaveSpec>(
                           SaveSpec{.source = i, .name = sources[i].name, .dtype = sources[i].dtype, .shape = sources[i].shape})),
                       .checkpoint_key = sources[i].name});
  std::vector<FilePlan> shards;
  for (const Shard& shard : make_shards(callback, tensors)) {
    FilePlan file;
    for (const auto& [name, slices] : shard) {
      for (const auto& [slice_spec, tensor] : slices) {
        if (tensor.part() != nullptr)
          throw Error(
              Code::kInvalidArgument,
              fmt::format("{}: the sharding callback cuts it (\"{}\"), but safetensors has no parts of tensors; let it keep tensors whole",
                          name, slice_spec));
        file.push_back(planned[tensor.spec().source]);
      }
    }
    if (!file.empty()) shards.push_back(std::move(file));
  }
  if (shards.empty()) shards.emplace_back();
  return shards;
}

std::vector<FilePlan> plan_files(std::span<const TensorSource> sources, const SafetensorsWriteOptions& options) {
  const std::vector<Planned> planned = plan_tensors(sources);
  if (!options.sharding_callback) return split(planned, options.max_shard_bytes);
  if (options.max_shard_bytes)
    throw Error(Code::kInvalidArgument, "either max_shard_bytes or the sharding callback decides on the files, not both");
  return split_by(*options.sharding_callback, planned, sources);
}

std::string_view stem(std::string_view path) {
  return path.size() > kExtension.size() && path.ends_with(kExtension) ? path.substr(0, path.size() - kExtension.size()) : path;
}

std::vector<std::string> shard_paths(const std::string& path, std::size_t shards) {
  if (shards == 1) return {path};
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < shards; ++i) paths.push_back(fmt::format("{}-{:05}-of-{:05}{}", stem(path), i + 1, shards, kExtension));
  return paths;
}

void refuse_existing(const std::string& path, bool replace) {
  if (!replace && file_exists(path))
    throw Error(Code::kAlreadyExists, path + ": is there already; choose another name, or ask for it to be replaced");
}

// Sorts a shard as the reference does and makes its header, which is returned; its tensors join `placements`.
Bytes place_shard(FilePlan& shard, std::span<const TensorSource> sources, AtomicFile& file, const SafetensorsWriteOptions& options,
                  std::vector<Placement>& placements) {
  std::sort(shard.begin(), shard.end(), [&](const Planned& a, const Planned& b) {
    return a.type != b.type ? a.type > b.type : sources[a.source].name < sources[b.source].name;
  });
  SafetensorsHeader header{.metadata = options.metadata, .tensors = {}};
  std::uint64_t at = 0;
  for (const auto& tensor : shard) {
    const TensorSource& source = sources[tensor.source];
    header.tensors.push_back({source.name, tensor.type, source.shape, at, at + tensor.stored});
    at += tensor.stored;
  }
  Bytes encoded = encode_safetensors_header(header);
  for (std::size_t i = 0; i < shard.size(); ++i) {
    const TensorSource& source = sources[shard[i].source];
    const bool packed = safetensors_types()[shard[i].type].bits == 4;
    placements.push_back({.tensor = shard[i].source,
                          .file = &file,
                          .offset = encoded.size() + header.tensors[i].begin,
                          .nbytes = packed ? 2 * shard[i].stored : shard[i].stored,
                          .element_size = dtype_size(source.dtype),
                          .cut = source.cut,
                          .packed = packed});
  }
  return encoded;
}

std::string index_text(std::span<const FilePlan> shards, std::span<const TensorSource> sources, std::span<const std::string> paths) {
  std::map<std::string_view, std::string> weight_map;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const auto& tensor : shards[i]) {
      weight_map[sources[tensor.source].name] = paths[i].substr(paths[i].rfind('/') + 1);
      total += tensor.stored;
    }
  }
  std::string text = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  for (const auto& [name, file] : weight_map) {
    text += text.back() == '{' ? "\n    " : ",\n    ";
    text += to_text(Json(name), JsonStyle::kPython) + ": " + to_text(Json(file), JsonStyle::kPython);
  }
  return text + "\n  }\n}\n";
}

void put_back(const std::string& path, const Bytes& bytes) {
  AtomicFile file(path);
  file.append(ByteView(bytes));
  file.commit();
}

// The index comes last. If it is there already it goes first, so that no index ever names files of two sets. If then a file cannot get
// its name, those that have theirs are removed; as long as none has, the old index comes back.
void commit_set(std::deque<AtomicFile>& files, std::span<const std::string> paths) {
  for (auto& file : files) file.finish();
  const std::string& index = paths.back();
  const Bytes old = file_exists(index) ? read_file(index) : Bytes();
  remove_tree(index);
  try {
    for (auto& file : files) file.commit(Durability::kUnsynced);
  } catch (const Error&) {
    const bool changed = files.front().committed();
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i].committed()) (void)try_call([&] { return remove_tree(paths[i]), true; });
    if (!changed && !old.empty()) (void)try_call([&] { return put_back(index, old), true; });
    throw;
  }
  sync_parent(index);
}

}  // namespace

std::vector<std::string> write_safetensors(const std::string& path, std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options) {
  const distributed::Team team(options.multiprocessing);
  std::vector<FilePlan> shards;
  team.step("write: plan", distributed::Before::kShortWork, [&] {
    check_metadata(options);
    shards = plan_files(tensors, options);
  });
  std::vector<std::string> paths = shard_paths(path, shards.size());
  const std::string index = shards.size() > 1 ? std::string(stem(path)) + ".safetensors.index.json" : "";

  // All files are complete before the first appears under its name, and the index appears last.
  JointFiles files(team, paths, [&] {
    for (const auto& file : paths) refuse_existing(file, options.replace);
    if (!index.empty()) refuse_existing(index, options.replace);
  });
  files.write([&] {
    std::vector<Placement> placements;
    placements.reserve(tensors.size());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const Bytes header = place_shard(shards[i], tensors, files[i], options, placements);
      if (files.is_primary()) files[i].write_at(0, header);
    }
    write_pieces(placements_of(placements, files.share()), fetch, {.memory = options.memory, .progress = options.progress, .observe = {}});
    return Bytes();
  });
  if (!index.empty()) paths.push_back(index);
  files.commit([&](std::deque<AtomicFile>& written) {
    if (index.empty()) return written.front().commit();
    written.emplace_back(index).append(as_bytes(index_text(shards, tensors, std::span(paths).first(shards.size()))));
    commit_set(written, paths);
  });
  return paths;
}

}  // namespace cairn
