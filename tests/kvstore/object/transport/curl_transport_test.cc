// Exchanges with a server on the loopback interface that misbehaves.
#include <cairn/base/cancellation.h>
#include <cairn/base/executor.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/transport/curl_transport.h>
#include <gmock/gmock.h>

#include <sys/wait.h>

#include <atomic>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/object/support/http_server.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::HasSubstr;
using testing::HttpServer;
using ::testing::Not;
using testing::ServerConnection;
using testing::ServerRequest;

HttpRequest get_request(const HttpServer& server, const std::string& target = "/x",
                        std::uint64_t most = 1000) {
  HttpRequest request{.method = "GET", .url = server.url(target)};
  request.most_body = most;
  return request;
}

StoreOptions transport_options(std::size_t connections = 4) {
  StoreOptions options;
  options.max_connections = connections;
  return options;
}

Outcome send_once(const HttpRequest& request) {
  CurlTransport transport(transport_options());
  return transport.send(request, {});
}

const HttpResponse& http_response(const Outcome& outcome) {
  static const HttpResponse none;
  const auto* response = std::get_if<HttpResponse>(&outcome);
  EXPECT_NE(response, nullptr) << std::get<TransportError>(outcome).why;
  return response == nullptr ? none : *response;
}

const TransportError& transport_error(const Outcome& outcome) {
  static const TransportError none;
  const auto* error = std::get_if<TransportError>(&outcome);
  EXPECT_NE(error, nullptr) << "status " << std::get<HttpResponse>(outcome).status;
  return error == nullptr ? none : *error;
}

// The error of a GET that is answered with these bytes, after which the connection ends.
TransportError error_after(const std::string& bytes) {
  const HttpServer server([&](const ServerRequest&, ServerConnection& connection) {
    connection.send(bytes);
    connection.close();
  });
  return transport_error(send_once(get_request(server)));
}

TEST(CurlTransport, TasksThatWaitForAnswersNeedNoWorkers) {
  std::latch all_here(6);
  const HttpServer server([&](const ServerRequest&, ServerConnection& connection) {
    all_here.arrive_and_wait();  // passed only if all requests are on their way
    connection.answer("200 OK", "ok");
  });
  CurlTransport transport(transport_options(6));
  Executor executor(2);
  executor.for_each(6, [&](std::size_t) {
    EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
  });
}

TEST(CurlTransport, Gets) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("206 Partial Content", "hello", "ETag: \"e 1\" \r\nx-EMPTY:\r\n");
  });
  HttpRequest request = get_request(server, "/a/./b/../%2e?q=%20&r");
  request.headers.add("Range", "bytes=0-4");
  request.headers.add("x-none", "");
  const Outcome outcome = send_once(request);
  const HttpResponse& response = http_response(outcome);
  EXPECT_EQ(response.status, 206);
  EXPECT_EQ(as_text(response.body), "hello");
  EXPECT_EQ(response.received, 5U);
  EXPECT_EQ(response.headers.find("etag"), "\"e 1\"");
  EXPECT_EQ(response.headers.find("X-Empty"), "");
  EXPECT_EQ(response.headers.find("X-Other"), std::nullopt);
  const ServerRequest seen = server.requests().at(0);
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.target, "/a/./b/../%2e?q=%20&r");
  EXPECT_EQ(seen.field("Range"), "bytes=0-4");
  EXPECT_EQ(seen.field("Accept-Encoding"), "identity");
  EXPECT_THAT(seen.header, HasSubstr("\r\nx-none:\r\n"));
  EXPECT_THAT(seen.header, Not(HasSubstr("Expect")));
}

