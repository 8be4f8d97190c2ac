// message.h -- the message that a process leaves for the others when it joins a collective.
//
//      0         8         16        24        32        40       40+n     48+n         48+n+v
//      +---------+---------+---------+---------+---------+--------+--------+------------+--------+
//      | "cairnmsg" process | of how  | round   | n       | name   | v      | value      | crc32c |
//      |         |         | many    |         |         |        |        |            |        |
//      +---------+---------+---------+---------+---------+--------+--------+------------+--------+
//      integers are little-endian; the checksum covers all before it
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0::distributed {

// One process's contribution to one collective.
struct Message {
  std::uint64_t process = 0;
  std::uint64_t processes = 0;
  std::uint64_t round = 0;  // the number of earlier collectives of this name
  std::string name;
  Bytes value;
  bool operator==(const Message&) const = default;
};

// Encodes the message in the form drawn above.
Bytes encode_message(const Message& message);
// Decodes a message. Throws data_loss for bytes that encode_message cannot have written.
Message decode_message(ByteView encoded);

}  // namespace cairn::inline v0::distributed
