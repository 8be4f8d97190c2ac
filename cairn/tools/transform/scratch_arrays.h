// scratch_arrays.h -- reads stored arrays. An array whose chunks would be decoded again for each
// part of it that is needed is decoded once, into a scratch file in which the parts lie together.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/tools/transform/scratch_copy.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace cairn::inline v0 {

// Bytes that will be read of stored arrays, by index.
using ExpectedBytes = std::unordered_map<std::size_t, std::uint64_t>;

class ScratchArrays {
 public:
  // `folder`: where the files are made; empty: none are. `memory`: bytes to copy an array with.
  ScratchArrays(const Checkpoint& source, std::string folder, std::uint64_t memory);

  // What will be read from now on. Without a call: each array once. Not while read() runs.
  void expect(ExpectedBytes bytes);
  // As source.read(). Safe to use from many threads.
  void read(std::span<const ReadRequest> requests, Executor& executor);

 private:
  // The copy of one array.
  struct Entry {
    std::shared_ptr<ScratchCopy> copy;
    std::uint64_t unread = 0;  // bytes; the copy goes when they are 0
  };

  // The copy of an array of which these boxes are to be read; null: read the array itself.
  std::shared_ptr<ScratchCopy> copy_for(std::span<const ReadRequest* const> requests,
                                        Executor& executor);
  [[nodiscard]] std::shared_ptr<ScratchCopy> make_copy(std::size_t index, Shape cell,
                                                       Executor& executor) const;
  [[nodiscard]] std::uint64_t expected_of(std::size_t index) const;
  void note_read(std::size_t index, std::uint64_t bytes);

  const Checkpoint& source_;
  std::string folder_;
  std::uint64_t memory_;
  std::mutex mutex_;
  std::optional<ExpectedBytes> expected_;
  std::uint64_t unread_ = 0;  // bytes of all arrays
  std::unordered_map<std::size_t, Entry> entries_;
};

}  // namespace cairn::inline v0
