// Requests of /v1/chat/completions: each field honoured, ignored or refused.
#include "api/test_request.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kBase = R"("model":"m","messages":[{"role":"user","content":"hi"}])";

ChatRequest parsed(const std::string& body) {
  auto request = parse_chat(body, UnknownFields::kIgnored);
  EXPECT_TRUE(request) << body << "\n" << (request ? "" : request.error().message);
  return request ? std::move(*request) : ChatRequest();
}

std::string messages(std::string_view list) {
  return R"({"model":"m","messages":)" + std::string(list) + "}";
}

TEST(ChatRequest, HasDefaultsThatSayNothing) {
  const ChatRequest request = parsed(with(kBase, ""));
  EXPECT_EQ(request.dialect, Dialect::kChat);
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.messages.size(), 1U);
  EXPECT_EQ(request.messages[0].role, Role::kUser);
  EXPECT_EQ(request.messages[0].text, "hi");
  EXPECT_FALSE(request.sampling.temperature);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_FALSE(request.top_logprobs);
  EXPECT_FALSE(request.thinking);
  EXPECT_FALSE(request.stream.on);
  EXPECT_EQ(request.choices, 1U);
  EXPECT_TRUE(request.parallel_tool_calls);
  EXPECT_TRUE(request.stops.empty());
}

TEST(ChatRequest, ReadsEveryFieldThatIsHonoured) {
  const ChatRequest request = parsed(with(kBase, R"("stream":true,
      "stream_options":{"include_usage":true},"max_tokens":12,"temperature":0.5,"top_p":0.25,
      "top_k":7,"min_p":0.125,"seed":-1,"stop":["a","\n\n"],"presence_penalty":-2,
      "frequency_penalty":2,"repeat_penalty":1.5,"logit_bias":{"5":-100,"7":1.5},"logprobs":true,
      "top_logprobs":20,"n":8,"reasoning_effort":"low","return_progress":true,
      "kvasir_details":true,"parallel_tool_calls":false,
      "response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,
        "schema":{"type":"object","properties":{"z":{},"a":{}}}}},
      "tools":[{"type":"function","function":{"name":"f","description":"d",
        "parameters":{"type":"object"}}}],
      "tool_choice":{"type":"function","function":{"name":"f"}})"));
  EXPECT_TRUE(request.stream.on && request.stream.include_usage && request.stream.return_progress);
  EXPECT_EQ(request.max_tokens, 12U);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.25);
  EXPECT_EQ(request.sampling.top_k, 7U);
  EXPECT_EQ(request.sampling.min_p, 0.125);
  EXPECT_EQ(request.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(request.sampling.presence_penalty, -2);
  EXPECT_EQ(request.sampling.frequency_penalty, 2);
  EXPECT_EQ(request.sampling.repeat_penalty, 1.5);
  ASSERT_EQ(request.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(request.sampling.logit_bias[1], (std::pair<int32_t, double>(7, 1.5)));
  EXPECT_EQ(request.stops, (std::vector<std::string>{"a", "\n\n"}));
  EXPECT_EQ(request.top_logprobs, 20U);
  EXPECT_EQ(request.choices, 8U);
  EXPECT_EQ(request.effort, Effort::kLow);
  EXPECT_EQ(request.thinking, true);
  EXPECT_TRUE(request.details);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_TRUE(request.format.strict);
  EXPECT_EQ(request.format.schema, R"({"type":"object","properties":{"z":{},"a":{}}})");
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].parameters, R"({"type":"object"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
}

TEST(ChatRequest, ReadsTheOtherFormsOfAField) {
  EXPECT_EQ(parsed(with(kBase, R"("stop":"x")")).stops, std::vector<std::string>{"x"});
  EXPECT_EQ(parsed(with(kBase, R"("max_completion_tokens":3)")).max_tokens, 3U);
  EXPECT_EQ(parsed(with(kBase, R"("logprobs":true)")).top_logprobs, 0U);
  EXPECT_EQ(parsed(with(kBase, R"("reasoning_effort":"none")")).thinking, false);
  EXPECT_EQ(parsed(with(kBase, R"("chat_template_kwargs":{"enable_thinking":false})")).thinking,
            false);
  EXPECT_EQ(parsed(with(kBase, R"("temperature":null,"stop":null,"tools":null)")).stops.size(), 0U);
  EXPECT_EQ(parsed(with(kBase, R"("tool_choice":"none")")).tool_choice.kind,
            ToolChoice::Kind::kNone);
}

