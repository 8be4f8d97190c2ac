// sink.h -- takes the heads of msgpack objects and what stands between them. Measures until
// start_writing(); given the same again, it plans the bytes.
#pragma once

#include <cairn/formats/msgpack/encoder.h>
#include <cairn/tree/msgpack/head.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn {

class MsgpackSink {
 public:
  void start_writing();
  [[nodiscard]] bool writing() const { return writing_; }
  [[nodiscard]] MsgpackPlan take() && { return std::move(plan_); }

  void head(const MsgpackHead& head) { copy(encode_msgpack_head(head).view()); }
  void text(std::string_view value);
  void content(const MsgpackRun& run);  // borrowed, unless it is small
  void copy(ByteView bytes);

  // Around a tuple's content, whose size is known only once it has been measured.
  std::size_t begin_tuple();
  void end_tuple(std::size_t tuple);

 private:
  bool writing_ = false;
  MsgpackPlan plan_;
  std::uint64_t buffered_ = 0;              // bytes for the buffer, as measured
  std::vector<std::uint64_t> tuple_sizes_;  // in the order of their beginnings
  std::size_t next_tuple_ = 0;
};

}  // namespace cairn
