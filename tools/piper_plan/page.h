// The files of page/, which the build turns into these texts (embed_page.cmake).
#pragma once

#include <string_view>

namespace piper::tools::page {

extern const std::string_view kHtml, kStyle, kStepScript, kChartScript, kPageScript;

}  // namespace piper::tools::page
