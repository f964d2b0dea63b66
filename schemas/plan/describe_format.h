// The JSON Schema of the bundle's texts and a page of their members, from the lists that their readers and writers have
// (fields.h). The checked-in schemas/plan.schema.json and docs/plan-fields.md are these texts: plan_schema_test
// compares, and writes them anew.
#pragma once

#include <string>

namespace piper::plan {

std::string format_schema();
std::string format_page();

}  // namespace piper::plan
