// What a worker holds, from slices and from a model file: the right bytes, or a refusal that says
// what is wrong.
#include <filesystem>

#include "worker/unit_loader.h"
#include "worker_model.h"

namespace kvasir::worker {
namespace {

using testing::damage;
using ::testing::HasSubstr;
using testing::WorkerModel;

class WorkerUnits : public ::testing::Test {
 protected:
  UnitSources from_model(std::vector<UnitRange> units) const {
    UnitSources sources;
    sources.model = model_.path;
    sources.manifest = model_.write_manifest(folder_);
    sources.units = std::move(units);
    return sources;
  }
  UnitSources from_slice(const std::string& path) const {
    UnitSources sources;
    sources.slices = {path};
    sources.manifest = model_.write_manifest(folder_);
    return sources;
  }
  // Every byte of every matrix is the model's.
  void expect_weights(const expert::HeldExperts& held, uint32_t layer,
                      gguf::ExpertRange experts) const {
    const auto layers = model_.experts();
    for (uint32_t e = experts.begin; e < experts.end; ++e) {
      const auto found = held.find(layer, e);
      ASSERT_TRUE(found.has_value()) << layer << ":" << e;
      const expert::ExpertView want = layers[layer].expert(e);
      for (auto [a, b] : {std::pair(&found->gate, &want.gate), std::pair(&found->up, &want.up),
                          std::pair(&found->down, &want.down)}) {
        ASSERT_EQ(a->type, b->type);
        const size_t bytes = a->row_bytes * a->n_out;
        ASSERT_EQ(bytes, b->row_bytes * b->n_out);
        EXPECT_EQ(std::memcmp(a->data, b->data, bytes), 0);
      }
    }
  }
  Error error_of(const UnitSources& sources) const {
    auto loaded = load_units(sources);
    if (!loaded) return loaded.error();
    ADD_FAILURE() << "nothing was wrong";
    return Error::io("nothing");
  }

  TestFolder folder_;
  const WorkerModel& model_ = WorkerModel::bundled();
};

TEST_F(WorkerUnits, ReadsUnitsOfAModel) {
  auto loaded = load_units(from_model({{1, {8, 24}}, {0, {0, 8}}}));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->held.model_hash(), model_.manifest().model_hash());
  EXPECT_EQ(loaded->held.expert_count(), 24U);
  expect_weights(loaded->held, 0, {0, 8});
  expect_weights(loaded->held, 1, {8, 24});
  EXPECT_FALSE(loaded->held.find(0, 8).has_value());
}

TEST_F(WorkerUnits, HoldsSlicesAndUnitsTogether) {
  UnitSources sources = from_model({{0, {24, 32}}});
  sources.slices = {model_.write_slice(folder_, "a.gguf", {0, 2}, {0, 8}),
                    model_.write_slice(folder_, "b.gguf", {1}, {0, 32})};
  auto loaded = load_units(sources);
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_weights(loaded->held, 0, {0, 8});
  expect_weights(loaded->held, 0, {24, 32});
  expect_weights(loaded->held, 1, {0, 32});
  expect_weights(loaded->held, 2, {0, 8});
}

TEST_F(WorkerUnits, RefusesADamagedSliceIfThereIsAManifest) {
  const std::string path = model_.write_slice(folder_, "a.gguf", {0}, {0, 8});
  damage(path, std::filesystem::file_size(path) - 100);
  const Error error = error_of(from_slice(path));
  EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("SHA-256"));
  // Without one it cannot know, and says that it did not check.
  UnitSources unchecked;
  unchecked.slices = {path};
  auto loaded = load_units(unchecked);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->notes.size(), 1U);
  EXPECT_THAT(loaded->notes[0], HasSubstr("not checked"));
}

TEST_F(WorkerUnits, RefusesADamagedModelButOnlyWhereItMatters) {
  UnitSources sources = from_model({{0, {0, 8}}});
  const std::string copy = folder_.path("copy.gguf");
  std::filesystem::copy_file(model_.path, copy);
  sources.model = copy;
  const gguf::ManifestEntry* down = model_.manifest().ranges({0, 0}).back();
  damage(copy, down->offset + down->bytes - 1);
  const Error error = error_of(sources);
  EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr(down->name));
  sources.units = {{0, {8, 16}}};
  EXPECT_TRUE(load_units(sources));
}

