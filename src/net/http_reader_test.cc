#include "net/http_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kvasir::net {
namespace {

using Step = HttpReader::Step;

// As much as fits; what does not is left for later.
size_t give(HttpReader& reader, std::string_view bytes) {
  const std::span<char> space = reader.space();
  const size_t n = std::min(space.size(), bytes.size());
  std::memcpy(space.data(), bytes.data(), n);
  reader.added(n);
  return n;
}

Step give_all(HttpReader& reader, std::string_view bytes) {
  Step step = Step::kIdle;
  while (!bytes.empty()) {
    const size_t n = give(reader, bytes);
    bytes.remove_prefix(n);
    step = reader.advance();
    if (n == 0 || step == Step::kBad || step == Step::kRequest) break;
  }
  return step;
}

int status_of(std::string_view bytes, const HttpLimits& limits = {}) {
  HttpReader reader(limits);
  const Step step = give_all(reader, bytes);
  if (step == Step::kRequest) return 200;
  return step == Step::kBad ? reader.status() : 0;
}

TEST(HttpReader, ReadsARequest) {
  HttpReader reader({});
  ASSERT_EQ(give_all(reader,
                     "POST /a/b%20c?x=1&y HTTP/1.1\r\nhOsT: h\r\nX-A:  1 \r\nx-a: 2\r\n"
                     "Content-Length: 3\r\n\r\nabcGET"),
            Step::kRequest);
  EXPECT_TRUE(reader.keep_alive());
  const HttpRequest request = reader.take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/a/b%20c");
  EXPECT_EQ(request.query, "x=1&y");
  EXPECT_EQ(request.header("HOST"), "h");
  EXPECT_EQ(request.header("X-a"), "1");
  EXPECT_EQ(request.header("nothing"), "");
  EXPECT_EQ(request.body, "abc");
  EXPECT_FALSE(request.wants_upgrade);
  EXPECT_EQ(reader.buffered_bytes(), 3U);
}

TEST(HttpReader, SurvivesAnySplit) {
  const std::string text =
      "\r\nPUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=b\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
  for (size_t cut = 1; cut < text.size(); ++cut) {
    HttpReader reader({});
    const Step first = give_all(reader, text.substr(0, cut));
    ASSERT_TRUE(first == Step::kIdle || first == Step::kHead || first == Step::kBody) << cut;
    ASSERT_EQ(give_all(reader, text.substr(cut)), Step::kRequest) << cut;
    const HttpRequest request = reader.take();
    EXPECT_EQ(request.body, "abc0123456789") << cut;
    EXPECT_EQ(request.headers.size(), 2U) << "a trailer is no header";
    EXPECT_EQ(reader.advance(), Step::kIdle);
  }
  HttpReader reader({});
  for (size_t i = 0; i + 1 < text.size(); ++i)
    ASSERT_NE(give_all(reader, text.substr(i, 1)), Step::kBad);
  EXPECT_EQ(give_all(reader, text.substr(text.size() - 1)), Step::kRequest);
}

TEST(HttpReader, RefusesWhatAProxyMightReadDifferently) {
  const std::string get = "GET / HTTP/1.1\r\nHost: h\r\n", post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(status_of(get + "\r\n"), 200);
  EXPECT_EQ(status_of(post + chunked + "\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
  EXPECT_EQ(status_of("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
  for (const std::string& text : {post + "Content-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n",
                                  post + chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n",
                                  post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                                  post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
                                  post + "Content-Length: 1, 1\r\n\r\na",
                                  post + "Content-Length: +1\r\n\r\na",
                                  post + "Content-Length: -1\r\n\r\na",
                                  post + "Content-Length: 0x1\r\n\r\na",
                                  post + "Content-Length: \r\n\r\na",
                                  post + "Content-Length: 18446744073709551616\r\n\r\na",
                                  post + chunked + chunked + "\r\n0\r\n\r\n",
                                  post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                                  post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
                                  "POST / HTTP/1.0\r\n" + chunked + "\r\n0\r\n\r\n",
                                  post + chunked + "\r\nx\r\n\r\n",
                                  post + chunked + "\r\n1\r\nabc\r\n",
                                  post + chunked + "\r\n10000000000000000\r\n",
                                  post + chunked + "\r\n-1\r\n\r\n",
                                  std::string("GET / HTTP/1.1\r\n\r\n"),
                                  get + "Host: i\r\n\r\n",
                                  get + "X\r\n\r\n",
                                  get + ": x\r\n\r\n",
                                  get + "A: b\r\n folded\r\n\r\n",
                                  get + "A: \x01\r\n\r\n",
                                  get + std::string("A: \0b\r\n\r\n", 9),
                                  std::string("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
                                  std::string("GET x HTTP/1.1\r\nHost: h\r\n\r\n"),
                                  std::string("GET /\r\n\r\n"),
                                  std::string("CONNECT a:80 HTTP/1.1\r\nHost: h\r\n\r\n"),
                                  std::string("get / HTTP/1.1\r\n"),
                                  std::string("\x16\x03\x01\x02", 4),
                                  std::string("\0", 1)})
    EXPECT_EQ(status_of(text), 400) << text;
  EXPECT_EQ(status_of(post + "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501);
  EXPECT_EQ(status_of(post + "Transfer-Encoding: xchunked\r\n\r\n"), 501);
  EXPECT_EQ(status_of(get + "Expect: 200-ok\r\n\r\n"), 417);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
}

TEST(HttpReader, HoldsEachLimitToTheByte) {
  HttpLimits limits;
  limits.header_bytes = 200;
  limits.headers = 3;
  limits.body_bytes = 10;
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nX: ";
  const auto head_of = [&](size_t bytes) {
    return start + std::string(bytes - start.size() - 4, 'x') + "\r\n\r\n";
  };
  EXPECT_EQ(status_of(head_of(200), limits), 200);
  EXPECT_EQ(status_of(head_of(201), limits), 431);
  EXPECT_EQ(status_of(head_of(2000), limits), 431);
  EXPECT_EQ(status_of(start + std::string(100'000, 'x'), limits), 431) << "without an end";

  const std::string host = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(status_of(host + "A: 1\r\nB: 2\r\n\r\n", limits), 200);
  EXPECT_EQ(status_of(host + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits), 431);

  EXPECT_EQ(status_of(host + "Content-Length: 10\r\n\r\n0123456789", limits), 200);
  EXPECT_EQ(status_of(host + "Content-Length: 11\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of(host + "Content-Length: 9999999999999\r\n\r\n", limits), 413);
  const std::string chunked = host + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_of(chunked + "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", limits), 200);
  EXPECT_EQ(status_of(chunked + "5\r\n01234\r\n6\r\n56789", limits), 413);
  EXPECT_EQ(status_of(chunked + "fffffffffffffff\r\n", limits), 413);
  // What a chunk says beside its size is bounded, too.
  EXPECT_EQ(status_of(chunked + "1;" + std::string(100'000, 'e'), limits), 400);
  EXPECT_EQ(status_of(chunked + "0\r\n" + std::string(100'000, 'T'), limits), 400);
}

TEST(HttpReader, PipelinedRequestsWaitForEachOther) {
  HttpReader reader({});
  std::string text;
  for (int i = 0; i < 5; ++i)
    text += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n" +
            std::to_string(i);
  give(reader, text);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(reader.advance(), Step::kRequest);
    const HttpRequest request = reader.take();
    EXPECT_EQ(request.path, "/" + std::to_string(i));
    EXPECT_EQ(request.body, std::to_string(i));
  }
  EXPECT_EQ(reader.advance(), Step::kIdle);
}

// Good requests with a few bytes changed: any outcome but a crash, an endless loop or an over-read.
TEST(HttpReader, AnyBytesEndInAnAnswerOrWaiting) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  HttpLimits limits;
  limits.header_bytes = 256;
  limits.body_bytes = 64;
  const std::string good =
      "POST /p?q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      "3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nxy";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (unsigned changes = random() % 4; changes > 0; --changes)
      text[random() % text.size()] =
          static_cast<char>(random() % 4 == 0 ? random() % 256 : good[random() % good.size()]);
    HttpReader reader(limits);
    std::string_view rest = text;
    for (int step_count = 0; step_count < 2'000 && !rest.empty(); ++step_count) {
      const size_t n = give(reader, rest.substr(0, 1 + random() % 40));
      rest.remove_prefix(n);
      const Step step = reader.advance();
      if (step == Step::kBad) break;
      if (step == Step::kRequest) {
        EXPECT_LE(reader.take().body.size(), limits.body_bytes);
      } else if (n == 0) {
        ADD_FAILURE() << "stuck, seed " << kSeed << ", round " << round;
        break;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::net
