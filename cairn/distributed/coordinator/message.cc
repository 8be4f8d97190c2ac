// message.cc -- messages to bytes and back.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/distributed/coordinator/message.h>

namespace cairn::distributed {
namespace {

constexpr std::string_view kMagic = "cairnmsg";
constexpr std::size_t kChecksum = 4;  // bytes

}  // namespace

Bytes encode_message(const Message& message) {
  ByteWriter out;
  out.text(kMagic).u64(message.process).u64(message.processes).u64(message.round);
  out.u64(message.name.size()).text(message.name).u64(message.value.size()).bytes(message.value);
  out.u32(crc32c(out.view()));
  return std::move(out).take();
}

Message decode_message(ByteView encoded) {
  ByteReader in(encoded);
  if (in.text(kMagic.size()) != kMagic)
    ByteReader::fail("no message of a job: it begins otherwise", 0);
  // First, so that what is behind it is what was written.
  if (in.remaining() < kChecksum) ByteReader::fail("unexpected end of data", encoded.size());
  const ByteView covered = encoded.first(encoded.size() - kChecksum);
  if (ByteReader(encoded.last(kChecksum)).u32() != crc32c(covered))
    ByteReader::fail("crc32c mismatch", covered.size());
  Message message;
  message.process = in.u64();
  message.processes = in.u64();
  message.round = in.u64();
  message.name = in.text(in.u64());
  const ByteView value = in.take(in.u64());
  message.value.assign(value.begin(), value.end());
  in.take(kChecksum);
  in.finish();
  return message;
}

}  // namespace cairn::distributed
