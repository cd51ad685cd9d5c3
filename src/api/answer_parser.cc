#include "api/answer_parser.h"

#include "api/json_writer.h"
#include "api/request_parts.h"
#include "api/stop_strings.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kSpace = " \n\t\r";
// {"name": "<64 bytes>", "arguments": { with room for any sane white space.
constexpr size_t kHeaderBytesMax = 512;
constexpr size_t kKeyBytesMax = 256;

size_t leading_space(std::string_view text) {
  return std::min(text.find_first_not_of(kSpace), text.size());
}
size_t without_trailing_space(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

enum class Match : uint8_t { kYes, kNo, kNeedMore };

Match match_marker(std::string_view text, std::string_view marker) {
  if (text.starts_with(marker)) return Match::kYes;
  return marker.starts_with(text) ? Match::kNeedMore : Match::kNo;
}

// Reads the usual beginning of a call's JSON, up to where the object of its arguments opens.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : left_(text) {}

  Match read(std::string& name, size_t& bytes) {
    const size_t all = left_.size();
    for (const std::string_view token : {"{", "\"name\"", ":"})
      if (const Match match = expect(token); match != Match::kYes) return match;
    if (const Match match = expect("\""); match != Match::kYes) return match;
    const size_t end = left_.find_first_of("\"\\");
    if (end == std::string_view::npos) return Match::kNeedMore;
    if (left_[end] == '\\') return Match::kNo;
    name = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    if (const Match match = expect(","); match != Match::kYes) return match;
    Match match = expect("\"arguments\"");
    if (match == Match::kNo) match = expect("\"parameters\"");
    if (match != Match::kYes) return match;
    if (match = expect(":"); match != Match::kYes) return match;
    if (match = expect("{"); match != Match::kYes) return match;
    bytes = all - left_.size() - 1;  // the brace belongs to the arguments
    return Match::kYes;
  }

 private:
  Match expect(std::string_view token) {
    left_.remove_prefix(leading_space(left_));
    const Match match = match_marker(left_, token);
    if (match == Match::kYes) left_.remove_prefix(token.size());
    return match;
  }

  std::string_view left_;
};

bool is_tool_name(std::string_view name) {
  Reading reading;
  check_tool_name(name, "name", reading);
  return !reading.error;
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}
// The same without its quotes: a piece of a string.
std::string json_string_piece(std::string_view text) {
  const std::string quoted = json_string(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

AnswerParser::AnswerParser(AnswerFormat format, CallArguments arguments,
                           std::span<const Tool> tools, std::string call_id_prefix, uint32_t choice)
    : format_(format),
      mode_(arguments),
      id_prefix_(std::move(call_id_prefix)),
      choice_(choice),
      state_(format.begins_in_reasoning ? State::kReasoning
             : format.reasoning         ? State::kStart
                                        : State::kContent) {
  // Without markers the text is handed on untouched.
  if (state_ == State::kContent) at_part_start_ = false;
  for (const Tool& tool : tools) {
    auto& types = types_[tool.name];
    auto schema = parse_json(tool.parameters);
    if (!schema || !schema->is_object()) continue;
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& [key, property] : properties->items()) {
      if (!property.is_object()) continue;
      const auto type = property.find("type");
      if (type == property.end()) continue;
      const bool text =
          *type == "string" ||
          (type->is_array() && std::find(type->begin(), type->end(), "string") != type->end());
      types[key] = text ? Type::kString : Type::kOther;
    }
  }
}

std::vector<AnswerEvent> AnswerParser::feed(std::string_view text,
                                            std::vector<TokenLogprob> logprobs) {
  buffer_ += text;
  logprobs_.insert(logprobs_.end(), std::make_move_iterator(logprobs.begin()),
                   std::make_move_iterator(logprobs.end()));
  while (step()) {
  }
  return std::exchange(events_, {});
}

std::vector<AnswerEvent> AnswerParser::finish(FinishReason reason, std::string stop) {
  if (state_ == State::kStart) {
    at_part_start_ = false;
    state_ = State::kContent;
  }
  if (state_ == State::kReasoning) {
    reasoning(buffer_);
    space_.clear();
  } else if (state_ == State::kContent) {
    content(buffer_);
  } else if (state_ != State::kCallClose) {
    // Cut off by the limit a call remains a call, so that a client sees what happened.
    if (call_begun_ && (mode_ == CallArguments::kStreamed || reason == FinishReason::kLength)) {
      commit_call();
    } else {
      raw_ += buffer_;
      no_call();
    }
  }
  buffer_.clear();
  if (!content_since_call_) space_.clear();
  if (state_ == State::kContent && (!space_.empty() || !logprobs_.empty()))
    emit(TextDelta{std::exchange(space_, {}), std::exchange(logprobs_, {})});
  if (reason == FinishReason::kStop && calls_ > 0) reason = FinishReason::kToolCalls;
  emit(Finished{reason, std::move(stop)});
  return std::exchange(events_, {});
}

bool AnswerParser::step() {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kReasoning:
      return step_reasoning();
    case State::kContent:
      return step_content();
    case State::kCallOpen:
      return step_call_open();
    case State::kHeader:
      return step_header();
    case State::kArguments:
      return step_arguments();
    case State::kArgumentsEnd:
      return step_arguments_end();
    case State::kObject:
      return step_object();
    case State::kBroken:
      return step_broken();
    case State::kFunctionName:
      return step_function_name();
    case State::kBetween:
      return step_between();
    case State::kKey:
      return step_key();
    case State::kValueStart:
      return step_value_start();
    case State::kStringValue:
      return step_string_value();
    case State::kOtherValue:
      return step_other_value();
    case State::kCallClose:
      return step_call_close();
  }
  return false;
}

