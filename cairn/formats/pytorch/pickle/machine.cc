// machine.cc -- parse_pickle(): the stack machine of Python's Unpickler, over inert values.
#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/pickle/builder.h>
#include <cairn/formats/pytorch/pickle/lines.h>
#include <cairn/formats/pytorch/pickle/opcodes.h>
#include <cairn/formats/pytorch/pickle/pickle.h>

#include <bit>
#include <string>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pickle {
namespace {

constexpr int kLastProtocol = 5;
constexpr std::size_t kShortName = 96;  // bytes of a global; costs no more than what uses it
constexpr std::uint64_t kCopiesOfName = 4;

// The values that PUT and MEMOIZE keep, by their numbers. Pickles count from 0, but need not.
class Memo {
 public:
  void put(PickleBuilder& builder, std::uint64_t number, Value value) {
    if (number < dense_.size()) {
      dense_[number] = value;
    } else if (number == dense_.size()) {
      builder.charge(sizeof(Value));
      dense_.push_back(value);
      sparse_.erase(number);
    } else if (sparse_.insert_or_assign(number, value).second) {
      builder.charge(kBytesOfSparse);
    }
  }
  // Throws data_loss if nothing has this number.
  [[nodiscard]] Value get(std::uint64_t number) const {
    const auto found = sparse_.find(number);
    if (found != sparse_.end()) return found->second;
    if (number >= dense_.size()) data_loss("memo " + std::to_string(number) + " is not set");
    return dense_[number];
  }
  [[nodiscard]] std::uint64_t size() const { return dense_.size() + sparse_.size(); }

 private:
  static constexpr std::uint64_t kBytesOfSparse = 64;  // of one entry, with its node
  std::vector<Value> dense_;
  std::unordered_map<std::uint64_t, Value> sparse_;
};

// The bytes of the pickle, from front to back. Throws CutOffError at their end.
class Input {
 public:
  explicit Input(ByteView bytes) : bytes_(bytes), in_(bytes) {}

  [[nodiscard]] std::size_t offset() const { return in_.offset(); }
  [[nodiscard]] std::size_t remaining() const { return in_.remaining(); }
  std::uint8_t u8() { return need(1).u8(); }
  std::uint16_t u16() { return need(2).u16(); }
  std::uint32_t u32() { return need(4).u32(); }
  std::int32_t i32() { return need(4).i32(); }
  std::uint64_t u64() { return need(8).u64(); }
  std::uint64_t u64_be() { return need(8).u64_be(); }
  ByteView take(std::uint64_t n) { return need(n).take(n); }
  // The bytes up to the next line feed, which is taken, too.
  std::string_view line() {
    const std::string_view rest = as_text(bytes_).substr(offset());
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) cut_off("a line has no end");
    (void)in_.take(length + 1);
    return rest.substr(0, length);
  }
  [[noreturn]] static void cut_off(const std::string& what) {
    throw CutOffError(Code::kDataLoss, what);
  }

 private:
  ByteReader& need(std::uint64_t n) {
    if (n > remaining())
      cut_off("unexpected end of data: " + std::to_string(n) + " bytes wanted, " +
              std::to_string(remaining()) + " left");
    return in_;
  }

  ByteView bytes_;
  ByteReader in_;
};

class Machine {
 public:
  Machine(Bytes input, const PickleLimits& limits)
      : builder_(std::move(input), limits), in_(builder_.input()) {}

  Pickle run() && {
    while (true) {
      const std::size_t at = in_.offset();
      try {
        const auto opcode = static_cast<Opcode>(in_.u8());
        if (opcode == Opcode::kStop) {
          const Value root = pop();
          return std::move(builder_).finish(root, in_.offset(), protocol_);
        }
        step(opcode);
      } catch (const CutOffError& e) {
        throw CutOffError(e.code(), at_byte(at, e));
      } catch (const Error& e) {
        throw Error(e.code(), at_byte(at, e));
      }
    }
  }

 private:
  static std::string at_byte(std::size_t at, const Error& e) {
    return "the opcode at byte " + std::to_string(at) + " of the pickle: " + e.message();
  }

  // ---- the stack ----