TEST(ChatRequest, IgnoresWhatIsDocumentedAsWithoutEffect) {
  const std::string body = with(kBase, R"("user":"u","metadata":{"a":"b"},"store":true,
      "service_tier":"auto","prompt_cache_key":"k","safety_identifier":"s","verbosity":"low")");
  EXPECT_TRUE(parse_chat(body, UnknownFields::kRefused));
}

TEST(ChatRequest, RefusesUnknownFieldsWhereAsked) {
  for (const std::string_view more :
       {R"("strange":1)", R"("stream":true,"stream_options":{"strange":1})",
        R"("tools":[{"type":"function","function":{"name":"f","strange":1}}])"}) {
    EXPECT_TRUE(parse_chat(with(kBase, more), UnknownFields::kIgnored)) << more;
    const auto strict = parse_chat(with(kBase, more), UnknownFields::kRefused);
    ASSERT_FALSE(strict) << more;
    EXPECT_EQ(strict.error().code, Code::kUnknownField);
    EXPECT_NE(strict.error().param.find("strange"), std::string::npos);
  }
}

TEST(ChatRequest, RefusesNumbersOutOfRange) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"temperature", {"-0.1", "2.1", "1e308", "\"1\"", "true", "[]"}},
      {"top_p", {"-0.1", "1.1"}},
      {"min_p", {"-1", "1.5"}},
      {"top_k", {"-1", "2147483648", "1.5", "9007199254740993"}},
      {"max_tokens", {"0", "-1", "2147483648", "1e308", "\"7\"", "18446744073709551615"}},
      {"max_completion_tokens", {"0", "-7"}},
      {"n", {"0", "9", "-1"}},
      {"seed", {"1.5", "\"1\"", "18446744073709551615"}},
      {"presence_penalty", {"-2.1", "2.1"}},
      {"frequency_penalty", {"-2.1", "2.1"}},
      {"repeat_penalty", {"0", "-1", "101"}}};
  for (const auto& [name, values] : bad) {
    for (const std::string& value : values) {
      expect_refusals(parse_chat,
                      {{with(kBase, "\"" + name + "\":" + value), Code::kInvalidValue, name}});
    }
  }
  expect_refusals(
      parse_chat,
      {{with(kBase, R"("logprobs":true,"top_logprobs":21)"), Code::kInvalidValue, "top_logprobs"},
       {with(kBase, R"("top_logprobs":2)"), Code::kInvalidValue, "top_logprobs"},
       {with(kBase, R"("max_tokens":1,"max_completion_tokens":2)"), Code::kInvalidValue,
        "max_completion_tokens"}});
}

TEST(ChatRequest, RefusesFieldsOfWrongShape) {
  std::string stops = "\"a\"";
  for (size_t i = 0; i < kStopsMax; ++i) stops += ",\"a\"";
  expect_refusals(
      parse_chat,
      {{R"([])", Code::kInvalidJson, ""},
       {R"({"messages":[{"role":"user","content":"x"}]})", Code::kMissingField, "model"},
       {R"({"model":"m"})", Code::kMissingField, "messages"},
       {R"({"model":"m","messages":{}})", Code::kInvalidValue, "messages"},
       {with(kBase, R"("stop":"")"), Code::kInvalidValue, "stop"},
       {with(kBase, R"("stop":["a",""])"), Code::kInvalidValue, "stop[1]"},
       {with(kBase, R"("stop":["a",1])"), Code::kInvalidValue, "stop[1]"},
       {with(kBase, "\"stop\":[" + stops + "]"), Code::kInvalidValue, "stop"},
       {with(kBase, R"("stream":"yes")"), Code::kInvalidValue, "stream"},
       {with(kBase, R"("stream_options":{"include_usage":true})"), Code::kInvalidValue,
        "stream_options"},
       {with(kBase, R"("logit_bias":{"x":1})"), Code::kInvalidValue, "logit_bias"},
       {with(kBase, R"("logit_bias":{"-5":1})"), Code::kInvalidValue, "logit_bias"},
       {with(kBase, R"("logit_bias":{"5":101})"), Code::kInvalidValue, "logit_bias.5"},
       {with(kBase, R"("response_format":{"type":"grammar"})"), Code::kUnsupportedValue,
        "response_format.type"},
       {with(kBase, R"("response_format":{"type":"json_schema"})"), Code::kMissingField,
        "response_format.json_schema"},
       {with(kBase, R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})"),
        Code::kMissingField, "response_format.json_schema.schema"},
       {with(kBase, R"("reasoning_effort":"extreme")"), Code::kUnsupportedValue,
        "reasoning_effort"},
       {with(kBase, R"("functions":[])"), Code::kUnsupportedValue, "functions"},
       {with(kBase, R"("audio":{})"), Code::kUnsupportedValue, "audio"},
       {with(kBase, R"("modalities":["text","audio"])"), Code::kUnsupportedValue, "modalities"},
       {with(kBase, R"("tools":[{"type":"web_search"}])"), Code::kUnsupportedValue,
        "tools[0].type"},
       {with(kBase, R"("tools":[{"type":"function","function":{"name":"a b"}}])"),
        Code::kInvalidValue, "tools[0].function.name"},
       {with(kBase, R"("tools":[{"type":"function","function":{"name":"a"}},
             {"type":"function","function":{"name":"a"}}])"),
        Code::kInvalidValue, "tools[1]"},
       {with(kBase, R"("tool_choice":"required")"), Code::kInvalidValue, "tool_choice"},
       {with(kBase, R"("tool_choice":{"type":"function","function":{"name":"f"}})"),
        Code::kInvalidValue, "tool_choice"}});
}

