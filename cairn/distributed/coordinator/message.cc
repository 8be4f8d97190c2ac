// message.cc -- encodes and decodes messages.
#include <cairn/distributed/coordinator/message.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>

namespace cairn::inline v0::distributed {
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
    ByteReader::fail("not a message of a job: the magic bytes are wrong", 0);
  // The checksum comes first, so the fields below are known to be those that were written.
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

}  // namespace cairn::inline v0::distributed
