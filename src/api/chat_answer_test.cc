// Answers of /v1/chat/completions and /v1/completions: golden streams, and that streamed and whole
// answers say the same.
#include <cmath>

#include "api/test_events.h"

namespace kvasir::api {
namespace {

using nlohmann::json;

const AnswerHead kHead{"42", 1700000000, "m", "fp"};
constexpr Usage kUsage{10, 5, 4, 2};
constexpr std::string_view kChunk =
    R"({"id":"chatcmpl-42","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
    R"("system_fingerprint":"fp","choices":[)";

std::string chunk(std::string_view choice, std::string_view more = "") {
  return "data: " + std::string(kChunk) + std::string(choice) + "]" + std::string(more) + "}\n\n";
}

TEST(ChatStream, IsWhatClientsExpectByteForByte) {
  ChatRequest request;
  request.stream.include_usage = true;
  const auto stream = chat_stream(request, kHead);
  std::string bytes = stream->begin({});
  bytes += stream->progress(1200, 4096);
  bytes += stream->encode({0, ReasoningDelta{"hm"}});
  bytes += stream->encode({0, TextDelta{"a\"\xE2\x82\xAC", {}}});
  bytes += stream->encode({0, TextDelta{"", {}}});
  bytes += stream->encode({0, ToolCallStart{"c1", "f"}});
  bytes += stream->encode({0, ToolCallArguments{"{}"}});
  bytes += stream->encode({0, ToolCallEnd{}});
  bytes += stream->encode({0, Finished{FinishReason::kToolCalls, ""}});
  bytes += stream->end(kUsage, nullptr);
  const std::string_view null_usage = R"(,"usage":null)";
  const auto delta = [&](std::string_view members, std::string_view finish = "null") {
    return chunk(R"({"index":0,"delta":{)" + std::string(members) +
                     R"(},"logprobs":null,"finish_reason":)" + std::string(finish) + "}",
                 null_usage);
  };
  EXPECT_EQ(bytes,
            delta(R"("role":"assistant","content":"")") + ": waiting for prefill 1200/4096\n\n" +
                delta(R"("reasoning_content":"hm")") + delta("\"content\":\"a\\\"\xE2\x82\xAC\"") +
                delta(R"("tool_calls":[{"index":0,"id":"c1","type":"function",)"
                      R"("function":{"name":"f","arguments":""}}])") +
                delta(R"("tool_calls":[{"index":0,"function":{"arguments":"{}"}}])") +
                delta("", R"("tool_calls")") +
                chunk("", R"(,"usage":{"prompt_tokens":10,"completion_tokens":5,)"
                          R"("total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},)"
                          R"("completion_tokens_details":{"reasoning_tokens":2}})") +
                "data: [DONE]\n\n");
}

TEST(ChatStream, CarriesLogprobsAndDetailsWhereAsked) {
  ChatRequest request;
  request.top_logprobs = 1;
  request.details = true;
  const auto stream = chat_stream(request, kHead);
  const TokenLogprob token{"\xE2\x82", -0.5, {{"b", -1.25}}};
  const auto events = read_events(stream->encode({0, TextDelta{"", {token}}}));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(json::parse(events[0].data)["choices"][0]["logprobs"], json::parse(R"({"content":[
      {"token":"\ufffd\ufffd","logprob":-0.5,"bytes":[226,130],"top_logprobs":[
        {"token":"b","logprob":-1.25,"bytes":[98]}]}],"refusal":null})"));
  Details details;
  details.workers = 3;
  details.logits_hash = "ab";
  const auto last = read_events(stream->end(kUsage, &details));
  ASSERT_EQ(last.size(), 2U);
  const json parsed = json::parse(last[0].data);
  EXPECT_EQ(parsed["kvasir"]["swarm"]["workers"], 3);
  EXPECT_EQ(parsed["kvasir"]["logits_hash"], "ab");
  EXPECT_FALSE(parsed.contains("usage"));
}

TEST(ChatStream, SaysErrorsInsideTheStreamAndStops) {
  const auto stream = chat_stream({}, kHead);
  const auto events =
      read_events(stream->fail(ApiError::of(Code::kDraining, "", "going away"), "req_1"));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(json::parse(events[0].data)["error"]["code"], "draining");
}

TEST(ChatStream, ReportsProgressAsChunksWhereAsked) {
  ChatRequest request;
  request.stream.return_progress = true;
  const auto events = read_events(chat_stream(request, kHead)->progress(5, 9));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(json::parse(events[0].data)["prompt_progress"],
            json::parse(R"({"total":9,"processed":5})"));
}

