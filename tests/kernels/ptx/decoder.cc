#include "ptx/decoder.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "ptx/arithmetic.h"

namespace batchplan::ptx {
namespace {

// The type of an operand, such as "u32".
struct OperandType {
  Type type;
  uint8_t size;
};

class Decoder {
 public:
  Decoder(const Statement& statement, Names& names) : statement_(statement), names_(names) {}

  Decoded Decode() {
    std::string text = statement_.text;
    if (text[0] == '@') text = Guard(text);
    const size_t name_end = text.find(' ');
    name_ = text.substr(0, name_end);
    parts_ = SplitName(name_);
    if (name_end != std::string::npos) operands_ = SplitOperands(text.substr(name_end));
    DecodeOperation();
    return std::move(decoded_);
  }

 private:
  [[noreturn]] void Unknown() const {
    throw ParseError(statement_.line, "unknown instruction: " + statement_.text);
  }

  bool Has(const char* part) const { return std::ranges::find(parts_, part) != parts_.end(); }
  // Requires that each part after the first is one of `known`, or a type.
  void Expect(std::initializer_list<const char*> known) const {
    for (size_t i = 1; i + 1 < parts_.size(); ++i) {
      if (std::ranges::find(known, parts_[i]) == known.end()) Unknown();
    }
  }
  const std::string& Operand(size_t i) const {
    if (i >= operands_.size()) Unknown();
    return operands_[i];
  }
  int Slot(const std::string& operand) const { return names_.SlotOf(operand, statement_.line); }

  // Reads @%p1 or @!%p1, and returns what follows.
  std::string Guard(const std::string& text) {
    const size_t end = text.find(' ');
    if (end == std::string::npos) Unknown();
    std::string predicate = text.substr(1, end - 1);
    instruction().skipped_at = predicate[0] == '!';
    if (predicate[0] == '!') predicate.erase(0, 1);
    instruction().guard = Slot(predicate);
    return text.substr(end + 1);
  }

  void DecodeOperation() {
    static const auto* const decoders = new std::map<std::string, void (Decoder::*)()>{
        {"atom", &Decoder::Atomic},       {"bar", &Decoder::Barrier},
        {"barrier", &Decoder::Barrier},   {"bra", &Decoder::Branch},
        {"exit", &Decoder::Exit},         {"fence", &Decoder::Fence},
        {"ld", &Decoder::Load},           {"membar", &Decoder::Fence},
        {"match", &Decoder::Match},       {"mov", &Decoder::Move},
        {"nanosleep", &Decoder::Nothing}, {"prefetch", &Decoder::Nothing},
        {"red", &Decoder::Atomic},        {"redux", &Decoder::WarpReduce},
        {"ret", &Decoder::Exit},          {"shfl", &Decoder::Shuffle},
        {"st", &Decoder::Store},          {"vote", &Decoder::Vote},
    };
    const auto found = decoders->find(parts_[0]);
    if (found != decoders->end()) {
      (this->*found->second)();
    } else {
      RegisterOperation();
    }
  }

  void RegisterOperation() {
    const Operation* const operation = FindOperation(name_);
    if (operation == nullptr || operands_.size() != 1 + static_cast<size_t>(operation->sources)) {
      Unknown();
    }
    instruction().arithmetic = operation->function;
    instruction().divides = operation->divides;
    if (operation->divides) instruction().size = TypeOf(parts_.back()).size;
    Destination(operands_[0]);
    for (int i = 0; i < operation->sources; ++i) instruction().sources[i] = Slot(operands_[1 + i]);
  }

  void Move() {
    const bool packs = operands_.size() == 2 && operands_[1][0] == '{';
    const bool unpacks = operands_.size() == 2 && operands_[0][0] == '{';
    if (!packs && !unpacks) return RegisterOperation();
    const std::vector<std::string> halves = Vector(operands_[packs ? 1 : 0]);
    const bool wide = parts_.back() == "b64";
    if (halves.size() != 2 || (!wide && parts_.back() != "b32")) Unknown();
    if (packs) {
      instruction().arithmetic = wide ? kPack64 : kPack32;
      instruction().destinations[0] = Slot(operands_[0]);
      for (int i = 0; i < 2; ++i) instruction().sources[i] = Slot(halves[i]);
    } else {
      instruction().arithmetic = wide ? kUnpack64 : kUnpack32;
      instruction().sources[0] = Slot(operands_[1]);
      for (int i = 0; i < 2; ++i) instruction().destinations[i] = Slot(halves[i]);
    }
  }

  void Branch() {
    if (parts_.size() > 2 || (parts_.size() == 2 && parts_[1] != "uni")) Unknown();
    instruction().opcode = Opcode::kBranch;
    decoded_.label = Operand(0);
  }

  void Exit() {
    if (parts_.size() > 1 || !operands_.empty()) Unknown();
    instruction().opcode = Opcode::kExit;
  }

  void Fence() {
    instruction().opcode = Opcode::kFence;
    // With device scope or wider. The order within a block is also ensured by its barriers.
    instruction().releases = Has("gl") || Has("gpu") || Has("sys");
  }

