#include "compiler/frontend/model_values.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include "compiler/diag/unmatched_globs.h"

namespace piper::frontend {
namespace {

// Constants up to this size are read into memory, so that they can be folded.
constexpr int64_t kMostBytesInMemory = int64_t{1} << 26;

bool is_name(const std::string& symbol) {
  return !symbol.empty() &&
         std::all_of(symbol.begin(), symbol.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
         std::isdigit(static_cast<unsigned char>(symbol[0])) == 0;
}

// `*` matches any characters; a leading "*." also matches nothing.
bool glob_matches(std::string_view glob, std::string_view name) {
  if (glob.rfind("*.", 0) == 0 && glob_matches(glob.substr(2), name)) return true;
  size_t g = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      mark = n;
    } else if (g < glob.size() && glob[g] == name[n]) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

// A glob means a parameter, or every parameter of a module.
bool means(const std::string& glob, const std::string& name) {
  return glob_matches(glob, name) || glob_matches(glob + ".*", name);
}

// Patterns of a key of the strategy.
class Globs {
 public:
  // `spans`: where they are, or empty.
  Globs(const std::vector<std::string>& globs, const std::vector<diag::Span>& spans) {
    for (size_t i = 0; i < globs.size(); ++i) uses_.push_back({globs[i], i < spans.size() ? spans[i] : diag::Span()});
  }
  bool match(const StoredTensor& t) {
    bool found = false;
    for (const std::string& name : t.names)
      for (diag::GlobUse& use : uses_)
        if (means(use.glob, name)) found = use.matches = true;
    return found;
  }
  // P0309. `key`: "model.freeze: '"; `what`: none of which it matches.
  Status check(const char* key, const std::string& what, const std::vector<std::string>& names,
               diag::Diagnostics& diags) const {
    return diag::tell_unmatched_globs(uses_, "P0309", diags, [&](diag::InFlight& message, const std::string& glob) {
      message << key << ": '" << glob << "' matches no " << what;
      const std::string near = diag::nearest(glob, names);
      if (!near.empty()) message.help("did you mean '" + near + "'?");
    });
  }

 private:
  std::vector<diag::GlobUse> uses_;
};

Status bind_dims(const ModelValues& values, const BindRequest& request, BoundModel& model, diag::Diagnostics& diags) {
  if (request.local_batch < 1) return diags.error("P0303") << "each replica needs at least one sample per microbatch";
  if (values.fixed_batch >= 0 && request.local_batch != values.fixed_batch)
    return diags.error("P0303").help(
               "export with a symbolic batch axis (dynamic_shapes={\"input_ids\": {0: Dim(\"B\")}, ...}), or choose "
               "microbatches of " +
               std::to_string(values.fixed_batch) + " samples")
           << values.base_name << " was exported for a batch of exactly " << values.fixed_batch
           << "; the strategy gives each replica " << request.local_batch << " per microbatch";
  std::set<std::string> symbols, batch;
  for (const ModelInput& input : values.inputs)
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0 || !is_name(input.symbols[d])) continue;
      symbols.insert(input.symbols[d]);
      if (d == 0) batch.insert(input.symbols[d]);
    }
  aten::Dims step_dims;
  for (const std::string& s : batch) {
    if (const auto range = values.ranges.find(s);
        range != values.ranges.end() && request.local_batch > range->second.most)
      return diags.error("P0303") << values.base_name << " was exported for batches of at most " << range->second.most
                                  << "; the strategy gives each replica " << request.local_batch << " per microbatch";
    model.dims.bind(s, request.local_batch);
    step_dims.bind(s, request.step_batch > 0 ? request.step_batch : request.local_batch);
  }
  model.per_piece = request.per_piece;
  for (const auto& [name, extent] : request.dims) {
    if (symbols.count(name) == 0 || batch.count(name) != 0) {
      std::vector<std::string> open;
      for (const std::string& s : symbols)
        if (batch.count(s) == 0) open.push_back(s);
      diag::InFlight error = diags.error("P0302");
      error << "model.dims names '" << name << "', which is not a symbolic dimension of " << values.base_name;
      if (batch.count(name) != 0) error << ": it is the batch, which the strategy sets";
      const std::string near = diag::nearest(name, open);
      std::string list;
      for (const std::string& s : open) list += (list.empty() ? "" : ", ") + s;
      error.help(!near.empty()  ? "did you mean '" + near + "'?"
                 : list.empty() ? "the model has no symbolic dimensions"
                                : "symbolic dimensions: " + list);
      return error;
    }
    if (extent < 1) return diags.error("P0302") << "model.dims: '" << name << "' must be positive";
    if (const auto range = values.ranges.find(name);
        range != values.ranges.end() && (extent < range->second.least || extent > range->second.most))
      return diags.error("P0302") << "model.dims: " << name << " = " << extent << " lies outside of what "
                                  << values.base_name << " was exported for: " << range->second.least
                                  << (range->second.most == INT64_MAX ? " and more"
                                                                      : " to " + std::to_string(range->second.most));
    model.dims.bind(name, extent);
    step_dims.bind(name, extent);
  }
  model.step_extent = [step_dims](const std::string& expression) { return step_dims.evaluate(expression); };
  return Status();
}

Status add_inputs(const ModelValues& values, BoundModel& model, diag::Diagnostics& diags) {
  for (const ModelInput& input : values.inputs) {
    ir::TensorType type{input.dtype, input.shape};
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0) continue;
      Result<int64_t> extent = model.dims.evaluate(input.symbols[d].empty() ? "?" : input.symbols[d]);
      if (!extent.ok())
        return diags.error(extent.error().code)
                   .help("strategy: model: {dims: {" +
                         (input.symbols[d].empty() ? std::string("S") : input.symbols[d]) + ": 128}}")
               << "input '" << input.name << "' of " << values.base_name << ", axis " << d << ": "
               << extent.error().message;
      type.shape[d] = extent.value();
    }
    const bool batched =
        !type.shape.empty() && (values.fixed_batch >= 0 ? type.shape[0] == values.fixed_batch : input.shape[0] < 0);
    model.values[input.name] = model.graph.add_input(input.name, std::move(type), batched);
  }
  return Status();
}

}  // namespace

