// A worker and a backbone that are plain sockets, with the proxy between them, all on one thread.
#include "chaos/fault_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

namespace kvasir::chaos {
namespace {

class FaultProxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof address;
    ASSERT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_, 4), 0);
    ASSERT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    auto proxy = FaultProxy::listen(ntohs(address.sin_port), 1);
    ASSERT_TRUE(proxy);
    proxy_ = std::move(*proxy);
    worker_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address = loopback(proxy_->port());
    ASSERT_EQ(::connect(worker_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    go_round();
    backbone_ = ::accept4(listener_, reinterpret_cast<sockaddr*>(&address), &bytes, SOCK_CLOEXEC);
    ASSERT_GE(backbone_, 0);
  }
  void TearDown() override {
    for (int socket : {listener_, worker_, backbone_})
      if (socket >= 0) ::close(socket);
  }

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  void go_round() {
    PollSet polled;
    proxy_->add_to(polled);
    polled.wait(10);
  }
  void send(int socket, std::string_view text) {
    ASSERT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // What has come after so many bytes, or the end: then `ended` is true.
  std::string receive(int socket, size_t bytes, bool* ended = nullptr) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::string text;
    while (text.size() < bytes && std::chrono::steady_clock::now() < until) {
      go_round();
      std::array<char, 4096> piece;
      const ssize_t count = ::recv(socket, piece.data(), piece.size(), MSG_DONTWAIT);
      if (count > 0) text.append(piece.data(), static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EAGAIN)) {
        if (ended != nullptr) *ended = true;
        break;
      }
    }
    return text;
  }

  int listener_ = -1, worker_ = -1, backbone_ = -1;
  std::unique_ptr<FaultProxy> proxy_;
};

constexpr std::string_view kHead = "GET / HTTP/1.1\r\n\r\n";
// A binary message of four zeros, unmasked.
constexpr std::string_view kFrame("\x82\x04\0\0\0\0", 6);

TEST_F(FaultProxyTest, PassesBothWays) {
  send(worker_, std::string(kHead) + std::string(kFrame));
  EXPECT_EQ(receive(backbone_, kHead.size() + kFrame.size()),
            std::string(kHead) + std::string(kFrame));
  send(backbone_, kHead);
  EXPECT_EQ(receive(worker_, kHead.size()), kHead);
  EXPECT_EQ(proxy_->messages(), 1U);
  EXPECT_EQ(proxy_->messages_to_worker(), 0U);
  EXPECT_EQ(proxy_->corrupted(), 0U);
}

TEST_F(FaultProxyTest, DamagesMessages) {
  proxy_->set_corrupt(1);
  send(worker_, std::string(kHead) + std::string(kFrame));
  const std::string text = receive(backbone_, kHead.size() + kFrame.size());
  ASSERT_EQ(text.size(), kHead.size() + kFrame.size());
  EXPECT_EQ(text.substr(0, kHead.size() + 2), std::string(kHead) + "\x82\x04");
  EXPECT_NE(text.substr(kHead.size()), kFrame);
  EXPECT_EQ(proxy_->corrupted(), 1U);
}

TEST_F(FaultProxyTest, PutsMessagesInAfterTheUpgrade) {
  EXPECT_FALSE(proxy_->inject(FaultProxy::Towards::kBackbone));
  send(worker_, kHead);
  receive(backbone_, kHead.size());
  EXPECT_TRUE(proxy_->inject(FaultProxy::Towards::kBackbone));
  EXPECT_EQ(receive(backbone_, 2).substr(0, 1), "\x82");
  EXPECT_FALSE(proxy_->inject(FaultProxy::Towards::kWorker));  // nothing has come from there
}

TEST_F(FaultProxyTest, CutsBothEnds) {
  EXPECT_TRUE(proxy_->cut());
  for (int socket : {worker_, backbone_}) {
    bool ended = false;
    receive(socket, 1, &ended);
    EXPECT_TRUE(ended);
  }
  EXPECT_FALSE(proxy_->cut());
}

// What was sent before the end still arrives, and the other direction stays open.
TEST_F(FaultProxyTest, PassesAnEndOn) {
  send(worker_, kHead);
  ::shutdown(worker_, SHUT_WR);
  bool ended = false;
  EXPECT_EQ(receive(backbone_, kHead.size() + 1, &ended), kHead);
  EXPECT_TRUE(ended);
  send(backbone_, kHead);
  EXPECT_EQ(receive(worker_, kHead.size()), kHead);
}

}  // namespace
}  // namespace kvasir::chaos
