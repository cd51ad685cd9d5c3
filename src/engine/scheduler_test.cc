// The scheduler with its threads: joining, leaving, cancelling and closing at any moment, several
// lanes that wait for their experts by turns, and always the same bits.
#include "engine/scheduler.h"

#include <atomic>

#include "engine/memory_fit.h"
#include "engine/test_scheduler.h"

namespace kvasir::engine {
namespace {

using std::chrono::minutes;
using testing::HasSubstr;

// Stands for experts behind a network: gives the turn away in the middle, until somebody else has
// had it, if somebody is there.
class FarExperts final : public expert::ExpertService {
 public:
  FarExperts(expert::ExpertService& behind, Turn& turn) : behind_(behind), turn_(turn) {}

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override {
    ++waits_now;
    waits_together = std::max(waits_together.load(), waits_now.load());
    turn_.give();
    std::this_thread::yield();
    turn_.take();
    --waits_now;
    return behind_.compute(request, out);
  }

  std::atomic<int> waits_now{0}, waits_together{0};

 private:
  expert::ExpertService& behind_;
  Turn& turn_;
};

// Lets steps through one at a time, so that a test knows what has happened.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait_for(lock, minutes(1), [&] { return open_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, minutes(1), [&] { return arrived_ != 0; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

class Served {
 public:
  explicit Served(size_t lanes, SchedulerOptions options = default_options(), size_t rows_max = 32)
      : model_(model::ModelPieces(model::tiny_plan()).bind().value()),
        local_(local_experts(model_), kernels(), pool_),
        far_(local_, turn_) {
    EngineOptions engine_options;
    engine_options.rows_max = rows_max;
    std::vector<Engine*> pointers;
    expert::ExpertService& experts =
        lanes == 1 ? static_cast<expert::ExpertService&>(local_) : far_;
    for (size_t lane = 0; lane < lanes; ++lane) {
      engines_.push_back(
          std::make_unique<Engine>(model_, kernels(), pool_, experts, engine_options));
      pointers.push_back(engines_.back().get());
    }
    scheduler_ = std::make_unique<Scheduler>(pointers, turn_, options);
  }

  static SchedulerOptions default_options() {
    SchedulerOptions options;
    options.admission.context_max = 400;
    options.admission.memory_bytes = 100'000'000;
    options.admission.running_max = 8;
    options.prefill_rows_while_decoding = 16;
    options.prefix.bytes_max = 20'000'000;
    options.prefix.tokens_min = 4;
    options.prefix.stride_tokens = 16;
    return options;
  }

  const model::Model& model() const { return model_; }
  Scheduler& scheduler() { return *scheduler_; }
  FarExperts& far() { return far_; }
  void destroy_scheduler() { scheduler_.reset(); }

 private:
  static const kernels::KernelTable& kernels() { return *kernels::select_table().value(); }

