// npy_header.cc -- reads every header that NumPy may have written, and writes headers byte for byte
// as NumPy does.
#include <cairn/formats/npz/npy_header.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/npz/npy_fields.h>
#include <cairn/npz.h>

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kNpyAlign = 64;
// By default NumPy refuses longer headers. Only structured types have long headers.
constexpr std::size_t kMaxHeaderOfNumpy = 10'000;
constexpr std::uint64_t kMaxHeader = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMinDict = 2;
constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kMaxShownDescr = 200;

[[noreturn]] void damaged(const std::string& what) {
  throw Error(Code::kDataLoss, "npy header: " + what);
}

// ---- the dict: a Python literal of three members ----

class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  [[nodiscard]] bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) damaged(fmt::format("expected '{}' at character {} of the dict", c, at_));
  }
  std::string_view string() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const std::size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos)
      damaged(fmt::format("expected a quoted string at character {} of the dict", at_));
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    if (content.find('\\') != std::string_view::npos) damaged("a string in the dict has escapes");
    at_ = end + 1;
    return content;
  }
  // A string; or the source text of a whole list or tuple.
  std::string_view descr() {
    skip_spaces();
    if (at_ >= text_.size() || (text_[at_] != '[' && text_[at_] != '(')) return string();
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      if (at_ >= text_.size()) damaged("the list of fields in 'descr' has no end");
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        string();
        continue;
      }
      if (c == '[' || c == '(') ++depth;
      if (c == ']' || c == ')') --depth;
      ++at_;
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }
  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] :
         {std::pair<std::string_view, bool>("True", true), {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    damaged("'fortran_order' is not True or False");
  }
  Shape shape() {
    expect('(');
    Shape shape;
    while (!accept(')')) {
      shape.push_back(extent());
      if (shape.size() > kMaxRank) damaged(fmt::format("more than {} dimensions", kMaxRank));
      if (accept(',')) continue;
      // A number in parentheses is not a tuple.
      if (shape.size() == 1) damaged("'shape' is not a tuple");
      expect(')');
      break;
    }
    return shape;
  }
  void finish() {
    skip_spaces();
    if (at_ != text_.size())
      damaged(fmt::format("unexpected text after the dict at character {}", at_));
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  std::int64_t extent() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool padded = text_.substr(at_).starts_with('0') && end > text_.data() + at_ + 1;
    if (error != std::errc() || value < 0 || padded)
      damaged(fmt::format("expected an extent of 'shape' at character {} of the dict", at_));
    at_ = static_cast<std::size_t>(end - text_.data());
    // Python 2 wrote long integers with this suffix
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// ---- element types ----

std::optional<DType> plain_dtype(char kind, std::uint64_t size) {
  struct Row {
    std::uint64_t size;
    char kind;
    DType dtype;
  };
  static constexpr Row kRows[] = {
      {1, 'b', DType::kBool},      {1, 'i', DType::kInt8},       {2, 'i', DType::kInt16},
      {4, 'i', DType::kInt32},     {8, 'i', DType::kInt64},      {1, 'u', DType::kUint8},
      {2, 'u', DType::kUint16},    {4, 'u', DType::kUint32},     {8, 'u', DType::kUint64},
      {2, 'f', DType::kFloat16},   {4, 'f', DType::kFloat32},    {8, 'f', DType::kFloat64},
      {8, 'c', DType::kComplex64}, {16, 'c', DType::kComplex128}};
  for (const Row& row : kRows)
    if (row.kind == kind && row.size == size) return row.dtype;
  return std::nullopt;
}

// The descr that numpy.save writes for ml_dtypes' types. Only these types have a byte order before
// the V, and only one of them has two bytes. A V1 may be any of the one-byte types.
std::optional<DType> ml_dtype(std::string_view descr) {
  if (descr == "<V2") return DType::kBfloat16;
  if (descr == "<f1") return DType::kFloat8E5m2;
  return std::nullopt;
}

// Shortens a descr for display; cuts it between characters.
std::string short_descr(const std::string& descr) {
  if (descr.size() <= kMaxShownDescr) return descr;
  std::size_t end = kMaxShownDescr;
  while (end > 0 && (static_cast<unsigned char>(descr[end]) & 0xc0U) == 0x80) --end;
  return descr.substr(0, end) + "...";
}

void set_opaque(NpyHeader& header, std::uint64_t element_size, std::string why) {
  header.dtype = DType::kOpaque;
  header.dtype_name = short_descr(header.descr);
  header.element_size = element_size;
  header.unreadable = std::move(why);
}

void set_plain(NpyHeader& header, DType dtype) {
  header.dtype = dtype;
  header.dtype_name = dtype_name(dtype);
  header.element_size = dtype_size(dtype);
  header.big_endian = header.descr[0] == '>' && header.element_size > 1;
}

void set_type(NpyHeader& header);

// Whether numpy.load reads elements of the type with this name without arguments.
bool is_numpy_type(std::string_view name) {
  NpyHeader header{.descr = std::string(name)};
  const auto known = try_call([&] {
    set_type(header);
    return header.refused.empty();
  });
  return known && known.value();
}

void set_fields(NpyHeader& header) {
  set_opaque(header, 0,
             "elements with fields (a structured NumPy type) cannot be read; save each field as an "
             "array of its own");
  if (!is_field_list(header.descr, is_numpy_type))
    header.refused = "numpy.load does not read elements of type " + header.dtype_name;
}

void set_type(NpyHeader& header) {
  const std::string_view descr = header.descr;
  if (descr.starts_with('[') || descr.starts_with('(')) return set_fields(header);
  if (const auto dtype = ml_dtype(descr)) return set_plain(header, *dtype);
  std::size_t at = descr.find_first_of("<>|=") == 0 ? 1 : 0;
  if (at >= descr.size()) damaged(fmt::format("'{}' is not an element type", descr));
  const char kind = descr[at++];
  if (kind == 'O') {
    header.refused = "numpy.load reads pickled Python objects only with allow_pickle=True";
    return set_opaque(header, 0,
                      "Python objects are pickled in the file, and pickles are not read");
  }
  std::uint64_t size = 0;
  const char* const end = descr.data() + descr.size();
  const auto [digits_end, error] = std::from_chars(descr.data() + at, end, size);
  const bool is_time = kind == 'M' || kind == 'm';
  // Only the type of a time may have more after its size: the unit, in brackets.
  if (error != std::errc() ||
      (digits_end != end && !(is_time && *digits_end == '[' && descr.ends_with(']'))) ||
      size > kMaxHeader * kMaxHeader)
    damaged(fmt::format("'{}' is not an element type", descr));
  if (const auto dtype = plain_dtype(kind, size)) return set_plain(header, *dtype);
  // Strings, raw bytes, times, and the long doubles of some processors are kept as stored.
  if (std::string_view("SaUVMmfc").find(kind) == std::string_view::npos)
    damaged(fmt::format("'{}' is not an element type", descr));
  const bool is_long_double =
      (kind == 'f' && (size == 12 || size == 16)) || (kind == 'c' && (size == 24 || size == 32));
  if ((kind == 'f' || kind == 'c') && !is_long_double)
    damaged(fmt::format("'{}' is not an element type", descr));
  if (kind == 'U') size *= 4;
  set_opaque(header, size, size == 0 ? "elements of 0 bytes cannot be read" : "");
}

void set_nbytes(NpyHeader& header) {
  const auto count = try_call([&] { return element_count(header.shape); });
  std::uint64_t nbytes = 0;
  if (!count || __builtin_mul_overflow(static_cast<std::uint64_t>(count.value()),
                                       std::uint64_t{header.element_size}, &nbytes))
    damaged(fmt::format("an array of shape {} with elements of {} bytes is larger than any file",
                        shape_text(header.shape), header.element_size));
  header.nbytes = nbytes;
}

void parse_dict(std::string_view text, NpyHeader& header) {
  bool descr = false, order = false, shape = false;
  Literal in(text);
  in.expect('{');
  while (!in.accept('}')) {
    const std::string_view key = in.string();
    in.expect(':');
    bool* const seen = key == "descr"           ? &descr
                       : key == "fortran_order" ? &order
                       : key == "shape"         ? &shape
                                                : nullptr;
    if (seen == nullptr || *seen)
      damaged(fmt::format("{} member '{}' in the dict", seen == nullptr ? "unknown" : "duplicate",
                          key));
    *seen = true;
    if (seen == &descr)
      header.descr = in.descr();
    else if (seen == &order)
      header.fortran_order = in.boolean();
    else
      header.shape = in.shape();
    if (in.accept(',')) continue;
    in.expect('}');
    break;
  }
  in.finish();
  if (!descr || !order || !shape) damaged("the dict lacks 'descr', 'fortran_order' or 'shape'");
}

}  // namespace

std::uint64_t npy_header_size(ByteView first) {
  return with_context(
      [] { return "npy header"; },
      [&] {
        ByteReader in(first);
        if (in.text(kNpyMagic.size()) != kNpyMagic)
          throw Error(Code::kDataLoss, "it does not begin with \\x93NUMPY");
        const std::uint8_t major = in.u8(), minor = in.u8();
        if (major < 1 || major > 3 || minor != 0)
          throw Error(Code::kUnimplemented,
                      fmt::format("version {}.{}; versions 1.0 to 3.0 can be read", major, minor));
        const std::uint64_t length = major == 1 ? in.u16() : in.u32();
        if (length > kMaxHeader)
          throw Error(Code::kDataLoss,
                      fmt::format("its length field is {} bytes, longer than any header", length));
        if (length < kMinDict)
          throw Error(Code::kDataLoss,
                      fmt::format("its length field is {} bytes, too short for a dict", length));
        return in.offset() + length;
      });
}

namespace {

// Only names of fields need this: everything else is ASCII.
std::string to_utf8(std::string_view text, bool latin1) {
  if (!latin1 && !valid_utf8(text)) damaged("the dict is not UTF-8");
  if (!latin1) return std::string(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) out += static_cast<char>(0xc0U | byte >> 6U);
    out += byte >= 0x80 ? static_cast<char>(0x80U | (byte & 0x3fU)) : c;
  }
  return out;
}

}  // namespace

