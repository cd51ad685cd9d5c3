// What the files of this folder share of Asio. Only for net/*.cc: nothing else may see Boost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "net/event_loop.h"

namespace kvasir::net {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
// Bound to io_context itself: the general executor costs an allocation or two per operation.
using Socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;

struct EventLoop::Impl {
  // One thread runs it, so most of its locks are not needed.
  asio::io_context context{1};
};

// "127.0.0.1:40312", "[::1]:40312"; "?" if the socket is not connected.
std::string remote_address_text(const Socket& socket);
// A small message must not wait for the acknowledgement of the one before.
void set_no_delay(Socket& socket);
void close_quietly(Socket& socket);

}  // namespace kvasir::net
