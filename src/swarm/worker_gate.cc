#include "swarm/worker_gate.h"

#include <chrono>
#include <filesystem>

#include "base/output_file.h"
#include "crypto/session_crypto.h"

namespace kvasir::swarm {
namespace {

// What waits for a worker's credit. More: the worker does not keep up, and what is not sent is
// better computed here than late.
constexpr size_t kWaitingBytesMax = size_t{4} << 20;
constexpr size_t kWaitingMax = 512;
constexpr net::Time kCloseWithinMs = 5'000;
constexpr size_t kClosingMax = 1024;
// Files of evidence that one process writes.
constexpr size_t kEvidenceFilesMax = 64;

wire::ServerConfig server_config(const GateOptions& options) {
  wire::ServerConfig config;
  config.role = wire::Role::kBackbone;
  config.clients = {wire::Role::kWorker};
  config.fingerprints = {options.fingerprint};
  config.rows_max = options.rows_max;
  config.build = options.build;
  config.link.seed = now_us();
  return config;
}

uint64_t milliseconds_since_1970() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

struct WorkerGate::Connection {
  std::unique_ptr<net::SessionDriver> driver;
  std::string address;
  wire::Hello hello;
  WorkerId worker = 0;  // once the session is open
  std::deque<Outgoing> waiting;
  size_t waiting_bytes = 0;

