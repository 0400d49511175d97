// The module `pullback.graph.native._native`.

#include "native.h"

namespace pullback {

Bound bound;
Names names;

namespace {

struct Entry {
  const char* name;
  PyObject** place;
};

const Entry bindings[] = {{"Node", &bound.Node},
                          {"Tensor", &bound.Tensor},
                          {"Detached", &bound.Detached},
                          {"Transparent", &bound.Transparent},
                          {"RunsAs", &bound.RunsAs},
                          {"SourceLine", &bound.SourceLine},
                          {"Input", &bound.Input},
                          {"scalar", &bound.scalar},
                          {"leaf", &bound.leaf},
                          {"thread", &bound.thread},
                          {"current", &bound.current},
                          {"internal_files", &bound.internal_files},
                          {"find_user_line", &bound.find_user_line},
                          {"record", &bound.record},
                          {"record_several", &bound.record_several},
                          {"selection", &bound.selection},
                          {"computed_leaf", &bound.computed_leaf},
                          {"Leaf", &bound.Leaf},
                          {"set_value_and_history", &bound.set_value_and_history},
                          {"lasting_tokens", &bound.lasting_tokens},
                          {"operators", &bound.operators},
                          {"float32", &bound.float32},
                          {"float64", &bound.float64},
                          {"f32", &bound.f32},
                          {"f64", &bound.f64},
                          {"table", &bound.table},
                          {"plain_values", &bound.plain_values}};

const Entry attributes[] = {{"closed", &names.closed},
                            {"inferred", &names.inferred},
                            {"plain", &names.plain},
                            {"__dict__", &names.dict},
                            {"user_line", &names.user_line},
                            {"handles", &names.handles},
                            {"settle_above", &names.settle_above},
                            {"f_back", &names.f_back},
                            {"f_lasti", &names.f_lasti},
                            {"co_filename", &names.co_filename},
                            {"predictable", &names.predictable},
                            {"executed", &names.executed},
                            {"dtype", &names.dtype},
                            {"is_inexact", &names.is_inexact},
                            {"tracing_from", &names.tracing_from},
                            {"", &names.empty},
                            {"mode", &names.mode},
                            {"check_nan", &names.check_nan},
                            {"execute", &names.execute},
                            {"cache", &names.cache},
                            {"lost_xla", &names.lost_xla},
                            {"_sharding", &names.sharding},
                            {"consume_with_handlers", &names.consume},
                            {"latest", &names.latest},
                            {"compiled", &names.compiled},
                            {"_call", &names.general_call},
                            {"alive", &names.alive},
                            {"name", &names.name}};

// bind(**objects): set the objects of pullback that functions here use.
PyObject* bind(PyObject*, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) != 0 || kwargs == nullptr) {
    PyErr_SetString(PyExc_TypeError, "bind takes keyword arguments");
    return nullptr;
  }
  for (const Entry& entry : bindings) {
    PyObject* given = PyDict_GetItemString(kwargs, entry.name);
    if (given == nullptr) continue;
    Ref old(*entry.place);
    *entry.place = shared(given);
  }
  Py_RETURN_NONE;
}

template <typename F>
PyCFunction function(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {{"bind", function(bind), METH_VARARGS | METH_KEYWORDS, nullptr},
                         {"next_number", next_number, METH_NOARGS, nullptr},
                         {"fast_calls", fast_calls, METH_NOARGS, nullptr},
                         {"live_nodes", live_nodes, METH_NOARGS, nullptr},
                         {"record", function(record), METH_FASTCALL, nullptr},
                         {"record_several", function(record_several), METH_FASTCALL, nullptr},
                         {"reach", reach, METH_VARARGS, nullptr},
                         {"gradient_key", gradient_key, METH_VARARGS, nullptr},
                         {"distinct_tokens", distinct_tokens, METH_O, nullptr},
                         {"write_template", write_template, METH_VARARGS, nullptr},
                         {"collect_related", collect_related, METH_VARARGS, nullptr},
                         {"work_key", work_key, METH_VARARGS, nullptr},
                         {"pending_handles", pending_handles, METH_O, nullptr},
                         {"set_values", set_values, METH_VARARGS, nullptr},
                         {"leaves_without_owner", leaves_without_owner, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_native",
                          "Hot paths of recording, reverse mode and compiled calls.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace pullback

PyMODINIT_FUNC PyInit__native() {
  using namespace pullback;
  for (const auto& entry : attributes) {
    *entry.place = PyUnicode_InternFromString(entry.name);
    if (*entry.place == nullptr) return nullptr;
  }
  names.nothing = PyTuple_New(0);
  Ref module(PyModule_Create(&definition));
  if (!module || !add_node_types(module.get()) || !add_call_types(module.get())) return nullptr;
  return module.release();
}
