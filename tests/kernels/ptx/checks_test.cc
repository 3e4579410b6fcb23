// Kernels with one fault each, which the interpreter must find, and the same kernels without it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptx/test_kernel.h"

namespace batchplan::ptx {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// %rd1 points to the thread's own word of `out`, %rd2 to that of `in`; %r0 is its number in the
// grid.
constexpr char kOwnWords[] =
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
    "mad.lo.s32 %r0, %r0, %r1, %r2;\n"
    "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mul.wide.u32 %rd3, %r0, 4;\n"
    "add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n";

TestKernel OwnWords(const std::string& body) { return TestKernel(kOwnWords + body); }

TEST(ChecksTest, AccessesWithinAnAllocationAreNoFindings) {
  TestKernel kernel = OwnWords("ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd1], %r3;");
  const DeviceArray<uint32_t> in({5, 6, 7, 8});
  const DeviceArray<uint32_t> out(4, 0);
  EXPECT_EQ(kernel.Run({2, 2}, {out.address(), in.address()}), Fault::kNone);
  EXPECT_THAT(kernel.findings(), IsEmpty());
  EXPECT_THAT(out.Values(), ElementsAre(5, 6, 7, 8));
}

TEST(ChecksTest, AWriteBehindAnAllocationNamesAllThatIsToBeKnown) {
  TestKernel kernel = OwnWords("st.global.u32 [%rd1], %r0;");
  const DeviceArray<uint32_t> out(3, 0);
  EXPECT_EQ(kernel.Run({1, 4}, {out.address()}), Fault::kIllegalAddress);
  ASSERT_THAT(kernel.kinds(), ElementsAre(FindingKind::kOutOfBounds));
  EXPECT_THAT(kernel.findings()[0].message,
              AllOf(HasSubstr("writes out of bounds: st.global.u32 [%rd1], %r0"),
                    HasSubstr("test, PTX line 11, block 0, thread 3"),
                    HasSubstr("0 bytes behind the end of the 12 bytes at 0x")));
}

TEST(ChecksTest, AReadBeforeAnAllocationIsFound) {
  TestKernel kernel = OwnWords("ld.global.u32 %r3, [%rd2+-4];");
  const DeviceArray<uint32_t> in(1, 0);
  EXPECT_EQ(kernel.Run({1, 1}, {0, in.address()}), Fault::kIllegalAddress);
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kOutOfBounds));
}

TEST(ChecksTest, NullPointersAndMemoryOfTheHostAreOutOfBounds) {
  TestKernel kernel = OwnWords("ld.global.u32 %r3, [%rd2];");
  const uint32_t on_host = 0;
  EXPECT_EQ(kernel.Run({1, 1}), Fault::kIllegalAddress);
  EXPECT_EQ(kernel.Run({1, 1}, {0, reinterpret_cast<uint64_t>(&on_host)}), Fault::kIllegalAddress);
  EXPECT_THAT(kernel.findings()[0].message, HasSubstr("which is not the device's"));
}

TEST(ChecksTest, FreedMemoryIsOutOfBounds) {
  TestKernel kernel = OwnWords("ld.global.u32 %r3, [%rd2];");
  uint64_t freed = 0;
  {
    const DeviceArray<uint32_t> in(1, 0);
    freed = in.address();
  }
  const DeviceArray<uint32_t> another(1, 0);
  EXPECT_EQ(kernel.Run({1, 1}, {0, freed}), Fault::kIllegalAddress);
}

TEST(ChecksTest, GuardsAroundAnArrayAreOutOfBoundsForKernels) {
  TestKernel kernel = OwnWords("ld.global.u32 %r3, [%rd2];");
  const DeviceArray<uint32_t> in(4, 0);
  DeviceMemory::Get().Restrict(reinterpret_cast<void*>(in.address() + 4), 8);
  EXPECT_EQ(kernel.Run({1, 1}, {0, in.address()}), Fault::kIllegalAddress);
  EXPECT_EQ(kernel.Run({1, 2}, {0, in.address() + 4}), Fault::kNone);
  EXPECT_EQ(kernel.Run({1, 3}, {0, in.address() + 4}), Fault::kIllegalAddress);
}

