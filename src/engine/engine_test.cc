// The forward pass as its callers see it: a row's bits depend on its own sequence only, and what
// goes wrong in one sequence stays there.
#include "engine/engine.h"

#include <limits>
#include <map>
#include <random>
#include <set>

#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;
using model::Architecture;
using testing::HasSubstr;

using Ids = std::vector<int32_t>;

// It makes the kernels very slow, and what it looks for does not depend on their size.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

Ids random_ids(std::mt19937& random, size_t n, uint32_t n_vocab) {
  Ids ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % n_vocab);
  return ids;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<const kernels::KernelTable*> all_tables() {
  if (kThreadSanitizer) return {kernels::select_table().value()};
  std::vector<const kernels::KernelTable*> tables;
  for (const kernels::KernelTable* table : kernels::available_tables())
    if (table != nullptr) tables.push_back(table);
  return tables;
}

// The models of these tests: a hybrid one with the stock mix of types and a plain one with F32.
model::SynthesisPlan plan_of(Architecture architecture) {
  if (architecture != Architecture::kQwen35Moe || kThreadSanitizer)
    return model::tiny_plan(architecture);
  model::SynthesisPlan plan = model::small_plan(architecture);
  plan.mix = model::TypeMix::kQ4KM;
  return plan;
}

// Several sequences of different lengths, cut into calls at random: rows of all of them
// interleaved, some with logits and some without. Against each sequence alone, token by token,
// scalar, one thread.
TEST(Engine, GivesARowTheSameBitsInAnyCompany) {
  const std::vector<size_t> lengths = {23, 1, 40, 9};
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const model::ModelPieces pieces(plan_of(architecture));
    for (KvType kv_type : {KvType::kF16, KvType::kF32}) {
      std::mt19937 random(11);
      RunSettings plain;
      plain.options.kv_type = kv_type;
      TestEngine reference(pieces.bind().value(), plain);
      std::vector<Ids> ids;
      std::vector<std::vector<float>> expected;
      for (size_t length : lengths) {
        ids.push_back(random_ids(random, length, reference.model().hp.n_vocab));
        expected.push_back(reference.logits(ids.back(), 1));
      }

      for (const kernels::KernelTable* table : all_tables()) {
        RunSettings settings{{kv_type, expert::OutputEncoding::kF32, 24}, table, 2};
        TestEngine engine(pieces.bind().value(), settings);
        const size_t n_vocab = engine.n_vocab();
        std::vector<std::unique_ptr<Sequence>> sequences;
        for (const Ids& each : ids) sequences.push_back(engine.new_sequence(each.size()));
        std::vector<size_t> taken(ids.size(), 0);
        for (;;) {
          struct Wanted {
            size_t sequence, position;
          };
          std::vector<Row> rows;
          std::vector<Wanted> wanted;
          const size_t n_rows = 1 + random() % 24;
          for (size_t tries = 0; tries < 100 && rows.size() < n_rows; ++tries) {
            const size_t s = random() % ids.size();
            if (taken[s] == ids[s].size()) continue;
            const bool wants_logits = random() % 3 != 0;
            rows.push_back({sequences[s].get(), ids[s][taken[s]], wants_logits});
            if (wants_logits) wanted.push_back({s, taken[s]});
            ++taken[s];
          }
          if (rows.empty()) break;
          std::vector<float> logits(wanted.size() * n_vocab);
          auto failures = engine.engine().forward(rows, logits);
          ASSERT_TRUE(failures) << failures.error().message;
          ASSERT_TRUE(failures->empty()) << failures->front().error.message;
          for (size_t i = 0; i < wanted.size(); ++i)
            ASSERT_TRUE(same_bits(std::span(logits).subspan(i * n_vocab, n_vocab),
                                  std::span(expected[wanted[i].sequence])
                                      .subspan(wanted[i].position * n_vocab, n_vocab)))
                << table->name << ", sequence " << wanted[i].sequence << ", position "
                << wanted[i].position;
        }
        EXPECT_EQ(taken, lengths);
      }
    }
  }
}