bool AnswerParser::go(State next) {
  state_ = next;
  return true;
}

std::string AnswerParser::take(size_t bytes) {
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  if (state_ > State::kContent) raw_ += taken;
  return taken;
}

void AnswerParser::skip_white_space() {
  take(leading_space(buffer_));
}

bool AnswerParser::step_start() {
  const size_t space = leading_space(buffer_);
  const std::string_view text = std::string_view(buffer_).substr(space);
  switch (match_marker(text, kThink)) {
    case Match::kNeedMore:
      return false;
    case Match::kYes:
      take(space + kThink.size());
      logprobs_.clear();
      return go(State::kReasoning);
    case Match::kNo:
      break;
  }
  at_part_start_ = false;  // no thinking: the text is the model's, from its first byte
  return go(State::kContent);
}

bool AnswerParser::step_reasoning() {
  const size_t end = buffer_.find(kThinkEnd);
  if (end != std::string::npos) {
    reasoning(take(end));
    take(kThinkEnd.size());
    space_.clear();
    logprobs_.clear();
    at_part_start_ = true;
    return go(State::kContent);
  }
  const size_t safe = buffer_.size() - partial_marker(buffer_, kThinkEnd);
  if (safe > 0) reasoning(take(safe));
  return false;
}

bool AnswerParser::step_content() {
  if (buffer_.empty()) return false;
  if (!format_.tool_calls) {
    content(take(buffer_.size()));
    return false;
  }
  const size_t call = buffer_.find(kCall);
  if (call != std::string::npos) {
    content(take(call));
    state_ = State::kCallOpen;
    raw_.clear();
    call_begun_ = false;
    take(kCall.size());
    return true;
  }
  const size_t safe = buffer_.size() - partial_marker(buffer_, kCall);
  if (safe > 0) content(take(safe));
  return false;
}

bool AnswerParser::step_call_open() {
  skip_white_space();
  if (buffer_.empty()) return false;
  if (buffer_.front() == '{') return go(State::kHeader);
  switch (match_marker(buffer_, kFunction)) {
    case Match::kNeedMore:
      return false;
    case Match::kNo:
      return no_call();
    case Match::kYes:
      break;
  }
  take(kFunction.size());
  return go(State::kFunctionName);
}

bool AnswerParser::step_header() {
  std::string name;
  size_t bytes = 0;
  // Only so much is looked at, however much is there: what is decided depends on the text alone.
  Match match =
      HeaderReader(std::string_view(buffer_).substr(0, kHeaderBytesMax)).read(name, bytes);
  if (match == Match::kNeedMore && buffer_.size() < kHeaderBytesMax) return false;
  scanner_ = JsonScanner();
  scanned_ = 0;
  if (match != Match::kYes) return go(State::kObject);
  if (!is_tool_name(name)) return no_call();
  take(bytes);
  begin_call(std::move(name));
  return go(State::kArguments);
}