TEST(ChecksTest, MisalignedVectorsAreFound) {
  TestKernel kernel = OwnWords("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];");
  const DeviceArray<uint32_t> in(8, 0);
  EXPECT_EQ(kernel.Run({1, 1}, {0, in.address()}), Fault::kNone);
  EXPECT_EQ(kernel.Run({1, 1}, {0, in.address() + 8}), Fault::kMisalignedAddress);
  ASSERT_THAT(kernel.kinds(), ElementsAre(FindingKind::kMisaligned));
  EXPECT_THAT(kernel.findings()[0].message, HasSubstr("misaligned by 8 bytes"));
}

TEST(ChecksTest, TwoThreadsThatWriteOnePlaceRace) {
  TestKernel kernel = OwnWords("ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], 1;");
  const DeviceArray<uint32_t> out(1, 0);
  kernel.Run({1, 2}, {out.address()});
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kGlobalRace));
  kernel.Run({2, 1}, {out.address()});
  ASSERT_THAT(kernel.kinds(), ElementsAre(FindingKind::kGlobalRace));
  EXPECT_THAT(kernel.findings()[0].message,
              HasSubstr("written though block 0, thread 0 writes it in the same launch"));
}

TEST(ChecksTest, AReadOfWhatAnotherThreadWritesRacesWhicheverComesFirst) {
  // Each reads its neighbour's word, before or after it writes its own.
  const DeviceArray<uint32_t> out(3, 0);
  for (const char* body : {"ld.global.u32 %r3, [%rd1+4]; st.global.u32 [%rd1], 1;",
                           "st.global.u32 [%rd1+4], 1; ld.global.u32 %r3, [%rd1];"}) {
    TestKernel kernel = OwnWords(body);
    kernel.Run({1, 2}, {out.address()});
    EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kGlobalRace)) << body;
  }
}

TEST(ChecksTest, ABarrierOrdersGlobalMemoryWithinABlockAlone) {
  TestKernel kernel = OwnWords(
      "st.global.u32 [%rd1], 1; bar.sync 0;\n"
      "xor.b32 %r4, %r0, 1; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd3, %r4, 4;\n"
      "add.s64 %rd1, %rd1, %rd3; ld.global.u32 %r3, [%rd1];");
  const DeviceArray<uint32_t> out(2, 0);
  kernel.Run({1, 2}, {out.address()});
  EXPECT_THAT(kernel.findings(), IsEmpty());
  kernel.Run({2, 1}, {out.address()});
  EXPECT_THAT(kernel.kinds(), Contains(FindingKind::kGlobalRace));
}

// The last block of a grid reads what the others wrote.
TEST(ChecksTest, FencesAndAnAtomicOrderBlocks) {
  const std::string before = "st.global.u32 [%rd1], 1;\n";
  const std::string after =
      "ld.param.u64 %rd4, [in]; atom.global.add.u32 %r5, [%rd4], 1;\n"
      "setp.ne.u32 %p0, %r5, 1; @%p0 bra END;\n";
  const std::string sum =
      "ld.param.u64 %rd5, [out]; ld.global.u32 %r6, [%rd5]; ld.global.u32 %r7, [%rd5+4];\n"
      "END:\n";
  const DeviceArray<uint32_t> out(2, 0);
  {
    const DeviceArray<uint32_t> count(1, 0);
    TestKernel kernel = OwnWords(before + "membar.gl;\n" + after + "membar.gl;\n" + sum);
    kernel.Run({2, 1}, {out.address(), count.address()});
    EXPECT_THAT(kernel.findings(), IsEmpty());
  }
  for (const std::string& body :
       {before + after + "membar.gl;\n" + sum, before + "membar.gl;\n" + after + sum}) {
    const DeviceArray<uint32_t> count(1, 0);
    TestKernel kernel = OwnWords(body);
    kernel.Run({2, 1}, {out.address(), count.address()});
    EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kGlobalRace)) << body;
  }
}

