#include "ptx/arithmetic.h"

#include <cstdint>
#include <type_traits>
#include <unordered_map>

#include "ptx/operations.h"

namespace batchplan::ptx {
namespace {

using namespace operations;  // NOLINT: a table of them

template <typename T>
constexpr const char* NameOf() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, int8_t>) return "s8";
  if constexpr (std::is_same_v<T, uint8_t>) return "u8";
  if constexpr (std::is_same_v<T, int16_t>) return "s16";
  if constexpr (std::is_same_v<T, uint16_t>) return "u16";
  if constexpr (std::is_same_v<T, int32_t>) return "s32";
  if constexpr (std::is_same_v<T, uint32_t>) return "u32";
  if constexpr (std::is_same_v<T, int64_t>) return "s64";
  if constexpr (std::is_same_v<T, uint64_t>) return "u64";
}

class Table {
 public:
  Table() {
    Integers<int16_t>();
    Integers<uint16_t>();
    Integers<int32_t>();
    Integers<uint32_t>();
    Integers<int64_t>();
    Integers<uint64_t>();
    Products<int16_t>();
    Products<uint16_t>();
    Products<int32_t>();
    Products<uint32_t>();
    Bits<uint16_t>(".b16");
    Bits<uint32_t>(".b32");
    Bits<uint64_t>(".b64");
    BitFields<int32_t>("32");
    BitFields<int64_t>("64");
    BitFields<uint32_t>("32");
    BitFields<uint64_t>("64");
    Floats<float>();
    Floats<double>();
    Predicates();
    Conversions();
    Addresses();
    Put("lop3.b32", Lop3, 4);
    Put("prmt.b32", Prmt, 3);
    Put("shf.l.wrap.b32", Shf<true, false>, 3);
    Put("shf.r.wrap.b32", Shf<false, false>, 3);
    Put("shf.l.clamp.b32", Shf<true, true>, 3);
    Put("shf.r.clamp.b32", Shf<false, true>, 3);
  }

  const Operation* Find(const std::string& name) const {
    const auto found = operations_.find(name);
    return found == operations_.end() ? nullptr : &found->second;
  }

 private:
  void Put(const std::string& name, Arithmetic function, int sources, bool divides = false) {
    operations_[name] = {function, sources, divides};
  }

  template <typename T>
  void Integers() {
    const std::string type = std::string(".") + NameOf<T>();
    Put("add" + type, Binary<Add, T>, 2);
    Put("sub" + type, Binary<Sub, T>, 2);
    Put("mul.lo" + type, Binary<Mul, T>, 2);
    Put("mul.hi" + type, Binary<MulHi, T>, 2);
    Put("mad.lo" + type, Mad<Mul, T>, 3);
    Put("mad.hi" + type, Mad<MulHi, T>, 3);
    Put("min" + type, Binary<Min, T>, 2);
    Put("max" + type, Binary<Max, T>, 2);
    Put("div" + type, Binary<Div, T>, 2, /*divides=*/true);
    Put("rem" + type, Binary<Rem, T>, 2, /*divides=*/true);
    Put("shr" + type, Shift<Shr, T>, 2);
    Put("mov" + type, Mov<T>, 1);
    Put("selp" + type, Selp<T>, 3);
    if constexpr (std::is_signed_v<T>) {
      Put("neg" + type, Neg<T>, 1);
      Put("abs" + type, Abs<T>, 1);
    }
    Comparisons<T>(type);
    // Names for unsigned comparisons only.
    Put("setp.lo" + type, Setp<Lt, T>, 2);
    Put("setp.ls" + type, Setp<Le, T>, 2);
    Put("setp.hi" + type, Setp<Gt, T>, 2);
    Put("setp.hs" + type, Setp<Ge, T>, 2);
  }

  template <typename T>
  void Products() {
    const std::string type = std::string(".") + NameOf<T>();
    Put("mul.wide" + type, MulWide<T>, 2);
    Put("mad.wide" + type, MadWide<T>, 3);
  }

  template <typename T>
  void Bits(const std::string& type) {
    Put("and" + type, Binary<And, T>, 2);
    Put("or" + type, Binary<Or, T>, 2);
    Put("xor" + type, Binary<Xor, T>, 2);
    Put("not" + type, Not<T>, 1);
    Put("shl" + type, Shift<Shl, T>, 2);
    Put("shr" + type, Shift<Shr, T>, 2);
    Put("mov" + type, Mov<T>, 1);
    Put("selp" + type, Selp<T>, 3);
    Put("setp.eq" + type, Setp<Eq, T>, 2);
    Put("setp.ne" + type, Setp<Ne, T>, 2);
  }

  template <typename T>
  void BitFields(const std::string& bits) {
    const std::string type = std::string(".") + NameOf<T>();
    Put("bfe" + type, Bfe<T>, 3);
    Put("bfind" + type, Bfind<T>, 1);
    Put("bfind.shiftamt" + type, BfindShift<T>, 1);
    if constexpr (std::is_unsigned_v<T>) {
      Put("bfi.b" + bits, Bfi<T>, 4);
      Put("clz.b" + bits, Clz<T>, 1);
      Put("popc.b" + bits, Popc<T>, 1);
      Put("brev.b" + bits, Brev<T>, 1);
    }
  }

