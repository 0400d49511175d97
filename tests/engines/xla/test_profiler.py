"""What XLA's profiler writes, and the text of compiled programs, as times of ops."""

from __future__ import annotations

import pytest

from pullback.engines.xla.bindings import trace_reader_binding
from pullback.engines.xla.hlo_text import HloPart, HloText
from pullback.engines.xla.profiler import (
    HloEvent,
    ProfilerRecording,
    exclusive_profiler_times,
    profiler_events,
)
from pullback.errors import EngineError

TEXT = """HloModule pullback_1, is_scheduled=true

%fused_computation (param_0: f32[8,16], param_1: f32[16,4]) -> f32[8,4] {
  %param_0 = f32[8,16]{1,0} parameter(0)
  %param_1 = f32[16,4]{1,0} parameter(1)
  %matmul.1 = f32[8,4]{1,0} dot(%param_0, %param_1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="pullback/0/matmul"}
  %constant.1 = f32[] constant(2)
  %broadcast.1 = f32[8,4]{1,0} broadcast(%constant.1), dimensions={}, metadata={op_name="pullback/1/mul"}
  %mul.1 = f32[8,4]{1,0} multiply(%matmul.1, %broadcast.1), metadata={op_name="pullback/1/mul"}
  ROOT %tanh.1 = f32[8,4]{1,0} tanh(%mul.1), metadata={op_name="jit/pullback/2/tanh" stack_frame_id=3}
}

%body (p: (s64[], f32[8,4])) -> (s64[], f32[8,4]) {
  %p = (s64[], /*index=1*/f32[8,4]{1,0}) parameter(0)
  ROOT %tuple.3 = (s64[], f32[8,4]{1,0}) tuple(%p, %p)
}

ENTRY %main.2 (Arg_0.1: f32[8,16], Arg_1.1: f32[16,4]) -> f32[8,4] {
  %Arg_0.1 = f32[8,16]{1,0} parameter(0)
  %Arg_1.1 = f32[16,4]{0,1} parameter(1)
  %copy.1 = f32[16,4]{1,0} copy(%Arg_1.1)
  %matmul_tanh_fusion = f32[8,4]{1,0} fusion(%Arg_0.1, %copy.1), kind=kLoop, calls=%fused_computation, metadata={op_name="pullback/2/tanh"}
  %while.1 = (s64[], f32[8,4]{1,0}) while(%matmul_tanh_fusion), condition=%cond, body=%body, metadata={op_name="pullback/3/scan"}
  %broadcast.7 = f32[8,4]{1,0} broadcast(%Arg_0.1), dimensions={}, metadata={op_name="pullback/4/broadcast"}
  ROOT %out = f32[8,4]{1,0} get-tuple-element(%while.1), index=1
}
"""  # noqa: E501


def test_a_fusion_is_shared_by_work() -> None:
    text = HloText(TEXT)
    # 32 results of 2 * 16 operations each, 32 products, 32 tanh that cost as much as ten
    work = {0: 1024, 1: 32, 2: 320}
    parts = {p.number: p.share for p in text.parts("matmul_tanh_fusion")}
    assert parts == pytest.approx({k: n / sum(work.values()) for k, n in work.items()})
    assert text.parts("broadcast.7") == [HloPart(4, "", 1.0)]  # the only thing it does


def test_instructions_of_xla_serve_an_op() -> None:
    text = HloText(TEXT)
    assert text.parts("copy.1") == [HloPart(2, "copy", 1.0)]  # for the fusion
    assert text.parts("unheard_of") == [HloPart(None, "unheard_of", 1.0)]
    assert text.is_container("while.1") and not text.is_container("copy.1")


def test_times_add_up() -> None:
    events = [
        HloEvent("m", "while.1", 0e9, 10e9),
        HloEvent("m", "a", 1e9, 3e9),
        HloEvent("m", "a", 3e9, 4e9),
        HloEvent("m", "b", 5e9, 8e9),
        HloEvent("m", "c", 6e9, 8e9),  # beside b
        HloEvent("m", "d", 12e9, 13e9),
    ]
    times, busy = exclusive_profiler_times(events, {("m", "while.1")})
    found = {name: (round(s, 9), n) for (_, name), (s, n) in times.items()}
    assert found == {"while.1": (4, 1), "a": (3, 2), "b": (2, 1), "c": (1, 1), "d": (1, 1)}
    assert busy == pytest.approx(11)
    assert exclusive_profiler_times([], set()) == ({}, 0.0)


GPU_EVENT = """events { metadata_id: 1 offset_ps: %d duration_ps: 2000000
  stats { metadata_id: 1 str_value: "loop_add_fusion" } stats { metadata_id: 2 str_value: "p_7" } }
"""
PLANE = """planes { name: "%s"
  event_metadata { key: 1 value { id: 1 name: "loop_add_fusion" } }
  event_metadata { key: 2 value { id: 2 name: "MemcpyD2H" } }
  stat_metadata { key: 1 value { id: 1 name: "hlo_op" } }
  stat_metadata { key: 2 value { id: 2 name: "hlo_module" } }
  lines { id: 1 name: "Stream #13" %s events { metadata_id: 2 offset_ps: 0 duration_ps: 5 } } }
"""


def test_kernels_of_a_device_count_and_not_their_launches() -> None:
    launches = PLANE % ("/host:CPU", GPU_EVENT % 0)
    kernels = PLANE % ("/device:GPU:0", GPU_EVENT % 3000000 + GPU_EVENT % 7000000)
    data = trace_reader_binding().text_proto_to_serialized_xspace(launches + kernels)
    found = profiler_events(data)
    assert [(e.module, e.instruction, e.start, e.end) for e in found] == [
        ("p_7", "loop_add_fusion", 3000.0, 5000.0),
        ("p_7", "loop_add_fusion", 7000.0, 9000.0),
    ]


def test_one_recording_at_a_time() -> None:
    first, second = ProfilerRecording(), ProfilerRecording()
    first.start()
    with pytest.raises(EngineError, match="profiler is already running"):
        second.start()
    assert first.stop() == []
    second.start()
    assert second.stop() == []
