# What a worker for AArch64 needs beside the portable set: static libraries of Debian's foreign
# architecture arm64 (scripts/install-packages.sh worker-arm64). Gives the same targets as the
# native build's find_package() and pkg_check_modules().
set(folder /usr/lib/aarch64-linux-gnu)
foreach(pair OpenSSL::Crypto=libcrypto.a PkgConfig::SODIUM=libsodium.a)
  string(REPLACE = ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  if(NOT EXISTS ${folder}/${file})
    message(FATAL_ERROR "${folder}/${file} is missing: run scripts/install-packages.sh worker-arm64")
  endif()
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${folder}/${file})
endforeach()
