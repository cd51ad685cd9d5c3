// Dependencies point downwards only (docs/architecture.md). Finds out by reading every #include
// under src/ and every kvasir_module() line of src/CMakeLists.txt.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Highest first. A module may include itself and what stands below it.
const std::vector<std::string> kOrder = {"cli",     "serve",  "chaos",   "sim",   "api",   "swarm",
                                         "config",  "worker", "market",  "store", "relay", "net",
                                         "measure", "engine", "text",    "model", "pull",  "crypto",
                                         "wire",    "expert", "kernels", "gguf",  "base"};
const std::set<std::string> kPortable = {"base", "kernels", "gguf", "wire", "expert"};

fs::path source_root() {
  return fs::path(KVASIR_SOURCE_DIR) / "src";
}

int rank(const std::string& module) {
  for (size_t i = 0; i < kOrder.size(); ++i)
    if (kOrder[i] == module) return static_cast<int>(i);
  return -1;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Include {
  fs::path file;
  std::string module;  // of the file
  std::string target;  // as written, without quotes or brackets
};

std::vector<Include> all_includes() {
  static const std::regex pattern(R"(^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"])",
                                  std::regex::ECMAScript | std::regex::multiline);
  std::vector<Include> includes;
  for (const auto& entry : fs::recursive_directory_iterator(source_root())) {
    fs::path extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc" && extension != ".inc") continue;
    fs::path relative = fs::relative(entry.path(), source_root());
    std::string module = relative.has_parent_path() ? relative.begin()->string() : "";
    std::string text = read(entry.path());
    for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern);
         it != std::sregex_iterator(); ++it)
      includes.push_back({relative, module, (*it)[1].str()});
  }
  return includes;
}

// "gguf" of "gguf/header.h", nothing for includes that are not ours.
std::string module_of(const std::string& target) {
  std::string first = target.substr(0, target.find('/'));
  return target.find('/') != std::string::npos && rank(first) >= 0 ? first : "";
}

TEST(IncludeDirection, EveryFolderIsAModuleOfTheArchitecture) {
  for (const auto& entry : fs::directory_iterator(source_root()))
    if (entry.is_directory()) {
      EXPECT_GE(rank(entry.path().filename().string()), 0) << entry.path();
    }
}

TEST(IncludeDirection, NoFileIncludesUpwards) {
  size_t seen = 0;
  for (const Include& include : all_includes()) {
    std::string target = module_of(include.target);
    if (target.empty() || include.module.empty()) continue;
    ++seen;
    EXPECT_GE(rank(target), rank(include.module))
        << include.file << " (" << include.module << ") includes " << include.target;
  }
  EXPECT_GT(seen, 50U) << "the test reads too little to mean anything";
}

TEST(IncludeDirection, TheBuildDeclaresOnlyDownwardDependencies) {
  static const std::regex pattern(R"(kvasir_module\((\w+)([^)]*)\))");
  std::string text = read(source_root() / "CMakeLists.txt");
  size_t modules = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern);
       it != std::sregex_iterator(); ++it, ++modules) {
    std::string name = (*it)[1].str();
    ASSERT_GE(rank(name), 0) << name;
    std::istringstream words((*it)[2].str());
    bool dependencies = false;
    for (std::string word; words >> word;) {
      if (word == "DEPENDS" || word == "LIBRARIES") {
        dependencies = word == "DEPENDS";
      } else if (dependencies) {
        EXPECT_GT(rank(word), rank(name)) << name << " depends on " << word;
        if (kPortable.count(name) != 0) {
          EXPECT_EQ(kPortable.count(word), 1U) << name;
        }
      }
    }
  }
  EXPECT_GE(modules, 8U);
}

// One such header costs seconds of compile time in every file that sees it, or ties a module to a
// platform it must not need.
TEST(IncludeDirection, HeavyLibrariesStayInTheirRoom) {
  const std::map<std::string, std::set<std::string>> rooms = {
      {"boost/", {"net"}},
      {"liburing", {"base"}},
      {"openssl/ssl", {"net"}},
      {"nlohmann/", {"cli", "api", "serve", "text", "pull", "swarm", "config", "chaos"}},
      {"CLI/", {"cli", "worker"}},
      {"pcre2", {"text"}},
      {"utf8proc", {"text"}},
      {"sodium", {"crypto"}},
      {"curl/", {"pull"}},
      {"toml++", {"config"}},
      {"sqlite3", {"store"}},
      {"pqxx/", {"store"}}};
  for (const Include& include : all_includes())
    for (const auto& [prefix, allowed] : rooms)
      if (include.target.rfind(prefix, 0) == 0 &&
          include.file.string().find("_test.cc") == std::string::npos) {
        EXPECT_EQ(allowed.count(include.module), 1U)
            << include.file << " includes " << include.target;
      }
}

}  // namespace