  wire::ServerSession& session() { return static_cast<wire::ServerSession&>(driver->session()); }
};

WorkerGate::WorkerGate(net::EventLoop& loop, const crypto::Identity& identity,
                       SharedDispatcher& dispatcher, GateOptions options)
    : loop_(loop),
      identity_(identity),
      dispatcher_(dispatcher),
      options_(std::move(options)),
      config_(server_config(options_)),
      closing_timer_(loop),
      is_news_posted_(std::make_shared<std::atomic<bool>>(false)),
      is_alive_(std::make_shared<std::atomic<bool>>(true)) {
  // A thread may be about to call this when the gate ends: it must not look into it.
  dispatcher_.on_news([this, &loop, posted = is_news_posted_, alive = is_alive_] {
    if (posted->exchange(true)) return;
    loop.post([this, posted, alive] {
      posted->store(false);
      if (alive->load()) on_news();
    });
  });
}

WorkerGate::~WorkerGate() {
  dispatcher_.on_news(nullptr);
  is_alive_->store(false);
}

void WorkerGate::take(const std::shared_ptr<net::HttpExchange>& exchange) {
  if (!exchange->request().wants_upgrade) {
    exchange->respond({426,
                       {{"Upgrade", "websocket"}, {"Content-Type", "text/plain"}},
                       "this address is for workers: kvasir worker --connect ws://...\n"});
    return;
  }
  if (connections_.size() >= options_.workers_max) {
    exchange->respond({503, {{"Retry-After", "30"}}, "no room for more workers\n"});
    return;
  }
  net::MessageLimits limits;
  limits.message_bytes = wire::kMessageMax;
  exchange->upgrade(limits, [this, alive = is_alive_](std::unique_ptr<net::MessageSocket> socket) {
    if (alive->load() && socket != nullptr) open(std::move(socket));
  });
}

void WorkerGate::open(std::unique_ptr<net::MessageSocket> socket) {
  const Number number = ++last_number_;
  auto connection = std::make_unique<Connection>();
  connection->address = socket->remote_address();
  auto session = std::make_unique<wire::ServerSession>(
      config_, crypto::make_session_crypto(identity_), net::EventLoop::now());
  Connection& place = *connections_.emplace(number, std::move(connection)).first->second;
  place.driver = std::make_unique<net::SessionDriver>(
      loop_, std::move(socket), std::move(session),
      [this, number](wire::SessionEvent& event) { on_event(number, event); });
}

void WorkerGate::on_event(Number number, wire::SessionEvent& event) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (const auto* hello = std::get_if<wire::HelloArrived>(&event)) {
    on_hello(connection, hello->hello);
  } else if (const auto* open = std::get_if<wire::SessionOpen>(&event)) {
    on_open(number, connection, *open);
  } else if (const auto* frame = std::get_if<wire::FrameArrived>(&event)) {
    const size_t wire_bytes = frame->wire_bytes;
    const bool is_data = wire::is_data(frame->head.type);
    if (Result<void> good = on_frame(connection, *frame); !good) {
      expel(number, wire::CloseCode::kMalformed, good.error().message);
      return;
    }
    if (is_data) connection.session().consumed(wire_bytes, net::EventLoop::now());
    flush(connection);
  } else if (std::holds_alternative<wire::SessionClosed>(event)) {
    end(number);
  }
}

void WorkerGate::on_hello(Connection& connection, const wire::Hello& hello) {
  const net::Time now = net::EventLoop::now();
  wire::ServerSession& session = connection.session();
  if (hello.token != options_.token && !options_.token.empty()) {
    session.refuse(wire::CloseCode::kToken, "the token is not the one this swarm was given",
                   "ask who runs it, and name it with --token-file");
    return;
  }
  const auto objection = dispatcher_.with(
      [&](const Dispatcher& dispatcher) { return dispatcher.objection(hello.node_key); });
  if (objection) {
    session.refuse(wire::CloseCode::kIdentity, *objection,
                   "whoever runs this swarm has the evidence");
    return;
  }
  connection.hello = hello;
  // Later logins have higher epochs, also after this process was started again.
  last_epoch_ = std::max(last_epoch_ + 1, milliseconds_since_1970());
  session.admit(last_epoch_, {}, now);
}

void WorkerGate::on_open(Number number, Connection& connection, const wire::SessionOpen& event) {
  const auto before = login_of_.find(event.peer_key);
  if (before != login_of_.end()) {
    const Number old = before->second;
    login_of_.erase(before);
    expel(old, wire::CloseCode::kSuperseded, "the same key logged in again");
  }
  login_of_[event.peer_key] = number;
  WorkerInfo info;
  info.key = event.peer_key;
  info.build = connection.hello.build;
  info.address = connection.address;
  info.capabilities = connection.hello.capabilities;
  info.rows_max = event.welcome.rows_max;
  connection.worker = dispatcher_.with(
      [&](Dispatcher& dispatcher) { return dispatcher.join(std::move(info), now_us()); });
  number_of_[connection.worker] = number;
}

Result<void> WorkerGate::on_frame(Connection& connection, const wire::FrameArrived& frame) {
  const uint64_t ticket = frame.head.ticket;
  const WorkerId worker = connection.worker;
  const TimeUs now = now_us();
  switch (frame.head.type) {
    case wire::FrameType::kResult:
      return dispatcher_.with([&](Dispatcher& dispatcher) {
        return dispatcher.on_result(worker, ticket, frame.body, now);
      });
    case wire::FrameType::kBusy: {
      KVASIR_TRY(const wire::Busy busy, wire::decode_busy(frame.body));
      dispatcher_.with(
          [&](Dispatcher& dispatcher) { dispatcher.on_busy(worker, ticket, busy, now); });
      return {};
    }
    case wire::FrameType::kFailed: {
      KVASIR_TRY(const wire::Failed failed, wire::decode_failed(frame.body));
      dispatcher_.with(
          [&](Dispatcher& dispatcher) { dispatcher.on_failed(worker, ticket, failed, now); });
      return {};
    }
    case wire::FrameType::kReady: {
      KVASIR_TRY(const auto units, wire::decode_leased_units(frame.body));
      dispatcher_.with([&](Dispatcher& dispatcher) { dispatcher.on_ready(worker, units, now); });
      return {};
    }
    case wire::FrameType::kDrain: {
      KVASIR_TRY(const auto units, wire::decode_leased_units(frame.body));
      dispatcher_.with([&](Dispatcher& dispatcher) { dispatcher.on_drain(worker, units, now); });
      return {};
    }
    default:
      // The session lets pass only what a worker may send; OFFER and the like are for later.
      return {};
  }
}

void WorkerGate::end(Number number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  std::unique_ptr<Connection> connection = std::move(found->second);
  connections_.erase(found);
  const auto login = login_of_.find(connection->hello.node_key);
  if (login != login_of_.end() && login->second == number) login_of_.erase(login);
  if (connection->worker != 0) {
    number_of_.erase(connection->worker);
    dispatcher_.with(
        [&](Dispatcher& dispatcher) { dispatcher.leave(connection->worker, now_us()); });
  }
  closing_.push_back(std::move(connection));
  if (closing_.size() > kClosingMax) closing_.pop_front();
  closing_timer_.at(net::EventLoop::now() + kCloseWithinMs, [this] { closing_.clear(); });
}

void WorkerGate::expel(Number number, wire::CloseCode code, const std::string& reason) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  net::SessionDriver& driver = *found->second->driver;
  driver.session().close(code, reason);
  driver.pump();
  end(number);
}

