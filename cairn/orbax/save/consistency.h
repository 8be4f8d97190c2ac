// consistency.h -- before the first value is written: whether all processes of a save mean the same
// arrays, and hold all of them.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::orbax {

// What processes agree on in one number, because a model has many arrays and a job many processes;
// only when they do not, each says all it means, so that the array and the process can be named.
class Agreement {
 public:
  // Adds an array that all processes store together: what is said of it must be the same in all,
  // and their parts must be the pieces of write_shape, each of them once. `count_pieces`: whether
  // this is the process that counts.
  void add(const std::string& name, std::string description, const Shape& shape,
           const Shape& write_shape, std::span<const handlers::ArrayPart> parts, bool count_pieces);
  // For the step in which all have added theirs.
  [[nodiscard]] Bytes summary() const;
  // `summaries`: of all processes. Meets the others again if they differ, and then throws
  // invalid_argument, naming process and array.
  void check(std::span<const Bytes> summaries, const distributed::ProcessGroup& group) const;

 private:
  // Some pieces, whatever their order.
  struct Pieces {
    std::uint64_t count = 0;
    std::uint64_t sum = 0;  // of their hashes
    void add(std::uint64_t array, std::span<const std::int64_t> origin);
    void add(const Pieces& other);
    bool operator==(const Pieces&) const = default;
  };
  struct Entry {
    std::string name;
    std::string description;
    std::string pieces;  // write_shape, as text
    Pieces given;
    Pieces needed;
  };
  struct Summary {
    std::uint64_t meaning = 0;
    Pieces given;
    Pieces needed;
  };
  static Pieces all_pieces(std::uint64_t array, const Shape& shape, const Shape& write_shape);
  static Summary parse_summary(ByteView bytes);
  static std::vector<Entry> parse_entries(ByteView bytes);
  [[nodiscard]] Bytes entries() const;
  [[noreturn]] static void explain(std::span<const Bytes> said, std::size_t primary);
  static void compare(const std::vector<Entry>& primary, const std::vector<Entry>& other,
                      const std::string& who, const std::string& primary_name);

  std::vector<Entry> entries_;
};

}  // namespace cairn::orbax
