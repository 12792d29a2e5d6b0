// SHOAL_CHECK(condition, ErrorType, format, args…) throws ErrorType where the condition does not hold.
// SHOAL_ASSERT(condition) is for what only a defect of ours can break; it stays on in release builds.
#pragma once

#include "core/error.h"

#define SHOAL_CHECK(condition, ErrorType, ...) \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      throw ErrorType(__VA_ARGS__);            \
  } while (0)

#define SHOAL_ASSERT(condition)                                                                                       \
  SHOAL_CHECK(condition, ::shoal::InternalError, "{}:{}: '{}' does not hold; please report this", __FILE__, __LINE__, \
              #condition)
