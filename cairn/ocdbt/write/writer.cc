// writer.cc -- the streams of changes, their net effect, and the commit.
#include <cairn/ocdbt/write/writer.h>

#include <cairn/base/executor.h>
#include <cairn/ocdbt/read/scan.h>
#include <cairn/ocdbt/write/commit.h>
#include <cairn/ocdbt/write/edits.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <map>

namespace cairn::inline v0::ocdbt {
namespace {

// Every lost race means that another writer has committed. So many in a row mean that something
// else is wrong.
constexpr int kMaxCommitAttempts = 10000;

void check_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyLength)
    throw Error(Code::kInvalidArgument,
                fmt::format("a key has {} bytes, expected 1 to {}", key.size(), kMaxKeyLength));
}

void check_config(const Config& config) {
  if (config.version_tree_arity_log2 == 0 || config.version_tree_arity_log2 > kMaxArityLog2)
    throw Error(Code::kInvalidArgument,
                fmt::format("version_tree_arity_log2={} is outside [1, {}]",
                            unsigned{config.version_tree_arity_log2}, kMaxArityLog2));
  if (config.max_inline_value_bytes > kMaxInlineValue)
    throw Error(Code::kInvalidArgument,
                fmt::format("max_inline_value_bytes={} exceeds the {} that readers accept",
                            config.max_inline_value_bytes, kMaxInlineValue));
  if (config.zstd_level && (*config.zstd_level < -131072 || *config.zstd_level > 22))
    throw Error(Code::kInvalidArgument,
                fmt::format("zstd level {} is outside [-131072, 22]", *config.zstd_level));
}

using Condition = std::function<bool(const KvStore&)>;

bool is_zero(const std::array<std::uint8_t, 16>& uuid) {
  return uuid == std::array<std::uint8_t, 16>{};
}

// Verifies that the committed values of another process exist before a new version refers to them.
void check_value_files(const KvStore& base, const std::map<std::string, std::uint64_t>& ends) {
  for (const auto& [file, end] : ends) {
    const auto size = base.size(file);
    if (!size)
      throw Error(Code::kDataLoss,
                  base.describe(file) + ": the tree refers to this data file, but it is missing");
    if (*size < end)
      throw Error(Code::kDataLoss,
                  fmt::format("{}: the tree refers to its first {} bytes, but it has {}",
                              base.describe(file), end, *size));
  }
}

}  // namespace

