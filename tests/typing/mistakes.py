"""Mistakes that a type checker must report, each on a line of its own with its error code."""

import pullback as pb


def loss(w: pb.Tensor, scale: float) -> pb.Tensor:
    return (w * scale).sum()


def mistakes(x: pb.Tensor) -> None:
    # arguments of functions
    pb.sum("nonsense")  # error: arg-type
    pb.sum(x, axis="also")  # error: arg-type
    pb.exp("nonsense")  # error: arg-type
    pb.exp()  # error: call-arg
    pb.exp(x, x)  # error: call-arg
    pb.exp(y=x)  # error: call-arg
    pb.maximum(x)  # error: call-arg
    pb.maximum(x, None)  # error: arg-type
    pb.max(x, axis=0.5)  # error: arg-type
    pb.tensor({"a": 1})  # error: arg-type
    pb.zeros("three")  # error: arg-type
    pb.zeros((2, 3), dtype=32)  # error: arg-type
    pb.reshape(x, (2, "3"))  # error: arg-type
    pb.concat(x, axis=(0, 1))  # error: arg-type
    pb.einsum("ij->ji", x, optimize=2.5)  # error: arg-type
    pb.shard(x, "dp")  # error: arg-type
    pb.searchsorted(x, x, side="middle")  # error: arg-type
    pb.cumtotal(x)  # error: attr-defined
    pb.no_such_function(x)  # error: attr-defined

    # operators and methods
    x + "1"  # error: arg-type
    x @ None  # error: arg-type
    x["row"]  # error: index
    x[0.5]  # error: index
    x[0] = "1"  # error: assignment
    x.sum(axis="rows")  # error: arg-type
    x.exp(1.0)  # error: call-arg
    x.astype(1)  # error: arg-type
    x.reshape("4")  # error: arg-type
    x.shape = (6,)  # error: misc
    x.no_such_method()  # error: attr-defined

    # transforms keep the signature of their function
    pb.grad(loss)(x)  # error: call-arg
    pb.grad(loss)(x, "2")  # error: arg-type
    pb.value_and_grad(loss)(x, 2.0, 3.0)  # error: call-arg
    pb.compile(loss)(x)  # error: call-arg
    pb.compile(loss)(x, "2")  # error: arg-type
    pb.grad(1.0)  # error: call-overload
    pb.compile(loss)(x, 2.0).no_such_method()  # error: attr-defined

    # programs
    pb.ir.parse(1)  # error: arg-type
    pb.ir.parse("").no_such_method()  # error: attr-defined