// 1,100 positions: the chunk of the whole text takes the long way through attention from its first
// row on, token by token only the last ones do.
TEST(Engine, GivesTheSameBitsForChunksOfALongText) {
  const model::ModelPieces pieces(model::tiny_plan());
  std::mt19937 random(12);
  RunSettings settings;
  settings.options.rows_max = 1100;
  settings.kernels = kernels::select_table().value();
  settings.threads = 2;
  TestEngine engine(pieces.bind().value(), settings);
  const Ids ids = random_ids(random, 1100, engine.model().hp.n_vocab);
  const auto whole = engine.logits(ids, 1100);
  EXPECT_TRUE(same_bits(engine.logits(ids, 1), whole));
  EXPECT_TRUE(same_bits(engine.logits(ids, 300), whole));
}

// A model whose token embedding has a NaN in the row of one token.
constexpr int32_t kBadToken = 5;

model::ModelPieces with_bad_token() {
  model::ModelPieces pieces(model::tiny_plan());
  pieces.tensor("token_embd.weight")
      .set_float(size_t{64} * kBadToken + 3, std::numeric_limits<float>::quiet_NaN());
  return pieces;
}

Ids ids_without_bad_token(std::mt19937& random, size_t n, uint32_t n_vocab) {
  Ids ids = random_ids(random, n, n_vocab);
  std::replace(ids.begin(), ids.end(), kBadToken, kBadToken + 1);
  return ids;
}

// Whatever the chunks, a sequence ends at the same position with the same words, the logits before
// it are those of a healthy run, and neighbours notice nothing.
TEST(Engine, FailsASequenceAtTheFirstBadPositionAndNoOther) {
  const model::ModelPieces pieces = with_bad_token();
  for (size_t chunk : {1, 3, 16}) {
    std::mt19937 random(13);
    RunSettings settings;
    settings.threads = 2;
    TestEngine engine(pieces.bind().value(), settings);
    const size_t n_vocab = engine.n_vocab();
    const Ids good = ids_without_bad_token(random, 12, engine.model().hp.n_vocab);
    Ids bad = ids_without_bad_token(random, 12, engine.model().hp.n_vocab);
    const auto expected_good = engine.logits(good, 1);
    const auto expected_bad = engine.logits(bad, 1);
    bad[7] = kBadToken;

    auto good_sequence = engine.new_sequence(12), bad_sequence = engine.new_sequence(12);
    for (size_t begin = 0; begin < 12; begin += chunk) {
      std::vector<Row> rows;
      for (size_t i = begin; i < std::min<size_t>(begin + chunk, 12); ++i) {
        if (!bad_sequence->failure()) rows.push_back({bad_sequence.get(), bad[i], true});
        rows.push_back({good_sequence.get(), good[i], true});
      }
      std::vector<float> logits(rows.size() * n_vocab, -1.0F);
      const auto failures = engine.engine().forward(rows, logits);
      ASSERT_TRUE(failures);
      if (begin <= 7 && 7 < begin + chunk) {
        ASSERT_EQ(failures->size(), 1U);
        EXPECT_EQ(failures->front().sequence, bad_sequence.get());
        EXPECT_EQ(failures->front().error.kind, ErrorKind::kNonFinite);
        EXPECT_EQ(failures->front().error.message, "token_embd.weight: row 5 is not finite");
      } else {
        EXPECT_TRUE(failures->empty());
      }
      std::map<Sequence*, size_t> next;
      for (size_t row = 0; row < rows.size(); ++row) {
        const bool is_good = rows[row].sequence == good_sequence.get();
        const size_t position = begin + next[rows[row].sequence]++;
        const auto got = std::span(logits).subspan(row * n_vocab, n_vocab);
        const std::vector<float> zeros(n_vocab, 0.0F);
        const auto want =
            is_good ? std::span<const float>(expected_good) : std::span<const float>(expected_bad);
        EXPECT_TRUE(same_bits(got, is_good || position < 7
                                       ? want.subspan(position * n_vocab, n_vocab)
                                       : std::span<const float>(zeros)))
            << "chunk " << chunk << ", position " << position;
      }
    }
    ASSERT_TRUE(bad_sequence->failure());
    EXPECT_EQ(good_sequence->position(), 12U);
    EXPECT_FALSE(good_sequence->failure());

    // A failed sequence takes no more tokens.
    std::vector<float> logits(n_vocab);
    const Row row{bad_sequence.get(), 1, true};
    auto refused = engine.engine().forward({&row, 1}, logits);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("row 5 is not finite"));
  }
}

