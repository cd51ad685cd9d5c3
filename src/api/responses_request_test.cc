// Requests of /v1/responses.
#include "api/test_request.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kBase = R"("model":"m","input":"hi")";

ChatRequest parsed(const std::string& body) {
  auto request = parse_responses(body, UnknownFields::kRefused);
  EXPECT_TRUE(request) << body << "\n" << (request ? "" : request.error().message);
  return request ? std::move(*request) : ChatRequest();
}

std::string input(std::string_view items) {
  return R"({"model":"m","input":)" + std::string(items) + "}";
}

TEST(ResponsesRequest, TakesAStringAndInstructions) {
  const ChatRequest request = parsed(with(kBase, R"("instructions":"be brief",
      "max_output_tokens":5,"store":true,"metadata":{"k":"v"},"reasoning":{"effort":"high"},
      "text":{"format":{"type":"json_object"}},"include":["reasoning.encrypted_content"],
      "truncation":"disabled","background":false,"previous_response_id":null,"stream":true)"));
  EXPECT_EQ(request.dialect, Dialect::kResponses);
  ASSERT_EQ(request.messages.size(), 2U);
  EXPECT_EQ(request.messages[0].text, "be brief");
  EXPECT_EQ(request.messages[1].text, "hi");
  EXPECT_EQ(request.max_tokens, 5U);
  EXPECT_EQ(request.effort, Effort::kHigh);
  EXPECT_EQ(request.format.kind, OutputFormat::Kind::kJsonObject);
  EXPECT_EQ(request.metadata, R"({"k":"v"})");
}

TEST(ResponsesRequest, GathersTheItemsOfOneTurn) {
  const ChatRequest request = parsed(input(R"([
      {"role":"developer","content":"sys"},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"weather?"}]},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[
        {"type":"reasoning_text","text":"hm"}]},
      {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[
        {"type":"output_text","text":"Let me look.","annotations":[]}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":"{\"a\":1}"},
      {"type":"function_call_output","call_id":"c1","output":"sun"},
      {"type":"function_call_output","call_id":"c2","output":[
        {"type":"input_text","text":"rain"}]},
      {"type":"reasoning","summary":[{"type":"summary_text","text":"so"}]}])"));
  ASSERT_EQ(request.messages.size(), 6U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  const Message& turn = request.messages[2];
  EXPECT_EQ(turn.role, Role::kAssistant);
  EXPECT_EQ(turn.reasoning, "hm");
  EXPECT_EQ(turn.text, "Let me look.");
  ASSERT_EQ(turn.tool_calls.size(), 2U);
  EXPECT_EQ(turn.tool_calls[1].id, "c2");
  EXPECT_EQ(request.messages[4].text, "rain");
  EXPECT_EQ(request.messages[5].reasoning, "so");
}

TEST(ResponsesRequest, HasToolsInItsOwnShape) {
  const ChatRequest request = parsed(with(kBase, R"("tools":[{"type":"function","name":"f",
      "parameters":{"type":"object"},"strict":true}],
      "tool_choice":{"type":"function","name":"f"})"));
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_TRUE(request.tools[0].strict);
  EXPECT_EQ(request.tool_choice.name, "f");
}

TEST(ResponsesRequest, RefusesWhatNeedsState) {
  expect_refusals(
      parse_responses,
      {{with(kBase, R"("previous_response_id":"resp_1")"), Code::kUnsupportedValue,
        "previous_response_id"},
       {with(kBase, R"("conversation":"conv_1")"), Code::kUnsupportedValue, "conversation"},
       {with(kBase, R"("conversation":{"id":"x"})"), Code::kUnsupportedValue, "conversation"},
       {with(kBase, R"("background":true)"), Code::kUnsupportedValue, "background"},
       {with(kBase, R"("prompt":{"id":"x"})"), Code::kUnsupportedValue, "prompt"},
       {with(kBase, R"("truncation":"auto")"), Code::kUnsupportedValue, "truncation"},
       {with(kBase, R"("include":["file_search_call.results"])"), Code::kUnsupportedValue,
        "include"},
       {with(kBase, R"("tools":[{"type":"web_search"}])"), Code::kUnsupportedValue,
        "tools[0].type"},
       {R"({"model":"m"})", Code::kMissingField, "input"},
       {input("[]"), Code::kInvalidMessages, "input"},
       {input(R"([{"type":"item_reference","id":"x"}])"), Code::kUnsupportedValue, "input[0].type"},
       {input(R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])"),
        Code::kUnsupportedValue, "input[0].content[0].type"},
       {input(R"([{"type":"function_call_output","call_id":"c","output":"x"}])"),
        Code::kInvalidMessages, "input[0]"},
       {input(R"([{"role":"user"}])"), Code::kMissingField, "input[0].content"},
       {with(kBase, R"("temperature":3)"), Code::kInvalidValue, "temperature"},
       {with(kBase, R"("max_output_tokens":0)"), Code::kInvalidValue, "max_output_tokens"}});
}

}  // namespace
}  // namespace kvasir::api
