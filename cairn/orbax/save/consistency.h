// consistency.h -- checks, before the first value is written, that all processes of a save describe
// the same arrays and together hold all of them.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/distributed/consistency.h>
#include <cairn/distributed/process_group.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// The arrays that all processes store together. A model has many arrays and a job many processes,
// so each process first sends one short message. Only if the processes do not hold each piece once,
// each sends its count of every array, and the error names the array.
class SaveConsistencyCheck {
 public:
  // Adds an array. Its description must be equal in all processes. The parts of all processes must
  // be the pieces of write_shape, each exactly once. `count_pieces` is true in the one process that
  // counts the needed pieces.
  void add(const std::string& name, std::string description, const Shape& shape,
           const Shape& write_shape, std::span<const StorePart> parts, bool count_pieces);
  // Returns the message about all added arrays, which the processes exchange in a collective step.
  [[nodiscard]] Bytes message() const;
  // Compares the messages of all processes. If they differ, runs more collective steps to find
  // the difference, and then throws invalid_argument with the array.
  void check(std::span<const Bytes> messages, const distributed::ProcessGroup& group) const;

 private:
  // A set of pieces, independent of their order.
  struct Pieces {
    std::uint64_t count = 0;
    std::uint64_t sum = 0;  // the sum of the hashes of the pieces
    void add(std::uint64_t array, std::span<const std::int64_t> origin);
    void add(const Pieces& other);
    bool operator==(const Pieces&) const = default;
  };
  // The pieces that this process holds, and those that all must hold together.
  struct Counts {
    Pieces given;
    Pieces needed;
  };
  struct Entry {
    std::string name;
    std::string write_shape;
    Counts counts;
  };
  // Returns the pieces of a whole array.
  static Pieces all_pieces(std::uint64_t array, const Shape& shape, const Shape& write_shape);
  static void put(ByteWriter& out, const Counts& counts);
  // Reads the next counts of every process. Returns the pieces that all hold together, and those
  // that the primary process needs.
  static Counts take_total(std::span<ByteReader> processes, std::size_t primary);

  distributed::ConsistencyCheck descriptions_{"saves it"};
  std::vector<Entry> entries_;
};

}  // namespace cairn::inline v0::orbax
