"""Find out why a network does not learn, and why its loss is NaN.

The first layer is initialised so badly that every unit is dead, one parameter is rounded, and the
loss takes the logarithm of a probability that underflows. Each report names the line.
"""

from __future__ import annotations

import pullback as pb


def init() -> dict[str, pb.Tensor]:
    return {
        "w": pb.random.normal(pb.random.key(0), (4, 8)),
        "b": -100 * pb.ones(8),  # so small that relu is 0 for every example
        "v": pb.random.normal(pb.random.key(1), (8, 3)),
        "temperature": pb.tensor(1.3),
    }


def logits(params: dict[str, pb.Tensor], x: pb.Tensor) -> pb.Tensor:
    hidden = pb.relu(x @ params["w"] + params["b"])
    return hidden @ params["v"] * pb.round(params["temperature"])


def loss(params: dict[str, pb.Tensor], x: pb.Tensor) -> pb.Tensor:
    return (logits(params, x) - 1.0).mean()


def careless_loss(x: pb.Tensor) -> pb.Tensor:
    """Cross entropy without `log_softmax`: the exponential underflows, and log(0) is infinite."""
    return -pb.log(pb.softmax(200 * x, axis=1)).mean()


def running_product(x: pb.Tensor) -> pb.Tensor:
    def step(product: pb.Tensor, row: pb.Tensor) -> tuple[pb.Tensor, pb.Tensor]:
        pb.debug.print("product {:.1e}", product)
        return product * row * row, product

    return pb.scan(step, pb.tensor(1.0), x)[0]


def main() -> None:
    x = pb.random.normal(pb.random.key(2), (16, 4))

    print("Why is the gradient zero?")
    report = pb.debug.explain_grad(loss)(init(), x)
    print(report)
    dead = report["params['w']"]
    assert dead.status == "zero" and dead.cuts[0].op == "relu"
    assert "constant" in [cut.kind for cut in report["params['temperature']"].cuts]

    print("\nWhere does the infinity come from?")
    found = pb.debug.trace_nan(careless_loss)(x)
    print(found)
    assert found.first is not None and found.first.op == "log"
    with pb.config(check_nan=True):
        try:
            pb.compile(careless_loss)(x)
        except pb.errors.NumericOverflow as error:
            print(error)

    print("\nWhat happens in the loop?")
    value = pb.compile(running_product)(pb.tensor([10.0, 1e4, 1e8, 1e8]))
    assert value.item() == float("inf")
    overflow = pb.debug.trace_nan(running_product)(pb.tensor([10.0, 1e4, 1e8, 1e8])).first
    assert overflow is not None and overflow.loops[0].iteration == 3

    print("\nDoes compiling change the numbers?")
    audit = pb.debug.audit(pb.grad(lambda x: pb.log_softmax(x @ x.T, axis=1).mean()))(x)
    print("\n".join(str(audit).splitlines()[:2]))
    assert all(distance < float("inf") for distance in audit.results)


if __name__ == "__main__":
    main()
