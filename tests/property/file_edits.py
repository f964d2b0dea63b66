"""What other exporters write into an ONNX file, done to one of ours: {name: function of the file's model}."""
from __future__ import annotations


def foreign(model):
    """Nothing says what is trained, or which operators have no gradient."""
    model.producer_name = "another"
    del model.metadata_props[:]
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.initializer):
        del part.metadata_props[:]


def name_loss(model):
    """A value in the middle has the name "loss", and the loss another."""
    foreign(model)
    inner = [node.output[0] for node in model.graph.node if node.op_type == "Tanh"][-1]
    loss = model.graph.output[0].name
    names = {inner: "loss", loss: "loss_0" if loss == "loss" else loss}
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*model.graph.value_info, *model.graph.output):
        value.name = names.get(value.name, value.name)


EDITS = {"foreign": foreign, "name_loss": name_loss}
