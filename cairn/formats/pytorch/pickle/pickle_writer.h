// pickle_writer.h -- PickleWriter, which writes values as protocol 2. It uses only opcodes that
// torch.load(weights_only=True) reads.
//
// A value that may be named again gets the next number of the memo, in the order in which Python's
// pickler numbers them. So the pickle of a state dict equals that of torch.save byte for byte.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/formats/pytorch/pickle/opcodes.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cairn::inline v0::pickle {

class PickleWriter {
 public:
  PickleWriter();

  void none() { op(Opcode::kNone); }
  void boolean(bool value) { op(value ? Opcode::kNewTrue : Opcode::kNewFalse); }
  void integer(std::int64_t value);
  void integer(std::uint64_t value);
  void real(double value);
  // Equal texts are one str. Throws invalid_argument for more than 2^32 - 1 bytes.
  void text(std::string_view utf8) { text(utf8, texts_); }
  // As text(), for keys of storages, which are not the same str as equal texts elsewhere.
  void storage_key(std::string_view key) { text(key, storage_keys_); }
  // A bytes object, as protocol 2 has to write it: _codecs.encode(text, 'latin1').
  void bytes(ByteView value);
  // The class or function `name` of a module, by its name in Python 2.
  void global(std::string_view module, std::string_view name);

  // A container: open() before its parts, and the close_ function of its type after them.
  void open() { op(Opcode::kMark); }
  // A tuple of `items` values. Up to three items need no open().
  void close_tuple(std::size_t items);
  void empty_tuple() { op(Opcode::kEmptyTuple); }
  // A list of `count` items, or a dict of `count` entries; `item` writes item i, or key and value.
  void list(std::size_t count, const std::function<void(std::size_t)>& item);
  void dict(std::size_t count, const std::function<void(std::size_t)>& entry);
  // Calls the function with the tuple, which are the last two values.
  void call();
  // Makes an object of the class with the tuple, which are the last two values.
  void make_object();
  // Gives the last but one value the last one as its state.
  void build() { op(Opcode::kBuild); }
  // Names an object outside of the pickle by the last value.
  void persistent() { op(Opcode::kBinPersId); }

  // The pickle, whose only value is complete. The writer is of no use afterwards.
  [[nodiscard]] Bytes take() &&;

 private:
  using Numbers = std::map<std::string, std::uint32_t, std::less<>>;  // in the memo

  void text(std::string_view utf8, Numbers& known);
  void op(Opcode code) { out_.u8(static_cast<std::uint8_t>(code)); }
  // Gives the last value the next number.
  std::uint32_t put();
  // Writes the value that has this number.
  void get(std::uint32_t number);
  // As `item` for each, between the opcodes that add one or many to a container.
  void fill(std::size_t count, const std::function<void(std::size_t)>& item, Opcode one,
            Opcode many);

  ByteWriter out_;
  std::uint32_t next_ = 0;
  Numbers texts_, storage_keys_;
  Numbers globals_;  // "module\nname\n"
};

}  // namespace cairn::inline v0::pickle
