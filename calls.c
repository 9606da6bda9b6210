/* Repeat calls of compiled composites from Python: a call like one before finds its plan here, and nothing is checked twice.

   A plan is made by a first call, in Python: where the arrays lie in the C function's arguments, what stands behind them, which outputs are to be
   allocated.  It serves calls with arrays of the same dtypes, shapes and strides.  `Plans(…)` gives NotImplemented where no plan fits.

   NumPy's array object is read directly, without its headers: the fields below have been there since NumPy 1.0.  The caller compares what `look` says
   of some arrays with what NumPy says before anything here is used. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_ARGUMENTS = 24, MOST_PLANS = 64, WRITEABLE = 0x400 };

typedef struct {
  PyObject_HEAD
  char *data;
  int nd;
  Py_ssize_t *dimensions;
  Py_ssize_t *strides;
  PyObject *base;
  PyObject *descr;
  int flags;
} Array;

/* One array as a plan expects it. */
typedef struct {
  PyObject *descr;
  PyObject *name; /* of a keyword; NULL for a position */
  int nd, written;
  Py_ssize_t *axes; /* extents, then strides */
} Kind;

typedef struct {
  int64_t function;
  Py_ssize_t given, positions, fresh, arguments, results;
  Kind *kinds;
  PyObject *makers, *fail; /* a tuple of callables; what is called with an error code */
  int *places;             /* of each pointer argument, among the given and the fresh arrays */
  int pointers, *found;    /* the results' places */
  int64_t *tail;
} Plan;

typedef struct {
  PyObject_HEAD
  PyTypeObject *array;
  Py_ssize_t count;
  Plan *plans[MOST_PLANS];
} Plans;

static void plan_free(Plan *p) {
  for (Py_ssize_t k = 0; p->kinds && k < p->given; k++) {
    Py_XDECREF(p->kinds[k].descr);
    Py_XDECREF(p->kinds[k].name);
    PyMem_Free(p->kinds[k].axes);
  }
  PyMem_Free(p->kinds);
  PyMem_Free(p->places);
  PyMem_Free(p->found);
  PyMem_Free(p->tail);
  Py_XDECREF(p->makers);
  Py_XDECREF(p->fail);
  PyMem_Free(p);
}

static int fits(const Plans *self, const Kind *kind, PyObject *given) {
  if (Py_TYPE(given) != self->array) return 0;
  const Array *a = (const Array *)given;
  if (a->descr != kind->descr || a->nd != kind->nd || (kind->written && !(a->flags & WRITEABLE))) return 0;
  const size_t bytes = (size_t)a->nd * sizeof(Py_ssize_t);
  return memcmp(a->dimensions, kind->axes, bytes) == 0 && memcmp(a->strides, kind->axes + a->nd, bytes) == 0;
}

/* The arrays of a call in a plan's order; 0 where it is another kind of call. */
static int matched(const Plans *self, const Plan *p, PyObject *args, PyObject *named, PyObject **pool) {
  const Py_ssize_t keywords = named == Py_None ? 0 : PyDict_GET_SIZE(named);
  if (PyTuple_GET_SIZE(args) != p->positions || p->positions + keywords != p->given) return 0;
  for (Py_ssize_t k = 0; k < p->given; k++) {
    const Kind *kind = &p->kinds[k];
    PyObject *x = kind->name ? PyDict_GetItemWithError(named, kind->name) : PyTuple_GET_ITEM(args, k);
    if (!x || !fits(self, kind, x)) return 0;
    pool[k] = x;
  }
  return 1;
}

#define A(k) a[k]
#define I1 int64_t
#define I2 I1, I1
#define I4 I2, I2
#define I8 I4, I4
#define I16 I8, I8
#define A4(k) a[k], a[k + 1], a[k + 2], a[k + 3]
#define A8(k) A4(k), A4(k + 4)

/* Pointers and sizes are passed alike by every calling convention with 64-bit pointers; what is passed beyond a function's parameters it does not see. */
static int32_t invoke(int64_t function, const int64_t *a, Py_ssize_t count) {
  if (count <= 4) return ((int32_t(*)(I4))function)(A4(0));
  if (count <= 8) return ((int32_t(*)(I8))function)(A8(0));
  if (count <= 16) return ((int32_t(*)(I16))function)(A8(0), A8(8));
  return ((int32_t(*)(I16, I8))function)(A8(0), A8(8), A8(16));
}

