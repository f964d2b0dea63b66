#include "schemas/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace piper::checkpoint {

namespace {

Result<OpenCheckpoint> open_valid(const std::string& folder, int64_t step, const CheckBytes& check) {
  PIPER_ASSIGN(OpenCheckpoint checkpoint, OpenCheckpoint::open(folder + "/" + step_folder(step)));
  PIPER_RETURN_IF_ERROR(check(checkpoint));
  return checkpoint;
}

}  // namespace

Status check_bytes(const OpenCheckpoint& checkpoint) { return checkpoint.check_all(false); }

Result<std::vector<int64_t>> list_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (const int64_t step = step_of_folder(entry->path().filename().string()); step >= 0) steps.push_back(step);
  if (error) return Status::failure("R0705", "cannot read the folder " + folder + ": " + error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::optional<OpenCheckpoint>> find_newest_valid(const std::string& folder,
                                                        const std::function<void(const std::string&)>& note,
                                                        const CheckBytes& check) {
  PIPER_ASSIGN(const std::vector<int64_t> steps, list_steps(folder));
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto checkpoint = open_valid(folder, *step, check);
    if (checkpoint.ok()) return std::optional<OpenCheckpoint>(std::move(checkpoint).value());
    note(checkpoint.error().message);
  }
  if (steps.empty()) return std::optional<OpenCheckpoint>();
  return Status::failure("R0702",
                         "none of the " + std::to_string(steps.size()) + " checkpoints of " + folder + " is valid");
}

Result<OpenCheckpoint> find_exact(const std::string& folder, int64_t step, const CheckBytes& check) {
  PIPER_ASSIGN(const std::vector<int64_t> steps, list_steps(folder));
  if (!std::binary_search(steps.begin(), steps.end(), step))
    return Status::failure("R0702", folder + " has no checkpoint of step " + std::to_string(step));
  auto checkpoint = open_valid(folder, step, check);
  if (!checkpoint.ok()) return Status::failure("R0702", checkpoint.error().message);
  return checkpoint;
}

}  // namespace piper::checkpoint