// An infinity in one expert of one layer: sequences that the router sends there fail, naming the
// tensor and the expert; the others have the bits that they have without it.
TEST(Engine, FailsOnlyTheSequencesRoutedToABrokenExpert) {
  model::ModelPieces pieces(model::tiny_plan());
  RunSettings settings;
  settings.threads = 2;
  TestEngine healthy(pieces.bind().value(), settings);
  const auto& hp = healthy.model().hp;
  pieces.tensor("blk.1.ffn_down_exps.weight")
      .set_float(size_t{2} * hp.n_embd * hp.expert_width + 7,
                 -std::numeric_limits<float>::infinity());
  TestEngine broken(pieces.bind().value(), settings);

  // One token each, so that one row decides.
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Row> rows;
  for (int32_t token = 0; token < 40; ++token) {
    sequences.push_back(broken.new_sequence(4));
    rows.push_back({sequences.back().get(), token, true});
  }
  std::set<size_t> routed_there;
  broken.engine().set_tap(
      [&](std::string_view name, int layer, size_t row, std::span<const float> values) {
        if (name == "ffn_moe_topk" && layer == 1 &&
            std::find(values.begin(), values.end(), 2.0F) != values.end())
          routed_there.insert(row);
      });
  std::vector<float> logits(rows.size() * broken.n_vocab());
  const auto failures = broken.engine().forward(rows, logits).value();

  EXPECT_GT(routed_there.size(), 4U);
  EXPECT_LT(routed_there.size(), 36U);
  ASSERT_EQ(failures.size(), routed_there.size());
  for (const SequenceFailure& failure : failures)
    EXPECT_EQ(failure.error.message,
              "blk.1.ffn_down_exps.weight: expert 2: output is not finite at position 0");
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto got = std::span(logits).subspan(row * broken.n_vocab(), broken.n_vocab());
    const bool failed = routed_there.count(row) != 0;
    EXPECT_EQ(sequences[row]->failure().has_value(), failed);
    EXPECT_TRUE(same_bits(got, failed ? std::vector<float>(broken.n_vocab(), 0.0F)
                                      : healthy.logits(Ids{rows[row].token}, 1)))
        << row;
  }
}

