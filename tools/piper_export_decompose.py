"""Calls that piperc has no row for are taken apart into calls that it has rows for, as PyTorch itself takes them apart.

Node by node: a call without a row, or whose row refuses its arguments, is traced by itself with the same symbolic extents and put in
its place, with its module, its line, its tags and its mark of no gradient. Every other node stays as it is. A call that ends in one
without a row, or whose own derivative is another than that of its parts (piper_export_decompositions.py), stays; piperc names it.
"""
from __future__ import annotations

import contextlib
import functools
import logging
import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._pytree import tree_leaves, tree_map_only

from piper_export_calls import ROWS
from piper_export_decompositions import SAME_DERIVATIVE
from piper_export_refused import CONDITIONS, row_refuses
from piper_export_rules import RULES

_PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "generator"}
_DEPTH = 12
# In place without a row of the name that is not.
_IN_PLACE = {"aten.zero_.default", "aten.__iand__.Tensor", "aten.__ior__.Tensor", "aten.__ixor__.Tensor", "aten.__iand__.Scalar",
             "aten.__ior__.Scalar", "aten.__ixor__.Scalar"}
_FROM_NODE = ("nn_module_stack", "stack_trace", "source_fn_stack", "torch_fn", "custom", "from_node", "seq_nr")


@contextlib.contextmanager
def quiet():
    """torch warns of, and logs, what it cannot trace."""
    logs = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logs)


def take_apart(program, also=()):
    """Changes `program` in place; the calls that were taken apart, by name. also: names of operators that are taken apart although
    they have rows."""
    done = []
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            names = {}
            done += _take_apart_graph(module, also, names)
            if module is program.graph_module:
                rename_outputs(program, names)
            module.graph.lint()
            module.recompile()
    return done


def without_rows(program):
    """Operators that are called and have no row."""
    return sorted({target_name(node.target) for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)
                   for node in module.graph.nodes if node.op == "call_function" and node.users and not isinstance(node.target, torch._ops.HigherOrderOperator)
                   and not _has_effect_alone(node) and not has_row(node.target, node.args, node.kwargs)})


def has_row(target, args=(), kwargs=None):
    """Whether piperc has a row for a call of `target`, with so many arguments and these names."""
    name = target_name(target)
    kwargs = kwargs or {}
    if name in ROWS:
        parameters = ROWS[name]
        return len(args) <= len(parameters) and all(
            key in parameters or key in _PLACEMENT or value is None for key, value in kwargs.items())
    functional = _out_of_place(target)
    return name in _IN_PLACE or (functional is not None and target_name(functional) in ROWS)


def target_name(target):
    """As piperc writes it."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
    return f"operator.{name}" if module == "_operator" else name if name.startswith("sym_") else f"{module}.{name}"


def _out_of_place(target):
    """The operator that makes a new value of what `target` writes in place, or None."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    base = target._schema.name.split("::")[1]
    if not base.endswith("_") or base.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, base[:-1], None)
    return getattr(packet, target._overloadname, None) if packet is not None else None


def _is_call(node):
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def _has_effect_alone(node):
    return all(not isinstance(value, (torch.Tensor, torch.SymInt)) for value in tree_leaves(node.meta.get("val")))    # an assertion


def _take_apart_graph(module, also, names):
    graph, done = module.graph, []
    writes = any(_is_call(node) and node.target._schema.is_mutable for node in graph.nodes)
    for node in list(graph.nodes):
        if not _is_call(node) or (not node.users and not node.target._schema.is_mutable) or _has_effect_alone(node):
            continue
        named = target_name(node.target) in also
        if not named and has_row(node.target, node.args, node.kwargs) and not row_refuses(node):
            continue
        parts = parts_of(node, named, writes)
        if parts is not None:
            done.append(node.name)
            names.update(_put_in_place(graph, node, parts))
    return done


# ---------------------------------------------------------------- one call

