// compact.cc -- copies the newest version into new files, and removes files that nothing refers to
// any more.
#include <cairn/ocdbt/write/compact.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/ocdbt/read/scan.h>
#include <cairn/ocdbt/write/commit.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>

namespace cairn::inline v0::ocdbt {
namespace {

constexpr int kMaxCompactAttempts = 100;
// Of a data file that is not on this machine, that many bytes are in memory at once, or one value.
constexpr std::uint64_t kMostLoaded = std::uint64_t{64} << 20U;
constexpr std::uint64_t kRequest = std::uint64_t{4} << 20U;  // bytes of one request
constexpr std::uint64_t kMostGap = std::uint64_t{1} << 20U;  // unused bytes that are loaded, too
constexpr std::size_t kIdDigits = 32;
constexpr std::chrono::seconds kMostCleanup{10};

using Listing = std::map<std::string, std::uint64_t>;  // key to size

// Returns the files of all versions. Throws data_loss if any is damaged, and io if any cannot be
// checked.
std::set<std::string> checked_files(const StorePtr& base) {
  VerifyReport report;
  std::set<std::string> files;
  check_database(base, report, files);
  throw_if_cancelled();  // the check takes a cancellation for something that it cannot read
  for (const auto& finding : report.findings) {
    if (finding.severity == Severity::kDamage)
      throw Error(Code::kDataLoss, fmt::format("{}: {}; Cairn does not compact a damaged database",
                                               finding.file, finding.message));
    if (finding.severity == Severity::kNotChecked)
      throw Error(Code::kIo,
                  fmt::format("{}: {}; Cairn compacts only a database that it can read completely",
                              finding.file, finding.message));
  }
  return files;
}

Listing list_all(const KvStore& base) {
  Listing listing;
  for (const auto& entry : base.list("")) listing.emplace(entry.key, entry.size);
  return listing;
}

// Returns the prefix of a data file's name; nullopt if `key` is not the name of a data file.
std::optional<std::string_view> name_prefix(std::string_view key) {
  if (key.size() < kIdDigits) return std::nullopt;
  const std::string_view id = key.substr(key.size() - kIdDigits);
  if (id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  return key.substr(0, key.size() - kIdDigits);
}

std::uint64_t stated_bytes(const DatabaseState& state) {
  const auto newest = state.newest();
  return newest ? newest->version.statistics.num_indirect_value_bytes : 0;
}

// Adds the copied bytes to a counter: together as many as the manifest states, also if the values
// have more or fewer. The destructor takes them back unless keep() has been called.
class CopiedBytes {
 public:
  CopiedBytes(Progress* progress, std::uint64_t stated) : progress_(progress), left_(stated) {}
  CopiedBytes(const CopiedBytes&) = delete;
  CopiedBytes& operator=(const CopiedBytes&) = delete;
  ~CopiedBytes() {
    if (progress_ != nullptr) progress_->done -= added_;
  }

  void add(std::uint64_t bytes) {
    bytes = std::min(bytes, left_);
    left_ -= bytes;
    if (progress_ == nullptr) return;
    added_ += bytes;
    progress_->done += bytes;
  }
  void keep() {
    add(left_);
    added_ = 0;
  }

 private:
  Progress* progress_;
  std::uint64_t left_;
  std::uint64_t added_ = 0;
};

// Rewrites the database in one given state.
class Rewrite {
 public:
  Rewrite(StorePtr base, const WriterOptions& options)
      : base_(std::move(base)),
        options_(options),
        workers_(options.threads),
        values_(writer(options.value_prefix, 0)),
        nodes_(writer(options.btree_prefix, 1)) {}

  // Returns false, and removes what it has written, if another process has committed meanwhile.
  bool run(const DatabaseState& state, CopiedBytes& copied) {
    try {
      write(state, copied);
    } catch (...) {
      const CancellationScope limited{Cancellation(std::stop_token(), kMostCleanup)};
      (void)try_call([&] { return discard(), true; });  // the first error is more informative
      throw;
    }
    // After an error from here on, the new manifest may be in place.
    if (publish(*base_, state, manifest_, state.info->kind)) return true;
    discard();
    return false;
  }
  [[nodiscard]] std::set<std::string> written() const {
    std::set<std::string> keys(values_.finished().begin(), values_.finished().end());
    keys.insert(nodes_.finished().begin(), nodes_.finished().end());
    return keys;
  }
  [[nodiscard]] const Version& version() const { return manifest_.versions.back(); }
  [[nodiscard]] const std::set<std::string, std::less<>>& keys() const { return keys_; }

 private:
  // Writes all data files, and makes the manifest that refers to them.
  void write(const DatabaseState& state, CopiedBytes& copied) {
    const auto newest = state.newest();
    std::vector<LeafAt> leaves;
    NodeReader reader(base_, options_.threads);
    if (newest && !newest->empty()) leaves = load_leaves(reader, newest->expect_root());
    Edits edits = entries_of(leaves);
    copy_values(edits, copied);
    const Config& config = state.info->manifest.config;
    DataWriter& nodes = options_.btree_prefix == options_.value_prefix ? values_ : nodes_;
    const NextVersion next{.root = TreeWriter(reader, files_, nodes, config).write(nullptr, edits),
                           .commit_time_ns = commit_time_ns(options_)};
    manifest_ = manifest_without_history(state.info->manifest, next, files_);
    values_.finish();
    nodes_.finish();
    throw_if_cancelled();
  }
  void discard() {
    for (const auto& key : written()) base_->remove(key);
  }
  DataWriter writer(const std::string& prefix, std::uint64_t number) {
    const auto seed =
        options_.deterministic ? std::optional(options_.deterministic->seed) : std::nullopt;
    return {base_,
            files_,
            {.prefix = prefix,
             .target_size = options_.target_data_file_size,
             .seed = seed,
             .number = number}};
  }
  Edits entries_of(const std::vector<LeafAt>& leaves) {
    Edits edits;
    for (const auto& [expected, leaf] : leaves)
      for (std::size_t i = 0; i < leaf->node.keys.size(); ++i) {
        edits.edits.push_back({.entry = resolved_entry(expected, *leaf, i, files_, arena_)});
        keys_.emplace(edits.edits.back().entry.key);
      }
    return edits;
  }
  using Entries = std::vector<LeafEntry*>;
  // The bytes of a data file from `begin` on, and the first entry that lies behind them.
  struct Loaded {
    SharedBytes bytes;
    std::uint64_t begin = 0;
    Entries::const_iterator end;
  };

  // Copies values in stored order: reads go forward, and a value that several keys share is copied
  // once.
  void copy_values(Edits& edits, CopiedBytes& progress) {
    Entries entries;
    for (auto& edit : edits.edits)
      if (!edit.entry.is_inline()) entries.push_back(&edit.entry);
    const auto place = [](const LeafEntry* e) { return std::tuple(e->file, e->offset, e->length); };
    std::ranges::sort(entries, {}, place);
    std::optional<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> before;
    DataWriter::Place copied;
    for (auto at = entries.cbegin(); at != entries.cend();) {
      const Loaded source = load(at, entries.cend());
      for (; at != source.end; ++at) {
        throw_if_cancelled();
        LeafEntry* const e = *at;
        if (before != place(e))
          copied = values_.append(source.bytes.bytes.subspan(e->offset - source.begin, e->length));
        before = place(e);
        e->file = copied.file;
        e->offset = copied.offset;
        progress.add(e->length);
      }
    }
  }
  // Loads the first value, and those behind it in the same file. The check has verified that they
  // lie inside the file.
  [[nodiscard]] Loaded load(Entries::const_iterator first, Entries::const_iterator last) const {
    const std::string path = resolve_file(files_[(*first)->file], {}).path;
    const std::uint64_t begin = (*first)->offset;
    const auto is_elsewhere = [&](const LeafEntry* e) { return e->file != (*first)->file; };
    const auto end_of_file = std::find_if(first, last, is_elsewhere);
    if (base_->locate(path)) {
      if (auto bytes = base_->map(path)) return {*std::move(bytes), 0, end_of_file};
      fail_missing(path);
    }
    std::uint64_t end = begin + (*first)->length;
    auto at = std::next(first);
    for (; at != end_of_file; ++at) {
      const std::uint64_t needed = std::max(end, (*at)->offset + (*at)->length);
      if ((*at)->offset > end + kMostGap || needed - begin > kMostLoaded) break;
      end = needed;
    }
    return {fetch(path, begin, end - begin), begin, at};
  }
  [[nodiscard]] SharedBytes fetch(const std::string& path, std::uint64_t begin,
                                  std::uint64_t length) const {
    const auto bytes = std::make_shared<Bytes>(length);
    const MutableByteView all(*bytes);
    workers_.executor().for_each((length + kRequest - 1) / kRequest, [&](std::size_t i) {
      const std::uint64_t from = i * kRequest;
      const MutableByteView part = all.subspan(from, std::min(kRequest, length - from));
      if (!base_->read_into(path, begin + from, part)) fail_missing(path);
    });
    return {bytes, *bytes};
  }
  [[noreturn]] void fail_missing(const std::string& path) const {
    throw Error(Code::kDataLoss, base_->describe(path) + ": the data file is missing");
  }

  StorePtr base_;
  const WriterOptions& options_;
  Workers workers_;
  FileSet files_;
  Arena arena_;
  DataWriter values_;
  DataWriter nodes_;
  Manifest manifest_;
  std::set<std::string, std::less<>> keys_;
};

// Returns the prefixes of databases below this one whose files this one refers to.
std::set<std::string> merged_databases(const std::set<std::string>& files, const Listing& listing) {
  std::set<std::string> prefixes;
  for (const auto& file : files)
    any_parent(file, [&](std::string_view folder) {
      const std::string prefix = std::string(folder) + '/';
      if (listing.contains(prefix + std::string(kManifestKey))) prefixes.insert(prefix);
      return false;
    });
  return prefixes;
}

bool holds_all_keys_of(const std::set<std::string, std::less<>>& keys, const StorePtr& other) {
  return std::ranges::all_of(open_ocdbt(other)->list(""),
                             [&](const ListEntry& e) { return keys.contains(e.key); });
}

// Decides which keys are removed, and in which order.
class Removal {
 public:
  Removal(StorePtr base, const Rewrite& rewrite, std::set<std::string> old_files, Orphans orphans)
      : base_(std::move(base)),
        rewrite_(rewrite),
        kept_(rewrite.written()),
        old_files_(std::move(old_files)) {
    listing_ = list_all(*base_);
    kept_.insert(std::string(kManifestKey));
    kept_.insert(numbered_manifest_key(rewrite_.version().generation));
    choose_merged();
    for (const auto& key : old_files_) choose(key);
    if (orphans == Orphans::kRemove) choose_orphans();
  }

  // Removes manifests before the data they refer to: a missing database is better than a damaged
  // one.
  void run() {
    base_->remove_all({first_.begin(), first_.end()});
    base_->remove_all({then_.begin(), then_.end()});
  }
  // `before` is the listing before compaction.
  void report(const Listing& before, Compacted& result) const {
    const auto add = [](const Listing& listing, const std::string& key, std::uint64_t& files,
                        std::uint64_t& bytes) {
      const auto at = listing.find(key);
      if (at == listing.end()) return;
      ++files;
      bytes += at->second;
    };
    for (const auto& key : old_files_) add(before, key, result.files_before, result.bytes_before);
    for (const auto& key : then_)
      if (!old_files_.contains(key)) add(before, key, result.files_before, result.bytes_before);
    for (const auto& key : kept_) add(listing_, key, result.files_after, result.bytes_after);
  }

 private:
  void choose(const std::string& key) {
    if (kept_.contains(key) || !listing_.contains(key)) return;
    for (const auto& prefix : other_databases_)
      if (key.starts_with(prefix)) return;
    (name_of(key).starts_with(kNumberedManifestPrefix) ? first_ : then_).insert(key);
  }
  void choose_merged() {
    for (const auto& prefix : merged_databases(old_files_, listing_)) {
      if (!holds_all_keys_of(rewrite_.keys(), prefix_store(base_, prefix))) {
        other_databases_.insert(prefix);
        continue;
      }
      for (auto at = listing_.lower_bound(prefix);
           at != listing_.end() && at->first.starts_with(prefix); ++at)
        choose(at->first);
    }
  }
  void choose_orphans() {
    std::set<std::string, std::less<>> prefixes;
    for (const auto* files : {&old_files_, &kept_})
      for (const auto& file : *files)
        if (const auto prefix = name_prefix(file)) prefixes.emplace(*prefix);
    for (const auto& [key, size] : listing_)
      if (const auto prefix = name_prefix(key); prefix && prefixes.contains(*prefix)) choose(key);
  }

  StorePtr base_;
  const Rewrite& rewrite_;
  std::set<std::string> kept_;
  std::set<std::string> old_files_;
  Listing listing_;
  std::set<std::string> other_databases_;  // that hold keys of their own
  std::set<std::string> first_, then_;
};

}  // namespace

Compacted compact(const StorePtr& base, const CompactOptions& options) {
  for (int i = 0; i < kMaxCompactAttempts; ++i) {
    const DatabaseState state = read_state(*base);
    if (!state.newest())
      throw Error(Code::kNotFound,
                  base->describe(kManifestKey) + ": there is no database to compact");
    std::set<std::string> old_files = checked_files(base);
    const Listing before = list_all(*base);
    Rewrite rewrite(base, options.writer);
    CopiedBytes copied(options.progress, stated_bytes(state));
    if (!rewrite.run(state, copied)) continue;
    copied.keep();
    Removal removal(base, rewrite, std::move(old_files), options.orphans);
    Compacted result;
    const Version& version = rewrite.version();
    result.version = {.generation = version.generation,
                      .commit_time_ns = version.commit_time_ns,
                      .num_keys = version.statistics.num_keys};
    removal.report(before, result);
    removal.run();
    return result;
  }
  throw Error(Code::kUnavailable,
              base->describe(kManifestKey) +
                  ": other writers keep committing; try again when they have stopped");
}

std::uint64_t expected_copy(const KvStore& base) {
  const auto state = try_call([&] { return read_state(base); });
  return state ? stated_bytes(state.value()) : 0;
}

}  // namespace cairn::inline v0::ocdbt
