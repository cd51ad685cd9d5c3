// What is counted of requests, and the text that Prometheus reads (docs/metrics.md). Every set of
// labels is bounded: routes and codes are closed lists; no model, key, node or expert is one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "swarm/status.h"

namespace kvasir::serve {

// Cumulative buckets with fixed bounds. Guarded by its owner.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
    counts_.resize(bounds_.size() + 1);
  }
  void observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  // of each bucket alone
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

// Writes families of metrics in the text format, version 0.0.4.
class MetricsText {
 public:
  enum class Type : uint8_t { kCounter, kGauge, kHistogram };
  // Once for each name, before its samples.
  void family(std::string_view name, Type type, std::string_view help);
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;
  void sample(const Labels& labels, double value);
  void sample(const Labels& labels, const Histogram& histogram);
  // family() and one sample without labels.
  void one(std::string_view name, Type type, std::string_view help, double value);
  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, const Labels& labels, std::string_view le, double value);

  std::string name_;
  std::string text_;
};

// What the server looks up when somebody asks.
struct MetricsView {
  std::string version, fingerprint;
  std::optional<engine::SchedulerStatus> scheduler;
  std::vector<engine::RequestStatus> requests;
  std::optional<swarm::SwarmStatus> swarm;
  size_t connections = 0;
  bool ready = false;
};

// Thread-safe.
class Metrics {
 public:
  Metrics();

  // route: a path of the table, or "other".
  void request(std::string_view route, int code, double seconds);
  void first_token(double seconds);  // since the request came
  void token_interval(double seconds);

  std::string text(const MetricsView& view) const;

 private:
  void write_requests(MetricsText& out) const;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  std::map<std::string, Histogram, std::less<>> durations_;
  Histogram first_token_, interval_;
};

}  // namespace kvasir::serve
