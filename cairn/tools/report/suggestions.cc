// suggestions.cc -- suggests words that a user may have meant, and names of element types.
#include <cairn/error.h>
#include <cairn/inspect.h>
#include <cairn/tree/suggest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// The names of other programs.
constexpr std::pair<std::string_view, DType> kOtherNames[] = {{"bf16", DType::kBfloat16},
                                                              {"f16", DType::kFloat16},
                                                              {"fp16", DType::kFloat16},
                                                              {"half", DType::kFloat16},
                                                              {"f32", DType::kFloat32},
                                                              {"fp32", DType::kFloat32},
                                                              {"float", DType::kFloat32},
                                                              {"single", DType::kFloat32},
                                                              {"f64", DType::kFloat64},
                                                              {"fp64", DType::kFloat64},
                                                              {"double", DType::kFloat64},
                                                              {"fp8", DType::kFloat8E4m3fn},
                                                              {"f8_e4m3", DType::kFloat8E4m3fn},
                                                              {"e4m3", DType::kFloat8E4m3fn},
                                                              {"float8_e4m3", DType::kFloat8E4m3fn},
                                                              {"f8_e5m2", DType::kFloat8E5m2},
                                                              {"e5m2", DType::kFloat8E5m2},
                                                              {"fp4", DType::kFloat4E2m1fn},
                                                              {"i8", DType::kInt8},
                                                              {"i16", DType::kInt16},
                                                              {"i32", DType::kInt32},
                                                              {"int", DType::kInt32},
                                                              {"i64", DType::kInt64},
                                                              {"long", DType::kInt64},
                                                              {"u8", DType::kUint8},
                                                              {"byte", DType::kUint8},
                                                              {"u16", DType::kUint16},
                                                              {"u32", DType::kUint32},
                                                              {"u64", DType::kUint64},
                                                              {"c64", DType::kComplex64},
                                                              {"c128", DType::kComplex128}};

std::string dtype_suggestion(std::string_view name) {
  std::string key(name.substr(0, 40));
  for (char& c : key)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  for (const std::string_view prefix : {"torch.", "jnp.", "np.", "tf.", "dt_"})
    if (key.starts_with(prefix)) key.erase(0, prefix.size());
  if (const auto dtype = dtype_from_name(key)) return "; did you mean '" + key + "'?";
  for (const auto& [other, dtype] : kOtherNames)
    if (other == key) return "; did you mean '" + std::string(dtype_name(dtype)) + "'?";
  std::vector<std::string> names;
  names.reserve(kDTypeCount);
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
  return suggestion_text(key, names);
}

}  // namespace

std::string did_you_mean(std::string_view wanted, std::span<const std::string> words) {
  return suggestion_text(wanted, words);
}

DType parse_dtype(std::string_view name) {
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  const std::string hint = dtype_suggestion(name);
  throw Error(Code::kInvalidArgument,
              "unknown element type '" + std::string(name) + "'" +
                  (hint.empty() ? "; expected a name such as bfloat16 or float32" : hint));
}

}  // namespace cairn::inline v0
