"""A small compiler: generated functions to machine code in some milliseconds, by llvmlite alone.

Numba takes half a second for the formulas of a query, because it infers the type of every expression. Here
types are known: generated code and `kernels.values` use 64-bit integers, doubles and truths, in assignments,
if, while, for over range, and return. Anything else raises NotImplementedError.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

INT, FLOAT, TRUTH, NOTHING = ir.IntType(64), ir.DoubleType(), ir.IntType(1), ir.VoidType()
TYPES: dict[str, Any] = {"int": INT, "float": FLOAT, "bool": TRUTH, "None": NOTHING}
CONSTANTS = {"INF": math.inf, "NAN": math.nan, "MAX": 2**63 - 1, "MIN": -(2**63), "HALF": 2**32}
MATHS = {
    "exp": "llvm.exp", "power": "llvm.pow", "ceil": "llvm.ceil", "floor": "llvm.floor", "sqrt": "llvm.sqrt",
    "log": "llvm.log",
}  # fmt: skip
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(slots=True)
class Compiled:
    """Functions in memory: their addresses, and the engine that keeps them there."""

    addresses: dict[str, int]
    engine: Any = field(repr=False)


def compile_source(text: str, helpers: Any) -> Compiled:
    """Compile the functions of a module.

    Args:
        text: the source of the module; arguments and results without an annotation are integers.
        helpers: a module whose annotated functions may be called.
    """
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    own = _functions(text)
    nodes = {**_select_helpers(own, _functions(inspect.getsource(helpers))), **own}
    functions = {name: _declare(module, node) for name, node in nodes.items()}
    for name, node in nodes.items():
        functions[name].linkage = "external" if name in own else "internal"
        _Body(module, functions, functions[name]).write(node)
    return _assemble(module, list(own))


@functools.lru_cache(maxsize=4)
def _functions(text: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def _select_helpers(
    own: dict[str, ast.FunctionDef], helpers: dict[str, ast.FunctionDef]
) -> dict[str, ast.FunctionDef]:
    """Return the helpers that functions name; helpers do not call each other."""
    names = {each.id for node in own.values() for each in ast.walk(node) if isinstance(each, ast.Name)}
    return {name: node for name, node in helpers.items() if name in names}


def _declare(module: ir.Module, node: ast.FunctionDef) -> ir.Function:
    args = [_type(each.annotation) for each in node.args.args]
    return ir.Function(module, ir.FunctionType(_type(node.returns), args), node.name)


def _type(annotation: ast.expr | None) -> Any:
    return INT if annotation is None else TYPES[ast.unparse(annotation)]


def _target() -> Any:
    """Return this processor as a target; an engine takes ownership of its target, so each needs its own."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )


def _assemble(module: ir.Module, names: list[str]) -> Compiled:
    parsed = llvm.parse_assembly(str(module))
    target = _target()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.finalize_object()
    return Compiled({name: engine.get_function_address(name) for name in names}, engine)


