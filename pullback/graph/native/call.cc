// Calls of compiled functions: what `pullback.compiled.fast_call` writes in Python.

#include "native.h"

namespace pullback {

namespace {

// What a call needs to know. The arguments and the result are trees of tuples, lists, dicts and
// None whose leaves are numbers; `read` returns the leaves of arguments with other nodes. Of
// `program`, `cache`, `state` and `fork` it is the dict of their attributes.
enum Part {
  READ, LAYOUT, WANTED, CAPTURED, CHECKS, SPECIALIZATION, PROGRAM, HOME, CACHE, STATE, SUSPECTS,
  FORK, PLACE, TOUCH, HANDLERS, OUTS, PLAN, RESULT, ARRANGE, PARTS
};
const char* part_names[] = {"read",  "layout",  "wanted", "captured", "checks",   "specialization",
                            "program", "home",  "cache",  "state",    "suspects", "fork",
                            "place", "touch",   "handlers", "outs",   "plan",     "result",
                            "arrange"};

struct FastCall {
  PyObject_HEAD
  PyObject* parts[PARTS];
  PyObject* mode;  // settings that are known to fit
};

// A function with a field for its fast call, and `_call`, which does everything.
struct Caller {
  PyObject_HEAD
  PyObject* fast;
};

PyTypeObject* fast_call_type = nullptr;
long long calls = 0;

FastCall* as_fast(PyObject* object) { return reinterpret_cast<FastCall*>(object); }

// Owned references to the leaves of a call, most of which have few.
class Leaves {
 public:
  Leaves() = default;
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;
  ~Leaves() {
    for (std::size_t i = 0; i < size_; i++) Py_XDECREF(items_[i]);
  }
  void resize(std::size_t size) {  // of an empty one
    if (size > FEW) {
      many_.resize(size, nullptr);
      items_ = many_.data();
    }
    size_ = size;
  }
  std::size_t size() const { return size_; }
  PyObject*& operator[](std::size_t i) { return items_[i]; }
  PyObject* operator[](std::size_t i) const { return items_[i]; }

 private:
  static constexpr std::size_t FEW = 8;
  PyObject* few_[FEW] = {};
  std::vector<PyObject*> many_;
  PyObject** items_ = few_;
  std::size_t size_ = 0;
};

// Reads the leaves of a tree; false if it has another layout, or with an error.
bool read_leaves(PyObject* layout, PyObject* x, Leaves& leaves) {
  if (PyLong_CheckExact(layout)) {
    leaves[PyLong_AsSize_t(layout)] = shared(x);
    return true;
  }
  if (layout == Py_None) return x == Py_None;
  if (Py_TYPE(x) != Py_TYPE(layout)) return false;
  if (PyTuple_CheckExact(layout)) {
    Py_ssize_t count = PyTuple_Size(layout);
    if (PyTuple_Size(x) != count) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
      if (!read_leaves(PyTuple_GetItem(layout, i), PyTuple_GetItem(x, i), leaves)) return false;
    }
    return true;
  }
  if (PyList_CheckExact(layout)) {
    Py_ssize_t count = PyList_Size(layout);
    if (PyList_Size(x) != count) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
      if (!read_leaves(PyList_GetItem(layout, i), PyList_GetItem(x, i), leaves)) return false;
    }
    return true;
  }
  if (PyDict_Size(x) != PyDict_Size(layout)) return false;
  PyObject *key, *part;
  Py_ssize_t at = 0;
  while (PyDict_Next(layout, &at, &key, &part)) {
    PyObject* found = PyDict_GetItemWithError(x, key);
    if (found == nullptr || !read_leaves(part, found, leaves)) return false;
  }
  return true;
}

bool read_arguments(FastCall* fast, PyObject* args, PyObject* kwargs, Leaves& leaves) {
  leaves.resize(static_cast<std::size_t>(PyTuple_Size(fast->parts[WANTED])));
  PyObject* layout = fast->parts[LAYOUT];
  if (layout != Py_None) {
    PyObject* named = PyTuple_GetItem(layout, 1);
    if (kwargs == nullptr ? PyDict_Size(named) != 0 : !read_leaves(named, kwargs, leaves)) {
      return false;
    }
    return read_leaves(PyTuple_GetItem(layout, 0), args, leaves);
  }
  Ref none(kwargs == nullptr ? PyDict_New() : nullptr);
  PyObject* given = kwargs == nullptr ? none.get() : kwargs;
  Ref found(PyObject_CallFunctionObjArgs(fast->parts[READ], args, given, nullptr));
  if (!found || found.get() == Py_None) return false;
  Ref list(PySequence_List(found.get()));
  if (!list || PyList_Size(list.get()) != static_cast<Py_ssize_t>(leaves.size())) return false;
  for (std::size_t i = 0; i < leaves.size(); i++) {
    leaves[i] = shared(PyList_GetItem(list.get(), static_cast<Py_ssize_t>(i)));
  }
  return true;
}