  void Nothing() { instruction().opcode = Opcode::kNothing; }

  void Load() {
    instruction().opcode = Opcode::kLoad;
    Memory();
    const std::vector<std::string> elements = Vector(Operand(0));
    Address(Operand(1));
    if (elements.size() != instruction().elements) Unknown();
    for (size_t i = 0; i < elements.size(); ++i) {
      instruction().destinations[i] = Slot(elements[i]);
    }
  }

  void Store() {
    instruction().opcode = Opcode::kStore;
    Memory();
    const std::vector<std::string> elements = Vector(Operand(1));
    Address(Operand(0));
    if (elements.size() != instruction().elements) Unknown();
    for (size_t i = 0; i < elements.size(); ++i) {
      instruction().sources[1 + i] = Slot(elements[i]);
    }
  }

  // Modifiers for caches and prefetching have no effect here.
  void Memory() {
    for (size_t i = 1; i + 1 < parts_.size(); ++i) {
      if (parts_[i].starts_with("L1::") || parts_[i].starts_with("L2::")) parts_[i] = "ca";
    }
    Expect({"global", "shared",   "shared::cta", "local",   "param",   "nc",   "v2",  "v4",
            "v8",     "volatile", "relaxed",     "acquire", "release", "weak", "cta", "gpu",
            "sys",    "ca",       "cg",          "cs",      "cv",      "lu",   "wb",  "wt"});
    SpaceAndOrder();
    instruction().read_only = Has("nc");
    instruction().elements = Has("v2") ? 2 : Has("v4") ? 4 : Has("v8") ? 8 : 1;
    const OperandType type = TypeOf(parts_.back());
    instruction().type = type.type;
    instruction().size = type.size;
  }

  void SpaceAndOrder() {
    Instruction& i = instruction();
    i.space = Has("global")                         ? Space::kGlobal
              : Has("shared") || Has("shared::cta") ? Space::kShared
              : Has("local")                        ? Space::kLocal
              : Has("param")                        ? Space::kParam
                                                    : Space::kGeneric;
    i.acquires = Has("acquire") || Has("acq_rel");
    i.releases = Has("release") || Has("acq_rel");
    i.strong = i.acquires || i.releases || Has("volatile") || Has("relaxed");
  }

  void Atomic() {
    static const auto* const modes = new std::map<std::string, Mode>{
        {"add", Mode::kAdd},           {"min", Mode::kMin},       {"max", Mode::kMax},
        {"and", Mode::kAnd},           {"or", Mode::kOr},         {"xor", Mode::kXor},
        {"exch", Mode::kExchange},     {"inc", Mode::kIncrement}, {"dec", Mode::kDecrement},
        {"cas", Mode::kCompareAndSwap}};
    instruction().opcode = Opcode::kAtomic;
    Expect({"global", "shared", "shared::cta", "relaxed", "acquire", "release", "acq_rel",
            "cta",    "gpu",    "sys",         "add",     "min",     "max",     "and",
            "or",     "xor",    "exch",        "inc",     "dec",     "cas"});
    SpaceAndOrder();
    instruction().strong = true;
    for (const std::string& part : parts_) {
      if (const auto found = modes->find(part); found != modes->end()) {
        instruction().mode = found->second;
      }
    }
    const OperandType type = TypeOf(parts_.back());
    instruction().type = type.type;
    instruction().size = type.size;
    const bool returns = parts_[0] == "atom";
    const size_t values = instruction().mode == Mode::kCompareAndSwap ? 2 : 1;
    if (instruction().mode == Mode::kNone || type.size < 4 ||
        operands_.size() != (returns ? 2 : 1) + values) {
      Unknown();
    }
    instruction().destinations[0] = returns ? Slot(operands_[0]) : kDiscarded;
    Address(operands_[returns ? 1 : 0]);
    for (size_t i = 0; i < values; ++i) {
      instruction().sources[1 + i] = Slot(operands_[(returns ? 2 : 1) + i]);
    }
  }

  // The barrier of __syncthreads, for which all threads of the block wait; bar.red also counts.
  // bar.warp.sync is that of __syncwarp.
  void Barrier() {
    if (Has("warp")) {
      instruction().opcode = Opcode::kWarpSync;
      Mask(Operand(0));
      return;
    }
    instruction().opcode = Opcode::kBarrier;
    const bool reduces = Has("red");
    if ((!Has("sync") && !reduces) || Has("arrive")) Unknown();
    if (operands_.size() != (reduces ? 3 : 1) || operands_[reduces ? 1 : 0] != "0") Unknown();
    if (!reduces) return;
    instruction().mode = Has("popc")  ? Mode::kPopulation
                         : Has("and") ? Mode::kAll
                         : Has("or")  ? Mode::kAny
                                      : Mode::kNone;
    if (instruction().mode == Mode::kNone) Unknown();
    instruction().destinations[0] = Slot(operands_[0]);
    instruction().sources[1] = Slot(operands_[2]);
  }

