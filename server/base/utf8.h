// UTF-8 in what clients send.

#ifndef BATCHPLAN_SERVER_BASE_UTF8_H_
#define BATCHPLAN_SERVER_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace batchplan {

// The bytes of the first character of `text`, which is not empty; 0 if it does not begin with one.
// Overlong forms, surrogates and values beyond U+10FFFF are no characters.
size_t Utf8CharacterBytes(std::string_view text);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_UTF8_H_
