"""Trust-region truncated Newton for smooth objectives (Lin & Moré's TRON, Steihaug's conjugate gradients).

Large data sets are redundant: a small part of the queries gives nearly the same optimum and nearly the same curvature.
So if the objective offers `samples()`, small ones are solved first for a start, and the Hessian of the largest one is
used afterwards. Value, gradient and acceptance of steps always come from the whole objective, and its own Hessian is
used once the sample's steps make too little progress. The certificate is a gap of the whole objective, too: a sample
only helps to find the bound (`gap_by_tangents`).

`closed_form` takes Newton's one exact step of a least-squares objective, and `reranking` such steps on a loss whose
pair weights follow the ranking: the fixed points of LambdaRank.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, Unpack

import numpy as np
import scipy.linalg

from hingerank.arrays import Facts, Vector
from hingerank.kernels.threads import AS_BEFORE, LONG, serial_blas
from hingerank.problem.least_squares import LeastSquaresProblem
from hingerank.problem.problem import Objective, Point, Problem
from hingerank.solvers.run import GAP, ROUNDING, STATIONARY, Limits, Run, Solution, relative

# fractions of the predicted decrease: below ACCEPT a step is refused, below POOR the trust region shrinks
ACCEPT, POOR = 1e-4, 0.25
PAYING = 0.5  # a step with a sampled Hessian must cut the gradient to this fraction
HARD = 0.5  # products per dimension above which an explicit Hessian is cheaper (benchmarks/linear.py --hessian)
NEAR = 10  # below this multiple of the tolerance a part of the step that is known in advance is taken first
EXACT, CHEAP = 0.1, 0.02  # smallest residual relative to the gradient, for the Hessian's products and for a sample's
ROUGH = 1e-2  # relative gradient to which samples are solved
ROUNDS, LINEAR = 4, 0.1  # iterations for a gap by tangents, at most; each must cut its squared residual to this
UNEVEN = 1e3  # ratio of largest to smallest diagonal entry from which the diagonal is used as a preconditioner
PATIENCE = 30  # steps in a finite trust region, after which lines are searched instead
LEVEL, TRIALS = 0.1, 40  # such a search ends at this fraction of the first slope, or after so many evaluations
FULL_STEPS = 10  # before they get shorter, as they must if the ranking alternates


class Recycled:
    """An approximate inverse of the Hessian H from directions d and products H d of earlier conjugate gradients.

    The systems of consecutive Newton steps are similar, so the BFGS inverse of these pairs is a preconditioner that
    costs no product with H (Morales & Nocedal 2000); on kernel features, whose spectrum falls fast, it halves their
    number. It needs only sums and inner products, and so works in a kernel's space as well.

    most: pairs to keep. diagonal: an approximation of that of H, with whose inverse it begins; None for the identity.
    like: the inverse of a similar Hessian, such as a sample's, to start from.
    """

    def __init__(self, most: int, diagonal: Vector = None, like: "Recycled | None" = None):
        # steps of conjugate gradients: direction, residual before and after, whose difference is length · H direction
        self.seen: deque[tuple[Vector, Vector, Vector, float]] = deque(maxlen=most)
        self.pairs: deque[tuple[Vector, Vector, float]] = deque(() if like is None else like.pairs, maxlen=most)
        self.diagonal, self.scale = diagonal, 0.0
        for _, product, curvature in self.pairs:
            self._fit_scale(product, curvature)

    def learn(self) -> None:
        """Start using what was seen: a preconditioner must not change while conjugate gradients run."""
        for direction, before, after, length in self.seen:
            product = (before - after) * (1 / length)
            curvature = float(direction @ product)
            if curvature > 0:
                self._fit_scale(product, curvature)
                self.pairs.append((direction, product, curvature))
        self.seen.clear()

    def __call__(self, r: Vector) -> Vector:
        """An approximation of H⁻¹ r."""
        steps = []
        for direction, product, curvature in reversed(self.pairs):
            steps.append(float(direction @ r) / curvature)
            r = r - steps[-1] * product
        r = r if self.diagonal is None else r / self.diagonal
        r = self.scale * r if self.pairs else r
        for (direction, product, curvature), step in zip(self.pairs, reversed(steps)):
            r = r + (step - float(product @ r) / curvature) * direction
        return r

    def _fit_scale(self, product: Vector, curvature: float) -> None:
        scaled = product if self.diagonal is None else product / self.diagonal
        self.scale = max(self.scale, curvature / float(product @ scaled))


def newton(objective: Objective, w: Vector = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise a once differentiable f until its duality gap, relative to gain and objective (solvers/run.py), is
    at most tol.

    w: start, default 0. If f is not convex, the certificate measures stationarity (see Objective.gap).
    """
    run = Run("gap", **limits)
    with serial_blas() if objective.dimension > LONG else AS_BEFORE:
        (samples, scale), zero, inverse = samples_of(objective), np.zeros(objective.dimension), None
        if samples:  # the whole objective is first evaluated at their solution
            run.origin = objective.origin()
            if w is None or not np.any(w):
                w, inverse = solve_samples(objective, samples, scale, run)
            point = objective.at(w)
        else:
            point = objective.at(zero)
            scale, run.origin = float(np.linalg.norm(point.gradient)), point.value
            point = point if w is None or not np.any(w) else objective.at(w)
        if not objective.convex:  # it may end above f(0), but not above where it starts
            run.origin = max(run.origin, point.value)
        model = samples[-1] if samples else None
        tangents = RelativeGap(run) if model is not None and objective.convex else None
        point, _ = newton_from(objective, point, scale, run, model, inverse, tangents)
        return run.solution(GAP if objective.convex else STATIONARY, point.w, point.value, len(run.trace) - 1)


