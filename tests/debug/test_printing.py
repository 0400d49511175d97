"""Prints inside traced functions: what, how often and in which order."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from devices import on_devices

import pullback as pb

show = pb.debug.print


@pytest.fixture(params=["xla", "reference"])
def engine(request: pytest.FixtureRequest) -> Any:
    with pb.config(engine=request.param):
        yield request.param


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_outside_of_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    x = pb.tensor([1.0, 2.0])
    show("x", x, 3)
    show("{:.2f} and {n} in {{}}", x.sum(), n=4)
    show("{} alone")
    show("{0:.1f} {0:.2f}", x)
    show()
    expected = ["x [1. 2.] 3", "3.00 and 4 in {}", "{} alone", "[1.0 2.0] [1.00 2.00]", ""]
    assert lines(capsys) == expected


def test_derivatives_print_values(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        show("x is", x)
        return x * x

    assert pb.grad(f)(pb.tensor(3.0)).item() == 6
    assert pb.jvp(f, (pb.tensor(2.0),), (pb.tensor(1.0),))[1].item() == 4
    assert lines(capsys) == ["x is 3.0", "x is 2.0"]


def test_a_compiled_function_prints_at_each_call(engine: Any, capsys: Any) -> None:
    @pb.compile
    def f(x: Any, scale: float) -> Any:
        show("x {:.1f} scale {}", x, scale)
        return x * scale

    assert [f(pb.tensor(x), 2.0).item() for x in (1.0, 2.0)] == [2.0, 4.0]
    assert lines(capsys) == ["x 1.0 scale 2.0", "x 2.0 scale 2.0"]
    f(pb.ones(()), 3.0)  # complete, though no result is read
    assert lines(capsys) == ["x 1.0 scale 3.0"]


def test_loops_and_branches_print_in_order(engine: Any, capsys: Any) -> None:
    @pb.compile
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            show("row", row)
            return c * row, c

        def again(k: Any) -> Any:
            show("test", k)
            return k < 1

        def count(k: Any) -> Any:
            show("body", k)
            return k + 1

        def large() -> Any:
            show("large")
            return c

        show("start", x)
        c = pb.scan(step, x, pb.tensor([1.0, 2.0]))[0]
        show("end", c)
        y = pb.cond(c > 3, large, lambda: -c)
        k = pb.while_loop(again, count, pb.tensor(0))
        show("last", y)
        return y + k

    assert f(pb.tensor(2.0)).item() == 5
    loop = ["row 1.0", "row 2.0"]
    rest = ["large", "test 0", "body 0", "test 1", "last 4.0"]
    assert lines(capsys) == ["start 2.0", *loop, "end 4.0", *rest]
    assert f(pb.tensor(1.0)).item() == -1
    assert "large" not in lines(capsys)


def test_vmap_prints_each_example(engine: Any, capsys: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        show("{} {}", x, y)
        return x * y

    mapped = pb.vmap(f, in_axes=(0, None))
    assert mapped(pb.tensor([1.0, 2.0]), pb.tensor(5.0)).tolist() == [5, 10]
    assert lines(capsys) == ["1.0 5.0", "2.0 5.0"]
    twice = pb.vmap(pb.vmap(f, in_axes=(0, None)), in_axes=(None, 0))
    twice(pb.tensor([1.0, 2.0]), pb.tensor([5.0, 6.0])).numpy()
    assert lines(capsys) == ["1.0 5.0", "2.0 5.0", "1.0 6.0", "2.0 6.0"]
    pb.vmap(lambda x: f(x, pb.psum(x, "i")), axis_name="i")(pb.tensor([1.0, 2.0])).numpy()
    assert lines(capsys) == ["1.0 3.0", "2.0 3.0"]


def test_compiled_gradients_print_the_forward_pass_once(engine: Any, capsys: Any) -> None:
    def step(c: Any, row: Any) -> Any:
        show("c", c)
        return pb.sin(c) * row, None

    def f(x: Any) -> Any:
        return pb.scan(step, x, pb.ones(3))[0]

    g = pb.compile(pb.grad(f))(pb.tensor(0.5))
    printed = lines(capsys)
    assert [line.split()[0] for line in printed] == ["c"] * 3 and printed[0] == "c 0.5"
    assert g.item() == pytest.approx(pb.grad(f)(pb.tensor(0.5)).item())
    lines(capsys)

    def inner(x: Any) -> Any:
        show("inner", x)
        return pb.sin(x)

    pb.compile(pb.grad(pb.compile(inner)))(pb.tensor(1.0)).item()
    assert lines(capsys) == ["inner 1.0"]
    pb.compile(pb.grad(pb.checkpoint(inner)))(pb.tensor(1.0)).item()
    assert set(lines(capsys)) == {"inner 1.0"}


def test_a_placeholder_prints_as_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x}", [x])
        return x

    pb.compile(f)(pb.tensor([1.0, 2.0]))
    assert lines(capsys) == ["Tensor(f32[2]) Tensor(f32[2]) [Tensor(f32[2])]"]


def test_every_dtype(engine: Any, capsys: Any) -> None:
    @pb.compile
    def f(*xs: Any) -> Any:
        for x in xs:
            show(x)
        return xs[0]

    names = ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"]
    f(*[pb.tensor([1, 0]).astype(name) for name in names]).numpy()
    printed = lines(capsys)
    assert printed[0] == "[ True False]" and printed[4] == "[1 0]" and len(printed) == len(names)


def test_wrong_fields_raise_at_the_line() -> None:
    f = pb.compile(lambda x: (show("{:q}", x), x)[1])
    with pytest.raises(pb.errors.ArgumentError, match=r"debug.print: .*test_printing.py"):
        f(pb.tensor(1.0))
    with pytest.raises(pb.errors.ArgumentError, match="no value for the replacement field"):
        show("{} {}", pb.tensor(1.0))
    with pytest.raises(pb.errors.ArgumentError, match="no replacement field for 'y'"):
        show("x", y=pb.tensor(1.0))


def test_a_printed_program_is_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    text = pb.compile(lambda x: (show("x {:.1f}", x), x + 1)[1]).lower(pb.tensor(1.0)).text()
    (y,) = pb.ir.run(pb.ir.parse(text), {"x": 1.5})
    assert y == 2.5 and lines(capsys) == ["x 1.5"]
    with pytest.raises(pb.PullbackError, match="fields of the template"):
        pb.ir.verify(pb.ir.parse(text.replace("{0:.1f}", "{0.array}")))


def test_a_program_that_prints_cannot_be_saved(tmp_path: Any) -> None:
    f = pb.compile(lambda x: (show(x), x + 1)[1])
    with pytest.raises(pb.errors.UnsupportedOp, match="prints cannot be saved"):
        f.lower(pb.tensor(1.0)).save(tmp_path / "f.pb")


@on_devices
def test_on_a_mesh() -> None:
    mesh, spec = pb.DeviceMesh(4, "dp"), pb.P("dp")
    x = pb.arange(8.0).shard(mesh, spec)

    def f(x: Any) -> Any:
        show("x", x)
        return x * 2

    def printed(f: Any) -> list[str]:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            f(x).numpy()
        return sorted(out.getvalue().splitlines())

    assert printed(pb.compile(f)) == ["x [0. 1. 2. 3. 4. 5. 6. 7.]"]
    each = pb.shard_map(f, mesh, in_specs=spec, out_specs=spec)
    assert printed(each) == [f"device {k}: x [{2 * k}. {2 * k + 1}.]" for k in range(4)]
