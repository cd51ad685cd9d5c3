// Cuts the bytes of one connection into HTTP/1.1 requests, within limits. Pure: no socket, no
// clock. Stricter than the standard where leniency has let requests be smuggled past a proxy. One
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/http_server.h"

namespace kvasir::net {

class HttpReader {
 public:
  explicit HttpReader(const HttpLimits& limits);
  ~HttpReader();

  // Where the next bytes go; empty while the buffer is full of what take() has to make room for.
  // Stays where it is until added().
  std::span<char> space();
  void added(size_t bytes);
  size_t buffered_bytes() const { return end_ - begin_; }
  void discard() { begin_ = end_; }

  enum class Step : uint8_t {
    kIdle,     // not a byte of a request
    kHead,     // within a head
    kBody,     // the head is complete, the body is not
    kRequest,  // take() it
    kBad,      // answer status() and close
  };
  Step advance();
  // After kRequest. What follows it in the buffer is the next one's.
  HttpRequest take();

  int status() const { return status_; }
  // Of the request that is being read; empty before its head is complete.
  const std::string& path() const { return request_.path; }
  // Of the request whose head is complete, until the next one's is.
  bool keep_alive() const { return keep_alive_; }
  bool is_http_1_1() const { return is_http_1_1_; }
  bool expects_continue() const { return expects_continue_; }

 private:
  struct Parser;

  Step bad(int status);
  Step read_head();
  Step read_body();
  int check_head();  // 0 or the status to refuse with

  const HttpLimits limits_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  size_t searched_ = 0;  // of the head: no end in these bytes
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  int status_ = 0;
  bool keep_alive_ = false, is_http_1_1_ = true, expects_continue_ = false;
};

}  // namespace kvasir::net
