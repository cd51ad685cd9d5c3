// Figures, not speeds: nothing here depends on how fast the machine is.
#include "measure/model_speed.h"

#include <gtest/gtest.h>

#include "expert/local_expert_service.h"
#include "measure/test_model_file.h"

namespace kvasir::measure {
namespace {

Plan small_plan() {
  Plan plan;
  plan.threads = {1, 2};
  plan.decode = {1, 3};
  plan.prefill = {10};
  plan.steps = 2;
  plan.depth = 3;
  plan.repetitions = 2;
  plan.engine.rows_max = 4;
  return plan;
}

std::unique_ptr<expert::ExpertService> local(const model::Model& model, ThreadPool& pool) {
  return std::make_unique<expert::LocalExpertService>(engine::local_experts(model),
                                                      kernels::scalar(), pool);
}

TEST(Plan, KnowsWhatItNeeds) {
  const Plan plan = small_plan();
  EXPECT_EQ(plan.rows_max(), 4U);
  EXPECT_EQ(plan.sequences_max(), 3U);
  EXPECT_EQ(plan.context(), 10U);
  Plan deep = plan;
  deep.depth = 100;
  EXPECT_EQ(deep.context(), 105U);  // one step more than is measured
  deep.decode = {64};
  EXPECT_EQ(deep.rows_max(), 64U);
  EXPECT_EQ(Plan{}.sequences_max(), 1U);
}

TEST(Spread, IsMedianAndExtremes) {
  const Spread odd = spread_of({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(spread_of({4, 1, 2, 8}).median, 3);
  EXPECT_EQ(spread_of({7}).median, 7);
}

TEST(MachineRange, KeepsBestAndWorstOfEachFigure) {
  MachineRange range;
  range.add({20, 0, 5});
  range.add({10, 0, 8});
  range.add({15, 0, 6});
  EXPECT_EQ(range.best.read_bytes_per_s, 20);
  EXPECT_EQ(range.worst.read_bytes_per_s, 10);
  EXPECT_EQ(range.best.int8_operations_per_s, 8);
  EXPECT_EQ(range.worst.int8_operations_per_s, 5);
  EXPECT_EQ(range.best.mapped_bytes_per_s, 0);
}

TEST(Fractions, CompareARunWithTheMachine) {
  ModelRun run;
  run.tokens_per_s = {10, 9, 11};
  run.dense_bytes = 100;
  run.expert_bytes = 250;
  run.cache_bytes = 50;
  run.operations = 2000;
  MachineRange machine;
  machine.add({8000, 0, 200'000});
  const Fractions part = fractions(run, machine);
  EXPECT_DOUBLE_EQ(part.read, 0.5);
  EXPECT_DOUBLE_EQ(part.int8, 0.1);
  EXPECT_DOUBLE_EQ(part.tokens_per_s_by_reading, 20);
  EXPECT_DOUBLE_EQ(part.tokens_per_s_by_computing, 100);
}

TEST(MeasureModel, MeasuresEverythingThatWasPlanned) {
  const TestModelFile file(model::Architecture::kQwen35Moe);
  const model::Model& model = file.model();
  const Plan plan = small_plan();
  uint64_t tokens = 0;
  auto report = measure_model(model, kernels::scalar(), local, plan, [&](uint64_t more) {
    tokens += more;
    return true;
  });
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_FALSE(report->stopped);
  EXPECT_EQ(tokens, plan.tokens());
  ASSERT_EQ(report->runs.size(), 6U);
  ASSERT_EQ(report->machine.size(), 2U);
  for (const ModelRun& run : report->runs) {
    EXPECT_GT(run.tokens_per_s.median, 0);
    EXPECT_LE(run.tokens_per_s.min, run.tokens_per_s.median);
    EXPECT_GE(run.tokens_per_s.max, run.tokens_per_s.median);
    EXPECT_GT(run.processor_share, 0);
    EXPECT_LT(run.processor_share, 1.5);
    EXPECT_GT(fractions(run, report->machine_of(run)).read, 0);
  }
  // The same tokens with one thread and with two, so the same experts.
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report->runs[i].threads, 1U);
    EXPECT_EQ(report->runs[i + 3].threads, 2U);
    EXPECT_EQ(report->runs[i].bytes(), report->runs[i + 3].bytes());
  }
  const ModelRun& one = report->runs[0];
  const ModelRun& three = report->runs[1];
  EXPECT_EQ(one.kind, Kind::kDecode);
  EXPECT_EQ(three.size, 3U);
  EXPECT_EQ(one.distinct_experts, model.hp.n_experts_used);
  EXPECT_GT(three.distinct_experts, one.distinct_experts);
  EXPECT_LT(three.bytes(), one.bytes());
  EXPECT_EQ(three.operations, one.operations);
  EXPECT_EQ(report->runs[2].kind, Kind::kPrefill);
  EXPECT_LT(report->runs[2].operations, one.operations);  // one head for ten tokens
}

TEST(MeasureModel, StopsWhenToldTo) {
  const TestModelFile file(model::Architecture::kQwen3Moe);
  for (int calls_left : {0, 3, 9}) {
    int left = calls_left;
    auto report = measure_model(file.model(), kernels::scalar(), local, small_plan(),
                                [&](uint64_t) { return left-- > 0; });
    ASSERT_TRUE(report.has_value());
    EXPECT_TRUE(report->stopped);
    EXPECT_EQ(left, -1) << "computed on after it was told to stop";
  }
}

TEST(ReadBuffer, GrowsWithTheThreads) {
  EXPECT_EQ(read_buffer_bytes(1), size_t{512} << 20);
  EXPECT_EQ(read_buffer_bytes(16), size_t{512} << 20);
  EXPECT_EQ(read_buffer_bytes(17), size_t{1} << 30);
  EXPECT_EQ(read_buffer_bytes(1024), size_t{4} << 30);
}

TEST(ReadBuffer, ReportsThatThereIsNoSuchMemory) {
  ThreadPool pool(1);
  const auto buffer = ReadBuffer::create(size_t{1} << 60, pool);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().kind, ErrorKind::kLimit);
}

}  // namespace
}  // namespace kvasir::measure
