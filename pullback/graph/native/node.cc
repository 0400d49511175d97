// The types of nodes and of tensors, whose fields Python reads as slots.

#include "native.h"

namespace pullback {

namespace {

std::int64_t counter = 0;
Node* latest = nullptr;  // the head of the list of all nodes

bool is_plain_value(PyObject* value) {
  if (value == nullptr || value == Py_None) return true;
  if (bound.plain_values == nullptr) return false;
  return PySequence_Contains(bound.plain_values, reinterpret_cast<PyObject*>(Py_TYPE(value))) == 1;
}

// Whether no reference cycle can lead through a node. Such nodes are not tracked by the garbage
// collector, as a tuple of numbers is not: it would look at each of them again and again, and they
// are by far the most numerous objects of a program.
bool is_acyclic(PyObject* object) {
  if (!PyObject_GC_IsTracked(object)) return true;
  Node* node = as_node(object);
  return node->inputs != nullptr && PyTuple_Size(node->inputs) == 0 && node->value != Py_None &&
         is_plain_value(node->value);
}

// Stops tracking a new node where that is possible.
void untrack(PyObject* object) {
  Node* node = as_node(object);
  Py_ssize_t count = PyTuple_Size(node->inputs);
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!is_acyclic(PyTuple_GetItem(node->inputs, i))) return;
  }
  if (!is_plain_value(node->value)) return;
  if (node->op != bound.leaf && node->op != bound.scalar) {
    Ref closed(PyObject_GetAttr(node->op, names.closed));
    if (closed.get() != Py_True) {
      PyErr_Clear();  // not an op
      return;
    }
  }
  if (count && PyObject_GC_IsTracked(node->inputs)) PyObject_GC_UnTrack(node->inputs);
  PyObject_GC_UnTrack(object);
}

void set(PyObject** field, PyObject* value) {
  PyObject* old = *field;
  Py_INCREF(value);
  *field = value;
  Py_XDECREF(old);
}

void enter(Node* node) {
  if (node == latest || node->before != nullptr) return;  // initialised twice
  node->after = latest;
  if (latest != nullptr) latest->before = node;
  latest = node;
}

void leave(Node* node) {
  if (node->before != nullptr) node->before->after = node->after;
  if (node->after != nullptr) node->after->before = node->before;
  if (latest == node) latest = node->after;
}

int node_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"op",     "inputs",     "type",  "where",
                                   "tokens", "forward_op", "value", nullptr};
  Ref number(PyLong_FromLongLong(take_number()));
  PyObject *op, *inputs, *type, *where = Py_None, *tokens = names.nothing;
  PyObject *forward_op = names.empty, *value = Py_None;
  Py_ssize_t count = PyTuple_Size(args);
  if (kwargs == nullptr && count == 7) {  // the frequent case, without a parser
    op = PyTuple_GetItem(args, 0);
    inputs = PyTuple_GetItem(args, 1);
    type = PyTuple_GetItem(args, 2);
    where = PyTuple_GetItem(args, 3);
    tokens = PyTuple_GetItem(args, 4);
    forward_op = PyTuple_GetItem(args, 5);
    value = PyTuple_GetItem(args, 6);
  } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOOO", const_cast<char**>(keywords),
                                          &op, &inputs, &type, &where, &tokens, &forward_op,
                                          &value)) {
    return -1;
  }
  if (!number || !PyTuple_Check(inputs) || !PyTuple_Check(tokens)) {
    PyErr_SetString(PyExc_TypeError, "Node: inputs and tokens must be tuples");
    return -1;
  }
  Node* node = as_node(self);
  set(&node->op, op);
  set(&node->inputs, inputs);
  set(&node->type, type);
  set(&node->where, where);
  set(&node->tokens, tokens);
  set(&node->forward_op, forward_op);
  set(&node->value, value);
  set(&node->number, number.get());
  enter(node);
  untrack(self);
  return 0;
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Node* node = as_node(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(node->op);
  Py_VISIT(node->inputs);
  Py_VISIT(node->type);
  Py_VISIT(node->where);
  Py_VISIT(node->tokens);
  Py_VISIT(node->value);
  Py_VISIT(node->checked);
  return 0;
}

