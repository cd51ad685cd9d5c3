// For tests only.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {

// An empty folder that goes away with its contents.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvasir-XXXXXX").string();
    KVASIR_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string write(std::string_view name, ByteSpan bytes) const {
    std::ofstream out(path(name), std::ios::binary);
    out << text_of(bytes);
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace kvasir
