#include "chaos/fault_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace kvasir::chaos {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kLinksMax = 64;
// A stopped worker reads nothing: then the backbone's own limits have to hold, not ours.
constexpr size_t kWaitingBytesMax = size_t{1} << 20;

Error system_error(std::string_view what) {
  return Error::io("proxy: cannot {}: {}", what, std::strerror(errno));
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Small messages must not wait for each other: that would be a fault nobody asked for.
void prepare(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
}

// On the loopback that is done at once, or refused.
int connect_to(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (socket >= 0 &&
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  if (socket >= 0) ::close(socket);
  return -1;
}

bool would_block() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

// One direction of a link.
struct FaultProxy::Flow {
  explicit Flow(uint64_t seed) : tap(seed) {}

  WebSocketTap tap;
  std::vector<std::byte> waiting;  // read, not yet written
  bool source_ended = false, ended = false;
};

struct FaultProxy::Link {
  Link(int the_worker, int the_backbone, wire::Jitter& random)
      : worker(the_worker),
        backbone(the_backbone),
        up(random.below(UINT64_MAX)),
        down(random.below(UINT64_MAX)) {}
  ~Link() { close(); }

  void close() {
    for (int* socket : {&worker, &backbone}) {
      if (*socket >= 0) ::close(*socket);
      *socket = -1;
    }
  }
  bool is_closed() const { return worker < 0; }

  void reset() {
    const linger at_once = {1, 0};
    for (int socket : {worker, backbone})
      ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  void move(Flow& flow, int from, int to, double corrupt) {
    read_some(flow, from, corrupt);
    if (!is_closed()) write_some(flow, to);
    if (up.ended && down.ended) close();
  }

  void read_some(Flow& flow, int from, double corrupt) {
    std::array<std::byte, 65536> piece;
    while (!flow.source_ended && flow.waiting.size() < kWaitingBytesMax) {
      const ssize_t count = ::recv(from, piece.data(), piece.size(), MSG_DONTWAIT);
      if (count < 0 && would_block()) return;
      if (count < 0) {
        close();  // was reset
        return;
      }
      if (count == 0) flow.source_ended = true;
      const auto bytes = std::span(piece).first(static_cast<size_t>(count));
      flow.tap.pass(bytes, corrupt);
      flow.waiting.insert(flow.waiting.end(), bytes.begin(), bytes.end());
    }
  }

  void write_some(Flow& flow, int to) {
    if (flow.ended) return;
    const ssize_t count =
        ::send(to, flow.waiting.data(), flow.waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && !would_block()) {
      close();
      return;
    }
    if (count > 0) flow.waiting.erase(flow.waiting.begin(), flow.waiting.begin() + count);
    if (!flow.source_ended || !flow.waiting.empty()) return;
    flow.ended = true;
    ::shutdown(to, SHUT_WR);
  }

  int worker, backbone;
  Flow up, down;  // to the backbone, to the worker
};

Result<std::unique_ptr<FaultProxy>> FaultProxy::listen(uint16_t backbone_port, uint64_t seed) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return system_error("make a socket");
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, kBacklog) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    Error error = system_error("listen");
    ::close(listener);
    return error;
  }
  return std::unique_ptr<FaultProxy>(
      new FaultProxy(listener, ntohs(address.sin_port), backbone_port, seed));
}

FaultProxy::FaultProxy(int listener, uint16_t port, uint16_t backbone_port, uint64_t seed)
    : listener_(listener), port_(port), backbone_port_(backbone_port), random_(seed) {}

FaultProxy::~FaultProxy() {
  ::close(listener_);
}

void FaultProxy::add_to(PollSet& polled) {
  forget_closed();
  polled.add(listener_, POLLIN, [this] { accept_all(); });
  for (const auto& link : links_) {
    const auto add = [&](Flow& flow, int from, int to) {
      if (flow.ended) return;
      const auto move = [this, &flow, the_link = link.get(), from, to] {
        if (!the_link->is_closed()) the_link->move(flow, from, to, corrupt_);
      };
      if (!flow.source_ended && flow.waiting.size() < kWaitingBytesMax)
        polled.add(from, POLLIN, move);
      if (!flow.waiting.empty() || flow.source_ended) polled.add(to, POLLOUT, move);
    };
    add(link->up, link->worker, link->backbone);
    add(link->down, link->backbone, link->worker);
  }
}

void FaultProxy::accept_all() {
  for (;;) {
    sockaddr_in from = {};
    socklen_t bytes = sizeof from;
    const int worker =
        ::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC);
    if (worker < 0) return;
    const int backbone = links_.size() < kLinksMax ? connect_to(backbone_port_) : -1;
    if (backbone < 0) {
      ::close(worker);
      continue;
    }
    prepare(worker);
    prepare(backbone);
    links_.push_back(std::make_unique<Link>(worker, backbone, random_));
  }
}

bool FaultProxy::cut() {
  bool any = false;
  for (const auto& link : links_) {
    if (link->is_closed()) continue;
    any = true;
    if (random_.below(2) == 0)
      link->reset();
    else
      link->close();  // also in the middle of a message that was read in part
  }
  return any;
}

bool FaultProxy::inject(Towards towards) {
  for (const auto& link : links_) {
    Flow& flow = towards == Towards::kBackbone ? link->up : link->down;
    if (link->is_closed() || flow.source_ended || !flow.tap.at_boundary()) continue;
    const auto message =
        random_message(random_, towards == Towards::kBackbone ? Sender::kClient : Sender::kServer);
    flow.waiting.insert(flow.waiting.end(), message.begin(), message.end());
    link->write_some(flow, towards == Towards::kBackbone ? link->backbone : link->worker);
    return true;
  }
  return false;
}

uint64_t FaultProxy::corrupted() const {
  uint64_t sum = corrupted_before_;
  for (const auto& link : links_) sum += link->up.tap.corrupted() + link->down.tap.corrupted();
  return sum;
}

uint64_t FaultProxy::messages() const {
  uint64_t sum = messages_before_;
  for (const auto& link : links_) sum += link->up.tap.messages() + link->down.tap.messages();
  return sum;
}

uint64_t FaultProxy::messages_to_worker() const {
  uint64_t sum = to_worker_before_;
  for (const auto& link : links_) sum += link->down.tap.messages();
  return sum;
}

void FaultProxy::forget_closed() {
  const auto closed = std::stable_partition(links_.begin(), links_.end(),
                                            [](const auto& link) { return !link->is_closed(); });
  for (auto link = closed; link != links_.end(); ++link) {
    corrupted_before_ += (*link)->up.tap.corrupted() + (*link)->down.tap.corrupted();
    messages_before_ += (*link)->up.tap.messages() + (*link)->down.tap.messages();
    to_worker_before_ += (*link)->down.tap.messages();
  }
  links_.erase(closed, links_.end());
}

}  // namespace kvasir::chaos