bool AnswerParser::step_arguments() {
  for (size_t i = 0; i < buffer_.size(); ++i) {
    const JsonScanner::Step step = scanner_.feed(buffer_[i]);
    if (step == JsonScanner::Step::kMore) continue;
    if (step == JsonScanner::Step::kDone) {
      arguments(take(i + 1));
      return go(State::kArgumentsEnd);
    }
    arguments(take(i));
    return no_call();
  }
  arguments(take(buffer_.size()));
  return false;
}

bool AnswerParser::step_arguments_end() {
  skip_white_space();
  if (buffer_.empty()) return false;
  if (buffer_.front() != '}') return no_call();
  take(1);
  end_call();
  return go(State::kCallClose);
}

bool AnswerParser::step_object() {
  for (; scanned_ < buffer_.size(); ++scanned_) {
    const JsonScanner::Step step = scanner_.feed(buffer_[scanned_]);
    if (step == JsonScanner::Step::kMore) continue;
    if (step == JsonScanner::Step::kInvalid) {
      take(scanned_);
      return no_call();
    }
    const auto object = parse_json_object(take(scanned_ + 1));
    if (!object) return no_call();
    const auto name = object->find("name");
    auto values = object->find("arguments");
    if (values == object->end()) values = object->find("parameters");
    if (name == object->end() || !name->is_string() || !is_tool_name(name->get<std::string>()))
      return no_call();
    std::string text = "{}";
    if (values != object->end()) {
      // Some models put the object into quotes.
      text = values->is_string() ? values->get<std::string>() : to_text(*values);
      if (!parse_json_object(text)) return no_call();
    }
    begin_call(name->get<std::string>());
    arguments(std::move(text));
    end_call();
    return go(State::kCallClose);
  }
  return false;
}

bool AnswerParser::step_broken() {
  const size_t end = buffer_.find(kCallEnd);
  if (end != std::string::npos) {
    arguments(take(end));
    take(kCallEnd.size());
    at_part_start_ = false;
    content_since_call_ = false;
    return go(State::kContent);
  }
  arguments(take(buffer_.size() - partial_marker(buffer_, kCallEnd)));
  return false;
}

bool AnswerParser::step_function_name() {
  const size_t end = buffer_.find('>');
  if (std::min(end, buffer_.size()) > kToolNameBytesMax) return no_call();
  if (end == std::string::npos) return false;
  const std::string name = buffer_.substr(0, end);
  if (!is_tool_name(name)) return no_call();
  take(end + 1);
  function_ = name;
  keys_.clear();
  begin_call(name);
  return go(State::kBetween);
}

bool AnswerParser::step_between() {
  skip_white_space();
  if (buffer_.empty()) return false;
  const Match end = match_marker(buffer_, kFunctionEnd);
  if (end == Match::kYes) {
    take(kFunctionEnd.size());
    arguments(keys_.empty() ? "{}" : "}");
    end_call();
    return go(State::kCallClose);
  }
  const Match parameter = match_marker(buffer_, kParameter);
  if (parameter == Match::kYes) {
    take(kParameter.size());
    return go(State::kKey);
  }
  return end == Match::kNeedMore || parameter == Match::kNeedMore ? false : no_call();
}

bool AnswerParser::step_key() {
  const size_t end = buffer_.find('>');
  if (end == 0 || std::min(end, buffer_.size()) > kKeyBytesMax) return no_call();
  if (end == std::string::npos) return false;
  key_ = buffer_.substr(0, end);
  take(end + 1);
  skip_value_ = !keys_.insert(key_).second;
  type_ = Type::kUnknown;
  if (const auto tool = types_.find(function_); tool != types_.end())
    if (const auto type = tool->second.find(key_); type != tool->second.end()) type_ = type->second;
  if (!skip_value_)
    arguments(fmt::format("{}{}: ", keys_.size() == 1 ? "{" : ", ", json_string(key_)));
  return go(State::kValueStart);
}

bool AnswerParser::step_value_start() {
  if (buffer_.empty()) return false;
  if (buffer_.front() == '\n') take(1);
  if (type_ != Type::kString || skip_value_) {
    scanned_ = 0;
    return go(State::kOtherValue);
  }
  arguments("\"");
  return go(State::kStringValue);
}

