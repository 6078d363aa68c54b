"""Functions in Python, JavaScript and C that scale a row's columns and pass it to `of_scaled`: a text per scaling.

Missing values stay missing, unless they are filled before, by a function that passes rows to `of_filled`. The quantiles
of all columns are in one array, column after column.
"""

_PYTHON = '''

def score(x):
    """The score of one row, whose columns are scaled first."""
    z = list(x)
    for k, j in enumerate(SCALED):
        v = x[j]
        if v is not None and v == v:
            z[j] = {}
    return of_scaled(z)
'''
SCALED_PYTHON = {
    "columns": _PYTHON.format("(v - CENTRE[k]) / WIDTH[k]"),
    "log": _PYTHON.format("copysign(log1p(abs(v)), v) / WIDTH[k]"),
    "quantile": '''

def place(v, first):
    """The position of a value among the quantiles from `first` on, from 0 to 1; the middle of equal ones."""
    last, top = first + QUANTILES, QUANTILES - 1
    low, high = bisect_left(QUANTILE, v, first, last), bisect_right(QUANTILE, v, first, last)
    if low < high:
        return 0.5 * (low + high - 1 - 2 * first) / top
    if low == first or low == last:
        return float(low == last)
    below = QUANTILE[low - 1]
    return (low - 1 - first + (v - below) / (QUANTILE[low] - below)) / top
'''
    + _PYTHON.format("place(v, QUANTILES * k)"),
}
_JAVASCRIPT = """
// the score of one row, whose columns are scaled first
function score(x) {
  const z = Array.from(x);
  for (let k = 0; k < SCALED.length; k++) {
    const v = x[SCALED[k]];
    if (v != null && v === v) z[SCALED[k]] = EXPRESSION;
  }
  return of_scaled(z);
}
"""
SCALED_JAVASCRIPT = {
    "columns": _JAVASCRIPT.replace("EXPRESSION", "(v - CENTRE[k]) / WIDTH[k]"),
    "log": _JAVASCRIPT.replace("EXPRESSION", "Math.sign(v) * Math.log1p(Math.abs(v)) / WIDTH[k]"),
    "quantile": """
// the position of a value among the quantiles from `first` on, 0 to 1: linear between two, the middle of equal ones
function place(v, first) {
  const top = QUANTILES - 1;
  let low = 0;
  while (low < QUANTILES && QUANTILE[first + low] < v) low++;
  let high = low;
  while (high < QUANTILES && QUANTILE[first + high] === v) high++;
  if (low < high) return 0.5 * (low + high - 1) / top;
  if (low === 0 || low === QUANTILES) return low === 0 ? 0 : 1;
  const below = QUANTILE[first + low - 1];
  return (low - 1 + (v - below) / (QUANTILE[first + low] - below)) / top;
}
"""
    + _JAVASCRIPT.replace("EXPRESSION", "place(v, QUANTILES * k)"),
}
_C = """
/* the score of one row, whose columns are scaled first */
double score(const double *x)
{
    double z[WIDE];
    for (int j = 0; j < WIDE; j++) z[j] = x[j];
    for (int k = 0; k < COLUMNS; k++) {
        double v = x[SCALED[k]];
        if (!isnan(v)) z[SCALED[k]] = EXPRESSION;
    }
    return of_scaled(z);
}
"""
SCALED_C = {
    "columns": _C.replace("EXPRESSION", "(v - CENTRE[k]) / WIDTH[k]"),
    "log": _C.replace("EXPRESSION", "copysign(log1p(fabs(v)), v) / WIDTH[k]"),
    "quantile": """
/* the position of a value among the quantiles from `first` on, 0 to 1: linear between two, the middle of equal ones */
static double place(double v, int first)
{
    int low = 0, top = QUANTILES - 1;
    while (low < QUANTILES && QUANTILE[first + low] < v) low++;
    int high = low;
    while (high < QUANTILES && QUANTILE[first + high] == v) high++;
    if (low < high) return 0.5 * (low + high - 1) / top;
    if (low == 0 || low == QUANTILES) return low != 0;
    double below = QUANTILE[first + low - 1];
    return (low - 1 + (v - below) / (QUANTILE[first + low] - below)) / top;
}
"""
    + _C.replace("EXPRESSION", "place(v, QUANTILES * k)"),
}

FILLED = {
    "python": '''

def score(x):
    """The score of one row; None and NaN are missing values, which are filled first."""
    gone = [v is None or v != v for v in x]
    z = [f if g else v for v, f, g in zip(x, FILL, gone)]
    return of_filled(z + [float(gone[j]) for j in MARKED])
''',
    "javascript": """
// null, undefined and NaN are missing values, which are filled first
function score(x) {
  const gone = Array.from(x, (v) => v == null || v !== v);
  const z = FILL.map((f, j) => (gone[j] ? f : x[j]));
  return of_filled(z.concat(MARKED.map((j) => Number(gone[j]))));
}
""",
    "c": """
/* NAN is a missing value, which is filled first */
double score(const double *x)
{
    double z[WIDE];
    for (int j = 0; j < N_FEATURES; j++) z[j] = isnan(x[j]) ? FILL[j] : x[j];
    for (int k = 0; k < MARKS; k++) z[N_FEATURES + k] = isnan(x[MARKED[k]]) ? 1 : 0;
    return of_filled(z);
}
""",
}