def samples_of(objective: Objective) -> tuple[Sequence[Objective], float]:
    """The samples, and the norm of the gradient at 0 of the last one, a unit; none where that is 0, since such samples
    say nothing: every 4th query may have no features."""
    samples = objective.samples()
    scale = float(np.linalg.norm(samples[-1].at(np.zeros(objective.dimension)).gradient)) if samples else 0.0
    return (samples if scale > 0 else []), scale


def solve_samples(
    objective: Objective, samples: Sequence[Objective], scale: float, run: Run
) -> tuple[Vector, Recycled | None]:
    """The start: the samples solved roughly, each from the one before, in the time left, and then a step for every
    larger one with the Hessian of the last; and the preconditioner learned from their Hessian products."""
    w, inverse = np.zeros(objective.dimension), None
    for sample in samples:
        rough = Run("gradient", ROUGH, 20, run.max_seconds - run.seconds)
        point, inverse = newton_from(sample, sample.at(w), scale, rough, inverse=inverse)
        w = point.w
    for larger in objective.samples(larger=True) if objective.convex else ():
        curvature, gradient = samples[-1].at(w).curvature, larger.at(w).gradient
        w = w + conjugate_gradients(curvature, gradient, np.inf, 0.0, None, inverse)[0]
    return w, inverse


