"""Constants that are others than the model's when programs read them."""
from edits.bundle import Bundle, edit, only, put


@edit("experts", "P0638", 'rank 0 places constant "scalar_2" over another in "const scalar"')
def constant_over_another(bundle: Bundle):
    """A constant is loaded over another of its size: programs read it in the place of both."""
    for rank in bundle.spelt_out:
        placements = rank["placements"]
        scalar = only(placements, tensor="scalar", kind="constant")
        put(placements, [{**only(placements, tensor="scalar_2", kind="constant"), "in": "const scalar"}], after=scalar)
