// The executable of a worker against a server in this process: it meets it, computes what the local
// service computes, drains when told to, comes back when it is dropped, and stays small.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "crypto/session_crypto.h"
#include "expert/fingerprint.h"
#include "expert/local_expert_service.h"
#include "net/http_server.h"
#include "net/session_driver.h"
#include "process.h"
#include "wire/coverage_messages.h"
#include "wire/server_session.h"
#include "worker/test_tickets.h"
#include "worker_model.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;
using testing::Process;
using testing::ProcessOptions;
using testing::WorkerModel;
using wire::FrameType;
using worker::TestTicket;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr auto kPatience = std::chrono::seconds(60);

wire::Fingerprint fingerprint_of(const std::string& model_hash) {
  expert::ComputeRules rules;
  rules.model_hash = model_hash;
  rules.encoding = expert::OutputEncoding::kQ8;
  const std::string hex = expert::compute_fingerprint(rules);
  wire::Fingerprint bytes;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return bytes;
}

struct Arrived {
  FrameType type;
  uint64_t ticket;
  std::vector<std::byte> body;
};

enum class Reads : uint8_t { kAll, kWithoutGivingCredit };

// The least that a backbone is. Everything may be called from the test's thread.
class TestServer {
 public:
  TestServer() {
    config_.fingerprints = {fingerprint_of(WorkerModel::bundled().manifest().model_hash())};
    config_.build = "kvasir test";
    on_loop([&] {
      auto made = net::HttpServer::listen(
          loop(), "127.0.0.1", 0, {},
          [this](const std::shared_ptr<net::HttpExchange>& exchange) { take(exchange); });
      if (!made) ADD_FAILURE() << made.error().message;
      server_ = std::move(made.value());
    });
  }
  ~TestServer() {
    on_loop([&] {
      driver_.reset();
      server_.reset();
    });
  }

  // Before a worker comes.
  wire::ServerConfig& config() { return config_; }
  void set_reads(Reads reads) { reads_ = reads; }

  std::string url() const { return "ws://127.0.0.1:" + std::to_string(server_->port()); }

  // A frame of this type, and all frames before it are forgotten. Empty after kPatience.
  std::optional<Arrived> wait_for(FrameType type) {
    std::unique_lock lock(mutex_);
    std::optional<Arrived> found;
    changed_.wait_for(lock, kPatience, [&] {
      while (!found && !arrived_.empty()) {
        if (arrived_.front().type == type) found = std::move(arrived_.front());
        arrived_.pop_front();
      }
      return found.has_value();
    });
    return found;
  }
  bool wait_for_close(wire::CloseCode code) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return closed_ && *closed_ == code; });
  }
  wire::Hello hello() {
    const std::lock_guard lock(mutex_);
    return hello_;
  }

  void send(uint64_t ticket, std::vector<std::byte> body) {
    on_loop([&] {
      ASSERT_NE(driver_, nullptr);
      ASSERT_EQ(driver_->session().send(FrameType::kCompute, ticket, std::move(body),
                                        net::EventLoop::now()),
                wire::Send::kQueued);
      driver_->pump();
    });
  }
  void drop() {
    on_loop([&] { driver_.reset(); });
  }

 private:
  net::EventLoop& loop() { return thread_.loop(); }

  void on_loop(const std::function<void()>& call) {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    loop().post([&] {
      call();
      const std::lock_guard lock(mutex);
      is_done = true;
      done.notify_one();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return is_done; });
  }

  void take(const std::shared_ptr<net::HttpExchange>& exchange) {
    if (exchange->request().path != "/swarm" || !exchange->request().wants_upgrade) {
      exchange->respond({404, {}, {}});
      return;
    }
    exchange->upgrade({}, [this](std::unique_ptr<net::MessageSocket> socket) {
      if (!socket) return;
      auto session = std::make_unique<wire::ServerSession>(
          config_, crypto::make_session_crypto(identity_), net::EventLoop::now());
      wire::ServerSession* server = session.get();
      driver_ = std::make_unique<net::SessionDriver>(
          loop(), std::move(socket), std::move(session),
          [this, server](wire::SessionEvent& event) { on_event(*server, event); });
    });
  }

  void on_event(wire::ServerSession& session, wire::SessionEvent& event) {
    const std::lock_guard lock(mutex_);
    if (auto* hello = std::get_if<wire::HelloArrived>(&event)) {
      hello_ = hello->hello;
      session.admit(++epoch_, {}, net::EventLoop::now());
    } else if (auto* frame = std::get_if<wire::FrameArrived>(&event)) {
      arrived_.push_back(
          {frame->head.type, frame->head.ticket, {frame->body.begin(), frame->body.end()}});
      if (wire::is_data(frame->head.type) && reads_ == Reads::kAll)
        session.consumed(frame->wire_bytes, net::EventLoop::now());
    } else if (auto* closed = std::get_if<wire::SessionClosed>(&event)) {
      closed_ = closed->code;
    }
    changed_.notify_all();
  }

  wire::ServerConfig config_;
  std::atomic<Reads> reads_ = Reads::kAll;
  const crypto::Identity identity_ = crypto::Identity::generate();
  net::LoopThread thread_;
  std::unique_ptr<net::HttpServer> server_;  // the loop's, like the next ones
  std::unique_ptr<net::SessionDriver> driver_;
  uint64_t epoch_ = 0;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Arrived> arrived_;
  wire::Hello hello_;
  std::optional<wire::CloseCode> closed_;
};

