"""What conjugate gradients have seen of the curvature, kept for the next Newton step."""

from collections import deque
from typing import Any


class Recycled:
    """An approximate inverse of the Hessian H from directions d and products H d of earlier conjugate gradients.

    The systems of consecutive Newton steps are alike, so the BFGS inverse of these pairs is a preconditioner that
    costs no product with H (Morales & Nocedal 2000); on kernel features, whose spectrum falls fast, it halves their
    number. It needs sums and inner products alone, and so works in a kernel's space as well.

    most: pairs to keep; with 0 of them it is the identity.
    """

    def __init__(self, most: int):
        self.seen: deque[tuple[Any, Any, Any, float]] = deque(maxlen=most)
        self.pairs: deque[tuple[Any, Any, float]] = deque(maxlen=most)
        self.scale = 0.0

    def see(self, direction: Any, before: Any, after: Any, length: float) -> None:
        """A step of conjugate gradients: residuals before and after it, whose difference is length · H direction."""
        self.seen.append((direction, before, after, length))

    def learn(self) -> None:
        """Take over what was seen: while conjugate gradients run, their preconditioner must not change."""
        for direction, before, after, length in self.seen:
            product = (before - after) * (1 / length)
            bend = float(direction @ product)
            if bend > 0:
                self.scale = max(self.scale, bend / float(product @ product))
                self.pairs.append((direction, product, bend))
        self.seen.clear()

    def __call__(self, r: Any) -> Any:
        """About H⁻¹ r."""
        if not self.pairs:
            return r
        shares = []
        for direction, product, bend in reversed(self.pairs):
            shares.append(float(direction @ r) / bend)
            r = r - shares[-1] * product
        r = self.scale * r
        for (direction, product, bend), share in zip(self.pairs, reversed(shares)):
            r = r + (share - float(product @ r) / bend) * direction
        return r
