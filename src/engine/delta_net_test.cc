// The delta-net's recurrence against rule 7 written out, from the values that the taps show.
#include "engine/delta_net.h"

#include <cmath>
#include <map>

#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvasir::engine {
namespace {

// Both orders of value heads: which key head a value head uses is all that differs.
TEST(DeltaNet, FollowsTheRuleInBothOrdersOfHeads) {
  for (model::ValueHeadOrder order :
       {model::ValueHeadOrder::kTiled, model::ValueHeadOrder::kGrouped}) {
    model::Model bound = model::ModelPieces(model::tiny_plan()).bind().value();
    bound.hp.value_head_order = order;
    const model::HyperParameters hp = bound.hp;
    const auto* tensors = std::get_if<model::DeltaTensors>(&bound.layers[0].mixer);
    ASSERT_NE(tensors, nullptr);
    const float* conv = tensors->conv.data;
    ASSERT_GT(hp.n_value_heads, hp.n_key_heads);

    TestEngine engine(std::move(bound), {});
    std::map<std::string, std::vector<std::vector<float>>> taps;  // name -> row -> values
    engine.engine().set_tap(
        [&](std::string_view name, int layer, size_t, std::span<const float> values) {
          if (layer == 0) taps[std::string(name)].emplace_back(values.begin(), values.end());
        });
    engine.logits(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7}, 3);

    const auto& kernels = kernels::scalar();
    const size_t dim = hp.delta_head_dim, keys = hp.n_key_heads, values = hp.n_value_heads;
    const float c = 1.0F / std::sqrt(static_cast<float>(dim));
    std::vector<std::vector<float>> states(values, std::vector<float>(dim * dim, 0.0F));
    for (size_t row = 0; row < 7; ++row) {
      // The convolution: tap 3 meets the newest row, rows before the first are zero.
      for (size_t channel = 0; channel < hp.conv_channels(); ++channel) {
        float sum = 0;
        for (size_t tap = 0; tap < 4; ++tap) {
          const float x =
              row + tap >= 3 ? taps["linear_attn_qkv_mixed"][row + tap - 3][channel] : 0.0F;
          const float term = x * conv[channel * 4 + tap];
          sum = tap == 0 ? term : sum + term;
        }
        float expected;
        kernels.silu(&sum, 1, &expected);
        ASSERT_EQ(taps["conv_output_silu"][row][channel], expected);
      }
      for (size_t head = 0; head < values; ++head) {
        const size_t key_head =
            order == model::ValueHeadOrder::kTiled ? head % keys : head / (values / keys);
        const float* q = taps["q_conv_predelta"][row].data() + key_head * dim;
        const float* k = taps["k_conv_predelta"][row].data() + key_head * dim;
        const float* v = taps["v_conv_predelta"][row].data() + head * dim;
        const float beta = taps["beta_sigmoid"][row][head];
        float decay;
        kernels.exp(&taps["gate"][row][head], 1, &decay);
        for (size_t j = 0; j < dim; ++j) {
          float* s = states[head].data() + j * dim;
          for (size_t i = 0; i < dim; ++i) s[i] = s[i] * decay;
          const float delta = beta * (v[j] - kernels.dot(s, k, dim));
          for (size_t i = 0; i < dim; ++i) s[i] = s[i] + k[i] * delta;
          ASSERT_EQ(taps["attn_output"][row][head * dim + j], kernels.dot(s, q, dim) * c)
              << "row " << row << ", head " << head << ", value " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::engine
