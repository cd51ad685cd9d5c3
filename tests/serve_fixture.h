// A real `kvasir serve` with the bundled model, on a port of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "process.h"
#include "raw_http.h"

namespace kvasir::testing {

inline const std::string kServedModel =
    std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-tales-q4_k_m.gguf";
inline const std::string kServedName = "kvasir-tales-q4_k_m";

// One thread; connections to it may be any thread's.
class ServeProcess {
 public:
  explicit ServeProcess(const std::vector<std::string>& flags = {},
                        const ProcessOptions& options = {}) {
    std::vector<std::string> words = {KVASIR_EXECUTABLE, "serve",     kServedModel, "--listen",
                                      "127.0.0.1:0",     "--threads", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    process_ = std::make_unique<Process>(words, options);
    const std::string_view before = "api:     http://127.0.0.1:";
    process_->wait_for([&] { return process_->err().find("\nmetrics: ") != std::string::npos; });
    const size_t at = process_->err().find(before);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no server: " << process_->err();
      return;
    }
    port_ = static_cast<uint16_t>(std::stoi(process_->err().substr(at + before.size())));
  }

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }

  RawAnswer get(const std::string& path, const std::string& headers = "") const {
    return ask(port_, "GET", path, "", headers);
  }
  RawAnswer post(const std::string& path, const Json& body, const std::string& headers = "") const {
    return ask(port_, "POST", path, body.dump(), headers);
  }
  // The value of a line of /metrics; -1 if it is not there.
  double metric(const std::string& name_and_labels) const {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find("\n" + name_and_labels + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name_and_labels.size() + 2));
  }
  // Until it has this value: false after a minute.
  bool wait_metric(const std::string& name_and_labels, double value) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (metric(name_and_labels) != value) {
      if (std::chrono::steady_clock::now() > until) return false;
      ::poll(nullptr, 0, 5);
    }
    return true;
  }

 private:
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

inline Json chat_body(const std::string& prompt, uint64_t seed, int max_tokens = 24) {
  return {{"model", kServedName},
          {"messages", Json::array({{{"role", "user"}, {"content", prompt}}})},
          {"seed", seed},
          {"max_tokens", max_tokens}};
}

inline Json streamed(Json body) {
  body["stream"] = true;
  return body;
}

inline std::string chat_text(const RawAnswer& answer) {
  const Json json = answer.json();
  if (answer.status != 200 || json.is_discarded()) return "? " + answer.body;
  return json["choices"][0]["message"]["content"].get<std::string>();
}

// Deltas of the first choice, joined.
inline std::string stream_text(const RawAnswer& answer) {
  std::string text;
  for (const Json& event : events_of(answer.body)) {
    if (event.is_discarded()) return "? " + answer.body;
    if (!event.contains("choices") || event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content") && delta["content"].is_string())
      text += delta["content"].get<std::string>();
  }
  return text;
}

}  // namespace kvasir::testing