  model::Model model_;
  ThreadPool pool_{2};
  Turn turn_;
  expert::LocalExpertService local_;
  FarExperts far_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Scheduler> scheduler_;
};

Request simple_request(size_t tokens_max) {
  Request request;
  request.user = "somebody";
  request.prompt = {1, 2, 3};
  request.tokens_max = tokens_max;
  return request;
}

std::vector<Request> mixed_requests(size_t n, uint32_t n_vocab) {
  std::mt19937 random(7);
  const auto shared = random_prompt(random, 60, n_vocab);
  std::vector<Request> requests(n);
  for (Request& request : requests) {
    request.user = std::string(1, static_cast<char>('a' + random() % 3));
    const size_t n_shared = random() % shared.size();
    request.prompt.assign(shared.begin(), shared.begin() + static_cast<ptrdiff_t>(n_shared));
    for (int32_t id : random_prompt(random, 1 + random() % 9, n_vocab))
      request.prompt.push_back(id);
    request.tokens_max = 1 + random() % 8;
    request.sampler.seed = random();
    request.sampler.temperature = 1.0F;
    request.wants_logits_hash = true;
  }
  return requests;
}

// Several threads submit and cancel at once; whoever is not cancelled gets what they get alone.
TEST(Scheduler, GivesTheSameBitsWithAnyNumberOfLanes) {
  RunSettings settings;
  settings.kernels = kernels::select_table().value();
  TestEngine plain(model::ModelPieces(model::tiny_plan()).bind().value(), settings);
  const auto requests = mixed_requests(15, plain.model().hp.n_vocab);
  std::vector<Outcome> expected(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    generate_plainly(plain, requests[i], {}, expected[i]);

  for (size_t lanes : {1, 2, 3}) {
    SCOPED_TRACE(lanes);
    Served served(lanes);
    std::vector<Outcome> outcomes(requests.size());
    std::vector<std::thread> users;
    for (size_t user = 0; user < 3; ++user)
      users.emplace_back([&, user] {
        for (size_t i = user; i < requests.size(); i += 3) {
          Request request = requests[i];
          request.on_event = outcomes[i].sink();
          const auto id = served.scheduler().submit(std::move(request));
          EXPECT_TRUE(id);
          if (i % 6 == 0) served.scheduler().cancel(*id);
        }
      });
    for (std::thread& user : users) user.join();
    ASSERT_TRUE(served.scheduler().wait_idle(minutes(1)));
    size_t n_complete = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_TRUE(outcomes[i].finished());
      if (outcomes[i].end.reason == FinishReason::kCancelled) {
        EXPECT_EQ(i % 6, 0U);
        continue;
      }
      expect_same_answer(outcomes[i], expected[i]);
      ++n_complete;
    }
    EXPECT_GE(n_complete, 12U);
    const SchedulerStatus status = served.scheduler().status();
    EXPECT_EQ(status.waiting + status.running, 0U);
    EXPECT_EQ(status.sequence_bytes, 0U);
    uint64_t finished = 0;
    for (uint64_t each : status.finished) finished += each;
    EXPECT_EQ(finished, requests.size());
    EXPECT_GT(status.prefixes.hits, 0U);
    if (lanes > 1) {
      EXPECT_GT(served.far().waits_together, 1);
    }
  }
}

TEST(Scheduler, RefusesWhatIsWrongOrTooLarge) {
  Served served(1);
  const auto refused = [&](Request request) {
    auto submitted = served.scheduler().submit(std::move(request));
    EXPECT_FALSE(submitted);
    return submitted ? Refused{} : submitted.error();
  };
  Request request = simple_request(4);
  request.prompt.clear();
  EXPECT_EQ(refused(request).reason, Refusal::kInvalid);
  for (int32_t token : {-1, static_cast<int32_t>(served.model().hp.n_vocab)}) {
    request.prompt = {1, token};
    EXPECT_EQ(refused(request).reason, Refusal::kInvalid);
  }
  request = simple_request(4);
  request.sampler.top_p = 2;
  EXPECT_EQ(refused(request).error.kind, ErrorKind::kInvalid);
  request = simple_request(4);
  request.n_top_logprobs = kTopLogprobsMax + 1;
  EXPECT_THAT(refused(request).error.message, HasSubstr("21 alternatives"));
  request = simple_request(398);
  EXPECT_EQ(refused(request).reason, Refusal::kTooLarge);
  EXPECT_EQ(refused(request).error.message,
            "prompt and answer need 401 tokens, the context has 400");
  EXPECT_EQ(refused(simple_request(SIZE_MAX)).reason, Refusal::kTooLarge);
  served.scheduler().close();
  EXPECT_EQ(refused(simple_request(4)).reason, Refusal::kClosed);
  const auto status = served.scheduler().status();
  EXPECT_EQ(status.refused[static_cast<size_t>(Refusal::kTooLarge)], 3U);
  EXPECT_EQ(status.refused[static_cast<size_t>(Refusal::kClosed)], 1U);
}

// The first request is held in its end check; what waits behind it is bounded, and can be cancelled
// at once.
TEST(Scheduler, BoundsTheQueueAndCancelsInItAtOnce) {
  SchedulerOptions options = Served::default_options();
  options.admission.running_max = 1;
  options.admission.queue_max = 3;
  options.admission.queue_per_user_max = 2;
  Served served(1, options);
  Gate gate;
  Outcome held, waiting[3];
  Request request = simple_request(2);
  request.end_check = [&](int32_t) {
    gate.wait();
    return AfterToken::kGoOn;
  };
  request.on_event = held.sink();
  ASSERT_TRUE(served.scheduler().submit(request));
  gate.wait_for_arrival();

  request = simple_request(2);
  uint64_t ids[3];
  for (int i = 0; i < 2; ++i) {
    request.on_event = waiting[i].sink();
    ids[i] = served.scheduler().submit(request).value();
  }
  EXPECT_EQ(served.scheduler().submit(request).error().reason, Refusal::kUserQueueFull);
  request.user = "somebody else";
  request.on_event = waiting[2].sink();
  ids[2] = served.scheduler().submit(request).value();
  request.user = "yet another";
  EXPECT_EQ(served.scheduler().submit(request).error().reason, Refusal::kQueueFull);
  EXPECT_EQ(served.scheduler().status().waiting, 3U);
  const auto requests = served.scheduler().requests();
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_FALSE(requests[0].is_waiting);
  EXPECT_EQ(requests[0].prompt_computed, 3U);
  EXPECT_EQ(requests[0].tokens_max, 2U);
  EXPECT_TRUE(requests[3].is_waiting);
  EXPECT_EQ(requests[3].user, "somebody else");
  EXPECT_EQ(requests[3].prompt_computed, 0U);

  EXPECT_TRUE(served.scheduler().cancel(ids[0]));
  EXPECT_TRUE(waiting[0].finished());
  EXPECT_EQ(waiting[0].end.reason, FinishReason::kCancelled);
  EXPECT_FALSE(served.scheduler().cancel(ids[0]));
  EXPECT_FALSE(held.finished());
  EXPECT_FALSE(served.scheduler().wait_idle(std::chrono::milliseconds(1)));
  gate.open();
  ASSERT_TRUE(served.scheduler().wait_idle(minutes(1)));
  EXPECT_EQ(held.tokens.size(), 2U);
  EXPECT_EQ(waiting[1].end.reason, FinishReason::kLength);
  EXPECT_EQ(waiting[2].end.reason, FinishReason::kLength);
}

TEST(Scheduler, CancelsWhatRuns) {
  Served served(1);
  Gate gate;
  Outcome outcome;
  Request request = simple_request(390);
  request.on_event = outcome.sink();
  request.end_check = [&](int32_t) {
    gate.wait();
    return AfterToken::kGoOn;
  };
  const uint64_t id = served.scheduler().submit(std::move(request)).value();
  gate.wait_for_arrival();
  EXPECT_TRUE(served.scheduler().cancel(id));
  gate.open();
  ASSERT_TRUE(outcome.wait_finished());
  EXPECT_EQ(outcome.end.reason, FinishReason::kCancelled);
  EXPECT_EQ(outcome.tokens.size(), 1U);
}

// A consumer that has seen enough may cancel from inside an event.
TEST(Scheduler, CanBeCalledFromAnEvent) {
  Served served(1);
  Outcome outcome, next;
  std::atomic<uint64_t> id{0};
  Request request = simple_request(390), second = simple_request(1);
  second.on_event = next.sink();
  request.on_event = [&, sink = outcome.sink()](const Event& event) {
    sink(event);
    while (id == 0) std::this_thread::yield();
    served.scheduler().cancel(id);
    if (!std::holds_alternative<Finished>(event)) return;
    EXPECT_TRUE(served.scheduler().submit(second));
  };
  id = served.scheduler().submit(std::move(request)).value();
  ASSERT_TRUE(outcome.wait_finished());
  EXPECT_EQ(outcome.end.reason, FinishReason::kCancelled);
  EXPECT_TRUE(outcome.tokens.empty());
  ASSERT_TRUE(next.wait_finished());
  EXPECT_EQ(next.end.reason, FinishReason::kLength);
}

// Those that run stand still until the last of those that wait has been told.
TEST(Scheduler, EndsEveryRequestWhenItIsDestroyed) {
  for (size_t lanes : {1, 2}) {
    SchedulerOptions options = Served::default_options();
    options.admission.running_max = 2;
    Served served(lanes, options);
    Gate gate;
    std::vector<Outcome> outcomes(10);
    for (Outcome& outcome : outcomes) {
      Request request = simple_request(390);
      request.end_check = [&](int32_t) {
        gate.wait();
        return AfterToken::kGoOn;
      };
      const bool is_last = &outcome == &outcomes.back();
      request.on_event = [&, is_last, sink = outcome.sink()](const Event& event) {
        sink(event);
        if (is_last) gate.open();
      };
      ASSERT_TRUE(served.scheduler().submit(std::move(request)));
    }
    gate.wait_for_arrival();
    served.destroy_scheduler();
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_TRUE(outcomes[i].finished());
      EXPECT_EQ(outcomes[i].end.reason, FinishReason::kCancelled) << i;
    }
  }
}

// What is set aside for requests is what the plan of a model's memory says.
TEST(Scheduler, CountsMemoryAsTheFitDoes) {
  Served served(1);
  const EngineOptions options;
  for (size_t context : {1, 256, 257, 4000}) {
    const MemoryNeed need = memory_need(served.model(), options, 1, context);
    EXPECT_EQ(Sequence::bytes(served.model().hp, options.kv_type, context),
              need.kv_cache + need.recurrent);
  }
  SchedulerOptions scheduler = Served::default_options();
  const uint64_t available = uint64_t{1} << 30;
  const uint64_t one = sequence_memory(served.model(), options, 1, scheduler, available).value();
  const uint64_t two = sequence_memory(served.model(), options, 2, scheduler, available).value();
  EXPECT_LT(one, available - scheduler.prefix.bytes_max);
  EXPECT_LT(two, one);
  auto too_small = sequence_memory(served.model(), options, 1, scheduler, 1000);
  ASSERT_FALSE(too_small);
  EXPECT_EQ(too_small.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(too_small.error().message, HasSubstr("have 1000"));
}

}  // namespace
}  // namespace kvasir::engine