static PyObject *perform(const Plan *p, PyObject **pool) {
  Py_ssize_t made = p->given;
  PyObject *answer = NULL;
  for (; made < p->given + p->fresh; made++) {
    pool[made] = PyObject_CallNoArgs(PyTuple_GET_ITEM(p->makers, made - p->given));
    if (!pool[made]) goto done;
  }
  int64_t arguments[MOST_ARGUMENTS] = {0};
  for (int k = 0; k < p->pointers; k++) arguments[k] = (int64_t)(intptr_t)((const Array *)pool[p->places[k]])->data;
  memcpy(arguments + p->pointers, p->tail, (size_t)(p->arguments - p->pointers) * sizeof(int64_t));
  int32_t code;
  for (Py_ssize_t k = 0; k < p->given; k++) Py_INCREF(pool[k]); /* nobody else need hold them while others run */
  Py_BEGIN_ALLOW_THREADS;
  code = invoke(p->function, arguments, p->arguments);
  Py_END_ALLOW_THREADS;
  if (code) {
    answer = PyObject_CallFunction(p->fail, "i", (int)code);
  } else if (p->results == 1) {
    answer = Py_NewRef(pool[p->found[0]]);
  } else if ((answer = PyTuple_New(p->results))) {
    for (Py_ssize_t k = 0; k < p->results; k++) PyTuple_SET_ITEM(answer, k, Py_NewRef(pool[p->found[k]]));
  }
  for (Py_ssize_t k = 0; k < p->given; k++) Py_DECREF(pool[k]);
done:
  while (--made >= p->given) Py_DECREF(pool[made]);
  return answer;
}

/* plans(args, named or None) */
static PyObject *plans_call(PyObject *me, PyObject *const *values, Py_ssize_t count) {
  Plans *self = (Plans *)me;
  if (count != 2 || !PyTuple_Check(values[0]) || (values[1] != Py_None && !PyDict_Check(values[1]))) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple, and a dict or None");
    return NULL;
  }
  PyObject *pool[2 * MOST_ARGUMENTS];
  for (Py_ssize_t k = 0; k < self->count; k++) {
    if (matched(self, self->plans[k], values[0], values[1], pool)) return perform(self->plans[k], pool);
  }
  return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
}

static int *integers(PyObject *tuple) {
  int *found = PyMem_Calloc((size_t)PyTuple_GET_SIZE(tuple) + 1, sizeof(int));
  for (Py_ssize_t k = 0; found && k < PyTuple_GET_SIZE(tuple); k++) found[k] = (int)PyLong_AsLong(PyTuple_GET_ITEM(tuple, k));
  return found;
}

