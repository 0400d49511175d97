// Which instruction sets the processor and the operating system have.

extern "C" __attribute__((visibility("default"))) int pullback_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx2 ? (avx512 ? 2 : 1) : 0;
#else
  return 0;
#endif
}