// From /proc: the most memory that the process had at any time.
uint64_t peak_bytes(pid_t id) {
  std::ifstream status("/proc/" + std::to_string(id) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    return std::stoull(line.substr(6)) * 1024;
  }
  return UINT64_MAX;
}

class WorkerProcess : public ::testing::Test {
 protected:
  WorkerProcess() {
    manifest_ = model_.write_manifest(folder_);
    slice_ = model_.write_slice(folder_, "part.gguf", {0, 1}, {0, 16});
  }

  std::vector<std::string> words(const std::string& url, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {KVASIR_WORKER_EXECUTABLE,
                                    "--connect",
                                    url,
                                    "--slice",
                                    slice_,
                                    "--manifest",
                                    manifest_,
                                    "--threads",
                                    "2"};
    if (std::find(more.begin(), more.end(), "--identity") == more.end())
      all.push_back("--ephemeral");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Rows that travel as this layer's experts take them, or as f32.
  TestTicket random_ticket() {
    const auto layer = static_cast<uint16_t>(random_() % 2);
    TestTicket ticket = worker::random_ticket(random_, layer, 0, 15, 1 + random_() % 6);
    ticket.format = random_() % 2 == 0 ? wire::ActivationFormat::kF32
                                       : *expert::travel_format(layers_[layer].first);
    ticket.deadline_ms = 60'000;
    return ticket;
  }
  void expect_right(const Arrived& result, const TestTicket& ticket) {
    EXPECT_EQ(worker::decoded_result(result.body, ticket), ticket.expected(local_));
  }

  const WorkerModel& model_ = WorkerModel::bundled();
  TestFolder folder_;
  std::string manifest_, slice_;
  expert::Random random_{77};
  std::vector<expert::LayerExperts> layers_ = model_.experts();
  ThreadPool pool_{1};
  expert::LocalExpertService local_{layers_, kernels::scalar(), pool_};
  ProcessOptions options_;
};

TEST_F(WorkerProcess, ComputesWhatTheBackboneWould) {
  TestServer server;
  Process process(words(server.url()), options_);
  const auto ready = server.wait_for(FrameType::kReady);
  ASSERT_TRUE(ready.has_value());
  const auto units = wire::decode_leased_units(ready->body);
  ASSERT_TRUE(units);
  EXPECT_EQ(units->size(), 4U);
  EXPECT_EQ(server.hello().fingerprints.size(), 6U);

  std::map<uint64_t, TestTicket> open;
  uint64_t number = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 3; ++i) {
      open.emplace(++number, random_ticket());
      server.send(number, open.at(number).body());
    }
    for (int i = 0; i < 3; ++i) {
      const auto result = server.wait_for(FrameType::kResult);
      ASSERT_TRUE(result.has_value());
      ASSERT_EQ(open.count(result->ticket), 1U);
      expect_right(*result, open.at(result->ticket));
      open.erase(result->ticket);
    }
  }
  // Experts and 60 MB. Sanitizers keep shadows and freed memory.
  if (!kSanitized) {
    EXPECT_LE(peak_bytes(process.id()), std::filesystem::file_size(slice_) + 60'000'000);
  }

  process.signal(SIGTERM);
  EXPECT_TRUE(server.wait_for(FrameType::kDrain).has_value());
  EXPECT_TRUE(server.wait_for_close(wire::CloseCode::kGoodbye));
  const auto ended = process.finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("connected to "));
  EXPECT_THAT(ended.err, HasSubstr("drained"));
  EXPECT_THAT(ended.err, HasSubstr("120 tickets: 120 answered"));
}

TEST_F(WorkerProcess, ComputesUnitsOfAModelFile) {
  TestServer server;
  Process process(
      {KVASIR_WORKER_EXECUTABLE, "--connect", server.url() + "/swarm", "--model", model_.path,
       "--units", "0:0-15,1:0-15", "--manifest", manifest_, "--memory", "64M", "--ephemeral"},
      options_);
  ASSERT_TRUE(server.wait_for(FrameType::kReady).has_value());
  const TestTicket ticket = random_ticket();
  server.send(1, ticket.body());
  const auto result = server.wait_for(FrameType::kResult);
  ASSERT_TRUE(result.has_value());
  expect_right(*result, ticket);
  process.signal(SIGINT);
  EXPECT_EQ(process.finish().exit_code, 0);
}

