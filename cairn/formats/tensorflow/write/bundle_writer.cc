// bundle_writer.cc -- lays out the data files, writes the values in bounded memory, and builds the
// index from their checksums.
#include <cairn/formats/tensorflow/write/bundle_writer.h>

#include <cairn/array/box.h>
#include <cairn/base/checksum.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/file_set.h>
#include <cairn/formats/files/output_lock.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/formats/raw/part_checksums.h>
#include <cairn/formats/raw/spare_bits.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>
#include <cairn/formats/tensorflow/index/sstable_writer.h>
#include <cairn/formats/tensorflow/write/bundle_place.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/output_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kOpenFiles = 256;  // files that are written at the same time
// bytes of strings per write
constexpr std::size_t kStringRun = std::size_t{1} << 20U;
constexpr std::int32_t kProducer = 1;  // the version of the format that this writes

// Bytes at a position in a data file.
struct Stored {
  std::size_t source;
  std::optional<Box> part;  // in the source's coordinates
  std::size_t file;
  BundleEntry* entry;  // its entry in the index; the checksum is filled in later
};
using Index = std::map<std::string, BundleEntry>;

std::vector<std::string_view> strings_of(const BundleSource& source,
                                         const std::optional<Box>& part) {
  const Box box = part ? *part : Box::whole(source.shape);
  std::vector<std::string_view> strings;
  const std::vector<std::int64_t> strides = c_strides(source.shape, 1);
  const std::int64_t first =
      std::inner_product(strides.begin(), strides.end(), box.origin.begin(), std::int64_t{0});
  for_each_element(box.shape, strides, [&](std::int64_t offset) {
    strings.push_back(source.strings[static_cast<std::size_t>(first + offset)]);
  });
  return strings;
}

BundleStringsHead head_of(const std::vector<std::string_view>& strings) {
  std::vector<std::uint64_t> lengths;
  lengths.reserve(strings.size());
  for (const std::string_view text : strings) lengths.push_back(text.size());
  return encode_bundle_strings(lengths);
}

void check_source(const BundleSource& source) {
  if (source.key.empty()) throw Error(Code::kInvalidArgument, "a tensor has no name");
  if (source.type == kBundleString &&
      static_cast<std::int64_t>(source.strings.size()) != element_count(source.shape))
    throw Error(Code::kInvalidArgument,
                fmt::format("found {} strings for shape {}", source.strings.size(),
                            shape_text(source.shape)));
}

// The whole layout: every entry of the index, without the checksums.
class Layout {
 public:
  Layout(const std::vector<BundleSource>& sources, const BundlePlan& plan) : sources_(sources) {
    for (std::size_t file = 0; file < plan.size(); ++file) {
      std::int64_t offset = 0;
      for (const BundlePiece& piece : plan[file])
        with_context([&] { return "tensor '" + sources_.at(piece.source).key + "'"; },
                     [&] { place(piece, file, offset); });
    }
  }
  [[nodiscard]] const std::vector<Stored>& stored() const { return stored_; }
  [[nodiscard]] const Index& index() const { return index_; }

 private:
  void place(const BundlePiece& piece, std::size_t file, std::int64_t& offset) {
    const BundleSource& source = sources_[piece.source];
    check_source(source);
    const Shape& shape = piece.part ? piece.part->shape : source.shape;
    BundleEntry entry{.dtype = source.type,
                      .shape = shape,
                      .shard = static_cast<std::int32_t>(file),
                      .offset = offset};
    entry.size = size_of(source, piece.part);
    offset += entry.size;
    stored_.push_back({piece.source, piece.part, file, add_entry(source, piece.part, entry)});
  }

  static std::int64_t size_of(const BundleSource& source, const std::optional<Box>& part) {
    if (source.type != kBundleString)
      return element_count(part ? part->shape : source.shape) *
             static_cast<std::int64_t>(bundle_type(source.type)->size);
    const auto strings = strings_of(source, part);
    std::uint64_t size = head_of(strings).bytes.size();
    for (const std::string_view text : strings) size += text.size();
    return static_cast<std::int64_t>(size);
  }

