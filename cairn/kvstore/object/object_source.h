// object_source.h -- ObjectSource, one version of an object that is read by ranges, and
// RangeProgress, a ranged read that goes on where its last try ended.
#pragma once

#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/transport/http.h>
#include <cairn/storage/kvstore.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::inline v0::object {

// How much of the beginning of an object is read and kept when a reader asks for a part of it:
// finding out a file's format and reading its header then costs one request.
inline constexpr std::uint64_t kKeptBeginning = std::uint64_t{256} << 10U;

class ObjectSource final : public RangeSource {
 public:
  // Fills all of `parts` with the bytes from `offset` of this version; parts without data() are
  // skipped. The range lies inside the object and is not empty. Throws unavailable if the object
  // has been replaced or removed. Called from many threads.
  using FetchFn = std::function<void(std::uint64_t offset, std::span<const MutableByteView> parts,
                                     const std::string& version)>;

  // `value` is the version that is opened; its key is not used. `where` names the object in
  // messages. `beginning`: the first bytes, if they are known already.
  ObjectSource(StoredValue value, std::string where, FetchFn fetch, Bytes beginning = {});

  [[nodiscard]] std::uint64_t size() const override { return value_.size; }
  void read_into(std::uint64_t offset, MutableByteView out) const override;
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override;
  [[nodiscard]] std::int64_t modified_ns() const override { return value_.modified_ns; }
  [[nodiscard]] const std::string& version() const override { return value_.version; }

 private:
  using BytesPtr = std::shared_ptr<const Bytes>;
  [[nodiscard]] BytesPtr beginning_up_to(std::uint64_t end) const;

  StoredValue value_;
  std::string where_;
  FetchFn fetch_;
  std::uint64_t given_;       // bytes of the beginning that was known already
  mutable std::mutex mutex_;  // held while the beginning is fetched: others wait for it
  mutable BytesPtr beginning_;
};

// A ranged read as a request that may be sent several times: each try asks for the bytes that the
// tries before it did not place.
class RangeProgress {
 public:
  // `parts` must outlive the object, and not be empty of bytes.
  RangeProgress(std::uint64_t offset, std::span<const MutableByteView> parts);

  // Adds Range to the request and makes its body go to the rest of the parts. Call it for each
  // try, from the function that Sender::send() takes.
  void prepare(HttpRequest& request);
  // What the last request asked for.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }

 private:
  void drop_filled();

  std::uint64_t offset_;
  std::uint64_t length_ = 0;
  std::vector<MutableByteView> rest_;
  std::uint64_t filled_ = 0;
};

}  // namespace cairn::inline v0::object
