# Compiler flags of every target.
#
# Exactness first: no contraction to fused multiply-add and no value-changing optimisation, so that one
# source line is one rounding everywhere (docs/arithmetic.md).
add_compile_options(-ffp-contract=off -fno-fast-math)
add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast
                    -Wcast-qual -Woverloaded-virtual -Wdouble-promotion -Wimplicit-fallthrough)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT EMSCRIPTEN)
  # The oldest processor a binary must run on. Files of one instruction set add their own -m flags.
  add_compile_options(-march=x86-64-v2)
endif()

if(KVASIR_PORTABLE_ONLY)
  # Cross compilers must not see /usr/include of this machine, so the few header-only libraries are
  # reached through a folder that holds nothing else.
  set(KVASIR_THIRD_PARTY ${CMAKE_BINARY_DIR}/third_party)
  file(MAKE_DIRECTORY ${KVASIR_THIRD_PARTY})
  set(libraries tl fmt)
  if(KVASIR_WORKER)
    list(APPEND libraries boost CLI openssl sodium sodium.h)
  endif()
  foreach(library ${libraries})
    file(CREATE_LINK /usr/include/${library} ${KVASIR_THIRD_PARTY}/${library} SYMBOLIC)
  endforeach()
  include_directories(SYSTEM ${KVASIR_THIRD_PARTY})
  add_compile_definitions(FMT_HEADER_ONLY=1)
endif()
if(NOT EMSCRIPTEN)
  add_compile_options(-fPIE -fstack-protector-strong)
  add_link_options(-Wl,-z,relro,-z,now)
  if(NOT KVASIR_PORTABLE_ONLY)
    add_link_options(-pie)  # else kvasir_executable() says how
  endif()
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
  if(CMAKE_BUILD_TYPE MATCHES "Release|RelWithDebInfo" AND NOT KVASIR_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-D_FORTIFY_SOURCE=3>)
  endif()
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

if(KVASIR_SANITIZE)
  # g++ loses track of what is initialised under its own checks (std::function inside std::regex).
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # half the compile time of -O2 under sanitizers
  add_compile_options(-fsanitize=${KVASIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KVASIR_SANITIZE})
endif()
if(KVASIR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(KVASIR_CCACHE ccache)
if(KVASIR_CCACHE AND NOT EMSCRIPTEN)
  # The sloppiness is what ccache asks for to work with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${KVASIR_CCACHE})
  add_compile_options($<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-fpch-preprocess>)
endif()
