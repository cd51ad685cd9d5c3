#include "serve/routes.h"
#include "swarm/shared_dispatcher.h"
#include "swarm/status_json.h"

namespace kvasir::serve {
namespace {

// Numbers change with every answer: people cannot read faster.
constexpr net::Time kLookEveryMs = 1'000;
constexpr size_t kStreamsMax = 64;

std::string status_of(ServerState& state) {
  return swarm::status_json(state.dispatcher->with(
      [](const swarm::Dispatcher& dispatcher) { return dispatcher.status(swarm::now_us()); }));
}

// The loop's thread only. The server keeps it until the client goes or everything ends.
class SwarmStream : public std::enable_shared_from_this<SwarmStream> {
 public:
  SwarmStream(ServerState& state, std::shared_ptr<Visit> visit)
      : state_(state), visit_(std::move(visit)), timer_(state.loop) {}

  void begin() {
    visit_->on_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->state_.swarm_streams.erase(self);
    });
    state_.swarm_streams.insert(shared_from_this());
    visit_->begin_stream();
    look();
  }

 private:
  void look() {
    if (visit_->over()) return;
    if (state_.draining || state_.dispatcher == nullptr) {
      visit_->end_stream();
      state_.swarm_streams.erase(shared_from_this());
      return;
    }
    const net::Time now = net::EventLoop::now();
    // Who has not read the last one needs no other.
    if (visit_->unsent_bytes() == 0) {
      std::string status = status_of(state_);
      if (status != last_) {
        visit_->write("event: status\ndata: " + status + "\n\n");
        last_ = std::move(status);
        written_at_ = now;
      } else if (now - written_at_ >= state_.options.keep_alive_ms) {
        visit_->write(": no change\n\n");
        written_at_ = now;
      }
    }
    timer_.at(now + kLookEveryMs, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->look();
    });
  }

  ServerState& state_;
  const std::shared_ptr<Visit> visit_;
  net::Timer timer_;
  std::string last_;
  net::Time written_at_ = 0;
};

bool wants_stream(const net::HttpRequest& request) {
  return request.query == "stream" || request.query.starts_with("stream=") ||
         request.header("Accept").find("text/event-stream") != std::string_view::npos;
}

}  // namespace

void answer_swarm_state(ServerState& state, const std::shared_ptr<Visit>& visit) {
  if (state.dispatcher == nullptr) {
    return visit->fail(api::ApiError::of(api::Code::kUnknownUrl, "",
                                         "this server has no swarm (--swarm lets workers join)"));
  }
  if (!wants_stream(visit->request())) return visit->answer(200, status_of(state));
  if (state.swarm_streams.size() >= kStreamsMax) {
    return visit->fail(api::ApiError::of(api::Code::kQueueFull, "",
                                         "{} others watch the swarm already", kStreamsMax)
                           .retry_after(10));
  }
  std::make_shared<SwarmStream>(state, visit)->begin();
}

}  // namespace kvasir::serve
