// For several mapped files, the one whose bytes are gone has its name in a handler of SIGBUS.
#include <catch2/catch.hpp>

#include <csetjmp>
#include <csignal>
#include <filesystem>
#include <string>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/mapped_names.h"
#include "tests/unit/temp_folder.h"

using namespace piper;
using namespace piper::plan;

namespace {

sigjmp_buf back;
const char* blamed = nullptr;

void on_bus_error(int, siginfo_t* info, void*) {
  blamed = mapped_name(info->si_addr);
  siglongjmp(back, 1);
}

// The file that a read of this byte is blamed on; "" where the byte is there.
std::string blame(const std::byte* byte) {
  struct sigaction action{}, before{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &before);
  blamed = "";
  if (sigsetjmp(back, 1) == 0) (void)*static_cast<const volatile std::byte*>(byte);
  sigaction(SIGBUS, &before, nullptr);
  return blamed == nullptr ? "nothing" : blamed;
}

TEST_CASE("a file that was cut is known by the address that is gone") {
  const TempFolder folder;
  constexpr size_t kBytes = 100'000;
  const std::string data = folder.write("data.bin", std::string(kBytes, 'd')),
                    weights = folder.write("weights.safetensors", std::string(kBytes, 'w'));
  const auto first = map_file(data), second = map_file(weights);
  REQUIRE((first.ok() && second.ok()));
  CHECK(blame(second->data + kBytes - 1).empty());
  std::filesystem::resize_file(weights, 0);
  CHECK(blame(second->data + kBytes - 1) == weights);
  CHECK(blame(first->data + kBytes - 1).empty());
  std::filesystem::resize_file(data, 1);
  CHECK(blame(first->data + kBytes - 1) == data);
  CHECK(blame(first->data).empty());
}

TEST_CASE("a mapping has a name for as long as it is there") {
  const TempFolder folder;
  const std::string path = folder.write("file", "text");
  const std::byte* data = nullptr;
  {
    const auto file = map_file(path);
    REQUIRE(file.ok());
    data = file->data;
    CHECK(std::string(mapped_name(data + 3)) == path);
    CHECK(mapped_name(data + 4) == nullptr);
  }
  CHECK(mapped_name(data) == nullptr);
  CHECK(mapped_name(&path) == nullptr);
}

}  // namespace