TEST(CurlTransport, SendsEveryMethodWithItsBody) {
  const HttpServer server([](const ServerRequest& request, ServerConnection& connection) {
    connection.answer("200 OK", request.method == "HEAD" ? "" : "ok");
  });
  const std::vector<ByteView> parts = {as_bytes("ab"), {}, as_bytes("cdef")};
  CurlTransport transport(transport_options());
  for (const char* method : {"PUT", "POST", "DELETE", "HEAD", "GET"}) {
    SCOPED_TRACE(method);
    HttpRequest request = get_request(server);
    request.method = method;
    if (std::string_view(method).starts_with('P')) request.body = parts;
    EXPECT_EQ(http_response(transport.send(request, {})).status, 200);
    EXPECT_EQ(server.requests().back().method, method);
    EXPECT_EQ(server.requests().back().body, request.body.empty() ? "" : "abcdef");
    EXPECT_THAT(server.requests().back().header, Not(HasSubstr("Expect")));
  }
  EXPECT_EQ(server.connections(), 1U);
}

TEST(CurlTransport, SendsAnEmptyBodyOverANewConnection) {
  const HttpServer server(
      [](const ServerRequest&, ServerConnection& connection) { connection.answer("200 OK", ""); });
  CurlTransport transport(transport_options());
  EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
  HttpRequest request = get_request(server);
  request.method = "POST";
  EXPECT_EQ(http_response(transport.send(request, {})).status, 200);
  EXPECT_EQ(server.requests().back().field("Content-Length"), "0");
  EXPECT_EQ(server.connections(), 2U);
}

TEST(CurlTransport, AsksBeforeALargeBodyIfItShall) {
  const HttpServer server(
      [](const ServerRequest&, ServerConnection& connection) { connection.answer("200 OK", ""); });
  const std::string text(2'000'000, 'x');
  const ByteView body = as_bytes(text);
  HttpRequest request = get_request(server);
  request.method = "PUT";
  request.body = {&body, 1};
  for (const bool expects : {false, true}) {
    request.expects_continue = expects;
    EXPECT_EQ(http_response(send_once(request)).status, 200);
    EXPECT_EQ(server.requests().back().field("Expect"), expects ? "100-continue" : "");
    EXPECT_EQ(server.requests().back().body.size(), text.size());
  }
}

TEST(CurlTransport, PlacesABodyInParts) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("206 Partial Content", "0123456789");
  });
  std::string first(3, '-'), second(5, '-');
  const std::vector<MutableByteView> parts = {
      std::as_writable_bytes(std::span(first)),
      MutableByteView(static_cast<std::byte*>(nullptr), 2),  // skipped
      {},
      std::as_writable_bytes(std::span(second))};
  HttpRequest request = get_request(server);
  request.into = parts;
  std::uint64_t filled = 7;
  request.filled = &filled;
  EXPECT_EQ(http_response(send_once(request)).received, 10U);
  EXPECT_EQ(first, "012");
  EXPECT_EQ(second, "56789");
  EXPECT_EQ(filled, 10U);
}

TEST(CurlTransport, KeepsTheBodyOfAnErrorApart) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("404 Not Found", "no such key");
  });
  std::string out(3, '-');
  const MutableByteView part = std::as_writable_bytes(std::span(out));
  HttpRequest request = get_request(server, "/x", 0);
  request.into = {&part, 1};
  const Outcome outcome = send_once(request);
  EXPECT_EQ(http_response(outcome).status, 404);
  EXPECT_EQ(as_text(http_response(outcome).body), "no such key");
  EXPECT_EQ(out, "---");
}

TEST(CurlTransport, StopsAtTheEndOfALongErrorPage) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 503 Slow Down\r\n\r\n");
    while (connection.send(std::string(10'000, 'x'))) {
    }
  });
  const Outcome outcome = send_once(get_request(server));
  EXPECT_EQ(http_response(outcome).status, 503);
  EXPECT_EQ(http_response(outcome).body.size(), 65'536U);
}

