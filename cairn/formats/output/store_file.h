// store_file.h -- StoreFile, a file of known size that is sent to a store while it is written.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/byte_target.h>
#include <cairn/storage/kvstore.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::inline v0 {

// What a StoreFile becomes.
struct StoreFileSpec {
  std::string key;
  std::string url;         // for messages
  std::uint64_t size = 0;  // bytes
  IfExists if_exists = IfExists::kFail;
  // True: it appears as soon as it is whole, so that many files do not wait in memory. False: at
  // commit().
  bool commits_itself = false;
  // Called before bytes are sent, and (true) right before the file is stored. May throw.
  std::function<void(bool is_commit)> watch = {};
};

// Nothing is visible before the commit, which sends the last bytes. Up to 16 MiB become one
// request; more goes to an Appender. Of the bytes, those are kept in memory that came before it was
// their turn.
class StoreFile final : public ByteTarget {
 public:
  // Sends no request.
  StoreFile(StorePtr store, StoreFileSpec spec);

  void append(ByteView bytes) override;
  void append(std::span<const ByteView> parts) override;
  // Bytes behind a gap wait until the gap is filled.
  void write_at(std::uint64_t offset, ByteView bytes) override;
  // How many bytes have come from the front on.
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] bool takes_any_order() const override { return false; }

  // Stores the file; does nothing if it is stored. Throws already_exists as if_exists says, also if
  // the key was taken meanwhile.
  void commit();
  // Forgets the bytes, and removes the file if this object has stored it.
  void discard() noexcept;
  [[nodiscard]] const StoreFileSpec& spec() const { return spec_; }

 private:
  void put(ByteView bytes);
  void store_it();

  StorePtr store_;
  StoreFileSpec spec_;
  mutable std::mutex mutex_;  // guards the members below
  std::uint64_t at_ = 0;
  std::map<std::uint64_t, Bytes> waiting_;  // by offset
  Bytes whole_;                             // of a small file
  std::unique_ptr<Appender> appender_;      // of a large one
  bool is_stored_ = false;
};

}  // namespace cairn::inline v0
