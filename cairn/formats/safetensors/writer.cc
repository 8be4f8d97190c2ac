// writer.cc -- writes one file, byte for byte as the reference writes the same tensors; or a set of
// shards with the index that Hugging Face's libraries write: <stem>-00001-of-00003.safetensors,
// ..., <stem>.safetensors.index.json.
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/files/file_set.h>
#include <cairn/formats/files/output_lock.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/safetensors.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

namespace cairn::inline v0 {
namespace {

// A checked source with its properties in the format.
struct PlannedTensor {
  std::size_t source;
  std::size_t type;
  std::uint64_t stored;  // bytes in the file
};
using FilePlan = std::vector<PlannedTensor>;

// The header of a file, and its bytes.
struct FileHead {
  SafetensorsHeader header;
  Bytes bytes;
};

std::size_t type_index(const TensorSource& source) {
  const auto types = safetensors_types();
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i].dtype == source.dtype) return i;
  throw Error(
      Code::kInvalidArgument,
      fmt::format("safetensors has no element type for {}; cast it, or leave the tensor out",
                  dtype_name(source.dtype)));
}

PlannedTensor plan_tensor(const TensorSource& source, std::size_t index) {
  if (source.name == "__metadata__")
    throw Error(Code::kInvalidArgument, "the name is reserved by the format; rename the tensor");
  if (!valid_utf8(source.name))
    throw Error(Code::kInvalidArgument,
                "the name is not UTF-8, which the format requires; rename the tensor");
  const std::size_t type = type_index(source);
  const auto stored = safetensors_nbytes(safetensors_types()[type], source.shape);
  if (!stored)
    throw Error(
        Code::kInvalidArgument,
        fmt::format(
            "{} of shape {} has an odd number of elements, and the format packs two in a byte",
            dtype_name(source.dtype), shape_text(source.shape)));
  return {index, type, *stored};
}

std::vector<PlannedTensor> plan_tensors(std::span<const TensorSource> sources) {
  std::vector<PlannedTensor> planned;
  std::vector<std::string_view> names;
  planned.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    planned.push_back(
        with_context([&] { return sources[i].name; }, [&] { return plan_tensor(sources[i], i); }));
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
    if (!valid_utf8(key) || !valid_utf8(value))
      throw Error(Code::kInvalidArgument, fmt::format("metadata \"{}\" is not UTF-8", key));
    keys.emplace_back(key);
  }
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    throw Error(Code::kInvalidArgument, fmt::format("metadata \"{}\" is given twice", *twice));
}

void check_beside(const SafetensorsWriteOptions& options) {
  for (const auto& [name, content] : options.beside)
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find(".safetensors") != std::string::npos)
      throw Error(Code::kInvalidArgument,
                  fmt::format("\"{}\" is not a name of a file beside safetensors files", name));
}