TEST_F(WorkerUnits, RefusesAManifestThatWasChanged) {
  std::string text = model_.manifest().text();
  const size_t hash = text.find("tensor ") + 60;
  for (size_t at = text.find(" - ", hash); at != std::string::npos;) {
    text[at + 3] = text[at + 3] == 'a' ? 'b' : 'a';  // the first digit of a whole tensor's hash
    break;
  }
  UnitSources sources = from_model({{0, {0, 8}}});
  sources.manifest = folder_.write("changed.manifest", bytes_of(text));
  EXPECT_EQ(error_of(sources).kind, ErrorKind::kCorrupt);
}

TEST_F(WorkerUnits, SaysWhatWouldFitIntoTheBudget) {
  UnitSources sources = from_model({{0, {0, 32}}, {1, {0, 32}}});
  const uint64_t unit_bytes = [&] {
    uint64_t sum = 0;
    for (const auto* entry : model_.manifest().ranges({0, 0})) sum += entry->bytes;
    return sum;
  }();
  sources.memory_bytes = 3 * unit_bytes + unit_bytes / 2;
  Error error = error_of(sources);
  EXPECT_EQ(error.kind, ErrorKind::kLimit);
  EXPECT_THAT(error.hint, HasSubstr("--units 0:0-23"));
  sources.memory_bytes = 1000;
  EXPECT_THAT(error_of(sources).hint, HasSubstr("not even --units 0:0-7"));

  UnitSources slices = from_slice(model_.write_slice(folder_, "a.gguf", {0}, {0, 8}));
  slices.slices.push_back(model_.write_slice(folder_, "b.gguf", {1}, {0, 32}));
  slices.memory_bytes = 2 * unit_bytes;
  error = error_of(slices);
  EXPECT_EQ(error.kind, ErrorKind::kLimit);
  EXPECT_THAT(error.hint, HasSubstr("--slice " + slices.slices[0]));
  EXPECT_THAT(error.hint, ::testing::Not(HasSubstr("b.gguf")));
  slices.memory_bytes = 20 * unit_bytes;
  EXPECT_TRUE(load_units(slices));
}

TEST_F(WorkerUnits, RefusesWhatTheModelDoesNotHave) {
  const auto refused = [&](UnitRange range, const char* why) {
    const Error error = error_of(from_model({range}));
    EXPECT_EQ(error.kind, ErrorKind::kInvalid);
    EXPECT_THAT(error.message, HasSubstr(why));
    return error.hint;
  };
  refused({900, {0, 8}}, "layer 900");
  refused({0, {0, 40}}, "expert 39");
  EXPECT_THAT(refused({0, {3, 9}}, "no whole groups of 8"), HasSubstr("0:0-15"));
  UnitSources twice = from_model({{0, {0, 8}}, {0, {0, 16}}});
  EXPECT_THAT(error_of(twice).message, HasSubstr("twice"));
}

TEST_F(WorkerUnits, RefusesSourcesThatMakeNoSense) {
  EXPECT_EQ(error_of({}).kind, ErrorKind::kInvalid);
  UnitSources sources = from_model({{0, {0, 8}}});
  sources.manifest.reset();
  EXPECT_EQ(error_of(sources).kind, ErrorKind::kInvalid);
  sources = from_model({});
  EXPECT_EQ(error_of(sources).kind, ErrorKind::kInvalid);
  sources.model.reset();
  sources.units = {{0, {0, 8}}};
  EXPECT_EQ(error_of(sources).kind, ErrorKind::kInvalid);
  const std::string slice = model_.write_slice(folder_, "a.gguf", {0}, {0, 8});
  UnitSources again = from_slice(slice);
  again.slices.push_back(slice);
  EXPECT_EQ(error_of(again).kind, ErrorKind::kInvalid);
  EXPECT_EQ(error_of(from_slice(folder_.path("none.gguf"))).kind, ErrorKind::kNotFound);
  EXPECT_FALSE(load_units(from_slice(model_.path)));  // a model is no slice
}

TEST(WorkerUnitText, IsReadAsPeopleWriteIt) {
  const auto units = parse_units("0:0-31,1:8-15,12:5-5");
  ASSERT_TRUE(units);
  ASSERT_EQ(units->size(), 3U);
  EXPECT_EQ((*units)[1].layer, 1U);
  EXPECT_EQ((*units)[1].experts, (gguf::ExpertRange{8, 16}));
  EXPECT_EQ((*units)[2].experts, (gguf::ExpertRange{5, 6}));
  for (const char* text :
       {"", ",", "0", "0:", "0:1", "0:1-", "0:5-4", "0:0-31,", "-1:0-7", "0:0-7 ", "0:0--7",
        "1024:0-7", "0:0-4096", "0:0-99999999999999999999", "a:0-7", "0:0-7;1:0-7"})
    EXPECT_FALSE(parse_units(text)) << text;
}

}  // namespace
}  // namespace kvasir::worker
