#include "compiler/frontend/aten/functionalise.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "compiler/frontend/aten/running_statistics.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

constexpr int kMostViews = 1000;

// "aten.add_.Tensor" -> "aten.add."; the part that overloads share.
std::string operator_of(const std::string& target) {
  const size_t dot = target.rfind('.');
  return dot == std::string::npos ? target : target.substr(0, dot);
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

// The operator that makes a new value of what `op` writes in place: "aten.add_" -> "aten.add"; "" where `op` does not.
std::string without_place(const std::string& op) {
  if (op == "aten.__iand__") return "aten.bitwise_and";
  if (op == "aten.__ior__") return "aten.bitwise_or";
  if (op == "aten.__ixor__") return "aten.bitwise_xor";
  if (op == "aten.zero_") return "aten.zeros_like";
  const size_t n = op.size();
  const bool underscored = op.rfind("aten.", 0) == 0 && n > 6 && op[n - 1] == '_' && op[n - 2] != '_';
  return underscored ? op.substr(0, n - 1) : "";
}

// Views that the table of calls lacks: a change through one is refused, also where nothing reads the view itself.
bool is_other_view(const std::string& op) {
  return is_one_of(op, {"aten.adjoint", "aten.diagonal", "aten.dsplit", "aten.hsplit", "aten.linalg_diagonal",
                        "aten.mH", "aten.matrix_H", "aten.positive", "aten.vsplit"});
}

const Item* argument(const FxCall& call, size_t position, const char* name) {
  for (const auto& [key, x] : call.kwargs)
    if (key == name) return &x;
  return position < call.args.size() ? &call.args[position] : nullptr;
}

class Functionaliser {
 public:
  Functionaliser(Program& program, const std::map<std::string, Origin>& origins)
      : program_(program), origins_(origins) {
    for (const ProgramCall& c : program.calls) {
      names_.insert(c.call.name);
      for (const auto& [name, index] : c.results) names_.insert(name);
    }
    for (const auto& [name, value] : program.placeholders) names_.insert(name);
    for (const auto& [name, origin] : origins) names_.insert(name);
  }

  Status run() {
    for (ProgramCall& c : program_.calls) {
      if (Status status = one(c); !status.ok()) return std::move(status).with_context("node " + describe_call(c));
    }
    for (std::string& name : program_.outputs) {
      Result<std::string> now = read(name);
      if (!now.ok()) return now.take_status().with_context("output '" + name + "'");
      if (*now != name && program_.declared.count(name) != 0)
        program_.declared.emplace(*now, program_.declared.at(name));
      name = std::move(now).value();
    }
    program_.calls = std::move(out_);
    return index_calls(program_);
  }

 private:
  // A value that shares memory with `parent`, made by `call` from it; an empty target is the same tensor.
  struct View {
    std::string parent;
    FxCall call;
    size_t index = 0;       // of a call that gives a list
    bool is_piece = false;  // such a call
    Sharing sharing = Sharing::kView;
  };
  struct Tensor {
    std::string current;  // the name that holds its value
    size_t storage = 0;
    uint64_t version = 0;  // of the storage, when `current` was right
    bool is_root = true;
    int depth = 0;  // of views
    View view;
  };
  struct Storage {
    uint64_t version = 0;
    std::string root;
  };

  Tensor& tensor(const std::string& name) {
    const auto [found, fresh] = tensors_.try_emplace(name);
    if (fresh) {
      found->second.current = name;
      found->second.storage = storages_.size();
      storages_.push_back({0, name});
    }
    return found->second;
  }

  // The name that holds the value of `name` now; re-makes a view of what has changed since.
  Result<std::string> read(const std::string& name) {
    if (tensors_.count(name) == 0) return name;
    Tensor& t = tensors_.at(name);
    const uint64_t now = storages_[t.storage].version;
    if (t.version == now) return t.current;
    if (t.is_root || t.view.sharing == Sharing::kMaybe)
      return Status::failure("P0313", "'%" + name +
                                          "' may share memory with a tensor that was changed in place meanwhile, and "
                                          "the file does not say whether it does; "
                                          "use an operator that does not work in place, or .clone()");
    if (t.depth > kMostViews)
      return Status::failure(
          "P0313", "'%" + name + "' is a view of a view, more than " + std::to_string(kMostViews) + " times over");
    const View view = t.view;
    PIPER_ASSIGN(const std::string parent, read(view.parent));
    std::string made = parent;
    if (!view.call.target.empty()) {
      FxCall call = view.call;
      PIPER_RETURN_IF_ERROR(read_arguments(call));
      call.args[0] = Item::of_ref(parent);
      made = emit(std::move(call), name);
      if (view.is_piece) {
        FxCall piece;
        piece.target = "operator.getitem";
        piece.args = {Item::of_ref(made), Item::of_int(static_cast<int64_t>(view.index))};
        made = emit(std::move(piece), name);
      }
    }
    Tensor& again = tensors_.at(name);
    again.current = made;
    again.version = now;
    return made;
  }

  Status read_arguments(FxCall& call) {
    for (Item& x : call.args) PIPER_RETURN_IF_ERROR(read_item(x));
    for (auto& [key, x] : call.kwargs) PIPER_RETURN_IF_ERROR(read_item(x));
    return Status();
  }
  Status read_item(Item& x) {
    if (x.kind == Item::Kind::kRef) {
      PIPER_ASSIGN(x.text, read(x.text));
    }
    for (Item& y : x.list) PIPER_RETURN_IF_ERROR(read_item(y));
    return Status();
  }

  // Appends a call that the user's program does not have, on behalf of the one at hand. `like`: a name
  // whose declared type is also that of the result.
  std::string emit(FxCall call, const std::string& like) {
    ProgramCall c;
    std::string name;
    do name = like + "_v" + std::to_string(++made_);
    while (!names_.insert(name).second);
    c.call = std::move(call);
    c.call.name = name;
    c.module = at_->module;
    c.line = at_->line;
    c.tags = at_->tags;
    if (std::any_of(c.call.args.begin(), c.call.args.end(), [&](const Item& x) { return carries_gradient(x); }))
      differentiable_.insert(name);
    out_.push_back(std::move(c));
    if (const auto found = program_.declared.find(like); found != program_.declared.end()) {
      DeclaredType type = found->second;
      program_.declared.emplace(name, std::move(type));
    }
    return name;
  }

  Status one(ProgramCall& c) {
    at_ = &c;
    const std::string op = operator_of(c.call.target);
    const std::string functional = without_place(op);
    const FxCall written = c.call;
    PIPER_RETURN_IF_ERROR(read_arguments(c.call));
    bool gradient = false;
    if (!c.no_grad && op != "aten.detach")
      for (const Item& x : c.call.args) gradient = gradient || carries_gradient(x);
    if (!functional.empty()) return change(c, written, op, functional);
    bool is_same = false;  // the result is its first argument
    const SharedOperand shared = shared_operand(op, written, c, is_same);
    ProgramCall copy = c;
    out_.push_back(std::move(copy));
    std::vector<std::pair<std::string, size_t>> made = c.results;
    const bool is_list = !made.empty();
    if (!is_list) made.emplace_back(c.call.name, 0);
    for (const auto& [name, index] : made) {
      if (gradient && is_floating_or_unknown(name)) differentiable_.insert(name);
      const Item* self = owner_of(shared, is_list, index);
      if (self == nullptr) continue;
      Tensor& parent = tensor(self->text);
      const size_t storage = parent.storage;
      const int depth = parent.depth + 1;
      Tensor& t = tensors_[name];
      t.current = name;
      t.storage = storage;
      t.version = storages_[storage].version;
      t.is_root = false;
      t.depth = depth;
      t.view = {self->text, written, index, is_list, shared.sharing};
      if (is_same) t.view.call = FxCall();
    }
    return Status();
  }

  // An operand that the result of a call shares memory with.
  struct SharedOperand {
    Sharing sharing = Sharing::kNone;
    const Item* operand = nullptr;
  };

  // The tensor that result `index` shares memory with; null where there is none. Of a list of operands, each has a
  // result of its own, or the only one has the only result.
  static const Item* owner_of(const SharedOperand& shared, bool is_list, size_t index) {
    const Item* owner = shared.operand;
    if (shared.sharing == Sharing::kNone || owner == nullptr) return nullptr;
    if (owner->is_list()) {
      const std::vector<Item>& list = owner->list;
      if (is_list ? index >= list.size() : list.size() != 1) return nullptr;
      owner = &list[is_list ? index : 0];
    }
    return owner->kind == Item::Kind::kRef ? owner : nullptr;
  }

  SharedOperand shared_operand(const std::string& op, const FxCall& written, const ProgramCall& c,
                               bool& is_same) const {
    if (is_other_view(op)) return {Sharing::kMaybe, argument(written, 0, "self")};
    const TableRow* row = find_operator(c.call.target);
    if (row == nullptr) return {};
    const std::vector<Parameter>& parameters = row->schema.parameters;
    const auto shared = std::find_if(parameters.begin(), parameters.end(),
                                     [](const Parameter& p) { return p.sharing != Sharing::kNone; });
    if (shared == parameters.end()) return {};
    const auto position = static_cast<size_t>(shared - parameters.begin());
    SharedOperand found{shared->sharing, argument(written, position, shared->name.c_str())};
    if (const std::optional<Sharing> known = sharing_of(op, written, c, is_same)) found.sharing = *known;
    // A view is made again by another first argument.
    if (found.sharing == Sharing::kView && (written.args.empty() || found.operand != &written.args[0]))
      found.sharing = Sharing::kMaybe;
    return found;
  }

  // For operators whose sharing the call says; nullopt: the table does.
  std::optional<Sharing> sharing_of(const std::string& op, const FxCall& call, const ProgramCall& c,
                                    bool& is_same) const {
    if (op == "aten.dropout") {
      const Item *p = argument(call, 1, "p"), *train = argument(call, 2, "train");
      is_same =
          (p != nullptr && p->number() == 0) || (train != nullptr && train->kind == Item::Kind::kBool && !train->flag);
      return is_same ? Sharing::kView : Sharing::kNone;
    }
    if (op == "aten.to" || op == "aten.type_as") {
      for (size_t i = 2; i < call.args.size(); ++i)
        if (call.args[i].kind == Item::Kind::kBool && call.args[i].flag)
          return Sharing::kMaybe;  // non_blocking or copy
      for (const auto& [key, x] : call.kwargs)
        if (x.kind == Item::Kind::kBool && x.flag) return Sharing::kMaybe;
      const Item* self = argument(call, 0, "self");
      if (self == nullptr || self->kind != Item::Kind::kRef) return Sharing::kMaybe;
      const auto from = program_.declared.find(self->text), to = program_.declared.find(c.call.name);
      if (from == program_.declared.end() || to == program_.declared.end()) return Sharing::kMaybe;
      is_same = from->second.dtype == to->second.dtype;
      return is_same ? Sharing::kView : Sharing::kNone;
    }
    return std::nullopt;
  }

  // ---- changes in place

  Status change(ProgramCall& c, const FxCall& written, const std::string& op, const std::string& functional) {
    if (is_one_of(op, {"aten.squeeze_", "aten.unsqueeze_", "aten.transpose_", "aten.t_", "aten.swapaxes_",
                       "aten.resize_", "aten.set_", "aten.as_strided_", "aten.requires_grad_"}))
      return Status::failure(
          "P0313",
          c.call.target +
              " changes the shape or the state of a tensor, not its elements; use the operator without the underscore");
    if (written.args.empty() || written.args[0].kind != Item::Kind::kRef)
      return Status::failure("P0313", c.call.target + " without a tensor");
    const std::string self = written.args[0].text;
    const std::string before = c.call.args[0].text;
    tensor(self);
    PIPER_RETURN_IF_ERROR(check_owner(self, c));
    ProgramCall made = c;
    std::string overload = c.call.target.substr(c.call.target.rfind('.') + 1);
    // `pow.Scalar` is a number to the power of a tensor.
    if (is_one_of(op, {"aten.pow_", "aten.float_power_"})) overload.insert(0, "Tensor_");
    made.call.target = functional + "." + overload;
    const bool keeps_dtype =
        is_one_of(op, {"aten.copy_", "aten.fill_", "aten.zero_", "aten.masked_fill_", "aten.detach_"});
    const bool casts = !keeps_dtype && mixes_dtypes(written, self);
    if (casts) program_.declared.erase(c.call.name);
    out_.push_back(made);
    std::string now = c.call.name;
    if (casts) {
      FxCall cast;
      cast.target = "aten.type_as.default";
      cast.args = {Item::of_ref(now), Item::of_ref(before)};
      now = emit(std::move(cast), self);
    }
    bool gradient = false;
    for (const Item& x : c.call.args) gradient = gradient || (!c.no_grad && carries_gradient(x));
    if (gradient) differentiable_.insert(c.call.name);
    PIPER_RETURN_IF_ERROR(write(self, now, gradient));
    Tensor& result = tensors_[c.call.name];
    const Tensor& own = tensors_.at(self);
    result.current = now;
    result.storage = own.storage;
    result.version = own.version;
    result.is_root = false;
    result.depth = own.depth + 1;
    result.view = View();
    result.view.parent = self;
    return Status();
  }

  Status check_owner(const std::string& self, const ProgramCall& c) {
    const std::string& root = storages_[tensors_.at(self).storage].root;
    const auto origin = origins_.find(root);
    if (origin != origins_.end() && origin->second != Origin::kInput) {
      const auto placeholder = program_.placeholders.find(root);
      const std::string name = placeholder == program_.placeholders.end() ? root : placeholder->second;
      if (!counts_batches(name))
        return Status::failure("P0314", c.call.target + " changes the " +
                                            (origin->second == Origin::kParameter ? "parameter '"
                                             : origin->second == Origin::kBuffer  ? "buffer '"
                                                                                  : "constant '") +
                                            name + "' inside the model");
    }
    if (c.no_grad && shows_gradient(self))
      return Status::failure(
          "P0313",
          c.call.target + " changes, without gradient, a tensor that carries one; piper cannot keep its gradient");
    return Status();
  }

  // Whether a tensor, or one that it is a view of, carries a gradient: a view that was made without gradient does not
  // itself.
  bool shows_gradient(const std::string& name) const {
    if (differentiable_.count(name) != 0) return true;
    const Tensor& t = tensors_.at(name);
    return !t.is_root && shows_gradient(t.view.parent);
  }

  // Gives `self` the value `now`, and what it is a view of the value that follows from it.
  Status write(const std::string& self, std::string now, bool gradient) {
    std::string name = self;
    std::vector<std::pair<std::string, std::string>> written;
    for (;;) {
      written.emplace_back(name, now);
      if (gradient) differentiable_.insert(name);
      const Tensor t = tensors_.at(name);
      if (t.is_root || t.view.sharing == Sharing::kMaybe) break;
      PIPER_ASSIGN(const std::string parent, read(t.view.parent));
      PIPER_ASSIGN(now, written_back(t.view, parent, now));
      name = t.view.parent;
    }
    Storage& storage = storages_[tensors_.at(self).storage];
    ++storage.version;
    for (const auto& [changed, value] : written) {
      tensors_.at(changed).current = value;
      tensors_.at(changed).version = storage.version;
    }
    return Status();
  }

  // The parent of a view after the view has got the value `now`.
  Result<std::string> written_back(const View& view, const std::string& parent, const std::string& now) {
    const std::string op = operator_of(view.call.target);
    FxCall back;
    if (op.empty() || op == "aten.alias" || op == "aten.lift_fresh") return now;
    if (is_one_of(op, {"aten.view", "aten.view_as", "aten._unsafe_view", "aten.squeeze", "aten.unsqueeze",
                       "aten.unflatten"})) {
      back.target = "aten.view_as.default";
      back.args = {Item::of_ref(now), Item::of_ref(parent)};
    } else if (is_one_of(op,
                         {"aten.transpose", "aten.t", "aten.mT", "aten.numpy_T", "aten.swapaxes", "aten.swapdims"})) {
      back = view.call;
      back.args[0] = Item::of_ref(now);
    } else if (op == "aten.permute") {
      back = view.call;
      back.args[0] = Item::of_ref(now);
      const Item* dims = argument(view.call, 1, "dims");
      const int64_t rank = dims == nullptr ? 0 : static_cast<int64_t>(dims->list.size());
      std::vector<Item> inverse(static_cast<size_t>(rank), Item::of_int(0));
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t d = dims->list[static_cast<size_t>(i)].integer;
        const std::optional<int64_t> axis = ir::known_axis(d, static_cast<size_t>(rank));
        if (!axis)
          return Status::failure("P0313",
                                 "a permutation of " + std::to_string(rank) + " axes names axis " + std::to_string(d));
        inverse[static_cast<size_t>(*axis)] = Item::of_int(i);
      }
      back.args.resize(1);
      back.kwargs.clear();
      back.args.push_back(Item::of_list(std::move(inverse)));
    } else if (op == "aten.slice" || op == "aten.select") {
      back = view.call;
      PIPER_RETURN_IF_ERROR(read_arguments(back));
      back.target = op == "aten.slice" ? "aten.slice_scatter.default" : "aten.select_scatter.default";
      back.args[0] = Item::of_ref(parent);
      back.args.insert(back.args.begin() + 1, Item::of_ref(now));
    } else {
      return Status::failure("P0313",
                             "a change in place through " + view.call.target +
                                 " cannot be followed; build the new tensor with torch.where, torch.cat or an operator "
                                 "that does not work in place");
    }
    return emit(std::move(back), view.parent);
  }

  // ---- what the file declares

  bool mixes_dtypes(const FxCall& call, const std::string& self) const {
    const auto own = program_.declared.find(self);
    if (own == program_.declared.end()) return false;
    for (size_t i = 1; i < call.args.size(); ++i) {
      if (call.args[i].kind != Item::Kind::kRef) continue;
      const auto other = program_.declared.find(call.args[i].text);
      if (other != program_.declared.end() && other->second.dtype != own->second.dtype) return true;
    }
    return false;
  }
  bool is_floating_or_unknown(const std::string& name) const {
    const auto found = program_.declared.find(name);
    return found == program_.declared.end() || !found->second.dtype || is_floating(*found->second.dtype);
  }
  bool carries_gradient(const Item& x) const {
    if (x.kind == Item::Kind::kRef) {
      const auto origin = origins_.find(x.text);
      if ((origin != origins_.end() && origin->second == Origin::kParameter) || differentiable_.count(x.text) != 0)
        return true;
    }
    return std::any_of(x.list.begin(), x.list.end(), [&](const Item& y) { return carries_gradient(y); });
  }

  Program& program_;
  const std::map<std::string, Origin>& origins_;
  std::vector<ProgramCall> out_;
  std::set<std::string> names_, differentiable_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::vector<Storage> storages_;
  const ProgramCall* at_ = nullptr;
  int64_t made_ = 0;
};

}  // namespace

Status functionalise(Program& program, const std::map<std::string, Origin>& origins) {
  return Functionaliser(program, origins).run();
}

}  // namespace piper::frontend::aten
