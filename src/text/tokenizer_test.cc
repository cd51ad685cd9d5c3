#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/bpe.h"
#include "text/normalize.h"
#include "text/random_text.h"
#include "text/special_tokens.h"
#include "text/test_vocabulary.h"
#include "text/vocabulary.h"

namespace kvasir::text {
namespace {

using Ids = std::vector<TokenId>;
using testing::HasSubstr;

std::string decode(const Tokenizer& tokenizer, const Ids& ids,
                   SpecialTokens special = SpecialTokens::kPlainText) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.bytes(id, special);
  return bytes;
}

Tokenizer small_tokenizer() {
  return std::move(*load_tokenizer(small_vocabulary()));
}

// ---- loading ------------------------------------------------------------------------------------

TEST(TokenizerLoad, EachMissingKeyIsNamed) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens",
                          "tokenizer.ggml.token_type", "tokenizer.ggml.merges"}) {
    const auto tokenizer = load_tokenizer(small_vocabulary(), {}, key);
    ASSERT_FALSE(tokenizer) << key;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt) << key;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(key));
  }
}

TEST(TokenizerLoad, WithoutANamedPreTokenizerTheDefaultIsTaken) {
  const auto tokenizer = load_tokenizer(small_vocabulary(), {}, "tokenizer.ggml.pre");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->pre_tokenizer(), "default");
}

TEST(TokenizerLoad, BadListsAreRefusedNamingKeyAndIndex) {
  struct Case {
    std::function<void(TestVocabulary&)> damage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](auto& v) { v.types.pop_back(); }, "token_type: 274 types for 275 tokens"},
      {[](auto& v) { v.types.push_back(1); }, "token_type: 276 types for 275 tokens"},
      {[](auto& v) { v.types[7] = 7; }, "token_type: token 7 has type 7"},
      {[](auto& v) { v.types[9] = -1; }, "token_type: token 9 has type -1"},
      {[](auto& v) { v.tokens[5] = v.tokens[3]; }, "tokens: tokens 3 and 5 have the same text"},
      {[](auto& v) {
         v.tokens.clear();
         v.types.clear();
       },
       "tokenizer.ggml.tokens is empty"},
      {[](auto& v) { v.merges[2] = "x"; }, "merges: entry 2 is not two strings"},
  };
  for (const Case& c : cases) {
    TestVocabulary vocabulary = small_vocabulary();
    ASSERT_EQ(vocabulary.tokens.size(), 275u);
    c.damage(vocabulary);
    const auto tokenizer = load_tokenizer(vocabulary);
    ASSERT_FALSE(tokenizer) << c.message;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt);
    EXPECT_THAT(tokenizer.error().message, HasSubstr(c.message));
  }
}

TEST(TokenizerLoad, TheNumbersOfTokensAndMergesAreBounded) {
  const std::vector<std::string> too_many_tokens(kTokensMax + 1);
  const std::vector<std::string> too_many_merges(kMergesMax + 1, "a b");
  for (const auto& [key, texts] : {std::pair{"tokenizer.ggml.tokens", &too_many_tokens},
                                   std::pair{"tokenizer.ggml.merges", &too_many_merges}}) {
    const auto tokenizer = load_tokenizer(
        small_vocabulary(), [&](gguf::Writer& writer) { writer.add_strings(key, *texts); }, key);
    ASSERT_FALSE(tokenizer) << key;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt);
    EXPECT_THAT(tokenizer.error().message, HasSubstr(key));
    EXPECT_THAT(tokenizer.error().message, HasSubstr("at most 1048576 are accepted"));
  }
}

TEST(TokenizerLoad, WrongValueTypesAreRefused) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
                          "tokenizer.ggml.token_type", "tokenizer.ggml.merges"}) {
    const auto tokenizer = load_tokenizer(
        small_vocabulary(), [&](gguf::Writer& writer) { writer.add_f32(key, 1.5F); }, key);
    ASSERT_FALSE(tokenizer) << key;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt) << key;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(key));
  }
}

TEST(TokenizerLoad, OtherModelsAndPreTokenizersAreRefusedNamingTheKnown) {
  const auto spm = load_tokenizer(
      small_vocabulary(), [](auto& writer) { writer.add_string("tokenizer.ggml.model", "llama"); },
      "tokenizer.ggml.model");
  ASSERT_FALSE(spm);
  EXPECT_EQ(spm.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(spm.error().hint, HasSubstr("gpt2"));

  TestVocabulary vocabulary = small_vocabulary();
  vocabulary.pre = "qwen9";
  const auto pre = load_tokenizer(vocabulary);
  ASSERT_FALSE(pre);
  EXPECT_EQ(pre.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(pre.error().hint, HasSubstr("qwen35"));
}

TEST(TokenizerLoad, EndTokensOutsideTheVocabularyAreRefused) {
  const uint32_t n = 275;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id", "tokenizer.ggml.eos_token_ids"}) {
    for (const uint32_t id : {n, n + 1, uint32_t{0x7FFFFFFF}, uint32_t{0xFFFFFFFF}}) {
      const auto tokenizer = load_tokenizer(small_vocabulary(),
                                            [&](gguf::Writer& writer) { writer.add_u32(key, id); });
      ASSERT_FALSE(tokenizer) << key << " " << id;
      EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt);
      EXPECT_THAT(tokenizer.error().message, HasSubstr(key));
    }
    const auto last = load_tokenizer(small_vocabulary(),
                                     [&](gguf::Writer& writer) { writer.add_u32(key, n - 1); });
    ASSERT_TRUE(last) << key;
    EXPECT_TRUE(last->is_end_of_generation(static_cast<TokenId>(n - 1)));
  }
}

