// http_server.h -- a server on the loopback interface that answers with the bytes that a test gives
// it: cut, endless, malformed. A thread for each connection; the destructor ends all of them.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::object::testing {

// One request as it arrived.
struct ServerRequest {
  std::string method;
  std::string target;
  std::string header;  // all of it, the request line too
  std::string body;
  std::size_t connection = 0;  // which connection of the server

  // The value of a header field that is spelled so; "" if there is none.
  [[nodiscard]] std::string field(const std::string& name) const {
    const std::size_t at = header.find("\r\n" + name + ": ");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 4;
    return header.substr(begin, header.find("\r\n", begin) - begin);
  }
};

// The server's end of a connection.
class ServerConnection {
 public:
  explicit ServerConnection(int socket) : socket_(socket) {}

  // Returns false once the client has gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // "HTTP/1.1 200 OK", the fields, Content-Length, and the body.
  void answer(const std::string& status, std::string_view body, const std::string& fields = "") {
    send("HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n");
    send(body);
  }
  // Ends the connection after what was sent.
  void close() { ::shutdown(socket_, SHUT_RDWR); }
  // The client gets an error in place of an end.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    is_reset_ = true;
  }
  [[nodiscard]] bool is_reset() const { return is_reset_; }
  // Sends nothing until the client or the test has enough.
  void stall() {
    char byte = 0;
    while (::recv(socket_, &byte, 1, 0) > 0) {
    }
  }
  // Adds what has arrived to `text`; false at the end.
  bool receive(std::string& text) {
    char bytes[16384];
    const auto count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  }

 private:
  int socket_;
  bool is_reset_ = false;
};

class HttpServer {
 public:
  using Handler = std::function<void(const ServerRequest&, ServerConnection&)>;

  // Calls the handler for each request, from the thread of its connection.
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, name, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, name, &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      const std::scoped_lock lock(mutex_);
      for (const int socket : sockets_)
        if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  [[nodiscard]] std::string url(const std::string& target) const {
    return "http://127.0.0.1:" + std::to_string(port_) + target;
  }
  [[nodiscard]] std::vector<ServerRequest> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }
  [[nodiscard]] std::size_t connections() const {
    const std::scoped_lock lock(mutex_);
    return sockets_.size();
  }

 private:
  void accept_all() {
    for (;;) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const int at_once = 1;  // an answer in two pieces would wait 40 ms for the second one
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      const std::scoped_lock lock(mutex_);
      const std::size_t number = sockets_.size();
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket, number] { serve(socket, number); });
    }
  }

  void serve(int socket, std::size_t number) {
    ServerConnection connection(socket);
    std::string text;
    ServerRequest request;
    while (read_request(connection, text, request)) {
      request.connection = number;
      {
        const std::scoped_lock lock(mutex_);
        requests_.push_back(request);
      }
      handler_(request, connection);
      if (connection.is_reset()) break;
    }
    const std::scoped_lock lock(mutex_);
    sockets_[number] = -1;
    ::close(socket);
  }

  // `text` keeps what has arrived beyond the request.
  static bool read_request(ServerConnection& connection, std::string& text,
                           ServerRequest& request) {
    std::size_t end = 0;
    while ((end = text.find("\r\n\r\n")) == std::string::npos)
      if (!connection.receive(text)) return false;
    request.header = text.substr(0, end + 2);
    text.erase(0, end + 4);
    request.method = request.header.substr(0, request.header.find(' '));
    const std::size_t target = request.method.size() + 1;
    request.target = request.header.substr(target, request.header.find(' ', target) - target);
    if (request.field("Expect") == "100-continue") connection.send("HTTP/1.1 100 Continue\r\n\r\n");
    const std::string length = request.field("Content-Length");
    std::size_t bytes = 0;
    std::from_chars(length.data(), length.data() + length.size(), bytes);
    while (text.size() < bytes)
      if (!connection.receive(text)) return false;
    request.body = text.substr(0, bytes);
    text.erase(0, bytes);
    return true;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;
  mutable std::mutex mutex_;
  std::vector<int> sockets_;  // by number of the connection; -1: closed
  std::vector<std::thread> threads_;
  std::vector<ServerRequest> requests_;
};

}  // namespace cairn::object::testing
