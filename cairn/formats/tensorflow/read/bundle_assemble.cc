#include <cairn/formats/tensorflow/read/bundle_assemble.h>

#include <cairn/array/box.h>
#include <cairn/base/checksum.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/hash.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/raw/spare_bits.h>
#include <cairn/formats/tensorflow/index/bundle_entry_bytes.h>
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/read/bundle_names.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// The data files of the tensors. A missing file does not prevent reading the others.
class DataFiles {
 public:
  DataFiles(const FileTree& tree, std::string prefix, std::int32_t count)
      : tree_(tree), prefix_(std::move(prefix)), count_(count) {}

  struct Data {
    std::uint32_t file = 0;  // into files()
    std::uint64_t size = 0;
    std::optional<Error> missing;  // why it cannot be read
  };
  const Data& of(std::int32_t shard) {
    const auto [it, added] = known_.try_emplace(shard);
    if (!added) return it->second;
    try {
      File file = with_read_ahead(tree_.open(path(shard)));
      if (is_lfs_pointer(file))
        throw Error(Code::kDataLoss, path(shard) + " " + std::string(kIsLfsPointer));
      it->second = {.file = static_cast<std::uint32_t>(files_.size()),
                    .size = file.size(),
                    .missing = std::nullopt};
      files_.push_back(std::move(file));
    } catch (const Error& error) {
      // It has been replaced: what the index says is about another file.
      if (error.code() == Code::kUnavailable) throw;
      it->second.missing = error;
    }
    return it->second;
  }
  [[nodiscard]] std::string path(std::int32_t shard) const {
    return bundle_data_path(prefix_, static_cast<std::uint64_t>(shard),
                            static_cast<std::uint64_t>(count_));
  }
  std::vector<File> take() { return std::move(files_); }
  // The files that do not exist, by shard.
  [[nodiscard]] std::vector<std::int32_t> lost() const {
    std::vector<std::int32_t> shards;
    for (const auto& [shard, data] : known_)
      if (is_absent(data)) shards.push_back(shard);
    return shards;
  }
  // Whether such a file has bytes of the tensor.
  [[nodiscard]] bool is_lost(const BundleTensor& tensor) const {
    const auto is_lost = [&](const BundleEntry& entry) {
      const auto found = known_.find(entry.shard);
      return found != known_.end() && is_absent(found->second);
    };
    return tensor.parts.empty() ? is_lost(tensor.entry)
                                : std::ranges::any_of(tensor.parts, is_lost, &BundlePart::entry);
  }

 private:
  static bool is_absent(const Data& data) {
    return data.missing && data.missing->code() == Code::kNotFound;
  }

  FileTree tree_;
  std::string prefix_;
  std::int32_t count_;
  std::map<std::int32_t, Data> known_;
  std::vector<File> files_;
};

// Locates the bytes of an entry; sets `error` if they are not available.
RawArray locate(const BundleEntry& entry, bool big_endian, DataFiles& data,
                std::optional<Error>& error) {
  RawArray array;
  const DataFiles::Data& in = data.of(entry.shard);
  const RawRun run{in.file, static_cast<std::uint64_t>(entry.offset),
                   static_cast<std::uint64_t>(entry.size)};
  if (in.missing)
    error = in.missing;
  else if (run.offset > in.size || run.length > in.size - run.offset)
    error.emplace(
        Code::kDataLoss,
        fmt::format("its bytes {} to {} are beyond the end of {}, which has {}", run.offset,
                    run.offset + run.length, data.path(entry.shard), in.size));
  if (error) return array;
  const std::uint32_t crc = crc32c_unmasked(entry.crc32c);
  const auto count = static_cast<std::uint64_t>(element_count(entry.shape));
  if (entry.dtype == kBundleString) {
    array.stream = std::make_shared<StringEntry>(run, count, big_endian, crc);
    return array;
  }
  if (entry.dtype == kBundleVariant) {
    array.stream = std::make_shared<VariantEntry>(run, count, crc);
    return array;
  }
  array.runs.push_back(run);
  array.big_endian = big_endian;
  const std::optional<DType> dtype = bundle_type(entry.dtype)->dtype;
  array.spare_bits = dtype && has_spare_bits(*dtype);
  array.checksum = RawChecksum{&kCrc32c, 0, crc};
  return array;
}

// The bytes of a scalar string without the stored length and checksum before them.
std::uint64_t string_bytes(std::int64_t size) {
  const auto whole = static_cast<std::uint64_t>(size);
  for (std::uint64_t digits = 1; digits <= 10 && digits + 4 <= whole; ++digits) {
    const std::uint64_t length = whole - 4 - digits;
    if (length >> (7 * digits - 7) != 0 || digits == 1)
      if (digits == 10 || length >> (7 * digits) == 0) return length;
  }
  return 0;
}

void describe(const BundleTensor& tensor, TensorInfo& info) {
  const BundleType& type = *bundle_type(tensor.entry.dtype);
  const bool is_string = tensor.entry.dtype == kBundleString;
  info.kind = is_string ? LeafKind::kString : LeafKind::kArray;
  info.typestr = tensor.name == kObjectGraphKey ? "object_graph"
                 : is_string                    ? "string"
                                                : "np.ndarray";
  info.dtype = type.dtype.value_or(DType::kOpaque);
  info.dtype_name = type.dtype ? dtype_name(*type.dtype) : type.name;
  info.element_size = type.size;
  info.shape = tensor.entry.shape;
  info.nbytes = static_cast<std::uint64_t>(element_count(info.shape)) * type.size;
  if (tensor.entry.dtype != kBundleVariant) return;
  info.error = "elements of type variant, which are TensorFlow's own, cannot be read";
  info.error_code = Code::kUnimplemented;
}

