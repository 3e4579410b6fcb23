// Writes the requests that the fuzzer starts from, one a file:
//
//   write_corpus DIRECTORY COUNT

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "server/planner/presets.h"
#include "tests/support/generated_request.h"
#include "tests/support/wire_request.h"

namespace batchplan::testing {
namespace {

bool WriteCorpus(const std::filesystem::path& directory, uint64_t count) {
  std::filesystem::create_directories(directory);
  for (uint64_t seed = 0; seed < count; ++seed) {
    v1::PlanBatchRequest request =
        WireRequest(seed % 2 == 0 ? GenerateSmallRequest(seed) : GenerateRequest(seed));
    // A preset's name among the bytes, and passes that leave the choice to it: all of "balanced",
    // which most requests take, and some of the others.
    const auto presets = PresetNames();
    request.set_preset(std::string(presets[seed % presets.size()]));
    if (seed % 5 == 0 || request.preset() == "balanced") {
      for (v1::Pass& pass : *request.mutable_passes()) {
        pass.clear_layout();
        pass.clear_sharding();
        pass.clear_equal_sequence_counts();
      }
    }
    std::ofstream file(directory / std::to_string(seed), std::ios::binary);
    if (!request.SerializeToOstream(&file)) return false;
  }
  return true;
}

}  // namespace
}  // namespace batchplan::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " DIRECTORY COUNT\n";
    return 2;
  }
  return batchplan::testing::WriteCorpus(argv[1], std::strtoull(argv[2], nullptr, 10)) ? 0 : 1;
}