TEST_F(WorkerProcess, ComesBackWhenItIsDropped) {
  TestServer server;
  Process process(words(server.url(), {"--identity", folder_.path("worker.key")}), options_);
  ASSERT_TRUE(server.wait_for(FrameType::kReady).has_value());
  const wire::Key key = server.hello().node_key;
  for (int round = 0; round < 2; ++round) {
    server.drop();
    ASSERT_TRUE(server.wait_for(FrameType::kReady).has_value());
    EXPECT_EQ(server.hello().node_key, key);
    const TestTicket ticket = random_ticket();
    server.send(1, ticket.body());  // tickets begin again with every session
    const auto result = server.wait_for(FrameType::kResult);
    ASSERT_TRUE(result.has_value());
    expect_right(*result, ticket);
  }
  process.signal(SIGTERM);
  const auto ended = process.finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("trying again in"));

  Process again(words(server.url(), {"--identity", folder_.path("worker.key")}), options_);
  ASSERT_TRUE(server.wait_for(FrameType::kReady).has_value());
  EXPECT_EQ(server.hello().node_key, key);
}

// A worker cannot say goodbye to a backbone that takes no answers, until their deadlines pass; who
// asks twice does not want to wait.
TEST_F(WorkerProcess, EndsAtOnceWhenAskedTwice) {
  TestServer server;
  server.set_reads(Reads::kWithoutGivingCredit);
  Process process(words(server.url()), options_);
  ASSERT_TRUE(server.wait_for(FrameType::kReady).has_value());
  for (uint64_t number = 1; number <= 3; ++number) {
    TestTicket ticket = worker::random_ticket(random_, 0, 0, 15, 10);
    ticket.encoding = wire::ResultEncoding::kF32;
    ticket.format = wire::ActivationFormat::kF32;
    ticket.deadline_ms = 60'000;
    ticket.counts.assign(10, 15);  // 150 KiB of answer: the second does not fit
    ticket.experts.clear();
    for (int row = 0; row < 10; ++row)
      for (uint16_t e = 0; e < 15; ++e) ticket.experts.push_back(e);
    server.send(number, ticket.body());
  }
  ASSERT_TRUE(server.wait_for(FrameType::kResult).has_value());
  process.signal(SIGTERM);
  ASSERT_TRUE(server.wait_for(FrameType::kDrain).has_value());
  process.signal(SIGTERM);
  EXPECT_EQ(process.finish().exit_code, 128 + SIGTERM);
}

TEST_F(WorkerProcess, GivesUpWhenItIsRefusedForGood) {
  TestServer server;
  server.config().fingerprints = {fingerprint_of(std::string(64, 'b'))};
  const auto ended = testing::run_process(words(server.url()), options_);
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("fingerprint"));
}

TEST_F(WorkerProcess, DoesNotTakeAnotherServerThanItWasTold) {
  TestServer server;
  const auto ended =
      testing::run_process(words(server.url(), {"--server-key", std::string(64, 'a')}), options_);
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("identity"));
}

TEST_F(WorkerProcess, SaysWithItsExitCodeWhatWentWrong) {
  // A port that nobody listens at: one that was free a moment ago.
  std::string url;
  {
    TestServer gone;
    url = gone.url();
  }
  const auto exit_code = [&](const std::vector<std::string>& all) {
    return testing::run_process(all, options_).exit_code;
  };
  EXPECT_EQ(exit_code(words(url, {"--once"})), 3);
  EXPECT_EQ(exit_code({KVASIR_WORKER_EXECUTABLE, "--slice", slice_}), 2);
  EXPECT_EQ(exit_code({KVASIR_WORKER_EXECUTABLE, "--connect", url, "--ephemeral"}), 2);
  EXPECT_EQ(exit_code({KVASIR_WORKER_EXECUTABLE, "--connect", "http://a", "--slice", slice_}), 2);
  EXPECT_EQ(exit_code({KVASIR_WORKER_EXECUTABLE, "--memory", "-1", "--slice", slice_}), 2);
  EXPECT_EQ(exit_code(words(url, {"--memory", "1K"})), 1);
  EXPECT_EQ(exit_code({KVASIR_WORKER_EXECUTABLE, "--help"}), 0);
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    ProcessOptions with_isa;
    with_isa.environment["KVASIR_ISA"] = isa;
    if (kernels::find_table(isa)) {
      EXPECT_EQ(testing::run_process({KVASIR_WORKER_EXECUTABLE, "--self-test"}, with_isa).exit_code,
                0);
    }
  }
}

TEST_F(WorkerProcess, DrainsWhileItWaitsToDialAgain) {
  std::string url;
  {
    TestServer gone;
    url = gone.url();
  }
  Process process(words(url), options_);
  ASSERT_TRUE(
      process.wait_for([&] { return process.err().find("trying again in") != std::string::npos; }));
  process.signal(SIGTERM);
  EXPECT_EQ(process.finish().exit_code, 0);
}

}  // namespace
}  // namespace kvasir
