"""Identities that hold exactly for every value, NaN, infinities and both zeros included; one line each.

What fails for floats stands under "integer": x + 0 (−0 becomes 0), x · 0 and x − x (NaN), 0 − x (0 for 0).  What fails for
unsigned integers stands under "signed": |−x|.
"""

from __future__ import annotations

from .pattern import Rule

ALGEBRA: tuple[Rule, ...] = (
    # sums
    Rule("(add x 0)", "x", "integer"),
    Rule("(add x -0)", "x", "float"),
    Rule("(sub x 0)", "x", "number"),
    Rule("(sub x x)", "0", "integer"),
    Rule("(sub 0 x)", "(neg x)", "integer"),
    Rule("(add x (neg y))", "(sub x y)", "number"),
    Rule("(sub x (neg y))", "(add x y)", "number"),
    Rule("(neg (neg x))", "x", "number"),
    Rule("(neg (sub x y))", "(sub y x)", "integer"),
    # products
    Rule("(mul x 1)", "x", "number"),
    Rule("(mul x 0)", "0", "integer"),
    Rule("(mul x -1)", "(neg x)", "float"),
    Rule("(mul (neg x) (neg y))", "(mul x y)", "number"),
    Rule("(div x 1)", "x", "float"),
    Rule("(div 1 x)", "(recip x)", "float"),
    Rule("(floordiv x 1)", "x", "integer"),
    Rule("(mod x 1)", "0", "integer"),
    Rule("(pow x 1)", "x", "number"),
    Rule("(pow x 0)", "1", "number"),
    Rule("(fma x 1 y)", "(add x y)", "number"),
    Rule("(fma x y 0)", "(mul x y)", "integer"),
    # order
    Rule("(max x x)", "x"),
    Rule("(min x x)", "x"),
    Rule("(max x -inf)", "x", "float"),
    Rule("(min x inf)", "x", "float"),
    Rule("(abs (abs x))", "(abs x)", "number"),
    Rule("(abs (neg x))", "(abs x)", "signed"),
    Rule("(less_than x x)", "false"),
    Rule("(less_equal x x)", "true", "integer"),
    Rule("(equal x x)", "true", "integer"),
    Rule("(not_equal x x)", "false", "integer"),
    Rule("(floor (floor x))", "(floor x)", "float"),
    Rule("(ceil (ceil x))", "(ceil x)", "float"),
    Rule("(trunc (trunc x))", "(trunc x)", "float"),
    Rule("(round (round x))", "(round x)", "float"),
    # choices (the kind is that of what is chosen)
    Rule("(where c x x)", "x"),
    Rule("(where true x y)", "x"),
    Rule("(where false x y)", "y"),
    Rule("(where (bit_not c) x y)", "(where c y x)"),
    Rule("(where c true false)", "c", "bool"),
    Rule("(where c (where c x y) z)", "(where c x z)"),
    Rule("(where c x (where c y z))", "(where c x z)"),
    # bits and logic
    Rule("(bit_not (bit_not x))", "x"),
    Rule("(bit_and x x)", "x"),
    Rule("(bit_or x x)", "x"),
    Rule("(bit_xor x x)", "0", "integer"),
    Rule("(bit_xor x x)", "false", "bool"),
    Rule("(bit_and x true)", "x", "bool"),
    Rule("(bit_and x false)", "false", "bool"),
    Rule("(bit_or x false)", "x", "bool"),
    Rule("(bit_or x true)", "true", "bool"),
    Rule("(bit_and x 0)", "0", "integer"),
    Rule("(bit_or x 0)", "x", "integer"),
    Rule("(bit_xor x 0)", "x", "integer"),
    Rule("(shift_left x 0)", "x", "integer"),
    Rule("(shift_right x 0)", "x", "integer"),
)
