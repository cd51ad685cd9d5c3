// For tests: random requests to an expert service.
#pragma once

#include <algorithm>
#include <numeric>

#include "expert/expert_service.h"
#include "expert/test_weights.h"

namespace kvasir::expert {

struct TestRequest {
  struct Shape {
    uint32_t n_embd = 0, n_experts = 0;
    size_t top_k = 0;
  };

  TestRequest(Random& random, Shape the_shape, size_t n_rows, uint32_t the_layer)
      : shape(the_shape), rows(random_floats(random, n_rows * shape.n_embd)), layer(the_layer) {
    std::vector<uint16_t> all(shape.n_experts);
    std::iota(all.begin(), all.end(), uint16_t{0});
    for (size_t row = 0; row < n_rows; ++row) {
      std::shuffle(all.begin(), all.end(), random);
      ids.insert(ids.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(shape.top_k));
    }
  }

  ExpertRequest view(OutputEncoding encoding = OutputEncoding::kF32) const {
    return {layer, rows.data(), rows.size() / shape.n_embd, ids.data(), shape.top_k, encoding};
  }
  // Room for the outputs, with something in it that no expert computes.
  std::vector<float> output() const { return std::vector<float>(ids.size() * shape.n_embd, -1.0F); }

  Shape shape;
  std::vector<float> rows;
  std::vector<uint16_t> ids;
  uint32_t layer;
};

}  // namespace kvasir::expert
