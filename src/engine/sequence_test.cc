// A sequence's memory: every cache row has its own place, and the context is a hard limit.
#include "engine/sequence.h"

#include <cstring>

#include "model/test_model.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;

// Fills every row with its own byte pattern, then checks them all: an overlap would show.
TEST(Sequence, GivesEveryKeyAndValueItsOwnPlace) {
  auto hp = model::small_plan(model::Architecture::kQwen3Moe).hp;
  for (KvType type : {KvType::kF16, KvType::kF32}) {
    Sequence sequence(hp, type, 600);
    ASSERT_TRUE(sequence.reserve(600));
    const size_t page_bytes = kPagePositions * sequence.kv_row_bytes();
    EXPECT_EQ(sequence.kv_row_bytes(), hp.head_dim * (type == KvType::kF16 ? 2U : 4U));
    auto for_all = [&](const auto& visit) {
      uint32_t number = 0;
      for (size_t page = 0; page < 3; ++page)
        for (size_t layer = 0; layer < hp.n_layers; ++layer)
          for (size_t head = 0; head < hp.n_kv_heads; ++head) {
            visit(sequence.key_page(layer, head, page), ++number);
            visit(sequence.value_page(layer, head, page), ++number);
          }
    };
    for_all([&](std::byte* page, uint32_t number) {
      for (size_t i = 0; i < page_bytes; i += 4) std::memcpy(page + i, &number, 4);
    });
    for_all([&](const std::byte* page, uint32_t number) {
      for (size_t i = 0; i < page_bytes; i += 4) ASSERT_EQ(std::memcmp(page + i, &number, 4), 0);
    });
  }
}

TEST(Sequence, GivesEveryWindowRowAndMatrixItsOwnPlace) {
  auto hp = model::small_plan(model::Architecture::kQwen35Moe).hp;
  Sequence sequence(hp, KvType::kF16, 8);
  const size_t matrix = hp.delta_head_dim * hp.delta_head_dim;
  auto for_all = [&](const auto& visit) {
    float number = 0;
    for (size_t layer = 0; layer < hp.n_delta_layers(); ++layer) {
      for (int64_t position = 10; position < 13; ++position)
        visit(sequence.conv_row(layer, position), hp.conv_channels(), ++number);
      for (size_t head = 0; head < hp.n_value_heads; ++head)
        visit(sequence.delta_state(layer, head), matrix, ++number);
    }
  };
  for_all([](const float* values, size_t n, float) {
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], 0.0F) << "not zero at the start";
  });
  for_all([](float* values, size_t n, float number) { std::fill_n(values, n, number); });
  for_all([](const float* values, size_t n, float number) {
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], number);
  });
}

// The window is a ring: a row is found again by its position until three newer ones came.
TEST(Sequence, KeepsTheNewestWindowRows) {
  auto hp = model::small_plan(model::Architecture::kQwen35Moe).hp;
  Sequence sequence(hp, KvType::kF16, 8);
  for (int64_t position = -3; position < 0; ++position)
    EXPECT_EQ(*sequence.conv_row(0, position), 0.0F);
  for (int64_t position = 0; position < 50; ++position) {
    *sequence.conv_row(0, position) = static_cast<float>(position + 1);
    for (int64_t back = 0; back < 3; ++back)
      EXPECT_EQ(*sequence.conv_row(0, position - back),
                static_cast<float>(std::max<int64_t>(position - back + 1, 0)));
  }
}

TEST(Sequence, EndsAtItsContext) {
  auto hp = model::tiny_plan().hp;
  Sequence sequence(hp, KvType::kF16, 300);
  EXPECT_TRUE(sequence.reserve(300));
  EXPECT_FALSE(sequence.reserve(301));
  EXPECT_FALSE(sequence.reserve(SIZE_MAX));
  sequence.advance(299);
  EXPECT_TRUE(sequence.reserve(1));
  auto full = sequence.reserve(2);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(full.error().message,
            "the context of 300 tokens is full: 299 are taken, 2 more were given");
  sequence.advance(1);
  EXPECT_TRUE(sequence.reserve(0));
}