TEST(CurlTransport, FollowsNoRedirect) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("302 Found", "", "Location: /other\r\n");
  });
  const Outcome outcome = send_once(get_request(server));
  EXPECT_EQ(http_response(outcome).status, 302);
  EXPECT_EQ(http_response(outcome).headers.find("Location"), "/other");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(CurlTransport, LeavesEncodedContentAsItIs) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("200 OK", "\x1f\x8b garbage", "Content-Encoding: gzip\r\n");
  });
  EXPECT_EQ(as_text(http_response(send_once(get_request(server))).body), "\x1f\x8b garbage");
}

TEST(CurlTransport, ReadsChunks) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send("3\r\nabc\r\n4\r\ndefg\r\n0\r\nx-trailer: t\r\n\r\n");
  });
  EXPECT_EQ(as_text(http_response(send_once(get_request(server))).body), "abcdefg");
}

TEST(CurlTransport, RefusesLongBodies) {
  // The length is known before the body, which never comes.
  TransportError error = error_after("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(error.why, "the answer has 1001 bytes, more than the 1000 allowed");
  EXPECT_TRUE(error.is_final);
  EXPECT_EQ(error.delivery, Delivery::kAnswered);
  const HttpServer endless([](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.send(std::string(10'000, 'x'))) {
    }
  });
  EXPECT_THAT(transport_error(send_once(get_request(endless))).why,
              HasSubstr("more than the 1000 allowed"));
  std::string out(10, '-');
  const MutableByteView part = std::as_writable_bytes(std::span(out));
  HttpRequest request = get_request(endless);
  request.into = {&part, 1};
  EXPECT_THAT(transport_error(send_once(request)).why, HasSubstr("expected 10"));
  EXPECT_EQ(transport_error(send_once(request)).received, 0U);
}

TEST(CurlTransport, RefusesAnotherLengthThanExpected) {
  for (const auto& [header, why] :
       {std::pair<std::string, std::string>{"206 Partial Content\r\nContent-Length: 5",
                                            "the answer has 5 bytes, expected 10"},
        {"206 Partial Content\r\nContent-Length: 11", "the answer has 11 bytes, expected 10"},
        {"200 OK\r\nContent-Length: 11", "the server ignores ranges: it answers with 11 bytes"}}) {
    const HttpServer server([&sent = header](const ServerRequest&, ServerConnection& connection) {
      connection.send("HTTP/1.1 " + sent + "\r\n\r\nabcde");
    });
    std::string out(10, '-');
    const MutableByteView part = std::as_writable_bytes(std::span(out));
    HttpRequest request = get_request(server);
    request.headers.add("Range", "bytes=0-9");
    request.into = {&part, 1};
    const Outcome outcome = send_once(request);
    EXPECT_EQ(transport_error(outcome).why, why);
    EXPECT_TRUE(transport_error(outcome).is_final);
    EXPECT_EQ(out, "----------");
  }
}

TEST(CurlTransport, AsksBeforeItPlacesABody) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("206 Partial Content", "abc", "ETag: other\r\n");
  });
  std::string out(3, '-');
  const MutableByteView part = std::as_writable_bytes(std::span(out));
  HttpRequest request = get_request(server);
  request.into = {&part, 1};
  request.check_header = [](const HttpResponse& header) {
    EXPECT_EQ(header.status, 206);
    if (header.headers.find("etag") == "other") throw Error(Code::kUnavailable, "was replaced");
  };
  CurlTransport transport(transport_options());
  EXPECT_THAT([&] { (void)transport.send(request, HttpLimits{}); },
              FailsWith(Code::kUnavailable, "was replaced"));
  EXPECT_EQ(out, "---");
  request.check_header = [](const HttpResponse&) {};
  EXPECT_EQ(http_response(transport.send(request, {})).received, 3U);
}

