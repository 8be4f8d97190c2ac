// answer_reader.h -- AnswerReader, the answer to one request, as the pieces of its message arrive.
// It bounds every size before it takes memory.
#pragma once

#include <cairn/kvstore/object/transport/http.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// The header of an answer, with those of interim answers (100 Continue), and the body of an answer
// that is not 2xx, of which the rest does not matter.
inline constexpr std::size_t kMostAnswerHeader = std::size_t{64} << 10U;
inline constexpr std::size_t kMostKeptOfError = std::size_t{64} << 10U;

class AnswerReader {
 public:
  // The request must outlive the reader.
  explicit AnswerReader(const HttpRequest& request);

  // Take one line of the header with its end, and bytes of the body. They return false if the
  // exchange must end: fault() then says why, or the reader has enough.
  [[nodiscard]] bool take_header(std::string_view line);
  [[nodiscard]] bool take_body(ByteView bytes);

  // What is wrong with the answer; empty: nothing. No value of a header appears in it.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  // What HttpRequest::check_header has thrown; null: nothing.
  [[nodiscard]] const std::exception_ptr& refusal() const { return refusal_; }
  // The fault is not that the connection ended early: another try ends in the same way.
  [[nodiscard]] bool is_final() const { return is_final_; }
  // The header is complete, and it is not that of an interim answer.
  [[nodiscard]] bool has_header() const { return has_header_; }
  // The answer is not 2xx, and so long that the rest of its body is left out.
  [[nodiscard]] bool has_enough() const { return has_enough_; }
  [[nodiscard]] std::uint64_t received() const { return response_.received; }
  // Bytes of the body that were placed in HttpRequest::into.
  [[nodiscard]] std::uint64_t placed() const { return goes_into_parts() ? response_.received : 0; }

  // The answer, after the last piece. Sets fault() if the body is shorter than `into`, which then
  // had no length that was known before.
  HttpResponse take_response();

 private:
  bool fail(std::string why);
  bool is_accepted();
  bool begin_header(std::string_view line);
  bool add_field(std::string_view line);
  bool end_header();
  bool check_length(std::uint64_t length);
  [[nodiscard]] bool is_success() const { return response_.status / 100 == 2; }
  [[nodiscard]] bool goes_into_parts() const { return is_success() && !request_.into.empty(); }
  bool place(ByteView bytes);
  bool keep(ByteView bytes);
  [[nodiscard]] std::string unexpected_length(std::uint64_t length) const;

  const HttpRequest& request_;
  std::uint64_t room_ = 0;  // bytes in `into`
  HttpResponse response_;
  std::string fault_;
  std::exception_ptr refusal_;
  std::size_t header_bytes_ = 0;
  bool is_final_ = false;
  bool has_header_ = false;
  bool has_enough_ = false;
  std::size_t part_ = 0;         // of `into`: the part that is being filled
  std::size_t part_offset_ = 0;  // bytes of it that are filled
};

}  // namespace cairn::inline v0::object