def newton_from(
    objective: Objective, point: Point, scale: float, run: Run, model: Objective | None = None,
    inverse: Recycled | None = None, tangents: "TangentGap | None" = None,
) -> tuple[Point, Recycled]:  # fmt: skip
    """The point after Newton's steps, until the run stops them, and the preconditioner learned on the way.

    scale: the gradient's norm at 0, the unit of gradients in the trace. model: a sample, whose Hessian is used.
    inverse: the preconditioner of a similar Hessian. tangents: what the gaps by tangents of a convex loss are for.
    """
    radius, products, norm, iteration = np.inf, 0, float(np.linalg.norm(point.gradient)), 0
    diagonal = objective.diagonal(point)
    if isinstance(diagonal, np.ndarray):  # no blocks: used only if so uneven that it pays (Hsia, Chiang & Lin 2018)
        uneven = np.isfinite(diagonal).all() and diagonal.max() >= UNEVEN * diagonal.min()
        diagonal = diagonal if uneven else None
    inverse = Recycled(objective.recycled, diagonal, inverse)
    hard = False  # whether conjugate gradients needed more products than factorising the Hessian would cost
    held = 0  # steps in a finite trust region
    while True:
        gradient = norm / scale if scale > 0 else 0.0
        figures: Facts = {"iteration": iteration, "value": point.value, "gradient": gradient}
        if run.measured == "gap":
            gap, least = objective.gap(point)
            figures["gap"] = run.relative(gap, point.value, least)
        left = 1.0  # the factor by which the gradient must still fall
        if figures[run.measured] > run.tol:
            ratio = run.tol / figures[run.measured]
            left = float(np.sqrt(ratio)) if run.measured == "gap" else ratio
        if model is not None and figures[run.measured] > run.tol:
            here = model.at(point.w)
            step, forecast, used = conjugate_gradients(
                here.curvature, point.gradient, radius, 0.5 * norm * left, None, inverse, CHEAP
            )
            products += used
            if tangents is not None and tangents.may_suffice(point, model.factor * forecast):
                gap, used = gap_by_tangents(point, model, here, step, inverse, tangents)
                products += used
                if run.measured == "gap":
                    figures["gap"] = min(figures["gap"], gap)
        if run.stops(w=point.w, **figures, products=products):
            return point, inverse
        iteration += 1
        lines = held > PATIENCE and objective.convex
        if lines:
            radius = np.inf
        if model is None and hard and point.hessian is not None:
            step, forecast = exact_step(point.hessian(), point.gradient, radius)
        elif model is None:
            first = point.first() if point.first is not None and NEAR * left >= 1.0 else None
            step, forecast, used = conjugate_gradients(
                point.curvature, point.gradient, radius, 0.5 * left * norm, first, inverse, CHEAP if lines else EXACT
            )
            products += used
            hard = used > HARD * len(step)
        if lines:
            following = search_line(objective, point, step)
        else:
            following, radius = try_step(objective, point, step, forecast, radius)
            held += radius < np.inf
        before, norm = norm, float(np.linalg.norm(following.gradient))
        if following is point and model is None:
            run.status = "stalled"
            return point, inverse
        if following is point or norm > PAYING * before:
            model = None
        point = following


class TangentGap(Protocol):
    """What a gap by tangents is for."""

    def may_suffice(self, point: Point, gap: float) -> bool:
        """Whether a gap of about this size would be small enough."""
        ...

    def judge(self, point: Point, here: Point, there: Point, r: Vector, curved: float) -> tuple[float, float]:
        """(Relative gap, by how much ½‖r‖² may exceed 0) for what `gap_by_tangents` found; 0 ends its search."""
        ...


class RelativeGap(TangentGap):
    """The gap of a smooth objective relative to gain and objective."""

    def __init__(self, run: Run):
        self.run = run

    def may_suffice(self, point: Point, gap: float) -> bool:
        return relative(gap, point.value, self.run.origin) <= self.run.tol

    def judge(self, point: Point, here: Point, there: Point, r: Vector, curved: float) -> tuple[float, float]:
        gap, v = 0.5 * float(r @ r) + curved, point.w - r
        ratio = relative(gap, point.value, self.run.origin, 0.5 * float(v @ v))
        return ratio, 0.0 if ratio <= self.run.tol else gap * self.run.tol / ratio - curved


def gap_by_tangents(
    point: Point, sample: Objective, here: Point, step: Vector, inverse: Recycled, tangents: TangentGap
) -> tuple[float, int]:
    """(The smallest relative gap between f(w) and the optimum from the tangents of the loss at w and at another point,
    Hessian products); here: the sample at w; step: Newton's, with its Hessian.

    A convex loss is nowhere below its tangents. So f is at least ½‖·‖² plus the tangents at w, whose minimum is
    ½‖∇f(w)‖² below f(w): for a steep loss far more than f can fall. With the tangents at another point u for the loss
    L of the sample's queries alone, the minimum is below f(w) by

        ½‖r‖² + C (L(w) - L(u) - <∇L(u), w - u>),    r = ∇f(w) + C (∇L(u) - ∇L(w)).

    The sample's objective is h = ½‖·‖² + k C L, with k its factor. If ∇h(u) = ∇h(w) - k ∇f(w), then r = (w - u) / k,
    and the gap is about k times the decrease that Newton's step predicts. So u is first w + k step, and then an iterate
    of Newton's method for that equation.
    """
    best, used, k, u = np.inf, 0, sample.factor, point.w + sample.factor * step
    left = float(point.gradient @ point.gradient)
    for _ in range(ROUNDS):
        there, apart = sample.at(u), u - point.w
        residual = there.gradient - here.gradient + k * point.gradient
        r = (residual - apart) * (1 / k)
        curved = here.value - there.value + float(there.gradient @ apart) - 0.5 * float(apart @ apart)
        curved = max(curved, 0.0) / k + ROUNDING * abs(point.value)
        gap, allowed = tangents.judge(point, here, there, r, curved)
        best, before, left = min(best, gap), left, float(r @ r)
        if not allowed > 0 or left > LINEAR * before:
            break
        goal = k * float(np.sqrt(0.1 * allowed))
        step, _, more = conjugate_gradients(there.curvature, residual, np.inf, goal, None, inverse, CHEAP)
        u, used = u + step, used + more
    return best, used


