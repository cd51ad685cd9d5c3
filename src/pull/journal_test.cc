#include "pull/journal.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/test_folder.h"

namespace kvasir::pull {
namespace {

Journal example() {
  Journal journal;
  journal.head = {5 * kRangeBytes + 17, "\"an etag\n%\"", std::string(64, 'c')};
  for (uint64_t index : {0, 2, 5})
    journal.ranges[index] = sha256_hex(bytes_of(std::to_string(index)));
  return journal;
}

TEST(Journal, ReadsWhatItWrote) {
  const auto read = parse_journal(journal_text(example()));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->head.bytes, example().head.bytes);
  EXPECT_EQ(read->head.etag, example().head.etag);
  EXPECT_EQ(read->head.sha256, example().head.sha256);
  EXPECT_EQ(read->ranges, example().ranges);
  EXPECT_FALSE(read->damaged);
  EXPECT_EQ(read->bytes(), 2 * kRangeBytes + 17);
}

// A crash may cut the file anywhere. Whole lines before the cut count, what is torn does not.
TEST(Journal, SurvivesAnyCut) {
  const std::string text = journal_text(example());
  const size_t head_end = text.find("range ");
  for (size_t length = 0; length < text.size(); ++length) {
    const auto read = parse_journal(text.substr(0, length));
    if (length < head_end) {
      EXPECT_FALSE(read.has_value()) << length;
      continue;
    }
    ASSERT_TRUE(read.has_value()) << length;
    size_t whole = 0;
    for (size_t at = head_end; (at = text.find('\n', at)) < length; ++at) ++whole;
    EXPECT_EQ(read->ranges.size(), whole) << length;
  }
}

// No changed byte may turn into a range that did not come, or into another file.
TEST(Journal, SurvivesAnyChangedByte) {
  const Journal before = example();
  const std::string text = journal_text(before);
  for (size_t at = 0; at < text.size(); ++at) {
    for (char flip : {1, 0x20, 0x40}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const auto read = parse_journal(changed);
      if (!read) continue;
      EXPECT_EQ(read->head.bytes, before.head.bytes) << at;
      EXPECT_EQ(read->head.etag, before.head.etag) << at;
      EXPECT_TRUE(read->damaged) << at;
      EXPECT_LT(read->ranges.size(), before.ranges.size()) << at;
      for (const auto& [index, hash] : read->ranges) EXPECT_EQ(before.ranges.at(index), hash) << at;
    }
  }
}

TEST(Journal, TakesNoLineOfAnotherFile) {
  Journal other = example();
  other.head.etag = "\"another\"";
  const std::string mixed =
      journal_text(example()) + journal_line(other.head, 1, std::string(64, 'a'));
  const auto read = parse_journal(mixed);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->ranges, example().ranges);
  EXPECT_TRUE(read->damaged);
}

TEST(Journal, RefusesSizesThatNoFileHas) {
  Journal journal = example();
  journal.head.bytes = 0;
  EXPECT_FALSE(parse_journal(journal_text(journal)).has_value());
  journal.head.bytes = uint64_t{1} << 60;
  EXPECT_FALSE(parse_journal(journal_text(journal)).has_value());
}

TEST(JournalFile, AppendsToWhatWasThere) {
  const TestFolder folder;
  const std::string path = folder.path("x.journal");
  EXPECT_EQ(read_journal(path).error().kind, ErrorKind::kNotFound);
  Journal journal = example();
  {
    auto file = JournalFile::create(path, journal);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->append(3, std::string(64, 'd')).has_value());
  }
  journal.ranges[3] = std::string(64, 'd');
  const auto read = read_journal(path);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->ranges, journal.ranges);
}

}  // namespace
}  // namespace kvasir::pull
