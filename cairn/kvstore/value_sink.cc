// value_sink.cc -- writes a value with one piece at once, and appends the pieces of other values.
#include <cairn/kvstore/value_sink.h>

namespace cairn::inline v0 {

void StoreSink::write(std::string_view key, std::span<const ByteView> pieces) {
  if (pieces.size() == 1) return store_->write(key, pieces[0]);
  const auto value = store_->append(key);
  value->append(pieces);
  value->commit();
}

}  // namespace cairn::inline v0
