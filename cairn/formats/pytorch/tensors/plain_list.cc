// plain_list.cc -- copies the values of a list.
#include <cairn/formats/pytorch/tensors/plain_list.h>

#include <cairn/base/utf8.h>
#include <cairn/formats/raw/strings_message.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

template <class T, class Get>
PlainList numbers(DType dtype, std::span<const Value> items, Get get) {
  PlainList list{.dtype = dtype, .bytes = Bytes(items.size() * sizeof(T))};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const T value = get(items[i]);
    std::memcpy(list.bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return list;
}

std::optional<PlainList> texts(const Pickle& p, std::span<const Value> items) {
  std::vector<std::string_view> views;
  views.reserve(items.size());
  for (const Value item : items) views.push_back(p.text(item));
  if (!std::ranges::all_of(views, valid_utf8)) return std::nullopt;
  return PlainList{.dtype = std::nullopt, .bytes = strings_message(views)};
}

}  // namespace

std::optional<PlainList> plain_list(const Pickle& p, std::span<const Value> items) {
  const Kind kind = items.empty() ? Kind::kNone : p.kind(items.front());
  if (!std::ranges::all_of(items, [&](Value item) { return p.kind(item) == kind; }))
    return std::nullopt;
  if (kind == Kind::kInt)
    return numbers<std::int64_t>(DType::kInt64, items, [&](Value v) { return p.integer(v); });
  if (kind == Kind::kFloat)
    return numbers<double>(DType::kFloat64, items, [&](Value v) { return p.real(v); });
  if (kind == Kind::kBool)
    return numbers<std::uint8_t>(DType::kBool, items, [&](Value v) { return p.boolean(v); });
  if (kind == Kind::kText) return texts(p, items);
  return std::nullopt;
}

}  // namespace cairn::inline v0::pytorch