  void Shuffle() {
    static const auto* const modes = new std::map<std::string, Mode>{{"up", Mode::kUp},
                                                                     {"down", Mode::kDown},
                                                                     {"bfly", Mode::kButterfly},
                                                                     {"idx", Mode::kIndex}};
    if (parts_.size() != 4 || parts_[1] != "sync" || modes->count(parts_[2]) == 0) Unknown();
    instruction().opcode = Opcode::kShuffle;
    instruction().mode = modes->at(parts_[2]);
    if (operands_.size() != 5) Unknown();
    Destination(operands_[0]);
    for (int i = 0; i < 3; ++i) instruction().sources[1 + i] = Slot(operands_[1 + i]);
    Mask(operands_[4]);
  }

  void Vote() {
    static const auto* const modes = new std::map<std::string, Mode>{{"all", Mode::kAll},
                                                                     {"any", Mode::kAny},
                                                                     {"uni", Mode::kUniform},
                                                                     {"ballot", Mode::kBallot}};
    if (parts_.size() != 4 || parts_[1] != "sync" || modes->count(parts_[2]) == 0) Unknown();
    instruction().opcode = Opcode::kVote;
    instruction().mode = modes->at(parts_[2]);
    if (operands_.size() != 3) Unknown();
    instruction().destinations[0] = Slot(operands_[0]);
    Predicate(operands_[1]);
    Mask(operands_[2]);
  }

  void WarpReduce() {
    static const auto* const modes = new std::map<std::string, Mode>{
        {"add", Mode::kAdd}, {"min", Mode::kMin}, {"max", Mode::kMax},
        {"and", Mode::kAnd}, {"or", Mode::kOr},   {"xor", Mode::kXor}};
    if (parts_.size() != 4 || parts_[1] != "sync" || modes->count(parts_[2]) == 0) Unknown();
    const OperandType type = TypeOf(parts_.back());
    if (type.type == Type::kFloat || type.size != 4 || operands_.size() != 3) Unknown();
    instruction().opcode = Opcode::kWarpReduce;
    instruction().mode = modes->at(parts_[2]);
    instruction().type = type.type;
    instruction().destinations[0] = Slot(operands_[0]);
    instruction().sources[1] = Slot(operands_[1]);
    Mask(operands_[2]);
  }

  void Match() {
    if (name_ != "match.any.sync.b32" || operands_.size() != 3) Unknown();
    instruction().opcode = Opcode::kMatch;
    instruction().destinations[0] = Slot(operands_[0]);
    instruction().sources[1] = Slot(operands_[1]);
    Mask(operands_[2]);
  }

  void Mask(const std::string& operand) { instruction().sources[0] = Slot(operand); }
  void Predicate(const std::string& operand) {
    const bool negated = operand[0] == '!';
    instruction().negated = negated;
    instruction().sources[1] = Slot(negated ? operand.substr(1) : operand);
  }

  // A predicate may follow: %r1|%p1.
  void Destination(const std::string& operand) {
    const size_t bar = operand.find('|');
    instruction().destinations[0] = Slot(operand.substr(0, bar));
    if (bar != std::string::npos) instruction().destinations[1] = Slot(operand.substr(bar + 1));
  }

  // {%r1, %r2}, or a single register.
  static std::vector<std::string> Vector(const std::string& operand) {
    if (operand[0] != '{') return {operand};
    return SplitOperands(std::string_view(operand).substr(1, operand.size() - 2));
  }

  // [%rd1+16], [variable+8] or [%rd1+-4].
  void Address(const std::string& operand) {
    if (operand.size() < 3 || operand[0] != '[') Unknown();
    const std::string inner(Trim(std::string_view(operand).substr(1, operand.size() - 2)));
    const size_t plus = inner.find('+');
    instruction().sources[0] = Slot(std::string(Trim(inner.substr(0, plus))));
    if (plus != std::string::npos) {
      instruction().offset = std::strtoll(inner.c_str() + plus + 1, nullptr, 0);
    }
  }

  OperandType TypeOf(const std::string& name) const {
    static const auto* const types = new std::map<std::string, OperandType>{
        {"b8", {Type::kBits, 1}},    {"u8", {Type::kUnsigned, 1}},  {"s8", {Type::kSigned, 1}},
        {"b16", {Type::kBits, 2}},   {"u16", {Type::kUnsigned, 2}}, {"s16", {Type::kSigned, 2}},
        {"b32", {Type::kBits, 4}},   {"u32", {Type::kUnsigned, 4}}, {"s32", {Type::kSigned, 4}},
        {"f32", {Type::kFloat, 4}},  {"b64", {Type::kBits, 8}},     {"u64", {Type::kUnsigned, 8}},
        {"s64", {Type::kSigned, 8}}, {"f64", {Type::kFloat, 8}}};
    const auto found = types->find(name);
    if (found == types->end()) Unknown();
    return found->second;
  }

  Instruction& instruction() { return decoded_.instruction; }

  const Statement& statement_;
  Names& names_;
  std::string name_;
  std::vector<std::string> parts_;
  std::vector<std::string> operands_;
  Decoded decoded_;
};

}  // namespace

Decoded Decode(const Statement& statement, Names& names) {
  return Decoder(statement, names).Decode();
}

}  // namespace batchplan::ptx