int64_t fixed_batch_of(const std::vector<ModelInput>& inputs) {
  int64_t fixed = -1;
  for (const ModelInput& input : inputs) {
    if (input.shape.empty()) continue;
    if (input.shape[0] < 0) return -1;
    if (fixed < 0) fixed = input.shape[0];
  }
  return fixed;
}

Result<ConstantTensor> read_tensor(const ir::TensorType& type, const ir::WeightSource& source) {
  std::vector<std::byte> bytes;
  if (source.data) {
    bytes = *source.data;
  } else {
    bytes.resize(static_cast<size_t>(source.bytes));
    std::ifstream in(source.file, std::ios::binary);
    in.seekg(source.offset);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!in) return Status::failure("P0301", "cannot read its bytes from " + source.file);
  }
  if (type.dtype == DType::kBool)
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  return ConstantTensor(type, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

Status bind_values(const ModelValues& values, const BindRequest& request, BoundModel& model, diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(bind_dims(values, request, model, diags));
  PIPER_RETURN_IF_ERROR(add_inputs(values, model, diags));
  Globs freeze(request.freeze, request.freeze_spans), train(request.train, request.train_spans);
  std::vector<std::string> parameters, unsaid;
  for (const StoredTensor& t : values.tensors) {
    const std::string& key = t.names[0];
    const bool is_fixed = t.role == StoredTensor::Role::kFixedBuffer,
               is_read = t.role == StoredTensor::Role::kReadBuffer;
    if (is_fixed || is_read) {
      const ir::ValueId value = model.graph.add_parameter(t.names, t.type, false, t.source);
      model.graph.parameters().back().buffer = is_fixed ? plan::ModelBuffer::kFixed : plan::ModelBuffer::kRead;
      if (is_read) model.values[key] = value;
    }
    if (is_read) continue;
    if (t.is_unsaid) unsaid.push_back(key);
    const bool made_trained = t.is_unsaid && train.match(t);
    if (is_fixed || (t.role == StoredTensor::Role::kConstant && !made_trained)) {
      ir::WeightSource source = t.source;
      if (source.bytes <= kMostBytesInMemory) {
        Result<ConstantTensor> value = read_tensor(t.type, source);
        if (!value.ok())
          return diags.error(value.error().code)
                 << values.base_name << ": tensor '" << key << "': " << value.error().message;
        source = ir::WeightSource();
        source.bytes = t.type.bytes();
        source.data = value->data();
      }
      model.values[key] = model.graph.add_constant(key, t.type, std::move(source));
      continue;
    }
    parameters.insert(parameters.end(), t.names.begin(), t.names.end());
    const bool frozen = freeze.match(t);
    const bool trainable = t.trainable && !frozen && is_floating(t.type.dtype) && t.type.elements() > 0;
    model.values[key] = t.role == StoredTensor::Role::kBuffer
                            ? model.graph.add_buffer(t.names, t.type, t.source)
                            : model.graph.add_parameter(t.names, t.type, trainable, t.source);
  }
  PIPER_RETURN_IF_ERROR(freeze.check("model.freeze", "parameter of " + values.base_name, parameters, diags));
  return train.check("model.train",
                     unsaid.empty() ? "number of " + values.base_name + ": the file itself says what is trained"
                                    : "number of " + values.base_name,
                     unsaid, diags);
}

}  // namespace piper::frontend
