// aggregate_handler.cc -- a whole tree in one msgpack file.
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/msgpack.h>
#include <cairn/orbax/aggregate_handler.h>

#include <utility>

namespace cairn::inline v0 {

MsgpackHandler::MsgpackHandler() : MsgpackHandler(Options{}) {}
MsgpackHandler::MsgpackHandler(Options options) : options_(std::move(options)) {}

void MsgpackHandler::serialize(const std::string& path, const Tree& item) const {
  if (options_.support_rich_types)
    throw Error(Code::kUnimplemented,
                path +
                    ": a msgpack file cannot record tuples and named tuples as such; set "
                    "support_rich_types to false");
  write_msgpack(path, as_stored(item),
                {.encoding = {.dialect = MsgpackDialect::kOrbax},
                 .if_exists = IfExists::kReplace,
                 .store = options_.store,
                 .multiprocessing = options_.multiprocessing_options});
}

Tree MsgpackHandler::deserialize(const std::string& path) const {
  if (!is_store_url(path) && !file_exists(path))
    throw Error(Code::kNotFound, path + ": there is no such file with a tree");
  return open_msgpack(path, {.store = options_.store})->load();
}

}  // namespace cairn::inline v0
