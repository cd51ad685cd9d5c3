// The local expert service against the obvious evaluation: one row, one expert, scalar kernels.
#include "expert/local_expert_service.h"

#include <limits>
#include <memory>

#include "expert/test_request.h"
#include "expert/test_weights.h"

namespace kvasir::expert {
namespace {

using kernels::TensorType;
using testing::HasSubstr;

constexpr uint32_t kEmbd = 256, kWidth = 256, kExperts = 6;
constexpr size_t kTopK = 3;

// Two layers of experts whose matrices have the given types.
struct Weights {
  Weights(Random& random, TensorType gate_type, TensorType up_type, TensorType down_type)
      : gate(random, gate_type, kEmbd, kWidth * kExperts * 2),
        up(random, up_type, kEmbd, kWidth * kExperts * 2),
        down(random, down_type, kWidth, kEmbd * kExperts * 2) {}

  std::vector<LayerExperts> layers() const {
    std::vector<LayerExperts> layers(2);
    for (size_t index = 0; index < 2; ++index) {
      LayerExperts& layer = layers[index];
      auto place = [&](const TestMatrix& matrix, uint32_t n_out, size_t& stride) {
        MatrixView view = matrix.view();
        stride = n_out * view.row_bytes;
        view.data += index * kExperts * stride;
        view.n_out = n_out;
        return view;
      };
      layer.first.gate = place(gate, kWidth, layer.gate_stride);
      layer.first.up = place(up, kWidth, layer.up_stride);
      layer.first.down = place(down, kEmbd, layer.down_stride);
      layer.n_experts = kExperts;
    }
    return layers;
  }

  TestMatrix gate, up, down;
};

struct Request : TestRequest {
  Request(Random& random, size_t n_rows, uint32_t the_layer)
      : TestRequest(random, {kEmbd, kExperts, kTopK}, n_rows, the_layer) {}
};

std::vector<float> evaluate(const ExpertView& expert, std::span<const float> x,
                            OutputEncoding encoding) {
  std::vector<float> gate = multiply(expert.gate, x);
  const std::vector<float> up = multiply(expert.up, x);
  kernels::scalar().silu_mul(gate.data(), up.data(), gate.size(), gate.data());
  std::vector<float> y = multiply(expert.down, gate);
  std::vector<std::byte> scratch(encoded_bytes(encoding, y.size()));
  EXPECT_TRUE(apply_encoding(kernels::scalar(), encoding, y, scratch.data()));
  return y;
}

std::vector<float> evaluate(const std::vector<LayerExperts>& layers, const Request& request,
                            OutputEncoding encoding) {
  std::vector<float> out;
  for (size_t i = 0; i < request.ids.size(); ++i) {
    const auto y = evaluate(layers[request.layer].expert(request.ids[i]),
                            std::span(request.rows).subspan(i / kTopK * kEmbd, kEmbd), encoding);
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Gate and up of one format, of two, and as floats; one row, and so many that experts share rows.
TEST(LocalExpertService, ComputesWhatTheFormulaSays) {
  const TensorType types[][3] = {{TensorType::kQ4_K, TensorType::kQ4_K, TensorType::kQ6_K},
                                 {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ8_0},
                                 {TensorType::kF32, TensorType::kF16, TensorType::kF32}};
  Random random(1);
  for (const auto& [gate, up, down] : types) {
    const Weights weights(random, gate, up, down);
    for (size_t n_rows : {1, 2, 9}) {
      for (OutputEncoding encoding :
           {OutputEncoding::kF32, OutputEncoding::kF16, OutputEncoding::kQ8}) {
        const Request request(random, n_rows, n_rows % 2);
        const auto expected = evaluate(weights.layers(), request, encoding);
        for (const kernels::KernelTable* table : all_tables()) {
          ThreadPool pool(2);
          LocalExpertService service(weights.layers(), *table, pool);
          std::vector<float> out = request.output();
          auto failures = service.compute(request.view(encoding), out.data());
          ASSERT_TRUE(failures);
          EXPECT_TRUE(failures->empty());
          EXPECT_TRUE(same_bits(out, expected))
              << table->name << ", " << n_rows << " rows, " << encoding_name(encoding);
        }
      }
    }
  }
}

// An expert whose weights hold an infinity, at each of its matrices: rows routed to it fail, with
// the expert and the matrix named, and all others keep their bits.
TEST(LocalExpertService, FailsOnlyTheRowsOfABrokenExpert) {
  Random random(2);
  for (const char* matrix : {"gate", "up", "down"}) {
    Weights weights(random, TensorType::kF32, TensorType::kF32, TensorType::kF32);
    const Request request(random, 12, 1);
    const auto expected = evaluate(weights.layers(), request, OutputEncoding::kF32);
    const ExpertView broken = weights.layers()[1].expert(4);
    const MatrixView& view = matrix == std::string_view("gate") ? broken.gate
                             : matrix == std::string_view("up") ? broken.up
                                                                : broken.down;
    TestMatrix& owner = matrix == std::string_view("gate") ? weights.gate
                        : matrix == std::string_view("up") ? weights.up
                                                           : weights.down;
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(owner.data() + (view.data - owner.data()) + 7 * view.row_bytes, &infinity, 4);

    ThreadPool pool(2);
    LocalExpertService service(weights.layers(), kernels::scalar(), pool);
    std::vector<float> out = request.output();
    const auto failures = service.compute(request.view(), out.data()).value();

    size_t next = 0;
    for (size_t row = 0; row < 12; ++row) {
      const size_t begin = row * kTopK * kEmbd, count = kTopK * kEmbd;
      const bool is_routed_there =
          std::count(request.ids.begin() + static_cast<ptrdiff_t>(row * kTopK),
                     request.ids.begin() + static_cast<ptrdiff_t>((row + 1) * kTopK), 4) != 0;
      if (!is_routed_there) {
        EXPECT_TRUE(same_bits(std::span(out).subspan(begin, count),
                              std::span(expected).subspan(begin, count)))
            << matrix << " row " << row;
        continue;
      }
      ASSERT_LT(next, failures.size());
      EXPECT_EQ(failures[next].row, row);
      EXPECT_EQ(failures[next].error.kind, ErrorKind::kNonFinite);
      EXPECT_EQ(failures[next].error.message,
                fmt::format("blk.1.ffn_{}_exps.weight: expert 4: output is not finite", matrix));
      EXPECT_TRUE(same_bits(std::span(out).subspan(begin, count), std::vector<float>(count, 0.0F)));
      ++next;
    }
    EXPECT_GT(next, 0U);
    EXPECT_EQ(next, failures.size());
  }
}

TEST(LocalExpertService, RefusesLayersAndExpertsThatAreNotThere) {
  Random random(3);
  const Weights weights(random, TensorType::kQ4_0, TensorType::kQ4_0, TensorType::kQ4_0);
  ThreadPool pool(1);
  LocalExpertService service(weights.layers(), kernels::scalar(), pool);
  Request request(random, 2, 2);
  std::vector<float> out = request.output();
  EXPECT_THAT(service.compute(request.view(), out.data()).error().message, HasSubstr("layer 2"));
  request.layer = 0;
  request.ids.back() = kExperts;
  EXPECT_THAT(service.compute(request.view(), out.data()).error().message, HasSubstr("expert 6"));
  EXPECT_EQ(out, request.output());
}

}  // namespace
}  // namespace kvasir::expert
