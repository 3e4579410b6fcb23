// UTF-8 in what clients send.

#ifndef BATCHPLAN_SERVER_BASE_UTF8_H_
#define BATCHPLAN_SERVER_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace batchplan {

// Bytes of the character that `text`, which is not empty, begins with; 0 if it begins with none.
// Overlong forms, surrogates and what is beyond U+10FFFF are none.
size_t Utf8CharacterBytes(std::string_view text);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_UTF8_H_
