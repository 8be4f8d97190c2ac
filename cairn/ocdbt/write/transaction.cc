// transaction.cc -- changes of keys that become one version of a database.
#include <cairn/ocdbt/write/transaction.h>

#include <cairn/kvstore/range.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {

bool ocdbt::is_met(const KvStore& store, const Requirement& requirement) {
  const auto size = store.size(requirement.key);
  if (!size || !requirement.value) return !size && !requirement.value;
  if (*size != requirement.value->size()) return false;
  const auto value = store.read_at_most(requirement.key, *size);
  return value && std::ranges::equal(*value, *requirement.value);
}

std::string OcdbtTransaction::State::full(std::string_view key) const {
  check_not_empty(key);
  return prefix + std::string(key);
}

OcdbtTransaction::OcdbtTransaction(const StorePtr& base, OcdbtTransactionOptions options)
    : state_(std::make_unique<State>(
          base, ocdbt::WriterOptions{.target_data_file_size = options.target_data_file_size}, "")) {
}
OcdbtTransaction::OcdbtTransaction(std::unique_ptr<State> state) : state_(std::move(state)) {}
OcdbtTransaction::OcdbtTransaction(OcdbtTransaction&&) noexcept = default;
OcdbtTransaction& OcdbtTransaction::operator=(OcdbtTransaction&&) noexcept = default;
OcdbtTransaction::~OcdbtTransaction() = default;

void OcdbtTransaction::write(std::string_view key, ByteView value) {
  state_->stream.write(state_->full(key), value);
}

void OcdbtTransaction::remove(std::string_view key) { state_->stream.remove(state_->full(key)); }

void OcdbtTransaction::remove_range(const KeyRange& range) {
  KeyRange whole{.first = state_->prefix + range.first,
                 .last = KeyRange::with_prefix(state_->prefix).last};
  if (range.last) whole.last = state_->prefix + *range.last;
  state_->stream.remove_range(std::move(whole));
}

void OcdbtTransaction::require(std::string_view key, std::optional<ByteView> value) {
  state_->requirements.push_back(
      {.key = state_->full(key),
       .value = value ? std::optional(Bytes(value->begin(), value->end())) : std::nullopt});
}

OcdbtCommit OcdbtTransaction::commit() {
  const ocdbt::Requirement* unmet = nullptr;
  std::string place;
  const auto is_wanted = [&](const KvStore& newest) {
    for (const ocdbt::Requirement& requirement : state_->requirements) {
      if (ocdbt::is_met(newest, requirement)) continue;
      unmet = &requirement;
      place = newest.describe(requirement.key);
      return false;
    }
    return true;
  };
  const auto made = state_->writer.commit_if(is_wanted);
  if (!made)
    throw Error(Code::kFailedPrecondition,
                place +
                    (unmet->value ? ": has another value than the transaction requires"
                                  : ": exists, but the transaction requires that it does not") +
                    "; nothing was changed: read it again and repeat the transaction");
  return {.generation = made->generation,
          .commit_time_ns = made->commit_time_ns,
          .num_keys = made->num_keys};
}

}  // namespace cairn::inline v0
