// Requests of /v1/messages and /v1/messages/count_tokens.
#include "api/test_request.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kBase =
    R"("model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}])";

ChatRequest parsed(const std::string& body) {
  auto request = parse_messages(body, UnknownFields::kRefused);
  EXPECT_TRUE(request) << body << "\n" << (request ? "" : request.error().message);
  return request ? std::move(*request) : ChatRequest();
}

std::string messages(std::string_view list) {
  return R"({"model":"m","max_tokens":9,"messages":)" + std::string(list) + "}";
}

TEST(MessagesRequest, ReadsItsOptions) {
  const ChatRequest request = parsed(with(kBase, R"("system":[{"type":"text","text":"be ",
      "cache_control":{"type":"ephemeral"}},{"type":"text","text":"brief"}],
      "stop_sequences":["END"],"temperature":1,"top_k":5,"top_p":0.5,"stream":true,
      "metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":50},
      "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
      "tool_choice":{"type":"any","disable_parallel_tool_use":true})"));
  EXPECT_EQ(request.dialect, Dialect::kMessages);
  ASSERT_EQ(request.messages.size(), 2U);
  EXPECT_EQ(request.messages[0].text, "be brief");
  EXPECT_EQ(request.max_tokens, 100U);
  EXPECT_EQ(request.stops, std::vector<std::string>{"END"});
  EXPECT_EQ(request.thinking, true);
  EXPECT_EQ(request.thinking_tokens_max, 50U);
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_FALSE(request.parallel_tool_calls);
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].parameters, R"({"type":"object"})");
  EXPECT_FALSE(request.continue_last_message);
}

TEST(MessagesRequest, TakesATurnOfResultsAndTextApart) {
  const ChatRequest request = parsed(messages(R"([{"role":"user","content":"x"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"text","text":"Looking."},
        {"type":"tool_use","id":"t1","name":"f","input":{"a":1}},
        {"type":"tool_use","id":"t2","name":"f","input":{}}]},
      {"role":"user","content":[
        {"type":"tool_result","tool_use_id":"t1","content":"one"},
        {"type":"tool_result","tool_use_id":"t2","is_error":true,
         "content":[{"type":"text","text":"two"}]},
        {"type":"text","text":"and "},{"type":"text","text":"now?"}]}])"));
  ASSERT_EQ(request.messages.size(), 5U);
  EXPECT_EQ(request.messages[1].reasoning, "hm");
  EXPECT_EQ(request.messages[1].text, "Looking.");
  EXPECT_EQ(request.messages[1].tool_calls[0].arguments, R"({"a":1})");
  EXPECT_EQ(request.messages[2].role, Role::kTool);
  EXPECT_EQ(request.messages[2].tool_call_id, "t1");
  EXPECT_EQ(request.messages[3].text, "two");
  EXPECT_EQ(request.messages[4].role, Role::kUser);
  EXPECT_EQ(request.messages[4].text, "and now?");
}

TEST(MessagesRequest, GoesOnWithAnAnswerThatTheClientBegan) {
  EXPECT_TRUE(parsed(messages(R"([{"role":"user","content":"x"},
      {"role":"assistant","content":"The answer is"}])"))
                  .continue_last_message);
}

TEST(MessagesRequest, RefusesTheRestByName) {
  expect_refusals(
      parse_messages,
      {{R"({"model":"m","messages":[{"role":"user","content":"x"}]})", Code::kMissingField,
        "max_tokens"},
       {R"({"model":"m","max_tokens":1})", Code::kMissingField, "messages"},
       {with(kBase, R"("temperature":1.5)"), Code::kInvalidValue, "temperature"},
       {with(kBase, R"("thinking":{"type":"enabled","budget_tokens":100})"), Code::kInvalidValue,
        "thinking.budget_tokens"},
       {with(kBase, R"("thinking":{"type":"deep"})"), Code::kUnsupportedValue, "thinking.type"},
       {with(kBase, R"("tools":[{"type":"bash_20250124","name":"bash"}])"), Code::kUnsupportedValue,
        "tools[0].type"},
       {with(kBase, R"("tool_choice":{"type":"tool","name":"f"})"), Code::kInvalidValue,
        "tool_choice"},
       {with(kBase, R"("mcp_servers":[{"url":"x"}])"), Code::kUnsupportedValue, "mcp_servers"},
       {with(kBase, R"("container":"c")"), Code::kUnsupportedValue, "container"},
       {messages(R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
        Code::kUnsupportedValue, "messages[0].content[0].type"},
       {messages(R"([{"role":"user","content":[{"type":"document","source":{}}]}])"),
        Code::kUnsupportedValue, "messages[0].content[0].type"},
       {messages(R"([{"role":"user","content":"x"},{"role":"assistant","content":[
            {"type":"server_tool_use"}]}])"),
        Code::kUnsupportedValue, "messages[1].content[0].type"},
       {messages(R"([{"role":"tool","content":"x"}])"), Code::kUnsupportedValue,
        "messages[0].role"},
       {messages(R"([{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"t","content":"x"}]}])"),
        Code::kInvalidMessages, "messages[0]"}});
}

TEST(CountTokensRequest, NeedsNoLimit) {
  EXPECT_TRUE(parse_count_tokens(R"({"model":"m","messages":[{"role":"user","content":"x"}]})",
                                 UnknownFields::kRefused));
}

}  // namespace
}  // namespace kvasir::api
