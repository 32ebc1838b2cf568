// A test is TEST(name) { CHECK(something); }. The program runs all tests, and once more with each instruction set.
#pragma once

#include <cstdio>
#include <vector>

namespace kdcode::tests {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

inline int failures = 0;

inline bool add_test(const char* name, void (*run)()) {
  all_tests().push_back({name, run});
  return true;
}

}  // namespace kdcode::tests

#define TEST(name)                                                                               \
  static void test_##name();                                                                     \
  [[maybe_unused]] static const bool added_##name = kdcode::tests::add_test(#name, test_##name); \
  static void test_##name()

#define CHECK(...)                                                          \
  do {                                                                      \
    if (!(__VA_ARGS__)) {                                                   \
      ++kdcode::tests::failures;                                            \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
    }                                                                       \
  } while (false)