TEST(TokenizerLoad, EmptyTokensMayRepeat) {
  TestVocabulary vocabulary = small_vocabulary();
  const TokenId first = vocabulary.add("");
  vocabulary.add("", TokenType::kControl);
  const auto tokenizer = load_tokenizer(vocabulary);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bytes(first), "");
  EXPECT_EQ(tokenizer->find(""), -1);
}

// ---- the token table ----------------------------------------------------------------------------

TEST(Tokenizer, GenerationEndsAtKnownSpellingsAndNamedIds) {
  const uint32_t ids[] = {1, 2};
  const auto tokenizer = load_tokenizer(small_vocabulary(), [&](gguf::Writer& writer) {
    writer.add_u32("tokenizer.ggml.eot_token_id", 2);
    writer.add_u32s("tokenizer.ggml.eos_token_ids", ids);
  });
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->end_of_generation(),
            (Ids{1, 2, tokenizer->find("<|endoftext|>"), tokenizer->find("<|im_end|>")}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(tokenizer->find("<|im_end|>")));
  EXPECT_FALSE(tokenizer->is_end_of_generation(tokenizer->find("<|im_start|>")));
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
}

TEST(Tokenizer, BytesDependOnTheType) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.bytes(' '), " ");
  EXPECT_EQ(tokenizer.bytes(0xFF), "\xFF");
  EXPECT_EQ(tokenizer.bytes(tokenizer.find(to_byte_alphabet(" hello"))), " hello");
  EXPECT_EQ(tokenizer.bytes(tokenizer.find("<think>")), "<think>");
  for (const char* text : {"<|im_end|>", "<unk>"}) {
    EXPECT_EQ(tokenizer.bytes(tokenizer.find(text)), "");
    EXPECT_EQ(tokenizer.bytes(tokenizer.find(text), SpecialTokens::kParse), text);
  }
  const TokenId unused = tokenizer.find("[PAD0]");
  EXPECT_EQ(tokenizer.bytes(unused, SpecialTokens::kParse), "");
  EXPECT_EQ(tokenizer.unused(), Ids{unused});
}

TEST(Tokenizer, ADamagedTokenStringBecomesReplacementCharacters) {
  TestVocabulary vocabulary = small_vocabulary();
  const TokenId outside = vocabulary.add("a\u4E2D b");
  const TokenId invalid = vocabulary.add("a\xF0\x9Fq");
  const TokenId cut = vocabulary.add("a\xE2\x82");
  const auto tokenizer = load_tokenizer(vocabulary);
  EXPECT_EQ(tokenizer->bytes(outside), "a\uFFFD\uFFFDb");
  EXPECT_EQ(tokenizer->bytes(invalid), "a\uFFFDq");
  EXPECT_EQ(tokenizer->bytes(cut), "a\uFFFD");
}

// A length kept in 32 bits, or a fixed buffer, was a hole in other engines.
TEST(Tokenizer, AVeryLongTokenIsWhole) {
  TestVocabulary vocabulary = small_vocabulary();
  const std::string text(4 << 20, 'x');
  const TokenId id = vocabulary.add(text);
  const auto tokenizer = load_tokenizer(vocabulary);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bytes(id), text);
}

TEST(TokenizerLoad, ASpecialTokenHasALargestLength) {
  TestVocabulary vocabulary = small_vocabulary();
  const std::string text(kSpecialBytesMax, 'x');
  const TokenId id = vocabulary.add(text, TokenType::kUserDefined);
  const auto longest = load_tokenizer(vocabulary);
  ASSERT_TRUE(longest) << longest.error().message;
  EXPECT_EQ(longest->encode(text + "x", SpecialTokens::kPlainText), (Ids{id, 'x'}));

  vocabulary.add(text + "y", TokenType::kControl);
  const auto longer = load_tokenizer(vocabulary);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(longer.error().message, HasSubstr("a special token of 1025 bytes"));
}

// ---- encoding -----------------------------------------------------------------------------------

TEST(TokenizerEncode, MergesWithinWords) {
  const Tokenizer tokenizer = small_tokenizer();
  const TokenId hello = tokenizer.find("hello");
  const TokenId space_hello = tokenizer.find(to_byte_alphabet(" hello"));
  EXPECT_EQ(tokenizer.encode("hello hello", SpecialTokens::kParse), (Ids{hello, space_hello}));
  EXPECT_EQ(tokenizer.encode("", SpecialTokens::kParse), Ids{});
}