def parts_of(node, named=False, writes=False):
    """A graph whose placeholders are the nodes that `node` reads and whose calls all have rows, or None. writes: whether something
    is written in place in the graph of `node`, so that views have to stay views."""
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return None    # other random numbers
    target, in_place = node.target, _out_of_place(node.target)
    values = [given.meta.get("val") for given in node.all_input_nodes]
    if any(value is None for value in values):
        return None
    call = _call_of(in_place or target, node)
    module = _traced(call, in_place or target, values, _no_gradient(node))
    if module is None or not _all_have_rows(module, {target, in_place}, 1, not named):
        return None
    if not _same_results(module, node.meta.get("val")):
        return None
    if writes and in_place is None and not _same_sharing(target, call, module, values):
        return None
    if in_place is not None:
        _write_back(module, node)
    module.recompile()
    return module


def _no_gradient(node):
    return bool((node.meta.get("custom") or {}).get("piper_no_grad"))


def _call_of(target, node):
    inputs = list(node.all_input_nodes)

    def call(*values):
        value_of = dict(zip(inputs, values, strict=True))
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda x: value_of[x])
        return target(*args, **kwargs)
    return call


def _is_composite(target):
    """Whether PyTorch has no derivative of a call but that of its parts. Rules in Python are also of calls that have their own."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")


def _rule(target):
    """What PyTorch makes of a call, or None."""
    if target in RULES:
        return RULES[target]
    if _is_composite(target):
        return lambda *args, **kwargs: target._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
    return torch._decomp.decomposition_table.get(target) or target.py_kernels.get(torch._C.DispatchKey.CompositeImplicitAutograd)


def wants_a_list(target):
    """Whether `target` has no row, and a derivative of its own and parts, which may have another."""
    return ((not has_row(target) or target_name(target) in CONDITIONS) and not _is_composite(target)
            and _rule(target) is not None and torch.Tag.nondeterministic_seeded not in target.tags)


@functools.cache
def _prims():
    """`prims.*` have no derivative: what each is in ATen."""
    found = {}
    for name in torch._prims.__all__:
        overload = getattr(getattr(torch.ops.prims, name, None), "default", None)
        if hasattr(overload, "impl_aten"):
            found[overload] = overload.impl_aten
    convert = torch.ops.prims.convert_element_type.default
    found[convert] = lambda a, dtype: a.to(dtype)
    return found


def fake_mode_of(values):
    modes = [value.fake_mode for value in tree_leaves(values) if isinstance(value, torch._subclasses.FakeTensor)]
    return modes[0] if modes else None


def _traced(call, target, values, no_gradient):
    rule, mode = _rule(target), fake_mode_of(values)
    if rule is None or mode is None:
        return None

    def leaf(tensor):    # PyTorch takes another way where no gradient is wanted
        with torch.no_grad():
            fresh = tensor.detach()
        return fresh.requires_grad_() if tensor.is_floating_point() and not no_gradient else fresh
    values = tree_map_only(torch.Tensor, leaf, values)
    extents = mode.shape_env.error_on_new_guards() if mode.shape_env is not None else contextlib.nullcontext()
    try:
        with quiet(), mode, extents, torch.enable_grad():
            module = make_fx(call, decomposition_table={target: rule, **_prims()}, pre_dispatch=True)(*values)
    except (Exception, RecursionError):    # values that only a run has, a guard on the batch, no rule for these arguments
        return None
    module.graph.eliminate_dead_code()
    keep_shapes(module.graph)
    return _without_constants(module)


def keep_shapes(graph):
    """Calls that change the shape of a tensor in place make a view: what reads the tensor from there on reads the call."""
    for node in graph.nodes:
        if _is_call(node) and torch.Tag.inplace_view in node.target.tags and (view := _out_of_place(node.target)) is not None:
            node.target = view


def _without_constants(module):
    """A tensor of one number that a rule makes is a call, too; None where it has a larger one."""
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None)
        if not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor) or value.numel() != 1 or value.dim() != 0:
            return None
        with module.graph.inserting_before(node):
            number = module.graph.call_function(torch.ops.aten.full.default, ([], value.item()), {"dtype": value.dtype})
        number.meta["val"] = node.meta.get("val")
        node.replace_all_uses_with(number)
        module.graph.erase_node(node)
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and "val" not in node.meta:
            return None
    return module


def _all_have_rows(module, taken_apart, depth, listed):
    """Takes apart what has none, in place. taken_apart: operators that a part of theirs must not be."""
    if depth > _DEPTH or (listed and not _has_listed_derivative(taken_apart)):
        return False
    for node in list(module.graph.nodes):
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "call_function":
            return False
        if has_row(node.target, node.args, node.kwargs) and not (_is_call(node) and row_refuses(node)):
            if _is_call(node) and torch.Tag.nondeterministic_seeded in node.target.tags:
                return False
            continue
        if not _is_call(node) or node.target._schema.is_mutable or node.target in taken_apart:
            return False
        values = [given.meta.get("val") for given in node.all_input_nodes]
        parts = _traced(_call_of(node.target, node), node.target, values, False)
        if parts is None or not _all_have_rows(parts, {node.target} | taken_apart, depth + 1, listed):
            return False
        _put_in_place(module.graph, node, parts)
    return True


def _has_listed_derivative(taken_apart):
    """Whether the newest of these, or its parts, have its derivative."""
    return all(target is None or _is_composite(target)
               or target_name(target) in SAME_DERIVATIVE or _out_of_place(target) in taken_apart for target in taken_apart)


def _same_results(module, wanted):
    (output,) = module.graph.find_nodes(op="output")
    made = tree_leaves(torch.fx.map_arg(output.args[0], lambda x: x.meta.get("val")))
    wanted = tree_leaves(wanted)
    return len(made) == len(wanted) and all(
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.dim() == b.dim()
        and all(statically_known_true(x == y) for x, y in zip(a.shape, b.shape)) for a, b in zip(made, wanted))


def _same_sharing(target, call, module, values):
    """Whether each result of the parts lies in the memory of an operand where the call's does."""
    if not any(result.alias_info is not None for result in target._schema.returns):
        return True

    def shared(results):
        memory = [value.untyped_storage()._cdata for value in values if isinstance(value, torch.Tensor)]
        return [result.untyped_storage()._cdata in memory for result in tree_leaves(results) if isinstance(result, torch.Tensor)]
    mode = fake_mode_of(values)
    try:
        with mode:
            return shared(call(*values)) == shared(torch.fx.Interpreter(module).run(*values))
    except Exception:
        return False