  // Adds an entry under the tensor's key. A slice goes under its slice key instead, and the
  // tensor's entry lists the slice.
  BundleEntry* add_entry(const BundleSource& source, const std::optional<Box>& part,
                         const BundleEntry& entry) {
    const Shape& full = source.origin ? source.full_shape : source.shape;
    Box box = part ? *part : Box::whole(source.shape);
    if (source.origin)
      for (std::size_t d = 0; d < box.rank(); ++d) box.origin[d] += (*source.origin)[d];
    check_inside(box, full);
    if (box == Box::whole(full)) return add(source.key, entry);
    TensorSlice slice;
    for (std::size_t d = 0; d < box.rank(); ++d) slice.push_back({box.origin[d], box.shape[d]});
    // TensorFlow merges one file after another and leaves the number of the first file that has a
    // slice.
    const auto [whole, is_new] = index_.try_emplace(
        source.key, BundleEntry{.dtype = entry.dtype, .shape = full, .shard = entry.shard});
    if (!is_new && (whole->second.slices.empty() || whole->second.dtype != entry.dtype ||
                    whole->second.shape != full))
      throw Error(Code::kInvalidArgument, "two tensors have this name");
    whole->second.slices.push_back(slice);
    return add(slice_key(source.key, slice), entry);
  }
  BundleEntry* add(const std::string& key, const BundleEntry& entry) {
    const auto [at, is_new] = index_.try_emplace(key, entry);
    if (!is_new)
      throw Error(Code::kInvalidArgument,
                  "two tensors have this name, or two slices of it are equal");
    return &at->second;
  }

  const std::vector<BundleSource>& sources_;
  Index index_;
  std::vector<Stored> stored_;
};

// Appends to a file from an offset on, in runs, and computes the checksum of all bytes.
class StringRuns {
 public:
  StringRuns(ByteTarget& file, std::uint64_t offset) : file_(file), offset_(offset) {}
  void put(ByteView bytes) {
    if (run_.size() + bytes.size() > kStringRun) flush();
    if (bytes.size() <= kStringRun) {
      run_.insert(run_.end(), bytes.begin(), bytes.end());
    } else {
      file_.write_at(offset_, bytes);
      offset_ += bytes.size();
    }
  }
  void flush() {
    file_.write_at(offset_, run_);
    offset_ += run_.size();
    run_.clear();
  }

 private:
  ByteTarget& file_;
  std::uint64_t offset_;
  Bytes run_;
};

// Writes the strings and returns the checksum of the entry, not masked.
std::uint32_t write_strings(const BundleSource& source, const Stored& stored, ByteTarget& file) {
  const auto strings = strings_of(source, stored.part);
  const BundleStringsHead head = head_of(strings);
  StringRuns runs(file, static_cast<std::uint64_t>(stored.entry->offset));
  runs.put(head.bytes);
  std::uint32_t crc = head.crc;
  for (const std::string_view text : strings) {
    crc = crc32c_extend(crc, as_bytes(text));
    runs.put(as_bytes(text));
  }
  runs.flush();
  return crc;
}

class BundleWriter {
 public:
  BundleWriter(const std::vector<BundleSource>& sources, const Layout& layout, const FetchFn& fetch,
               const BundleWriteOptions& options)
      : sources_(sources),
        stored_(layout.stored()),
        fetch_(fetch),
        options_(options),
        workers_(options.resources.threads) {
    for (const Stored& stored : stored_)
      if (!is_string(stored)) total_ += static_cast<std::uint64_t>(stored.entry->size);
  }

  // The range of stored items in the files [first, first + count).
  [[nodiscard]] std::pair<std::size_t, std::size_t> stored_in(std::size_t first,
                                                              std::size_t count) const {
    const auto before = [&](std::size_t file) {
      const auto at = std::partition_point(stored_.begin(), stored_.end(),
                                           [&](const Stored& s) { return s.file < file; });
      return static_cast<std::size_t>(at - stored_.begin());
    };
    return {before(first), before(first + count)};
  }

  [[nodiscard]] Executor& workers() const { return workers_.executor(); }

