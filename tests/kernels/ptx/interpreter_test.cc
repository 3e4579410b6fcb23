// PTX besides arithmetic: parsing, warps, atomics, orders, counts, and the streams of the runtime.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "ptx/parser.h"
#include "ptx/streams.h"
#include "ptx/test_kernel.h"

namespace batchplan::ptx {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The error of Parse for a kernel with this body, whose first line is 7.
std::string ErrorOf(const std::string& body) {
  try {
    const TestKernel kernel(body);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(ParserTest, WhatIsNotInterpretedIsNamedWithItsLine) {
  EXPECT_EQ(ErrorOf("add.s32 %r0, %r1, %r2;\nfrobnicate.s32 %r0, %r1;"),
            "PTX line 8: unknown instruction: frobnicate.s32 %r0, %r1");
  // Known instructions with unknown modifiers.
  for (const char* statement :
       {"add.sat.s32 %r0, %r1, %r2", "ld.global.frob.u32 %r0, [%rd0]", "bar.sync 1",
        "bar.sync 0, 64", "atom.global.frob.u32 %r0, [%rd0], 1", "shfl.up.b32 %r0, %r1, 1, 0",
        "cvt.rn.f16.f32 %rs0, %f0", "add.s32 %r0, %r1", "activemask.b32 %r0",
        "ld.global.v4.u32 {%r0, %r1}, [%rd0]", "setp.lt.and.s32 %p0, %r0, %r1, %p1"}) {
    EXPECT_EQ(ErrorOf(std::string(statement) + ";"),
              "PTX line 7: unknown instruction: " + std::string(statement));
  }
}

TEST(ParserTest, UnknownNamesAreErrors) {
  EXPECT_EQ(ErrorOf("mov.u32 %r0, %smid;"), "PTX line 7: unknown operand %smid");
  EXPECT_EQ(ErrorOf("mov.u32 %r99, 1;"), "PTX line 7: unknown operand %r99");
  EXPECT_EQ(ErrorOf("bra NOWHERE;"), "PTX line 7: unknown label NOWHERE");
  EXPECT_EQ(ErrorOf(".frob 1;"), "PTX line 7: unknown directive: .frob 1");
  EXPECT_EQ(ErrorOf("ret"), "PTX line 7: unknown instruction: ret ret");
}

TEST(ParserTest, FunctionsAreErrors) {
  EXPECT_THROW(Parse(".version 9.0\n.func f() {\nret;\n}\n"), ParseError);
}

TEST(ParserTest, InlineAssemblyHasRegistersOfItsOwn) {
  TestKernel kernel(
      "mov.u32 %r0, 1; { .reg .u32 %r0; mov.u32 %r0, 2; /* } */ }\n"
      "ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r0; // };");
  const DeviceArray<uint32_t> out(1, 0);
  kernel.Run({1, 1}, {out.address()});
  EXPECT_THAT(out.Values(), ElementsAre(1));
}

TEST(ParserTest, LinesOfTheSourceAreKnown) {
  const Module module = Parse(
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".entry k() {\n.loc 1 42 7\nmembar.gl;\n.loc 1 43 1, function_name $L, inlined_at 1 2 3\n"
      "ret;\n}\n.file 1 \"/folder/source.cu\"\n.section .debug_str { $L: .b8 107 }\n");
  const Kernel& kernel = module.at("k");
  EXPECT_THAT(kernel.source_line, testing::Contains("source.cu:42"));
  EXPECT_EQ(kernel.source_line[1], "source.cu:43");
  EXPECT_EQ(kernel.line[1], 8);
}

// Writes %r0 of each thread to `out`.
constexpr char kLeaveResult[] =
    "ld.param.u64 %rd0, [out]; mov.u32 %r9, %tid.x; mul.wide.u32 %rd1, %r9, 4;\n"
    "add.s64 %rd0, %rd0, %rd1; st.global.u32 [%rd0], %r0;\n";

std::vector<uint32_t> ResultsOf(const std::string& body, uint32_t threads) {
  TestKernel kernel("mov.u32 %r1, %laneid;\n" + body + kLeaveResult);
  const DeviceArray<uint32_t> out(threads, 0);
  EXPECT_EQ(kernel.Run({1, threads}, {out.address()}), Fault::kNone) << body;
  EXPECT_THAT(kernel.findings(), IsEmpty()) << body;
  return out.Values();
}

TEST(WarpTest, ShufflesReadOtherLanes) {
  EXPECT_THAT(ResultsOf("shfl.sync.up.b32 %r0, %r1, 1, 0, 15;", 4), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(ResultsOf("shfl.sync.down.b32 %r0, %r1, 1, 3, 15;", 4), ElementsAre(1, 2, 3, 3));
  EXPECT_THAT(ResultsOf("shfl.sync.bfly.b32 %r0, %r1, 1, 31, 15;", 4), ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(ResultsOf("shfl.sync.idx.b32 %r0, %r1, 2, 31, 15;", 4), ElementsAre(2, 2, 2, 2));
  // In segments of two lanes; also whether the source lane is within.
  EXPECT_THAT(ResultsOf("shfl.sync.idx.b32 %r0, %r1, 1, 0x1e1f, 15;", 4), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(ResultsOf("shfl.sync.down.b32 %r0|%p0, %r1, 2, 3, 15; selp.b32 %r0, 7, 8, %p0;", 4),
              ElementsAre(7, 7, 8, 8));
}

TEST(WarpTest, VotesAndReductionsAreThoseOfTheMask) {
  const std::string odd = "and.b32 %r2, %r1, 1; setp.ne.u32 %p0, %r2, 0;\n";
  EXPECT_THAT(ResultsOf(odd + "vote.sync.ballot.b32 %r0, %p0, 15;", 4), Each(0b1010));
  EXPECT_THAT(ResultsOf(odd + "vote.sync.ballot.b32 %r0, !%p0, 15;", 4), Each(0b0101));
  EXPECT_THAT(ResultsOf(odd + "vote.sync.any.pred %p1, %p0, 15; selp.b32 %r0, 1, 0, %p1;", 4),
              Each(1));
  EXPECT_THAT(ResultsOf(odd + "vote.sync.all.pred %p1, %p0, 15; selp.b32 %r0, 1, 0, %p1;", 4),
              Each(0));
  EXPECT_THAT(ResultsOf("redux.sync.add.u32 %r0, %r1, 15;", 4), Each(6));
  EXPECT_THAT(ResultsOf("sub.s32 %r2, 1, %r1; redux.sync.min.s32 %r0, %r2, 15;", 4),
              Each(static_cast<uint32_t>(-2)));
  EXPECT_THAT(ResultsOf("and.b32 %r2, %r1, 1; match.any.sync.b32 %r0, %r2, 15;", 4),
              ElementsAre(0b0101, 0b1010, 0b0101, 0b1010));
  EXPECT_THAT(ResultsOf(odd + "bar.red.popc.u32 %r0, 0, %p0;", 6), Each(3));
}

TEST(AtomicTest, LeavesTheOldValueInItsRegister) {
  const DeviceArray<uint32_t> word({5});
  const auto run = [&](const std::string& instruction) {
    TestKernel kernel("ld.param.u64 %rd2, [in];" + instruction + kLeaveResult);
    const DeviceArray<uint32_t> out(1, 0);
    EXPECT_EQ(kernel.Run({1, 1}, {out.address(), word.address()}), Fault::kNone);
    return std::pair(out.Values()[0], word.Values()[0]);
  };
  EXPECT_EQ(run("atom.global.add.u32 %r0, [%rd2], 2;"), std::pair(5U, 7U));
  EXPECT_EQ(run("atom.global.cas.b32 %r0, [%rd2], 6, 1;"), std::pair(7U, 7U));
  EXPECT_EQ(run("atom.acq_rel.gpu.global.cas.b32 %r0, [%rd2], 7, 1;"), std::pair(7U, 1U));
  EXPECT_EQ(run("atom.global.exch.b32 %r0, [%rd2], 12;"), std::pair(1U, 12U));
  EXPECT_EQ(run("atom.global.min.s32 %r0, [%rd2], -3;"), std::pair(12U, static_cast<uint32_t>(-3)));
  EXPECT_EQ(run("atom.global.inc.u32 %r0, [%rd2], 12;"), std::pair(static_cast<uint32_t>(-3), 0U));
  EXPECT_EQ(run("atom.global.dec.u32 %r0, [%rd2], 13;"), std::pair(0U, 13U));
  EXPECT_EQ(run("mov.u32 %r0, 0; red.global.and.b32 [%rd2], 0xf;"), std::pair(0U, 13U));
}

TEST(ExecutorTest, LocalAndSharedMemoryAreReachedByGenericAddresses) {
  EXPECT_THAT(
      ResultsOf(".local .align 8 .b8 own[16]; mov.u64 %rd3, own; cvta.local.u64 %rd4, %rd3;\n"
                "st.u32 [%rd4+8], %r1; ld.local.u32 %r0, [%rd3+8];",
                3),
      ElementsAre(0, 1, 2));
  EXPECT_THAT(ResultsOf(".shared .align 4 .b8 words[4]; mov.u64 %rd3, words;\n"
                        "cvta.shared.u64 %rd4, %rd3; st.u32 [%rd4], 9; ld.shared.u32 %r0, [words];",
                        1),
              ElementsAre(9));
}

// In different orders, threads have different results where nothing orders them; here, only atomics
// do.
TEST(ExecutorTest, EveryOrderRunsEveryThread) {
  using Order = LaunchOptions::Order;
  const LaunchOptions before = CurrentLaunchOptions();
  TestKernel kernel("ld.param.u64 %rd2, [in]; atom.global.add.u32 %r0, [%rd2], 1; bar.sync 0;\n" +
                    std::string(kLeaveResult));
  std::vector<std::vector<uint32_t>> results;
  for (const Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    CurrentLaunchOptions().order = order;
    const DeviceArray<uint32_t> counter(1, 0);
    const DeviceArray<uint32_t> out(64, 0);
    EXPECT_EQ(kernel.Run({1, 64}, {out.address(), counter.address()}), Fault::kNone);
    EXPECT_THAT(counter.Values(), ElementsAre(64));
    results.push_back(out.Values());
  }
  CurrentLaunchOptions() = before;
  EXPECT_EQ(results[0][0], 0);
  EXPECT_EQ(results[1][0], 63);
  EXPECT_NE(results[2], results[0]);
}

TEST(CountsTest, WarpsIssueOnceWhatTheirLanesDoTogether) {
  const LaunchOptions before = CurrentLaunchOptions();
  Counts counts;
  CurrentLaunchOptions().on_counts = [&](const Kernel&, const LaunchCounter& counter,
                                         double scale) { counts += counter.Total(scale); };
  // 64 threads in two warps run nine instructions, and the first lane of each a tenth.
  TestKernel kernel("mov.u32 %r0, %laneid; setp.ne.u32 %p0, %r0, 0;\n" + std::string(kLeaveResult) +
                    "@%p0 bra END; membar.gl;\nEND:");
  const DeviceArray<uint32_t> out(64, 0);
  kernel.Run({1, 64}, {out.address()});
  CurrentLaunchOptions() = before;
  EXPECT_EQ(counts.warp_instructions, 2 * 10);
  EXPECT_EQ(counts.load_sectors, 0);
  // 256 bytes from address 256: no sector is touched partially.
  EXPECT_EQ(counts.store_sectors, 8);
}

TEST(CountsTest, SampledBlocksStandForTheGrid) {
  const LaunchOptions before = CurrentLaunchOptions();
  CurrentLaunchOptions().sampled_blocks = 4;
  Counts counts;
  CurrentLaunchOptions().on_counts = [&](const Kernel&, const LaunchCounter& counter,
                                         double scale) { counts += counter.Total(scale); };
  TestKernel kernel("membar.gl;");
  kernel.Run({1000, 32});
  CurrentLaunchOptions() = before;
  EXPECT_EQ(counts.warp_instructions, 2000);
}

TEST(RuntimeTest, WorkIsDoneWhenItsStreamIsWaitedFor) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const DeviceArray<uint32_t> out({1});
  auto* const device = reinterpret_cast<void*>(out.address());
  ASSERT_EQ(cudaMemsetAsync(device, 0, 4, stream), cudaSuccess);
  EXPECT_THAT(out.Values(), ElementsAre(1));
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_THAT(out.Values(), ElementsAre(0));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

TEST(RuntimeTest, CapturedWorkRunsAtEachReplayAlone) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const DeviceArray<uint32_t> out({1});
  auto* const device = reinterpret_cast<void*>(out.address());
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device, 0, 4, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_THAT(out.Values(), ElementsAre(1));
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_THAT(out.Values(), ElementsAre(0));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST(RuntimeTest, CallsThatWaitOrAllocateInvalidateACapture) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const auto invalidates = [&](const auto& call) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_NE(call(), cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  };
  void* memory = nullptr;
  invalidates([&] { return cudaMalloc(&memory, 4); });
  invalidates([&] { return cudaDeviceSynchronize(); });
  invalidates([&] { return cudaStreamSynchronize(stream); });
  invalidates([&] { return cudaMemsetAsync(nullptr, 0, 0, nullptr); });
  cudaStreamDestroy(stream);
  static_cast<void>(cudaGetLastError());
}

TEST(RuntimeTest, CopiesStayWithinAllocations) {
  std::optional<Finding> found;
  FindingHandler before = SetFindingHandler([&](const Finding& finding) { found = finding; });
  const DeviceArray<uint32_t> out(1, 0);
  const std::vector<uint32_t> two(2);
  cudaMemcpy(reinterpret_cast<void*>(out.address()), two.data(), 8, cudaMemcpyDefault);
  SetFindingHandler(std::move(before));
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->message, AllOf(HasSubstr("a copy of 8 bytes is out of bounds"),
                                    HasSubstr("of the 4 bytes at")));
}

TEST(RuntimeTest, ManagedMemoryIsTheHostsToo) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(&memory, 4), cudaSuccess);
  *static_cast<uint32_t*>(memory) = 3;
  TestKernel kernel("ld.param.u64 %rd0, [out]; atom.global.add.u32 %r0, [%rd0], 1;");
  EXPECT_EQ(kernel.Run({1, 2}, {reinterpret_cast<uint64_t>(memory)}), Fault::kNone);
  EXPECT_EQ(*static_cast<uint32_t*>(memory), 5);
  cudaFree(memory);
}

}  // namespace
}  // namespace batchplan::ptx
