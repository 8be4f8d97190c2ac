// damaged_body.h -- damage behind the checksum: the body of a good encoding is changed, then length
// and checksum are made right again.
#pragma once

#include <cairn/ocdbt/format/envelope.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>

#include "tests/ocdbt/support.h"
#include "tests/support/damage.h"

namespace cairn::ocdbt::testing {

using cairn::testing::erase_at;
using cairn::testing::insert_at;

struct BodyDamage {
  std::string name;
  std::function<void(Bytes&)> apply;  // to the body of a raw encoding
  std::string expect;                 // in the message of a data_loss
};

inline Bytes body_of(const Bytes& raw) {
  // magic 4, length 8, version 1, compression 1; crc 4
  const ByteView body = ByteView(raw).subspan(14, raw.size() - 18);
  return {body.begin(), body.end()};
}
inline Bytes sealed(ObjectKind kind, ByteView body) {
  return seal_envelope(kind, body, std::nullopt);
}

template <class Decode>
void check_body_damages(ObjectKind kind, const Bytes& good, std::span<const BodyDamage> table,
                        Decode decode) {
  std::vector<cairn::testing::Damage> damages;
  for (const BodyDamage& d : table) {
    const auto apply = [&d, kind](Bytes& bytes) {
      Bytes body = body_of(bytes);
      d.apply(body);
      bytes = sealed(kind, body);
    };
    damages.push_back(
        {.name = d.name, .apply = apply, .code = Code::kDataLoss, .expect = d.expect});
  }
  cairn::testing::check_damages(good, damages, decode);
}

}  // namespace cairn::ocdbt::testing