  template <typename T>
  void Comparisons(const std::string& type) {
    Put("setp.eq" + type, Setp<Eq, T>, 2);
    Put("setp.ne" + type, Setp<Ne, T>, 2);
    Put("setp.lt" + type, Setp<Lt, T>, 2);
    Put("setp.le" + type, Setp<Le, T>, 2);
    Put("setp.gt" + type, Setp<Gt, T>, 2);
    Put("setp.ge" + type, Setp<Ge, T>, 2);
  }

  // All to the nearest: the modes that nvcc chooses without fast mathematics.
  template <typename T>
  void Floats() {
    const std::string type = std::string(".") + NameOf<T>();
    for (const std::string& mode : {std::string(), std::string(".rn")}) {
      Put("add" + mode + type, Binary<Add, T>, 2);
      Put("sub" + mode + type, Binary<Sub, T>, 2);
      Put("mul" + mode + type, Binary<Mul, T>, 2);
    }
    Put("div.rn" + type, Binary<Div, T>, 2);
    Put("fma.rn" + type, Fma<T>, 3);
    Put("sqrt.rn" + type, Sqrt<T>, 1);
    Put("min" + type, Binary<Min, T>, 2);
    Put("max" + type, Binary<Max, T>, 2);
    Put("neg" + type, Neg<T>, 1);
    Put("abs" + type, Abs<T>, 1);
    Put("mov" + type, Mov<T>, 1);
    Put("selp" + type, Selp<T>, 3);
    Comparisons<T>(type);
    Put("setp.equ" + type, Setp<Unordered<Ne>, T>, 2);
    Put("setp.neu" + type, Setp<Unordered<Eq>, T>, 2);
    Put("setp.ltu" + type, Setp<Unordered<Ge>, T>, 2);
    Put("setp.leu" + type, Setp<Unordered<Gt>, T>, 2);
    Put("setp.gtu" + type, Setp<Unordered<Le>, T>, 2);
    Put("setp.geu" + type, Setp<Unordered<Lt>, T>, 2);
  }

  void Predicates() {
    Put("and.pred", Binary<And, uint64_t>, 2);
    Put("or.pred", Binary<Or, uint64_t>, 2);
    Put("xor.pred", Binary<Xor, uint64_t>, 2);
    Put("not.pred", NotPredicate, 1);
    Put("mov.pred", Mov<uint64_t>, 1);
  }

  void Conversions() {
    ConversionsTo<int8_t>();
    ConversionsTo<uint8_t>();
    ConversionsTo<int16_t>();
    ConversionsTo<uint16_t>();
    ConversionsTo<int32_t>();
    ConversionsTo<uint32_t>();
    ConversionsTo<int64_t>();
    ConversionsTo<uint64_t>();
    Put("cvt.f64.f32", Cvt<double, float>, 1);
    Put("cvt.rn.f32.f64", Cvt<float, double>, 1);
  }
  template <typename D>
  void ConversionsTo() {
    Conversion<D, int8_t>();
    Conversion<D, uint8_t>();
    Conversion<D, int16_t>();
    Conversion<D, uint16_t>();
    Conversion<D, int32_t>();
    Conversion<D, uint32_t>();
    Conversion<D, int64_t>();
    Conversion<D, uint64_t>();
    ConversionOfFloat<D, float>();
    ConversionOfFloat<D, double>();
  }
  template <typename D, typename S>
  void Conversion() {
    Put(std::string("cvt.") + NameOf<D>() + "." + NameOf<S>(), Cvt<D, S>, 1);
  }
  template <typename I, typename F>
  void ConversionOfFloat() {
    const std::string to_float = std::string(NameOf<F>()) + "." + NameOf<I>();
    const std::string to_integer = std::string(NameOf<I>()) + "." + NameOf<F>();
    Put("cvt.rn." + to_float, Cvt<F, I>, 1);
    Put("cvt.rni." + to_integer, CvtToInteger<I, F, Nearest>, 1);
    Put("cvt.rzi." + to_integer, CvtToInteger<I, F, Zero>, 1);
    Put("cvt.rmi." + to_integer, CvtToInteger<I, F, Down>, 1);
    Put("cvt.rpi." + to_integer, CvtToInteger<I, F, Up>, 1);
  }

  void Addresses() {
    Put("cvta.global.u64", Mov<uint64_t>, 1);
    Put("cvta.to.global.u64", Mov<uint64_t>, 1);
    Put("cvta.shared.u64", ToWindow<kSharedWindow>, 1);
    Put("cvta.to.shared.u64", FromWindow<kSharedWindow>, 1);
    Put("cvta.param.u64", ToWindow<kParamWindow>, 1);
    Put("cvta.local.u64", ToWindow<kLocalWindow>, 1);
    Put("cvta.to.local.u64", FromWindow<kLocalWindow>, 1);
  }

  std::unordered_map<std::string, Operation> operations_;
};

}  // namespace

const Arithmetic kPack32 = Pack<16>;
const Arithmetic kPack64 = Pack<32>;
const Arithmetic kUnpack32 = Unpack<16>;
const Arithmetic kUnpack64 = Unpack<32>;

const Operation* FindOperation(const std::string& name) {
  static const auto* const table = new Table;
  return table->Find(name);
}

}  // namespace batchplan::ptx
