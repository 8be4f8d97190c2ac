// message.h -- the file that a process leaves for the others when it comes to a meeting.
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

namespace cairn::distributed {

struct Message {
  std::uint64_t process = 0;
  std::uint64_t processes = 0;
  std::uint64_t round = 0;  // how many meetings of this name there have been
  std::string name;
  Bytes value;
  bool operator==(const Message&) const = default;
};

Bytes encode_message(const Message& message);
// Throws data_loss for what encode_message does not make.
Message decode_message(ByteView encoded);

}  // namespace cairn::distributed
