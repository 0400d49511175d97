"""What to write for attributes of other libraries' modules and optimizers that ours do not have.

An answer is an expression or, if it ends with a full stop, a sentence.
"""

from __future__ import annotations

_HOOKS = "Override forward in a subclass; pb.custom_vjp(f) has access to gradients."
_BUFFERS = "model.register_buffer(name, value)"

OBJECT_NAMES = {
    "Module": {
        "cuda": 'model.to(device="gpu")', "cpu": 'model.to(device="cpu")',
        "half": "model.to(pb.float16)", "bfloat16": "model.to(pb.bfloat16)",
        "float": "model.to(pb.float32)", "double": "model.to(pb.float64)",
        "astype": "model.to(dtype)", "unfreeze": "model.requires_grad_()",
        "add_module": "setattr(model, name, module)", "register_state": _BUFFERS,
        "register_module": "setattr(model, name, module)",
        "register_parameter": "setattr(model, name, tensor)", "add_variable": _BUFFERS,
        "get_submodule": "dict(model.named_modules())[name]",
        "get_parameter": "dict(model.named_parameters())[name]",
        "get_buffer": "dict(model.named_buffers())[name]",
        "register_forward_hook": _HOOKS, "register_forward_pre_hook": _HOOKS,
        "register_full_backward_hook": _HOOKS,
        "init": "A module has its parameters from the start: model = Model(...), y = model(x).",
        "compile": "pb.compile(model)", "tabulate": "model.summary(x)",
        "save_weights": "pb.save(path, model.state_dict())",
        "load_weights": "model.load_state_dict(pb.load(path))",
    },
    "Optimizer": {
        "param_groups": "opt.groups, each with its params and learning_rate",
        "add_param_group": "Pass all groups when the optimizer is created, and freeze those that "
        "are not trained yet: they are trained once p.requires_grad = True.",
        "update": "opt.step() after loss.backward(); pb.optim.adam is the form with update",
        "init": "The object form has its state from the start; pb.optim.adam is the one with init.",
        "defaults": "opt.rule",
    },
    "OptimizerRule": {
        "step": "new, state = opt.update(grads, state, params); pb.optim.Adam is the form with "
        "step",
        "zero_grad": "pb.grad returns new gradients each time; pb.optim.Adam is the form with "
        "zero_grad.",
    },
}  # fmt: skip
