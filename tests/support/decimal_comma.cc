// Every test runs in a process, and starts others, whose locale writes 1.5 as 1,5 and 1000
// as 1.000: a program that links the client may set any locale, and what is read and written must
// not depend on it. The locale is made from Debian's sources when the tests are built.

#include <gtest/gtest.h>

#include <cstdlib>
#include <locale>
#include <sstream>

namespace batchplan {
namespace {

class DecimalComma final : public testing::Environment {
 public:
  void SetUp() override {
    setenv("LOCPATH", BATCHPLAN_LOCALES, 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    // Reasons that libc gives are in English, whether there are others or not.
    setenv("LANGUAGE", "en", 1);
    // Also what printf and strtod of C go by.
    std::locale::global(std::locale(""));
    std::ostringstream text;
    text << 1000.5;
    ASSERT_EQ(text.str(), "1.000,5");
  }
};

const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new DecimalComma);

}  // namespace
}  // namespace batchplan
