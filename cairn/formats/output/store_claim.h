// store_claim.h -- StoreClaim, a key of a store that one save has taken.
//
//   "cairn: unfinished save 5d0c...\n"   under the key until the save is whole. Readers see an
//                                        unfinished file. The number tells the saves apart.
#pragma once

#include <cairn/bytes.h>
#include <cairn/storage/kvstore.h>

#include <chrono>
#include <optional>
#include <string>

namespace cairn::inline v0 {

// What a claim is about.
struct ClaimedKey {
  StorePtr store;
  std::string key;
  std::string url;  // for messages
  // A mark is that of a live save, if the store has got it within this time. Longer ago: the save
  // was interrupted.
  std::chrono::milliseconds lease{120'000};
};

// Throws already_exists for a key that is taken, by a file or by the mark of a save.
[[noreturn]] void refuse_taken_key(const ClaimedKey& key);

// Holds a mark under a key, from one thread at a time. A live save writes its mark again and again.
class StoreClaim {
 public:
  // Writes the mark. kFail: throws already_exists if the key is taken. kReplace: throws unavailable
  // if a live save has it, or takes it at the same moment.
  StoreClaim(ClaimedKey key, IfExists if_exists);
  StoreClaim(const StoreClaim&) = delete;
  StoreClaim& operator=(const StoreClaim&) = delete;
  // If the mark is still there and the store answers: writes the value that it has replaced, or
  // removes it.
  ~StoreClaim();

  // Writes the mark again, if that is due. Throws unavailable if another save has taken the key.
  void keep_alive();
  // Asks the store. Throws unavailable if another save has taken the key.
  void check();
  // As check(). False also if the store does not answer.
  [[nodiscard]] bool is_ours() const noexcept;
  // Writes the value in place of the mark. Throws unavailable if another save has taken the key.
  void replace_by(ByteView value);
  // The key has got its value in another way.
  void release() { is_held_ = false; }
  // The value that the mark has replaced is of no use any more.
  void forget_old() { old_.reset(); }

 private:
  [[nodiscard]] bool is_there() const;
  [[noreturn]] void fail_lost();

  ClaimedKey key_;
  std::string mark_;
  std::optional<Bytes> old_;  // what the mark has replaced
  std::chrono::steady_clock::time_point written_;
  bool is_held_ = true;
};

}  // namespace cairn::inline v0
