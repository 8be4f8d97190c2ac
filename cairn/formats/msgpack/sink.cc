// sink.cc -- copies small contents into the buffer and refers to large ones where they are.
#include <cairn/formats/msgpack/sink.h>

namespace cairn::inline v0 {
namespace {

// up to this size, copying is cheaper than a separate write
constexpr std::uint64_t kSmallRun = 512;

MsgpackHead tuple_head(std::uint64_t size) {
  return {.type = MsgpackType::kExt, .length = size, .ext = kMsgpackTuple};
}

bool is_small(const MsgpackRun& run) {
  return run.place == MsgpackRun::Place::kMemory && run.size <= kSmallRun;
}

}  // namespace

void MsgpackSink::start_writing() {
  writing_ = true;
  plan_.size = 0;
  plan_.buffer.reserve(buffered_);
}

void MsgpackSink::copy(ByteView bytes) {
  plan_.size += bytes.size();
  if (!writing_) {
    buffered_ += bytes.size();
    return;
  }
  if (bytes.empty()) return;
  if (plan_.runs.empty() || plan_.runs.back().place != MsgpackRun::Place::kBuffer)
    plan_.runs.push_back({.place = MsgpackRun::Place::kBuffer, .offset = plan_.buffer.size()});
  plan_.runs.back().size += bytes.size();
  plan_.buffer.insert(plan_.buffer.end(), bytes.begin(), bytes.end());
}

void MsgpackSink::text(std::string_view value) {
  head({.type = MsgpackType::kText, .length = value.size()});
  content(
      {.place = MsgpackRun::Place::kMemory, .data = as_bytes(value).data(), .size = value.size()});
}

void MsgpackSink::content(const MsgpackRun& run) {
  if (is_small(run)) return copy({run.data, run.size});
  plan_.size += run.size;
  if (writing_ && run.size > 0) plan_.runs.push_back(run);
}

std::size_t MsgpackSink::begin_tuple() {
  if (writing_) {
    head(tuple_head(tuple_sizes_[next_tuple_]));
    return next_tuple_++;
  }
  tuple_sizes_.push_back(plan_.size);
  return tuple_sizes_.size() - 1;
}

void MsgpackSink::end_tuple(std::size_t tuple) {
  if (writing_) return;
  tuple_sizes_[tuple] = plan_.size - tuple_sizes_[tuple];
  head(tuple_head(tuple_sizes_[tuple]));
}

}  // namespace cairn::inline v0
