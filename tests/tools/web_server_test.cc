// web_server_test.cc -- checkpoints that are single files of a web server, which lists nothing.
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/safetensors.h>
#include <gmock/gmock.h>

#include <charconv>
#include <map>
#include <string>

#include "tests/kvstore/object/support/http_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using object::testing::HttpServer;
using object::testing::ServerConnection;
using object::testing::ServerRequest;
using testing::FailsWith;
using testing::TempDir;

using Files = std::map<std::string, std::string>;  // path on the server -> content

void send_file(const std::string& bytes, const ServerRequest& request,
               ServerConnection& connection) {
  const std::string range = request.field("Range");
  std::size_t first = 0, last = 0;
  const std::size_t dash = range.find('-');
  std::from_chars(range.data() + 6, range.data() + dash, first);
  std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
  last = std::min(last, bytes.size() - 1);
  connection.answer("206 Partial Content", std::string_view(bytes).substr(first, last - first + 1),
                    "ETag: \"1\"\r\nContent-Range: bytes " + std::to_string(first) + "-" +
                        std::to_string(last) + "/" + std::to_string(bytes.size()) + "\r\n");
}

HttpServer::Handler serving(const Files& files) {
  return [&files](const ServerRequest& request, ServerConnection& connection) {
    const auto file = files.find(request.target);
    if (file == files.end()) return connection.answer("404 Not Found", "none");
    send_file(file->second, request, connection);
  };
}

TEST(WebServer, ItsFilesOpen) {
  const TempDir dir;
  const Tree tree = Tree::Dict{{"w", Array::from<float>({1, 2, 3, 4}, {2, 2})}};
  Files files;
  for (const char* name : {"a.safetensors", "b.npz", "c.msgpack"}) {
    save(dir / name, tree);
    const Bytes bytes = read_file(dir / name);
    files["/models/" + std::string(name)] = as_text(bytes);
  }
  const HttpServer server(serving(files));
  for (const char* name : {"a.safetensors", "b.npz", "c.msgpack"})
    EXPECT_EQ(load(server.url("/models/" + std::string(name))), load(dir / name)) << name;
  EXPECT_EQ(open_safetensors(server.url("/models/a.safetensors"))->tensors().size(), 1U);
  EXPECT_LE(server.requests().size(), 12U);
}

TEST(WebServer, MissingFilesAreNamed) {
  const Files files;
  const HttpServer server(serving(files));
  EXPECT_THAT([&] { (void)load(server.url("/run")); }, FailsWith(Code::kNotFound, "/run"));
  EXPECT_THAT([&] { (void)load(server.url("/none.safetensors")); },
              FailsWith(Code::kNotFound, "none.safetensors"));
}

}  // namespace
}  // namespace cairn