  // Values below the last mark cannot be taken.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void need(std::size_t n) const {
    if (stack_.size() - floor() < n) data_loss("the stack has too few values");
  }
  void push(Value value) {
    builder_.charge(sizeof(Value) + cost_of_name(value));
    stack_.push_back(value);
  }
  // A global is printed with its name wherever it is used, in several copies.
  [[nodiscard]] std::uint64_t cost_of_name(Value value) const {
    const Pickle& p = builder_.made();
    if (p.kind(value) != Kind::kGlobal) return 0;
    const std::size_t name = p.module_of(value).size() + p.name_of(value).size();
    return name > kShortName ? kCopiesOfName * name : 0;
  }
  Value pop() {
    need(1);
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  [[nodiscard]] Value top() const {
    need(1);
    return stack_.back();
  }
  // Calls f(values above the last mark), and then removes these and the mark.
  template <class F>
  auto above_mark(F f) {
    if (marks_.empty()) data_loss("there is no mark on the stack");
    const std::size_t mark = marks_.back();
    const std::vector<Value> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                   stack_.end());
    stack_.resize(mark);
    marks_.pop_back();
    return f(std::span<const Value>(items));
  }

  // ---- operands ----

  std::string_view line() { return in_.line(); }
  std::uint64_t positive_i32() {
    const std::int32_t n = in_.i32();
    if (n < 0) data_loss("a length is negative");
    return static_cast<std::uint64_t>(n);
  }
  Value text(std::uint64_t length) {
    const ByteView bytes = in_.take(length);
    if (!is_python_utf8(as_text(bytes))) data_loss("a text is not UTF-8");
    return builder_.bytes_of_input(Kind::kText, bytes);
  }
  Value line_text() {
    const std::string_view found = line();
    if (!is_python_utf8(found)) data_loss("a text is not UTF-8");
    return builder_.bytes_of_input(Kind::kText, as_bytes(found));
  }
  Value bytes(Kind kind, std::uint64_t length) {
    return builder_.bytes_of_input(kind, in_.take(length));
  }
  // An integer of n bytes, little-endian, in two's complement.
  Value integer(std::uint64_t n) {
    ByteView digits = in_.take(n);
    if (digits.size() > 8) return builder_.bytes_of_input(Kind::kLongBytes, digits);
    const bool is_negative = !digits.empty() && (digits.back() & std::byte{0x80}) != std::byte{0};
    std::uint64_t word = is_negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;)
      word = word << 8U | std::to_integer<std::uint64_t>(digits[i]);
    return builder_.number(Kind::kInt, static_cast<std::int64_t>(word));
  }
  Value extension(std::int64_t code) {
    if (code <= 0) data_loss("the code of an extension is not positive");
    return builder_.number(Kind::kExtension, code);
  }

  // ---- opcodes ----

  [[nodiscard]] bool is_object(Value value) const {
    const Kind kind = builder_.made().kind(value);
    return kind == Kind::kCall || kind == Kind::kObject;
  }
  // Adds items to what is on top of the stack: to a collection of this kind, or to an object.
  void add_items(Kind kind, Part part, std::span<const Value> items) {
    const Value target = top();
    if (builder_.made().kind(target) == kind)
      builder_.extend(target, items);
    else if (is_object(target))
      builder_.extend_part(target, part, part == Part::kEntries ? Kind::kDict : Kind::kList, items);
    else
      data_loss("items are added to a value that cannot hold them");
  }
  void set_items(std::span<const Value> items) {
    if (items.size() % 2 != 0) data_loss("a key has no value");
    add_items(Kind::kDict, Part::kEntries, items);
  }
  void build() {
    const Value state = pop();
    if (!is_object(top())) data_loss("a state is given to a value that is no object");
    builder_.extend_part(top(), Part::kStates, Kind::kList, {&state, 1});
  }
  void make_object(Kind kind, bool has_keywords) {
    const Value keywords = has_keywords ? pop() : kNoneValue;
    const Value arguments = pop();
    const Value callee = pop();
    push(builder_.object(kind, callee, arguments, keywords));
  }
  Value tuple_of(std::span<const Value> items) {
    return items.empty() ? kEmptyTupleValue : builder_.collection(Kind::kTuple, items);
  }
  void make_tuple(std::size_t n) {
    need(n);
    const std::span<const Value> items = std::span<const Value>(stack_).last(n);
    const Value tuple = tuple_of(items);
    stack_.resize(stack_.size() - n);
    push(tuple);
  }
  Value global() {
    const Value module = line_text();
    return builder_.global(module, line_text());
  }
  void stack_global() {
    const Value name = pop();
    const Value module = pop();
    for (const Value part : {module, name})
      if (builder_.made().kind(part) != Kind::kText) data_loss("the name of a global is no text");
    push(builder_.global(module, name));
  }
  void make_instance() {
    const Value cls = global();
    push(above_mark([&](std::span<const Value> items) {
      return builder_.object(Kind::kObject, cls, tuple_of(items), kNoneValue);
    }));
  }
  void make_marked_object() {
    push(above_mark([&](std::span<const Value> items) {
      if (items.empty()) data_loss("an object has no class");
      return builder_.object(Kind::kObject, items[0], tuple_of(items.subspan(1)), kNoneValue);
    }));
  }
  Value dict_of(std::span<const Value> items) {
    if (items.size() % 2 != 0) data_loss("a key has no value");
    return builder_.collection(Kind::kDict, items);
  }
  Value persistent(Value id) { return builder_.collection(Kind::kPersistent, {&id, 1}); }
  void put(std::uint64_t number) { memo_.put(builder_, number, top()); }
  void drop() {
    // As CPython: a mark that is on top is dropped, too.
    if (!marks_.empty() && marks_.back() == stack_.size())
      marks_.pop_back();
    else
      (void)pop();
  }
  void set_protocol() {
    protocol_ = in_.u8();
    if (protocol_ > kLastProtocol)
      data_loss("protocol " + std::to_string(protocol_) + " is unknown");
  }
  void check_frame() {
    const std::uint64_t length = in_.u64();
    if (length > in_.remaining()) Input::cut_off("a frame is longer than the rest of the pickle");
  }

  void step(Opcode opcode) {
    if (push_scalar(opcode) || push_bytes(opcode) || change_stack(opcode) || change_items(opcode) ||
        make_values(opcode))
      return;
    data_loss("opcode " + std::to_string(static_cast<unsigned>(opcode)) + " is unknown");
  }

  bool push_scalar(Opcode opcode) {
    switch (opcode) {
      case Opcode::kNone:
        push(kNoneValue);
        return true;
      case Opcode::kNewTrue:
        push(kTrueValue);
        return true;
      case Opcode::kNewFalse:
        push(kFalseValue);
        return true;
      case Opcode::kInt:
        push(parse_int_line(builder_, line()));
        return true;
      case Opcode::kLong:
        push(parse_long_line(builder_, line()));
        return true;
      case Opcode::kFloat:
        push(parse_float_line(builder_, line()));
        return true;
      case Opcode::kBinInt:
        push(builder_.number(Kind::kInt, in_.i32()));
        return true;
      case Opcode::kBinInt1:
        push(builder_.number(Kind::kInt, in_.u8()));
        return true;
      case Opcode::kBinInt2:
        push(builder_.number(Kind::kInt, in_.u16()));
        return true;
      case Opcode::kLong1:
        push(integer(in_.u8()));
        return true;
      case Opcode::kLong4:
        push(integer(positive_i32()));
        return true;
      case Opcode::kBinFloat:
        push(builder_.real(std::bit_cast<double>(in_.u64_be())));
        return true;
      default:
        return false;
    }
  }

  bool push_bytes(Opcode opcode) {
    switch (opcode) {
      case Opcode::kBinUnicode:
        push(text(in_.u32()));
        return true;
      case Opcode::kShortBinUnicode:
        push(text(in_.u8()));
        return true;
      case Opcode::kBinUnicode8:
        push(text(in_.u64()));
        return true;
      case Opcode::kUnicode:
        push(builder_.own_bytes(Kind::kText, without_unicode_escapes(line())));
        return true;
      case Opcode::kString:
        push(builder_.own_bytes(Kind::kByteString, unquoted(line())));
        return true;
      case Opcode::kBinString:
        push(bytes(Kind::kByteString, positive_i32()));
        return true;
      case Opcode::kShortBinString:
        push(bytes(Kind::kByteString, in_.u8()));
        return true;
      case Opcode::kBinBytes:
        push(bytes(Kind::kBytes, in_.u32()));
        return true;
      case Opcode::kShortBinBytes:
        push(bytes(Kind::kBytes, in_.u8()));
        return true;
      case Opcode::kBinBytes8:
        push(bytes(Kind::kBytes, in_.u64()));
        return true;
      case Opcode::kByteArray8:
        push(bytes(Kind::kByteArray, in_.u64()));
        return true;
      default:
        return false;
    }
  }

  bool change_stack(Opcode opcode) {
    switch (opcode) {
      case Opcode::kProto:
        set_protocol();
        return true;
      case Opcode::kFrame:
        check_frame();
        return true;
      case Opcode::kMark:
        builder_.charge(sizeof(std::size_t));
        marks_.push_back(stack_.size());
        return true;
      case Opcode::kPop:
        drop();
        return true;
      case Opcode::kPopMark:
        above_mark([](std::span<const Value> /*items*/) {});
        return true;
      case Opcode::kDup:
        push(top());
        return true;
      case Opcode::kGet:
        push(memo_.get(parse_memo_line(line())));
        return true;
      case Opcode::kBinGet:
        push(memo_.get(in_.u8()));
        return true;
      case Opcode::kLongBinGet:
        push(memo_.get(in_.u32()));
        return true;
      case Opcode::kPut:
        put(parse_memo_line(line()));
        return true;
      case Opcode::kBinPut:
        put(in_.u8());
        return true;
      case Opcode::kLongBinPut:
        put(in_.u32());
        return true;
      case Opcode::kMemoize:
        put(memo_.size());
        return true;
      default:
        return false;
    }
  }

  bool change_items(Opcode opcode) {
    switch (opcode) {
      case Opcode::kAppend: {
        const Value item = pop();
        add_items(Kind::kList, Part::kItems, {&item, 1});
        return true;
      }
      case Opcode::kAppends:
        above_mark(
            [&](std::span<const Value> items) { add_items(Kind::kList, Part::kItems, items); });
        return true;
      case Opcode::kAddItems:
        above_mark(
            [&](std::span<const Value> items) { add_items(Kind::kSet, Part::kItems, items); });
        return true;
      case Opcode::kSetItem: {
        need(3);
        const Value entry[] = {stack_[stack_.size() - 2], stack_.back()};
        stack_.resize(stack_.size() - 2);
        set_items(entry);
        return true;
      }
      case Opcode::kSetItems:
        above_mark([&](std::span<const Value> items) { set_items(items); });
        return true;
      case Opcode::kBuild:
        build();
        return true;
      default:
        return false;
    }
  }

  bool make_values(Opcode opcode) {
    switch (opcode) {
      case Opcode::kEmptyTuple:
        push(kEmptyTupleValue);
        return true;
      case Opcode::kEmptyList:
        push(builder_.collection(Kind::kList, {}));
        return true;
      case Opcode::kEmptyDict:
        push(builder_.collection(Kind::kDict, {}));
        return true;
      case Opcode::kEmptySet:
        push(builder_.collection(Kind::kSet, {}));
        return true;
      case Opcode::kTuple:
        push(above_mark([&](std::span<const Value> items) { return tuple_of(items); }));
        return true;
      case Opcode::kTuple1:
        make_tuple(1);
        return true;
      case Opcode::kTuple2:
        make_tuple(2);
        return true;
      case Opcode::kTuple3:
        make_tuple(3);
        return true;
      case Opcode::kList:
        push(above_mark(
            [&](std::span<const Value> items) { return builder_.collection(Kind::kList, items); }));
        return true;
      case Opcode::kFrozenSet:
        push(above_mark([&](std::span<const Value> items) {
          return builder_.collection(Kind::kFrozenSet, items);
        }));
        return true;
      case Opcode::kDict:
        push(above_mark([&](std::span<const Value> items) { return dict_of(items); }));
        return true;
      case Opcode::kGlobal:
        push(global());
        return true;
      case Opcode::kStackGlobal:
        stack_global();
        return true;
      case Opcode::kInst:
        make_instance();
        return true;
      case Opcode::kObj:
        make_marked_object();
        return true;
      case Opcode::kReduce:
        make_object(Kind::kCall, false);
        return true;
      case Opcode::kNewObj:
        make_object(Kind::kObject, false);
        return true;
      case Opcode::kNewObjEx:
        make_object(Kind::kObject, true);
        return true;
      case Opcode::kExt1:
        push(extension(in_.u8()));
        return true;
      case Opcode::kExt2:
        push(extension(in_.u16()));
        return true;
      case Opcode::kExt4:
        push(extension(in_.i32()));
        return true;
      case Opcode::kPersId:
        push(persistent(line_text()));
        return true;
      case Opcode::kBinPersId:
        push(persistent(pop()));
        return true;
      case Opcode::kNextBuffer:
        push(builder_.number(Kind::kBuffer, buffers_++));
        return true;
      case Opcode::kReadOnlyBuffer:
        (void)top();
        return true;
      default:
        return false;
    }
  }

  PickleBuilder builder_;
  Input in_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  Memo memo_;
  std::int64_t buffers_ = 0;
  int protocol_ = 0;
};

}  // namespace

Pickle parse_pickle(Bytes input, const PickleLimits& limits) {
  return Machine(std::move(input), limits).run();
}

}  // namespace cairn::inline v0::pickle