  // Writes this process's share of these files. Returns the message with its checksums; items count
  // from the first one stored in these files.
  Bytes write(SharedFiles& files, std::size_t first, std::size_t count) {
    const auto [begin, end] = stored_in(first, count);
    std::vector<Placement> placements;
    for (std::size_t i = begin; i < end; ++i)
      if (!is_string(stored_[i]))
        placements.push_back(placement_of(i, files[stored_[i].file - first]));
    const std::vector<Placement> mine = files.share_of(placements);
    write_strings_of(files, first, count);
    std::deque<PartChecksums> parts;
    for (std::size_t i = begin; i < end; ++i) parts.emplace_back(kCrc32c);
    const std::size_t start = begin;
    const PieceWriterOptions options = {
        .executor = &workers_.executor(),
        .memory = options_.resources.memory,
        .progress = progress(total_ / files.share().count),
        .observe = [&, start](std::size_t i, std::uint64_t offset, ByteView bytes) {
          parts[mine[i].tensor - start].add(offset, bytes);
        }};
    write_pieces(
        mine, [&](std::span<const TensorPiece> pieces) { fetch_stored(pieces); }, options);
    for (const Placement& placement : mine) done_before_ += placement.nbytes;
    return checksums_message(parts);
  }

 private:
  [[nodiscard]] bool is_string(const Stored& stored) const {
    return sources_[stored.source].type == kBundleString;
  }

  void write_strings_of(SharedFiles& files, std::size_t first, std::size_t count) {
    if (!files.is_primary()) return;
    const auto [begin, end] = stored_in(first, count);
    for (std::size_t i = begin; i < end; ++i) {
      const Stored& stored = stored_[i];
      if (is_string(stored))
        stored.entry->crc32c =
            write_strings(sources_[stored.source], stored, files[stored.file - first]);
    }
  }

  [[nodiscard]] ProgressFn progress(std::uint64_t total) const {
    if (!options_.progress) return {};
    return [this, total](std::uint64_t done, std::uint64_t) {
      options_.progress(done_before_ + done, std::max(total, done_before_ + done));
    };
  }

  [[nodiscard]] Placement placement_of(std::size_t index, ByteTarget& file) const {
    const Stored& stored = stored_[index];
    const BundleSource& source = sources_[stored.source];
    return {.tensor = index,
            .file = &file,
            .offset = static_cast<std::uint64_t>(stored.entry->offset),
            .nbytes = static_cast<std::uint64_t>(stored.entry->size),
            .element_size = bundle_type(source.type)->size,
            .cut = stored.part ? 0 : source.cut};
  }

  // Fetches pieces of stored items as pieces of the sources.
  void fetch_stored(std::span<const TensorPiece> pieces) const {
    std::vector<TensorPiece> wanted;
    wanted.reserve(pieces.size());
    for (const TensorPiece& piece : pieces) {
      const Stored& stored = stored_[piece.tensor];
      wanted.push_back(
          {stored.source, piece.offset, piece.out, stored.part ? &*stored.part : nullptr});
    }
    fetch_(wanted);
    for (const TensorPiece& piece : wanted)
      if (const auto dtype = bundle_type(sources_[piece.tensor].type)->dtype;
          dtype && has_spare_bits(*dtype))
        clear_spare_bits(
            make_view(piece.out, *dtype, {static_cast<std::int64_t>(piece.out.size())}));
  }

  const std::vector<BundleSource>& sources_;
  const std::vector<Stored>& stored_;
  const FetchFn& fetch_;
  const BundleWriteOptions& options_;
  Workers workers_;
  std::uint64_t total_ = 0, done_before_ = 0;
};

void write_index(ByteTarget& file, const Index& index, std::size_t shards) {
  SstableWriter table(file);
  table.add("", encode_bundle_header(
                    {.shards = static_cast<std::int32_t>(shards), .producer = kProducer}));
  for (const auto& [key, entry] : index) table.add(key, encode_bundle_entry(entry));
  table.finish();
}

// The data files and their sizes.
std::vector<OutputFile> files_of(const std::vector<std::string>& paths, const Layout& layout) {
  std::vector<OutputFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back({path, 0});
  for (const Stored& stored : layout.stored())
    files[stored.file].size += static_cast<std::uint64_t>(stored.entry->size);
  return files;
}

