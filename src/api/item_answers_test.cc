// Answers of /v1/responses and /v1/messages: order of events, and that streamed and whole answers
// say the same.
#include <map>

#include "api/test_events.h"

namespace kvasir::api {
namespace {

using nlohmann::json;

const AnswerHead kHead{"42", 1700000000, "m", "fp"};
constexpr Usage kUsage{10, 5, 4, 2};

const std::vector<AnswerEvent> kEverything = {{0, ReasoningDelta{"hm"}},
                                              {0, TextDelta{"Hel", {}}},
                                              {0, TextDelta{"lo", {}}},
                                              {0, ToolCallStart{"c1", "f"}},
                                              {0, ToolCallArguments{"{\"a\""}},
                                              {0, ToolCallArguments{":1}"}},
                                              {0, ToolCallEnd{}},
                                              {0, Finished{FinishReason::kToolCalls, ""}}};

std::vector<std::string> names(const std::vector<SseEvent>& events) {
  std::vector<std::string> all;
  for (const SseEvent& event : events) {
    EXPECT_EQ(json::parse(event.data)["type"], event.name);
    all.push_back(event.name);
  }
  return all;
}

TEST(ResponsesStream, SendsItsEventsInOrder) {
  const auto events = read_events(run(*responses_stream({}, kHead), kEverything, kUsage));
  EXPECT_EQ(names(events), (std::vector<std::string>{"response.created",
                                                     "response.in_progress",  //
                                                     "response.output_item.added",
                                                     "response.content_part.added",  //
                                                     "response.reasoning_text.delta",
                                                     "response.reasoning_text.done",  //
                                                     "response.content_part.done",
                                                     "response.output_item.done",  //
                                                     "response.output_item.added",
                                                     "response.content_part.added",  //
                                                     "response.output_text.delta",
                                                     "response.output_text.delta",  //
                                                     "response.output_text.done",
                                                     "response.content_part.done",  //
                                                     "response.output_item.done",
                                                     "response.output_item.added",              //
                                                     "response.function_call_arguments.delta",  //
                                                     "response.function_call_arguments.delta",  //
                                                     "response.function_call_arguments.done",
                                                     "response.output_item.done",  //
                                                     "response.completed"}));
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(json::parse(events[i].data)["sequence_number"], i);
}

TEST(ResponsesStream, DescribesItsItems) {
  const auto events = read_events(run(*responses_stream({}, kHead), kEverything, kUsage));
  EXPECT_EQ(json::parse(events[8].data), json::parse(R"({"type":"response.output_item.added",
      "sequence_number":8,"output_index":1,"item":{"id":"msg_42_1","type":"message",
      "status":"in_progress","role":"assistant","content":[]}})"));
  EXPECT_EQ(json::parse(events[10].data), json::parse(R"({"type":"response.output_text.delta",
      "sequence_number":10,"item_id":"msg_42_1","output_index":1,"content_index":0,
      "delta":"Hel","logprobs":[]})"));
  EXPECT_EQ(json::parse(events[18].data),
            json::parse(R"({"type":"response.function_call_arguments.done","sequence_number":18,
      "item_id":"fc_42_2","output_index":2,"name":"f","arguments":"{\"a\":1}"})"));
}

TEST(ResponsesAnswer, RepeatsTheSettings) {
  ChatRequest request;
  request.dialect = Dialect::kResponses;
  request.instructions = "be brief";
  request.max_tokens = 7;
  request.sampling.temperature = 0.5;
  request.tools = {{"f", "d", R"({"type":"object"})", true}};
  request.metadata = R"({"k":"v"})";
  const json answer = json::parse(responses_answer(
      request, kHead,
      collect({{0, TextDelta{"x", {}}}, {0, Finished{FinishReason::kLength, ""}}}, 1), kUsage));
  EXPECT_EQ(answer, json::parse(R"({"id":"resp_42","object":"response","created_at":1700000000,
      "status":"incomplete","background":false,"error":null,
      "incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[{"id":"msg_42_0",
      "type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text",
      "text":"x","annotations":[],"logprobs":[]}]}],"instructions":"be brief",
      "max_output_tokens":7,"parallel_tool_calls":true,"previous_response_id":null,
      "reasoning":{"effort":null,"summary":null},"store":false,"temperature":0.5,
      "text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"function",
      "name":"f","description":"d","parameters":{"type":"object"},"strict":true}],"top_p":null,
      "truncation":"disabled","metadata":{"k":"v"},"usage":{"input_tokens":10,
      "input_tokens_details":{"cached_tokens":4},"output_tokens":5,
      "output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}})"));
}

