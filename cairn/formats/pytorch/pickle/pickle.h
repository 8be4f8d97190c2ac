// pickle.h -- Pickle, the values that a pickle describes. They are data: no class is imported, no
// function is called, no object is made.
//
//   torch._utils._rebuild_tensor_v2(storage, 0, (2, 3), ...)   a kCall with a kGlobal and a kTuple
//
// Source of the rules: Python's pickletools, which documents each opcode, and what CPython's
// Unpickler does with it.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pickle {

enum class Kind : std::uint8_t {
  kNone,
  kBool,
  kInt,        // fits into 64 bits
  kLongBytes,  // a longer integer: bytes(), little-endian, two's complement
  kLongText,   // a longer integer: text(), decimal digits
  kFloat,
  kText,        // str; UTF-8, which may contain surrogates as Python writes them
  kByteString,  // str of Python 2, whose encoding is not stored
  kBytes,
  kByteArray,
  kList,        // items()
  kTuple,       // items()
  kSet,         // items()
  kFrozenSet,   // items()
  kDict,        // items(): key, value, key, value, ...; a later key replaces an earlier one
  kGlobal,      // module_of() and name_of(): what a real unpickler would import
  kExtension,   // integer(): a code of copyreg's registry, which stands for a global
  kCall,        // a call of part(kCallee) with the tuple part(kArguments), by REDUCE
  kObject,      // a new object of the class part(kCallee), by NEWOBJ, NEWOBJ_EX, INST or OBJ
  kPersistent,  // items(): one value, which names an object outside of the pickle
  kBuffer,      // integer(): the number of a buffer outside of the pickle
};

// Whether values of this kind have items().
constexpr bool has_items(Kind kind) {
  switch (kind) {
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kSet:
    case Kind::kFrozenSet:
    case Kind::kDict:
    case Kind::kCall:
    case Kind::kObject:
    case Kind::kPersistent:
      return true;
    default:
      return false;
  }
}

// One value of a Pickle. The same Value is the same object: Python's `is`.
using Value = std::uint32_t;

// The parts of a kCall or a kObject. All but the callee are kNone if the pickle has none.
enum class Part : std::uint8_t {
  kCallee,     // a kGlobal, unless the pickle is strange
  kArguments,  // a kTuple, unless the pickle is strange
  kKeywords,   // a kDict of NEWOBJ_EX
  kStates,     // a kList of what BUILD gave it: normally one state
  kItems,      // a kList of what APPEND, APPENDS or ADDITEMS gave it
  kEntries,    // a kDict of what SETITEM or SETITEMS gave it
};

// What a pickle describes. A value may contain itself, and may be shared by any number of others:
// walk it with a bound. Memory is at most about 24 times the size of the pickle, and no more than
// the limits of parse_pickle() allow.
class Pickle {
 public:
  [[nodiscard]] Value root() const { return root_; }
  // Makes another value of the pickle its root.
  void set_root(Value value) { root_ = value; }
  // Number of values; each Value is below it.
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  // Where the pickle ended: the byte after its STOP.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] int protocol() const { return protocol_; }
  // All globals that the pickle names, each once, in the order of their opcodes.
  [[nodiscard]] const std::vector<Value>& globals() const { return globals_; }

  [[nodiscard]] Kind kind(Value value) const { return nodes_[value].kind; }
  // The functions below are for the kinds that name them.
  [[nodiscard]] bool boolean(Value value) const { return nodes_[value].word != 0; }
  [[nodiscard]] std::int64_t integer(Value value) const {
    return static_cast<std::int64_t>(nodes_[value].word);
  }
  [[nodiscard]] double real(Value value) const;
  [[nodiscard]] std::string_view text(Value value) const { return as_text(bytes(value)); }
  [[nodiscard]] ByteView bytes(Value value) const;
  [[nodiscard]] std::span<const Value> items(Value value) const;
  [[nodiscard]] std::string_view module_of(Value global) const { return text(items(global)[0]); }
  [[nodiscard]] std::string_view name_of(Value global) const { return text(items(global)[1]); }
  [[nodiscard]] Value part(Value value, Part part) const {
    return items(value)[static_cast<std::size_t>(part)];
  }
  // Whether this is the global `name` ("torch.Size": the module, a dot, the name).
  [[nodiscard]] bool is_global(Value value, std::string_view name) const;

 private:
  friend class PickleBuilder;

  // 16 bytes, because a pickle may describe a value with one byte.
  struct Node {
    Kind kind = Kind::kNone;
    bool is_own = false;      // bytes(): in own_, not in input_
    std::uint32_t count = 0;  // of items or bytes
    // A number, or where the bytes begin; for items, the index of the first one (lower half) and
    // for how many there is room (upper half).
    std::uint64_t word = 0;
  };

  Bytes input_;
  Bytes own_;  // bytes of texts that are not in the input as they are
  std::vector<Node> nodes_;
  std::vector<Value> links_;  // the items of all values
  std::vector<Value> globals_;
  Value root_ = 0;
  std::uint64_t end_ = 0;
  int protocol_ = 0;
};

// The limits of parse_pickle(). A pickle beyond them is data_loss.
struct PickleLimits {
  // bytes of all values, in addition to six times the bytes of the input
  std::uint64_t memory = std::uint64_t{64} << 20U;
};

// The input ends before the pickle does.
class CutOffError : public Error {
 public:
  using Error::Error;
};

// Parses the pickle at the beginning of `input`; bytes after its STOP are ignored. Throws data_loss
// with the byte offset for anything but a pickle of the protocols 0 to 5, as a CutOffError if more
// bytes may make it one. Executes and imports nothing.
Pickle parse_pickle(Bytes input, const PickleLimits& limits = {});

}  // namespace cairn::inline v0::pickle