NpyHeader decode_npy_header(ByteView header) {
  NpyHeader out;
  out.size = npy_header_size(header);
  if (out.size != header.size())
    damaged(fmt::format("it ends after {} of {} bytes", header.size(), out.size));
  const int version = std::to_integer<int>(header[6]);
  const std::string_view text = as_text(header.subspan(version == 1 ? 10 : 12));
  parse_dict(to_utf8(text, version < 3), out);
  set_type(out);
  if (text.size() > kMaxHeaderOfNumpy)
    out.refused =
        fmt::format("numpy.load reads a header of {} bytes only with max_header_size", text.size());
  if (out.unreadable.empty()) set_nbytes(out);
  return out;
}

std::string npy_descr(DType dtype) {
  const std::size_t size = dtype_size(dtype);
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
      return "|i1";
    case DType::kUint8:
      return "|u1";
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return fmt::format("<i{}", size);
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return fmt::format("<u{}", size);
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return fmt::format("<f{}", size);
    case DType::kComplex64:
    case DType::kComplex128:
      return fmt::format("<c{}", size);
    case DType::kOpaque:
      throw Error(Code::kInvalidArgument,
                  "Cairn does not write npy files of elements that it does not interpret");
    default:
      return fmt::format("<V{}", size);  // as numpy.save writes the types of ml_dtypes
  }
}

Bytes npy_header(DType dtype, std::span<const std::int64_t> shape) {
  const std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       npy_descr(dtype), shape_text(shape));
  // NumPy leaves space for the first extent to grow to 21 digits in place.
  const std::size_t growth = shape.empty() ? 0 : 21 - std::to_string(shape[0]).size();
  const auto padding = [&](std::size_t prefix) {
    return kNpyAlign - (prefix + dict.size() + growth + 1) % kNpyAlign + growth;
  };
  std::size_t length = dict.size() + padding(10) + 1;
  const bool wide = length > 65535;
  if (wide) length = dict.size() + padding(12) + 1;
  ByteWriter out;
  out.text("\x93NUMPY").u8(wide ? 2 : 1).u8(0);
  if (wide)
    out.u32(static_cast<std::uint32_t>(length));
  else
    out.u16(static_cast<std::uint16_t>(length));
  out.text(dict).text(std::string(length - dict.size() - 1, ' ')).text("\n");
  return std::move(out).take();
}

}  // namespace cairn::inline v0
