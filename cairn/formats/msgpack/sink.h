// sink.h -- collects the heads, strings and contents of msgpack objects into a MsgpackPlan.
#pragma once

#include <cairn/formats/msgpack/encoder.h>
#include <cairn/tree/msgpack/head.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Works in two passes. It only measures until start_writing() is called. The caller then repeats
// the same calls, and the sink plans the bytes.
class MsgpackSink {
 public:
  // Ends the measuring pass and reserves the buffer.
  void start_writing();
  [[nodiscard]] bool writing() const { return writing_; }
  // The finished plan.
  [[nodiscard]] MsgpackPlan take() && { return std::move(plan_); }

  void head(const MsgpackHead& head) { copy(encode_msgpack_head(head).view()); }
  // Adds a whole string: head and content.
  void text(std::string_view value);
  void content(const MsgpackRun& run);  // borrows the bytes unless they are few
  // Copies the bytes into the buffer.
  void copy(ByteView bytes);

  // Call these around the content of a tuple: its size is known only once the sink has measured it.
  std::size_t begin_tuple();
  void end_tuple(std::size_t tuple);

 private:
  bool writing_ = false;
  MsgpackPlan plan_;
  std::uint64_t buffered_ = 0;              // size of the buffer, as measured
  std::vector<std::uint64_t> tuple_sizes_;  // in the order in which the tuples begin
  std::size_t next_tuple_ = 0;
};

}  // namespace cairn::inline v0
