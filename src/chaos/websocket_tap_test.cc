#include "chaos/websocket_tap.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace kvasir::chaos {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& stream, std::string_view text) {
  for (char c : text) stream.push_back(static_cast<std::byte>(c));
}

// A frame of zeros, without a mask.
void append_frame(Bytes& stream, uint8_t byte0, size_t length) {
  stream.push_back(std::byte{byte0});
  const size_t extended = length < 126 ? 0 : length <= 0xFFFF ? 2 : 8;
  stream.push_back(std::byte(extended == 0 ? length : extended == 2 ? 126 : 127));
  for (size_t i = extended; i-- > 0;) stream.push_back(std::byte(length >> (8 * i) & 0xFF));
  stream.insert(stream.end(), length, std::byte{0});
}

constexpr std::string_view kHead = "HTTP/1.1 101 Switching Protocols\r\nA: \r\r\n\r\n";
constexpr uint8_t kBinary = 0x82, kFirstPart = 0x02, kMorePart = 0x00, kLastPart = 0x80,
                  kPing = 0x89;

struct Passed {
  Bytes stream;
  uint64_t messages = 0, corrupted = 0;
};
Passed pass(Bytes stream, size_t piece, double corrupt) {
  WebSocketTap tap(7);
  for (size_t at = 0; at < stream.size(); at += piece)
    tap.pass(std::span(stream).subspan(at, std::min(piece, stream.size() - at)), corrupt);
  return {std::move(stream), tap.messages(), tap.corrupted()};
}

Bytes some_frames() {
  Bytes stream;
  append(stream, kHead);
  for (size_t length : {0, 1, 125, 126, 65535, 65536}) append_frame(stream, kBinary, length);
  append_frame(stream, kPing, 5);
  append_frame(stream, kBinary, 40);
  return stream;
}

TEST(WebSocketTap, ChangesNothingUnasked) {
  const Passed passed = pass(some_frames(), 1000, 0);
  EXPECT_EQ(passed.stream, some_frames());
  EXPECT_EQ(passed.messages, 7U);
  EXPECT_EQ(passed.corrupted, 0U);
}

// Every payload of zeros gets one to four bits; heads, the HTTP part and the ping stay.
TEST(WebSocketTap, DamagesPayloadsAlone) {
  const Bytes before = some_frames();
  const Passed passed = pass(before, before.size(), 1);
  EXPECT_EQ(passed.corrupted, 6U);  // the empty message has nothing to damage
  size_t flipped = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const std::byte changed = before[i] ^ passed.stream[i];
    if (changed == std::byte{0}) continue;
    EXPECT_EQ(before[i], std::byte{0}) << "at " << i;
    EXPECT_GE(i, kHead.size());
    flipped += static_cast<size_t>(std::popcount(std::to_integer<uint8_t>(changed)));
  }
  EXPECT_GE(flipped, 6U);
  EXPECT_LE(flipped, 24U);
  // What follows the damage is still framed.
  EXPECT_EQ(passed.messages, 7U);
}

// Cuts the stream into pieces of every small size: the same bits of the same messages.
TEST(WebSocketTap, DoesTheSameToAnyPieces) {
  const Bytes before = some_frames();
  const Passed whole = pass(before, before.size(), 0.5);
  EXPECT_GT(whole.corrupted, 0U);
  for (size_t piece : {1U, 2U, 3U, 7U, 64U, 1000U})
    EXPECT_EQ(pass(before, piece, 0.5).stream, whole.stream) << "pieces of " << piece;
}

TEST(WebSocketTap, KnowsWhereAMessageMayBePutIn) {
  WebSocketTap tap(1);
  const auto boundary_after = [&](const Bytes& given) {
    Bytes bytes = given;
    tap.pass(bytes, 0);
    return tap.at_boundary();
  };
  Bytes bytes;
  append(bytes, "GET / HTTP/1.1\r\n\r");
  EXPECT_FALSE(boundary_after(bytes));
  EXPECT_TRUE(boundary_after({std::byte{'\n'}}));
  EXPECT_FALSE(boundary_after({std::byte{kBinary}}));
  EXPECT_FALSE(boundary_after({std::byte{1}}));
  EXPECT_TRUE(boundary_after({std::byte{9}}));
  for (auto [byte0, boundary] : {std::pair{kFirstPart, false},
                                 {kMorePart, false},
                                 {kPing, false},
                                 {kLastPart, true},
                                 {kPing, true}}) {
    Bytes frame;
    append_frame(frame, byte0, 3);
    EXPECT_EQ(boundary_after(frame), boundary);
  }
}

// Random messages are whole frames of the right side, so that whatever follows is still framed.
TEST(RandomMessage, IsWellFramed) {
  wire::Jitter random(5);
  for (Sender sender : {Sender::kClient, Sender::kServer}) {
    WebSocketTap tap(1);
    Bytes head;
    append(head, kHead);
    tap.pass(head, 0);
    for (uint64_t i = 1; i <= 300; ++i) {
      Bytes message = random_message(random, sender);
      EXPECT_EQ((message.at(1) & std::byte{0x80}) != std::byte{0}, sender == Sender::kClient);
      tap.pass(message, 0);
      ASSERT_TRUE(tap.at_boundary());
      ASSERT_EQ(tap.messages(), i);
    }
  }
}

}  // namespace
}  // namespace kvasir::chaos
