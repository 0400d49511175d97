"""Data-dependent indices: one out of range raises when a value that depends on it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import IndexOutOfRange
from pullback.lazy import runtime_checks

TABLE = np.arange(10.0).reshape(5, 2)


@pytest.fixture(params=["xla", "reference"])
def _engine(request: Any) -> Any:
    with pb.config(engine=request.param):
        yield request.param


@pytest.fixture
def table() -> Any:
    return pb.tensor(TABLE)


def index(*values: int) -> Any:
    """Return an index that is known only at run time."""
    return pb.tensor(np.array(values)) * 1


GATHERS = {
    "x[i]": lambda x, i: x[i],
    "x[:, j]": lambda x, i: x.at[i, i * 0].get(),
    "take": lambda x, i: pb.take(x, i, axis=0),
    "x[i] = ": lambda x, i: x.at[i].set(1.0),
    "add": lambda x, i: x.at[i].add(1.0),
    "take_along_axis": lambda x, i: pb.take_along_axis(x, pb.reshape(i, (-1, 1)), axis=0),
}
gathers = pytest.mark.parametrize("name", GATHERS)


@gathers
@pytest.mark.parametrize("bad", [5, 1_000_000, -6])
@pytest.mark.usefixtures("_engine")
def test_an_index_out_of_range_raises_when_the_result_is_read(name, bad, table):
    picked = GATHERS[name](table, index(0, bad))
    with pytest.raises(IndexOutOfRange, match=r"test_runtime_checks\.py") as info:
        picked.numpy()
    assert isinstance(info.value, IndexError) and isinstance(info.value, pb.PullbackError)
    with pytest.raises(IndexOutOfRange):
        picked.numpy()  # and again


@gathers
@pytest.mark.usefixtures("_engine")
def test_indices_in_range_are_right(name, table):
    got = GATHERS[name](table, index(4, -5)).numpy()
    assert np.isfinite(got).all()
    if name in ("x[i]", "take"):
        np.testing.assert_array_equal(got, TABLE[[4, 0]])


@pytest.mark.usefixtures("_engine")
def test_reading_a_value_computed_from_it_raises(table):
    picked = table[index(0, 9)]
    total = (picked * 2 + 1).sum()
    with pytest.raises(IndexOutOfRange):
        total.item()
    with pytest.raises(IndexOutOfRange):
        picked.numpy()


@pytest.fixture(params=["examined when ready", "examined when read"])
def _pace(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the result of a check is ready when the next program starts."""
    if request.param == "examined when read":
        monkeypatch.setattr(runtime_checks.CheckedRun, "ready", lambda self: False)


@pytest.mark.usefixtures("_pace")
def test_a_later_program_may_use_an_unrelated_result(table):
    picked, fine = table[index(0, 9)], table * 2
    pb.evaluate(picked, fine)
    later = fine + 1
    pb.evaluate(later)
    np.testing.assert_array_equal(later.numpy(), TABLE * 2 + 1)
    np.testing.assert_array_equal(fine.numpy(), TABLE * 2)
    with pytest.raises(IndexOutOfRange):
        picked.numpy()


@pytest.mark.usefixtures("_pace")
def test_reading_a_result_of_a_later_program_raises(table):
    """The second program uses a result of the first, whose check was not examined."""
    picked = table[index(0, 9)]
    pb.evaluate(picked)
    later = picked + 1
    pb.evaluate(later)
    last = later * 2
    with pytest.raises(IndexOutOfRange):
        last.numpy()
    with pytest.raises(IndexOutOfRange):
        later.numpy()


@pytest.mark.usefixtures("_engine")
def test_an_unrelated_result_of_the_same_program_can_be_read(table):
    i = index(0, 9)
    picked = table[i]
    fine = table * 2
    also_fine = i + 1
    np.testing.assert_array_equal(fine.numpy(), TABLE * 2)
    np.testing.assert_array_equal(also_fine.numpy(), [1, 10])
    with pytest.raises(IndexOutOfRange):
        picked.numpy()
    np.testing.assert_array_equal(fine.numpy(), TABLE * 2)


