// web_folder_test.cc -- checkpoints that are folders of a web server, which lists nothing: what is
// opened there is what is opened in a local folder; and servers that do not mean well.
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "tests/kvstore/object/support/http_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using object::testing::HttpServer;
using object::testing::ServerConnection;
using object::testing::ServerRequest;
using testing::error_of;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::TempDir;

using WebFiles = std::map<std::string, std::string>;  // path on the server -> content

WebFiles files_below(const std::string& folder) {
  WebFiles files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) {
      const Bytes bytes = read_file(entry.path().string());
      files["/" + entry.path().lexically_relative(folder).string()] = as_text(bytes);
    }
  return files;
}

void send_range(const std::string& bytes, const ServerRequest& request,
                ServerConnection& connection) {
  const std::string range = request.field("Range");
  if (request.method == "HEAD")
    return (void)connection.send(
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bytes.size()) + "\r\n\r\n");
  if (range.empty() || bytes.empty()) return connection.answer("200 OK", bytes);
  std::size_t first = 0, last = 0;
  const std::size_t dash = range.find('-');
  std::from_chars(range.data() + 6, range.data() + dash, first);
  std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
  last = std::min(last, bytes.size() - 1);
  connection.answer("206 Partial Content", std::string_view(bytes).substr(first, last - first + 1),
                    "ETag: \"1\"\r\nContent-Range: bytes " + std::to_string(first) + "-" +
                        std::to_string(last) + "/" + std::to_string(bytes.size()) + "\r\n");
}

void serve_file(const WebFiles& files, const ServerRequest& request, ServerConnection& connection) {
  const auto file = files.find(request.target);
  if (file == files.end())
    return connection.answer("404 Not Found", request.method == "HEAD" ? "" : "none");
  send_range(file->second, request, connection);
}

HttpServer::Handler serving_folder(const WebFiles& files) {
  return [&files](const ServerRequest& request, ServerConnection& connection) {
    serve_file(files, request, connection);
  };
}

Tree web_tree() {
  Tree::Dict inner{{"b", Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})}};
  return Tree::Dict{{"a", Array::from<double>({1, 2, 3}, {3})}, {"inner", Tree(std::move(inner))}};
}

void expect_same_as_local(const std::string& folder) {
  const WebFiles files = files_below(folder);
  const HttpServer server(serving_folder(files));
  for (const char* slash : {"", "/"}) {
    const auto remote = open(server.url(slash));
    EXPECT_EQ(remote->load(), load(folder));
    EXPECT_TRUE(remote->verify({}).findings.empty());
  }
}

TEST(WebFolder, OrbaxWithADatabase) {
  const TempDir dir;
  save(dir / "c", web_tree());
  expect_same_as_local(dir / "c");
}

TEST(WebFolder, OrbaxWithFoldersOfArrays) {
  const TempDir dir;
  for (const bool use_zarr3 : {false, true}) {
    const std::string path = dir / ("c" + std::to_string(use_zarr3));
    save(path, web_tree(), {.use_ocdbt = false, .use_zarr3 = use_zarr3});
    expect_same_as_local(path);
  }
}

TEST(WebFolder, WhatIsNotThereIsNamedWithAdvice) {
  const WebFiles none;
  const HttpServer server(serving_folder(none));
  EXPECT_THAT([&] { (void)load(server.url("/run")); },
              FailsWith(Code::kNotFound, "does not list its files"));
  EXPECT_THAT([&] { (void)load(server.url("/run"), {.step = 7}); },
              FailsWith(Code::kNotFound, "Step 7"));
}

TEST(WebFolder, AStepIsFoundBelowItsRoot) {
  const TempDir dir;
  save(dir / "run/step_00000007", web_tree());
  const WebFiles files = files_below(dir.path());
  const HttpServer server(serving_folder(files));
  EXPECT_EQ(load(server.url("/run"), {.step = 7}), web_tree());
}

// A server that answers every name, as those of programs in one page do.
TEST(WebFolder, ServersThatAnswerEveryNameAreRefused) {
  const HttpServer server([](const ServerRequest& request, ServerConnection& connection) {
    if (request.target == "/run" || request.target == "/run.index")
      return connection.answer("404 Not Found", "");
    send_range("<html>", request, connection);
  });
  EXPECT_THAT([&] { (void)load(server.url("/run")); },
              FailsWith(Code::kUnimplemented, "answers for names that do not exist"));
}