/* add(function, arrays, names, written, makers, places, tail, results, fail): whether there was room for the plan.  `names` are the keywords of the last arrays. */
static PyObject *plans_add(PyObject *me, PyObject *values) {
  Plans *self = (Plans *)me;
  long long function;
  PyObject *arrays, *names, *written, *makers, *places, *tail, *results, *fail;
  if (!PyArg_ParseTuple(values, "LO!O!O!O!O!O!O!O", &function, &PyTuple_Type, &arrays, &PyTuple_Type, &names, &PyTuple_Type, &written, &PyTuple_Type, &makers,
                        &PyTuple_Type, &places, &PyTuple_Type, &tail, &PyTuple_Type, &results, &fail))
    return NULL;
  const Py_ssize_t given = PyTuple_GET_SIZE(arrays), arguments = PyTuple_GET_SIZE(places) + PyTuple_GET_SIZE(tail);
  if (self->count == MOST_PLANS || arguments > MOST_ARGUMENTS || given + PyTuple_GET_SIZE(makers) > MOST_ARGUMENTS || PyTuple_GET_SIZE(names) > given) Py_RETURN_FALSE;
  for (Py_ssize_t k = 0; k < given; k++) {
    if (Py_TYPE(PyTuple_GET_ITEM(arrays, k)) != self->array) Py_RETURN_FALSE;
  }
  Plan *p = PyMem_Calloc(1, sizeof(Plan));
  if (!p) return PyErr_NoMemory();
  p->function = function;
  p->given = given;
  p->positions = given - PyTuple_GET_SIZE(names);
  p->fresh = PyTuple_GET_SIZE(makers);
  p->arguments = arguments;
  p->pointers = (int)PyTuple_GET_SIZE(places);
  p->results = PyTuple_GET_SIZE(results);
  p->makers = Py_NewRef(makers);
  p->fail = Py_NewRef(fail);
  p->places = integers(places);
  p->found = integers(results);
  p->tail = PyMem_Calloc((size_t)PyTuple_GET_SIZE(tail) + 1, sizeof(int64_t));
  p->kinds = PyMem_Calloc((size_t)given + 1, sizeof(Kind));
  for (Py_ssize_t k = 0; p->tail && k < PyTuple_GET_SIZE(tail); k++) p->tail[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(tail, k));
  for (Py_ssize_t k = 0; p->kinds && k < given; k++) {
    const Array *a = (const Array *)PyTuple_GET_ITEM(arrays, k);
    Kind *kind = &p->kinds[k];
    kind->descr = Py_NewRef(a->descr);
    kind->name = k < p->positions ? NULL : Py_NewRef(PyTuple_GET_ITEM(names, k - p->positions));
    kind->nd = a->nd;
    kind->written = PyObject_IsTrue(PyTuple_GET_ITEM(written, k));
    kind->axes = PyMem_Calloc(2 * (size_t)a->nd + 1, sizeof(Py_ssize_t));
    if (!kind->axes) break;
    memcpy(kind->axes, a->dimensions, (size_t)a->nd * sizeof(Py_ssize_t));
    memcpy(kind->axes + a->nd, a->strides, (size_t)a->nd * sizeof(Py_ssize_t));
  }
  int whole = p->places && p->found && p->tail && p->kinds;
  for (Py_ssize_t k = 0; whole && k < given; k++) whole = p->kinds[k].axes != NULL;
  if (!whole || PyErr_Occurred()) {
    plan_free(p);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  self->plans[self->count++] = p;
  Py_RETURN_TRUE;
}

static PyObject *plans_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  PyObject *array;
  if (!PyArg_ParseTuple(args, "O!", &PyType_Type, &array)) return NULL;
  Plans *self = (Plans *)type->tp_alloc(type, 0);
  if (self) self->array = (PyTypeObject *)Py_NewRef(array);
  return (PyObject *)self;
}

static void plans_dealloc(PyObject *me) {
  Plans *self = (Plans *)me;
  for (Py_ssize_t k = 0; k < self->count; k++) plan_free(self->plans[k]);
  Py_XDECREF(self->array);
  Py_TYPE(me)->tp_free(me);
}

static PyMethodDef plans_methods[] = {
  {"run", (PyCFunction)(void (*)(void))plans_call, METH_FASTCALL, "run(args, named or None): the results, or NotImplemented."},
  {"add", plans_add, METH_VARARGS, "Keep a plan; False where there is no room."},
  {NULL, NULL, 0, NULL},
};

static PyTypeObject PlansType = {
  PyVarObject_HEAD_INIT(NULL, 0).tp_name = "luminal_calls.Plans",
  .tp_basicsize = sizeof(Plans),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_new = plans_new,
  .tp_dealloc = plans_dealloc,
  .tp_methods = plans_methods,
};

/* look(array): address, extents and strides, the address of its dtype, whether it may be written. */
static PyObject *look(PyObject *module, PyObject *given) {
  const Array *a = (const Array *)given;
  PyObject *axes = PyTuple_New(2 * (Py_ssize_t)a->nd);
  for (int k = 0; axes && k < a->nd; k++) {
    PyTuple_SET_ITEM(axes, k, PyLong_FromSsize_t(a->dimensions[k]));
    PyTuple_SET_ITEM(axes, a->nd + k, PyLong_FromSsize_t(a->strides[k]));
  }
  return axes ? Py_BuildValue("(NNNi)", PyLong_FromVoidPtr(a->data), axes, PyLong_FromVoidPtr(a->descr), (a->flags & WRITEABLE) != 0) : NULL;
}

static PyMethodDef methods[] = {{"look", look, METH_O, "What an array says of itself."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "luminal_calls", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_luminal_calls(void) {
  if (PyType_Ready(&PlansType) < 0) return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (module && PyModule_AddObjectRef(module, "Plans", (PyObject *)&PlansType) < 0) Py_CLEAR(module);
  return module;
}
