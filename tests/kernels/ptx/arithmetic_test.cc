// Instructions with known results, from the definitions in the PTX manual.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <ostream>

#include "ptx/test_kernel.h"

namespace batchplan::ptx {
namespace {

using ::testing::IsEmpty;

struct Case {
  // Computes RESULT from its operands.
  const char* instruction;
  // The kind of register: %r, %rd, %f, %fd or %p.
  const char* result;
  uint64_t expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.instruction; }

constexpr uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
constexpr uint64_t Bits32(int32_t value) { return static_cast<uint32_t>(value); }
constexpr uint64_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }
constexpr uint64_t BitsOf(double value) { return std::bit_cast<uint64_t>(value); }

// The result as 64 bits; bits above the register's are cleared.
uint64_t ResultOf(const Case& c) {
  const std::string result = std::string(c.result) + "0";
  std::string body = c.instruction;
  body.replace(body.find("RESULT"), 6, result);
  body += "; ld.param.u64 %rd9, [out];";
  if (result == "%r0") body += "cvt.u64.u32 %rd8, %r0;";
  if (result == "%rd0") body += "mov.u64 %rd8, %rd0;";
  if (result == "%f0") body += "mov.b32 %r8, %f0; cvt.u64.u32 %rd8, %r8;";
  if (result == "%fd0") body += "mov.b64 %rd8, %fd0;";
  if (result == "%p0") body += "selp.b64 %rd8, 1, 0, %p0;";
  TestKernel kernel(body + "st.global.u64 [%rd9], %rd8;");
  const DeviceArray<uint64_t> out(1, 0);
  EXPECT_EQ(kernel.Run({1, 1}, {out.address()}), Fault::kNone);
  EXPECT_THAT(kernel.findings(), IsEmpty());
  return out.Values()[0];
}

class ArithmeticTest : public testing::TestWithParam<Case> {};

TEST_P(ArithmeticTest, HasTheKnownResult) { EXPECT_EQ(ResultOf(GetParam()), GetParam().expected); }

constexpr int32_t kLeast32 = std::numeric_limits<int32_t>::min();
constexpr int64_t kLeast64 = std::numeric_limits<int64_t>::min();

INSTANTIATE_TEST_SUITE_P(
    Integers, ArithmeticTest,
    testing::Values(
        Case{"add.s32 RESULT, 2147483647, 1", "%r", Bits32(kLeast32)},
        Case{"add.s64 RESULT, -1, 1", "%rd", 0}, Case{"sub.s32 RESULT, 0, 1", "%r", Bits32(-1)},
        Case{"mul.lo.s32 RESULT, 65536, 65537", "%r", 65536},
        Case{"mul.hi.u32 RESULT, 0xffffffff, 0xffffffff", "%r", 0xfffffffe},
        Case{"mul.hi.s32 RESULT, -1, 5", "%r", Bits32(-1)},
        Case{"mul.hi.u64 RESULT, 0xffffffffffffffff, 3", "%rd", 2},
        Case{"mul.wide.u32 RESULT, 0xffffffff, 16", "%rd", 0xffffffff0},
        Case{"mul.wide.s32 RESULT, -2, 3", "%rd", Bits(-6)},
        Case{"mad.lo.s32 RESULT, 3, 4, -5", "%r", 7},
        Case{"mad.hi.u32 RESULT, 0x80000000, 6, 1", "%r", 4},
        Case{"mad.wide.u32 RESULT, 0xffffffff, 2, 1", "%rd", 0x1ffffffff},
        Case{"div.s32 RESULT, -7, 2", "%r", Bits32(-3)},
        Case{"div.u32 RESULT, 0xfffffff9, 2", "%r", 0x7ffffffc},
        Case{"div.s64 RESULT, -9223372036854775808, -1", "%rd", Bits(kLeast64)},
        Case{"rem.s32 RESULT, -7, 2", "%r", Bits32(-1)},
        Case{"rem.s64 RESULT, -9223372036854775808, -1", "%rd", 0},
        Case{"rem.u64 RESULT, 7, 4", "%rd", 3}, Case{"min.s32 RESULT, -1, 1", "%r", Bits32(-1)},
        Case{"min.u32 RESULT, 0xffffffff, 1", "%r", 1}, Case{"max.s64 RESULT, -1, 1", "%rd", 1},
        Case{"neg.s32 RESULT, 1", "%r", Bits32(-1)},
        Case{"abs.s32 RESULT, -2147483648", "%r", Bits32(kLeast32)},
        Case{"abs.s64 RESULT, -5", "%rd", 5}));

INSTANTIATE_TEST_SUITE_P(
    BitsAndBytes, ArithmeticTest,
    testing::Values(
        Case{"and.b32 RESULT, 12, 10", "%r", 8}, Case{"or.b64 RESULT, 12, 10", "%rd", 14},
        Case{"xor.b32 RESULT, 12, 10", "%r", 6}, Case{"not.b32 RESULT, 0", "%r", 0xffffffff},
        Case{"shl.b32 RESULT, 1, 31", "%r", 0x80000000}, Case{"shl.b32 RESULT, 1, 32", "%r", 0},
        Case{"shr.u32 RESULT, 0x80000000, 31", "%r", 1},
        Case{"shr.s32 RESULT, -8, 1", "%r", Bits32(-4)},
        Case{"shr.s32 RESULT, -8, 40", "%r", Bits32(-1)}, Case{"shr.u64 RESULT, 256, 64", "%rd", 0},
        Case{"shf.r.wrap.b32 RESULT, 0x11223344, 0x55667788, 40", "%r", 0x88112233},
        Case{"shf.l.wrap.b32 RESULT, 0x11223344, 0x55667788, 8", "%r", 0x66778811},
        Case{"shf.r.clamp.b32 RESULT, 0x11223344, 0x55667788, 40", "%r", 0x55667788},
        Case{"prmt.b32 RESULT, 0x33221100, 0x77665544, 0x7410", "%r", 0x77441100},
        Case{"prmt.b32 RESULT, 0x80, 0, 0x1118", "%r", 0xff},
        Case{"lop3.b32 RESULT, 0xf0, 0xcc, 0xaa, 0x80", "%r", 0x80},
        Case{"lop3.b32 RESULT, 0xf0, 0xcc, 0xaa, 0x96", "%r", 0x96},
        Case{"bfe.u32 RESULT, 0xabcd, 4, 8", "%r", 0xbc},
        Case{"bfe.s32 RESULT, 0xabcd, 4, 8", "%r", Bits32(-68)},
        Case{"bfi.b32 RESULT, 0xff, 0, 4, 8", "%r", 0xff0}, Case{"clz.b32 RESULT, 1", "%r", 31},
        Case{"clz.b64 RESULT, 0", "%r", 64}, Case{"popc.b32 RESULT, 0xff00", "%r", 8},
        Case{"brev.b32 RESULT, 1", "%r", 0x80000000}, Case{"bfind.u32 RESULT, 0x100", "%r", 8},
        Case{"bfind.s32 RESULT, -1", "%r", Bits32(-1)},
        Case{"bfind.shiftamt.u32 RESULT, 0x100", "%r", 23},
        Case{"mov.b64 RESULT, {7, 9}", "%rd", 0x900000007},
        Case{"mov.b32 RESULT, {7, 9}", "%r", 0x90007},
        Case{"mov.b64 {%r3, RESULT}, 0x900000007", "%r", 9},
        Case{"mov.b32 RESULT, WARP_SZ", "%r", 32}));

INSTANTIATE_TEST_SUITE_P(
    Conversions, ArithmeticTest,
    testing::Values(Case{"cvt.s64.s32 RESULT, -1", "%rd", Bits(-1)},
                    Case{"cvt.u64.u32 RESULT, -1", "%rd", 0xffffffff},
                    Case{"cvt.u32.u64 RESULT, 0x100000007", "%r", 7},
                    Case{"cvt.s32.s8 RESULT, 0x180", "%r", Bits32(-128)},
                    Case{"cvt.u32.u8 RESULT, 0x180", "%r", 0x80},
                    Case{"cvt.s8.s32 RESULT, 255", "%r", Bits32(-1)},
                    Case{"cvt.rn.f32.s32 RESULT, 16777217", "%f", BitsOf(16777216.0F)},
                    Case{"cvt.rn.f64.u64 RESULT, 3", "%fd", BitsOf(3.0)},
                    Case{"cvt.rzi.s32.f32 RESULT, 0fBFC00000", "%r", Bits32(-1)},
                    Case{"cvt.rni.s32.f64 RESULT, 0d4004000000000000", "%r", 2},
                    Case{"cvt.rzi.u32.f32 RESULT, 0fBFC00000", "%r", 0},
                    Case{"cvt.rzi.s32.f32 RESULT, 0f7F800000", "%r", 0x7fffffff},
                    Case{"cvt.rzi.s32.f32 RESULT, 0f7FC00000", "%r", 0},
                    Case{"cvt.f64.f32 RESULT, 0f3FC00000", "%fd", BitsOf(1.5)},
                    Case{"cvt.rn.f32.f64 RESULT, 0d3FF8000000000000", "%f", BitsOf(1.5F)}));

INSTANTIATE_TEST_SUITE_P(
    Floats, ArithmeticTest,
    testing::Values(
        Case{"add.f32 RESULT, 0f3F800000, 0f33800000", "%f", BitsOf(1.0F)},
        Case{"add.rn.f64 RESULT, 0d3FF0000000000000, 0d4000000000000000", "%fd", BitsOf(3.0)},
        Case{"mul.f32 RESULT, 0f40000000, 0fBF000000", "%f", BitsOf(-1.0F)},
        Case{"div.rn.f64 RESULT, 0d3FF0000000000000, 0d0000000000000000", "%fd",
             BitsOf(std::numeric_limits<double>::infinity())},
        // Rounded once: of (1 + 2^-12)^2 - (1 + 2^-11), what two roundings lose.
        Case{"fma.rn.f32 RESULT, 0f3F800800, 0f3F800800, 0fBF801000", "%f", BitsOf(0x1p-24F)},
        Case{"sqrt.rn.f32 RESULT, 0f40800000", "%f", BitsOf(2.0F)},
        Case{"max.f32 RESULT, 0f7FC00000, 0f3F800000", "%f", BitsOf(1.0F)},
        Case{"neg.f64 RESULT, 0d0000000000000000", "%fd", BitsOf(-0.0)}));

INSTANTIATE_TEST_SUITE_P(
    Comparisons, ArithmeticTest,
    testing::Values(Case{"setp.lt.s32 RESULT, -1, 0", "%p", 1},
                    Case{"setp.lt.u32 RESULT, -1, 0", "%p", 0},
                    Case{"setp.hi.u32 RESULT, -1, 0", "%p", 1},
                    Case{"setp.ge.u64 RESULT, -1, 0", "%p", 1},
                    Case{"setp.eq.s16 RESULT, 65536, 0", "%p", 1},
                    Case{"setp.eq.f32 RESULT, 0f80000000, 0f00000000", "%p", 1},
                    Case{"setp.ne.f32 RESULT, 0f7FC00000, 0f00000000", "%p", 0},
                    Case{"setp.neu.f32 RESULT, 0f7FC00000, 0f00000000", "%p", 1},
                    Case{"setp.geu.f64 RESULT, 0d7FF8000000000000, 0d0000000000000000", "%p", 1},
                    Case{"setp.lt.s32 RESULT|%p1, 1, 0", "%p", 0},
                    Case{"setp.lt.s32 %p1|RESULT, 1, 0", "%p", 1}));

}  // namespace
}  // namespace batchplan::ptx