int node_clear(PyObject* self) {
  Node* node = as_node(self);
  Py_CLEAR(node->op);
  Py_CLEAR(node->inputs);
  Py_CLEAR(node->type);
  Py_CLEAR(node->where);
  Py_CLEAR(node->tokens);
  Py_CLEAR(node->forward_op);
  Py_CLEAR(node->value);
  Py_CLEAR(node->number);
  Py_CLEAR(node->checked);
  return 0;
}

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_node(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  leave(as_node(self));
  node_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Tensor* tensor = as_tensor(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(tensor->node);
  Py_VISIT(tensor->token);
  Py_VISIT(tensor->grad);
  return 0;
}

int tensor_clear(PyObject* self) {
  Tensor* tensor = as_tensor(self);
  Py_CLEAR(tensor->node);
  Py_CLEAR(tensor->token);
  Py_CLEAR(tensor->grad);
  return 0;
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_tensor(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  tensor_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

#define FIELD(STRUCT, NAME, MEMBER) \
  { const_cast<char*>(NAME), T_OBJECT_EX, offsetof(STRUCT, MEMBER), 0, nullptr }
#define OPTIONAL(STRUCT, NAME, MEMBER) \
  { const_cast<char*>(NAME), T_OBJECT, offsetof(STRUCT, MEMBER), 0, nullptr }
#define WEAK(STRUCT)                                                                         \
  {                                                                                          \
    const_cast<char*>("__weaklistoffset__"), T_PYSSIZET, offsetof(STRUCT, weak_references), \
        READONLY, nullptr                                                                    \
  }

PyMemberDef node_members[] = {
    FIELD(Node, "op", op),         FIELD(Node, "inputs", inputs),
    FIELD(Node, "type", type),     FIELD(Node, "where", where),
    FIELD(Node, "tokens", tokens), FIELD(Node, "forward_op", forward_op),
    FIELD(Node, "value", value),   FIELD(Node, "number", number),
    OPTIONAL(Node, "checked", checked),
    WEAK(Node),                    {nullptr, 0, 0, 0, nullptr}};

PyMemberDef tensor_members[] = {FIELD(Tensor, "_node", node), FIELD(Tensor, "_token", token),
                                FIELD(Tensor, "_grad", grad), WEAK(Tensor),
                                {nullptr, 0, 0, 0, nullptr}};

PyType_Slot node_slots[] = {{Py_tp_members, node_members},
                            {Py_tp_init, reinterpret_cast<void*>(node_init)},
                            {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                            {0, nullptr}};

PyObject* tensor_add(PyObject* x, PyObject* y) { return binary(x, y, 0); }
PyObject* tensor_subtract(PyObject* x, PyObject* y) { return binary(x, y, 1); }
PyObject* tensor_multiply(PyObject* x, PyObject* y) { return binary(x, y, 2); }
PyObject* tensor_divide(PyObject* x, PyObject* y) { return binary(x, y, 3); }
PyObject* tensor_matmul(PyObject* x, PyObject* y) { return binary(x, y, 4); }

PyType_Slot tensor_slots[] = {{Py_tp_members, tensor_members},
                              {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
                              {Py_nb_add, reinterpret_cast<void*>(tensor_add)},
                              {Py_nb_subtract, reinterpret_cast<void*>(tensor_subtract)},
                              {Py_nb_multiply, reinterpret_cast<void*>(tensor_multiply)},
                              {Py_nb_true_divide, reinterpret_cast<void*>(tensor_divide)},
                              {Py_nb_matrix_multiply, reinterpret_cast<void*>(tensor_matmul)},
                              {0, nullptr}};

constexpr unsigned FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
PyType_Spec node_spec = {"pullback.graph.native.NodeFields", sizeof(Node), 0, FLAGS, node_slots};
PyType_Spec tensor_spec = {"pullback.graph.native.TensorFields", sizeof(Tensor), 0, FLAGS,
                           tensor_slots};

}  // namespace

std::int64_t take_number() { return counter++; }

PyObject* next_number(PyObject*, PyObject*) { return PyLong_FromLongLong(take_number()); }

// live_nodes(): all nodes, tracked by the garbage collector or not.
PyObject* live_nodes(PyObject*, PyObject*) {
  std::vector<PyObject*> found;
  for (Node* node = latest; node != nullptr; node = node->after) {
    PyObject* object = reinterpret_cast<PyObject*>(node);
    if (Py_REFCNT(object) > 0) found.push_back(object);  // others are about to be freed
  }
  return in_order(found);
}

PyObject* make_node(PyObject* op, PyObject* inputs, PyObject* type, PyObject* where,
                    PyObject* tokens, PyObject* forward_op, PyObject* value) {
  // References come first: an allocation may run the garbage collector, and with it any code
  Ref of_op(shared(op)), of_inputs(inputs), of_type(shared(type)), of_where(shared(where));
  Ref of_tokens(shared(tokens)), of_forward_op(shared(forward_op)), of_value(shared(value));
  Ref number(PyLong_FromLongLong(take_number()));
  PyObject* made = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(bound.Node), 0);
  if (made == nullptr || !number) {
    Py_XDECREF(made);
    return nullptr;
  }
  Node* node = as_node(made);
  node->op = of_op.release();
  node->inputs = of_inputs.release();
  node->type = of_type.release();
  node->where = of_where.release();
  node->tokens = of_tokens.release();
  node->forward_op = of_forward_op.release();
  node->value = of_value.release();
  node->number = number.release();
  enter(node);
  untrack(made);
  return made;
}

PyObject* make_tensor(PyObject* node) {
  PyObject* made = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(bound.Tensor), 0);
  if (made == nullptr) {
    Py_DECREF(node);
    return nullptr;
  }
  Tensor* tensor = as_tensor(made);
  tensor->node = node;
  tensor->token = shared(Py_None);
  tensor->grad = shared(Py_None);
  return made;
}

bool add_node_types(PyObject* module) {
  Ref node(PyType_FromSpec(&node_spec)), tensor(PyType_FromSpec(&tensor_spec));
  return node && tensor && PyModule_AddObjectRef(module, "NodeFields", node.get()) == 0 &&
         PyModule_AddObjectRef(module, "TensorFields", tensor.get()) == 0;
}

}  // namespace pullback
