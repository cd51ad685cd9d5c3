// Cancelling a sequence while it is being computed: its work ends at the next layer, and nobody
// else's bits change.
#include <cstring>

#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvasir::engine {
namespace {

// Does something in the middle of a layer, and remembers whose rows each layer was asked for.
class CancellingExperts final : public expert::ExpertService {
 public:
  explicit CancellingExperts(expert::ExpertService& behind) : behind_(behind) {}

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override {
    owners.emplace_back(request.row_owner, request.row_owner + request.n_rows);
    if (request.layer == cancel_layer)
      for (Sequence* sequence : to_cancel) sequence->cancel();
    return behind_.compute(request, out);
  }

  uint32_t cancel_layer = UINT32_MAX;
  std::vector<Sequence*> to_cancel;
  std::vector<std::vector<uint64_t>> owners;

 private:
  expert::ExpertService& behind_;
};

struct CancelTest : testing::Test {
  std::vector<float> forward(const std::vector<Row>& rows, size_t n_failures) {
    std::vector<float> logits(rows.size() * model.hp.n_vocab, -1.0F);
    const auto failures = engine.forward(rows, logits);
    EXPECT_TRUE(failures);
    EXPECT_EQ(failures->size(), n_failures);
    for (const SequenceFailure& failure : *failures)
      EXPECT_EQ(failure.error.message, "the sequence was cancelled");
    return logits;
  }
  std::vector<float> logits_of(const std::vector<float>& logits, size_t row) const {
    const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * model.hp.n_vocab);
    return {begin, begin + static_cast<ptrdiff_t>(model.hp.n_vocab)};
  }
  std::unique_ptr<Sequence> new_sequence() { return engine.new_sequence(8).value(); }

  model::Model model = model::ModelPieces(model::tiny_plan()).bind().value();
  ThreadPool pool{2};
  expert::LocalExpertService local{local_experts(model), kernels::scalar(), pool};
  CancellingExperts experts{local};
  Engine engine{model, kernels::scalar(), pool, experts, {}};
};

TEST_F(CancelTest, SequencesHaveIdsOfTheirOwn) {
  const auto a = new_sequence(), b = new_sequence();
  EXPECT_NE(a->id(), b->id());
  EXPECT_NE(a->id(), 0U);
}

TEST_F(CancelTest, EndsTheWorkOfASequenceAtTheNextLayer) {
  auto alone = new_sequence(), other = new_sequence(), cancelled = new_sequence();
  const auto expected = forward({{alone.get(), 1, true}, {alone.get(), 2, true}}, 0);
  const auto expected_next = forward({{alone.get(), 3, true}}, 0);
  experts.owners.clear();
  experts.cancel_layer = 0;
  experts.to_cancel = {cancelled.get()};
  const auto logits = forward({{cancelled.get(), 9, true},
                               {other.get(), 1, true},
                               {cancelled.get(), 8, true},
                               {other.get(), 2, true}},
                              1);
  EXPECT_EQ(logits_of(logits, 1), logits_of(expected, 0));
  EXPECT_EQ(logits_of(logits, 3), logits_of(expected, 1));
  EXPECT_EQ(logits_of(logits, 0), std::vector<float>(model.hp.n_vocab, 0.0F));
  ASSERT_EQ(experts.owners.size(), 2U);
  const uint64_t a = cancelled->id(), b = other->id();
  EXPECT_THAT(experts.owners[0], testing::ElementsAre(a, b, a, b));
  EXPECT_THAT(experts.owners[1], testing::ElementsAre(b, b));
  EXPECT_TRUE(cancelled->failure());
  EXPECT_EQ(forward({{other.get(), 3, true}}, 0), expected_next);
}

TEST_F(CancelTest, LeavesTheLayersWhenNobodyIsLeft) {
  auto a = new_sequence(), b = new_sequence();
  experts.cancel_layer = 0;
  experts.to_cancel = {a.get(), b.get()};
  const auto logits = forward({{a.get(), 1, true}, {b.get(), 2, true}}, 2);
  EXPECT_EQ(logits, std::vector<float>(logits.size(), 0.0F));
  EXPECT_EQ(experts.owners.size(), 1U);

  auto before = new_sequence();
  before->cancel();
  forward({{before.get(), 1, true}}, 1);
  EXPECT_EQ(experts.owners.size(), 1U);
}

}  // namespace
}  // namespace kvasir::engine
