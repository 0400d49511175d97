"""The Jacobian of bundle adjustment (ADBench's BA): a block for each observation of a point.

A camera has a rotation as an axis times an angle, a centre, a focal length, a principal point and
two coefficients of radial distortion: 3, 3, 1, 2 and 2 numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calls import jax_call, pullback_call, torch_call
from benchmarks.workload import Case, Workload


def inputs(quick: bool) -> Any:
    """For each observation: its camera, its point, its weight and where it was seen."""
    cameras, points, seen = (3, 5, 9) if quick else (49, 7776, 31843)
    rng = np.random.default_rng(0)
    camera = rng.normal(size=(cameras, 11))
    camera[:, 5] += 20.0  # all points are in front of it
    camera[:, 9:] *= 0.01
    point = rng.normal(size=(points, 3))
    by_camera, by_point = rng.integers(0, cameras, seen), rng.integers(0, points, seen)
    return camera[by_camera], point[by_point], rng.normal(size=seen), rng.normal(size=(seen, 2))


def error(m: Any, cross: Any, camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    """The weighted error of one projection, with functions of a library."""
    rotation, centre = camera[0:3], camera[3:6]
    focal, principal, distortion = camera[6], camera[7:9], camera[9:11]
    moved = point - centre
    angle = m.sqrt((rotation * rotation).sum())
    axis = rotation / angle
    turned = (
        moved * m.cos(angle)
        + cross(axis, moved) * m.sin(angle)
        + axis * (axis * moved).sum() * (1 - m.cos(angle))
    )
    flat = turned[0:2] / turned[2]
    square = (flat * flat).sum()
    distorted = flat * (1 + distortion[0] * square + distortion[1] * square * square)
    return weight * (distorted * focal + principal - seen)


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def f(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        return error(pb, pb.linalg.cross, camera, point, weight, seen)

    return pullback_call(pb.vmap(pb.jacrev(f, argnums=(0, 1, 2))), *arrays)


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def f(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        return error(jnp, jnp.cross, camera, point, weight, seen)

    return jax_call(jax.vmap(jax.jacrev(f, argnums=(0, 1, 2))), *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch

    def f(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        return error(torch, torch.linalg.cross, camera, point, weight, seen)

    jacobian = torch.func.vmap(torch.func.jacrev(f, argnums=(0, 1, 2)))
    return torch_call(compile(jacobian), *arrays)


WORKLOADS = [
    Workload(
        "ba", "ADBench BA, f64, Jacobian of 31,843 observations", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch}, tolerance=1e-9,
        note=(
            "sines and cosines are a kernel's, the loops XLA's, with sums of two and three numbers "
            "in them. In JAX, sums are calls of the library YNNPACK, and loops compute the "
            "same sines again. Like that, pullback took 6.3 to 6.5 ms, and 4.0 without YNNPACK."
        ),
    )
]  # fmt: skip