// Completes the set, and removes the data files of the one that it replaces.
void commit_to_store(const OutputPlace& place, StoreOutput& output,
                     const std::vector<std::string>& paths, const Index& index,
                     IfExists if_exists) {
  MemoryTarget bytes;
  write_index(bytes, index, paths.size());
  output.commit(bytes.bytes());
  if (if_exists == IfExists::kFail) return;
  std::vector<std::string> old;
  const std::string beginning = place.key_of(place.path()) + ".data-";
  for (const StoredValue& value : place.store()->list_level(beginning).values) {
    const std::string url = place.path() + value.key.substr(beginning.size() - 6);
    if (prefix_of_data(url) == place.path() && std::ranges::find(paths, url) == paths.end())
      old.push_back(url);
  }
  output.remove_old(old);
}

}  // namespace

std::vector<std::string> write_bundle(const OutputPlace& place,
                                      const std::vector<BundleSource>& sources,
                                      const BundlePlan& plan, const FetchFn& fetch,
                                      const distributed::ProcessGroup& group,
                                      const BundleWriteOptions& options) {
  const std::string& prefix = place.path();
  std::optional<Layout> layout;
  group.step("write: layout", distributed::StepKind::kControl,
             [&] { layout.emplace(sources, plan); });
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < plan.size(); ++i)
    paths.push_back(bundle_data_path(prefix, i, plan.size()));
  const IfExists if_exists = options.if_exists;
  std::optional<StoreOutput> output;
  if (!place.is_local())
    output.emplace(place, files_of(paths, *layout), bundle_index_path(prefix), if_exists);

  BundleWriter writer(sources, *layout, fetch, options);
  std::optional<OutputLock> lock;  // held by the primary only
  std::deque<SharedFiles> batches;
  std::vector<AtomicFile*> files;  // filled by the primary only
  for (std::size_t first = 0; first < plan.size(); first += kOpenFiles) {
    const std::size_t count = std::min(kOpenFiles, plan.size() - first);
    const auto begin = paths.begin() + static_cast<std::ptrdiff_t>(first);
    const auto allowed = [&] {
      if (first > 0) return;
      if (output) return output->begin();
      make_directories(parent_of(prefix));
      lock.emplace(bundle_index_path(prefix));
      check_output(bundle_index_path(prefix), if_exists);
      for (const std::string& path : paths) check_output(path, if_exists);
    };
    SharedFiles& batch =
        output ? batches.emplace_back(group, *output, first, allowed)
               : batches.emplace_back(
                     group,
                     std::vector<std::string>(begin, begin + static_cast<std::ptrdiff_t>(count)),
                     allowed);
    const auto messages = batch.write([&] { return writer.write(batch, first, count); });
    group.step("write: sync", distributed::StepKind::kIo, [&] {
      if (!group.is_primary()) return;
      const std::size_t start = writer.stored_in(first, count).first;
      join_checksums(kCrc32c, messages, [&](std::size_t i) -> std::uint32_t& {
        return layout->stored().at(start + i).entry->crc32c;
      });
      std::deque<AtomicFile>& local = batch.temporaries();
      writer.workers().for_each(local.size(), [&](std::size_t i) { local[i].finish(); });
      for (AtomicFile& file : local) files.push_back(&file);
    });
  }
  group.step("write: commit", distributed::StepKind::kIo, [&] {
    if (!group.is_primary()) return;
    for (const Stored& stored : layout->stored())
      stored.entry->crc32c = crc32c_masked(stored.entry->crc32c);
    if (output) return commit_to_store(place, *output, paths, layout->index(), if_exists);
    const auto write = [&](AtomicFile& file, std::size_t shards) {
      write_index(file, layout->index(), shards);
    };
    place_bundle(
        prefix,
        {.files = paths.size(), .place = commit_each(files, if_exists), .write_index = write},
        if_exists);
  });
  paths.push_back(bundle_index_path(prefix));
  return paths;
}

}  // namespace cairn::inline v0
