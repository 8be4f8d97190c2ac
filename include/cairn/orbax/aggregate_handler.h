// aggregate_handler.h -- stores a whole tree in one file. Older versions of Orbax kept small values
// in such a file, `checkpoint`, beside the arrays. Names and results are those of Orbax's
// aggregate_handlers.
#pragma once

#include <cairn/distributed.h>
#include <cairn/storage/store_options.h>
#include <cairn/tree.h>

#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Writes a tree to a file and reads it.
class AggregateHandler {
 public:
  AggregateHandler() = default;
  AggregateHandler(const AggregateHandler&) = delete;
  AggregateHandler& operator=(const AggregateHandler&) = delete;
  virtual ~AggregateHandler() = default;

  // Writes the tree. Replaces an existing file.
  virtual void serialize(const std::string& path, const Tree& item) const = 0;
  // Reads the tree. Throws not_found if there is no file.
  [[nodiscard]] virtual Tree deserialize(const std::string& path) const = 0;
  // Called when the handler is no longer needed.
  virtual void close() {}
};

// Stores the tree as msgpack. Tuples become lists and named tuples dicts, as in `_METADATA`; dicts
// are sorted. The file, at a path or a URL, appears complete or not at all. Throws as
// msgpack_serialize and msgpack_restore (cairn/msgpack.h).
class MsgpackHandler : public AggregateHandler {
 public:
  // Options of MsgpackHandler.
  struct Options {
    // The processes that call serialize together; the primary writes.
    MultiprocessingOptions multiprocessing_options = {};
    // Unimplemented, as in Orbax: serialize then throws.
    bool support_rich_types = false;
    StoreOptions store = {};  // how to reach the store, if the path is a URL
  };
  MsgpackHandler();
  explicit MsgpackHandler(Options options);
  void serialize(const std::string& path, const Tree& item) const override;
  [[nodiscard]] Tree deserialize(const std::string& path) const override;

 private:
  Options options_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