// One weight of each tensor made infinite in turn: the error names that tensor, or the one that its
// values reach first; nothing crashes, and a healthy model is not affected.
TEST(Engine, NamesTheTensorThatANonFiniteValueComesFrom) {
  const std::pair<const char*, const char*> cases[] = {
      {"blk.0.attn_qkv.weight", "blk.0.attn_qkv.weight: output"},
      {"blk.0.attn_gate.weight", "blk.0.attn_gate.weight: output"},
      {"blk.0.ssm_alpha.weight", "blk.0.ssm_alpha.weight: output"},
      {"blk.0.ssm_beta.weight", "blk.0.ssm_beta.weight: output"},
      {"blk.0.ssm_out.weight", "blk.0.ssm_out.weight: output"},
      {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_inp.weight: output"},
      {"blk.0.ffn_gate_shexp.weight", "blk.0.ffn_gate_shexp.weight: output"},
      {"blk.0.ffn_up_shexp.weight", "blk.0.ffn_up_shexp.weight: output"},
      {"blk.0.ffn_down_shexp.weight", "blk.0.ffn_down_shexp.weight: output"},
      {"blk.1.attn_q.weight", "blk.1.attn_q.weight: output"},
      {"blk.1.attn_k.weight", "blk.1.attn_k.weight: output"},
      {"blk.1.attn_v.weight", "blk.1.attn_v.weight: output"},
      {"blk.1.attn_output.weight", "blk.1.attn_output.weight: output"},
      {"output.weight", "output.weight: output"},
  };
  for (const auto& [tensor, expected] : cases) {
    model::ModelPieces pieces(model::tiny_plan());
    pieces.tensor(tensor).set_float(0, std::numeric_limits<float>::infinity());
    TestEngine engine(pieces.bind().value(), {});
    auto sequence = engine.new_sequence(4);
    const std::vector<Row> rows = {{sequence.get(), 1, false}, {sequence.get(), 2, true}};
    std::vector<float> logits(engine.n_vocab(), -1.0F);
    const auto failures = engine.engine().forward(rows, logits).value();
    ASSERT_EQ(failures.size(), 1U) << tensor;
    EXPECT_THAT(failures[0].error.message, testing::StartsWith(expected));
    EXPECT_EQ(logits, std::vector<float>(engine.n_vocab(), 0.0F)) << tensor;
  }
}

// Values beyond 65,504 have no half: an f32 cache takes them.
TEST(Engine, SaysWhenAValueDoesNotFitTheCache) {
  model::ModelPieces pieces(model::tiny_plan());
  const auto n_embd = model::tiny_plan().hp.n_embd;
  for (size_t i = 0; i < n_embd; ++i) pieces.tensor("blk.1.attn_v.weight").set_float(i, 1e6F);
  for (KvType type : {KvType::kF16, KvType::kF32}) {
    RunSettings settings;
    settings.options.kv_type = type;
    TestEngine engine(pieces.bind().value(), settings);
    auto sequence = engine.new_sequence(1);
    const Row row{sequence.get(), 1, true};
    std::vector<float> logits(engine.n_vocab());
    const auto failures = engine.engine().forward({&row, 1}, logits).value();
    if (type == KvType::kF32) {
      EXPECT_TRUE(failures.empty());
      continue;
    }
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].error.message,
              "blk.1.attn_v.weight: a value at position 0 does not fit f16");
    EXPECT_THAT(failures[0].error.hint, HasSubstr("--kv-type f32"));
  }
}

// After every kind of refused call the next good one has the bits that it has without them.
TEST(Engine, ChangesNothingWhenItRefuses) {
  RunSettings settings;
  settings.options.rows_max = 4;
  TestEngine engine(model::ModelPieces(model::tiny_plan()).bind().value(), settings);
  const Ids ids = {1, 2, 3, 4, 5};
  const auto expected = engine.logits(ids, 1);
  auto sequence = engine.new_sequence(5);
  std::vector<float> logits = engine.append(*sequence, std::span(ids).first(3));

  auto refuse = [&](const Ids& tokens) {
    std::vector<Row> rows;
    for (int32_t token : tokens) rows.push_back({sequence.get(), token, false});
    return engine.engine().forward(rows, {}).error().message;
  };
  EXPECT_THAT(refuse({4, -1}), HasSubstr("token -1"));
  EXPECT_THAT(refuse({4, 5, 6}), HasSubstr("context of 5 tokens is full: 3 are taken, 3 more"));
  EXPECT_THAT(refuse({4, 5, 6, 7, 8}), HasSubstr("5 rows"));
  EXPECT_EQ(sequence->position(), 3U);

  const auto rest = engine.append(*sequence, std::span(ids).subspan(3));
  logits.insert(logits.end(), rest.begin(), rest.end());
  EXPECT_TRUE(same_bits(logits, expected));
  EXPECT_THAT(refuse({4}), HasSubstr("5 are taken, 1 more"));
}

TEST(Engine, ComputesNothingForNoRows) {
  TestEngine engine(model::ModelPieces(model::tiny_plan()).bind().value(), {});
  EXPECT_TRUE(engine.engine().forward({}, {}).value().empty());
}