void WorkerGate::close_all(wire::CloseCode code, const std::string& reason) {
  while (!connections_.empty()) expel(connections_.begin()->first, code, reason);
}

void WorkerGate::on_news() {
  std::vector<WorkerId> convicted;
  std::vector<Outgoing> frames = dispatcher_.with([&](Dispatcher& dispatcher) {
    convicted = dispatcher.take_convicted();
    return dispatcher.take_outgoing();
  });
  std::vector<Connection*> touched;
  for (Outgoing& frame : frames) {
    const auto number = number_of_.find(frame.worker);
    if (number == number_of_.end()) continue;
    Connection& connection = *connections_.at(number->second);
    if (frame.type == wire::FrameType::kCancel) {
      // What was not sent yet need not be cancelled.
      const auto waiting =
          std::find_if(connection.waiting.begin(), connection.waiting.end(),
                       [&](const Outgoing& other) { return other.ticket == frame.ticket; });
      if (waiting != connection.waiting.end()) {
        connection.waiting_bytes -= waiting->body.size();
        connection.waiting.erase(waiting);
        continue;
      }
    }
    connection.waiting_bytes += frame.body.size();
    connection.waiting.push_back(std::move(frame));
    if (std::find(touched.begin(), touched.end(), &connection) == touched.end())
      touched.push_back(&connection);
  }
  for (Connection* connection : touched) flush(*connection);
  if (convicted.empty()) return;
  keep_evidence();
  for (WorkerId worker : convicted) {
    const auto number = number_of_.find(worker);
    if (number != number_of_.end())
      expel(number->second, wire::CloseCode::kIdentity, "an answer of this key was wrong");
  }
}

void WorkerGate::flush(Connection& connection) {
  wire::Session& session = connection.driver->session();
  std::vector<uint64_t> unsent;
  while (!connection.waiting.empty()) {
    Outgoing& frame = connection.waiting.front();
    const size_t bytes = frame.body.size();
    if (wire::is_data(frame.type) && session.is_open() &&
        session.credit_left() < wire::frame_bytes(bytes, true))
      break;
    const wire::Send sent =
        session.send(frame.type, frame.ticket, std::move(frame.body), net::EventLoop::now());
    if (sent != wire::Send::kQueued) unsent.push_back(frame.ticket);
    connection.waiting_bytes -= bytes;
    connection.waiting.pop_front();
  }
  while (connection.waiting_bytes > kWaitingBytesMax || connection.waiting.size() > kWaitingMax) {
    unsent.push_back(connection.waiting.back().ticket);
    connection.waiting_bytes -= connection.waiting.back().body.size();
    connection.waiting.pop_back();
  }
  connection.driver->pump();
  if (unsent.empty() || connection.worker == 0) return;
  dispatcher_.with([&](Dispatcher& dispatcher) {
    for (uint64_t ticket : unsent) dispatcher.on_unsent(connection.worker, ticket, now_us());
  });
}

// One file per conviction: a line of text for people, then the bodies.
void WorkerGate::keep_evidence() {
  const std::vector<Evidence> all =
      dispatcher_.with([](Dispatcher& dispatcher) { return dispatcher.take_evidence(); });
  if (options_.evidence_folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(options_.evidence_folder, ignored);
  for (const Evidence& evidence : all) {
    if (evidence_written_ == kEvidenceFilesMax) return;
    ++evidence_written_;
    const std::string path =
        fmt::format("{}/{}-{}.evidence", options_.evidence_folder,
                    wire::hex(evidence.worker).substr(0, 16), milliseconds_since_1970());
    auto file = OutputFile::create(path);
    if (!file) continue;
    const std::string head = fmt::format(
        "kvasir-evidence 1\nworker {}\nticket {}\npair {}\nreason {}\ncompute {}\nresult {}\n"
        "expected {}\n\n",
        wire::hex(evidence.worker), evidence.ticket, evidence.pair, evidence.reason,
        evidence.compute.size(), evidence.result.size(), evidence.expected.size() * sizeof(float));
    const bool written = file->write(bytes_of(head)) && file->write(evidence.compute) &&
                         file->write(evidence.result) &&
                         file->write(std::as_bytes(std::span(evidence.expected)));
    if (written) static_cast<void>(file->finish());
  }
}

}  // namespace kvasir::swarm
