// Memory of large results, which is often fresh from the system.
#pragma once

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace pullback {

// Ask for huge pages below a result that is about to be written. Memory that large goes back to the
// system when it is freed, so every call would fault in all of its small pages.
inline void expect_writes(void* memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr int64_t kPage = int64_t(1) << 21, kWorthwhile = 4 * kPage;
  if (bytes < kWorthwhile) return;
  auto begin = (reinterpret_cast<int64_t>(memory) + kPage - 1) / kPage * kPage;
  auto end = (reinterpret_cast<int64_t>(memory) + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // may be refused
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace pullback
