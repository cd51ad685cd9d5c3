# GoogleTest for a cross build: Debian has it compiled for this machine only, but its packages bring the
# sources. Gives the same targets as find_package(GTest).
set(root /usr/src/googletest)
add_library(kvasir_gtest STATIC EXCLUDE_FROM_ALL
  ${root}/googletest/src/gtest-all.cc ${root}/googlemock/src/gmock-all.cc ${root}/googlemock/src/gmock_main.cc)
target_include_directories(kvasir_gtest SYSTEM PUBLIC ${root}/googletest/include ${root}/googlemock/include
                                        PRIVATE ${root}/googletest ${root}/googlemock)
target_compile_options(kvasir_gtest PRIVATE -w)
add_library(GTest::gtest_main ALIAS kvasir_gtest)
add_library(GTest::gmock ALIAS kvasir_gtest)