TEST(ChecksTest, AtomicsDoNotRaceWithEachOtherButWithPlainAccesses) {
  const DeviceArray<uint32_t> out(1, 0);
  const std::string atomic = "ld.param.u64 %rd1, [out]; atom.global.add.u32 %r3, [%rd1], 1;";
  TestKernel atomics = OwnWords(atomic);
  atomics.Run({2, 2}, {out.address()});
  EXPECT_THAT(atomics.findings(), IsEmpty());
  EXPECT_THAT(out.Values(), ElementsAre(4));
  TestKernel mixed = OwnWords(atomic + "ld.global.u32 %r4, [%rd1];");
  mixed.Run({1, 2}, {out.address()});
  EXPECT_THAT(mixed.kinds(), Contains(FindingKind::kGlobalRace));
}

TEST(ChecksTest, AWordThatAThreadWritesTwiceIsFound) {
  const DeviceArray<uint32_t> out(1, 0);
  for (const char* first : {"st.global.u32", "st.volatile.global.u32"}) {
    TestKernel kernel = OwnWords(std::string(first) + " [%rd1], 1; st.global.u32 [%rd1], 2;");
    kernel.Run({1, 1}, {out.address()});
    EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kWrittenTwice)) << first;
  }
  TestKernel once = OwnWords("st.global.u32 [%rd1], 1;");
  once.Run({1, 1}, {out.address()});
  EXPECT_THAT(once.findings(), IsEmpty()) << "another launch may write it again";
}

TEST(ChecksTest, TheReadOnlyPathMayNotReadWhatTheLaunchWrites) {
  TestKernel kernel = OwnWords("ld.global.nc.u32 %r3, [%rd1]; st.global.u32 [%rd1], 1;");
  const DeviceArray<uint32_t> out(1, 0);
  kernel.Run({1, 1}, {out.address()});
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kReadOnly));
}

// Each thread writes its number to shared memory, then reads its neighbour's.
TestKernel Exchange(const std::string& between) {
  return OwnWords(
      ".shared .align 4 .b8 words[256];\n"
      "mov.u32 %r4, words; shl.b32 %r5, %r2, 2; add.s32 %r6, %r4, %r5; st.shared.u32 [%r6], "
      "%r2;\n" +
      between +
      "xor.b32 %r5, %r5, 4; add.s32 %r6, %r4, %r5; ld.shared.u32 %r7, [%r6];\n"
      "st.global.u32 [%rd1], %r7;");
}

TEST(ChecksTest, SharedMemoryIsExchangedOverABarrier) {
  const DeviceArray<uint32_t> out(4, 0);
  TestKernel block = Exchange("bar.sync 0;\n");
  EXPECT_EQ(block.Run({1, 4}, {out.address()}), Fault::kNone);
  EXPECT_THAT(block.findings(), IsEmpty());
  EXPECT_THAT(out.Values(), ElementsAre(1, 0, 3, 2));
  TestKernel warp = Exchange("bar.warp.sync 15;\n");
  warp.Run({1, 4}, {out.address()});
  EXPECT_THAT(warp.findings(), IsEmpty());
}

TEST(ChecksTest, SharedMemoryWithoutABarrierRaces) {
  const DeviceArray<uint32_t> out(4, 0);
  TestKernel kernel = Exchange("");
  kernel.Run({1, 4}, {out.address()});
  EXPECT_THAT(kernel.kinds(), Contains(FindingKind::kSharedRace));
}

TEST(ChecksTest, AWarpsBarrierDoesNotOrderTwoWarps) {
  const DeviceArray<uint32_t> out(64, 0);
  TestKernel kernel = OwnWords(
      ".shared .align 4 .b8 word[4];\n"
      "setp.eq.u32 %p0, %r2, 0; @%p0 st.shared.u32 [word], 1; bar.warp.sync -1;\n"
      "ld.shared.u32 %r7, [word];");
  kernel.Run({1, 64}, {out.address()});
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kSharedRace));
}