// Writes a number of its own to every key, value and state, so that anything misplaced shows.
void fill(Sequence& sequence, const model::HyperParameters& hp, size_t begin, size_t end) {
  ASSERT_TRUE(sequence.reserve(end - sequence.position()));
  for (size_t position = begin; position < end; ++position)
    for (size_t layer = 0; layer < hp.n_attention_layers(); ++layer)
      for (size_t head = 0; head < hp.n_kv_heads; ++head) {
        const size_t offset = position % kPagePositions * sequence.kv_row_bytes();
        const auto number = static_cast<uint32_t>((position * 64 + layer) * 64 + head);
        for (size_t i = 0; i < sequence.kv_row_bytes(); i += 4) {
          std::memcpy(sequence.key_page(layer, head, position / kPagePositions) + offset + i,
                      &number, 4);
          std::memcpy(sequence.value_page(layer, head, position / kPagePositions) + offset + i,
                      &number, 4);
        }
      }
  sequence.advance(end - begin);
}

void expect_filled(Sequence& sequence, const model::HyperParameters& hp, size_t end) {
  for (size_t position = 0; position < end; ++position)
    for (size_t layer = 0; layer < hp.n_attention_layers(); ++layer)
      for (size_t head = 0; head < hp.n_kv_heads; ++head) {
        const size_t offset = position % kPagePositions * sequence.kv_row_bytes();
        const auto number = static_cast<uint32_t>((position * 64 + layer) * 64 + head);
        for (size_t i = 0; i < sequence.kv_row_bytes(); i += 4) {
          const std::byte* page = sequence.key_page(layer, head, position / kPagePositions);
          ASSERT_EQ(std::memcmp(page + offset + i, &number, 4), 0) << position;
          page = sequence.value_page(layer, head, position / kPagePositions);
          ASSERT_EQ(std::memcmp(page + offset + i, &number, 4), 0) << position;
        }
      }
}

// Every length around the edges of pages: the copy has all of it, and what the two write afterwards
// does not meet.
TEST(Sequence, GoesOnFromASnapshotWithoutTouchingIt) {
  for (auto architecture : {model::Architecture::kQwen35Moe, model::Architecture::kQwen3Moe}) {
    auto hp = model::small_plan(architecture).hp;
    for (size_t length : {1, 5, 255, 256, 257, 511, 512, 600}) {
      Sequence sequence(hp, KvType::kF16, 1000);
      fill(sequence, hp, 0, length);
      if (hp.n_delta_layers() != 0) *sequence.delta_state(0, 1) = static_cast<float>(length);
      const auto snapshot = sequence.snapshot();
      EXPECT_EQ(snapshot->position, length);
      EXPECT_EQ(snapshot->pages.size(), length / kPagePositions);
      EXPECT_EQ(snapshot->own_bytes(), sequence.snapshot_bytes());
      // The first one goes on its way.
      ASSERT_TRUE(sequence.reserve(100));
      for (size_t position = length; position < length + 100; ++position)
        std::memset(sequence.key_page(0, 0, position / kPagePositions) +
                        position % kPagePositions * sequence.kv_row_bytes(),
                    0xee, sequence.kv_row_bytes());
      if (hp.n_delta_layers() != 0) *sequence.delta_state(0, 1) = -1;

      Sequence copy(hp, KvType::kF16, 1000);
      ASSERT_TRUE(copy.restore(*snapshot, length));
      EXPECT_EQ(copy.position(), length);
      expect_filled(copy, hp, length);
      if (hp.n_delta_layers() != 0) {
        EXPECT_EQ(*copy.delta_state(0, 1), static_cast<float>(length));
      }
      fill(copy, hp, length, length + 100);
      expect_filled(copy, hp, length + 100);
      expect_filled(sequence, hp, length);
    }
  }
}

// Keys and values have prefixes; a recurrent state has none.
TEST(Sequence, TakesAnyPrefixOfASnapshotWithoutRecurrentLayers) {
  auto hp = model::small_plan(model::Architecture::kQwen3Moe).hp;
  Sequence sequence(hp, KvType::kF32, 1000);
  fill(sequence, hp, 0, 600);
  const auto snapshot = sequence.snapshot();
  for (size_t length : {1, 255, 256, 257, 511, 512, 513, 600}) {
    Sequence copy(hp, KvType::kF32, 1000);
    ASSERT_TRUE(copy.restore(*snapshot, length));
    EXPECT_EQ(copy.position(), length);
    expect_filled(copy, hp, length);
    fill(copy, hp, length, 700);
    expect_filled(copy, hp, 700);
  }
  expect_filled(sequence, hp, 600);
  Sequence small(hp, KvType::kF32, 599);
  auto refused = small.restore(*snapshot, 600);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
}

}  // namespace
}  // namespace kvasir::engine