// An item of a dict; borrowed, or null without an error.
PyObject* item(PyObject* dict, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

bool attribute_is(PyObject* object, PyObject* name, PyObject* wanted) {
  Ref found(PyObject_GetAttr(object, name));
  return found.get() == wanted;
}

bool attribute_is_false(PyObject* object, PyObject* name) {
  Ref found(PyObject_GetAttr(object, name));
  return found && PyObject_IsTrue(found.get()) == 0;
}

// Whether the settings are those of the trace, and ask for nothing besides running.
bool settings_fit(FastCall* fast) {
  Ref mode(PyObject_CallNoArgs(bound.current));
  if (!mode) return false;
  if (mode.get() == fast->mode) return true;
  if (!attribute_is(fast->parts[SPECIALIZATION], names.mode, mode.get()) ||
      !attribute_is_false(mode.get(), names.check_nan)) {
    return false;
  }
  Ref old(fast->mode);
  fast->mode = mode.release();
  return true;
}

bool nothing_runs(FastCall* fast) {
  if (PySet_Size(fast->parts[SUSPECTS]) != 0) return false;
  if (item(fast->parts[STATE], names.cache) != fast->parts[HOME]) return false;
  PyObject* lost = item(fast->parts[FORK], names.lost_xla);
  return lost != nullptr && PyObject_IsTrue(lost) == 0 &&
         attribute_is_false(bound.thread, names.tracing_from);
}

// Whether a leaf is a static value: what is wanted of it is a function that tells.
bool is_static(FastCall* fast, std::size_t i) {
  return PyCallable_Check(PyTuple_GetItem(fast->parts[WANTED], static_cast<Py_ssize_t>(i)));
}

// Adds the buffer of a tensor that no derivative sees; `type` is null for a captured one.
bool add_buffer(FastCall* fast, PyObject* x, PyObject* type, Leaves& buffers, std::size_t& count) {
  if (!is_tensor(x) || as_tensor(x)->token != Py_None || as_tensor(x)->node == nullptr) return false;
  Node* node = as_node(as_tensor(x)->node);
  if (type != nullptr && node->type != type) return false;
  if (PyTuple_Size(tokens_of(as_tensor(x)->node)) != 0) return false;
  if (node->value == nullptr || node->value == Py_None) return false;
  buffers[count] = shared(node->value);
  return attribute_is(buffers[count++], names.sharding, fast->parts[PLACE]);
}

// Returns the list of buffers; null if a leaf is not as it was.
PyObject* collect_buffers(FastCall* fast, const Leaves& leaves) {
  PyObject* captured = fast->parts[CAPTURED];
  Leaves buffers;
  buffers.resize(leaves.size() + static_cast<std::size_t>(PyTuple_Size(captured)));
  std::size_t count = 0;
  for (std::size_t i = 0; i < leaves.size(); i++) {
    PyObject* wanted = PyTuple_GetItem(fast->parts[WANTED], static_cast<Py_ssize_t>(i));
    if (is_static(fast, i)) {
      Ref accepted(PyObject_CallFunctionObjArgs(wanted, leaves[i], nullptr));
      if (!accepted || PyObject_IsTrue(accepted.get()) != 1) return nullptr;
    } else if (!add_buffer(fast, leaves[i], wanted, buffers, count)) {
      return nullptr;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(captured); i++) {
    if (!add_buffer(fast, PyTuple_GetItem(captured, i), nullptr, buffers, count)) return nullptr;
  }
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; list != nullptr && i < count; i++) {
    PyList_SetItem(list, static_cast<Py_ssize_t>(i), shared(buffers[i]));
  }
  return list;
}

// Whether guards hold: each is `attribute or None, function, arguments, equal, value`.
bool guards_hold(PyObject* checks) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(checks); i++) {
    PyObject* check = PyTuple_GetItem(checks, i);
    PyObject *name = PyTuple_GetItem(check, 0), *given = PyTuple_GetItem(check, 2);
    Ref found(name != Py_None ? PyObject_GetAttr(PyTuple_GetItem(given, 0), name)
                              : PyObject_Call(PyTuple_GetItem(check, 1), given, nullptr));
    PyObject* wanted = PyTuple_GetItem(check, 4);
    if (!found) return false;
    if (PyTuple_GetItem(check, 3) == Py_True
            ? PyObject_RichCompareBool(found.get(), wanted, Py_EQ) != 1
            : found.get() != wanted) {
      return false;
    }
  }
  return true;
}

