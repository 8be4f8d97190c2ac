// gcs_upload.cc -- an upload session: pieces are sent in order, and one whose answer is lost is
// continued where the service says that it ends.
#include <cairn/kvstore/object/gcs/gcs_upload.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <stop_token>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kObjectsAtOnce = 8;

// The pieces of one object on their way. Used by one thread at a time.
class Session {
 public:
  Session(std::shared_ptr<const GcsClient> client, std::string name)
      : client_(std::move(client)),
        put_{.name = {}, .save = random_save_number()},
        name_(std::move(name)) {
    put_.name = name_;
    address_ = client_->begin_upload(put_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (!object_) client_->abort_upload(address_);
  }

  // Sends the next piece. `total`: the object's size, with the last piece.
  void send(ByteView piece, std::optional<std::uint64_t> total) {
    constexpr int kMostBreaks = 5;  // in a row, without progress
    const std::uint64_t begin = stored_, end = begin + piece.size();
    for (int breaks = 0; stored_ < end || (total && !object_);) {
      const std::uint64_t before = stored_;
      const GcsUploadState state = send_once(piece.subspan(stored_ - begin), total, breaks);
      take(state, end, total);
      breaks = stored_ > before ? 0 : breaks + 1;
      if (breaks > kMostBreaks && !object_)
        throw Error(Code::kIo,
                    "the store does not take the upload's bytes at " + std::to_string(stored_));
    }
  }
  // Throws data_loss if the stored object differs from what was sent.
  void check(std::uint64_t size, std::uint32_t crc) const {
    client_->check_stored(*object_, size, crc);
  }

 private:
  // One try; after a break, what the service has of it.
  GcsUploadState send_once(ByteView bytes, std::optional<std::uint64_t> total, int breaks) const {
    constexpr int kMostErrors = 3;
    try {
      return client_->upload(address_, stored_, bytes, total);
    } catch (const Error& e) {
      if (e.code() != Code::kIo || breaks >= kMostErrors) throw;
    }
    return client_->upload_state(address_);
  }

  void take(const GcsUploadState& state, std::uint64_t end, std::optional<std::uint64_t> total) {
    if (state.has_ended) {
      take_own(total);
      return;
    }
    if (state.object && (!total || state.object->size != *total)) refuse(*state.object);
    if (state.stored < stored_ || state.stored > end)
      throw WrongAnswer("the store has " + std::to_string(state.stored) +
                        " bytes of the upload, not " + std::to_string(end));
    stored_ = state.stored;
    object_ = state.object;
  }

  // The session of a finished upload may be forgotten at once: then the object tells.
  void take_own(std::optional<std::uint64_t> total) {
    auto object = total ? client_->find(name_) : std::nullopt;
    if (!object || object->save != put_.save)
      throw Error(Code::kIo, "the upload's session has ended before the upload");
    stored_ = *total;
    object_ = std::move(object);
  }

  [[noreturn]] void refuse(const GcsObject& object) const {
    client_->remove(name_, object.generation);
    throw Error(Code::kIo, "the store has finished the upload after " +
                               std::to_string(object.size) + " bytes, before its end");
  }

  std::shared_ptr<const GcsClient> client_;
  GcsPut put_;
  std::string name_;
  std::string address_;
  std::uint64_t stored_ = 0;
  std::optional<GcsObject> object_;
};

class GcsAppender : public Appender {
 public:
  GcsAppender(std::shared_ptr<const GcsClient> client, std::string name, std::string where,
              std::size_t piece)
      : client_(std::move(client)),
        name_(std::move(name)),
        where_(std::move(where)),
        piece_(piece) {}
  ~GcsAppender() override {
    stop_.request_stop();
    if (sent_.valid()) sent_.wait();
  }

  void append(std::span<const ByteView> parts) override {
    in_context([&] {
      if (is_committed_) throw Error(Code::kFailedPrecondition, "written after its commit");
      for (const ByteView part : parts) append_part(part);
    });
  }
  std::uint64_t size() const override { return size_; }
  void commit() override {
    in_context([&] {
      if (is_committed_) throw Error(Code::kFailedPrecondition, "committed twice");
      if (sent_.valid())
        finish_session();
      else
        client_->put({.name = name_}, filling_);
      is_committed_ = true;
    });
  }

 private:
  template <class F>
  void in_context(F f) {
    with_context([&] { return where_; }, f);
  }

  void append_part(ByteView part) {
    crc_ = crc32c_extend(crc_, part);
    size_ += part.size();
    while (!part.empty()) {
      if (filling_.size() == piece_) send_piece();
      const std::size_t count = std::min(part.size(), piece_ - filling_.size());
      filling_.insert(filling_.end(), part.begin(),
                      part.begin() + static_cast<std::ptrdiff_t>(count));
      part = part.subspan(count);
    }
  }

  // Hands the full piece to a thread, once the piece before has arrived.
  void send_piece() {
    wait();
    std::swap(filling_, sending_);
    filling_.clear();
    sent_ = std::async(std::launch::async,
                       [this, cancellation = current_cancellation().or_by(stop_.get_token())] {
                         const CancellationScope scope(cancellation);
                         if (!session_) session_ = std::make_unique<Session>(client_, name_);
                         session_->send(sending_, std::nullopt);
                       });
  }

  // The last piece is never empty: a full one is kept until more bytes follow it.
  void finish_session() {
    wait();
    session_->send(filling_, size_);
    session_->check(size_, crc_);
  }

  // Throws the error of the piece that was sent; again, if it is asked again.
  void wait() const {
    if (!sent_.valid()) return;
    // The link is not full yet: others may write further objects meanwhile.
    if (sent_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      expect_waiting(kObjectsAtOnce);
    sent_.get();
  }

  std::shared_ptr<const GcsClient> client_;
  std::string name_;
  std::string where_;
  std::size_t piece_;
  Bytes filling_;
  Bytes sending_;
  std::uint64_t size_ = 0;
  std::uint32_t crc_ = 0;
  std::unique_ptr<Session> session_;  // made with the first piece, if there is a second one
  std::stop_source stop_;
  std::shared_future<void> sent_;
  bool is_committed_ = false;
};

}  // namespace

std::unique_ptr<Appender> make_gcs_appender(std::shared_ptr<const GcsClient> client,
                                            std::string name, std::string where,
                                            std::size_t piece) {
  return std::make_unique<GcsAppender>(std::move(client), std::move(name), std::move(where), piece);
}

}  // namespace cairn::inline v0::object
