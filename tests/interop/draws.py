"""Random cases of which some must be of a kind: drawn until they are, so that no test depends on luck."""


def until(enough, draw, least):
    """`least` cases, and more for as long as they are not `enough`."""
    cases = [draw() for _ in range(least)]
    while not enough(cases):
        assert len(cases) < 50 * least, "they never come"
        cases.append(draw())
    return cases
