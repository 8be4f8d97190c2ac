// inspect_csv.cc -- formats leaves as the CSV table of docs/reference/json.md.
#include <cairn/inspect.h>

namespace cairn::inline v0 {
namespace {

// RFC 4180: a field with a comma, a quote or a line break is quoted, and its quotes are doubled.
// Escaped text has no line breaks.
std::string field(std::string_view raw) {
  const std::string text = printable_text(raw);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string row(const TensorInfo& t) {
  const bool array = t.is_array() && t.is_described();
  const bool shaped = array || !t.shape.empty();
  const bool chunked = array && !t.chunk_shape.empty();
  const std::string cells[] = {t.item.value_or(""),
                               t.name,
                               t.is_described() ? t.dtype_name : "",
                               shaped ? shape_text(t.shape) : "",
                               t.typestr,
                               shaped ? std::to_string(element_count(t.shape)) : "",
                               std::to_string(t.nbytes),
                               std::to_string(t.stored_nbytes),
                               chunked ? shape_text(t.chunk_shape) : "",
                               sharding_text(t.sharding),
                               t.error};
  std::string line;
  for (const std::string& cell : cells) line.append(field(cell)).append(",");
  line.pop_back();
  return line + "\r\n";
}

}  // namespace

std::string tensors_csv(const Checkpoint& checkpoint, std::span<const std::size_t> indices) {
  std::string out =
      "item,name,dtype,shape,kind,elements,nbytes,stored_nbytes,chunk_shape,sharding,error\r\n";
  for (const std::size_t i : indices) out += row(checkpoint.tensors()[i]);
  return out;
}

}  // namespace cairn::inline v0
