#include "engine/scheduler_queue.h"

#include <algorithm>
#include <utility>

namespace kvasir::engine {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string_view refusal_name(Refusal reason) {
  switch (reason) {
    case Refusal::kInvalid:
      return "invalid";
    case Refusal::kTooLarge:
      return "too_large";
    case Refusal::kQueueFull:
      return "queue_full";
    case Refusal::kUserQueueFull:
      return "user_queue_full";
    case Refusal::kClosed:
      return "closed";
  }
  return "unknown";
}

std::optional<Refused> AdmissionQueue::offer(Candidate candidate) {
  if (candidate.tokens > limits_.context_max)
    return Refused{Refusal::kTooLarge,
                   Error::limit("prompt and answer need {} tokens, the context has {}",
                                candidate.tokens, limits_.context_max)};
  if (candidate.bytes > limits_.memory_bytes)
    return Refused{Refusal::kTooLarge,
                   Error::limit("{} tokens need {} bytes of memory, all sequences together have {}",
                                candidate.tokens, candidate.bytes, limits_.memory_bytes)};
  if (waiting_ >= limits_.queue_max)
    return Refused{Refusal::kQueueFull,
                   Error::limit("{} requests wait, at most {} may", waiting_, limits_.queue_max)
                       .with_hint("try again in a while")};
  auto user = std::find_if(users_.begin(), users_.end(),
                           [&](const User& each) { return each.key == candidate.user; });
  const size_t of_user = user == users_.end() ? 0 : user->waiting.size();
  if (of_user >= limits_.queue_per_user_max)
    return Refused{Refusal::kUserQueueFull,
                   Error::limit("{} requests of this user wait, at most {} may", of_user,
                                limits_.queue_per_user_max)
                       .with_hint("wait for an answer before asking for more")};
  if (user == users_.end()) user = users_.insert(user, {candidate.user, {}, 0});
  user->waiting.push_back(std::move(candidate));
  ++waiting_;
  return std::nullopt;
}

std::optional<uint64_t> AdmissionQueue::admit() {
  if (running_.size() >= limits_.running_max) return std::nullopt;
  const auto fits = [&](const User& user) {
    return user.waiting.front().bytes <= limits_.memory_bytes - bytes_in_use_;
  };
  const auto may_run = [&](const User& user) {
    const auto running = running_of_.find(user.key);
    return running == running_of_.end() || running->second < limits_.running_per_user_max;
  };
  for (auto user = users_.begin(); user != users_.end(); ++user) {
    if (!may_run(*user)) continue;
    if (!fits(*user)) {
      if (user->overtaken >= limits_.overtakes_max) return std::nullopt;
      continue;
    }
    for (auto before = users_.begin(); before != user; ++before)
      if (may_run(*before)) ++before->overtaken;
    User next = std::move(*user);
    users_.erase(user);
    Candidate candidate = std::move(next.waiting.front());
    next.waiting.pop_front();
    next.overtaken = 0;
    if (!next.waiting.empty()) users_.push_back(std::move(next));
    --waiting_;
    bytes_in_use_ += candidate.bytes;
    ++running_of_[candidate.user];
    running_[candidate.id] = {std::move(candidate.user), candidate.bytes};
    return candidate.id;
  }
  return std::nullopt;
}

bool AdmissionQueue::remove(uint64_t id) {
  for (auto user = users_.begin(); user != users_.end(); ++user) {
    const auto found = std::find_if(user->waiting.begin(), user->waiting.end(),
                                    [&](const Candidate& each) { return each.id == id; });
    if (found == user->waiting.end()) continue;
    if (found == user->waiting.begin()) user->overtaken = 0;
    user->waiting.erase(found);
    if (user->waiting.empty()) users_.erase(user);
    --waiting_;
    return true;
  }
  return false;
}

void AdmissionQueue::finished(uint64_t id) {
  const auto found = running_.find(id);
  KVASIR_CHECK(found != running_.end());
  bytes_in_use_ -= found->second.bytes;
  const auto of_user = running_of_.find(found->second.user);
  if (--of_user->second == 0) running_of_.erase(of_user);
  running_.erase(found);
}

}  // namespace kvasir::engine