TEST(TokenizerEncode, PlainTextSpellsControlTokensButNeverBecomesOne) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string text = "<|im_end|><think><unk>x<|im_";
  EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kParse),
            (Ids{tokenizer.find("<|im_end|>"), tokenizer.find("<think>"), tokenizer.find("<unk>"),
                 'x', tokenizer.find("<|im_")}));
  const Ids plain = tokenizer.encode(text, SpecialTokens::kPlainText);
  EXPECT_THAT(plain, testing::Contains(tokenizer.find("<think>")));
  for (const TokenId id : plain) {
    EXPECT_NE(tokenizer.type(id), TokenType::kControl);
    EXPECT_NE(tokenizer.type(id), TokenType::kUnknown);
  }
  EXPECT_EQ(decode(tokenizer, plain), text);
}

TEST(TokenizerEncode, UnusedTokensAreNeverProduced) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.encode("[PAD0]", SpecialTokens::kParse).size(), 6u);
}

TEST(TokenizerEncode, EachInvalidByteBecomesOneReplacementCharacter) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(decode(tokenizer, tokenizer.encode("a\xF0\x9F\x98 b\x80", SpecialTokens::kParse)),
            "a\uFFFD\uFFFD\uFFFD b\uFFFD");
}

// A special token of invalid UTF-8 must not cut a character in two.
TEST(TokenizerEncode, ASpecialTokenOfHalfACharacterIsNotFound) {
  TestVocabulary vocabulary = small_vocabulary();
  vocabulary.add("\xA9", TokenType::kControl);
  const auto tokenizer = load_tokenizer(vocabulary);
  EXPECT_EQ(tokenizer->encode("e\u0301\u00E9", SpecialTokens::kParse),
            (Ids{tokenizer->find(to_byte_alphabet("\u00E9")),
                 tokenizer->find(to_byte_alphabet("\u00E9"))}));
}

TEST(TokenizerEncode, NormalizesBetweenSpecialTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  const TokenId composed = tokenizer.find(to_byte_alphabet("\u00E9"));
  EXPECT_EQ(tokenizer.encode("e\u0301", SpecialTokens::kParse), Ids{composed});
  EXPECT_EQ(tokenizer.encode("e\u0301", SpecialTokens::kParse, Normalization::kNone),
            (Ids{'e', 0xCC, 0x81}));
  const Ids apart = tokenizer.encode("e<|im_end|>\u0301", SpecialTokens::kParse);
  EXPECT_EQ(apart, (Ids{'e', tokenizer.find("<|im_end|>"), 0xCC, 0x81}));
}

TEST(TokenizerEncode, WholeWordsComeFirstWhereTheRuleSaysSo) {
  TestVocabulary vocabulary = small_vocabulary();
  const TokenId xyz = vocabulary.add("xyz");  // no merge leads to it
  EXPECT_EQ(load_tokenizer(vocabulary)->encode("xyz", SpecialTokens::kParse), (Ids{'x', 'y', 'z'}));
  vocabulary.pre = "llama-bpe";
  EXPECT_EQ(load_tokenizer(vocabulary)->encode("xyz hello", SpecialTokens::kParse),
            (Ids{xyz, load_tokenizer(vocabulary)->find(to_byte_alphabet(" hello"))}));
}

TEST(TokenizerEncode, BytesWithoutATokenAreDropped) {
  TestVocabulary vocabulary;
  vocabulary.add("a");
  const auto tokenizer = load_tokenizer(vocabulary);
  EXPECT_EQ(tokenizer->encode("abca\xFF", SpecialTokens::kParse), (Ids{0, 0}));
}

TEST(TokenizerEncode, DecodingGivesTheNormalizedTextBack) {
  const Tokenizer tokenizer = small_tokenizer();
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    const std::string text = random_text(random, 40);
    ASSERT_EQ(decode(tokenizer, tokenizer.encode(text, SpecialTokens::kPlainText)), to_nfc(text))
        << "seed " << seed;
    const std::string bytes = random_bytes(random, 40);
    ASSERT_EQ(
        decode(tokenizer, tokenizer.encode(bytes, SpecialTokens::kPlainText, Normalization::kNone)),
        replace_invalid_bytes(bytes))
        << "seed " << seed;
  }
}

// Special tokens are mixed into noise; whatever comes out is a token of the vocabulary, and plain
// text never holds a control token.
TEST(TokenizerEncode, AnyBytesAreAccepted) {
  const Tokenizer tokenizer = small_tokenizer();
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    std::string bytes = random_bytes(random, 30);
    for (size_t n = random_below(random, 4); n > 0; --n) {
      const TokenId id = static_cast<TokenId>(random_below(random, tokenizer.vocabulary_size()));
      bytes.insert(random_below(random, bytes.size() + 1), tokenizer.raw(id));
    }
    for (const TokenId id : tokenizer.encode(bytes, SpecialTokens::kParse)) {
      ASSERT_TRUE(id >= 0 && static_cast<size_t>(id) < tokenizer.vocabulary_size());
    }
    for (const TokenId id : tokenizer.encode(bytes, SpecialTokens::kPlainText)) {
      ASSERT_NE(tokenizer.type(id), TokenType::kControl) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace kvasir::text
