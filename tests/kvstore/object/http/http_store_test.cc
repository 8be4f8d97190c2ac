// The store over HTTP against a server on the loopback interface, which does what a test says.
#include <cairn/kvstore/object/http/http_store.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/open_object_store.h>
#include <cairn/kvstore/object/transport/curl_transport.h>
#include <gmock/gmock.h>

#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/kvstore/object/support/http_server.h"
#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/kvstore/object/support/source_reads.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::error_of;
using cairn::testing::FailsWith;
using ::testing::HasSubstr;
using testing::HttpServer;
using ::testing::Not;
using testing::numbered_text;
using testing::read_part;
using testing::ServerConnection;
using testing::ServerRequest;
using testing::StillClock;

constexpr const char* kChangeTime = "Sat, 28 Nov 2026 14:00:00 GMT";

// Files by the target of their requests, as a careful server sends them.
struct WebSite {
  std::map<std::string, std::string> files;
  std::string etag = "\"v1\"";
  std::string modified = kChangeTime;
  bool has_ranges = true;
  bool obeys_conditions = true;
  mutable std::mutex mutex = {};  // a server may still send the last answer when a test goes on

  template <class Change>
  void change(Change to) {
    const std::scoped_lock lock(mutex);
    to(*this);
  }

  [[nodiscard]] std::string fields() const {
    return (etag.empty() ? "" : "ETag: " + etag + "\r\n") +
           (modified.empty() ? "" : "Last-Modified: " + modified + "\r\n");
  }

  void serve(const ServerRequest& request, ServerConnection& connection) const {
    const std::scoped_lock lock(mutex);
    const auto file = files.find(request.target);
    if (file == files.end())
      return connection.answer("404 Not Found", request.method == "HEAD" ? "" : "none");
    const std::string& bytes = file->second;
    const std::string match = request.field("If-Match"),
                      since = request.field("If-Unmodified-Since");
    const bool fails = (!match.empty() && match != etag) || (!since.empty() && since != modified);
    if (fails && obeys_conditions) return connection.answer("412 Precondition Failed", "");
    if (request.method == "HEAD") {
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bytes.size()) +
                      "\r\n\r\n");
      return;
    }
    if (!has_ranges) return connection.answer("200 OK", bytes, fields());
    send_range(request.field("Range"), bytes, connection);
  }

  // "bytes=5-9"
  void send_range(const std::string& range, const std::string& bytes,
                  ServerConnection& connection) const {
    std::size_t first = 0, last = 0;
    const std::size_t dash = range.find('-');
    std::from_chars(range.data() + 6, range.data() + dash, first);
    std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    if (first >= bytes.size())
      return connection.answer("416 Range Not Satisfiable", "",
                               "Content-Range: bytes */" + std::to_string(bytes.size()) + "\r\n");
    last = std::min(last, bytes.size() - 1);
    connection.answer("206 Partial Content",
                      std::string_view(bytes).substr(first, last - first + 1),
                      fields() + "Content-Range: bytes " + std::to_string(first) + "-" +
                          std::to_string(last) + "/" + std::to_string(bytes.size()) + "\r\n");
  }
};

// A store over a server.
struct WebStore {
  explicit WebStore(HttpServer::Handler handler,
                    std::chrono::milliseconds retry_time = std::chrono::seconds(1))
      : server(std::move(handler)),
        store(make_http_store(server.url("/root"),
                              std::make_shared<HttpClient>(HttpConnection{
                                  .transport = std::make_shared<CurlTransport>(StoreOptions{}),
                                  .policy = clock.policy(retry_time),
                                  .limits = {},
                                  .stats = stats}))) {}
  explicit WebStore(const WebSite& site)
      : WebStore([&site](const ServerRequest& request, ServerConnection& connection) {
          site.serve(request, connection);
        }) {}

  StillClock clock;
  std::shared_ptr<StoreStats> stats = std::make_shared<StoreStats>();
  HttpServer server;
  StorePtr store;
};

