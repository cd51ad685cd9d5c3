// Counts are compared with sums over the file's own tensors: what a call reads at least once is
// nothing else than tensors, whole or by expert or by row.
#include "measure/traffic.h"

#include <gtest/gtest.h>

#include <vector>

#include "measure/test_model_file.h"

namespace kvasir::measure {
namespace {

constexpr kernels::KvType kF16 = kernels::KvType::kF16;

uint64_t tensor_bytes(const model::Model& model, bool (*wanted)(std::string_view)) {
  uint64_t bytes = 0;
  for (const gguf::TensorView& tensor : model.file->tensors())
    if (wanted(tensor.info->name)) bytes += tensor.data.size();
  return bytes;
}

bool is_expert(std::string_view name) {
  return name.find("_exps.") != std::string_view::npos;
}
bool is_embedding(std::string_view name) {
  return name == "token_embd.weight";
}
bool is_dense(std::string_view name) {
  return !is_expert(name) && !is_embedding(name);
}

std::vector<ExpertUse> same_use(const model::Model& model, ExpertUse use) {
  return std::vector<ExpertUse>(model.layers.size(), use);
}

class TrafficOf : public ::testing::TestWithParam<model::Architecture> {
 protected:
  const TestModelFile file_{GetParam()};
  const model::Model& model_ = file_.model();
  const model::HyperParameters& hp_ = model_.hp;
};

INSTANTIATE_TEST_SUITE_P(Architectures, TrafficOf,
                         ::testing::Values(model::Architecture::kQwen35Moe,
                                           model::Architecture::kQwen3Moe),
                         [](const auto& test) {
                           return std::string(model::architecture_name(test.param));
                         });

TEST_P(TrafficOf, ADecodeStepReadsEveryDenseTensorOnce) {
  const Traffic one =
      call_traffic(model_, kF16, {1, 1, 1, 1}, same_use(model_, {hp_.n_experts, 2}));
  EXPECT_EQ(one.dense, tensor_bytes(model_, is_dense) + model_.token_embedding.row_bytes);
  EXPECT_EQ(one.experts, tensor_bytes(model_, is_expert));
  // More rows read an embedding row more each, no weights.
  const Traffic eight =
      call_traffic(model_, kF16, {8, 8, 8, 1}, same_use(model_, {hp_.n_experts, 16}));
  EXPECT_EQ(eight.dense, one.dense + 7 * model_.token_embedding.row_bytes);
  EXPECT_EQ(eight.experts, one.experts);
  EXPECT_EQ(eight.caches, 8 * one.caches);
  EXPECT_EQ(eight.operations, 8 * one.operations);
}

TEST_P(TrafficOf, ExpertsCountWhenSomeRowWantsThem) {
  const auto experts = [&](ExpertUse use) {
    return call_traffic(model_, kF16, {4, 4, 4, 1}, same_use(model_, use)).experts;
  };
  const uint64_t all = tensor_bytes(model_, is_expert);
  EXPECT_EQ(experts({0, 0}), 0U);
  EXPECT_EQ(experts({1, 8}), all / hp_.n_experts);
  EXPECT_EQ(experts({3, 8}), 3 * all / hp_.n_experts);
}

// Every weight of an f32 model is used in one multiplication and one addition, by each row that
// wants it.
TEST_P(TrafficOf, OperationsAreTwoPerWeightAndRow) {
  const Traffic one = call_traffic(model_, kF16, {1, 1, 1, 1}, same_use(model_, {2, 2}));
  uint64_t weights = 0;
  for (const gguf::TensorView& tensor : model_.file->tensors()) {
    const gguf::TensorInfo& info = *tensor.info;
    const uint64_t size = tensor.data.size() / sizeof(float);
    const bool is_convolution = info.name.find("conv1d") != std::string::npos;
    const bool is_matrix = info.n_dims >= 2 && !is_convolution && !is_embedding(info.name);
    if (is_matrix) weights += is_expert(info.name) ? size / hp_.n_experts * 2 : size;
  }
  EXPECT_EQ(one.operations, 2 * weights);
}

// The last layer computes for rows without logits only what later tokens need.
TEST_P(TrafficOf, RowsWithoutLogitsLeaveOutHeadAndLastExperts) {
  std::vector<ExpertUse> use = same_use(model_, {2, 8});
  const Traffic with = call_traffic(model_, kF16, {4, 1, 1, 4}, use);
  const Traffic without = call_traffic(model_, kF16, {4, 0, 1, 4}, use);
  EXPECT_EQ(with.experts / model_.layers.size(), with.experts - without.experts);
  EXPECT_GT(with.dense - without.dense, model_.output.n_out * model_.output.row_bytes);
  EXPECT_LT(without.operations, with.operations);
}

TEST_P(TrafficOf, CachesGrowWithThePosition) {
  const auto caches = [&](size_t position, kernels::KvType type) {
    return call_traffic(model_, type, {1, 1, 1, position}, same_use(model_, {2, 2})).caches;
  };
  EXPECT_EQ(caches(101, kF16) - caches(1, kF16), 100 * hp_.kv_bytes_per_token(2));
  EXPECT_EQ(caches(101, kernels::KvType::kF32) - caches(1, kernels::KvType::kF32),
            100 * hp_.kv_bytes_per_token(4));
  // At the first position: its own keys and values are written and read, and every matrix and
  // window of the recurrent state is read, and written as far as it changes.
  const uint64_t state = caches(1, kF16) - 2 * hp_.kv_bytes_per_token(2);
  EXPECT_LE(state, 2 * hp_.state_bytes_per_sequence());
  if (hp_.n_delta_layers() != 0) {
    EXPECT_GT(state, hp_.state_bytes_per_sequence());
  } else {
    EXPECT_EQ(state, 0U);
  }
}

}  // namespace
}  // namespace kvasir::measure
