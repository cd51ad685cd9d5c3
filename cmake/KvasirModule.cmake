# kvasir_module(name DEPENDS modules... LIBRARIES third-party...)
#
# One static library per folder under src/, and one test executable from its *_test.cc files.
# The build enforces the direction of dependencies: a module's include path holds its own folder and
# those of the modules it names (and theirs), through one folder of links per module. Including
# anything else does not compile.
function(kvasir_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  set(root ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${root}/${name} SYMBOLIC)

  set(target kvasir_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${root})
  list(TRANSFORM arg_DEPENDS PREPEND kvasir_ OUTPUT_VARIABLE dependencies)
  target_link_libraries(${target} PUBLIC ${dependencies} PRIVATE ${arg_LIBRARIES})
  if(NOT KVASIR_PORTABLE_ONLY)
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  endif()

  if(tests AND TARGET GTest::gtest_main)
    kvasir_test(${name}_test SOURCES ${tests} LIBRARIES ${target} ${arg_LIBRARIES})
  endif()
endfunction()

# kvasir_executable(name SOURCES files... LIBRARIES targets...)
#
# Cross builds make one file that needs nothing of the system it is copied to.
function(kvasir_executable name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  if(KVASIR_PORTABLE_ONLY AND NOT EMSCRIPTEN)
    target_link_options(${name} PRIVATE -static-pie)
  endif()
endfunction()

# kvasir_test(name SOURCES files... LIBRARIES targets... [TIMEOUT seconds])
function(kvasir_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(KVASIR_SANITIZE)
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")
  endif()
  kvasir_executable(${name} SOURCES ${arg_SOURCES}
                    LIBRARIES ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled_test.h)
  target_compile_definitions(${name} PRIVATE KVASIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  include(GoogleTest)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()