TEST(CurlTransport, SaysHowMuchOfACutBodyArrived) {
  for (const char* length : {"Content-Length: 10\r\n", ""}) {
    const HttpServer server([&](const ServerRequest&, ServerConnection& connection) {
      connection.send(std::string("HTTP/1.1 206 Partial Content\r\n") + length + "\r\nabcde");
      connection.close();
    });
    std::string out(10, '-');
    const MutableByteView part = std::as_writable_bytes(std::span(out));
    HttpRequest request = get_request(server);
    request.into = {&part, 1};
    std::uint64_t filled = 0;
    request.filled = &filled;
    const Outcome outcome = send_once(request);
    EXPECT_EQ(transport_error(outcome).received, 5U);
    EXPECT_EQ(filled, 5U);
    EXPECT_FALSE(transport_error(outcome).is_final);
    EXPECT_EQ(transport_error(outcome).delivery, Delivery::kAnswered);
    EXPECT_EQ(out, "abcde-----");
  }
}

TEST(CurlTransport, RefusesMalformedHeaders) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  EXPECT_NE(error_after(ok + "no colon\r\n\r\n").why, "");
  EXPECT_THAT(error_after(ok + "a b: c\r\n\r\n").why, HasSubstr("malformed header"));
  EXPECT_THAT(error_after(ok + "a: b\r\n c\r\n\r\n").why, HasSubstr("malformed header"));
  EXPECT_EQ(error_after(ok + "a: b\x01\r\n\r\n").why,
            "the header a of the answer has control characters");
  EXPECT_THAT(error_after(ok + "a: " + std::string(70'000, 'x') + "\r\n\r\n").why,
              HasSubstr("longer than 64 KiB"));
  std::string many = ok;
  for (int i = 0; i < 12'000; ++i) many += "a: b\r\n";
  EXPECT_THAT(error_after(many + "\r\n").why, HasSubstr("longer than 64 KiB"));
  std::string interim;
  for (int i = 0; i < 10'000; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_THAT(error_after(interim).why, HasSubstr("longer than 64 KiB"));
  for (const char* bytes : {"HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1\r\n\r\n", "garbage\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"})
    EXPECT_NE(error_after(bytes).why, "") << bytes;
}

TEST(CurlTransport, SaysHowFarAFailedExchangeGot) {
  int free_port = 0;
  {
    const HttpServer server([](const ServerRequest&, ServerConnection&) {});
    free_port = std::stoi(server.url("").substr(17));
  }
  HttpRequest refused{.method = "PUT",
                      .url = "http://127.0.0.1:" + std::to_string(free_port) + "/x?secret"};
  const Outcome outcome = send_once(refused);
  EXPECT_EQ(transport_error(outcome).delivery, Delivery::kNotSent);
  EXPECT_FALSE(transport_error(outcome).is_final);
  EXPECT_THAT(transport_error(outcome).why, Not(HasSubstr("secret")));
  EXPECT_EQ(error_after("").delivery, Delivery::kMaybeSent);
  EXPECT_EQ(error_after("HTTP/1.1 200 OK\r\nContent-Le").delivery, Delivery::kMaybeSent);
  const HttpServer reset(
      [](const ServerRequest&, ServerConnection& connection) { connection.reset(); });
  EXPECT_EQ(transport_error(send_once(get_request(reset))).delivery, Delivery::kMaybeSent);
  HttpRequest other{.method = "GET", .url = "http://[::1"};
  EXPECT_TRUE(transport_error(send_once(other)).is_final);
}

// libcurl would send the request again over a new connection, and the caller would not know.
TEST(CurlTransport, RepeatsNoWriteOnItsOwn) {
  const HttpServer server([](const ServerRequest& request, ServerConnection& connection) {
    if (request.method == "PUT")
      connection.close();
    else
      connection.answer("200 OK", "");
  });
  CurlTransport transport(transport_options());
  EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
  const ByteView body = as_bytes("value");
  for (const bool is_empty : {false, true}) {
    HttpRequest request = get_request(server);
    request.method = "PUT";
    if (!is_empty) request.body = {&body, 1};
    const std::size_t before = server.requests().size();
    const Outcome outcome = transport.send(request, {});
    EXPECT_EQ(transport_error(outcome).delivery, Delivery::kMaybeSent);
    EXPECT_FALSE(transport_error(outcome).is_final);
    EXPECT_EQ(server.requests().size() - before, 1U);
  }
}

TEST(CurlTransport, GivesUpOnASilentServer) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    connection.stall();
  });
  CurlTransport transport(transport_options());
  HttpLimits limits;
  limits.stall_timeout = std::chrono::milliseconds(50);
  const Outcome outcome = transport.send(get_request(server), limits);
  EXPECT_TRUE(transport_error(outcome).is_timeout);
  EXPECT_FALSE(transport_error(outcome).is_final);
  EXPECT_EQ(transport_error(outcome).why, "no byte for 50 ms");
}

