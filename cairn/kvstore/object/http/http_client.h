// http_client.h -- reads files of a web server: finds out what is there, and reads parts of it in
// one version.
#pragma once

#include <cairn/bytes.h>
#include <cairn/kvstore/object/request/sender.h>
#include <cairn/storage/kvstore.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn::inline v0::object {

// How to reach a server.
struct HttpConnection {
  std::shared_ptr<HttpTransport> transport;
  RetryPolicy policy;
  HttpLimits limits;
  std::shared_ptr<StoreStats> stats;
  HttpHeaders headers = {};  // of each request to the host of the URL, but not of its redirects
};

// A file of a server, and how it begins.
struct HttpFile {
  StoredValue value;  // without a key
  // Its first bytes, kKeptBeginning; all of a file whose server ignores ranges.
  Bytes beginning;
};

// Follows redirects: at most five, and none from https:// to http://. A redirect that only adds a
// slash leads to a folder, so there is no file. Refuses answers that are encoded. Errors name the
// URL. Safe to use from many threads.
class HttpClient {
 public:
  explicit HttpClient(const HttpConnection& connection);

  // The file at the URL, with one request. `version`: the one that must be there; "": any. nullopt:
  // there is none. Throws unavailable if another version is there, and unimplemented if the file is
  // large and the server cannot send parts.
  std::optional<HttpFile> open(const std::string& url, const std::string& version);
  // Fills `parts` from `offset` of the file that was opened as `value`. Throws unavailable if
  // another version is there, or none.
  void read(const std::string& url, const StoredValue& value, std::uint64_t offset,
            std::span<const MutableByteView> parts);
  // Bytes of the file, without reading it. nullopt: there is none.
  std::optional<std::uint64_t> size(const std::string& url);

 private:
  using Prepare = std::function<void(HttpRequest&)>;
  struct Exchange {
    HttpRequest request;  // the last one
    HttpResponse response;
  };
  Exchange send(const char* method, std::string url, const Prepare& prepare);

  Sender sender_;
  HttpHeaders headers_;
};

}  // namespace cairn::inline v0::object