// Counts a call, and marks its program as the last one used.
bool count_call(FastCall* fast) {
  calls++;
  PyObject* compiled = item(fast->parts[PROGRAM], names.compiled);
  if (compiled == nullptr || item(fast->parts[CACHE], names.latest) == compiled) return true;
  return bool(Ref(PyObject_CallFunctionObjArgs(fast->parts[TOUCH], compiled, nullptr)));
}

// A tensor for each value that the program returned.
bool make_results(FastCall* fast, PyObject* values, Leaves& results) {
  PyObject* outs = fast->parts[OUTS];
  results.resize(static_cast<std::size_t>(PyTuple_Size(outs)));
  for (Py_ssize_t i = 0; i < PyTuple_Size(outs); i++) {
    PyObject* out = PyTuple_GetItem(outs, i);
    PyObject* node = make_node(bound.leaf, shared(names.nothing), PyTuple_GetItem(out, 0),
                               PyTuple_GetItem(out, 1), names.nothing, names.empty,
                               PyList_GetItem(values, i));
    PyObject* tensor = node == nullptr ? nullptr : make_tensor(node);
    if (tensor == nullptr) return false;
    results[static_cast<std::size_t>(i)] = tensor;
  }
  return true;
}

// The results of the function: each a computed value or an input, with a handle of its own.
bool follow_plan(FastCall* fast, const Leaves& leaves, const Leaves& values, Leaves& results) {
  PyObject *plan = fast->parts[PLAN], *captured = fast->parts[CAPTURED];
  std::vector<PyObject*> inputs;  // leaves that are not static, then captured tensors
  for (std::size_t i = 0; i < leaves.size(); i++) {
    if (!is_static(fast, i)) inputs.push_back(leaves[i]);
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(captured); i++) {
    inputs.push_back(PyTuple_GetItem(captured, i));
  }
  results.resize(static_cast<std::size_t>(PyTuple_Size(plan)));
  for (std::size_t i = 0; i < results.size(); i++) {
    PyObject* entry = PyTuple_GetItem(plan, static_cast<Py_ssize_t>(i));
    std::size_t at = PyLong_AsSize_t(PyTuple_GetItem(entry, 1));
    PyObject* x = PyTuple_GetItem(entry, 0) == Py_True ? inputs[at] : values[at];
    results[i] = make_tensor(shared(as_tensor(x)->node));
    if (results[i] == nullptr) return false;
  }
  return true;
}

// Returns a tree with tensors in place of the numbers.
PyObject* arranged(PyObject* layout, const Leaves& results) {
  if (PyLong_CheckExact(layout)) return shared(results[PyLong_AsSize_t(layout)]);
  if (layout == Py_None) return shared(layout);
  if (PyDict_CheckExact(layout)) {
    Ref made(PyDict_New());
    PyObject *key, *part;
    Py_ssize_t at = 0;
    while (made && PyDict_Next(layout, &at, &key, &part)) {
      Ref value(arranged(part, results));
      if (!value || PyDict_SetItem(made.get(), key, value.get()) < 0) return nullptr;
    }
    return made.release();
  }
  bool is_list = PyList_CheckExact(layout);
  Py_ssize_t count = is_list ? PyList_Size(layout) : PyTuple_Size(layout);
  Ref made(is_list ? PyList_New(count) : PyTuple_New(count));
  for (Py_ssize_t i = 0; made && i < count; i++) {
    PyObject* part = is_list ? PyList_GetItem(layout, i) : PyTuple_GetItem(layout, i);
    PyObject* value = arranged(part, results);
    if (value == nullptr) return nullptr;
    is_list ? PyList_SetItem(made.get(), i, value) : PyTuple_SetItem(made.get(), i, value);
  }
  return made.release();
}

PyObject* result_of(FastCall* fast, const Leaves& results) {
  if (fast->parts[RESULT] != Py_Ellipsis) return arranged(fast->parts[RESULT], results);
  Ref list(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (std::size_t i = 0; list && i < results.size(); i++) {
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), shared(results[i]));
  }
  return list ? PyObject_CallFunctionObjArgs(fast->parts[ARRANGE], list.get(), nullptr) : nullptr;
}

