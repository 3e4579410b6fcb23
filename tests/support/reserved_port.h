// A port for a server that ends and starts again, or that never starts: while this lives, no other
// test gets it, and no program that lets the kernel choose its port. The port that a server on port
// 0 had is anybody's from its end on.
//
//   const ReservedPort port;
//   ServerProcess first({absl::StrCat("--listen=127.0.0.1:", port.number())});

#ifndef BATCHPLAN_TESTS_SUPPORT_RESERVED_PORT_H_
#define BATCHPLAN_TESTS_SUPPORT_RESERVED_PORT_H_

namespace batchplan::testing {

class ReservedPort {
 public:
  // Ends the program if all are taken.
  ReservedPort();
  ~ReservedPort();

  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int number() const { return number_; }

 private:
  int number_ = 0;
  // A socket with a name that only one can have.
  int reservation_ = -1;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_RESERVED_PORT_H_