@pytest.mark.usefixtures("_engine")
def test_later_programs_work_after_a_failed_check(table):
    picked = table[index(0, 9)]
    with pytest.raises(IndexOutOfRange):
        picked.numpy()
    np.testing.assert_array_equal(table.numpy(), TABLE)
    np.testing.assert_array_equal(table[index(0, 4)].numpy(), TABLE[[0, 4]])
    for bad in (False, True, False):
        again = table[index(0, 9 if bad else 3)].sum()
        if bad:
            with pytest.raises(IndexOutOfRange):
                again.item()
        else:
            assert again.item() == TABLE[[0, 3]].sum()


@pytest.mark.usefixtures("_engine")
def test_a_gradient_through_a_bad_index_raises(table):
    g = pb.grad(lambda x: (x[index(1, 9)] ** 2).sum())(table)
    with pytest.raises(IndexOutOfRange):
        g.numpy()
    g = pb.grad(lambda x: (x[index(1, 1)] ** 2).sum())(table)
    np.testing.assert_array_equal(g.numpy()[1], 4 * TABLE[1])


def test_a_known_index_raises_where_it_is_written(table):
    with pytest.raises(IndexOutOfRange, match=r"test_runtime_checks\.py"):
        table[5]
    with pytest.raises(IndexOutOfRange):
        table[np.array([0, 7])]
    with pytest.raises(IndexOutOfRange):
        table[[0, -6]]


@pytest.mark.usefixtures("_pace")
def test_a_loop_that_never_reads_raises_in_the_end(table):
    """A value that is read a hundred steps later depends on the check of one step."""
    x = table
    for step in range(100):
        x = x + x[index(0, 0, 0, 0, 7 if step == 50 else 1)]
        pb.evaluate(x)
    with pytest.raises(IndexOutOfRange):
        x.numpy()


class Pieces:
    """A program of which output i depends on argument i and on check i; checks in `bad` fail."""

    input_masks = (1, 2)
    early_checks = True

    def __init__(self, *bad: int) -> None:
        self.bad, self.asked = bad, []

    def is_ready(self) -> bool:  # it is its own word
        return False

    def fails(self, word: Any, output: int) -> bool:
        self.asked.append(output)
        return output in self.bad

    def failures(self, word: Any, lines: Any) -> dict[int, Any]:
        self.asked.append("all")
        return {i: IndexOutOfRange(f"check {i}") for i in self.bad}


def checked_run(program: Pieces, nodes: list[Any], sources: Any = ()) -> Any:
    run = runtime_checks.CheckedRun(program, program, [], list(sources))
    for i, node in enumerate(nodes):
        node.checked = (run, i)
    return run


def test_an_output_can_be_read_before_checks_of_others():
    nodes = [pb.tensor(1.0)._node for _ in range(2)]
    program = Pieces(1)
    checked_run(program, nodes)
    runtime_checks.examine_runtime_checks(nodes[0])
    assert program.asked == [0] and nodes[0].checked is None
    runtime_checks.examine_runtime_checks(nodes[1])
    assert program.asked == [0, 1, "all"] and nodes[1].checked is None
    assert isinstance(nodes[1].value, runtime_checks.RuntimeFailure)
    assert not isinstance(nodes[0].value, runtime_checks.RuntimeFailure)


@pytest.mark.parametrize("bad", [0, 1])
def test_an_output_fails_with_the_argument_that_it_depends_on(bad):
    earlier, later = ([pb.tensor(1.0)._node for _ in range(2)] for _ in range(2))
    source = checked_run(Pieces(bad), earlier)
    program = Pieces()
    checked_run(program, later, [(0, source, 0), (1, source, 1)])
    runtime_checks.examine_runtime_checks(later[0])
    assert program.asked == (["all"] if bad == 0 else [0])
    assert isinstance(later[0].value, runtime_checks.RuntimeFailure) == (bad == 0)
    runtime_checks.examine_runtime_checks(later[1])
    assert isinstance(later[1].value, runtime_checks.RuntimeFailure) == (bad == 1)


def test_examining_is_linear_in_the_number_of_runs():
    """Two arguments from each earlier run make 2**60 paths through 60 runs."""

    class Program:
        input_masks: list[int] = []  # noqa: RUF012

    run = runtime_checks.CheckedRun(Program(), None, [], [])
    for _ in range(60):
        run = runtime_checks.CheckedRun(Program(), None, [], [(0, run, 0), (1, run, 1)])
    node = pb.tensor(1.0)._node
    node.checked = (run, 0)
    runtime_checks.examine_runtime_checks(node)
    assert run.errors == {}