bool AnswerParser::step_string_value() {
  // The line break before the end marker is the format's, not the value's.
  const size_t end = buffer_.find(kParameterEnd);
  if (end != std::string::npos) {
    const bool line = end > 0 && buffer_[end - 1] == '\n';
    arguments(json_string_piece(take(line ? end - 1 : end)) + "\"");
    take(kParameterEnd.size() + (line ? 1 : 0));
    return go(State::kBetween);
  }
  size_t held = partial_marker(buffer_, kParameterEnd);
  if (held < buffer_.size() && buffer_[buffer_.size() - held - 1] == '\n') ++held;
  if (held < buffer_.size()) arguments(json_string_piece(take(buffer_.size() - held)));
  return false;
}

bool AnswerParser::step_other_value() {
  // scanned_: so much cannot hold the beginning of the marker.
  const size_t end = buffer_.find(kParameterEnd, scanned_);
  if (end == std::string::npos) {
    scanned_ = buffer_.size() - std::min(buffer_.size(), kParameterEnd.size() - 1);
    return false;
  }
  std::string value = take(end);
  take(kParameterEnd.size());
  if (!value.empty() && value.back() == '\n') value.pop_back();
  if (!skip_value_) {
    const auto json = parse_json(value);
    const bool as_json = json && (type_ == Type::kOther || !json->is_string());
    arguments(as_json ? to_text(*json) : json_string(value));
  }
  return go(State::kBetween);
}

bool AnswerParser::step_call_close() {
  skip_white_space();
  if (buffer_.empty()) return false;
  switch (match_marker(buffer_, kCallEnd)) {
    case Match::kNeedMore:
      return false;
    case Match::kYes:
      take(kCallEnd.size());
      break;
    case Match::kNo:
      break;
  }
  at_part_start_ = false;
  content_since_call_ = false;
  return go(State::kContent);
}

bool AnswerParser::no_call() {
  if (call_begun_ && mode_ == CallArguments::kStreamed) return go(State::kBroken);
  if (call_begun_) --calls_;
  held_.clear();
  state_ = State::kContent;
  content(std::exchange(raw_, {}));
  return true;
}

void AnswerParser::begin_call(std::string name) {
  call_begun_ = true;
  emit(ToolCallStart{fmt::format("call_{}_{}", id_prefix_, calls_), std::move(name)});
  ++calls_;
  if (mode_ == CallArguments::kStreamed) commit_call();
}

void AnswerParser::arguments(std::string fragment) {
  if (!fragment.empty()) emit(ToolCallArguments{std::move(fragment)});
}

void AnswerParser::end_call() {
  emit(ToolCallEnd{});
  commit_call();
}

void AnswerParser::commit_call() {
  space_.clear();
  logprobs_.clear();
  std::move(held_.begin(), held_.end(), std::back_inserter(events_));
  held_.clear();
}

void AnswerParser::content(std::string_view text) {
  if (at_part_start_) text.remove_prefix(leading_space(text));
  if (text.empty()) return;
  at_part_start_ = false;
  // Only before a call is white space nobody's.
  const size_t end = format_.tool_calls ? without_trailing_space(text) : text.size();
  if (end > 0) {
    content_since_call_ = true;
    emit(TextDelta{space_ + std::string(text.substr(0, end)), std::exchange(logprobs_, {})});
    space_.clear();
  }
  space_ += text.substr(end);
}

void AnswerParser::reasoning(std::string_view text) {
  if (at_part_start_) text.remove_prefix(leading_space(text));
  if (text.empty()) return;
  at_part_start_ = false;
  const size_t end = without_trailing_space(text);
  if (end > 0) {
    emit(ReasoningDelta{space_ + std::string(text.substr(0, end))});
    space_.clear();
  }
  space_ += text.substr(end);
  logprobs_.clear();
}

void AnswerParser::emit(Happening what) {
  const bool of_call = std::holds_alternative<ToolCallStart>(what) ||
                       std::holds_alternative<ToolCallArguments>(what) ||
                       std::holds_alternative<ToolCallEnd>(what);
  AnswerEvent event{choice_, std::move(what)};
  (of_call && mode_ == CallArguments::kWhole ? held_ : events_).push_back(std::move(event));
}

}  // namespace kvasir::api