TEST(ChatRequest, NamesTheMessageThatIsWrong) {
  expect_refusals(
      parse_chat,
      {{messages("[]"), Code::kInvalidMessages, "messages"},
       {messages(R"([{"role":"system","content":"x"}])"), Code::kInvalidMessages, "messages"},
       {messages(R"([{"role":"user"}])"), Code::kMissingField, "messages[0].content"},
       {messages(R"([{"content":"x"}])"), Code::kMissingField, "messages[0].role"},
       {messages(R"([{"role":"user","content":"x"},{"role":"robot","content":"x"}])"),
        Code::kInvalidMessages, "messages[1].role"},
       {messages(R"(["x"])"), Code::kInvalidValue, "messages[0]"},
       {messages(R"([{"role":"user","content":7}])"), Code::kInvalidMessages,
        "messages[0].content"},
       {messages(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
        Code::kUnsupportedValue, "messages[0].content[0].type"},
       {messages(R"([{"role":"user","content":[{"type":"text"}]}])"), Code::kMissingField,
        "messages[0].content[0].text"},
       {messages(R"([{"role":"user","content":"x"},{"role":"tool","content":"y"}])"),
        Code::kMissingField, "messages[1].tool_call_id"},
       {messages(R"([{"role":"user","content":"x"},
            {"role":"tool","content":"y","tool_call_id":"c"}])"),
        Code::kInvalidMessages, "messages[1]"},
       {messages(R"([{"role":"user","content":"x"},{"role":"assistant","tool_calls":[
            {"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]}])"),
        Code::kInvalidMessages, "messages[1].tool_calls[0].function.arguments"}});
}

TEST(ChatRequest, JoinsSystemMessagesWhereverTheyStand) {
  const ChatRequest request = parsed(messages(R"([{"role":"system","content":"one"},
      {"role":"user","content":"hi"},{"role":"developer","content":"two"},
      {"role":"assistant","content":"ho"},{"role":"system","content":[
        {"type":"text","text":"thr"},{"type":"text","text":"ee"}]},
      {"role":"user","content":"go"}])"));
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.messages[0].text, "one\n\ntwo\n\nthree");
  EXPECT_EQ(request.messages[1].text, "hi");
  EXPECT_EQ(request.messages[2].role, Role::kAssistant);
  EXPECT_EQ(request.messages[3].text, "go");
}

TEST(ChatRequest, ReadsAToolLoop) {
  const ChatRequest request = parsed(messages(R"([{"role":"user","content":"x"},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1",
        "type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"42"}])"));
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[1].reasoning, "hm");
  ASSERT_EQ(request.messages[1].tool_calls.size(), 1U);
  EXPECT_EQ(request.messages[1].tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(request.messages[2].role, Role::kTool);
  EXPECT_EQ(request.messages[2].tool_call_id, "c1");
}

TEST(ChatRequest, ContinuesOnlyAnAssistantsText) {
  EXPECT_TRUE(parsed(R"({"model":"m","continue_final_message":true,"messages":[
      {"role":"user","content":"x"},{"role":"assistant","content":"It was"}]})")
                  .continue_last_message);
  expect_refusals(parse_chat, {{with(kBase, R"("continue_final_message":true)"),
                                Code::kInvalidMessages, "messages"}});
}

TEST(ApplyTemplateRequest, NeedsNoModel) {
  EXPECT_TRUE(parse_apply_template(R"({"messages":[{"role":"user","content":"x"}]})",
                                   UnknownFields::kRefused));
  expect_refusals(parse_apply_template, {{"{}", Code::kMissingField, "messages"}});
}

}  // namespace
}  // namespace kvasir::api