TEST(ResponsesStream, JoinsToTheWholeAnswerByteForByte) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const auto events = random_answer(random, 1, With::kEverything);
    ChatRequest request;
    request.dialect = Dialect::kResponses;
    const json whole = json::parse(responses_answer(request, kHead, collect(events, 1), kUsage));
    std::map<std::string, std::string> joined;  // by item
    json done = json::array();
    json last;
    for (const SseEvent& event :
         read_events(run(*responses_stream(request, kHead), events, kUsage))) {
      const json data = json::parse(event.data);
      if (event.name.ends_with(".delta"))
        joined[data["item_id"]] += data["delta"].get<std::string>();
      if (event.name == "response.output_item.done") done.push_back(data["item"]);
      last = data;
    }
    EXPECT_EQ(last["response"], whole);
    EXPECT_EQ(done, whole["output"]);
    for (const json& item : whole["output"]) {
      EXPECT_EQ(joined[item["id"]],
                item["type"] == "function_call" ? item["arguments"] : item["content"][0]["text"]);
    }
  }
}

TEST(ResponsesStream, NamesAnErrorInItsOwnWay) {
  const auto events =
      read_events(responses_stream({}, kHead)->fail(ApiError::of(Code::kInternal, "", "x"), "r"));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(json::parse(events[0].data), json::parse(R"({"type":"error","sequence_number":0,
      "code":"internal","message":"x","param":null})"));
}

TEST(MessagesStream, SendsItsEventsInOrder) {
  const auto events = read_events(run(*messages_stream({}, kHead), kEverything, kUsage));
  EXPECT_EQ(names(events), (std::vector<std::string>{
                               "message_start", "content_block_start", "ping",
                               "content_block_delta", "content_block_stop", "content_block_start",
                               "content_block_delta", "content_block_delta", "content_block_stop",
                               "content_block_start", "content_block_delta", "content_block_delta",
                               "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(json::parse(events[0].data), json::parse(R"({"type":"message_start","message":{
      "id":"msg_42","type":"message","role":"assistant","model":"m","content":[],
      "stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":6,
      "cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5}}})"));
  EXPECT_EQ(json::parse(events[9].data), json::parse(R"({"type":"content_block_start","index":2,
      "content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}})"));
  EXPECT_EQ(json::parse(events[10].data), json::parse(R"({"type":"content_block_delta","index":2,
      "delta":{"type":"input_json_delta","partial_json":"{\"a\""}})"));
  EXPECT_EQ(json::parse(events[13].data)["delta"],
            json::parse(R"({"stop_reason":"tool_use","stop_sequence":null})"));
}

TEST(MessagesStream, JoinsToTheWholeAnswerByteForByte) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const auto events = random_answer(random, 1, With::kEverything);
    const json whole = json::parse(messages_answer({}, kHead, collect(events, 1), kUsage));
    json blocks = json::array();
    std::string arguments;
    json last_delta;
    for (const SseEvent& event : read_events(run(*messages_stream({}, kHead), events, kUsage))) {
      const json data = json::parse(event.data);
      if (event.name == "content_block_start") {
        ASSERT_EQ(data["index"], blocks.size());
        blocks.push_back(data["content_block"]);
        arguments.clear();
      } else if (event.name == "content_block_delta") {
        ASSERT_EQ(data["index"].get<size_t>() + 1, blocks.size());
        const json& delta = data["delta"];
        for (const char* member : {"text", "thinking"})
          if (delta.contains(member))
            blocks.back()[member] =
                blocks.back()[member].get<std::string>() + delta[member].get<std::string>();
        if (delta.contains("partial_json")) {
          arguments += delta["partial_json"].get<std::string>();
        }
      } else if (event.name == "content_block_stop" && blocks.back()["type"] == "tool_use") {
        blocks.back()["input"] = json::parse(arguments);
      } else if (event.name == "message_delta") {
        last_delta = data;
      }
    }
    EXPECT_EQ(blocks, whole["content"]);
    EXPECT_EQ(last_delta["delta"]["stop_reason"], whole["stop_reason"]);
    EXPECT_EQ(last_delta["usage"], whole["usage"]);
  }
}

TEST(MessagesAnswer, NamesTheStopSequence) {
  const json answer = json::parse(messages_answer(
      {}, kHead, collect({{0, TextDelta{"x", {}}}, {0, Finished{FinishReason::kStop, "END"}}}, 1),
      kUsage));
  EXPECT_EQ(answer["stop_reason"], "stop_sequence");
  EXPECT_EQ(answer["stop_sequence"], "END");
}

TEST(MessagesAnswer, DoesNotSpoilItselfWithHalfACall) {
  const json answer =
      json::parse(messages_answer({}, kHead,
                                  collect({{0, ToolCallStart{"c", "f"}},
                                           {0, ToolCallArguments{"{\"a\":"}},
                                           {0, Finished{FinishReason::kLength, ""}}},
                                          1),
                                  kUsage));
  EXPECT_EQ(answer["content"][0]["input"], json::object());
  EXPECT_EQ(answer["stop_reason"], "max_tokens");
}

}  // namespace
}  // namespace kvasir::api
