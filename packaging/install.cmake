# Runs while installing. KVASIR_EXECUTABLE: the one that was built. KVASIR_PACKAGING: this folder.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

function(print_into file)
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${KVASIR_EXECUTABLE} ${ARGN} OUTPUT_FILE ${file}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY ${root}/share/man/man1)
execute_process(COMMAND ${KVASIR_EXECUTABLE} man -o ${root}/share/man/man1
                COMMAND_ERROR_IS_FATAL ANY)
print_into(${root}/share/bash-completion/completions/kvasir completion bash)
print_into(${root}/share/zsh/site-functions/_kvasir completion zsh)
print_into(${root}/share/fish/vendor_completions.d/kvasir.fish completion fish)

foreach(kind system user)
  file(GLOB units ${KVASIR_PACKAGING}/systemd/${kind}/*.service)
  foreach(unit ${units})
    get_filename_component(name ${unit} NAME)
    file(READ ${unit} text)
    string(REPLACE "/usr/bin/kvasir" "${CMAKE_INSTALL_PREFIX}/bin/kvasir" text "${text}")
    file(WRITE ${root}/lib/systemd/${kind}/${name} "${text}")
  endforeach()
endforeach()
