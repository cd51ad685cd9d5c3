// Both ways through attention against rule 6 written out: scores first, then blocks of 256
// positions, summed in ascending order.
#include "engine/attention_heads.h"

#include <cmath>
#include <random>

#include "engine/attention.h"
#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;

// 12 query heads in groups of 6, so that several heads share a page.
model::SynthesisPlan attention_plan() {
  model::SynthesisPlan plan = model::tiny_plan(model::Architecture::kQwen3Moe);
  plan.hp.n_heads = 12;
  plan.hp.n_kv_heads = 2;
  plan.hp.head_dim = plan.hp.rope_dims = 16;
  return plan;
}

// A sequence at `position` with random keys and values for all `positions`.
struct Caches {
  Caches(const model::HyperParameters& hp, KvType type, size_t positions, size_t position)
      : sequence(hp, type, positions) {
    KVASIR_CHECK(sequence.reserve(positions).has_value());
    sequence.advance(position);
    std::mt19937 random(static_cast<unsigned>(positions));
    std::normal_distribution<float> normal;
    for (size_t layer = 0; layer < hp.n_attention_layers(); ++layer)
      for (size_t head = 0; head < hp.n_kv_heads; ++head)
        for (size_t page = 0; page * kPagePositions < positions; ++page)
          for (std::byte* rows :
               {sequence.key_page(layer, head, page), sequence.value_page(layer, head, page)})
            for (size_t i = 0; i < kPagePositions * hp.head_dim; ++i) {
              const float value = normal(random);
              if (type == KvType::kF32)
                std::memcpy(rows + 4 * i, &value, 4);
              else
                KVASIR_CHECK(kernels::scalar().f16_from_f32(&value, 1,
                                                            reinterpret_cast<uint16_t*>(rows) + i));
            }
  }
  Sequence sequence;
};

// Rule 6 for one head that sees this many positions.
std::vector<float> attend_plainly(const model::HyperParameters& hp, Sequence& sequence,
                                  size_t positions, const float* q, size_t layer, size_t kv_head) {
  const auto& kernels = kernels::scalar();
  const size_t dim = hp.head_dim;
  const float c = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> scores(positions);
  for (size_t t = 0; t < positions; ++t)
    kernels.attention_scores(q,
                             sequence.key_page(layer, kv_head, t / kPagePositions) +
                                 t % kPagePositions * sequence.kv_row_bytes(),
                             sequence.kv_row_bytes(), sequence.kv_type(), dim, 1, c, &scores[t]);
  const float max = *std::max_element(scores.begin(), scores.end());
  std::vector<float> sum(dim, 0.0F), block(dim);
  float weight = 0.0F;
  for (size_t begin = 0; begin < positions; begin += kPagePositions) {
    const size_t n = std::min(kPagePositions, positions - begin);
    const float l = kernels.attention_values(
        &scores[begin], max, sequence.value_page(layer, kv_head, begin / kPagePositions),
        sequence.kv_row_bytes(), sequence.kv_type(), dim, n, block.data());
    for (size_t j = 0; j < dim; ++j) sum[j] = sum[j] + block[j];
    weight = weight + l;
  }
  for (float& value : sum) value = value / weight;
  return sum;
}

// Positions around the edges of pages and of the switch from the short to the long way (1,024),
// many of them in one batch and each alone, with more threads than work and fewer.
TEST(Attend, FollowsTheRuleAtEveryLength) {
  const auto bound = model::ModelPieces(attention_plan()).bind();
  ASSERT_TRUE(bound);
  const model::HyperParameters& hp = bound->hp;
  for (KvType type : {KvType::kF16, KvType::kF32}) {
    for (const std::vector<size_t>& lengths :
         {std::vector<size_t>{1, 2, 255, 256, 257, 700, 1024}, std::vector<size_t>{1025},
          std::vector<size_t>{3000, 1, 256, 257, 1025, 2048, 2049}}) {
      std::vector<std::unique_ptr<Caches>> caches;
      std::vector<Row> rows;
      for (size_t length : lengths) {
        caches.push_back(std::make_unique<Caches>(hp, type, length, length - 1));
        rows.push_back({&caches.back()->sequence, 0, true});
      }
      for (size_t threads : {1, 2, 7}) {
        ThreadPool pool(threads);
        EngineOptions options;
        options.kv_type = type;
        Workspace ws(*bound, *kernels::select_table().value(), pool, options);
        ASSERT_TRUE(ws.batch.start(rows, options.rows_max, hp.n_vocab, type));
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        for (float& value : ws.q) value = normal(random);
        for (size_t layer : {0, 1}) {
          attend(ws, layer, rows.size());
          for (size_t row = 0; row < rows.size(); ++row)
            for (size_t head = 0; head < hp.n_heads; ++head) {
              const size_t at = (row * hp.n_heads + head) * hp.head_dim;
              const auto expected =
                  attend_plainly(hp, caches[row]->sequence, lengths[row], &ws.q[at], layer,
                                 head / (hp.n_heads / hp.n_kv_heads));
              ASSERT_EQ(std::memcmp(&ws.attended[at], expected.data(), hp.head_dim * 4), 0)
                  << lengths[row] << " positions, head " << head << ", " << threads << " threads";
            }
        }
      }
    }
  }
}

// 40 pages x 12 heads take 0.6 MB a row, so that 100 rows go in two groups.
TEST(Attend, TakesLongRowsInGroupsThatFitItsMemory) {
  const auto bound = model::ModelPieces(attention_plan()).bind();
  ASSERT_TRUE(bound);
  const model::HyperParameters& hp = bound->hp;
  Caches caches(hp, KvType::kF16, 10'100, 10'000);
  const std::vector<Row> rows(100, {&caches.sequence, 0, true});
  ThreadPool pool(2);
  const EngineOptions options;
  Workspace ws(*bound, *kernels::select_table().value(), pool, options);
  const size_t before = ws.allocated_bytes();
  ASSERT_TRUE(ws.batch.start(rows, options.rows_max, hp.n_vocab, KvType::kF16));
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (float& value : ws.q) value = normal(random);
  attend(ws, 0, rows.size());
  EXPECT_LE(ws.allocated_bytes() - before,
            attention_scratch_bytes(hp, pool.threads(), options.rows_max, 10'100));
  for (size_t row : {0, 48, 49, 50, 55, 99}) {
    const size_t at = (row * hp.n_heads + 11) * hp.head_dim;
    const auto expected = attend_plainly(hp, caches.sequence, 10'001 + row, &ws.q[at], 0, 1);
    ASSERT_EQ(std::memcmp(&ws.attended[at], expected.data(), hp.head_dim * 4), 0) << row;
  }
}

}  // namespace
}  // namespace kvasir::engine
