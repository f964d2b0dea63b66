// The JSON Schema of the bundle's texts, from the lists of members that their readers and writers have (fields.h). The
// checked-in schemas/plan.schema.json is this text: plan_schema_test compares, and writes it anew.
#pragma once

#include <string>

namespace piper::plan {

std::string format_schema();

}  // namespace piper::plan
