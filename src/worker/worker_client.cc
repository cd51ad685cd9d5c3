#include "worker/worker_client.h"

#include <chrono>
#include <utility>

#include "crypto/session_crypto.h"
#include "net/websocket_client.h"

namespace kvasir::worker {
namespace {

using net::EventLoop;
using wire::CloseCode;
using wire::FrameType;

// The session does not tell when credit comes or its queue gets shorter, so that is looked for.
constexpr Time kLookAgainMs = 1;
// Open tickets end by their deadlines; most are far shorter.
constexpr Time kDrainWithinMs = 15'000;
// Writing the last message and closing the connection.
constexpr Time kGoodbyeWithinMs = 6'000;

uint64_t clock_us() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

std::string key_text(const wire::Key& key) {
  return wire::hex(key).substr(0, 16);
}

// What a person can do about ends that came without a hint.
std::string_view hint_for(CloseCode code) {
  switch (code) {
    case CloseCode::kSuperseded:
      return "another worker uses the same key: give each its own, with --identity FILE or "
             "--ephemeral";
    case CloseCode::kIdentity:
      return "an answer or a signature of this worker was wrong: check its slices with --manifest";
    default:
      return "";
  }
}

}  // namespace

WorkerClient::WorkerClient(EventLoop& loop, ClientSetup setup, const crypto::Identity& identity,
                           const expert::HeldExperts& held, TicketFunction& function,
                           Watcher watcher)
    : loop_(loop),
      setup_(std::move(setup)),
      identity_(identity),
      held_(held),
      function_(function),
      watcher_(std::move(watcher)),
      reconnect_(setup_.seed),
      redial_timer_(loop),
      core_timer_(loop),
      drain_timer_(loop) {
  setup_.session.link.seed = setup_.seed;
}
WorkerClient::~WorkerClient() = default;

std::function<void()> WorkerClient::guarded(void (WorkerClient::*method)()) {
  return [this, method, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) (this->*method)();
  };
}

void WorkerClient::start() {
  dial();
}

void WorkerClient::dial() {
  if (ended_) return;
  net::dial(loop_, setup_.url, {},
            [this, alive = std::weak_ptr<int>(alive_)](
                Result<std::unique_ptr<net::MessageSocket>> socket) {
              if (!alive.expired()) on_dialled(std::move(socket));
            });
}

void WorkerClient::on_dialled(Result<std::unique_ptr<net::MessageSocket>> socket) {
  if (ended_) return;
  if (!socket) {
    const bool hopeless = socket.error().kind == ErrorKind::kUnsupported;
    if (setup_.redial == Redial::kNever || hopeless) {
      watcher_.trouble(socket.error());
      finish(hopeless ? WorkerEnd::kRefused : WorkerEnd::kUnreachable);
    } else {
      dial_again(CloseCode::kConnection, std::move(socket.error()));
    }
    return;
  }
  auto session = std::make_unique<wire::ClientSession>(
      setup_.session, crypto::make_session_crypto(identity_), EventLoop::now());
  driver_ =
      std::make_unique<net::SessionDriver>(loop_, std::move(*socket), std::move(session),
                                           [this](wire::SessionEvent& event) { on_event(event); });
}

void WorkerClient::on_event(wire::SessionEvent& event) {
  if (const auto* open = std::get_if<wire::SessionOpen>(&event)) {
    on_open(*open);
  } else if (const auto* frame = std::get_if<wire::FrameArrived>(&event)) {
    on_frame(*frame);
  } else if (const auto* closed = std::get_if<wire::SessionClosed>(&event)) {
    on_closed(*closed);
  }
}

void WorkerClient::on_open(const wire::SessionOpen& open) {
  reconnect_.on_open(EventLoop::now());
  setup_.session.resume_id = open.welcome.resume_id;
  CoreConfig config;
  config.capabilities = setup_.session.capabilities;
  config.rows_max = open.welcome.rows_max;
  config.clock_us = clock_us;
  config.mischief = setup_.mischief;
  core_.emplace(std::move(config), held_, function_);
  watcher_.note(fmt::format("connected to {}: {} {} ({}), {} units", net::url_text(setup_.url),
                            wire::role_name(open.peer_role), key_text(open.peer_key),
                            open.welcome.build, held_.units().size()));
  if (draining_) core_->drain();
  flush();
}

void WorkerClient::on_frame(const wire::FrameArrived& frame) {
  wire::Session& session = driver_->session();
  Result<void> taken;
  switch (frame.head.type) {
    case FrameType::kRestarting: {
      auto restarting = wire::decode_restarting(frame.body);
      if (restarting)
        reconnect_.on_restarting(*restarting);
      else
        taken = std::move(restarting.error());
      break;
    }
    case FrameType::kPeerHere:
    case FrameType::kPeerGone:
      break;  // who else is there makes no difference
    default:
      taken = core_->on_frame(frame, session.credit_left(), EventLoop::now());
  }
  if (taken) {
    flush();
    return;
  }
  session.close(CloseCode::kMalformed, taken.error().message);
  on_closed(*session.closed());
}

