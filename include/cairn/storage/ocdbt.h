// ocdbt.h -- writes to an OCDBT database: OcdbtTransaction collects changes of keys and commits
// them as one new version. kvstore.h reads databases (open_ocdbt); tensorstore_spec.h opens them by
// their specs, for transactions and for single writes.
//
//   OcdbtTransaction changes(open_store("file:///ckpt/db"));
//   changes.write("a", value);
//   changes.remove("b");
//   changes.commit();
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/storage/kvstore.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class SpecContext;

// Options of OcdbtTransaction.
struct OcdbtTransactionOptions {
  // A data file that has reached this size in bytes is finished and the next one begun; 0: no
  // limit.
  std::uint64_t target_data_file_size = std::uint64_t{2} << 30U;
};

// The version that a commit has made.
struct OcdbtCommit {
  std::uint64_t generation = 0;      // 1 for the first version of a database
  std::uint64_t commit_time_ns = 0;  // nanoseconds since 1970
  std::uint64_t num_keys = 0;        // of the whole database
};

// Changes to the keys of one database, which become visible together or not at all. The database is
// created by its first commit. Many transactions, in many processes, of Cairn and of TensorStore,
// may commit to one database at once: each commit builds on the newest version and replaces the
// manifest only if nobody else has. In a local folder both libraries use the same lock file for
// this. All data is durable before the manifest refers to it, as far as the base store syncs.
//
// If one key is changed twice, the later change counts. Use a transaction from one thread at a
// time. Destruction without commit() discards the changes and removes the data files they have
// made.
class OcdbtTransaction {
 public:
  // Begins changes to the database whose files are the keys of `base`. Throws data_loss for a
  // damaged manifest.
  explicit OcdbtTransaction(const StorePtr& base, OcdbtTransactionOptions options = {});
  OcdbtTransaction(OcdbtTransaction&&) noexcept;
  OcdbtTransaction& operator=(OcdbtTransaction&&) noexcept;
  ~OcdbtTransaction();

  // Sets the value. A large value goes to a data file at once; a small one stays in memory. Throws
  // invalid_argument for a key that does not have 1 to 65535 bytes.
  void write(std::string_view key, ByteView value);
  // Removes the key; does nothing if it is absent.
  void remove(std::string_view key);
  // Removes all keys of the range: those that exist at the time of the commit, and those that this
  // transaction has written before.
  void remove_range(const KeyRange& range);
  // Makes the commit depend on a value: immediately before the commit, the key must have this value
  // (nullopt: must be absent), else commit() throws. The value is the one without this
  // transaction's own changes.
  void require(std::string_view key, std::optional<ByteView> value);

  // Makes a new version of all changes on top of the newest version. Call it once, last. Throws
  // failed_precondition for a required value that differs and for a second call; then nothing has
  // changed.
  OcdbtCommit commit();

 private:
  friend OcdbtTransaction open_kv_transaction(std::string_view spec, const SpecContext& context);
  struct State;
  explicit OcdbtTransaction(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
