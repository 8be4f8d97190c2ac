// consistency.h -- checks, before the first value is written, that all processes of a save describe
// the same arrays and together hold all of them.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// Compares the arrays of all processes. A model has many arrays and a job many processes, so each
// process first sends only one short hash summary. If the summaries differ, each process sends its
// full list of arrays, and the error names the array and the process.
class SaveConsistencyCheck {
 public:
  // Adds an array that all processes store together. Its description must be equal in all
  // processes. The parts of all processes must be the pieces of write_shape, each exactly once.
  // `count_pieces` is true in the one process that counts the needed pieces.
  void add(const std::string& name, std::string description, const Shape& shape,
           const Shape& write_shape, std::span<const handlers::ArrayPart> parts, bool count_pieces);
  // Returns the summary of all added arrays, which the processes exchange in a collective step.
  [[nodiscard]] Bytes summary() const;
  // Compares the summaries of all processes. If they differ, runs another collective step to find
  // the difference, and then throws invalid_argument with the process and the array.
  void check(std::span<const Bytes> summaries, const distributed::ProcessGroup& group) const;

 private:
  // A set of pieces, independent of their order.
  struct Pieces {
    std::uint64_t count = 0;
    std::uint64_t sum = 0;  // the sum of the hashes of the pieces
    void add(std::uint64_t array, std::span<const std::int64_t> origin);
    void add(const Pieces& other);
    bool operator==(const Pieces&) const = default;
  };
  // One array as one process describes it.
  struct Entry {
    std::string name;
    std::string description;
    std::string pieces;  // write_shape as a string
    Pieces given;
    Pieces needed;
  };
  // The decoded form of summary().
  struct Summary {
    std::uint64_t meaning = 0;
    Pieces given;
    Pieces needed;
  };
  // Returns the pieces of a whole array.
  static Pieces all_pieces(std::uint64_t array, const Shape& shape, const Shape& write_shape);
  static Summary parse_summary(ByteView bytes);
  static std::vector<Entry> parse_entries(ByteView bytes);
  // Returns the full list of arrays, encoded for the other processes.
  [[nodiscard]] Bytes entries() const;
  [[noreturn]] static void explain(std::span<const Bytes> said, std::size_t primary);
  static void compare(const std::vector<Entry>& primary, const std::vector<Entry>& other,
                      const std::string& who, const std::string& primary_name);

  std::vector<Entry> entries_;
};

}  // namespace cairn::inline v0::orbax