class _Body:
    """Writes the instructions of one function."""

    def __init__(self, module: ir.Module, functions: dict[str, ir.Function], function: ir.Function) -> None:
        self.module = module
        self.functions = functions
        self.function = function
        self.entry = function.append_basic_block()
        self.build = ir.IRBuilder(function.append_basic_block())
        self.variables: dict[str, Any] = {}

    def write(self, node: ast.FunctionDef) -> None:
        """Write the whole function."""
        first = self.build.block
        for argument, given in zip(node.args.args, self.function.args, strict=True):
            self._assign(argument.arg, given)
        self._block(node.body)
        if not self.build.block.is_terminated:
            self.build.ret_void() if self.function.return_value.type == NOTHING else self.build.unreachable()
        ir.IRBuilder(self.entry).branch(first)

    # ---- statements

    def _block(self, body: list[ast.stmt]) -> None:
        """Write statements; variables that they introduce are not known after them."""
        outside = dict(self.variables)
        for statement in body:
            if not self.build.block.is_terminated:
                self._statement(statement)
        self.variables = outside

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign([ast.Name(name)], value):
                self._assign(name, self._value(value))
            case ast.AugAssign(ast.Name(name) as target, op, value):
                self._assign(name, self._arithmetic(op, self._value(_read(target)), self._value(value)))
            case ast.Return(None):
                self.build.ret_void()
            case ast.Return(value) if value is not None:
                self.build.ret(self._as(self._value(value), self.function.return_value.type))
            case ast.If(test, body, rest):
                self._if(test, body, rest)
            case ast.While(test, body, []):
                self._while(lambda: self._value(test), body)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [end], []), body, []):
                self._for(name, end, body)
            case ast.Expr(ast.Call() as call):
                self._value(call)
            case ast.Pass() | ast.Expr(ast.Constant()):
                pass
            case _:
                raise NotImplementedError(ast.unparse(node))

    def _assign(self, name: str, value: Any) -> None:
        if name not in self.variables:
            self.variables[name] = ir.IRBuilder(self.entry).alloca(value.type, name=name)
        place = self.variables[name]
        self.build.store(self._as(value, place.type.pointee), place)

    def _if(self, test: ast.expr, body: list[ast.stmt], rest: list[ast.stmt]) -> None:
        then, other, after = (self.function.append_basic_block() for _ in range(3))
        self.build.cbranch(self._truth(self._value(test)), then, other)
        for block, statements in ((then, body), (other, rest)):
            self.build.position_at_end(block)
            self._block(statements)
            if not self.build.block.is_terminated:
                self.build.branch(after)
        self.build.position_at_end(after)

    def _while(self, test: Callable[[], Any], body: list[ast.stmt]) -> None:
        head, inside, after = (self.function.append_basic_block() for _ in range(3))
        self.build.branch(head)
        self.build.position_at_end(head)
        self.build.cbranch(self._truth(test()), inside, after)
        self.build.position_at_end(inside)
        self._block(body)
        if not self.build.block.is_terminated:
            self.build.branch(head)
        self.build.position_at_end(after)

    def _for(self, name: str, end: ast.expr, body: list[ast.stmt]) -> None:
        stop = self._value(end)
        self._assign(name, ir.Constant(INT, 0))
        step = ast.parse(f"{name} += 1").body
        place = self.variables[name]
        self._while(lambda: self.build.icmp_signed("<", self.build.load(place), stop), [*body, *step])

    # ---- expressions

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(bool() as value):
                return ir.Constant(TRUTH, int(value))
            case ast.Constant(int() as value):
                return ir.Constant(INT, value)
            case ast.Constant(float() as value):
                return ir.Constant(FLOAT, value)
            case ast.Name(name) if name in self.variables:
                return self.build.load(self.variables[name])
            case ast.Name(name):
                return self._constant(_look_up(CONSTANTS, name, "name"))
            case ast.Attribute(ast.Name("math"), name):
                return self._constant(_look_up({"inf": math.inf, "nan": math.nan}, name, "constant"))
            case ast.BinOp(left, op, right):
                return self._arithmetic(op, self._value(left), self._value(right))
            case ast.UnaryOp(op, operand):
                return self._unary(op, operand)
            case ast.BoolOp(op, values):
                join = self.build.and_ if isinstance(op, ast.And) else self.build.or_
                return functools.reduce(join, [self._truth(self._value(each)) for each in values])
            case ast.Compare(left, ops, rights):
                return self._comparison([left, *rights], ops)
            case ast.IfExp(test, body, orelse):
                x, y = self._meet(self._value(body), self._value(orelse))
                return self.build.select(self._truth(self._value(test)), x, y)
            case ast.Call():
                return self._call(node)
        raise NotImplementedError(ast.unparse(node))

    def _constant(self, value: float) -> Any:
        return ir.Constant(INT if isinstance(value, int) else FLOAT, value)

    def _unary(self, op: ast.unaryop, operand: ast.expr) -> Any:
        value = self._value(operand)
        if isinstance(op, ast.Not):
            return self.build.not_(self._truth(value))
        if isinstance(op, ast.USub):
            return self.build.fneg(value) if value.type == FLOAT else self.build.neg(value)
        raise NotImplementedError(ast.dump(op))

    def _comparison(self, operands: list[ast.expr], ops: list[ast.cmpop]) -> Any:
        values = [self._value(each) for each in operands]
        tests = []
        for op, left, right in zip(ops, values, values[1:], strict=False):
            x, y = self._meet(left, right)
            if x.type == TRUTH:
                x, y = self._as(x, INT), self._as(y, INT)
            name = _look_up(COMPARE, type(op), "comparison")
            if x.type == FLOAT:
                unequal = self.build.fcmp_unordered if name == "!=" else self.build.fcmp_ordered
                tests.append(unequal(name, x, y))
            else:
                tests.append(self.build.icmp_signed(name, x, y))
        return functools.reduce(self.build.and_, tests)

    def _arithmetic(self, op: ast.operator, left: Any, right: Any) -> Any:
        build = self.build
        if isinstance(op, ast.Div):
            return build.fdiv(self._as(left, FLOAT), self._as(right, FLOAT))
        x, y = self._meet(left, right)
        doubles = x.type == FLOAT
        match op:
            case ast.Add():
                return build.fadd(x, y) if doubles else build.add(x, y)
            case ast.Sub():
                return build.fsub(x, y) if doubles else build.sub(x, y)
            case ast.Mult():
                return build.fmul(x, y) if doubles else build.mul(x, y)
            case ast.BitAnd():
                return build.and_(x, y)
            case ast.BitOr():
                return build.or_(x, y)
            case ast.RShift():
                return build.ashr(x, y)
            case ast.FloorDiv() | ast.Mod() if not doubles:
                return self._divide(op, x, y)
        raise NotImplementedError(ast.dump(op))

    def _divide(self, op: ast.operator, x: Any, y: Any) -> Any:
        """Divide as Python does: towards minus infinity, the remainder with the sign of y."""
        build, zero = self.build, ir.Constant(INT, 0)
        rest = build.srem(x, y)
        odd = build.icmp_signed("<", build.xor(rest, y), zero)
        adjust = build.and_(build.icmp_signed("!=", rest, zero), odd)
        if isinstance(op, ast.Mod):
            return build.select(adjust, build.add(rest, y), rest)
        quotient = build.sdiv(x, y)
        return build.select(adjust, build.sub(quotient, ir.Constant(INT, 1)), quotient)

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise NotImplementedError(ast.unparse(node))
        args = [self._value(each) for each in node.args]
        match node.func:
            case ast.Name("load"):
                return self.build.load(self._pointer(args[0], INT))
            case ast.Name("load_float"):
                return self.build.load(self._pointer(args[0], FLOAT))
            case ast.Name("store"):
                return self.build.store(self._as(args[1], INT), self._pointer(args[0], INT))
            case ast.Name("store_float"):
                return self.build.store(self._as(args[1], FLOAT), self._pointer(args[0], FLOAT))
            case ast.Name("float"):
                return self._as(args[0], FLOAT)
            case ast.Name("int"):
                return self.build.fptosi(args[0], INT) if args[0].type == FLOAT else self._as(args[0], INT)
            case ast.Name("abs"):
                return self._absolute(args[0])
            case ast.Name("max"):
                x, y = self._meet(*args)
                return self.build.select(self.build.icmp_signed(">", x, y), x, y)
            case ast.Attribute(ast.Name("math"), "fmod"):
                return self.build.frem(*args)
            case ast.Attribute(ast.Name("np" | "math"), name):
                return self.build.call(self._intrinsic(_look_up(MATHS, name, "function"), len(args)), args)
            case ast.Name(name):
                function = _look_up(self.functions, name, "function")
                given = [self._as(arg, want.type) for arg, want in zip(args, function.args, strict=True)]
                return self.build.call(function, given)
        raise NotImplementedError(ast.unparse(node))

    def _intrinsic(self, name: str, count: int) -> ir.Function:
        return self.module.declare_intrinsic(name, [FLOAT], ir.FunctionType(FLOAT, [FLOAT] * count))

    def _absolute(self, value: Any) -> Any:
        if value.type == FLOAT:
            return self.build.call(self._intrinsic("llvm.fabs", 1), [value])
        negative = self.build.icmp_signed("<", value, ir.Constant(INT, 0))
        return self.build.select(negative, self.build.neg(value), value)

    # ---- kinds

    def _pointer(self, address: Any, type_: Any) -> Any:
        return self.build.inttoptr(address, type_.as_pointer())

    def _truth(self, value: Any) -> Any:
        if value.type == TRUTH:
            return value
        if value.type == FLOAT:
            return self.build.fcmp_unordered("!=", value, ir.Constant(FLOAT, 0.0))
        return self.build.icmp_signed("!=", value, ir.Constant(INT, 0))

    def _as(self, value: Any, type_: Any) -> Any:
        """Return a value as another kind: a truth as 0 or 1, an integer as a double."""
        if type_ in (value.type, NOTHING):
            return value
        if type_ == TRUTH:
            return self._truth(value)
        if type_ == INT and value.type == TRUTH:
            return self.build.zext(value, INT)
        if type_ == FLOAT:
            return self.build.sitofp(self._as(value, INT), FLOAT)
        raise NotImplementedError(f"{value.type} as {type_}")

    def _meet(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Return two values of one kind: doubles if either is a double, else integers."""
        if left.type == right.type:
            return left, right
        wide = FLOAT if FLOAT in (left.type, right.type) else INT
        return self._as(left, wide), self._as(right, wide)


def _look_up(names: dict[Any, Any], name: Any, what: str) -> Any:
    """Return the meaning of a name, or raise NotImplementedError."""
    if name not in names:
        raise NotImplementedError(f"{what} {name}")
    return names[name]


def _read(target: ast.Name) -> ast.Name:
    return ast.Name(target.id, ast.Load())
