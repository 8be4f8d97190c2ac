// writer.h -- one commit to a new or existing OCDBT database. Values go to data files as they
// arrive. Then one pass builds the changed part of the tree, and one write of the manifest makes
// the whole commit visible.
#pragma once

#include <cairn/ocdbt/format/manifest.h>
#include <cairn/storage/kvstore.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0::ocdbt {

// Fixed values for everything that is otherwise random or comes from the clock. Two runs that make
// the same calls on the same streams produce the same bytes.
struct Deterministic {
  std::array<std::uint8_t, 16> uuid{};  // of a new database
  // data file names derive from it; no two commits to a database may share it
  std::uint64_t seed = 0;
  std::uint64_t commit_time_ns = 0;
};

// Options of a Writer.
struct WriterOptions {
  // The configuration of a new database; a uuid of zeros means a random one. An existing database
  // must have the same configuration (a uuid of zeros matches any), else failed_precondition.
  // nullopt: TensorStore's defaults, or the existing configuration.
  std::optional<Config> config{};
  // Prefixes of the data file names, for each kind of object. Kinds with the same prefix share
  // files.
  std::string value_prefix = "d/";
  std::string btree_prefix = "d/";
  std::string version_prefix = "d/";
  // A data file that has reached this size is finished and the next one begun; 0: no limit.
  std::uint64_t target_data_file_size = std::uint64_t{2} << 30U;
  // A value of at least this size gets a data file of its own, so that later databases can share it
  // alone; 0: none does.
  std::uint64_t own_file_bytes = 0;
  std::optional<Deterministic> deterministic{};
  std::size_t threads = 0;  // as in Resources: for reading the tree and syncing the files
  // For a database in an object store: the bytes that the data files on their way may take in
  // memory together (of each stream at least 32 MiB). 0: it is on this machine.
  std::uint64_t upload_memory = 0;
  // The streams that share this memory.
  std::size_t streams = 1;
};

// Returns the time of a commit made now: nanoseconds since 1970, by the clock or as the options
// say.
std::uint64_t commit_time_ns(const WriterOptions& options);

// The result of a commit.
struct CommittedVersion {
  std::uint64_t generation = 0;
  std::uint64_t commit_time_ns = 0;
  std::uint64_t num_keys = 0;
};

// Collects changes and commits them. The base store must support conditional replacement. If the
// writer is destroyed without commit(), or the commit fails before the manifest is written, it
// removes the data files it has made. A crash can only leave files that nothing refers to.
class Writer {
 public:
  // A worker's own sequence of changes, with a data file of its own. Use one stream from one thread
  // at a time; different threads can use different streams freely. Of two changes to one key, on
  // any streams, the later call counts.
  class Stream {
   public:
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    // A key has 1 to 65535 bytes. A value of up to max_inline_value_bytes stays in memory until the
    // commit. A larger value has been passed to the data file when the call returns. `parts` are
    // concatenated; `end`, if not null, is called before the last part is read. Throws
    // invalid_argument for other key lengths.
    void write(std::string_view key, ByteView value);
    void write(std::string_view key, std::span<const ByteView> parts,
               const std::function<void()>& end = nullptr);
    // Adds a value that is already in a data file of the database. `file` is relative to the store;
    // the commit does not check that the value is there.
    void refer(std::string_view key, const std::string& file, ByteRange range);
    void remove(std::string_view key);
    void remove_range(KeyRange range);

   private:
    friend class Writer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  // Reads the database if it exists; its configuration decides which values are inline. Throws
  // data_loss for a damaged manifest.
  Writer(StorePtr base, WriterOptions options);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  // Makes a new stream, which lives as long as the writer. Safe to call from many threads.
  Stream& stream();
  // Adds all keys of the newest version of another database by reference: values stay in their
  // files, which must therefore be kept. That database lies in the same store below `prefix`
  // ("ocdbt.process_0/"). Throws not_found if it has no manifest, and data_loss if a file with
  // values is missing or too short. Do not call it while streams are in use.
  void copy_database(const std::string& prefix);
  // Makes a new version of all changes, on top of what others have committed meanwhile. Call it
  // once, when no stream is in use.
  CommittedVersion commit();
  // As commit(), if `condition` is true for the version on which the commit builds; it may be
  // called many times. Returns nullopt if it is false; then nothing has changed.
  std::optional<CommittedVersion> commit_if(
      const std::function<bool(const KvStore& newest)>& condition);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::inline v0::ocdbt
