#include <algorithm>
#include <nlohmann/json.hpp>

#include "schemas/plan/describe_format.h"

namespace piper::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const Json& words) {
  std::string all;
  for (const Json& word : words) all += (all.empty() ? "`" : ", `") + word.dump() + "`";
  return all;
}

// A member's value in words.
std::string value_text(const Json& value) {
  if (value.contains("$ref")) {
    const auto name = value["$ref"].get<std::string>();
    return name.substr(name.rfind('/') + 1);
  }
  if (value.contains("const")) return "`" + value["const"].dump() + "`";
  if (value.contains("enum")) return joined(value["enum"]);
  if (value.contains("oneOf")) return "one of several, below";
  const auto type = value["type"].is_string() ? value["type"].get<std::string>() : joined(value["type"]);
  if (type == "array") return "list of " + value_text(value["items"]);
  if (type == "object")
    return value.contains("properties") ? "object, below" : "object of " + value_text(value["additionalProperties"]);
  std::string text = type;
  if (value.contains("minimum")) text += " from " + value["minimum"].dump();
  if (value.contains("maximum")) text += " to " + value["maximum"].dump();
  if (value.contains("exclusiveMinimum")) text += " above " + value["exclusiveMinimum"].dump();
  if (value.contains("pattern")) text += " `" + value["pattern"].get<std::string>() + "`";
  return text;
}

// A table of an object's members, then those of the objects in it.
void add_object(std::string& page, const std::string& title, const Json& value) {
  if (value.contains("items")) return add_object(page, title, value["items"]);
  if (value.contains("oneOf")) {
    for (const Json& one : value["oneOf"])
      if (one.contains("properties")) add_object(page, title + " of " + one["properties"].begin().key(), one);
    return;
  }
  if (!value.contains("properties")) return;
  page += "\n## " + title + "\n\n| member | value | |\n|---|---|---|\n";
  const Json& required = value["required"];
  for (const auto& [key, member] : value["properties"].items()) {
    const bool always = std::find(required.begin(), required.end(), Json(key)) != required.end();
    const std::string about = member.value("description", "");
    page += "| `" + key + "` | " + value_text(member) + " | " + (always ? "" : "may be left out") +
            (always || about.empty() ? "" : "; ") + about + " |\n";
  }
  for (const auto& [key, member] : value["properties"].items()) add_object(page, title + ": " + key, member);
}

}  // namespace

std::string format_page() {
  std::string page =
      "# Members of a plan bundle's texts\n\nGenerated from the lists of members in schemas/plan, in the order of the "
      "text; what they mean is in [schemas/README.md](../schemas/README.md).\n";
  const Json schema = Json::parse(format_schema());
  for (const auto& [name, definition] : schema["$defs"].items()) add_object(page, name, definition);
  return page;
}

}  // namespace piper::plan
