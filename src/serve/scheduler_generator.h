// The generator of a real model: orders become requests of the scheduler, tokens become text.
#pragma once

#include "engine/scheduler.h"
#include "serve/generator.h"
#include "text/tokenizer.h"

namespace kvasir::serve {

class SchedulerGenerator final : public Generator {
 public:
  // Both outlive this, and this outlives every generation.
  SchedulerGenerator(engine::Scheduler& scheduler, const text::Tokenizer& tokenizer)
      : scheduler_(scheduler), tokenizer_(tokenizer) {}

  Submitted submit(GenerationOrder order, GenerationSink sink) override;
  void cancel(uint64_t generation) override { scheduler_.cancel(generation); }
  engine::SchedulerStatus status() const override { return scheduler_.status(); }
  std::vector<engine::RequestStatus> requests() const override { return scheduler_.requests(); }

 private:
  engine::Scheduler& scheduler_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace kvasir::serve
