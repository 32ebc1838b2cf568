#include <cstddef>
#include <cstdio>
#include <cstring>

#include "check.hpp"
#include "dispatch.hpp"

// With a name as argument, only the tests whose names contain it.
int main(int count, char** arguments) {
  using namespace kdcode;
  int run = 0;
  for (std::size_t i = 0; i < isa_names.size(); ++i) {
    if (!use_isa(static_cast<Isa>(i))) continue;
    std::printf("%s\n", isa_names[i].data());
    for (const tests::Test& test : tests::all_tests()) {
      if (count > 1 && std::strstr(test.name, arguments[1]) == nullptr) continue;
      const int before = tests::failures;
      test.run();
      if (tests::failures > before) std::printf("  FAILED %s\n", test.name);
      ++run;
    }
  }
  std::printf("%d tests, %d failures\n", run, tests::failures);
  return tests::failures > 0 || run == 0;
}