TEST(CurlTransport, GivesUpOnAServerThatSendsAByteNowAndThen) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    while (connection.send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  CurlTransport transport(transport_options());
  HttpLimits limits;
  limits.stall_timeout = std::chrono::milliseconds(400);
  const Outcome outcome = transport.send(get_request(server, "/x", 100'000), limits);
  EXPECT_TRUE(transport_error(outcome).is_timeout);
  EXPECT_EQ(transport_error(outcome).why, "fewer than 256 bytes a second for 800 ms");
}

TEST(CurlTransport, StopsWhenItsWorkIsCancelled) {
  std::stop_source stop;
  const HttpServer server([&](const ServerRequest&, ServerConnection& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    stop.request_stop();
    connection.stall();
  });
  CurlTransport transport(transport_options(1));
  const CancellationScope scope{Cancellation(stop.get_token())};
  EXPECT_THAT([&] { (void)transport.send(get_request(server), {}); },
              FailsWith(Code::kCancelled, ""));
  EXPECT_THAT([&] { (void)transport.send(get_request(server), {}); },
              FailsWith(Code::kCancelled, ""));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(CurlTransport, BoundsAndKeepsItsConnections) {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  const HttpServer server([&](const ServerRequest&, ServerConnection& connection) {
    const int count = ++now;
    int seen = most;
    while (count > seen && !most.compare_exchange_weak(seen, count)) {
    }
    --now;
    connection.answer("200 OK", "x");
  });
  CurlTransport transport(transport_options(3));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.requests().size(), 160U);
  EXPECT_LE(server.connections(), 3U);
  EXPECT_LE(most, 3);
}

TEST(CurlTransport, OpensAConnectionAgain) {
  const HttpServer server([](const ServerRequest&, ServerConnection& connection) {
    connection.answer("200 OK", "x");
    connection.close();  // though the answer does not say so
  });
  CurlTransport transport(transport_options());
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
}

TEST(CurlTransport, RefusesWhatCannotBeSentWithoutShowingIt) {
  CurlTransport transport(transport_options());
  const auto fails = [&](const HttpRequest& request) {
    const Error error =
        cairn::testing::error_of([&] { (void)transport.send(request, HttpLimits{}); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_THAT(error.message(), Not(HasSubstr("secret")));
  };
  for (const char* url : {"ftp://127.0.0.1/secret", "file:///secret", "http://127.0.0.1/secret x",
                          "http://127.0.0.1/secret\r\nx: y", "http://127.0.0.1/secret\xc3\xa4"})
    fails({.method = "GET", .url = url});
  for (const char* value : {"secret\r\nx: y", "secret\n"}) {
    HttpRequest request{.method = "GET", .url = "http://127.0.0.1:1/"};
    request.headers.add("Authorization", value);
    fails(request);
  }
}

TEST(CurlTransport, RefusesAForkedProcess) {
  const HttpServer server(
      [](const ServerRequest&, ServerConnection& connection) { connection.answer("200 OK", "x"); });
  CurlTransport transport(transport_options());
  EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      (void)transport.send(get_request(server), {});
    } catch (const Error& e) {
      code = e.code() == Code::kFailedPrecondition ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(http_response(transport.send(get_request(server), {})).status, 200);
  EXPECT_EQ(server.connections(), 1U);
}

}  // namespace
}  // namespace cairn::object