TEST(ChatAnswer, HasEveryMember) {
  ChatRequest request;
  const std::vector<AnswerEvent> events = {{0, ReasoningDelta{"hm"}},
                                           {0, TextDelta{"He", {}}},
                                           {0, TextDelta{"llo", {}}},
                                           {0, Finished{FinishReason::kStop, "END"}}};
  const json answer = json::parse(chat_answer(request, kHead, collect(events, 1), kUsage, nullptr));
  EXPECT_EQ(answer, json::parse(R"({"id":"chatcmpl-42","object":"chat.completion",
      "created":1700000000,"model":"m","system_fingerprint":"fp","choices":[{"index":0,
      "message":{"role":"assistant","content":"Hello","refusal":null,"reasoning_content":"hm"},
      "logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,
      "total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},
      "completion_tokens_details":{"reasoning_tokens":2}}})"));
}

// What a client gathers from a stream, as the whole answer has it.
struct Gathered {
  std::string text, reasoning, finish;
  std::vector<std::string> calls;
};

TEST(ChatStream, JoinsToTheWholeAnswerByteForByte) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    ChatRequest request;
    request.choices = static_cast<uint32_t>(1 + random() % 3);
    const auto events = random_answer(random, request.choices, With::kEverything);
    std::vector<Gathered> gathered(request.choices);
    const auto stream = chat_stream(request, kHead);
    const auto chunks = read_events(run(*stream, events, kUsage));
    EXPECT_EQ(chunks.back().data, "[DONE]");
    for (size_t i = 0; i + 1 < chunks.size(); ++i) {
      const json choice = json::parse(chunks[i].data)["choices"][0];
      Gathered& into = gathered[choice["index"].get<size_t>()];
      EXPECT_TRUE(into.finish.empty()) << "a delta behind the end";
      const json& delta = choice["delta"];
      into.text += delta.value("content", "");
      into.reasoning += delta.value("reasoning_content", "");
      if (delta.contains("tool_calls")) {
        const json& call = delta["tool_calls"][0];
        if (call.contains("id")) into.calls.emplace_back();
        ASSERT_EQ(call["index"].get<size_t>() + 1, into.calls.size());
        into.calls.back() +=
            call["function"].value("name", "") + call["function"]["arguments"].get<std::string>();
      }
      if (choice["finish_reason"].is_string()) into.finish = choice["finish_reason"];
    }
    const json whole =
        json::parse(chat_answer(request, kHead, collect(events, request.choices), kUsage, nullptr));
    for (size_t i = 0; i < gathered.size(); ++i) {
      const json& choice = whole["choices"][i];
      const json& message = choice["message"];
      EXPECT_EQ(message["content"].is_null() ? "" : message["content"].get<std::string>(),
                gathered[i].text);
      EXPECT_EQ(message.value("reasoning_content", ""), gathered[i].reasoning);
      EXPECT_EQ(choice["finish_reason"], gathered[i].finish);
      std::vector<std::string> calls;
      for (const json& call : message.value("tool_calls", json::array()))
        calls.push_back(call["function"]["name"].get<std::string>() +
                        call["function"]["arguments"].get<std::string>());
      EXPECT_EQ(calls, gathered[i].calls);
    }
  }
}

TEST(CompletionStream, IsWhatClientsExpectByteForByte) {
  CompletionRequest request;
  request.prompts = {"a", "b"};
  request.top_logprobs = 1;
  const auto stream = completion_stream(request, kHead);
  std::string bytes = stream->begin({});
  bytes += stream->encode({1, TextDelta{"\xC3\xA4x", {{"\xC3\xA4", -1, {{"y", -2}}}}}});
  bytes += stream->encode({1, TextDelta{"z", {{"z", -0.5, {}}}}});
  bytes += stream->encode({1, Finished{FinishReason::kLength, ""}});
  bytes += stream->end(kUsage, nullptr);
  const std::string head =
      R"(data: {"id":"cmpl-42","object":"text_completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":1,)";
  EXPECT_EQ(bytes, head + "\"text\":\"\xC3\xA4x\",\"logprobs\":{\"tokens\":[\"\xC3\xA4\"]," +
                       R"("token_logprobs":[-1],"top_logprobs":[{"y":-2}],"text_offset":[0]},)" +
                       "\"finish_reason\":null}]}\n\n" + head +
                       R"("text":"z","logprobs":{"tokens":["z"],"token_logprobs":[-0.5],)" +
                       R"("top_logprobs":[{}],"text_offset":[1]},"finish_reason":null}]})" +
                       "\n\n" + head + R"("text":"","logprobs":null,"finish_reason":"length"}]})" +
                       "\n\ndata: [DONE]\n\n");
}

TEST(CompletionStream, JoinsToTheWholeAnswerByteForByte) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 100; ++round) {
    CompletionRequest request;
    request.prompts.resize(1 + random() % 2);
    request.choices = static_cast<uint32_t>(1 + random() % 2);
    const auto choices = static_cast<uint32_t>(request.prompts.size()) * request.choices;
    const auto events = random_answer(random, choices, With::kTextOnly);
    std::vector<std::string> texts(choices);
    const auto stream = completion_stream(request, kHead);
    const auto chunks = read_events(run(*stream, events, kUsage));
    for (size_t i = 0; i + 1 < chunks.size(); ++i) {
      const json choice = json::parse(chunks[i].data)["choices"][0];
      texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
    }
    const json whole =
        json::parse(completion_answer(request, kHead, collect(events, choices), kUsage, nullptr));
    for (size_t i = 0; i < choices; ++i) EXPECT_EQ(whole["choices"][i]["text"], texts[i]);
  }
}

TEST(CompletionAnswer, HasNoLogprobForTheFirstTokenOfAnEcho) {
  CompletionRequest request;
  request.prompts = {"a"};
  request.top_logprobs = 0;
  const std::vector<AnswerEvent> events = {
      {0, TextDelta{"ab", {{"a", std::nan(""), {}}, {"b", -1, {}}}}}, {0, Finished{}}};
  const json answer =
      json::parse(completion_answer(request, kHead, collect(events, 1), kUsage, nullptr));
  EXPECT_EQ(answer["choices"][0]["logprobs"], json::parse(R"({"tokens":["a","b"],
      "token_logprobs":[null,-1],"top_logprobs":[null,{}],"text_offset":[0,1]})"));
}

}  // namespace
}  // namespace kvasir::api
