// gcs_client.h -- the calls of Google Cloud Storage's JSON API for one bucket, one method each. It
// knows objects and generations; what a KvStore makes of them is in gcs_store.h.
#pragma once

#include <cairn/bytes.h>
#include <cairn/kvstore/object/gcs/gcs_reply.h>
#include <cairn/kvstore/object/request/sender.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// A read of an object's bytes.
struct GcsGet {
  std::string_view name;
  std::uint64_t offset = 0;                  // bytes
  std::optional<std::uint64_t> length = {};  // bytes, not 0; nullopt: up to the end
  std::uint64_t generation = 0;              // 0: the one that is stored now
  std::uint64_t most = 0;                    // the most bytes of an answer without `length`
  // If given: the bytes go here instead. Needs `length`, the sum of the parts' sizes.
  std::span<const MutableByteView> into = {};
};

// The bytes of an object, and what the answer says about it.
struct GcsMedia {
  Bytes bytes = {};
  std::uint64_t size = 0;   // of the whole object
  bool is_outside = false;  // the range begins at the object's end or behind it: no bytes
};

// One page of a listing to ask for.
struct GcsList {
  std::string_view prefix;
  std::string_view page_token = {};
  bool one_level = false;  // end names at the first '/' behind the prefix
  std::size_t most = 1000;
};

// An object to store.
struct GcsPut {
  std::string_view name;
  // Store it only if this generation is stored now; 0: only if there is no object.
  std::optional<std::uint64_t> if_generation = {};
  // A random number of this write, stored beside the bytes. Without it a writer whose answer was
  // lost could not tell its own object from that of another writer with the same bytes.
  std::string save = {};
};

// How far an upload in pieces is.
struct GcsUploadState {
  std::uint64_t stored = 0;              // bytes that the service has
  std::optional<GcsObject> object = {};  // once the upload is finished
  bool has_ended = false;                // the session is not known, or not any more
};

// Safe to use from many threads. Every method throws not_found if there is no such bucket, and io
// if the service refuses or does not answer.
class GcsClient {
 public:
  // `endpoint`: "https://storage.googleapis.com", without a final slash.
  GcsClient(std::string endpoint, std::string bucket, std::shared_ptr<Sender> sender);

  [[nodiscard]] const std::string& bucket() const { return bucket_; }

  // nullopt: there is no such object.
  [[nodiscard]] std::optional<GcsObject> find(std::string_view name) const;
  // nullopt: there is no such object. Throws unavailable if `generation` is given and another one,
  // or none, is stored; WrongAnswer if the store answers twice with another part than the one asked
  // for; data_loss if the bytes differ twice from their checksum.
  [[nodiscard]] std::optional<GcsMedia> get(const GcsGet& get) const;
  [[nodiscard]] GcsPage list(const GcsList& list) const;
  // nullopt: another generation is stored than `if_generation`.
  std::optional<GcsObject> put(const GcsPut& put, ByteView value) const;
  // Does nothing if there is no such object, or another generation than the one given.
  void remove(std::string_view name, std::optional<std::uint64_t> if_generation = {}) const;
  // False if there is no object `from`.
  bool copy(std::string_view from, std::string_view to) const;

  // An upload in pieces; the object appears when the last one is stored. Returns the session's
  // address.
  [[nodiscard]] std::string begin_upload(const GcsPut& put) const;
  // Sends the bytes from `offset` on, once. `total`: the object's size, with its last bytes. All
  // pieces but the last have a multiple of 256 KiB. Throws io also if the answer was lost: then ask
  // for the state.
  GcsUploadState upload(const std::string& session, std::uint64_t offset, ByteView bytes,
                        std::optional<std::uint64_t> total) const;
  // Ask only after a lost answer: an emulator finishes an upload that is asked for its state.
  [[nodiscard]] GcsUploadState upload_state(const std::string& session) const;
  // Removes an object that was damaged on its way, and throws data_loss.
  void check_stored(const GcsObject& object, std::uint64_t size, std::uint32_t crc) const;
  // Ends the session without an object. Never throws.
  void abort_upload(const std::string& session) const noexcept;

 private:
  [[nodiscard]] std::string bucket_in_url() const;
  [[nodiscard]] std::string list_url() const;
  [[nodiscard]] std::string object_url(std::string_view name) const;
  [[nodiscard]] std::string upload_url(const GcsPut& put, std::string_view type) const;
  [[nodiscard]] Answer send(const std::function<HttpRequest()>& make,
                            const RequestFacts& facts) const;
  [[noreturn]] void fail_no_bucket() const;
  [[nodiscard]] std::optional<GcsMedia> get_once(const GcsGet& get) const;
  // Throws if the bucket is missing: the answer is the same as for a missing object.
  void check_bucket() const;
  [[nodiscard]] std::optional<GcsObject> own_object(const GcsPut& put) const;

  std::string endpoint_;
  std::string bucket_;
  std::shared_ptr<Sender> sender_;
  mutable std::atomic<bool> bucket_exists_ = false;  // as far as an answer has shown
};

// A number for GcsPut::save.
std::string random_save_number();

}  // namespace cairn::inline v0::object
