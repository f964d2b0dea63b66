"""What torch.vmap maps is traced again as one piece, as operators on the whole batch: in a traced program it lies between calls that
begin and end the mapping, and only these know what its operators mean."""
from __future__ import annotations

import torch
from torch._functorch import predispatch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map_only

from piper_export_decompose import fake_mode_of, keep_shapes, quiet, rename_outputs

_NO_MEANING = {predispatch.lazy_load_decompositions}


def retrace(program):
    """Changes `program` in place. A mapping that cannot be traced by itself stays. Returns the names of those that have been."""
    names, done = {}, []
    for graph in (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)):
        for nodes in _mappings(graph):
            made = _retrace(graph, nodes)
            names.update(made)
            done += list(made)[:1]
    rename_outputs(program, names)
    for module in program.graph_module.modules():
        if names and isinstance(module, torch.fx.GraphModule):
            module.graph.lint()
            module.recompile()
    return done


def _mappings(graph):
    """The nodes of each outermost mapping."""
    depth, found = 0, []
    for node in list(graph.nodes):
        if node.target is predispatch._vmap_increment_nesting:
            if depth == 0:
                found.append([])
            depth += 1
        if depth:
            found[-1].append(node)
        if node.target is predispatch._vmap_decrement_nesting:
            depth -= 1
        if not depth and node.target in _NO_MEANING:
            graph.erase_node(node)
    return found


class _Piece(torch.fx.Interpreter):
    """Runs some nodes of a graph; what is traced meanwhile has the metadata of the node that makes it."""

    def __init__(self, graph, nodes, inputs, values):
        super().__init__(torch.nn.Module(), graph=graph)
        self.nodes, self.env = nodes, dict(zip(inputs, values, strict=True))

    def results(self, wanted):
        for node in self.nodes:
            if node.target not in _NO_MEANING:
                with torch.set_grad_enabled(torch.is_grad_enabled() and not (node.meta.get("custom") or {}).get("piper_no_grad")):
                    self.env[node] = self.run_node(node)
        return [self.env[node] for node in wanted]


def _retrace(graph, nodes):
    inside = set(nodes)
    inputs = list(dict.fromkeys(given for node in nodes for given in node.all_input_nodes if given not in inside))
    wanted = [node for node in nodes if any(user not in inside for user in node.users)]
    values = [node.meta.get("val") for node in inputs]
    mode = fake_mode_of([*values, *(node.meta.get("val") for node in nodes)])
    if mode is None or not all(isinstance(value, torch.Tensor) for node in wanted for value in tree_leaves(node.meta.get("val"))):
        return {}

    def leaf(tensor):
        with torch.no_grad():
            fresh = tensor.detach()
        return fresh.requires_grad_() if tensor.is_floating_point() else fresh

    def call(*values):
        return _Piece(graph, nodes, inputs, values).results(wanted)
    try:
        with quiet(), mode, mode.shape_env.error_on_new_guards(), torch.fx.traceback.preserve_node_meta(), torch.enable_grad():
            piece = make_fx(call)(*tree_map_only(torch.Tensor, leaf, values))
    except Exception:    # values that only a run has, or a guard on the batch
        return {}
    piece.graph.eliminate_dead_code()
    keep_shapes(piece.graph)
    new_of = dict(zip(piece.graph.find_nodes(op="placeholder"), inputs, strict=True))
    if any(node.op == "get_attr" for node in piece.graph.nodes):
        return {}
    with graph.inserting_before(nodes[0]):
        for part in piece.graph.nodes:
            if part.op == "call_function":
                new_of[part] = graph.node_copy(part, lambda x: new_of[x])
    (output,) = piece.graph.find_nodes(op="output")
    names = {}
    for node, result in zip(wanted, output.args[0], strict=True):
        other, name = new_of[result], node.name
        node.replace_all_uses_with(other, delete_user_cb=lambda user: user not in inside)
        names[name] = other.name
    for node in reversed(nodes):
        graph.erase_node(node)
    return names
