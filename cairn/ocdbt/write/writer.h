// writer.h -- one commit to an OCDBT database, new or not: values go to data files as they come,
// then one pass builds the changed part of the tree, and one write of the manifest makes all of it
// visible at once.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/format/manifest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::ocdbt {

// What else would be random or the clock's: two runs that make the same calls on the same streams
// give the same bytes.
struct Deterministic {
  std::array<std::uint8_t, 16> uuid{};  // of a new database
  // data files' names follow from it; no two commits to a database may share it
  std::uint64_t seed = 0;
  std::uint64_t commit_time_ns = 0;
};

struct WriterOptions {
  // Of a new database; a uuid of zeros stands for a random one. A database that exists must have
  // the same (but for a uuid of zeros), else failed_precondition. Not given: TensorStore's
  // defaults, or whatever the database has.
  std::optional<Config> config{};
  // In front of the data files' names, for each kind of object; kinds with the same share files.
  std::string value_prefix = "d/";
  std::string btree_prefix = "d/";
  std::string version_prefix = "d/";
  // A data file that has reached it is finished and another one begun; 0: no limit.
  std::uint64_t target_data_file_size = std::uint64_t{2} << 30U;
  std::optional<Deterministic> deterministic{};
};

// When a commit made now happens: nanoseconds since 1970, by the clock or as the options say.
std::uint64_t commit_time_ns(const WriterOptions& options);

// What a commit has made.
struct CommittedVersion {
  std::uint64_t generation = 0;
  std::uint64_t commit_time_ns = 0;
  std::uint64_t num_keys = 0;
};

// The base store must be able to replace on a condition. Destroyed without commit(), or if the
// commit fails before the manifest is written, it removes the data files it has made; a crash can
// only leave files that nothing refers to.
class Writer {
 public:
  // A worker's own line of changes, with a data file of its own. One thread at a time uses a
  // stream; different streams are used by different threads freely. Of two changes to one key, on
  // whichever streams, the one called later counts.
  class Stream {
   public:
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    // Keys have 1 to 65535 bytes. Values up to max_inline_value_bytes are kept in memory until the
    // commit; larger ones are on their way to the data file when this returns. The parts of a value
    // are put together.
    void write(std::string_view key, ByteView value);
    void write(std::string_view key, std::span<const ByteView> parts);
    void remove(std::string_view key);
    void remove_range(KeyRange range);

   private:
    friend class Writer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  // Looks for a database: its configuration decides what is inline. Throws data_loss for a damaged
  // manifest.
  Writer(StorePtr base, WriterOptions options);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  // A new stream, which lives as long as the writer. Safe to call from many threads.
  Stream& stream();
  // Adds all that the newest version of another database holds, by reference: its values stay in
  // the files they are in, which must therefore be kept. It lies in the same store below `prefix`
  // ("ocdbt.process_0/"). Not found if it has no manifest; data_loss if a file that holds a value
  // is missing or too short. Not while streams are in use.
  void copy_database(const std::string& prefix);
  // Makes everything a new version, on top of whatever others have committed meanwhile. Once, when
  // no stream is in use.
  CommittedVersion commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::ocdbt