// Fills shards in the given order and begins a new one when the next tensor does not fit. A tensor
// larger than the limit gets its own shard.
std::vector<FilePlan> files_of(const std::vector<PlannedTensor>& tensors,
                               std::optional<std::uint64_t> max_bytes) {
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

// Splits the tensors by a callback; each of its shards becomes a file.
std::vector<FilePlan> split_by(const ShardingCallback& callback,
                               const std::vector<PlannedTensor>& planned,
                               std::span<const TensorSource> sources) {
  std::vector<ShardableTensor> tensors;
  tensors.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    tensors.push_back({.tensor = ShardTensor(
                           std::make_shared<const SaveSpec>(SaveSpec{.source = i,
                                                                     .name = sources[i].name,
                                                                     .dtype = sources[i].dtype,
                                                                     .shape = sources[i].shape})),
                       .checkpoint_key = sources[i].name});
  std::vector<FilePlan> shards;
  for (const Shard& shard : make_shards(callback, tensors)) {
    FilePlan file;
    for (const auto& [name, slices] : shard) {
      for (const auto& [slice_spec, tensor] : slices) {
        if (tensor.part() != nullptr)
          throw Error(Code::kInvalidArgument,
                      fmt::format("{}: the sharding callback splits it (\"{}\"), but safetensors "
                                  "cannot store parts of tensors; keep tensors whole",
                                  name, slice_spec));
        file.push_back(planned[tensor.spec().source]);
      }
    }
    if (!file.empty()) shards.push_back(std::move(file));
  }
  if (shards.empty()) shards.emplace_back();
  return shards;
}

std::vector<FilePlan> plan_files(std::span<const TensorSource> sources,
                                 const SafetensorsWriteOptions& options) {
  const std::vector<PlannedTensor> planned = plan_tensors(sources);
  if (!options.sharding_callback) return files_of(planned, options.max_shard_bytes);
  if (options.max_shard_bytes)
    throw Error(Code::kInvalidArgument, "give max_shard_bytes or a sharding callback, not both");
  return split_by(*options.sharding_callback, planned, sources);
}

// Sorts a shard as the reference does, and returns its header.
FileHead head_of(FilePlan& shard, std::span<const TensorSource> sources,
                 const SafetensorsWriteOptions& options) {
  std::sort(shard.begin(), shard.end(), [&](const PlannedTensor& a, const PlannedTensor& b) {
    return a.type != b.type ? a.type > b.type : sources[a.source].name < sources[b.source].name;
  });
  SafetensorsHeader header{.metadata = options.metadata, .tensors = {}};
  std::uint64_t at = 0;
  for (const auto& tensor : shard) {
    const TensorSource& source = sources[tensor.source];
    header.tensors.push_back({source.name, tensor.type, source.shape, at, at + tensor.stored});
    at += tensor.stored;
  }
  Bytes bytes = encode_safetensors_header(header);
  return {std::move(header), std::move(bytes)};
}

// Appends the tensors of a shard to `placements`.
void place_shard(const FilePlan& shard, const FileHead& head, std::span<const TensorSource> sources,
                 ByteTarget& file, std::vector<Placement>& placements) {
  for (std::size_t i = 0; i < shard.size(); ++i) {
    const TensorSource& source = sources[shard[i].source];
    const bool packed = safetensors_types()[shard[i].type].bits == 4;
    placements.push_back({.tensor = shard[i].source,
                          .file = &file,
                          .offset = head.bytes.size() + head.header.tensors[i].begin,
                          .nbytes = packed ? 2 * shard[i].stored : shard[i].stored,
                          .element_size = dtype_size(source.dtype),
                          .cut = source.cut,
                          .group = source.group,
                          .packed = packed});
  }
}

std::string index_text(std::span<const FilePlan> shards, std::span<const TensorSource> sources,
                       std::span<const std::string> paths) {
  std::map<std::string_view, std::string> weight_map;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const auto& tensor : shards[i]) {
      weight_map[sources[tensor.source].name] = name_of(paths[i]);
      total += tensor.stored;
    }
  }
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  for (const auto& [name, file] : weight_map) {
    text += text.back() == '{' ? "\n    " : ",\n    ";
    text +=
        to_text(Json(name), JsonStyle::kPython) + ": " + to_text(Json(file), JsonStyle::kPython);
  }
  return text + "\n  }\n}\n";
}

