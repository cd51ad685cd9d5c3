// For *_test.cc only: a generator that says what a test wants, and a model of 256 bytes around it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "gguf/header.h"
#include "gguf/writer.h"
#include "serve/generator.h"
#include "serve/served_model.h"
#include "text/test_vocabulary.h"

namespace kvasir::serve {

// What one generation says: its pieces of text, a token each, then its end.
struct Script {
  std::vector<std::string> pieces = {};
  engine::FinishReason reason = engine::FinishReason::kStop;
  std::string stop = {};
  std::optional<Error> error = {};
  std::optional<engine::Refused> refused = {};  // instead of everything else
  size_t cached_tokens = 0;
  bool waits = false;            // behind its pieces, for finish_waiting() or cancel()
  bool waits_in_prompt = false;  // before them: half of the prompt is read
};

// Scripts are played in the order given, from within submit(), as far as they do not wait.
// Thread-safe.
class ScriptedGenerator final : public Generator {
 public:
  void add(Script script) {
    const std::lock_guard lock(mutex_);
    scripts_.push_back(std::move(script));
  }

  Submitted submit(GenerationOrder order, GenerationSink sink) override {
    const std::lock_guard lock(mutex_);
    KVASIR_CHECK(!scripts_.empty());
    Script script = std::move(scripts_.front());
    scripts_.pop_front();
    if (script.refused) return tl::unexpected(std::move(*script.refused));
    const uint64_t id = ++last_id_;
    orders.push_back(order);
    const size_t n = order.prompt.size();
    if (script.waits_in_prompt) {
      sink(engine::PromptProgress{n / 2, n});
    } else {
      sink(engine::PromptProgress{n, n});
      for (const std::string& piece : script.pieces) sink(TextPiece{piece, {}, 1});
    }
    Running running{std::move(script), std::move(sink), n};
    if (running.script.waits || running.script.waits_in_prompt)
      running_.emplace_back(id, std::move(running));
    else
      end(running, running.script.reason);
    changed_.notify_all();
    return id;
  }

  void cancel(uint64_t generation) override {
    const std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) {
      if (id != generation) continue;
      ++cancelled_;
      end(running, engine::FinishReason::kCancelled);
      std::erase_if(running_, [id = generation](const auto& r) { return r.first == id; });
      break;
    }
    changed_.notify_all();
  }

  void finish_waiting() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) end(running, running.script.reason);
    running_.clear();
  }
  bool wait_running(size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return running_.size() == n; });
  }
  size_t cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  engine::SchedulerStatus status() const override { return {}; }
  std::vector<engine::RequestStatus> requests() const override { return {}; }

  std::vector<GenerationOrder> orders;  // to be looked at when nothing is submitted

 private:
  struct Running {
    Script script;
    GenerationSink sink;
    size_t prompt_tokens = 0;
  };
  static void end(const Running& running, engine::FinishReason reason) {
    engine::Usage usage;
    usage.prompt_tokens = running.prompt_tokens;
    usage.cached_tokens = running.script.cached_tokens;
    usage.generated_tokens = running.script.pieces.size();
    running.sink(GenerationEnded{reason, running.script.stop, running.script.error, usage, ""});
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Script> scripts_;
  std::vector<std::pair<uint64_t, Running>> running_;
  uint64_t last_id_ = 0;
  size_t cancelled_ = 0;
};

// ChatML with thinking, as the Qwen models have it, in short.
inline constexpr std::string_view kThinkingTemplate =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}[{{ call.function.name }} "
    "{{ call.function.arguments | tojson }}]{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% elif open_think is not defined %}<think>\n{% endif %}{% endif %}";

inline gguf::Header test_header(std::string_view chat_template) {
  gguf::Writer writer;
  const text::TestVocabulary vocabulary = text::small_vocabulary();
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", vocabulary.pre);
  writer.add_strings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add_i32s("tokenizer.ggml.token_type", vocabulary.types);
  writer.add_strings("tokenizer.ggml.merges", vocabulary.merges);
  if (!chat_template.empty()) writer.add_string("tokenizer.chat_template", chat_template);
  static std::vector<std::vector<std::byte>> files;  // metadata are views of them
  files.push_back(writer.header());
  return gguf::parse_header(files.back()).value();
}

inline PromptMaker test_prompts(std::string_view chat_template) {
  const gguf::Header header = test_header(chat_template);
  return PromptMaker::make(text::Tokenizer::load(header.metadata).value(), header.metadata);
}

inline std::shared_ptr<ServedModel> test_model(Generator* generator,
                                               std::string_view chat_template) {
  auto model = std::make_shared<ServedModel>();
  model->names = {"test"};
  model->context = 2000;
  model->slots = 4;
  model->fingerprint = std::string(64, 'f');
  model->prompts = std::make_shared<PromptMaker>(test_prompts(chat_template));
  model->n_vocab = model->prompts->tokenizer().vocabulary_size();
  model->vocabulary = std::make_shared<SortedVocabulary>(
      model->prompts->tokenizer(), model->n_vocab, model->prompts->tokenizer().unused());
  model->generator = generator;
  return model;
}

}  // namespace kvasir::serve