// Records that name more than anybody should ask for.
TEST(WebFolder, RecordsThatNameVeryMuchAreRefused) {
  const std::string array =
      R"({"zarr_format": 2, "shape": [900000, 900000], "chunks": [1, 1], "dtype": "<f4",
          "compressor": null, "fill_value": 0, "order": "C", "filters": null})";
  const WebFiles files = {{"/run/.zarray", array}};
  const HttpServer server(serving_folder(files));
  EXPECT_THAT([&] { (void)load(server.url("/run")); },
              FailsWith(Code::kUnimplemented, "too many to ask a web server for"));
  EXPECT_LE(server.requests().size(), 60U);
}

TEST(WebFolder, RecordsCannotLeadOutOfTheFolder) {
  const std::string index = R"({"weight_map": {"w": "../../secret.safetensors"}})";
  const WebFiles files = {{"/run/model.safetensors.index.json", index}};
  const HttpServer server(serving_folder(files));
  (void)error_of([&] { (void)load(server.url("/run")); });
  for (const ServerRequest& request : server.requests())
    EXPECT_THAT(request.target, ::testing::StartsWith("/run"));
}

// One of the files of a checkpoint, in ways in which servers go wrong.
TEST(WebFolder, LyingServersNeverGiveWrongValues) {
  const TempDir dir;
  save(dir / "c", web_tree());
  const WebFiles files = files_below(dir / "c");
  const std::string etag = "ETag: \"1\"\r\n";
  const std::map<std::string, std::function<void(const std::string&, ServerConnection&)>> lies = {
      {"another range",
       [&](const std::string& bytes, ServerConnection& to) {
         to.answer("206 Partial Content", bytes,
                   etag + "Content-Range: bytes 1-" + std::to_string(bytes.size()) + "/" +
                       std::to_string(bytes.size() + 1) + "\r\n");
       }},
      {"too short",
       [&](const std::string& bytes, ServerConnection& to) {
         to.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bytes.size() + 5) +
                 "\r\n\r\n" + bytes);
         to.close();
       }},
      {"compressed",
       [&](const std::string& bytes, ServerConnection& to) {
         to.answer("200 OK", bytes, "Content-Encoding: gzip\r\n");
       }},
      {"endless",
       [&](const std::string&, ServerConnection& to) {
         to.send("HTTP/1.1 200 OK\r\n\r\n");
         while (to.send(std::string(100'000, 'x'))) {
         }
       }},
      {"a redirect to itself", [&](const std::string&, ServerConnection& to) {
         to.answer("302 Found", "", "Location: /manifest.ocdbt?again\r\n");
       }}};
  for (const auto& [name, lie] : lies) {
    SCOPED_TRACE(name);
    const HttpServer server([&, &lie = lie](const ServerRequest& request, ServerConnection& to) {
      if (request.target.starts_with("/manifest.ocdbt"))
        return lie(files.at("/manifest.ocdbt"), to);
      serve_file(files, request, to);
    });
    const auto begin = std::chrono::steady_clock::now();
    const Error error = error_of(
        [&] { (void)load(server.url(""), {.store = {.retry_time = std::chrono::seconds(2)}}); });
    EXPECT_THAT(error.message(), HasSubstr(server.url("/manifest.ocdbt")));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
}

// The file is replaced after it was opened.
TEST(WebFolder, AFileThatChangesIsUnavailable) {
  const TempDir dir;
  Tree::Dict tree{{"w", Array::from<float>(std::vector<float>(1'000'000, 1.5F), {1'000'000})}};
  save(dir / "c", Tree(std::move(tree)), {.use_ocdbt = false});
  const WebFiles files = files_below(dir / "c");
  std::atomic<bool> is_replaced = false;
  const HttpServer server([&](const ServerRequest& request, ServerConnection& to) {
    if (is_replaced && !request.field("If-Match").empty())
      return to.answer("412 Precondition Failed", "");
    serve_file(files, request, to);
  });
  const auto opened = open(server.url(""));
  is_replaced = true;
  const auto loaded = try_call([&] { return opened->load(); });
  if (loaded.ok()) {
    EXPECT_EQ(loaded.value(), load(dir / "c"));
  } else {
    EXPECT_EQ(loaded.error().code(), Code::kUnavailable);
  }
}

// A server that accepts and never answers.
TEST(WebFolder, ARequestToStopEndsOpening) {
  const HttpServer server(
      [](const ServerRequest&, ServerConnection& connection) { connection.stall(); });
  for (const bool verifies : {false, true}) {
    std::stop_source stop;
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      stop.request_stop();
    });
    const OpenOptions options{.cancel = stop.get_token()};
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(
        [&] {
          if (verifies)
            (void)verify(server.url("/run"), {.open = options});
          else
            (void)load(server.url("/run"), options);
        },
        FailsWith(Code::kCancelled, "asked to stop"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

}  // namespace
}  // namespace cairn