def exact_step(hessian: np.ndarray, gradient: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The Newton step, shortened to the trust region: (step, predicted decrease)."""
    try:
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), gradient)
    except np.linalg.LinAlgError:  # flat directions vanish in rounding: bound all curvatures from below by that
        values, axes = np.linalg.eigh(hessian)
        least = np.finfo(float).eps * len(values) * float(values[-1])
        step = -axes @ ((gradient @ axes) / np.maximum(values, least))
    length = float(np.linalg.norm(step))
    if length > radius:
        step *= radius / length
    return step, -float(gradient @ step) - 0.5 * float(step @ (hessian @ step))


def conjugate_gradients(
    curvature: Callable[[Vector], Vector],
    gradient: Vector,
    radius: float,
    target: float,
    first: tuple[Vector, Vector] | None = None,
    inverse: Recycled | None = None,
    least: float = EXACT,
) -> tuple[Vector, float, int]:
    """Approximately minimise the quadratic model in the trust region: (step, predicted decrease, Hessian products).

    first: a step to begin with and its Hessian product; skipped if it does not descend. inverse: a preconditioner that
    learns from the products; not used after a first step, whose exact zeros it would disturb. least: the fraction of
    the gradient at which the residual is always small enough.
    """
    r, step = -gradient, np.zeros_like(gradient)
    norm, used = float(np.linalg.norm(r)), 0
    goal = max(least * norm, min(target, 0.5 * norm))
    if first is not None and np.linalg.norm(first[0]) < radius:
        step, r = first[0], r - first[1]
        norm, inverse = float(np.linalg.norm(r)), None
    inverse = Recycled(0) if inverse is None else inverse
    z = inverse(r)
    direction, rz = z.copy(), float(r @ z)
    while norm > goal and used < 2 * len(r) + 20:
        product = curvature(direction)
        used += 1
        steepness = float(direction @ product)  # dᵀ H d
        length = rz / steepness if steepness > 0 else np.inf
        if np.isinf(length) and np.isinf(radius):  # not convex here, and no radius yet: take one from the slope
            radius = float(np.linalg.norm(step)) or norm / max(abs(steepness) / rz, 1.0)
        ahead = step + length * direction if np.isfinite(length) else None
        if ahead is None or (np.isfinite(radius) and np.linalg.norm(ahead) > radius):
            length = _to_border(step, direction, radius)
            step, r = step + length * direction, r - length * product
            break
        step, previous, r = ahead, r, r - length * product
        norm = float(np.linalg.norm(r))
        inverse.seen.append((direction, previous, r, length))
        if norm <= goal:
            break
        z = inverse(r)
        rz, before = float(r @ z), rz
        direction = z + (rz / before) * direction
    inverse.learn()
    forecast = 0.5 * float(step @ (r - gradient))
    if first is not None and not forecast > 0:
        return conjugate_gradients(curvature, gradient, radius, target)
    return step, forecast, used


def _to_border(step: Vector, direction: Vector, radius: float) -> float:
    """The t > 0 with ‖step + t direction‖ = radius."""
    a, b, c = direction @ direction, step @ direction, step @ step - radius * radius
    root = np.sqrt(b * b - a * c)
    return float((root - b) / a if b <= 0 else -c / (b + root))


def try_step(objective: Objective, point: Point, step: Vector, forecast: float, radius: float) -> tuple[Point, float]:
    """The next point (the same one if no shortened step descends) and the next radius."""
    length, rounding = float(np.linalg.norm(step)), 1e-14 * abs(point.value)
    while forecast > 0:
        trial = objective.at(point.w + step)
        gain = point.value - trial.value
        flat = forecast <= 100 * rounding  # differences of values vanish in rounding: compare gradients
        if gain > ACCEPT * forecast or (flat and np.linalg.norm(trial.gradient) < np.linalg.norm(point.gradient)):
            if gain < POOR * forecast and not flat:
                return trial, 0.5 * length
            return trial, max(radius, 3 * length) if np.isfinite(radius) else radius
        if forecast <= rounding:
            break
        step, length, forecast, radius = 0.25 * step, 0.25 * length, 0.25 * forecast, 0.25 * length
    return point, radius


def search_line(objective: Objective, point: Point, step: Vector) -> Point:
    """A point along a step of a convex f where its slope is nearly 0; the same point if no other is lower.

    A loss of few pairs and a large C has steep kinks. A trust region becomes as small as the distance between two of
    them, and hundreds of steps get nowhere; along a line all of them are crossed at once.
    """
    slope, rounding = float(point.gradient @ step), ROUNDING * abs(point.value)
    best, low, high, length = point, 0.0, np.inf, 1.0
    for _ in range(TRIALS):
        trial = objective.at(point.w + length * step)
        here = float(trial.gradient @ step)
        best = trial if trial.value < best.value else best
        if abs(here) <= LEVEL * abs(slope) and trial.value <= point.value + rounding:
            return trial if best is point else best
        low, high = (length, high) if here < 0 else (low, length)  # shorter if sums overflow, too
        length = 2 * length if np.isinf(high) else 0.5 * (low + high)
    return best


def closed_form(problem: LeastSquaresProblem, w: np.ndarray | None = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise a quadratic f by one Newton step w <- w - H⁻¹ g(w), repeated only to correct rounding, until the
    relative gap (solvers/run.py) is at most tol; w is ignored, since the result does not depend on a start."""
    run = Run("gap", **limits)
    point = problem.at(np.zeros(problem.dimension))
    scale, run.origin = float(np.linalg.norm(point.gradient)), point.value
    for iteration in count():
        gap, least = problem.gap(point)
        gap = run.relative(gap, point.value, least)
        gradient = float(np.linalg.norm(point.gradient))
        if run.stops(iteration=iteration, value=point.value, gap=gap, gradient=gradient / scale if scale > 0 else 0.0):
            break
        if iteration > 1 and gap > 0.5 * run.trace[-2]["gap"]:
            run.status = "stalled"
            break
        point = problem.at(point.w - problem.minimiser(point.gradient))
    return run.solution(GAP, point.w, point.value, iteration)


def reranking(
    problem: Problem, w: Vector | None = None, *, rank: Callable[[np.ndarray], None], **limits: Unpack[Limits]
) -> Solution:
    """Search for a w that minimises the problem whose weights come from the ranking by w itself.

    rank(w) sets the loss's weights from the ranking by w. Between two such calls the problem is convex, and its
    relative duality gap at w (solvers/run.py), with the weights of w's own ranking, is the certificate: at 0 w is a
    fixed point. There need not be one, since weights jump where two rows swap ranks; steps then shrink as 1/k and
    settle in between.
    """
    run, radius = Run("gap", **limits), np.inf
    with serial_blas() if problem.dimension > LONG else AS_BEFORE:
        w = np.zeros(problem.dimension) if w is None else w
        for iteration in count():
            rank(w)
            point = problem.at(w)
            run.origin, gradient = problem.origin(), float(np.linalg.norm(point.gradient))
            gap, least = problem.gap(point)
            gap = run.relative(gap, point.value, least)
            if run.stops(iteration=iteration, value=point.value, gap=gap):
                return run.solution(STATIONARY, w, point.value, iteration)
            step, forecast, _ = conjugate_gradients(point.curvature, point.gradient, radius, 0.1 * gradient)
            following, radius = try_step(problem, point, step, forecast, radius)
            w = w + min(1.0, FULL_STEPS / (iteration + 1)) * (following.w - w)
        raise AssertionError("count() does not end")
