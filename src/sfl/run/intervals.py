"""How sure a share of successes is."""

from __future__ import annotations

from scipy import stats


def wilson(successes: int, tries: int) -> tuple[float, float]:
    """95% confidence interval of a share, in percent: Wilson's, which has a width even where all or none succeed."""
    z = float(stats.norm.ppf(0.975))
    share, weight = successes / tries, z * z / tries
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * ((share * (1 - share) + weight / 4) / tries) ** 0.5
    # At the ends it is exact, whatever rounding makes of it.
    low, high = 0.0 if successes == 0 else middle - half, 1.0 if successes == tries else middle + half
    return 100 * low, 100 * high
