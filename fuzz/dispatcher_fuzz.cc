// A dispatcher between a hostile crowd of workers and a backbone's calls. The bytes are a script of
// events: who joins, is ready, answers what and when, which call goes on. Whatever they say, every
// call ends, its outputs are right unless somebody lied, tickets balance, and who answered honestly
// is never convicted.
#include <cstdint>
#include <set>

#include "frames_fed.h"
#include "swarm/test_dispatcher.h"

namespace {

using namespace kvasir;
using namespace kvasir::swarm;

constexpr uint8_t kKeys = 4;
constexpr size_t kCallsMax = 24, kTicketsMax = 256;

class Script {
 public:
  Script(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool ends() const { return at_ >= size_; }
  uint8_t byte() { return ends() ? uint8_t{0} : data_[at_++]; }
  std::vector<std::byte> bytes(size_t n) {
    std::vector<std::byte> all(n);
    for (std::byte& each : all) each = std::byte{byte()};
    return all;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

DispatchOptions options_of(uint8_t byte) {
  DispatchOptions options = ToySwarm::options_without_probation();
  options.mode = (byte & 1) != 0 ? DispatchMode::kAuto : DispatchMode::kAlways;
  options.encoding = static_cast<expert::OutputEncoding>((byte >> 1) % 3);
  options.verify.share = (byte & 8) != 0 ? 1 : 0;
  options.probation_tickets = byte >> 4 & 3;
  options.seed = byte;
  return options;
}

class Run {
 public:
  explicit Run(Script script) : script_(script), swarm_(options_of(script_.byte())) {}

  void run() {
    while (!script_.ends()) {
      event();
      KVASIR_CHECK(swarm_.is_balanced());
    }
    for (auto& call : calls_) {
      if (!call->done) swarm_.run_out(*call);
      check(*call);
    }
    const SwarmStatus status = swarm_.status();
    KVASIR_CHECK(status.tickets.open == 0);
    for (const WorkerStatus& worker : status.workers) KVASIR_CHECK(worker.open_pairs == 0);
    for (uint8_t key = 1; key <= kKeys; ++key)
      if (!liars_.contains(key))
        KVASIR_CHECK(!swarm_.dispatcher.objection(ToySwarm::key_of(key)).has_value());
  }

 private:
  void event() {
    ++frames_fed;
    const uint8_t kind = script_.byte();
    const auto key = static_cast<uint8_t>(1 + (kind >> 5) % kKeys);
    const WorkerId worker = workers_[key];
    Dispatcher& dispatcher = swarm_.dispatcher;
    switch (kind % 16) {
      case 0:
        if (worker == 0) workers_[key] = swarm_.join(key, 1 + script_.byte() % 8);
        break;
      case 1:
        dispatcher.leave(worker, swarm_.now);
        workers_[key] = 0;
        break;
      case 2:
      case 3: {
        std::vector<wire::LeasedUnit> units;
        for (int n = 1 + script_.byte() % 3; n > 0; --n) {
          const uint8_t layer = script_.byte(), begin = script_.byte(), end = script_.byte();
          units.push_back({{static_cast<uint16_t>(layer % 4), static_cast<uint16_t>(begin % 20),
                            static_cast<uint16_t>(end % 20)},
                           0});
        }
        if (kind % 16 == 2)
          dispatcher.on_ready(worker, units, swarm_.now);
        else
          dispatcher.on_drain(worker, units, swarm_.now);
        break;
      }
      case 4:
      case 5:
        start();
        break;
      case 6:
        swarm_.now += TimeUs{script_.byte()} * (key == 1 ? 100 : 40'000);
        break;
      case 7:
        for (auto& call : calls_)
          if (!call->done) swarm_.go(*call), check(*call);
        break;
      case 8:
      case 9:
      case 10:
        answer(kind % 16 == 9);
        break;
      case 11:
        arbitrary_answer(key);
        break;
      case 12:
        if (const ToyTicket* ticket = any_ticket())
          dispatcher.on_busy(ticket->worker, ticket->number, {}, swarm_.now);
        break;
      case 13:
        if (const ToyTicket* ticket = any_ticket()) {
          const uint8_t reason = script_.byte(), pair = script_.byte();
          dispatcher.on_failed(ticket->worker, ticket->number,
                               {static_cast<wire::FailReason>(1 + reason % 7), pair}, swarm_.now);
        }
        break;
      case 14:
        if (const ToyTicket* ticket = any_ticket())
          dispatcher.on_unsent(ticket->worker, ticket->number, swarm_.now);
        break;
      default:
        static_cast<void>(dispatcher.take_convicted());
        static_cast<void>(dispatcher.take_doubted());
        static_cast<void>(dispatcher.take_evidence());
        dispatcher.forget(script_.byte());
    }
    swarm_.collect();
    while (swarm_.tickets.size() > kTicketsMax) swarm_.tickets.pop_front();
  }

  void start() {
    if (calls_.size() >= kCallsMax) return;
    const uint8_t shape = script_.byte(), rows = 1 + shape % 4, first = script_.byte();
    std::vector<uint16_t> ids;
    for (uint8_t row = 0; row < rows; ++row) {
      const uint8_t id = script_.byte();
      ids.push_back(id % kToyExperts);
      ids.push_back((id & 0x80) != 0 ? expert::kNoExpert
                                     : static_cast<uint16_t>((id + 1) % kToyExperts));
    }
    calls_.push_back(
        std::make_unique<ToyCall>(shape >> 7, 2, std::move(ids), static_cast<float>(first % 40)));
    ToyCall& call = *calls_.back();
    call.encoding = swarm_.encoding;
    if ((shape & 0x10) != 0) call.sendable[0] = 0;
    if ((shape & 0x20) != 0) call.bad_row = 0;
    if ((shape & 0x40) != 0) call.at_hand.assign(kToyExperts, 0);
    for (size_t row = 0; row < rows; ++row) call.owners[row] = first + row;
    swarm_.start(call);
    check(call);
  }

  // One of those that left, perhaps not for the first time.
  const ToyTicket* any_ticket() {
    const uint8_t which = script_.byte();
    return swarm_.tickets.empty() ? nullptr : &swarm_.tickets[which % swarm_.tickets.size()];
  }

  void note_liar(WorkerId liar) {
    for (const auto& [key, worker] : workers_)
      if (worker == liar) liars_.insert(key);
  }

  void answer(bool lies) {
    const ToyTicket* ticket = any_ticket();
    if (ticket == nullptr) return;
    if (!lies) {
      KVASIR_CHECK(swarm_.answer(*ticket).has_value());
      return;
    }
    note_liar(ticket->worker);
    has_lied_ = true;
    KVASIR_CHECK(swarm_.lie(*ticket, script_.byte() % ticket->compute.n_pairs()).has_value());
  }

  // Any bytes as the answer to one's own ticket, somebody else's, or none.
  void arbitrary_answer(uint8_t key) {
    const ToyTicket* ticket = any_ticket();
    const uint64_t number = ticket == nullptr ? script_.byte() : ticket->number;
    const WorkerId worker = workers_[key];
    std::vector<std::byte> body;
    if (ticket != nullptr) body = swarm_.result_body(ticket->outputs());
    const uint8_t how = script_.byte();
    if (how < 128) {
      body = script_.bytes(how);
    } else {
      const size_t cut = script_.byte();
      if (cut < body.size()) body.resize(body.size() - cut);
      if (!body.empty()) body[how % body.size()] ^= std::byte{script_.byte()};
    }
    note_liar(worker);
    has_lied_ = true;
    static_cast<void>(swarm_.dispatcher.on_result(worker, number, body, swarm_.now));
  }

  void check(const ToyCall& call) {
    if (call.done && (!has_lied_ || swarm_.status().verify_share == 1))
      KVASIR_CHECK(call.is_right());
  }

  Script script_;
  ToySwarm swarm_;
  std::map<uint8_t, WorkerId> workers_;
  std::set<uint8_t> liars_;
  bool has_lied_ = false;
  std::vector<std::unique_ptr<ToyCall>> calls_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  Run(Script(data, size)).run();
  return 0;
}