std::string text_or_none(const std::optional<Bytes>& bytes) {
  return bytes ? std::string(as_text(*bytes)) : "(none)";
}

TEST(HttpStore, Reads) {
  const WebSite site{
      .files = {{"/root/a", "hello"}, {"/root/d/e%20%2Bf", "x"}, {"/root/empty", ""}}};
  const WebStore web(site);
  EXPECT_EQ(text_or_none(web.store->read("a", {})), "hello");
  EXPECT_EQ(text_or_none(web.store->read("a", {.offset = 1, .length = 3})), "ell");
  EXPECT_EQ(text_or_none(web.store->read("d/e +f", {})), "x");
  EXPECT_EQ(text_or_none(web.store->read("empty", {})), "");
  EXPECT_EQ(text_or_none(web.store->read("none", {})), "(none)");
  EXPECT_EQ(text_or_none(web.store->read_at_most("a", 5)), "hello");
  EXPECT_EQ(as_text(web.store->map("a")->bytes), "hello");
  EXPECT_EQ(web.store->size("a"), 5U);
  EXPECT_EQ(web.store->size("empty"), 0U);
  EXPECT_EQ(web.store->size("none"), std::nullopt);
  EXPECT_EQ(web.store->locate("a"), std::nullopt);
  EXPECT_EQ(web.store->describe("d/e +f"), web.server.url("/root/d/e +f"));
  std::string out(2, '-');
  EXPECT_TRUE(web.store->read_into("a", 3, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out, "lo");
  EXPECT_FALSE(web.store->read_into("none", 3, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(web.store->open("none", ""), nullptr);
  const auto source = web.store->open("a", "");
  EXPECT_EQ(source->size(), 5U);
  EXPECT_EQ(source->version(), "\"v1\"");
  EXPECT_EQ(source->modified_ns(), 1'795'874'400'000'000'000);
  EXPECT_EQ(web.server.requests().back().field("Accept-Encoding"), "identity");
}

TEST(HttpStore, IsOpenedByItsUrl) {
  const WebSite site{.files = {{"/a%20b/c", "hello"}}};
  const HttpServer server([&](const ServerRequest& request, ServerConnection& connection) {
    site.serve(request, connection);
  });
  const StorePtr store = open_object_store(server.url("/a%20b/"), {});
  EXPECT_EQ(text_or_none(store->read("c", {})), "hello");
  const StorePtr other = open_object_store(server.url("/a%20b"), {});
  EXPECT_EQ(text_or_none(other->read("c", {})), "hello");
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpStore, RefusesRangesKeysAndWrites) {
  const WebSite site{.files = {{"/root/a", "hello"}}};
  const WebStore web(site);
  KvStore& store = *web.store;
  EXPECT_THAT([&] { (void)store.read("a", {.offset = 6}); }, FailsWith(Code::kOutOfRange, ""));
  EXPECT_THAT([&] { (void)store.read("a", {.offset = 1, .length = 5}); },
              FailsWith(Code::kOutOfRange, ""));
  EXPECT_THAT([&] { (void)store.read_at_most("a", 4); },
              FailsWith(Code::kDataLoss, "5 bytes are stored, at most 4"));
  for (const char* key : {"", "..", "a/../b", "/a", "a/", "a//b"})
    EXPECT_THAT([&] { (void)store.open(key, ""); }, FailsWith(Code::kInvalidArgument, "")) << key;
  EXPECT_THAT([&] { (void)store.list(""); },
              FailsWith(Code::kUnimplemented, "a web server does not list its files"));
  EXPECT_THAT([&] { (void)store.list_level(""); }, FailsWith(Code::kUnimplemented, ""));
  EXPECT_THAT([&] { (void)store.list_values("", 1); }, FailsWith(Code::kUnimplemented, ""));
  EXPECT_THAT([&] { store.write("a", {}); }, FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT([&] { store.remove("a"); }, FailsWith(Code::kUnimplemented, "read-only"));
}

TEST(HttpStore, ReadsALargeFileInPartsOfOneVersion) {
  const WebSite site{.files = {{"/root/a", numbered_text(1'000'000)}}};
  const std::string& bytes = site.files.at("/root/a");
  const WebStore web(site);
  const auto source = web.store->open("a", "");
  EXPECT_EQ(read_part(*source, 10, 100), bytes.substr(10, 100));
  EXPECT_EQ(web.server.requests().size(), 1U);  // it was in the first 256 KiB
  EXPECT_EQ(read_part(*source, 700'000, 300'000), bytes.substr(700'000));
  EXPECT_EQ(web.server.requests().back().field("Range"), "bytes=700000-999999");
  EXPECT_EQ(web.server.requests().back().field("If-Match"), "\"v1\"");
  EXPECT_EQ(text_or_none(web.store->read("a", {})), bytes);
  EXPECT_EQ(web.server.connections(), 1U);
}

TEST(HttpStore, NoticesAnotherVersion) {
  for (const bool obeys : {true, false}) {
    for (const bool has_etag : {true, false}) {
      SCOPED_TRACE(obeys);
      SCOPED_TRACE(has_etag);
      WebSite site{.files = {{"/root/a", numbered_text(600'000)}}};
      site.obeys_conditions = obeys;
      if (!has_etag) site.etag = "W/\"weak\"";
      const WebStore web(site);
      const auto source = web.store->open("a", "");
      EXPECT_EQ(source->version(), has_etag ? "\"v1\"" : kChangeTime);
      site.change([&](WebSite& to) { (has_etag ? to.etag : to.modified) = "\"other\""; });
      EXPECT_THAT([&] { (void)read_part(*source, 500'000, 10); },
                  FailsWith(Code::kUnavailable, "was replaced or removed"));
      EXPECT_THAT([&] { (void)web.store->open("a", source->version()); },
                  FailsWith(Code::kUnavailable, "was replaced or removed"));
      EXPECT_NE(web.store->open("a", ""), nullptr);
    }
  }
}

TEST(HttpStore, NoticesAnotherLengthAndAMissingFile) {
  WebSite site{.files = {{"/root/a", numbered_text(600'000)}}};
  site.etag = site.modified = "";
  const WebStore web(site);
  const auto source = web.store->open("a", "");
  EXPECT_EQ(source->version(), "");
  site.change([](WebSite& to) { to.files["/root/a"] += "x"; });
  const auto fails = [&] {
    EXPECT_THAT([&] { (void)read_part(*source, 500'000, 10); },
                FailsWith(Code::kUnavailable, "was replaced or removed"));
  };
  fails();
  site.change([](WebSite& to) { to.files["/root/a"] = "short"; });
  fails();
  site.change([](WebSite& to) { to.files.clear(); });
  fails();
}

TEST(HttpStore, GoesOnWhereABodyWasCut) {
  const WebSite site{.files = {{"/root/a", numbered_text(700'000)}}};
  std::atomic<int> cuts = 0;
  const WebStore web([&](const ServerRequest& request, ServerConnection& connection) {
    const std::string range = request.field("Range");
    if (!range.starts_with("bytes=0-") && cuts < 3) {
      // All of the header, some of the body.
      ++cuts;
      const std::size_t first = std::stoul(range.substr(6));
      connection.send("HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Length: " +
                      std::to_string(700'000 - first) + "\r\nContent-Range: bytes " +
                      std::to_string(first) + "-699999/700000\r\n\r\n" +
                      site.files.at("/root/a").substr(first, 1000));
      connection.close();
      return;
    }
    site.serve(request, connection);
  });
  const auto source = web.store->open("a", "");
  EXPECT_EQ(read_part(*source, 400'000, 300'000), site.files.at("/root/a").substr(400'000));
  std::vector<std::string> ranges;
  for (const ServerRequest& request : web.server.requests())
    ranges.push_back(request.field("Range"));
  EXPECT_THAT(ranges,
              ::testing::ElementsAre("bytes=0-262143", "bytes=400000-699999", "bytes=401000-699999",
                                     "bytes=402000-699999", "bytes=403000-699999"));
  EXPECT_EQ(web.stats->retries, 3U);
}

// Bytes of another part that arrive before the connection breaks must not be taken for the first
// ones of the part that was asked for.
TEST(HttpStore, DoesNotGoOnAfterBytesOfAnotherPart) {
  const WebSite site{.files = {{"/root/a", numbered_text(700'000)}}};
  for (const char* header :
       {"206 Partial Content\r\nContent-Range: bytes 5-300004/700000\r\nContent-Length: 300000",
        "206 Partial Content\r\nContent-Length: 300000", "200 OK"}) {
    const WebStore web([&](const ServerRequest& request, ServerConnection& connection) {
      if (request.field("Range").starts_with("bytes=0-")) return site.serve(request, connection);
      connection.send(std::string("HTTP/1.1 ") + header + "\r\n\r\nwrong");
      connection.close();
    });
    const auto source = web.store->open("a", "");
    std::string out(300'000, '-');
    EXPECT_THROW(source->read_into(400'000, std::as_writable_bytes(std::span(out))), Error);
    EXPECT_EQ(out, std::string(300'000, '-')) << header;
    EXPECT_EQ(web.server.requests().size(), 2U);
  }
}

TEST(HttpStore, NeedsRangesForLargeFilesOnly) {
  WebSite site{.files = {{"/root/small", "hello"},
                         {"/root/medium", numbered_text(300'000)},
                         {"/root/large", std::string(20'000'000, 'x')}}};
  site.has_ranges = false;
  const WebStore web(site);
  const auto source = web.store->open("small", "");
  EXPECT_EQ(read_part(*source, 0, 5), "hello");
  EXPECT_EQ(read_part(*source, 1, 2), "el");
  const auto medium = web.store->open("medium", "");
  EXPECT_EQ(read_part(*medium, 299'000, 1000), numbered_text(300'000).substr(299'000));
  EXPECT_EQ(web.server.requests().size(), 2U);
  EXPECT_THAT([&] { (void)web.store->open("large", ""); },
              FailsWith(Code::kUnimplemented,
                        "the server ignores ranges, so a file of 20000000 bytes cannot be read"));
}

TEST(HttpStore, RefusesWrongAnswers) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"206 Partial Content\r\nContent-Range: bytes 1-5/6", "another part"},
      {"206 Partial Content\r\nContent-Range: bytes 0-4/6", "another part"},
      {"206 Partial Content\r\nContent-Range: bytes 0-5/6", "another length"},
      {"206 Partial Content\r\nContent-Range: bytes 0-4/*", "does not say how large"},
      {"206 Partial Content\r\nContent-Range: bytes 0-4/99999999999999999999999", "another part"},
      {"206 Partial Content\r\nContent-Range: nonsense", "another part"},
      {"206 Partial Content", "another part"},
      {"200 OK\r\nContent-Encoding: gzip", "encodes the content"},
      {"206 Partial Content\r\nContent-Range: bytes 0-4/5\r\nContent-Encoding: br",
       "encodes the content"},
      {"403 Forbidden", "403"},
      {"204 No Content", "204"},
      {"304 Not Modified", "304"}};
  for (const auto& [header, why] : table) {
    const WebStore web([&sent = header](const ServerRequest&, ServerConnection& connection) {
      connection.send("HTTP/1.1 " + sent + "\r\n");
      connection.send(sent[2] == '4' ? "\r\n" : "Content-Length: 5\r\n\r\nhello");
      connection.close();
    });
    const Error error = error_of([&] { (void)web.store->open("a", ""); });
    EXPECT_THAT(error.message(), HasSubstr(why)) << header;
    EXPECT_THAT(error.message(), HasSubstr(web.server.url("/root/a"))) << header;
  }
}

TEST(HttpStore, StopsAtAnEndlessBody) {
  const WebStore web([&](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.send(std::string(10'000, 'x'))) {
    }
  });
  EXPECT_THAT([&] { (void)web.store->read("a", {}); },
              FailsWith(Code::kDataLoss, "the server ignores ranges"));
}

TEST(HttpStore, RepeatsWhatFailsForSomeTime) {
  const WebSite site{.files = {{"/root/a", "hello"}}};
  std::atomic<int> failures = 3;
  const WebStore web([&](const ServerRequest& request, ServerConnection& connection) {
    if (failures-- > 0) return connection.answer("503 Service Unavailable", "");
    site.serve(request, connection);
  });
  EXPECT_EQ(text_or_none(web.store->read("a", {})), "hello");
  EXPECT_EQ(web.stats->retries, 3U);
  failures = 1000;
  EXPECT_THAT([&] { (void)web.store->read("a", {}); }, FailsWith(Code::kIo, "503"));
}

TEST(HttpStore, FollowsRedirects) {
  const WebSite site{.files = {{"/real/a", numbered_text(500'000)}}};
  const WebStore web([&](const ServerRequest& request, ServerConnection& connection) {
    if (request.target == "/root/a")
      return connection.answer("302 Found", "", "Location: ../x?token=SECRET\r\n");
    if (request.target == "/x?token=SECRET")
      return connection.answer("308 Permanent Redirect", "", "Location: /real/a#part\r\n");
    site.serve(request, connection);
  });
  const auto source = web.store->open("a", "");
  EXPECT_EQ(read_part(*source, 400'000, 10), site.files.at("/real/a").substr(400'000, 10));
  EXPECT_EQ(web.server.requests().size(), 6U);
  EXPECT_EQ(web.server.requests().back().field("If-Match"), "\"v1\"");
}

TEST(HttpStore, RefusesRedirectsThatLeadNowhere) {
  for (const auto& [location, why] : {std::pair<std::string, std::string>{
                                          "Location: /loop?SECRET\r\n", "more than five redirects"},
                                      {"", "leads nowhere"},
                                      {"Location: ftp://h/SECRET\r\n", "leads nowhere"},
                                      {"Location: http://u:SECRET@h/\r\n", "leads nowhere"},
                                      {"Location: http:///SECRET\r\n", "leads nowhere"}}) {
    const WebStore web([&sent = location](const ServerRequest&, ServerConnection& connection) {
      connection.answer("302 Found", "", sent);
    });
    const Error error = error_of([&] { (void)web.store->open("a", ""); });
    EXPECT_EQ(error.code(), Code::kIo);
    EXPECT_THAT(error.message(), HasSubstr(why));
    EXPECT_THAT(error.message(), Not(HasSubstr("SECRET")));
    EXPECT_LE(web.server.requests().size(), 6U);
  }
}

// As web servers answer at the name of a folder; what they show there is a page for people.
TEST(HttpStore, ARedirectToAFolderMeansThatThereIsNoFile) {
  const WebStore web([](const ServerRequest& request, ServerConnection& connection) {
    if (request.target.ends_with('/')) return connection.answer("200 OK", "<html>");
    connection.answer("301 Moved", "", "Location: " + request.target + "/\r\n");
  });
  EXPECT_EQ(web.store->open("a", ""), nullptr);
  EXPECT_EQ(web.store->size("a"), std::nullopt);
  EXPECT_EQ(web.store->read("a", {}), std::nullopt);
}

TEST(HttpStore, AsksForTheSizeWhereHeadFails) {
  const WebSite site{.files = {{"/root/a", "hello"}}};
  const WebStore web([&](const ServerRequest& request, ServerConnection& connection) {
    if (request.method == "HEAD") {
      connection.send("HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    site.serve(request, connection);
  });
  EXPECT_EQ(web.store->size("a"), 5U);
  EXPECT_EQ(web.store->size("none"), std::nullopt);
}

}  // namespace
}  // namespace cairn::object
