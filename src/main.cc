#include "cli/cli.h"

int main(int argc, char** argv) {
  return kvasir::cli::run(argc, argv);
}