// Returns a leaf without its name, which the caller moves in. Adds the slices that cannot be read
// to `lost`.
RawLeaf make_leaf(const BundleTensor& tensor, const BundleHeader& header, DataFiles& data,
                  std::vector<BundleLost>& lost) {
  RawLeaf leaf;
  describe(tensor, leaf.info);
  const auto add = [&](const Box& box, const BundleEntry& entry) {
    leaf.info.stored_nbytes += static_cast<std::uint64_t>(entry.size);
    std::optional<Error> error;
    RawArray array = locate(entry, header.big_endian, data, error);
    if (error)
      lost.push_back({box, error->message(), error->code()});
    else
      leaf.slices->push_back({.array = std::move(array), .box = box});
  };
  leaf.slices.emplace();
  if (tensor.entry.slices.empty()) add(Box::whole(tensor.entry.shape), tensor.entry);
  for (const BundlePart& part : tensor.parts) add(part.box, part.entry);
  for (const Box& box : tensor.lost_slices)
    lost.push_back({box, "the entry of the slice in the index is lost"});
  if (!tensor.parts.empty()) leaf.info.chunk_shape = tensor.parts.front().box.shape;
  if (leaf.info.is_string())
    leaf.info.nbytes = leaf.info.shape.empty() && tensor.parts.empty()
                           ? string_bytes(tensor.entry.size)
                           : leaf.info.stored_nbytes;
  if (leaf.slices->empty() && !lost.empty()) {
    leaf.info.error = lost.front().why;
    leaf.info.error_code = lost.front().code;
    leaf.info.kind = LeafKind::kUnknown;
    leaf.info.dtype_name.clear();
  }
  return leaf;
}

// Adds the notes for verify about a tensor that is incomplete.
void note_gaps(const BundleTensor& tensor, const std::vector<BundleLost>& all_lost,
               const std::string& index_path, std::vector<Finding>& notes) {
  const auto note = [&](Severity severity, std::string message) {
    notes.push_back({.severity = severity,
                     .tensor = tensor.name,
                     .file = index_path,
                     .offset = 0,
                     .message = std::move(message)});
  };
  for (const BundleLost& lost : all_lost)
    note(severity_of(lost.code),
         tensor.entry.slices.empty() ? lost.why : box_text(lost.box) + ": " + lost.why);
  if (tensor.entry.slices.empty()) return;
  std::int64_t stored = 0;
  for (const BundlePart& part : tensor.parts) stored += element_count(part.box.shape);
  const std::int64_t all = element_count(tensor.entry.shape);
  if (stored != all)
    note(Severity::kDamage, fmt::format("its slices hold {} of its {} elements", stored, all));
}

}  // namespace

std::unique_ptr<BundleCheckpoint> assemble_bundle(const FileTree& tree, const BundlePlace& place,
                                                  File index_file, BundleIndex index,
                                                  const OpenOptions& options) {
  RawCheckpoint::Contents contents;
  BundleCheckpoint::LostSlices all_lost;
  const std::string index_path = bundle_index_path(place.prefix);
  DataFiles data(tree, place.prefix, index.header.shards);
  contents.reserve(index.tensors.size());
  std::uint64_t checksums = index.tensors.size();
  for (BundleTensor& tensor : index.tensors) {
    checksums = splitmix64(checksums ^ tensor.entry.crc32c);
    for (const BundlePart& part : tensor.parts)
      checksums = splitmix64(checksums ^ part.entry.crc32c);
    if (!tensor.why_lost.empty()) {
      contents.add(lost_leaf(std::move(tensor.name), Error(Code::kDataLoss, tensor.why_lost)));
      continue;
    }
    std::vector<BundleLost> lost;
    RawLeaf leaf = make_leaf(tensor, index.header, data, lost);
    note_gaps(tensor, lost, index_path, contents.notes);
    if (options.allow_missing && data.is_lost(tensor)) continue;
    leaf.info.name = std::move(tensor.name);
    contents.add(std::move(leaf));
    if (!lost.empty()) all_lost.emplace(contents.tensors().size() - 1, std::move(lost));
  }
  index.tensors = {};
  std::vector<std::string_view> keys;
  keys.reserve(contents.tensors().size());
  for (const TensorInfo& tensor : contents.tensors()) keys.push_back(tensor.name);
  std::vector<KeyPath> paths = bundle_paths(keys);
  for (std::size_t i = 0; i < paths.size(); ++i) contents.tensors()[i].path = std::move(paths[i]);
  CheckpointInfo info;
  for (const std::int32_t shard : data.lost()) {
    const std::string file = data.path(shard);
    info.missing.push_back(
        {"", file, index_path,
         fmt::format("{}: the data file is missing, though {} lists tensors in it", file,
                     name_of(index_path)),
         !options.allow_missing});
    info.warnings.push_back(info.missing.back().text);
  }
  info.allow_missing = options.allow_missing;
  contents.files = data.take();
  contents.indexes.push_back(std::move(index_file));
  info.format = "tensorflow";
  info.layout = "TensorFlow checkpoint";
  info.path = place.prefix;
  if (!place.found_by.empty()) info.layout += ", " + place.found_by;
  info.step = place.step;
  info.revision.emplace_back("the checksums", fmt::format("{:016x}", checksums));
  info.facts.emplace_back("data files", std::to_string(index.header.shards));
  info.facts.emplace_back("byte order", index.header.big_endian ? "big-endian" : "little-endian");
  return std::make_unique<BundleCheckpoint>(options, std::move(info), std::move(contents),
                                            std::move(all_lost));
}

}  // namespace cairn::inline v0