TEST(ChecksTest, ASecondTileOverTheFirstNeedsABarrierToo) {
  const DeviceArray<uint32_t> out(4, 0);
  const std::string tile =
      "st.shared.u32 [%r6], %r2; bar.sync 0; xor.b32 %r8, %r6, 4; ld.shared.u32 %r7, [%r8];\n";
  const std::string shared =
      ".shared .align 1024 .b8 words[1024];\n"
      "mov.u32 %r4, words; shl.b32 %r5, %r2, 2; add.s32 %r6, %r4, %r5;\n";
  TestKernel right = OwnWords(shared + tile + "bar.sync 0;\n" + tile);
  right.Run({1, 4}, {out.address()});
  EXPECT_THAT(right.findings(), IsEmpty());
  TestKernel wrong = OwnWords(shared + tile + tile);
  wrong.Run({1, 4}, {out.address()});
  EXPECT_THAT(wrong.kinds(), Contains(FindingKind::kSharedRace));
}

TEST(ChecksTest, UninitialisedSharedMemoryIsFound) {
  TestKernel kernel(".shared .align 4 .b8 word[4]; ld.shared.u32 %r0, [word];");
  kernel.Run({1, 1});
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kUninitialized));
}

TEST(ChecksTest, SharedMemoryHasBounds) {
  TestKernel kernel(".shared .align 4 .b8 word[4]; st.shared.u32 [word+4], 1;");
  EXPECT_EQ(kernel.Run({1, 1}), Fault::kIllegalAddress);
  ASSERT_THAT(kernel.kinds(), ElementsAre(FindingKind::kOutOfBounds));
  EXPECT_THAT(kernel.findings()[0].message, HasSubstr("offset 4 of the 4 bytes of shared memory"));
}

TEST(ChecksTest, ABarrierThatNotAllReachDiverges) {
  TestKernel exits("mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 2; @%p0 bra END; bar.sync 0;\nEND:");
  exits.Run({1, 4});
  EXPECT_THAT(exits.kinds(), ElementsAre(FindingKind::kDivergence));
  TestKernel branches(
      "mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 2; @%p0 bra ELSE; bar.sync 0; bra END;\n"
      "ELSE: bar.sync 0;\nEND:");
  branches.Run({1, 4});
  EXPECT_THAT(branches.kinds(), ElementsAre(FindingKind::kDivergence));
}

TEST(ChecksTest, LanesThatDoNotComeAreADeadlock) {
  TestKernel kernel(
      "mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 2; @%p0 bra ELSE; bar.warp.sync 15;\n"
      "ELSE: bar.sync 0;");
  EXPECT_EQ(kernel.Run({1, 4}), Fault::kDeadlock);
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kDeadlock));
}

TEST(ChecksTest, AShuffleWithAWrongMaskIsFound) {
  // Lane 3 is not named; lane 2 reads it.
  TestKernel reads(
      "mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 3; @%p0 bra END;\n"
      "shfl.sync.down.b32 %r1, %r0, 1, 31, 7;\nEND:");
  reads.Run({1, 4});
  EXPECT_THAT(reads.kinds(), ElementsAre(FindingKind::kWarpMask));
  // All lanes are named, but one has exited.
  TestKernel exited(
      "mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 3; @%p0 ret;\n"
      "shfl.sync.idx.b32 %r1, %r0, 0, 31, 15;");
  exited.Run({1, 4});
  EXPECT_THAT(exited.kinds(), ElementsAre(FindingKind::kWarpMask));
  TestKernel own("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;");
  own.Run({1, 2});
  EXPECT_THAT(own.kinds(), ElementsAre(FindingKind::kWarpMask));
}

TEST(ChecksTest, DivisionByZeroIsFound) {
  TestKernel kernel("ld.param.u64 %rd0, [n]; div.u64 %rd1, 7, %rd0;");
  kernel.Run({1, 1}, {0, 0, 1});
  EXPECT_THAT(kernel.findings(), IsEmpty());
  kernel.Run({1, 1}, {0, 0, 0});
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kDivisionByZero));
}

TEST(ChecksTest, AKernelThatDoesNotEndIsADeadlock) {
  TestKernel kernel("LOOP: bra LOOP;");
  EXPECT_EQ(kernel.Run({1, 1}), Fault::kDeadlock);
  EXPECT_THAT(kernel.kinds(), ElementsAre(FindingKind::kDeadlock));
}

}  // namespace
}  // namespace batchplan::ptx