// The files that one save writes, and the files of the same name that an older save may have left:
// a single file, or the shards of a set and their index. A folder that holds both does not open.
class Output {
 public:
  // `options` must outlive this object.
  Output(std::string path, std::size_t shards, const SafetensorsWriteOptions& options)
      : single_(std::move(path)),
        stem_(safetensors_stem(single_)),
        index_(safetensors_index_path(stem_)),
        if_exists_(options.if_exists),
        beside_(options.beside) {
    if (shards == 1) paths_ = {single_};
    for (std::size_t i = 0; shards > 1 && i < shards; ++i)
      paths_.push_back(safetensors_shard_path(stem_, i, shards));
  }

  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] bool is_set() const { return paths_.size() > 1; }
  [[nodiscard]] const std::string& index() const { return index_; }

  [[nodiscard]] const std::string& single() const { return single_; }
  // The path of a file in the same folder.
  [[nodiscard]] std::string path_of(const std::string& name) const {
    return std::string(folder_prefix(index_)) + name;
  }

  // Takes the lock and checks the output files. Call it before anything is written.
  void begin() {
    lock_.emplace(single_ == stem_ ? index_ : single_);
    for (const std::string& path : paths_) check_output(path, if_exists_);
    check_output(index_, if_exists_);
    check_output(single_, if_exists_);
    for (const auto& [name, content] : beside_) check_output(path_of(name), if_exists_);
    if (const auto old = try_call([&] { return safetensors_index_files(FileTree(), index_); }))
      old_shards_ = old.value();
  }

  void commit(std::deque<AtomicFile>& files, std::span<const FilePlan> shards,
              std::span<const TensorSource> sources) const {
    check_output(is_set() ? single_ : index_, if_exists_);  // it may have appeared meanwhile
    // First, so that a new folder is complete once its tensors are in place. If this replaces a
    // checkpoint, a crash in between mixes old and new files. So would any other order.
    for (const auto& [name, content] : beside_) {
      AtomicFile file(path_of(name));
      file.append(as_bytes(content));
      file.commit_output(if_exists_);
    }
    if (!is_set()) {
      files.front().commit_output(if_exists_);
    } else {
      std::vector<AtomicFile*> data;
      for (AtomicFile& file : files) {
        file.finish();
        data.push_back(&file);
      }
      FileSet set{.paths = paths_,
                  .interim = interim_paths(),
                  .index = index_,
                  .place = commit_each(data, if_exists_),
                  .write_index = {}};
      set.write_index = [&](AtomicFile& file, bool interim) {
        file.append(as_bytes(index_text(shards, sources, interim ? set.interim : set.paths)));
      };
      place_set(set, if_exists_);
    }
    if (if_exists_ == IfExists::kReplace)
      with_context(
          [&] {
            return paths_.front() + ": is in place, but files of the previous checkpoint remain";
          },
          [&] { remove_old(); });
  }

  // Of the names in an old index: the paths of those that are shards of this set, and that the new
  // set lacks.
  [[nodiscard]] std::vector<std::string> old_shards(const std::vector<std::string>& names) const {
    const std::string folder(folder_prefix(index_));
    std::vector<std::string> old;
    for (const std::string& name : names)
      if (save_lock_path(folder + name) == index_ &&
          std::ranges::find(paths_, folder + name) == paths_.end())
        old.push_back(folder + name);
    return old;
  }

 private:
  // Unused paths: their tag is random.
  [[nodiscard]] std::vector<std::string> interim_paths() const {
    const std::string tag = fmt::format("{:x}", std::random_device()());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      names.push_back(safetensors_interim_path(stem_, tag, i, paths_.size()));
    return names;
  }

  // Removes the index first, because it would name files that no longer exist.
  void remove_old() const {
    remove_output(is_set() ? single_ : index_);
    for (const std::string& path : old_shards(old_shards_)) remove_output(path);
    const std::string folder(folder_prefix(index_));
    const Directory directory = Directory::open(folder.empty() ? "." : folder);
    const std::string stem = stem_.substr(folder.size());
    for (const DirectoryEntry& entry : directory.list())
      if (is_safetensors_interim(entry.name, stem)) remove_output(folder + entry.name);
  }

  static void remove_output(const std::string& path) {
    check_output(path, IfExists::kReplace);
    remove_file(path);
  }

  std::string single_, stem_, index_;
  IfExists if_exists_;
  const std::vector<std::pair<std::string, std::string>>& beside_;
  std::vector<std::string> paths_;
  std::vector<std::string> old_shards_;  // the names in the old index, relative to its folder
  std::optional<OutputLock> lock_;
};

