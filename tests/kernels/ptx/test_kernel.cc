#include "ptx/test_kernel.h"

#include <utility>

#include "ptx/parser.h"

namespace batchplan::ptx {
namespace {

constexpr char kHeader[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry test(.param .u64 out, .param .u64 in, .param .u64 n) .maxntid 256, 1, 1 {\n"
    ".reg .pred %p<8>; .reg .b16 %rs<16>; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n"
    ".reg .f32 %f<16>; .reg .f64 %fd<16>;\n";

}  // namespace

TestKernel::TestKernel(const std::string& body) : module_(Parse(kHeader + body + "\nret;\n}\n")) {}

Fault TestKernel::Run(Grid grid, std::vector<uint64_t> parameters) {
  findings_.clear();
  const Kernel& kernel = module_.at("test");
  parameters.resize(kernel.parameters.size());
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  std::memcpy(bytes.data(), parameters.data(), bytes.size());
  FindingHandler before =
      SetFindingHandler([&](const Finding& finding) { findings_.push_back(finding); });
  const Fault fault = RunKernel(kernel, grid, bytes);
  SetFindingHandler(std::move(before));
  return fault;
}

std::vector<FindingKind> TestKernel::kinds() const {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : findings_) kinds.push_back(finding.kind);
  return kinds;
}

}  // namespace batchplan::ptx