def _write_back(module, node):
    """The result of a call in place, written to what the call writes to."""
    inputs, (output,) = module.graph.find_nodes(op="placeholder"), module.graph.find_nodes(op="output")
    written = inputs[list(node.all_input_nodes).index(node.args[0])]
    with module.graph.inserting_before(output):
        copied = module.graph.call_function(torch.ops.aten.copy_.default, (written, output.args[0]))
    copied.meta["val"] = node.meta["val"]
    output.args = (copied,)


# ---------------------------------------------------------------- into the graph

def _put_in_place(graph, node, module):
    """Copies the calls of `module` to where `node` is, and erases it. {name of a result: its name now}."""
    new_of = dict(zip(module.graph.find_nodes(op="placeholder"), list(node.all_input_nodes), strict=True))
    new = []
    with graph.inserting_before(node):
        for part in module.graph.nodes:
            if part.op == "call_function":
                new_of[part] = graph.node_copy(part, lambda x: new_of[x])
                new_of[part].meta = {**{key: node.meta[key] for key in _FROM_NODE if key in node.meta}, "val": part.meta.get("val")}
                new.append(new_of[part])
    (output,) = module.graph.find_nodes(op="output")
    return replace(graph, node, torch.fx.map_arg(output.args[0], lambda x: new_of[x]), new)


def replace(graph, node, results, new):
    """`results`, a node or several, in the place of a call or of what takes its results one by one. A new node has the name of what
    it replaces. Returns {name of a result: its name now}."""
    if isinstance(results, torch.fx.Node):
        pairs = [(node, results)]
    else:
        pairs = [(user, results[user.args[1]]) for user in node.users]    # operator.getitem
    names, taken = {}, set()
    for old, other in pairs:
        name = old.name
        old.replace_all_uses_with(other)
        graph.erase_node(old)
        if other in new and other not in taken:
            taken.add(other)
            other.name = name
        names[name] = other.name
    if not isinstance(results, torch.fx.Node):
        graph.erase_node(node)
    return names


def rename_outputs(program, names):
    """The signature names results of the graph by their nodes."""
    for spec in program.graph_signature.output_specs:
        if getattr(spec.arg, "name", None) in names:
            spec.arg.name = names[spec.arg.name]