TEST(Engine, RefusesContextsThatAreNotPossible) {
  TestEngine engine(model::ModelPieces(model::tiny_plan()).bind().value(), {});
  EXPECT_EQ(engine.engine().new_sequence(0).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(engine.engine().new_sequence(model::kContextMax + 1).error().kind, ErrorKind::kInvalid);
}

// Stands in front of a local service: checks what the engine promises, and can fail as a whole.
class WatchedExperts final : public expert::ExpertService {
 public:
  explicit WatchedExperts(expert::ExpertService& behind) : behind_(behind) {}

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override {
    ++calls;
    rows += request.n_rows;
    const size_t n_embd = model::tiny_plan().hp.n_embd;
    EXPECT_TRUE(kernels::scalar().all_finite(request.rows, request.n_rows * n_embd));
    for (size_t row = 0; row < request.n_rows; ++row) {
      const uint16_t* ids = request.ids + row * request.top_k;
      EXPECT_EQ(std::set<uint16_t>(ids, ids + request.top_k).size(), request.top_k);
    }
    if (request.layer == broken_layer) return Error::io("the network is gone");
    return behind_.compute(request, out);
  }

  uint32_t broken_layer = UINT32_MAX;
  size_t calls = 0, rows = 0;

 private:
  expert::ExpertService& behind_;
};

struct WatchedEngine {
  WatchedEngine()
      : model(with_bad_token().bind().value()),
        local(local_experts(model), kernels::scalar(), pool),
        watched(local),
        engine(model, kernels::scalar(), pool, watched, {}) {}

  model::Model model;
  ThreadPool pool{2};
  expert::LocalExpertService local;
  WatchedExperts watched;
  Engine engine;
};

// Rows that failed earlier must reach the service as something valid.
TEST(Engine, AsksTheExpertServiceForFiniteRowsAndDistinctExperts) {
  WatchedEngine with;
  auto a = with.engine.new_sequence(8).value(), b = with.engine.new_sequence(8).value();
  const std::vector<Row> rows = {
      {a.get(), 1, true}, {a.get(), kBadToken, true}, {b.get(), 2, true}, {a.get(), 3, true}};
  std::vector<float> logits(rows.size() * with.model.hp.n_vocab);
  EXPECT_EQ(with.engine.forward(rows, logits).value().size(), 1U);
  EXPECT_EQ(with.watched.calls, with.model.hp.n_layers);
}

// The last layer's experts, and the head, are for logits only.
TEST(Engine, SkipsTheLastExpertsOfRowsWithoutLogits) {
  WatchedEngine with;
  auto a = with.engine.new_sequence(8).value();
  std::vector<Row> rows = {{a.get(), 1, false}, {a.get(), 2, true}, {a.get(), 3, false}};
  std::vector<float> logits(with.model.hp.n_vocab);
  EXPECT_TRUE(with.engine.forward(rows, logits).value().empty());
  EXPECT_EQ(with.watched.rows, 3U + 1U);
  for (Row& row : rows) row.wants_logits = false;
  EXPECT_TRUE(with.engine.forward(rows, {}).value().empty());
  EXPECT_EQ(with.watched.rows, 3U + 1U + 3U + 0U);
  EXPECT_EQ(a->position(), 6U);
}

// Half-way through the layers the caches have moved on, so the sequences of the batch cannot
// continue; they end with the service's own words.
TEST(Engine, EndsTheSequencesOfABatchWhoseExpertServiceFails) {
  WatchedEngine with;
  auto a = with.engine.new_sequence(8).value(), b = with.engine.new_sequence(8).value();
  with.watched.broken_layer = 1;
  const std::vector<Row> rows = {{a.get(), 1, true}, {b.get(), 2, true}};
  std::vector<float> logits(rows.size() * with.model.hp.n_vocab, -1.0F);
  const auto failures = with.engine.forward(rows, logits).value();
  ASSERT_EQ(failures.size(), 2U);
  for (const SequenceFailure& failure : failures) {
    EXPECT_EQ(failure.error.kind, ErrorKind::kIo);
    EXPECT_EQ(failure.error.message, "the network is gone");
  }
  EXPECT_EQ(logits, std::vector<float>(logits.size(), 0.0F));
  EXPECT_TRUE(a->failure() && b->failure());

  with.watched.broken_layer = UINT32_MAX;
  auto c = with.engine.new_sequence(8).value();
  const Row row{c.get(), 1, true};
  EXPECT_TRUE(
      with.engine.forward({&row, 1}, std::span(logits).first(logits.size() / 2)).value().empty());
}

}  // namespace
}  // namespace kvasir::engine
