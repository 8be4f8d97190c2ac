// job_files_fuzz.cc -- parses any bytes as the files through which processes coordinate. A file
// that parses must round-trip.
#include <cairn/distributed/coordinator/message.h>
#include <cairn/distributed/coordinator/process_record.h>
#include <cairn/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

namespace distributed = cairn::distributed;

void check_message(cairn::ByteView bytes) {
  try {
    const auto again = distributed::encode_message(distributed::decode_message(bytes));
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
}

void check_mark(std::string_view text) {
  try {
    const auto mark = distributed::parse_record(text);
    if (distributed::parse_record(distributed::record_text(mark)) != mark) std::abort();
    (void)distributed::has_ended(mark);
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_message({reinterpret_cast<const std::byte*>(data), size});
  check_mark({reinterpret_cast<const char*>(data), size});
  return 0;
}