void WorkerClient::on_closed(const wire::SessionClosed& closed) {
  const wire::SessionClosed why = closed;  // of the session that goes now
  if (core_) stats_ += core_->stats();
  core_.reset();
  unsent_.reset();
  stalled_at_credit_.reset();
  core_timer_.cancel();
  driver_.reset();
  if (ended_) return;
  Error problem = Error::io("{}: {}: {}", net::url_text(setup_.url),
                            wire::close_code_name(why.code), why.reason)
                      .with_hint(why.hint.empty() ? std::string(hint_for(why.code)) : why.hint);
  if (draining_) {
    finish(WorkerEnd::kDrained);
  } else if (setup_.redial == Redial::kNever) {
    watcher_.trouble(problem);
    finish(!wire::may_retry(why.code)        ? WorkerEnd::kRefused
           : why.code == CloseCode::kGoodbye ? WorkerEnd::kDrained
                                             : WorkerEnd::kLost);
  } else {
    dial_again(why.code, std::move(problem));
  }
}

void WorkerClient::dial_again(CloseCode code, Error problem) {
  const Time now = EventLoop::now();
  const std::optional<Time> at = reconnect_.on_closed(code, now);
  if (!at) {
    watcher_.trouble(problem);
    finish(WorkerEnd::kRefused);
    return;
  }
  problem.message += fmt::format("; trying again in {:.1f} s",
                                 static_cast<double>(*at > now ? *at - now : 0) / 1000);
  watcher_.trouble(problem);
  redial_timer_.at(*at, guarded(&WorkerClient::dial));
}

void WorkerClient::work() {
  work_posted_ = false;
  if (!core_) return;
  core_->run_next(EventLoop::now());
  flush();
  driver_->pump();
}

void WorkerClient::flush() {
  if (!core_) return;
  wire::Session& session = driver_->session();
  if (const size_t bytes = core_->take_consumed_bytes(); bytes > 0)
    session.consumed(bytes, EventLoop::now());
  bool room = !unsent_ || send(*std::exchange(unsent_, std::nullopt));
  while (room) {
    std::optional<OutgoingFrame> frame = core_->next_frame(session.credit_left());
    if (!frame) break;
    room = send(std::move(*frame));
  }
  note_stall();
  plan();
}

// False if the session has no room; the frame is kept.
bool WorkerClient::send(OutgoingFrame frame) {
  wire::Session& session = driver_->session();
  const Time now = EventLoop::now();
  // Long bodies are not copied: the core gives an answer only if there is credit for it.
  std::vector<std::byte> copy;
  if (!wire::is_data(frame.type)) copy = frame.body;
  const wire::Send sent = session.send(frame.type, frame.ticket, std::move(frame.body), now);
  if (sent == wire::Send::kFull) {
    frame.body = std::move(copy);
    unsent_ = std::move(frame);
    return false;
  }
  if (frame.consumed_bytes > 0) session.consumed(frame.consumed_bytes, now);
  return true;
}

// A session measures how long it lacks credit from the first frame that it could not send.
void WorkerClient::note_stall() {
  wire::Session& session = driver_->session();
  const uint64_t credit = session.credit_left();
  const OutgoingFrame* blocked = core_->blocked(credit);
  if (blocked == nullptr) {
    stalled_at_credit_.reset();
  } else if (stalled_at_credit_ != credit) {
    stalled_at_credit_ = credit;
    const wire::Send sent =
        session.send(blocked->type, blocked->ticket, blocked->body, EventLoop::now());
    KVASIR_CHECK(sent != wire::Send::kQueued);
  }
}

void WorkerClient::plan() {
  if (core_->has_work() && !work_posted_) {
    work_posted_ = true;
    loop_.post(guarded(&WorkerClient::work));
  }
  const bool waits = stalled_at_credit_.has_value() || unsent_.has_value();
  const Time at = waits ? EventLoop::now() + kLookAgainMs : core_->wake_at();
  if (at == net::kNever) {
    core_timer_.cancel();
    return;
  }
  core_timer_.at(at, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || !core_) return;
    core_->on_timer(EventLoop::now());
    flush();
    driver_->pump();
  });
}

void WorkerClient::drain() {
  if (draining_ || ended_) return;
  draining_ = true;
  redial_timer_.cancel();
  if (!core_) {  // nobody waits for anything
    driver_.reset();
    finish(WorkerEnd::kDrained);
    return;
  }
  core_->drain();
  drain_until_ = EventLoop::now() + kDrainWithinMs;
  flush();
  driver_->pump();
  check_drained();
}

void WorkerClient::check_drained() {
  if (ended_ || !core_) return;
  wire::Session& session = driver_->session();
  const bool drained = core_->is_drained() && !unsent_ && !session.has_queued();
  if (!drained && EventLoop::now() < drain_until_) {
    drain_timer_.at(EventLoop::now() + kLookAgainMs, guarded(&WorkerClient::check_drained));
    return;
  }
  stats_ += core_->stats();
  core_.reset();
  core_timer_.cancel();
  session.close(CloseCode::kGoodbye, drained ? "drained" : "stopped");
  driver_->pump();
  drain_until_ = EventLoop::now() + kGoodbyeWithinMs;
  check_gone();
}

// What was written last must have left before the process may end.
void WorkerClient::check_gone() {
  if (ended_) return;
  if (driver_ && !driver_->is_gone() && EventLoop::now() < drain_until_) {
    drain_timer_.at(EventLoop::now() + kLookAgainMs, guarded(&WorkerClient::check_gone));
    return;
  }
  driver_.reset();
  finish(WorkerEnd::kDrained);
}

void WorkerClient::finish(WorkerEnd end) {
  if (std::exchange(ended_, true)) return;
  watcher_.end(end);
}

CoreStats WorkerClient::stats() const {
  CoreStats all = stats_;
  if (core_) all += core_->stats();
  return all;
}

}  // namespace kvasir::worker
