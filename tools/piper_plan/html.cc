// piper-plan show --html: one page that needs nothing but itself. The page is page/*, which the build embeds; here the
// step is put into it.
#include "schemas/base/check.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/drawn_step.h"
#include "tools/piper_plan/page.h"
#include "tools/piper_plan/play_bundle.h"

namespace piper::tools {
namespace {

void put(std::string& page, std::string_view mark, std::string_view text) {
  const size_t at = page.find(mark);
  PIPER_CHECK(at != std::string::npos, "the page lacks ", mark);
  page.replace(at, mark.size(), text);
}

// A text inside of a script element must not hold its end.
std::string without_tags(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') safe += "\\u003c";
    else safe += c;
  }
  return safe;
}

}  // namespace

Result<std::string> draw_html(const std::string& directory, const StepTimes& times) {
  PIPER_ASSIGN(const StepOfBundle played, play_bundle(directory, times));
  const std::string step = drawn_step(played);
  std::string page(page::kHtml), script;
  for (const std::string_view part : {page::kStepScript, page::kChartScript, page::kPageScript}) script += part;
  put(page, "@STYLE@", page::kStyle);
  put(page, "@SCRIPT@", script);
  put(page, "@DATA@", without_tags(step));
  return page;
}

}  // namespace piper::tools
