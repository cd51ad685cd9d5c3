// A worker's state machine fed from a script of any bytes. It never stops the program, answers
// every COMPUTE exactly once unless it was cancelled, keeps to its bounds and gives back every byte
// of credit.
//
//   script := step*
//   step   := 0 length u16 body        a COMPUTE with the next ticket
//           | 1 ticket u8 length u16 body   a COMPUTE with any ticket
//           | 2 ticket u8              a CANCEL
//           | 3 type u8 length u16 body     a frame of any type
//           | 4 u16                    time passes, in ms
//           | 5                        the next ticket is computed
//           | 6 credit u24             what can be sent is sent
//           | 7                        it is told to drain
// Any other first byte counts modulo 8.
#include <algorithm>
#include <cstdint>
#include <map>

#include "frames_fed.h"
#include "wire_session_fuzz.h"
#include "worker/test_experts.h"
#include "worker/worker_core.h"

namespace {

using namespace kvasir;
using namespace kvasir::worker;
using wire::FrameType;

// Made once: random experts take longer than a run.
struct Subject {
  expert::Random random{1};
  TestExperts experts{random};
  ThreadPool pool{1};
  TicketFunction function{kernels::scalar(), pool, experts.held()};
};

CoreConfig fuzz_config(const wire::Time& now) {
  CoreConfig config;
  config.capabilities = {0b111, 0b011, 16, 0};
  config.rows_max = 16;
  config.tickets_max = 4;
  config.queue_bytes_max = 32 * 1024;
  config.answer_bytes_max = 64 * 1024;
  config.clock_us = [&now] { return now * 1000; };
  return config;
}

class Run {
 public:
  explicit Run(Subject& subject)
      : core_(fuzz_config(now_), subject.experts.held(), subject.function) {}

  void run(ByteSpan bytes) {
    for (wire::Script script(bytes); !script.empty();) step(script);
    // Whatever it was told, it comes to an end.
    now_ += wire::kDeadlineMsMax;
    while (core_.has_work()) core_.run_next(now_);
    core_.on_timer(now_);
    send(UINT32_MAX);
    KVASIR_CHECK(consumed_bytes_ == sent_bytes_ && core_.wake_at() == wire::kNever);
    KVASIR_CHECK(core_.stats().tickets == answered_ + core_.stats().cancelled);
    core_.drain();
    send(0);
    KVASIR_CHECK(core_.is_drained());
  }

 private:
  void step(wire::Script& script) {
    switch (script.u8() % 8) {
      case 0:
        arrive(FrameType::kCompute, ++ticket_, script.take(script.u16()));
        break;
      case 1: {
        const uint64_t ticket = script.u8();
        arrive(FrameType::kCompute, ticket, script.take(script.u16()));
        break;
      }
      case 2:
        arrive(FrameType::kCancel, script.u8(), {});
        break;
      case 3: {
        const auto type = static_cast<FrameType>(script.u8());
        arrive(type, 0, script.take(script.u16()));
        break;
      }
      case 4:
        now_ += script.u16();
        if (now_ >= core_.wake_at()) core_.on_timer(now_);
        break;
      case 5:
        core_.run_next(now_);
        break;
      case 6:
        send(script.u16() + uint64_t{script.u8()} * 65'536);
        break;
      case 7:
        core_.drain();
        break;
    }
  }

  void arrive(FrameType type, uint64_t ticket, ByteSpan body) {
    ++frames_fed;
    wire::FrameArrived frame;
    frame.head.type = type;
    frame.head.ticket = ticket;
    frame.body = body;
    frame.wire_bytes = wire::frame_bytes(body.size(), true);
    if (type == FrameType::kCompute) sent_bytes_ += frame.wire_bytes;
    const auto taken = core_.on_frame(frame, credit_, now_);
    KVASIR_CHECK(taken || (taken.error().kind == ErrorKind::kCorrupt &&
                           !taken.error().message.empty() && type != FrameType::kCompute));
  }

  void send(uint64_t credit) {
    credit_ = credit;
    consumed_bytes_ += core_.take_consumed_bytes();
    while (auto frame = core_.next_frame(credit_)) {
      KVASIR_CHECK(frame->body.size() <= wire::body_max(frame->type));
      consumed_bytes_ += frame->consumed_bytes;
      if (frame->type == FrameType::kResult) {
        KVASIR_CHECK(wire::frame_bytes(frame->body.size(), true) <= credit_);
        credit_ -= wire::frame_bytes(frame->body.size(), true);
        ++answered_;
      } else if (frame->type == FrameType::kFailed) {
        KVASIR_CHECK(wire::decode_failed(frame->body).has_value());
        ++answered_;
      } else if (frame->type == FrameType::kBusy) {
        KVASIR_CHECK(wire::decode_busy(frame->body).has_value());
        ++answered_;
      } else {
        KVASIR_CHECK(wire::decode_leased_units(frame->body).has_value());
      }
    }
  }

  wire::Time now_ = 0;
  WorkerCore core_;
  uint64_t ticket_ = 0, credit_ = wire::kCreditStart;
  size_t sent_bytes_ = 0, consumed_bytes_ = 0, answered_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Subject subject;
  Run(subject).run(std::as_bytes(std::span(data, size)));
  return 0;
}