// The same files in a store. In `output()`, those of
// SafetensorsWriteOptions::beside follow them.
class StoredOutput {
 public:
  StoredOutput(const OutputPlace& place, const Output& names, std::span<const FileHead> heads,
               const SafetensorsWriteOptions& options)
      : place_(place), names_(names), if_exists_(options.if_exists), beside_(options.beside) {
    std::vector<OutputFile> files;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const auto& tensors = heads[i].header.tensors;
      const std::uint64_t data = tensors.empty() ? 0 : tensors.back().end;
      files.push_back({names.paths()[i], heads[i].bytes.size() + data});
    }
    for (const auto& [name, content] : beside_)
      files.push_back({names.path_of(name), content.size()});
    output_.emplace(place, files, names.is_set() ? names.index() : "", if_exists_);
  }
  [[nodiscard]] StoreOutput& output() { return *output_; }

  void begin() {
    if (if_exists_ == IfExists::kReplace) find_old_shards();
    output_->begin({names_.single(), names_.index()});
  }

  void commit(std::span<const FilePlan> shards, std::span<const TensorSource> sources) {
    for (std::size_t i = 0; i < beside_.size(); ++i)
      (*output_)[shards.size() + i].append(as_bytes(beside_[i].second));
    if (names_.is_set())
      output_->commit(as_bytes(index_text(shards, sources, names_.paths())));
    else
      output_->commit();
    if (if_exists_ == IfExists::kFail) return;
    // The index first, because it would name files that no longer exist.
    output_->remove_old({names_.is_set() ? names_.single() : names_.index()});
    output_->remove_old(old_shards_);
  }

 private:
  void find_old_shards() {
    const auto old = place_.store()->read_at_most(place_.key_of(names_.index()), kMaxIndexBytes);
    if (!old) return;
    const auto names = try_call([&] { return safetensors_index_files(as_text(*old)); });
    if (names) old_shards_ = names_.old_shards(names.value());
  }

  const OutputPlace& place_;
  const Output& names_;
  IfExists if_exists_;
  const std::vector<std::pair<std::string, std::string>>& beside_;
  std::vector<std::string> old_shards_;
  std::optional<StoreOutput> output_;
};

}  // namespace

// The interface takes a copy.
// NOLINTBEGIN(performance-unnecessary-value-param)
std::vector<std::string> write_safetensors(const std::string& path,
                                           std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options) {
  return write_safetensors(OutputPlace(path, options.store), tensors, fetch, options);
}
// NOLINTEND(performance-unnecessary-value-param)

std::vector<std::string> write_safetensors(const OutputPlace& place,
                                           const std::vector<TensorSource>& tensors,
                                           const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  const Workers workers(options.resources.threads);
  std::vector<FilePlan> shards;
  std::vector<FileHead> heads;
  group.step("write: plan", distributed::StepKind::kControl, [&] {
    check_metadata(options);
    check_beside(options);
    shards = plan_files(tensors, options);
    for (FilePlan& shard : shards) heads.push_back(head_of(shard, tensors, options));
  });
  Output output(place.path(), shards.size(), options);
  std::optional<StoredOutput> stored;
  if (!place.is_local()) stored.emplace(place, output, heads, options);
  SharedFiles files = stored ? SharedFiles(group, stored->output(), 0, [&] { stored->begin(); })
                             : SharedFiles(group, output.paths(), [&] { output.begin(); });
  files.write([&] {
    std::vector<Placement> placements;
    placements.reserve(tensors.size());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      place_shard(shards[i], heads[i], tensors, files[i], placements);
      if (files.is_primary()) files[i].write_at(0, heads[i].bytes);
    }
    write_pieces(files.share_of(placements), fetch,
                 {.executor = &workers.executor(),
                  .memory = options.resources.memory,
                  .progress = options.progress,
                  .observe = {}});
    return Bytes();
  });
  files.commit([&] {
    if (stored)
      stored->commit(shards, tensors);
    else
      output.commit(files.temporaries(), shards, tensors);
  });
  std::vector<std::string> paths = output.paths();
  if (output.is_set()) paths.push_back(output.index());
  return paths;
}

}  // namespace cairn::inline v0
