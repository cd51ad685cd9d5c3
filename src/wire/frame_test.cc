// Frames: every length that has ever been a boundary, and every way a message can lie about itself.
#include "wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "wire/test_bytes.h"
#include "wire/test_session.h"

namespace kvasir::wire {
namespace {

FrameHead head_of(FrameType type, uint64_t ticket = 0, uint8_t flags = 0) {
  FrameHead head;
  head.type = type;
  head.ticket = ticket;
  head.flags = flags;
  return head;
}

Bytes one_frame(FrameType type, const Bytes& body, FrameSealer* sealer = nullptr) {
  MessageWriter writer(sealer);
  writer.add(head_of(type, 77), body);
  return writer.take();
}

// A frame's head by hand, followed by `rest` bytes.
Bytes raw_frame(uint8_t type, uint8_t flags, uint32_t body_bytes, size_t rest) {
  Bytes message(kHeadBytes + rest);
  message[0] = std::byte{type};
  message[1] = std::byte{flags};
  store_le(message.data() + 4, body_bytes);
  return message;
}

Error error_of(Bytes message) {
  MessageReader reader(message);
  for (;;) {
    auto frame = reader.next();
    if (!frame) return frame.error();
    if (!*frame) break;
  }
  ADD_FAILURE() << "accepted";
  return {};
}

TEST(Frame, LayoutIsTheOneOfTheProtocolPage) {
  MessageWriter writer;
  FrameHead head = head_of(FrameType::kCredit, 0x1122334455667788U);
  head.peer = 0xBEEF;
  writer.add(head, bytes({1, 2, 3}));
  EXPECT_EQ(writer.take(), bytes({0x32, 0x00, 0xEF, 0xBE, 3, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44,
                                  0x33, 0x22, 0x11, 1, 2, 3}));
}

TEST(Frame, EveryRuleIsFoundByItsType) {
  size_t known = 0;
  for (unsigned type = 0; type < 256; ++type) {
    const FrameRule* rule = find_rule(static_cast<FrameType>(type));
    if (rule == nullptr) continue;
    ++known;
    EXPECT_EQ(static_cast<unsigned>(rule->type), type);
    EXPECT_FALSE(rule->name.empty());
  }
  EXPECT_EQ(known, 22U);
}

// WebSocket's own length fields change at 125, 126, 65535 and 65536; bodies of all these lengths,
// and messages of these lengths, arrive as they were.
TEST(Frame, LengthsAtEveryBoundaryArriveUnchanged) {
  std::mt19937_64 random(1);
  std::vector<size_t> body_bytes = {0,      1,      125,    126,    127,     128,     1'400,
                                    65'535, 65'536, 65'537, 70'000, 131'072, 196'607, kDataBodyMax};
  for (size_t message_bytes : {125, 126, 127, 65'535, 65'536}) {
    body_bytes.push_back(message_bytes - kHeadBytes);
    body_bytes.push_back(message_bytes - kHeadBytes - kTrailerBytes);
  }
  ToyTagger tagger(5, Toy::kChecks);
  FrameSealer sealer(tagger);
  FrameOpener opener(tagger);
  for (size_t n : body_bytes)
    for (bool tagged : {false, true}) {
      SCOPED_TRACE(n);
      const Bytes body = random_bytes(random, n);
      Bytes message = one_frame(FrameType::kCompute, body, tagged ? &sealer : nullptr);
      EXPECT_EQ(message.size(), frame_bytes(n, tagged));
      MessageReader reader(message, tagged ? &opener : nullptr);
      auto frame = reader.next();
      ASSERT_TRUE(frame && *frame);
      EXPECT_EQ((*frame)->head.ticket, 77U);
      EXPECT_TRUE(
          std::equal((*frame)->body.begin(), (*frame)->body.end(), body.begin(), body.end()));
      auto end = reader.next();
      ASSERT_TRUE(end);
      EXPECT_FALSE(*end);
    }
  EXPECT_EQ(opener.missing(), 0U);
}

TEST(Frame, LengthsBeyondTheLimitAreRefusedBeforeAnythingElse) {
  for (uint32_t n : {uint32_t{kDataBodyMax + 1}, uint32_t{1} << 24, (uint32_t{1} << 24) + 1,
                     uint32_t{1} << 30, uint32_t{1} << 31, UINT32_MAX - 16, UINT32_MAX}) {
    SCOPED_TRACE(n);
    EXPECT_EQ(error_of(raw_frame(0x90, 0, n, 64)).kind, ErrorKind::kLimit);
  }
  EXPECT_EQ(error_of(raw_frame(0x30, 0, kControlBodyMax + 1, kControlBodyMax + 1)).kind,
            ErrorKind::kLimit);
  EXPECT_EQ(error_of(raw_frame(0x7F, kFlagOptional, kControlBodyMax + 1, 64)).kind,
            ErrorKind::kLimit);
}

TEST(Frame, MessagesThatLieAboutTheirLengthAreCorrupt) {
  const Bytes good = one_frame(FrameType::kPing, bytes({1, 2, 3, 4, 5, 6, 7, 8}));
  for (size_t cut = 1; cut < good.size(); ++cut)
    EXPECT_EQ(error_of({good.begin(), good.begin() + static_cast<ptrdiff_t>(cut)}).kind,
              ErrorKind::kCorrupt)
        << cut;
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(error_of(longer).kind, ErrorKind::kCorrupt);
  EXPECT_EQ(error_of(raw_frame(0x90, 0, 65, 64)).kind, ErrorKind::kCorrupt);
}

TEST(Frame, FlagsThatDoNotBelongAreCorrupt) {
  for (unsigned flags = 0; flags < 256; ++flags) {
    Bytes message = raw_frame(0x30, static_cast<uint8_t>(flags), 0, kTrailerBytes);
    message.resize(kHeadBytes);
    MessageReader reader(message);
    EXPECT_EQ(reader.next().has_value(), flags == 0 || flags == kFlagOptional) << flags;
  }
}

TEST(Frame, UnknownTypesAreSkippedOnlyIfTheySayThatTheyMayBe) {
  for (unsigned type = 0; type < 256; ++type) {
    if (find_rule(static_cast<FrameType>(type)) != nullptr) continue;
    Bytes message = raw_frame(static_cast<uint8_t>(type), 0, 3, 3);
    EXPECT_EQ(error_of(message).kind, ErrorKind::kUnsupported) << type;
    message[1] = std::byte{kFlagOptional};
    const Bytes known = one_frame(FrameType::kPing, bytes({9}));
    message.insert(message.end(), known.begin(), known.end());
    MessageReader reader(message);
    auto frame = reader.next();
    ASSERT_TRUE(frame && *frame) << type;
    EXPECT_EQ((*frame)->head.type, FrameType::kPing);
    EXPECT_EQ(reader.passed_data_bytes(), type >= 0x80 ? 19U : 0U);
  }
}

TEST(Frame, AfterAnErrorTheMessageIsOver) {
  Bytes message = raw_frame(0x7F, 0, 0, 0);
  const Bytes known = one_frame(FrameType::kPing, {});
  message.insert(message.end(), known.begin(), known.end());
  MessageReader reader(message);
  EXPECT_FALSE(reader.next());
  auto end = reader.next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST(Frame, MessagesAimAt64KiBAndALongerFrameGoesAlone) {
  MessageWriter writer;
  EXPECT_TRUE(writer.fits(kDataBodyMax));
  writer.add(head_of(FrameType::kCompute), Bytes(1000));
  const size_t used = kHeadBytes + 1000;
  EXPECT_TRUE(writer.fits(kMessageAim - used - kHeadBytes));
  EXPECT_FALSE(writer.fits(kMessageAim - used - kHeadBytes + 1));
  EXPECT_FALSE(writer.fits(kDataBodyMax));
}

// Tags -------------------------------------------------------------------------------------------

class Tags : public testing::Test {
 protected:
  // A message of `n` PINGs whose bodies are 0, 1, 2, ...
  Bytes message(size_t n = 1) {
    MessageWriter writer(&sealer_);
    for (size_t i = 0; i < n; ++i) writer.add(head_of(FrameType::kPing), encode_echo(next_++));
    return writer.take();
  }
  // The bodies of the frames that are believed.
  std::vector<uint64_t> read(Bytes message) {
    std::vector<uint64_t> values;
    MessageReader reader(message, &opener_);
    for (;;) {
      auto frame = reader.next();
      if (!frame || !*frame) return values;
      values.push_back(*decode_echo((*frame)->body));
    }
  }

  ToyTagger tagger_{3, Toy::kChecks};
  FrameSealer sealer_{tagger_};
  FrameOpener opener_{tagger_};
  uint64_t next_ = 0;
};

TEST_F(Tags, AFlippedBitLosesItsFrameAndNoOther) {
  const size_t one = frame_bytes(8, true);
  for (size_t bit = 0; bit < one * 8; ++bit) {
    const uint64_t first = next_;
    Bytes damaged = message(3);
    damaged[one + bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const auto values = read(damaged);
    // A length that is wrong takes the rest of the message with it; the peer is a relay's to set.
    const size_t byte = bit / 8;
    if (byte == 2 || byte == 3) {
      EXPECT_EQ(values.size(), 3U) << bit;
    } else if (values.size() == 1) {
      EXPECT_EQ(values, (std::vector<uint64_t>{first})) << bit;
    } else {
      EXPECT_EQ(values, (std::vector<uint64_t>{first, first + 2})) << bit;
    }
    // What follows is read as ever.
    EXPECT_EQ(read(message()), (std::vector<uint64_t>{first + 3})) << bit;
  }
}

TEST_F(Tags, LostMessagesDoNotStopTheNextOnes) {
  read(message());
  message(5);
  EXPECT_EQ(read(message()), (std::vector<uint64_t>{6}));
  EXPECT_EQ(opener_.missing(), 5U);
  EXPECT_EQ(opener_.damaged(), 0U);
}

TEST_F(Tags, RepeatedAndReorderedFramesAreLost) {
  const Bytes first = message(), second = message(), third = message();
  EXPECT_EQ(read(second).size(), 1U);
  EXPECT_EQ(read(first).size(), 0U);
  EXPECT_EQ(read(second).size(), 0U);
  EXPECT_EQ(opener_.replayed(), 2U);
  EXPECT_EQ(opener_.lost_in_a_row(), 2U);
  EXPECT_EQ(read(third).size(), 1U);
  EXPECT_EQ(opener_.lost_in_a_row(), 0U);
}

TEST_F(Tags, AFrameWithoutTagIsNotBelieved) {
  EXPECT_EQ(read(one_frame(FrameType::kPing, encode_echo(1))).size(), 0U);
}

TEST_F(Tags, NumbersEndAtTheirLimit) {
  auto read_number = [&](uint64_t number) {
    Bytes frame(frame_bytes(8, true));
    const Bytes plain = one_frame(FrameType::kPing, encode_echo(1));
    std::copy(plain.begin(), plain.end(), frame.begin());
    frame[1] = std::byte{kFlagTagged};
    const std::span<std::byte> all(frame);
    const Tag tag = tagger_.seal(number, all.first(kHeadBytes), all.subspan(kHeadBytes, 8));
    store_le(frame.data() + kHeadBytes + 8, number);
    std::copy(tag.begin(), tag.end(), frame.end() - kTagBytes);
    return read(frame).size();
  };
  EXPECT_EQ(read_number(0), 0U);
  EXPECT_EQ(read_number(kFrameNumberMax + 1), 0U);
  EXPECT_EQ(read_number(UINT64_MAX), 0U);
  EXPECT_EQ(read_number(kFrameNumberMax), 1U);
  EXPECT_EQ(read_number(kFrameNumberMax), 0U);
}

TEST_F(Tags, FramesOfAnotherKeyAreNotBelieved) {
  ToyTagger other(4, Toy::kChecks);
  FrameSealer sealer(other);
  EXPECT_EQ(read(one_frame(FrameType::kPing, encode_echo(1), &sealer)).size(), 0U);
  EXPECT_EQ(opener_.damaged(), 1U);
}

TEST_F(Tags, ARelayMayRewriteThePeer) {
  Bytes rewritten = message();
  store_le(rewritten.data() + 2, uint16_t{513});
  EXPECT_EQ(read(rewritten).size(), 1U);
}

TEST_F(Tags, CreditOfDamagedDataFramesIsCounted) {
  Bytes damaged = one_frame(FrameType::kResult, Bytes(100), &sealer_);
  damaged[50] ^= std::byte{1};
  MessageReader reader(damaged, &opener_);
  auto end = reader.next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
  EXPECT_EQ(reader.passed_data_bytes(), damaged.size());
}

}  // namespace
}  // namespace kvasir::wire
