// What a model wrote, as reasoning, content and tool calls. Streaming and pure: text in any pieces,
// events out; how the text was cut changes nothing but where deltas are cut.
//
//   answer    := [ "<think>" reasoning "</think>" ] ( content | call )*
//   call      := "<tool_call>" ( json | function ) "</tool_call>"            (Qwen3, Hermes)
//   json      := {"name": "...", "arguments": {...}}
//   function  := "<function=" name ">" parameter* "</function>"              (Qwen3-Coder, Qwen3.5)
//   parameter := "<parameter=" key ">" value "</parameter>"
//
// White space between these is nobody's. What looks like a call and is none is content, as the
// model wrote it.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/json_scanner.h"

namespace kvasir::api {

struct AnswerFormat {
  // The model may think: "<think>" at the very beginning is its marker.
  bool reasoning = false;
  // The prompt has opened the thinking part already; implies `reasoning`.
  bool begins_in_reasoning = false;
  bool tool_calls = false;
};

enum class CallArguments : uint8_t {
  // Fragments while they are generated. If the JSON breaks later, its rest is handed on as it is
  // and the call never ends: clients check what they get.
  kStreamed,
  // A call comes when it is complete and valid; else it is content.
  kWhole,
};

// One choice of one answer. One thread.
class AnswerParser {
 public:
  // tools: types of parameters for the function form. call_id_prefix: letters and digits, another
  // one for each choice; calls are "call_<prefix>_<number>".
  AnswerParser(AnswerFormat format, CallArguments arguments, std::span<const Tool> tools,
               std::string call_id_prefix, uint32_t choice = 0);

  // text: whole characters. logprobs: of the tokens the text came from; they go with the content
  // that comes of them.
  std::vector<AnswerEvent> feed(std::string_view text, std::vector<TokenLogprob> logprobs = {});
  // The answer ends here. Says Finished; a stop after tool calls is kToolCalls.
  std::vector<AnswerEvent> finish(FinishReason reason, std::string stop = {});

  // Tool calls begun.
  uint32_t calls() const { return calls_; }

 private:
  enum class State : uint8_t {
    kStart,  // perhaps "<think>"
    kReasoning,
    kContent,
    kCallOpen,      // behind "<tool_call>"
    kHeader,        // {"name": ..., "arguments":
    kArguments,     // inside the object of arguments
    kArgumentsEnd,  // before the last brace
    kObject,        // a call in another order, as a whole
    kBroken,        // JSON that broke after its beginning was handed on
    kFunctionName,
    kBetween,  // parameters
    kKey,
    kValueStart,
    kStringValue,  // handed on while it comes
    kOtherValue,   // as a whole: number, object, ...
    kCallClose,    // perhaps "</tool_call>"
  };
  enum class Type : uint8_t { kString, kOther, kUnknown };

  bool step();
  bool step_start();
  bool step_reasoning();
  bool step_content();
  bool step_call_open();
  bool step_header();
  bool step_arguments();
  bool step_arguments_end();
  bool step_object();
  bool step_broken();
  bool step_function_name();
  bool step_between();
  bool step_key();
  bool step_value_start();
  bool step_string_value();
  bool step_other_value();
  bool step_call_close();

  bool go(State next);
  // The first `bytes` of buffer_, which are done with. Inside a call they are kept until it is
  // certain.
  std::string take(size_t bytes);
  void skip_white_space();
  // What a begun call's text turned out to be instead. Returns true: there is progress.
  bool no_call();
  void begin_call(std::string name);
  void arguments(std::string fragment);
  void end_call();
  // What was held back until the call was certain.
  void commit_call();

  void content(std::string_view text);
  void reasoning(std::string_view text);
  void emit(Happening what);

  AnswerFormat format_;
  CallArguments mode_;
  std::map<std::string, std::map<std::string, Type, std::less<>>, std::less<>> types_;
  std::string id_prefix_;
  uint32_t choice_;

  State state_;
  std::string buffer_;         // not yet understood
  std::string raw_;            // of the call that is being read, from its marker on
  std::string space_;          // at the end of content or reasoning: dropped if a marker follows
  bool at_part_start_ = true;  // white space here is dropped
  bool content_since_call_ = true;
  std::vector<TokenLogprob> logprobs_;
  std::vector<AnswerEvent> events_;
  std::vector<AnswerEvent> held_;  // kWhole: of the call that is being read

  uint32_t calls_ = 0;
  bool call_begun_ = false;
  JsonScanner scanner_;
  size_t scanned_ = 0;  // kObject: bytes of buffer_ that the scanner has seen
  std::string function_;
  std::string key_;
  std::set<std::string> keys_;  // written so far
  Type type_ = Type::kUnknown;
  bool skip_value_ = false;  // a parameter given twice: the first counts
};

}  // namespace kvasir::api