// Returns the values that the program computes; null if anything is not as it was.
PyObject* run_program(FastCall* fast, PyObject* args, PyObject* kwargs, Leaves& leaves) {
  if (!read_arguments(fast, args, kwargs, leaves)) return nullptr;
  PyObject* known = item(fast->parts[PROGRAM], names.execute);
  if (known == nullptr || known == Py_None) return nullptr;  // it was evicted
  Ref execute(shared(known)), buffers(collect_buffers(fast, leaves));
  if (!buffers || !settings_fit(fast) || !nothing_runs(fast) ||
      !guards_hold(fast->parts[CHECKS])) {
    return nullptr;
  }
  Ref started(PyObject_CallFunctionObjArgs(execute.get(), buffers.get(), nullptr));
  if (!started) return nullptr;
  return PyObject_CallMethodObjArgs(started.get(), names.consume, fast->parts[HANDLERS], nullptr);
}

// Returns the result of a call; null without an error if the general way must be taken, before
// anything was done, or because the program failed: there it fails again, and is reported.
PyObject* call_fast(FastCall* fast, PyObject* args, PyObject* kwargs) {
  Leaves leaves, computed, results;
  Ref values(run_program(fast, args, kwargs, leaves));
  if (!values) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return nullptr;
  }
  if (!count_call(fast) || !make_results(fast, values.get(), computed)) return nullptr;
  if (fast->parts[PLAN] == Py_None) return result_of(fast, computed);
  return follow_plan(fast, leaves, computed, results) ? result_of(fast, results) : nullptr;
}

PyObject* caller_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* fast = reinterpret_cast<Caller*>(self)->fast;
  if (fast != nullptr && Py_TYPE(fast) == fast_call_type) {
    Ref kept(shared(fast));
    PyObject* result = call_fast(as_fast(fast), args, kwargs);
    if (result != nullptr || PyErr_Occurred()) return result;
  }
  Ref general(PyObject_GetAttr(self, names.general_call));
  return general ? PyObject_Call(general.get(), args, kwargs) : nullptr;
}

PyObject* fast_call_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) != 0 || kwargs == nullptr) {
    PyErr_SetString(PyExc_TypeError, "FastCall takes keyword arguments");
    return nullptr;
  }
  PyObject* made = PyType_GenericAlloc(type, 0);
  for (int i = 0; made != nullptr && i < PARTS; i++) {
    PyObject* part = PyDict_GetItemString(kwargs, part_names[i]);
    if (part == nullptr) {
      PyErr_SetString(PyExc_TypeError, part_names[i]);
      Py_DECREF(made);
      return nullptr;
    }
    as_fast(made)->parts[i] = shared(part);
  }
  return made;
}

int fast_call_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (PyObject* part : as_fast(self)->parts) Py_VISIT(part);
  Py_VISIT(as_fast(self)->mode);
  return 0;
}

int fast_call_clear(PyObject* self) {
  for (PyObject*& part : as_fast(self)->parts) Py_CLEAR(part);
  Py_CLEAR(as_fast(self)->mode);
  return 0;
}

int caller_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Caller*>(self)->fast);
  return 0;
}

int caller_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Caller*>(self)->fast);
  return 0;
}

template <int (*CLEAR)(PyObject*)>
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  CLEAR(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyMemberDef caller_members[] = {
    {const_cast<char*>("_fast"), T_OBJECT_EX, offsetof(Caller, fast), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot fast_call_slots[] = {{Py_tp_new, reinterpret_cast<void*>(fast_call_new)},
                                 {Py_tp_traverse, reinterpret_cast<void*>(fast_call_traverse)},
                                 {Py_tp_clear, reinterpret_cast<void*>(fast_call_clear)},
                                 {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<fast_call_clear>)},
                                 {0, nullptr}};
PyType_Slot caller_slots[] = {{Py_tp_members, caller_members},
                              {Py_tp_call, reinterpret_cast<void*>(caller_call)},
                              {Py_tp_traverse, reinterpret_cast<void*>(caller_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(caller_clear)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<caller_clear>)},
                              {0, nullptr}};

constexpr unsigned FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
PyType_Spec fast_call_spec = {"pullback.graph.native.FastCall", sizeof(FastCall), 0, FLAGS,
                              fast_call_slots};
PyType_Spec caller_spec = {"pullback.graph.native.Caller", sizeof(Caller), 0,
                           FLAGS | Py_TPFLAGS_BASETYPE, caller_slots};

}  // namespace

// fast_calls(): how many calls were fast since the process started.
PyObject* fast_calls(PyObject*, PyObject*) { return PyLong_FromLongLong(calls); }

bool add_call_types(PyObject* module) {
  Ref fast(PyType_FromSpec(&fast_call_spec)), caller(PyType_FromSpec(&caller_spec));
  if (!fast || !caller) return false;
  fast_call_type = reinterpret_cast<PyTypeObject*>(shared(fast.get()));
  return PyModule_AddObjectRef(module, "FastCall", fast.get()) == 0 &&
         PyModule_AddObjectRef(module, "Caller", caller.get()) == 0;
}

}  // namespace pullback
