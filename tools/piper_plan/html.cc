// piper-plan show --html: one page that needs nothing but itself. The page is page/*, which the build embeds; here the
// step is put into it.
#include "schemas/base/check.h"
#include "schemas/plan/bundle_io.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/drawn_step.h"
#include "tools/piper_plan/page.h"

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

Result<std::string> draw_html(const std::string& directory, const HtmlOptions& options) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  std::string step;
  if (options.profile.empty()) {
    PIPER_ASSIGN(const auto timeline, timeline::simulate(bundle, options.costs));
    step = drawn_step(bundle, timeline, nullptr);
  } else {
    PIPER_ASSIGN(const auto measured, timeline::read_profile(bundle, options.profile));
    PIPER_ASSIGN(const auto timeline, timeline::simulate_times(bundle, measured));
    step = drawn_step(bundle, timeline, &measured);
  }
  std::string page(page::kHtml), script;
  for (const std::string_view part : {page::kStepScript, page::kChartScript, page::kPageScript}) script += part;
  put(page, "@STYLE@", page::kStyle);
  put(page, "@SCRIPT@", script);
  put(page, "@DATA@", without_tags(step));
  return page;
}

}  // namespace piper::tools