std::uint64_t commit_time_ns(const WriterOptions& options) {
  if (options.deterministic) return options.deterministic->commit_time_ns;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

struct Writer::Stream::State {
  // `large` writes the values that get a file of their own.
  State(DataWriter data_writer, DataWriter large_writer, FileSet& file_set,
        std::uint32_t most_inline, std::uint64_t least_large, std::atomic<std::uint64_t>& clock)
      : data(std::move(data_writer)),
        large(std::move(large_writer)),
        files(file_set),
        inline_limit(most_inline),
        own_file_bytes(least_large),
        sequence(clock) {}

  DataWriter data, large;
  FileSet& files;
  std::uint32_t inline_limit;
  std::uint64_t own_file_bytes;          // 0: no value gets a file of its own
  std::atomic<std::uint64_t>& sequence;  // orders the changes of all streams
  Arena arena;
  EditLog log;
};

Writer::Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Stream::~Stream() = default;

void Writer::Stream::write(std::string_view key, ByteView value) { write(key, {&value, 1}); }

void Writer::Stream::write(std::string_view key, std::span<const ByteView> parts,
                           const std::function<void()>& end) {
  check_key(key);
  std::uint64_t length = 0;
  for (const ByteView part : parts) length += part.size();
  LeafEntry entry{.key = state_->arena.keep(key)};
  if (length <= state_->inline_limit) {
    if (end) end();
    const MutableByteView copy = state_->arena.allocate(length);
    auto at = copy.begin();
    for (const ByteView part : parts) at = std::ranges::copy(part, at).out;
    entry.inline_value = copy;
  } else {
    const bool is_large = state_->own_file_bytes != 0 && length >= state_->own_file_bytes;
    DataWriter& writer = is_large ? state_->large : state_->data;
    const auto place = writer.append(parts, end);
    if (is_large) writer.finish();
    entry.file = place.file;
    entry.offset = place.offset;
    entry.length = length;
  }
  state_->log.edits.push_back({.entry = entry, .remove = false, .sequence = ++state_->sequence});
}

void Writer::Stream::refer(std::string_view key, const std::string& file, ByteRange range) {
  check_key(key);
  const LeafEntry entry{.key = state_->arena.keep(key),
                        .file = state_->files.add({.base_path = {}, .relative_path = file}),
                        .offset = range.offset,
                        .length = *range.length};
  state_->log.edits.push_back({.entry = entry, .remove = false, .sequence = ++state_->sequence});
}

void Writer::Stream::remove(std::string_view key) {
  check_key(key);
  state_->log.edits.push_back(
      {.entry = {.key = state_->arena.keep(key)}, .remove = true, .sequence = ++state_->sequence});
}

void Writer::Stream::remove_range(KeyRange range) {
  if (!range.last || range.first < *range.last)
    state_->log.removed.push_back({.range = std::move(range), .sequence = ++state_->sequence});
}

struct Writer::State {
  State(StorePtr store, WriterOptions given) : base(std::move(store)), options(std::move(given)) {
    if (options.config) check_config(*options.config);
    new_config = options.config.value_or(Config{});
    if (is_zero(new_config.uuid))
      new_config.uuid = options.deterministic ? options.deterministic->uuid : random_id();
    const DatabaseState found = read_state(*base);
    if (found.info) check_same(found);
    inline_limit = (found.info ? found.info->manifest.config : new_config).max_inline_value_bytes;
  }

  void check_same(const DatabaseState& found) const;
  [[nodiscard]] DataWriter make_writer(const std::string& prefix, std::uint64_t number);
  Stream& add_stream();
  void finish_streams();
  // Returns the writer for nodes. The first attempt reuses a value file that is still open.
  DataWriter& node_writer(const std::string& prefix, std::deque<DataWriter>& own);
  std::optional<CommittedVersion> attempt(const Edits& edits, const Condition& condition);
  void discard(const std::vector<std::string>& keys) noexcept;
  void discard_all() noexcept;

  StorePtr base;
  WriterOptions options;
  Config new_config;
  std::uint32_t inline_limit = 0;
  FileSet files;
  std::mutex mutex;  // guards `streams`
  std::deque<std::unique_ptr<Stream>> streams;
  std::atomic<std::uint64_t> sequence{0};
  std::uint64_t node_writers = 0;
  std::vector<std::string> node_files;  // of the current attempt; they contain no values
  std::vector<NodePtr> copied_leaves;
  bool committing = false;
  bool is_refused = false;        // by the condition of commit_if
  bool may_be_published = false;  // from here on, the manifest may refer to the writer's files
};

void Writer::State::check_same(const DatabaseState& found) const {
  if (!options.config) return;
  Config wanted = *options.config;
  const Config& actual = found.info->manifest.config;
  if (is_zero(wanted.uuid)) wanted.uuid = actual.uuid;
  with_context([&] { return base->describe(kManifestKey); },
               [&] { check_same_config(actual, wanted); });
  if (wanted.manifest_kind != found.info->kind)
    throw Error(Code::kFailedPrecondition,
                base->describe(kManifestKey) + ": configuration mismatch on manifest_kind");
}

DataWriter Writer::State::make_writer(const std::string& prefix, std::uint64_t number) {
  const auto seed =
      options.deterministic ? std::optional(options.deterministic->seed) : std::nullopt;
  return {base,
          files,
          {.prefix = prefix,
           .target_size = options.target_data_file_size,
           .seed = seed,
           .number = number,
           .memory = options.upload_memory / options.streams}};
}

Writer::Stream& Writer::State::add_stream() {
  constexpr std::uint64_t kOwnFiles = std::uint64_t{1} << 33U;  // above the numbers of all others
  const std::scoped_lock lock(mutex);
  const std::uint64_t number = streams.size();
  auto stream =
      std::make_unique<Stream::State>(make_writer(options.value_prefix, number),
                                      make_writer(options.value_prefix, kOwnFiles + number), files,
                                      inline_limit, options.own_file_bytes, sequence);
  streams.push_back(std::unique_ptr<Stream>(new Stream(std::move(stream))));
  return *streams.back();
}

void Writer::State::finish_streams() {
  std::vector<DataWriter*> open;
  for (auto& stream : streams)
    if (stream->state_->data.is_open()) open.push_back(&stream->state_->data);
  // A sync waits for the disk, and an upload for its answer, so finish all files in parallel.
  Workers(options.threads).executor().for_each(open.size(), [&](std::size_t i) {
    if (options.upload_memory > 0) expect_waiting(open.size());
    open[i]->finish();
  });
}

DataWriter& Writer::State::node_writer(const std::string& prefix, std::deque<DataWriter>& own) {
  for (auto& writer : own)
    if (writer.prefix() == prefix) return writer;
  for (auto& stream : streams)
    if (prefix == options.value_prefix && stream->state_->data.is_open())
      return stream->state_->data;
  constexpr std::uint64_t kNodes = std::uint64_t{1} << 32U;  // above the numbers of all streams
  own.push_back(make_writer(prefix, kNodes + node_writers++));
  return own.back();
}

// Returns nullopt if another writer committed first, or if the condition is false.
std::optional<CommittedVersion> Writer::State::attempt(const Edits& edits,
                                                       const Condition& condition) {
  const DatabaseState found = read_state(*base);
  // It may see a later version than `found`. Then the commit fails and is tried again.
  if (condition && !condition(*open_ocdbt(base))) {
    is_refused = true;
    return std::nullopt;
  }
  if (found.info) check_same(found);
  const Config config = found.info ? found.info->manifest.config : new_config;
  const ManifestKind kind = found.info ? found.info->kind : new_config.manifest_kind;
  const auto newest = found.newest();

  std::deque<DataWriter> own;
  NodeReader reader(base, options.threads);
  DataWriter& nodes = node_writer(options.btree_prefix, own);
  const NextVersion next{
      .root = TreeWriter(reader, files, nodes, config).write(newest ? &*newest : nullptr, edits),
      .commit_time_ns = ocdbt::commit_time_ns(options)};
  DataWriter& version_nodes = node_writer(options.version_prefix, own);
  const Manifest manifest = next_manifest(*base, found.info ? &found.info->manifest : nullptr,
                                          config, next, files, version_nodes);
  finish_streams();
  for (auto& writer : own) {
    writer.finish();
    node_files.insert(node_files.end(), writer.finished().begin(), writer.finished().end());
  }

  may_be_published = true;
  if (!publish(*base, found, manifest, kind)) {
    may_be_published = false;
    discard(node_files);
    node_files.clear();
    return std::nullopt;
  }
  const Version& version = manifest.versions.back();
  return CommittedVersion{.generation = version.generation,
                          .commit_time_ns = version.commit_time_ns,
                          .num_keys = version.statistics.num_keys};
}

void Writer::State::discard(const std::vector<std::string>& keys) noexcept {
  for (const auto& key : keys) {
    try {
      base->remove(key);
    } catch (const std::exception&) {  // the file stays, but nothing refers to it
      continue;
    }
  }
}

void Writer::State::discard_all() noexcept {
  for (const auto& stream : streams) {
    discard(stream->state_->data.finished());
    discard(stream->state_->large.finished());
  }
  discard(node_files);
}

Writer::Writer(StorePtr base, WriterOptions options)
    : state_(std::make_unique<State>(std::move(base), std::move(options))) {}

Writer::~Writer() {
  if (state_ && !state_->may_be_published) state_->discard_all();
}

Writer::Stream& Writer::stream() { return state_->add_stream(); }

void Writer::copy_database(const std::string& prefix) {
  State& s = *state_;
  const StorePtr child = prefix_store(s.base, prefix);
  const DatabaseState found = read_state(*child);
  if (!found.info)
    throw Error(Code::kNotFound, child->describe(kManifestKey) + ": there is no database to copy");
  const auto newest = found.newest();
  if (!newest || newest->empty()) return;
  // Read the other database as a part of this store: every base path begins with the prefix.
  NodeExpectation root = newest->expect_root();
  root.place.file.path.insert(0, prefix);
  root.place.file.base_length += prefix.size();
  NodeReader reader(s.base, s.options.threads);
  Stream& stream = s.add_stream();
  Stream::State& own = *stream.state_;
  std::map<std::string, std::uint64_t> ends;
  for (auto& [expected, leaf] : load_leaves(reader, root)) {
    for (std::size_t i = 0; i < leaf->node.keys.size(); ++i) {
      const LeafEntry entry = resolved_entry(expected, *leaf, i, s.files, own.arena);
      if (entry.is_inline() && entry.inline_value.size() > s.inline_limit) {
        stream.write(entry.key, entry.inline_value);
        continue;
      }
      if (!entry.is_inline()) {
        auto& end = ends[leaf->file(leaf->node.values[i].file).path];
        end = std::max(end, entry.offset + entry.length);
      }
      own.log.edits.push_back({.entry = entry, .remove = false, .sequence = ++s.sequence});
    }
    s.copied_leaves.push_back(std::move(leaf));
  }
  check_value_files(*s.base, ends);
}

CommittedVersion Writer::commit() { return *commit_if(nullptr); }

std::optional<CommittedVersion> Writer::commit_if(const Condition& condition) {
  State& s = *state_;
  if (s.committing) throw Error(Code::kFailedPrecondition, "the writer has already committed");
  s.committing = true;
  std::vector<EditLog*> logs;
  for (auto& stream : s.streams) logs.push_back(&stream->state_->log);
  const Edits edits = finalized(logs);
  for (int i = 0; i < kMaxCommitAttempts; ++i) {
    if (const auto committed = s.attempt(edits, condition)) return committed;
    if (s.is_refused) return std::nullopt;
  }
  throw Error(Code::kUnavailable,
              fmt::format("{}: other writers committed first {} times in a row; try again",
                          s.base->describe(kManifestKey), kMaxCommitAttempts));
}

}  // namespace cairn::inline v0::ocdbt
